"""One voice for workers who always say the same: what the rest of the panel makes of it.

The errors of a ring that outvotes the others look like truth to a fit. So a ring that was found has one vote per task,
and the votes are fitted again. Workers who merely agree nearly always may be a ring that made the first fit its own,
or a few near-perfect ones among weak ones. They get one voice together, too, and the votes are fitted twice: from their
own majority, and from the labels of the first fit. Only where the former explains them far better was it a ring.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from quorate.data.bounds import freeze
from quorate.data.votes import Votes
from quorate.errors import NotConverged
from quorate.evaluation.agreement.copies import Copies, find, gather, nothing, rings
from quorate.evaluation.agreement.pairs import Cells, Ints, PairFigures, TooManyError, VotePairs, figures, tables
from quorate.evaluation.agreement.reference import Reference
from quorate.models.dawid_skene import FastDawidSkene

ALIKE: Final = 0.9  # Cohen's kappa from which two workers may be one voice
SHARED: Final = 20  # tasks they must share
MUCH: Final = 0.05  # share of the votes that must fall away: fewer cannot have made the labels
FAR: Final = 10.0  # log-likelihood by which the other reading must be better
REMEDY: Final = "look at a sample of the tasks, or of the workers"
ROUNDS: Final = 3  # times the labels are settled anew with one vote for each ring found so far
MOST_VOTE_PAIRS: Final = 1 << 26  # pairs of votes on the same task that are looked at; a task of n votes has n (n - 1) / 2


def heard_once(votes: Votes, first: Reference, pairs: PairFigures, copies: Copies, seed: int) -> Reference:
    """Return the labels that the votes settle on if each ring has one; the first ones where there is none."""
    source = f"{first.source}, one voice per ring"
    labels = _without_likes(votes, first, pairs, copies, seed)
    if labels is None and len(copies):
        labels = _labels(one_voice(votes, rings(votes.n_workers, copies.a, copies.b)), FastDawidSkene(seed=seed))[0]
    return first if labels is None else Reference(labels, source)


def _without_likes(votes: Votes, first: Reference, pairs: PairFigures, copies: Copies, seed: int) -> Ints | None:
    """Return the labels of a panel in which those who agree nearly always are one; None where the first explain it, too."""
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
    """Return the labels of a fit, and how likely it makes the votes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        fitted = model.fit(votes, trace="light", start=None if start is None else start.labels.astype(np.int32))
    return fitted.fit.outcome.labels.astype(np.int64), fitted.log_likelihood


def one_voice(votes: Votes, ring: Ints) -> Votes:
    """Return the votes without the second and later ones of a ring on the same task."""
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


@dataclass(frozen=True, eq=False)
class Panel:
    """What a look at pairs of workers found."""

    reference: Reference | None  # the one given, or a better one
    copies: Copies
    cells: Cells | None = None
    pairs: PairFigures | None = None
    same_wrong: Ints | None = None  # [pairs]
    without: str | None = None  # why pairs were not looked at


def unseen(reference: Reference | None, why: str) -> Panel:
    """Return a panel whose pairs were not looked at."""
    return Panel(reference, nothing(), without=why)


def look(vote_pairs: VotePairs, reference: Reference | None, seed: int) -> Panel:
    """Return the pairs of workers; a reference that is not truth is settled anew if a ring seems to have made it."""
    votes, number = vote_pairs.votes, vote_pairs.number
    if number > MOST_VOTE_PAIRS:
        return unseen(reference, f"the tasks have {number} pairs of votes, more than {MOST_VOTE_PAIRS}: {REMEDY}")
    if votes.n_workers**2 * votes.n_labels * (votes.n_labels + 1) >= 2**62:
        return unseen(reference, f"{votes.n_workers} workers x {votes.n_labels} labels are too many: {REMEDY}")
    try:
        return _look(vote_pairs, reference, seed)
    except TooManyError as error:
        return unseen(reference, f"the tables of all pairs of {votes.n_workers} workers have {error}: {REMEDY}")


def _look(vote_pairs: VotePairs, reference: Reference | None, seed: int) -> Panel:
    votes, cells = vote_pairs.votes, tables(vote_pairs)
    pairs = figures(cells)
    if reference is None:
        return Panel(None, nothing(), cells, pairs)
    once = vote_pairs.once()
    copies, same_wrong = _copies(once, reference, pairs)
    settled = reference
    for _ in range(0 if reference.source == "truth" else ROUNDS):
        other = heard_once(votes, reference, pairs, copies, seed)
        if other is reference:
            break
        more, wrong = _copies(once, other, pairs)
        if len(more) < max(len(copies), 1):
            break
        grown = len(more) > len(copies)
        copies, same_wrong, settled = more, wrong, other
        if not grown:
            break
    return Panel(settled, copies, cells, pairs, same_wrong)


def _copies(once: VotePairs, reference: Reference, pairs: PairFigures) -> tuple[Copies, Ints]:
    """Return who copies whom, and for each pair how often both gave the same wrong answer, [pairs]."""
    seen = gather(once, reference)
    same_wrong = np.zeros(len(pairs), np.int64)
    same_wrong[np.searchsorted(pairs.a * once.votes.n_workers + pairs.b, seen.pairs)] = seen.same_wrong()
    return find(once.votes, reference, seen), same_wrong
