"""Make the logs of Inspect in this folder, and that of the tutorial, with inspect_ai itself; it calls no model and no network.

    python make_logs.py            # judges, people, rubric, numbers, chunked: with Zstandard; panel.json.gz
    python make_logs.py deflate    # with an older inspect_ai, which packs with deflate (0.3.150)

Answers and graders are simulated: an answer is right or wrong, and a grader sees that as often as its skill says.
"""

import gzip
import random
import shutil
import sys
import tempfile
from pathlib import Path

import inspect_ai
from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score, accuracy, mean, multi_scorer, scorer, stderr
from inspect_ai.solver import solver

HERE = Path(__file__).parent
TUTORIALS = HERE.parents[3] / "docs" / "tutorials"
WRONG = 3  # one answer in three


def draw(*key):
    return random.Random("/".join(map(str, key)))


@solver
def answer():
    async def solve(state, generate):
        number, is_wrong = state.metadata["sum"], state.metadata["wrong"]
        state.output = ModelOutput.from_content("simulated", f"That makes {number + is_wrong}.")
        return state

    return solve


@scorer(metrics=[accuracy(), stderr()], name="judge")
def judge(name, skill):
    """A grader who sees in `skill` of the cases whether an answer is right, refuses some, and fails on some."""

    async def score(state, target):
        chance = draw(name, state.sample_id, state.epoch)
        if chance.random() < 0.05:
            return Score(value="N", explanation="I had rather not say.")
        if chance.random() < 0.05:
            return Score(value=float("nan"), explanation="The grader's answer had no grade.")
        is_right = (not state.metadata["wrong"]) == (chance.random() < skill)
        return Score(value="C" if is_right else "I", answer=state.output.completion, explanation='It says: "NaN, \\" \u2713')

    return score


@scorer(metrics={"*": [mean()]}, name="rubric")
def rubric(skill):
    """A grader of several questions: one yes or no, one category, one number."""

    async def score(state, target):
        chance = draw("rubric", skill, state.sample_id)
        right = (not state.metadata["wrong"]) == (chance.random() < skill)
        value = {"correct": right, "tone": chance.choice(["warm", "cold"]), "clarity": round(chance.random(), 2)}
        return Score(value=value if chance.random() > 0.1 else float("nan"))

    return score


@scorer(metrics=[mean()], name="grade")
def grade(name, low, high):
    async def score(state, target):
        chance = draw(name, state.sample_id)
        middle = (low + high) / 2 + (high - low) / 4 * (-1 if state.metadata["wrong"] else 1)
        return Score(value=max(low, min(high, round(chance.gauss(middle, (high - low) / 8)))))

    return score


@scorer(metrics=[accuracy()], name="polite")
def polite():
    """The same values as the judges, and another question."""

    async def score(state, target):
        return Score(value=draw("polite", state.sample_id).choice("CI"))

    return score


def dataset(samples, ids="q{}"):
    chance = draw("questions", samples)
    out = []
    for n in range(samples):
        a, b = chance.randrange(10, 100), chance.randrange(10, 100)
        metadata = {"sum": a + b, "wrong": int(chance.randrange(WRONG) == 0) * chance.randrange(1, 10)}
        out.append(Sample(id=ids.format(n), input=f"What is {a} + {b}?", target=str(a + b), metadata=metadata))
    return MemoryDataset(out)


def run(task, path):
    """Run a task, and put its log at this path."""
    form = "json" if ".json" in path.name else "eval"
    with tempfile.TemporaryDirectory() as folder:
        (log,) = inspect_ai.eval(task, model="mockllm/model", log_dir=folder, log_format=form, display="none")
        assert log.status == "success", log.error
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(Path(log.location).read_bytes(), mtime=0))
        else:
            shutil.copy(log.location, path)
    return path


def edit_by_people(path, source):
    """Write a log in which a person has corrected scores, one sample is invalid, and one has no score of one judge."""
    from inspect_ai.log import ProvenanceData, edit_score, invalidate_samples
    from inspect_ai.scorer import ScoreEdit

    log = read_eval_log(str(source))
    for sample in log.samples[:4]:
        value = "I" if sample.metadata["wrong"] else "C"
        edit = ScoreEdit(value=value, provenance=ProvenanceData(author="ann@example.org", reason="checked by hand"))
        edit_score(log, sample.id, "judge", edit)
    edit_score(log, log.samples[5].id, "judge1", ScoreEdit(explanation="unclear", provenance=ProvenanceData(author="bob")))
    edit_score(log, log.samples[6].id, "expert", ScoreEdit(value="C", provenance=ProvenanceData(author="eve")))
    log = invalidate_samples(log, [log.samples[7].uuid], ProvenanceData(author="ann@example.org"))
    del log.samples[8].scores["judge2"]
    log.samples[9].scores = None
    write_eval_log(log, str(path))


def main():
    judges = [judge("strict", 0.95), judge("lenient", 0.9), judge("terse", 0.85)]
    if sys.argv[1:] == ["deflate"]:
        run(Task(dataset=dataset(20), solver=answer(), scorer=judges), HERE / "deflate.eval")
        return
    path = run(Task(dataset=dataset(24), solver=answer(), scorer=judges), HERE / "judges.eval")
    edit_by_people(HERE / "people.eval", path)
    panel = multi_scorer([judge("x", 0.95), judge("y", 0.9), judge("z", 0.85)], "majority")
    epochs = Task(dataset=dataset(8, "a/b: {}"), solver=answer(), scorer=[panel, judge("strict", 0.95)], epochs=2)
    run(epochs, HERE / "panel.json.gz")
    run(Task(dataset=dataset(24), solver=answer(), scorer=[rubric(0.95), rubric(0.9)]), HERE / "rubric.eval")
    numbers = [grade("a", 0, 100), grade("b", 0, 100), grade("c", 1, 5)]
    run(Task(dataset=dataset(20), solver=answer(), scorer=numbers), HERE / "numbers.eval")
    run(Task(dataset=dataset(24), solver=answer(), scorer=[*judges, polite()]), HERE / "questions.eval")
    chunked(path, HERE / "chunked.eval")
    names = {"strict": 0.95, "lenient": 0.9, "terse": 0.8, "guessing": 0.55}
    graders = multi_scorer([judge(name, skill) for name, skill in names.items()], "majority")
    path = run(Task(dataset=dataset(120), solver=answer(), scorer=graders, name="arithmetic"), TUTORIALS / "arithmetic.eval")
    lines = [f"{sample.id},{'I' if sample.metadata['wrong'] else 'C'}\n" for sample in read_eval_log(str(path)).samples]
    (TUTORIALS / "arithmetic.csv").write_text("".join(["task,label\n", *lines]))


def chunked(source, path):
    """Write a log whose samples are stored in several members each."""
    from inspect_ai.log._recorders.chunked import convert_eval_logs_to_chunked

    with tempfile.TemporaryDirectory() as folder:
        convert_eval_logs_to_chunked(str(source), folder)
        shutil.copy(next(Path(folder).glob("*.eval")), path)


if __name__ == "__main__":
    main()
