"""What answers say about the truth: in bits, and vote by vote against what the others say."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.trust.ballots import Ballots
from quorate.trust.posterior import Belief, OwnVoteOut

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

LEANING: Final = 1.0  # votes of the crowd's answers, label by label, lent to each worker's answers


class Seen(NamedTuple):
    """Each vote beside what the other votes of its task say, [votes] each."""

    right: Singles  # the posterior of the label it gives
    others: Singles  # the same without the vote: what one who looks goes by
    guess: Singles  # the chance that one who guesses as this worker does gives this label


def mutual_information(ballots: Ballots, belief: Belief) -> Floats:
    """Returns the bits that a vote of each worker tells about the truth, [workers]; at least 0.

    The mutual information of true and given label in the worker's expected counts, less what as many votes would
    show by chance alone: (rows - 1) (columns - 1) / (2 n ln 2) for a table of so many labels met and given.
    """
    panel, votes = ballots.panel, ballots.divisor
    bits = np.zeros(panel.n_rows)
    scale = votes[ballots.row_worker] / np.maximum(ballots.per_row, 1)
    for c, totals in enumerate(belief.totals):
        counts = belief.row_counts(ballots, c)
        seen = counts > 1e-9
        bits[seen] += counts[seen] * np.log2(counts[seen] * scale[seen] / totals[ballots.row_worker[seen]])
    met = np.minimum((belief.totals > 0.5).sum(axis=0), votes)
    by_chance = np.maximum(met - 1, 0) * np.maximum(np.diff(panel.worker_ptr) - 1, 0) / (2.0 * votes * np.log(2.0))
    out: Floats = np.maximum(panel.by_worker(bits) / votes - by_chance, 0.0)
    return out


def compare(ballots: Ballots, belief: Belief, witnessed: NDArray[np.bool_] | None = None) -> Seen:
    """Returns every vote beside what the others say of its task.

    How a worker guesses is told by the worker's other votes, and by `LEANING` votes of the crowd. Votes that are
    `witnessed`, [votes], are in the posterior as another's, and stay there.
    """
    panel, k = ballots.panel, ballots.panel.n_labels
    n = len(ballots.row)
    right, others = np.empty(n, np.float32), np.empty(n, np.float32)
    usual = np.bincount(panel.row_label, ballots.per_row, minlength=k) / max(n, 1)
    votes = ballots.per_worker[ballots.row_worker]
    leant = np.maximum(ballots.per_row - 1, 0) + LEANING * usual[panel.row_label]
    guess = (leant / (np.maximum(votes - 1, 0) + LEANING)).astype(np.float32)
    judge, total = OwnVoteOut(ballots, belief), np.zeros(n, np.float32)
    for block in judge.blocks(range(k)):
        for piece in ballots.pieces():
            for c in block:
                total[piece.votes] += _without(*judge.chance(c, piece), None if witnessed is None else witnessed[piece.votes])
    for piece in ballots.pieces():
        here = piece.votes
        right[here], chance = judge.chance_given(piece)
        others[here] = _without(right[here].copy(), chance, None if witnessed is None else witnessed[here]) / total[here]
    return Seen(right, np.minimum(others, 1.0), guess[ballots.row])


def _without(own: Singles, chance: Singles, witnessed: NDArray[np.bool_] | None) -> Singles:
    """Returns the posterior without the vote, but for a factor, [votes], in the place of `own`; witnessed votes stay in it."""
    if witnessed is not None:
        chance[witnessed] = 1.0
    own /= chance
    return own
