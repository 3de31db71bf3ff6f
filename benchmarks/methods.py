"""The field's methods: an iteration of crowd-kit's and of ours on 100 thousand votes, in one run; and EBCC's restarts.

Methods that adjudge does not have (yet) are left out with a word. GLAD is measured by the section `peers`.
"""

import os
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

from peers import peer_says

import adjudge as adj
from adjudge.models.base import MODELS

# Seconds of an iteration: what more of them take beyond few; all of a method without iterations.
PEER = """
import json, statistics, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
np.seterr(all="ignore")
import pandas as pd
from crowdkit.aggregation import {name}
votes = pd.read_parquet(sys.argv[1])
few, many, options = {few}, {many}, {options}
if {prepared!r}:  # what comes before the iterations takes far longer than they do: once is enough
    known = {name}(n_iter=few, **options).fit(votes)
def seconds(**options):
    began = time.perf_counter()
    if {prepared!r}:
        known.n_iter = options["n_iter"]
        getattr(known, {prepared!r})()
    else:
        {name}(**options).fit_predict(votes)
    return time.perf_counter() - began
if many:
    found = [(seconds(n_iter=many, **options) - seconds(n_iter=few, **options)) / (many - few) for _ in range({repeats})]
else:
    found = [seconds(**options) for _ in range({repeats})]
print(json.dumps(statistics.median(found)))
"""


class Method(NamedTuple):
    """A class of crowd-kit and a model of ours, their options, and the bar for the ratio of their times."""

    name: str
    model: str
    few: int
    many: int  # 0: it has no iterations
    options: dict
    ours: dict
    bar: str
    votes: str = "usual"
    repeats: int = 3
    prepared: str = ""  # the method of theirs that only iterates, where the rest would drown it


MACE = {"restarts": 1, "max_iter": 12, "tol": 0.0}
METHODS = (
    Method("Wawa", "wawa", 0, 0, {}, {}, "at least 10x"),
    Method("ZeroBasedSkill", "zbs", 2, 12, {"eps": -1.0}, {"max_iter": 12, "tol": 0.0}, "at least 10x", repeats=1),
    Method("MACE", "mace", 2, 12, {"n_restarts": 1, "method": "vb"}, MACE, "at least 10x", repeats=1),
    Method("MACE", "mace", 2, 12, {"n_restarts": 1, "method": "em"}, {**MACE, "method": "em"}, "at least 10x", repeats=1),
    Method(
        "MMSR",
        "mmsr",
        5,
        105,
        {"tol": 0.0},
        {"max_iter": 60, "tol": 0.0},
        "at least 10x",
        "fewer workers",
        repeats=1,
        prepared="_m_msr",
    ),
    Method("KOS", "kos", 5, 25, {}, {"max_iter": 25}, "", "two labels"),
    Method("OneCoinDawidSkene", "one-coin", 2, 7, {"tol": -1e30}, {"max_iter": 12, "tol": 0.0}, "at least 200x", repeats=1),
    Method("DawidSkene", "ds", 2, 7, {"tol": -1e30}, {"max_iter": 12, "tol": 0.0}, ""),
)
CROWDS = {
    "usual": {"workers": 1_000, "labels": 4},
    "fewer workers": {"workers": 100, "labels": 4},  # crowd-kit's MMSR takes the square of all agreeing pairs in memory
    "two labels": {"workers": 1_000, "labels": 2},
}


def run(folder):
    """Rows of (what, figure, bar)."""
    warnings.simplefilter("ignore")
    for name, settings in CROWDS.items():
        adj.simulate(tasks=20_000, votes_per_task=5, seed=1, **settings).votes.write_parquet(folder / f"{name}.parquet")
    for method in METHODS:
        if method.model not in MODELS:
            print(f"  {method.name}: adjudge has no model {method.model!r} here, left out", file=sys.stderr)
            continue
        path = folder / f"{method.votes}.parquet"
        code = PEER.format(**method._asdict())
        theirs, ours = peer_says(code, path), own_seconds(method, path)
        kind = method.options.get("method")
        what = f"{method.name}{f' by {kind}' if kind else ''}, 100 thousand votes" + (
            "" if method.votes == "usual" else f" ({method.votes})"
        )
        of = "an iteration" if method.many else "pandas to labels"
        yield f"{what}: {of} of crowd-kit, milliseconds", 1e3 * theirs, ""
        yield f"{what}: {of} of crowd-kit / ours", theirs / ours, method.bar
    yield from restarts()


def own_seconds(method, path):
    """Seconds of our iteration, or of our fit from the same frame; medians of five fits."""
    import pandas as pd

    frame, found = pd.read_parquet(path), []
    votes = adj.read(frame)
    model = MODELS[method.model](**{name: value for name, value in method.ours.items() if name in MODELS[method.model].options()})
    for _ in range(5):
        began = time.perf_counter()
        result = model.fit(votes if method.many else frame, confidence="posterior")
        took = time.perf_counter() - began
        if not method.many:
            result.labels  # noqa: B018
            took = time.perf_counter() - began
        found.append(statistics.median(row.seconds for row in result.fit.trace) if method.many else took)
    return statistics.median(found)


def restarts():
    """EBCC on rte with ten subtypes and forty restarts."""
    data = os.environ.get("ADJUDGE_DATA")
    if "ebcc" not in MODELS or not data:
        why = "ADJUDGE_DATA names no folder" if "ebcc" in MODELS else "adjudge has no model 'ebcc' here"
        print(f"  EBCC on rte: {why}, left out", file=sys.stderr)
        return
    votes = adj.read(Path(data) / "rte" / "votes.csv")
    began = time.perf_counter()
    adj.EBCC(subtypes=10, restarts=40).fit(votes, confidence="posterior", engine=adj.AutoEngine(threads=2))
    yield "EBCC on rte, 10 subtypes, 40 restarts, seconds", time.perf_counter() - began, "at most 10"
