"""Passes over comparisons, as definitions in NumPy; csrc/ranking has the compiled twins.

The log-odds of a row are reliability[judge] (strength[left] - strength[right]) + position[judge] + style @ effect.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.kernels.cpu import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class RankRows(NamedTuple):
    """Comparisons, added up: a row per left item, right item, judge and style."""

    left: Integers  # [rows]
    right: Integers  # [rows]
    judge: Integers  # [rows]
    comparisons: Floats  # [rows]
    points: Floats  # [rows] of the left item
    style: Floats  # [rows, styles]


class RankModel(NamedTuple):
    """What the log-odds are made of."""

    strength: Floats  # [items]
    reliability: Floats  # [judges]
    position: Floats  # [judges]
    effect: Floats  # [styles]


def ranking_kernels() -> Any:
    """Return what has the passes: the compiled core, or this module where it was not built."""
    return compiled() or sys.modules[__name__]


def rank_chances(
    *rows_and_model: Any,
    chance: Floats,  # OUT [rows] that the left item wins
    told: Floats,  # OUT [judges] information about each reliability if everything else were known
    threads: int = 1,
) -> float:
    """Return the log-likelihood of the comparisons."""
    rows, model, gap = _parts(rows_and_model)
    odds = model.reliability[rows.judge] * gap + model.position[rows.judge] + rows.style @ model.effect
    chance[:] = 0.5 * (1 + np.tanh(0.5 * odds))
    told[:] = np.bincount(rows.judge, rows.comparisons * chance * (1 - chance) * np.square(gap), len(told))
    return float((rows.points * odds - rows.comparisons * np.logaddexp(0.0, odds)).sum())


def rank_slopes(
    *rows_and_model: Any,
    chance: Floats,  # IN [rows]
    variance: Floats,  # IN [judges] of reliabilities, which are integrated out; 0 where they are known
    by_item: Floats,  # OUT [items] sums of residuals, times the slope in the strength
    by_judge: Floats,  # OUT [judges, 2] alone, and times the gap
    by_style: Floats,  # OUT [styles] times the style
    threads: int = 1,
) -> None:
    """Add up the residuals of rows: the derivative of the log-likelihood less half of log(1 + variance x information)."""
    rows, model, gap = _parts(rows_and_model)
    pull = variance[rows.judge] * rows.comparisons * chance * (1 - chance) * gap
    residual = rows.points - rows.comparisons * chance - 0.5 * pull * (1 - 2 * chance) * gap
    of_left = model.reliability[rows.judge] * residual - pull
    by_item[:] = np.bincount(rows.left, of_left, len(by_item)) - np.bincount(rows.right, of_left, len(by_item))
    by_judge[:] = np.stack([np.bincount(rows.judge, part, len(by_judge)) for part in (residual, residual * gap)], axis=1)
    by_style[:] = residual @ rows.style


def rank_information(
    *rows_and_model: Any,
    weight: Floats,  # IN [rows] how well a row knows its log-odds
    at_position: int,  # where the positions begin among the parameters; -1: none, and so for the others
    step: int,  # 1 where each judge has a position, 0 where all have one
    at_scale: int,
    at_style: int,
    matrix: Floats,  # OUT [parameters, parameters]
    threads: int = 1,
) -> None:
    """Add up the information of rows about all parameters."""
    rows, model, gap = _parts(rows_and_model)
    size, scale = len(matrix), model.reliability[rows.judge]
    design = [(rows.left, scale), (rows.right, -scale)]
    if at_position >= 0:
        design.append((at_position + step * rows.judge, np.ones(len(gap))))
    if at_scale >= 0:
        design.append((at_scale + rows.judge, gap))
    design += [(np.full(len(gap), at_style + number), style) for number, style in enumerate(rows.style.T)]
    flat = np.zeros(size * size)
    for parameter, slope in design:
        for other, its_slope in design:
            flat += np.bincount(parameter * size + other, weight * slope * its_slope, size * size)
    matrix[:] = flat.reshape(size, size)


def _parts(rows_and_model: tuple[Any, ...]) -> tuple[RankRows, RankModel, Floats]:
    rows, model = RankRows(*rows_and_model[:6]), RankModel(*rows_and_model[6:])
    return rows, model, model.strength[rows.left] - model.strength[rows.right]
