"""Which points of Figure 1 are met: to the digit, within the bar, or not, and then why."""

from __future__ import annotations

from typing import Final

import polars as pl

from quorate.paper import published
from quorate.paper.grid import Grid, Spot

EXACT_SETS: Final = ("adult2", "bm", "labelme", "rte")  # their public files have the order of the authors' files
EXACT_METHODS: Final = ("ds", "hybrid")  # ties do not decide
POINTS: Final = 0.015  # mean accuracy may be this far off, or
SPREADS: Final = 2.0  # so many standard deviations over the seeds
NAMED: Final = {
    ("adult2", "ds", 3): "known: off by one question",
    ("adult2", "hybrid", 3): "known: off by one question",
    ("adult2", "ds", 8): "known: 16 iterations for the paper's 17",
}


def judge(grid: Grid, subset: str) -> pl.DataFrame:
    """Returns a line per point of Figure 1: its verdict (exact, known, near or off), and the likely reason where it is off."""
    rows = []
    for (name, model, k), spot in grid.items():
        paper = published.point("accuracy", name, model, k)
        if paper is None:
            continue
        strict = subset == "first" and name in EXACT_SETS and model in EXACT_METHODS
        verdict, reason = _verdict((name, model, k), spot, paper, strict)
        rows.append((name, model, k, strict, paper, spot.mean, spot.mean - paper, spot.spread, verdict, reason))
    columns = ["set", "method", "annotators", "strict", "accuracy paper", "accuracy ours", "accuracy difference", "accuracy sd"]
    return pl.DataFrame(rows, [*columns, "verdict", "reason"], orient="row")


def _verdict(place: tuple[str, str, int], spot: Spot, paper: float, strict: bool) -> tuple[str, str]:
    name, model, k = place
    half = 0.5 / published.questions(name)  # accuracies of other questions than ours differ by at least one whole one
    right = all(abs(found - paper) < half for found in spot.accuracy)
    steps = published.point("iterations", name, model, k)
    if right and (steps is None or all(found == steps for found in spot.iterations)):
        return "exact", ""
    if strict:
        return ("known", NAMED[place]) if place in NAMED else ("off", "should be exact: look into it")
    far = abs(spot.mean - paper)
    if far <= max(POINTS, SPREADS * spot.spread):
        return "near", ""
    return "off", _reason(name, model, k)


def _reason(name: str, model: str, k: int) -> str:
    reasons = []
    if name not in EXACT_SETS:
        reasons.append("the public file has another order than the authors', so the first votes of a question are others")
    if model in ("mv", "fds", "iwmv") and k % 2 == 0:
        reasons.append("an even number of votes leaves many ties, which the paper drew once")
    if model == "glad":
        reasons.append("the paper's GLAD probably stopped early: it counts 1 to 4 iterations")
    return "; ".join(reasons) or "ties drawn once in the paper"


def summary(judged: pl.DataFrame) -> pl.DataFrame:
    """Returns a line per method: points in Figure 1, and how many are exact, known, near and off."""
    counts = [(pl.col("verdict") == v).sum().alias(v) for v in ("exact", "known", "near", "off")]
    return judged.group_by("method", maintain_order=True).agg(pl.len().alias("points"), *counts)
