"""Those who look, those who guess, those who evade: how likely each worker is which.

One who looks with probability s gives the true label when looking, and else guesses in a manner of their own. One who
evades gives, with probability s, any label but the true one, and else any label at all. Guessing alone has likelihood 1
here: the logarithm of the others' is the evidence that answers say anything, what one who bet against guessing would
have won, half on looking and half on evading. Where labels are many, a manner of one's own is costly to learn; so both
evidence and evading are weighed against giving all labels alike, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.trust.ballots import WORKERS, Ballots, Places
from quorate.trust.information import Seen

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

LOOKS: Final = np.linspace(0.05, 0.95, 10)
EVADES: Final = np.array([0.35, 0.65, 0.95])
GUESSES: Final = len(EVADES)  # where guessing stands among the hypotheses: evading, guessing, looking
LENT: Final = np.array([0.1, 0.3, 9.6])  # workers lent to evading, guessing, looking: most people look
OWN: Final = float(np.log(10.0))  # guessing is in a manner of one's own, unless all labels alike are ten times likelier
ROUNDS: Final = 50
SAMPLE: Final = 5_000  # workers who say enough about all


class Kinds(NamedTuple):
    """How likely each worker is of which kind, and how often each looks (or evades)."""

    evader: Floats  # [workers] probability
    guesser: Floats  # [workers]
    looks: Floats  # [workers] expected share of votes that look at the truth
    evades: Floats  # [workers] and of those that evade it
    bits: Floats  # [workers] evidence that answers say anything, against guessing
    alike: Floats  # [workers] evidence that all labels are given alike, in bits, against evading


def kinds(ballots: Ballots, seen: Seen) -> Kinds:
    """Returns what kind every worker is, with the mixture of kinds told by all workers."""
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


Part = tuple[slice, Floats, Floats, Floats]  # some workers, and of them the likelihoods, their scale, and `alike`


def _likelihoods(
    ballots: Ballots, seen: Seen, places: Places, worker: NDArray[np.int64], cut: slice
) -> tuple[Floats, Floats, Floats]:
    """Returns of some workers, against guessing: likelihoods, [workers, hypotheses], their scale, and that of all alike.

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
    """Returns what kind every worker is, [n] each, given how frequent each hypothesis is."""
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
    """Returns the probability of each vote, [votes], given the others of its task and what its worker is like."""
    worker, labels = ballots.worker(), ballots.n_labels
    looks, evades, evader = (part.astype(np.float32)[worker] for part in (found.looks, found.evades, found.evader))
    guessing = seen.guess * (1.0 - looks - evader)
    chance = guessing + looks * seen.others + (evader - evades) / labels + evades * _evaded(seen.others, labels)
    out: NDArray[np.float32] = np.clip(chance, 0.005, 0.995)
    return out


def _log_likelihoods(guess: Singles, others: Singles, worker: NDArray[np.int64], workers: int, labels: int) -> Floats:
    """Returns the log-likelihood of each worker's votes under each hypothesis, less that of guessing, [workers, hypotheses].

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
    """Returns the chance that one who gives any label but the true one gives the label of each vote, [votes]."""
    return (1.0 - others) / np.float32(max(labels - 1, 1))


def _mixture(likelihood: Floats) -> Floats:
    """Returns how frequent each hypothesis is, [hypotheses], by EM over workers, from likelihoods [workers, hypotheses].

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
