"""Runs of Inspect with a jury, for test_inspect_extension.py: `python inspect_runs.py FOLDER` writes logs and runs.json there.

In a process of its own, because inspect_ai changes the standard library's zip files and leaves streams open.
"""

import json
import math
import random
import sys
import warnings
from pathlib import Path

import inspect_ai
from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score, model_graded_qa, scorer
from inspect_ai.solver import solver
from inspect_ai.util import registry_info

from adjudge.errors import OptionError
from adjudge.evaluation.inspect import jury

SKILLS = {"strict": 0.95, "lenient": 0.9, "terse": 0.8, "guessing": 0.5}


@solver
def answer():
    async def solve(state, generate):
        state.output = ModelOutput.from_content("simulated", "42" if state.metadata["right"] else "41")
        return state

    return solve


def verdict(name, skill, sample, epoch, is_right):
    """What a grader says, None if it fails."""
    chance = random.Random(f"{name}/{sample}/{epoch}")
    if chance.random() < 0.05:
        return None
    return "C" if is_right == (chance.random() < skill) else "I"


@scorer(metrics=[])
def grader(name, skill):
    async def score(state, target):
        value = verdict(name, skill, state.sample_id, state.epoch, state.metadata["right"])
        if value is None:
            raise ValueError("no grade")
        return Score(value=value)

    return score


async def plain(state, target):
    return Score(value="C")


async def silent(state, target):
    return None


def run(folder, scorer, samples, epochs=1):
    """Run a jury; return the figures of the log that the tests compare."""
    chance = random.Random(1)
    dataset = MemoryDataset(
        [Sample(id=f"q{n}", input="?", target="42", metadata={"right": chance.random() < 0.65}) for n in range(samples)]
    )
    task = Task(dataset=dataset, solver=answer(), scorer=scorer, epochs=epochs)
    (log,) = inspect_ai.eval(task, model="mockllm/model", log_dir=str(folder), display="none")
    assert log.status == "success", log.error
    scores = [next(iter(sample.scores.values())) for sample in log.samples]
    return {
        "path": log.location,
        "samples": [
            [sample.id, sample.epoch, sample.metadata["right"], None if isinstance(score.value, float) else score.value]
            for sample, score in zip(log.samples, scores, strict=True)
        ],
        "panels": [score.metadata["panel"] for score in scores],
        "metrics": {
            name: None if math.isnan(metric.value) else metric.value
            for score in log.results.scores
            for name, metric in score.metrics.items()
        },
    }


def refuse(*arguments):
    try:
        jury(*arguments)
    except OptionError as error:
        return str(error)
    raise AssertionError("not refused")


def main(folder):
    graders = [grader(*one) for one in SKILLS.items()]
    runs = {
        "once": run(folder, jury(graders, list(SKILLS)), 60),
        "twice": run(folder, jury(graders, list(SKILLS)), 60, epochs=2),
        "unnamed": run(folder, jury([grader("a", 0.9), grader("b", 0.9), plain, silent]), 4),
        "silent": run(folder, jury([silent]), 3),
        "model": run(folder, jury([model_graded_qa(model="mockllm/model"), plain]), 3),
        "refused": [refuse([]), refuse([plain, silent], ["a", "a"])],
        "name": registry_info(jury([plain])).name,
    }
    (folder / "runs.json").write_text(json.dumps(runs))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
