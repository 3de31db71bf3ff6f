"""One voice for workers who always say the same: what the rest of the panel makes of it.

The errors of a ring that outvotes the others look like truth to a fit. So a ring that was found has one vote per task,
and the votes are fitted again. Workers who merely agree nearly always may be a ring that made the first fit its own,
or a few near-perfect ones among weak ones. They get one voice together, too, and the votes are fitted twice: from their
own majority, and from the labels of the first fit. Only where the former explains them far better was it a ring.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.agreeing.copying import Copies, rings
from quorate.agreeing.pair_table import PairFigures
from quorate.agreeing.reference import Reference
from quorate.bounds import freeze
from quorate.errors import NotConverged
from quorate.models.dawid_skene import FastDawidSkene
from quorate.votes import Votes

ALIKE: Final = 0.9  # Cohen's kappa from which two workers may be one voice
SHARED: Final = 20  # tasks they must share
MUCH: Final = 0.05  # share of the votes that must fall away: fewer cannot have made the labels
FAR: Final = 10.0  # log-likelihood by which the other reading must be better

Ints = NDArray[np.int64]


def heard_once(votes: Votes, first: Reference, pairs: PairFigures, copies: Copies, seed: int) -> Reference:
    """Returns the labels that the votes settle on if each ring has one; the first ones where there is none."""
    source = f"{first.source}, one voice per ring"
    labels = _without_likes(votes, first, pairs, copies, seed)
    if labels is None and len(copies):
        labels = _labels(one_voice(votes, rings(votes.n_workers, copies.a, copies.b)), FastDawidSkene(seed=seed))[0]
    return first if labels is None else Reference(labels, source)


def _without_likes(votes: Votes, first: Reference, pairs: PairFigures, copies: Copies, seed: int) -> Ints | None:
    """Returns the labels of a panel in which those who agree nearly always are one; None where the first explain it, too."""
    alike = np.flatnonzero((pairs.kappa >= ALIKE) & (pairs.shared >= SHARED))
    ring = rings(votes.n_workers, np.append(pairs.a[alike], copies.a), np.append(pairs.b[alike], copies.b))
    in_ring = np.bincount(ring, minlength=votes.n_workers)[ring] > 1
    if votes.votes_per_row()[in_ring[votes.row_worker()]].sum() <= MUCH * len(votes):
        return None
    heard = one_voice(votes, ring)
    if len(heard) > (1 - MUCH) * len(votes):
        return None
    model = FastDawidSkene(seed=seed, smoothing=0.1)  # smoothed: a voice that never errs is not beyond doubt
    labels, likelihood = _labels(heard, model)
    return labels if likelihood > _labels(heard, model, first)[1] + FAR else None


def _labels(votes: Votes, model: FastDawidSkene, start: Reference | None = None) -> tuple[Ints, float]:
    """Returns the labels of a fit, and how likely it makes the votes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        fitted = model.fit(votes, trace="light", start=None if start is None else start.labels.astype(np.int32))
    return fitted.fit.outcome.labels.astype(np.int64), fitted.log_likelihood


def one_voice(votes: Votes, ring: Ints) -> Votes:
    """Returns the votes without the second and later ones of a ring on the same task."""
    task = np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))
    in_ring = np.bincount(ring, minlength=votes.n_workers)[ring] > 1
    worker = votes.row_worker()[votes.row]
    of_ring = np.flatnonzero(in_ring[worker])
    _, stays = np.unique(task[of_ring] * votes.n_workers + ring[worker[of_ring]], return_index=True)
    keep = ~in_ring[worker]
    keep[of_ring[stays]] = True
    size = np.bincount(task[keep], minlength=votes.n_tasks)
    task_ptr = np.concatenate([[0], np.cumsum(size)])
    return replace(votes, task_ptr=freeze(task_ptr), row=freeze(votes.row[keep]))
