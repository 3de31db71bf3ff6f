"""Confidence made honest: a temperature fitted on tasks whose label is known, but was not learned from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.votes import Gold
from adjudge.errors import InputError
from adjudge.io.answers import gold_codes, read_gold
from adjudge.io.sources import Source
from adjudge.results.result import Result
from adjudge.results.temperature import fit_temperature, probability_pieces, tempered_fit

LEAST: Final = 10  # tasks below which a temperature is a guess
FOLDS: Final = 2
Refit = Callable[[Source], Result]  # the same fit, with other gold


def calibrated(result: Result, calibrate: Source | bool, gold: pl.DataFrame | None, refit: Refit) -> Result:
    """Return a result at the temperature that suits known labels best.

    `calibrate` gives these labels; nothing is learned from them. With True they are the gold, of which each half is
    judged by a fit that has seen only the other half: a fit that has learned from a task cannot be asked how sure it is of it.
    """
    if calibrate is True and gold is not None:
        posterior, truth = _crossed(gold, refit)
    else:
        posterior, truth = _judged(result, read_gold(cast(Source, calibrate), result.votes.labels))
    if len(truth) < LEAST:
        which = "gold labels of tasks with votes" if calibrate is True else "known labels of tasks with votes that are no gold"
        raise InputError(f"a temperature needs at least {LEAST} {which}; there are {len(truth)}")
    return replace(result, fit=tempered_fit(result.fit, result.session, fit_temperature(posterior, truth)))


def _crossed(gold: pl.DataFrame, refit: Refit) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return what fits that did not see them say of gold tasks, [gold, K], and their labels, [gold]."""
    fold = gold["task"].rank("ordinal").to_numpy() % FOLDS  # by the task's text: the same in any order
    parts = []
    for hidden in range(FOLDS):
        there = refit(gold.filter(pl.Series(fold != hidden)))
        parts.append(_judged(there, read_gold(gold.filter(pl.Series(fold == hidden)), there.votes.labels)))
    return np.concatenate([p for p, _ in parts]), np.concatenate([t for _, t in parts])


def _judged(result: Result, known: Gold) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the posterior of the tasks that are known here and no gold of the fit, [tasks, K], and their labels."""
    codes = gold_codes(known, result.votes.tasks)
    learned_from = result.fit.task_columns.get("gold")
    if learned_from is not None:
        codes[learned_from] = -1
    parts = [np.zeros((0, result.votes.n_labels))]
    parts += [part[codes[cut] >= 0] for cut, part in probability_pieces(result.fit, result.session)]
    return np.concatenate(parts), codes[codes >= 0]
