"""`adjudge demo`: a small crowd in a temporary folder, the usual models on it, a few telling workers, and a page of it all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import adjudge as adj
from adjudge.cli import output as out
from adjudge.cli.options import command
from adjudge.data.options import Number
from adjudge.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from adjudge.evaluation.simulate import Simulation
    from adjudge.results.result import Result

LABELS = ("fine", "rude", "hateful", "spam")
RUNS_PER_MODEL = 3  # the fastest is shown
WORKERS = {
    "expert": "right far more often than the others",
    "spammer": "gives most comments the same label",
    "mixes-up": "confuses rude and hateful, but recognises the rest",
}


@command()
def demo(
    keep: Annotated[Path | None, typer.Option("--keep", help="Keep the data in this folder.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the crowd.")] = 17,
) -> None:
    """Show the usual models on a small crowd, and a page of it all."""
    Number(least=0, whole=True).check("seed", seed)
    if keep is None:
        handle, page = tempfile.mkstemp(prefix="adjudge-demo-", suffix=".html")  # stays, to be looked at
        os.close(handle)
        with tempfile.TemporaryDirectory(prefix="adjudge-demo-") as folder:
            _run(Path(folder), Path(page), seed)
        return
    if keep.exists() and not keep.is_dir():
        raise InputError(f"{keep} is a file: name a folder")
    keep.mkdir(parents=True, exist_ok=True)
    _run(keep, keep / "report.html", seed)


def _run(folder: Path, page: Path, seed: int) -> None:
    import math
    import time

    from adjudge.cli import console
    from adjudge.io.write import check_files, write_frame
    from adjudge.models.base import DEFAULT_COMPARED_MODELS, MODELS

    screen = out.screen()
    crowd = simulate_crowd(seed)
    check_files({"votes": folder / "votes.csv", "truth": folder / "truth.csv", "report": page})
    write_frame(crowd.votes, folder / "votes.csv")
    write_frame(crowd.truth, folder / "truth.csv")
    screen.print()
    screen.say(f"{len(crowd.votes)} votes by {len(crowd.worker_names)} moderators on {len(crowd.truth)} comments, each one of")
    screen.say(f"{', '.join(LABELS)} (files in {folder})")
    rows: list[tuple[object, ...]] = []
    results: dict[str, Result] = {}
    for name in DEFAULT_COMPARED_MODELS:
        model = MODELS[name]
        seconds = math.inf
        for _ in range(RUNS_PER_MODEL):  # the first one loads what the model needs
            began = time.perf_counter()
            results[name] = adj.aggregate(folder / "votes.csv", model=model(), labels=LABELS)
            seconds = min(seconds, time.perf_counter() - began)
        evaluation = adj.evaluate(results[name], folder / "truth.csv")
        wrong = f"{evaluation.calibration.errors} ({evaluation.expected_errors:.0f})"
        rows.append((name, model.title, f"{evaluation.accuracy:.1%}", wrong, results[name].iterations, f"{seconds * 1000:.0f}"))
    screen.heading("the usual models on the same votes")
    screen.table(["model", "", "accuracy", "wrong (expected)", "iterations", "ms"], rows, left=2)
    screen.say(
        "expected: the number of wrong labels that confidence predicts without truth. Like real crowds, these moderators share"
    )
    screen.say("errors: on a third of the comments, most of those who err choose the same wrong label.")
    screen.print()
    screen.say("What Fast Dawid-Skene learned about three of the workers, without ever seeing the truth:")
    for worker, about in WORKERS.items():
        screen.heading(f"{worker}: {about}")
        screen.print(console.heat_map(LABELS, results["fds"].confusion_matrix(worker)))
    results["auto"].report(page, truth=folder / "truth.csv", title="The demo: thirty moderators, 600 comments")
    screen.print()
    screen.say(f"A page that shows all of it, to open in a browser: {page}")
    screen.say("On your votes: adjudge aggregate votes.csv -o labels.csv --report report.html")


def simulate_crowd(seed: int) -> Simulation:
    """Return a crowd of thirty: ordinary moderators, and the three telling ones."""
    import numpy as np

    from adjudge.evaluation.simulate import simulate

    rng = np.random.default_rng(seed)
    ordinary = [_ordinary(rng) for _ in range(17)]
    careless = [np.tile(rng.dirichlet([6, 2, 1, 3]), (4, 1)) * 0.7 + np.eye(4) * 0.3 for _ in range(10)]
    expert = np.full((4, 4), 0.02) + np.eye(4) * 0.92
    spammer = np.tile([0.85, 0.05, 0.05, 0.05], (4, 1))
    mixed = np.array([[0.9, 0.04, 0.03, 0.03], [0.05, 0.15, 0.77, 0.03], [0.03, 0.74, 0.2, 0.03], [0.03, 0.03, 0.03, 0.91]])
    names = [*(f"mod-{n:02d}" for n in range(1, 28)), *WORKERS]
    return simulate(
        tasks=600,
        votes_per_task=5,
        confusions=np.stack([*ordinary, *careless, expert, spammer, mixed]),
        worker_names=names,
        label_names=LABELS,
        label_weights=[5, 2, 1, 2],
        shared_error=0.35,  # about as much as in real crowds, where honest confidence predicts the number of errors
        seed=seed,
    )


def _ordinary(rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the confusion of a moderator who is right seven times in ten, and errs to the neighbouring label."""
    import numpy as np

    near = np.array([[0, 6, 1, 3], [5, 0, 4, 1], [2, 7, 0, 1], [6, 2, 1, 0]], float)
    matrix = np.empty((4, 4))
    for true in range(4):
        right = rng.uniform(0.55, 0.85)
        matrix[true] = rng.dirichlet(near[true] * 2 + 0.05) * (1 - right)
        matrix[true, true] += right
    matrix /= matrix.sum(axis=1, keepdims=True)
    return matrix
