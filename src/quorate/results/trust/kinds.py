"""What answers say about the truth: in bits, and vote by vote against what the others say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.results.trust.ballots import WORKERS, Ballots, Places
from quorate.results.trust.posterior import Belief, OwnVoteOut

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
LEANING: Final = 1.0  # votes of the crowd's answers, label by label, lent to each worker's answers
LOOKS: Final = np.linspace(0.05, 0.95, 10)
EVADES: Final = np.array([0.35, 0.65, 0.95])
GUESSES: Final = len(EVADES)  # where guessing stands among the hypotheses: evading, guessing, looking
LENT: Final = np.array([0.1, 0.3, 9.6])  # workers lent to evading, guessing, looking: most people look
OWN: Final = float(np.log(10.0))  # guessing is in a manner of one's own, unless all labels alike are ten times likelier
ROUNDS: Final = 50
SAMPLE: Final = 5_000  # workers who say enough about all
Part = tuple[slice, Floats, Floats, Floats]  # some workers, and of them the likelihoods, their scale, and `alike`


class Seen(NamedTuple):
    """Each vote beside what the other votes of its task say, [votes] each."""

    right: Singles  # the posterior of the label it gives
    others: Singles  # the same without the vote: what one who looks goes by
    guess: Singles  # the chance that one who guesses as this worker does gives this label


def mutual_information(ballots: Ballots, belief: Belief) -> Floats:
    """Return the bits that a vote of each worker tells about the truth, [workers]; at least 0.

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
    """Return every vote beside what the others say of its task.

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
    """Return the posterior without the vote, but for a factor, [votes], in the place of `own`; witnessed votes stay in it."""
    if witnessed is not None:
        chance[witnessed] = 1.0
    own /= chance
    return own


class Kinds(NamedTuple):
    """How likely each worker is of which kind, and how often each looks (or evades)."""

    evader: Floats  # [workers] probability
    guesser: Floats  # [workers]
    looks: Floats  # [workers] expected share of votes that look at the truth
    evades: Floats  # [workers] and of those that evade it
    bits: Floats  # [workers] evidence that answers say anything, against guessing
    alike: Floats  # [workers] evidence that all labels are given alike, in bits, against evading


def kinds(ballots: Ballots, seen: Seen) -> Kinds:
    """Return what kind every worker is, with the mixture of kinds told by all workers."""
    n = ballots.panel.n_workers
    every = max(n // SAMPLE, 1)
    parts = ((cut, *_likelihoods(ballots, seen, places, worker, cut)) for cut, places, worker in ballots.by_workers())
    if n <= WORKERS:
        at_once = [next(parts)]
        return _told(n, at_once, _mixture(at_once[0][1][::every]))
    # More workers than are looked at at once: first those who say enough about all, then all of them.
    sample = [likelihood[-cut.start % every :: every] for cut, likelihood, *_ in parts]
    weights = _mixture(np.concatenate(sample))
    del sample
    again = ((cut, *_likelihoods(ballots, seen, places, worker, cut)) for cut, places, worker in ballots.by_workers())
    return _told(n, again, weights)


def _likelihoods(
    ballots: Ballots, seen: Seen, places: Places, worker: NDArray[np.int64], cut: slice
) -> tuple[Floats, Floats, Floats]:
    """Return of some workers, against guessing: likelihoods, [workers, hypotheses], their scale, and that of all alike.

    Likelihoods are divided by a factor, whose logarithm is the scale, [workers, 1]. The last, [workers], is a logarithm.
    """
    n, labels = cut.stop - cut.start, ballots.n_labels
    guess, others = seen.guess[places], seen.others[places]
    log_likelihood = _log_likelihoods(guess, others, worker, n, labels)
    alike: Floats = np.bincount(worker, -np.log(labels * guess), minlength=n).astype(np.float64, copy=False)
    scale = log_likelihood.max(axis=1, initial=0.0, keepdims=True)
    log_likelihood -= scale
    return np.exp(log_likelihood, out=log_likelihood), scale, alike


def _told(n: int, parts: Iterable[Part], weights: Floats) -> Kinds:
    """Return what kind every worker is, [n] each, given how frequent each hypothesis is."""
    out = Kinds(*(np.empty(n) for _ in Kinds._fields))
    evading, looking = weights[:GUESSES], weights[GUESSES + 1 :]
    for cut, likelihood, scale, alike in parts:
        evaded = likelihood[:, :GUESSES] @ (evading / evading.sum())
        won = 0.5 * (evaded + likelihood[:, GUESSES + 1 :] @ (looking / looking.sum()))
        joint = np.multiply(likelihood, weights, out=likelihood)
        joint /= joint.sum(axis=1, keepdims=True)
        out.evader[cut] = joint[:, :GUESSES].sum(axis=1)
        out.guesser[cut] = joint[:, GUESSES]
        out.looks[cut] = joint[:, GUESSES + 1 :] @ LOOKS
        out.evades[cut] = joint[:, :GUESSES] @ EVADES
        out.bits[cut] = (_log(won) + scale[:, 0] - np.maximum(alike - OWN, 0.0)) / np.log(2.0)
        out.alike[cut] = (alike - _log(evaded) - scale[:, 0]) / np.log(2.0)
    return out


def _log(likelihood: Floats) -> Floats:
    out: Floats = np.log(np.maximum(likelihood, 1e-300))
    return out


def expected(ballots: Ballots, seen: Seen, found: Kinds) -> NDArray[np.float32]:
    """Return the probability of each vote, [votes], given the others of its task and what its worker is like."""
    worker, labels = ballots.worker(), ballots.n_labels
    looks, evades, evader = (part.astype(np.float32)[worker] for part in (found.looks, found.evades, found.evader))
    guessing = seen.guess * (1.0 - looks - evader)
    chance = guessing + looks * seen.others + (evader - evades) / labels + evades * _evaded(seen.others, labels)
    out: NDArray[np.float32] = np.clip(chance, 0.005, 0.995)
    return out


def _log_likelihoods(guess: Singles, others: Singles, worker: NDArray[np.int64], workers: int, labels: int) -> Floats:
    """Return the log-likelihood of each worker's votes under each hypothesis, less that of guessing, [workers, hypotheses].

    `guess`, `others` and `worker` are those of the votes, [votes] each.
    """
    out = np.zeros((workers, GUESSES + 1 + len(LOOKS)))
    evaded, lift = _evaded(others, labels), others / guess - 1.0
    for n, share in enumerate(EVADES.astype(np.float32)):
        ratio = ((1.0 - share) / labels + share * evaded) / guess
        out[:, n] = np.bincount(worker, np.log(ratio), minlength=len(out))
    for n, share in enumerate(LOOKS.astype(np.float32)):
        out[:, GUESSES + 1 + n] = np.bincount(worker, np.log1p(share * lift), minlength=len(out))
    return out


def _evaded(others: Singles, labels: int) -> Singles:
    """Return the chance that one who gives any label but the true one gives the label of each vote, [votes]."""
    return (1.0 - others) / np.float32(max(labels - 1, 1))


def _mixture(likelihood: Floats) -> Floats:
    """Return how frequent each hypothesis is, [hypotheses], by EM over workers, from likelihoods [workers, hypotheses].

    Those who look do so with a share that is beta distributed, which keeps them apart from guessers.
    """
    share, mean, strength = LENT / LENT.sum(), 0.5, 6.0
    evading = EVADES / EVADES.sum()
    weights = np.zeros(likelihood.shape[1])
    for _ in range(ROUNDS):
        height = (mean * strength - 1.0) * np.log(LOOKS) + ((1.0 - mean) * strength - 1.0) * np.log(1.0 - LOOKS)
        looking = np.exp(height - height.max())
        weights = np.concatenate([share[0] * evading, share[1:2], share[2] * looking / looking.sum()])
        joint = likelihood * weights
        joint /= joint.sum(axis=1, keepdims=True)
        each = joint.sum(axis=0)
        share = LENT + np.array([each[:GUESSES].sum(), each[GUESSES], each[GUESSES + 1 :].sum()])
        share = share / share.sum()
        of_lookers = each[GUESSES + 1 :]
        number = of_lookers.sum() + 2.0  # two workers lent: half of their votes look, give or take 0.2
        mean = float((of_lookers @ LOOKS + 1.0) / number)
        variance = float((of_lookers @ (LOOKS - mean) ** 2 + 0.08) / number)
        strength = float(np.clip(mean * (1.0 - mean) / variance - 1.0, 2.0, 100.0))
    return weights
