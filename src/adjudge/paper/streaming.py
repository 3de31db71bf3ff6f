"""Tables 3 and 4: half of the questions fitted at once, the others arriving whole, one after the other."""

from __future__ import annotations

import time
from typing import Final

import polars as pl

from adjudge.evaluation.truth import evaluate
from adjudge.io.read import read
from adjudge.online import Online
from adjudge.paper import published
from adjudge.paper.grid import Cells, Figures, conditions, fit
from adjudge.paper.protocol import Questions

SET: Final = "sp"
ANNOTATORS: Final = (2, 3, 4, 5)


def run(questions: Questions, cells: Cells) -> pl.DataFrame:
    """Return method, annotators, accuracy over all questions, iterations of the initial fit and seconds of it all."""
    rows = []
    for k in ANNOTATORS:
        for model in published.FAMILY:
            found = cells.get(
                f"online-{questions.name}-{k}-{model}",
                conditions(questions),
                lambda k=k, model=model: _stream(questions.subset(k), questions.truth, model),  # type: ignore[misc]
            )
            rows.append((model, k, found["accuracy"], found["iterations"], found["seconds"]))
    return pl.DataFrame(rows, ["method", "annotators", "accuracy", "iterations", "seconds"], orient="row")


def _stream(votes: pl.DataFrame, truth: pl.DataFrame, model: str) -> Figures:
    by_task = votes.partition_by("task", maintain_order=True)
    half = len(by_task) // 2
    initial = read(pl.concat(by_task[:half]))
    began = time.perf_counter()
    result = fit(initial, model, trace="light")
    learner = Online.from_result(result)
    for question in by_task[half:]:
        for vote in question.select("task", "worker", "label").iter_rows():  # the same as learn_many, without opening a table
            learner.learn(*vote)
    seconds = time.perf_counter() - began
    accuracy = evaluate(learner.labels(), truth).accuracy
    return {"accuracy": accuracy, "iterations": result.iterations, "seconds": seconds}
