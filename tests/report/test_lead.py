"""What a report says first: measured accuracy where there is truth, else how to measure; and a warning for panels of models."""

import re

import numpy as np
import polars as pl

import adjudge as adj
from adjudge.report.page import page
from adjudge.report.sections import MODEL_PANELS, is_model_panel


def lead(html):
    return re.sub(r"<[^>]+>", "", re.search(r'<section id="trust".*?<p[^>]*>(.*?)</p>', html, re.DOTALL)[1])


def panel(names, tasks=60, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, tasks)
    return [(t, name, "ab"[truth[t] ^ (rng.random() < 0.2)]) for t in range(tasks) for name in names], truth


def test_measured_accuracy_comes_first():
    crowd = adj.simulate(tasks=200, workers=10, seed=1)
    result = adj.aggregate(crowd.votes)
    found = adj.evaluate(result, crowd.truth)
    with_truth, without = lead(page(result, truth=crowd.truth)), lead(page(result))
    assert with_truth.startswith(f"{100 * found.accuracy:.3g}% of 200 labels with truth are right")
    assert "expected to be wrong" in with_truth.partition("By the votes alone:")[2]
    assert "50 known labels would show it: gold=… with calibrate=True" in without
    known = adj.aggregate(crowd.votes, gold=crowd.truth.head(20))
    assert "known labels would show it" not in lead(page(known))


def test_panels_of_language_models_are_warned_of():
    models, _ = panel(["gpt-5-mini", "claude-haiku", "Qwen3-8B", "judge"])
    people, _ = panel(["ann", "bob", "eve", "judge"])
    assert is_model_panel(adj.aggregate(models))
    assert MODEL_PANELS in lead(page(adj.aggregate(models)))
    assert not is_model_panel(adj.aggregate(people))
    sparse = pl.DataFrame(models, schema=["task", "worker", "label"], orient="row").sample(fraction=0.5, seed=1)
    assert not is_model_panel(adj.aggregate(sparse))


def test_dots_of_few_workers_carry_names():
    crowd = adj.simulate(tasks=400, workers=20, power=1.0, seed=3)
    plot = adj.aggregate(crowd.votes).plot.workers().plots[0]
    named = [name for marks in plot.marks if marks.kind == "texts" for name in marks.frame["name"]]
    assert len(named) == len(set(named)) == 20
