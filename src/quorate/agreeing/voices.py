"""One voice for workers who always say the same: what the rest of the panel makes of it.

A ring that copies one of its own outvotes the others, and to a fit its errors are the truth. So workers that agree
nearly always are given one vote per task together, and the votes are fitted again: from their own majority, and from
the labels of the first fit. Where the first explains the votes far better, the first fit was the ring's. Where it does
not (a few near-perfect workers among weak ones look alike, too), the first fit stands.
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
from quorate.errors import NotConverged
from quorate.models.dawid_skene import FastDawidSkene
from quorate.votes import Votes

ALIKE: Final = 0.9  # Cohen's kappa from which two workers may be one voice
SHARED: Final = 20  # tasks they must share
MUCH: Final = 0.05  # share of the votes that must fall away: fewer cannot have made the labels
FAR: Final = 10.0  # log-likelihood by which the other reading must be better

Ints = NDArray[np.int64]


def heard_once(votes: Votes, first: Reference, pairs: PairFigures, copies: Copies, seed: int) -> Reference:
    """Returns the labels that a panel of voices settles on, or the first ones where they explain it about as well."""
    alike = np.flatnonzero((pairs.kappa >= ALIKE) & (pairs.shared >= SHARED))
    ring = rings(votes.n_workers, np.append(pairs.a[alike], copies.a), np.append(pairs.b[alike], copies.b))
    in_ring = np.bincount(ring, minlength=votes.n_workers)[ring] > 1
    if votes.votes_per_row()[in_ring[votes.row_worker()]].sum() <= MUCH * len(votes):
        return first
    heard = one_voice(votes, ring)
    if len(heard) > (1 - MUCH) * len(votes):
        return first
    model = FastDawidSkene(seed=seed, smoothing=0.1)  # smoothed: a voice that never errs is not beyond doubt
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        own = model.fit(heard, trace="light")
        as_first = model.fit(heard, trace="light", start=first.labels.astype(np.int32))
    if own.log_likelihood <= as_first.log_likelihood + FAR:
        return first
    return Reference(own.fit.outcome.labels.astype(np.int64), f"{first.source}, one voice per ring")


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
    return replace(votes, task_ptr=np.concatenate([[0], np.cumsum(size)]), row=votes.row[keep])
