"""A stream in plain Python: units, tables, and honest confidence, as the compiled state has them, to the same bits.

The counts are those of the labels that tasks have, in whole units. What is measured from all votes is renewed when a tenth
of them has changed; `adjudge.models.honest` makes it of the sums that are taken here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.kernels import reference

SHARE_UNITS: Final = 1 << 32  # units
LOG_ZERO: Final = -math.inf
MISSING_LABEL: Final = 0xFFFFFFFF  # the code of a label that is not there
Units = tuple[int, ...]  # [K]


def to_units(probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return probabilities, [n, K], as units that sum to one exactly; the largest absorbs the rounding error."""
    units = np.rint(probabilities * SHARE_UNITS).astype(np.int64)
    largest = probabilities.argmax(axis=1)
    units[np.arange(len(units)), largest] += SHARE_UNITS - units.sum(axis=1)
    return units


def share_of(probabilities: list[float]) -> Units:
    """Return what `to_units` does, for one task."""
    units = [round(p * float(SHARE_UNITS)) for p in probabilities]
    units[probabilities.index(max(probabilities))] += SHARE_UNITS - sum(units)
    return tuple(units)


def limit(prior: list[float], lines: list[list[float]]) -> list[float]:
    """Return the scores of a task that every label excludes, in the limit of smoothing to 0, [K].

    The labels with the fewest impossible votes keep the finite part of their score; a prior of 0 excludes a label.
    """
    misses, finite = [], []
    for c, start in enumerate(prior):
        score, impossible = start, 0
        for line in lines:
            impossible += line[c] == LOG_ZERO
            score += 0.0 if line[c] == LOG_ZERO else line[c]
        misses.append(math.inf if start == LOG_ZERO else impossible)
        finite.append(score)
    fewest = min(misses)
    return [score if missed == fewest else LOG_ZERO for score, missed in zip(finite, misses, strict=True)]


def log(x: float) -> float:
    """Return the logarithm, minus infinity for 0."""
    return math.log(x) if x > 0.0 else LOG_ZERO


def shift(line: Units, share: Units, sign: int) -> Units:
    """Return a line of counts after a share was put in (1) or taken out (-1)."""
    return tuple(a + sign * b for a, b in zip(line, share, strict=True))


Texts = tuple[NDArray[np.int64], NDArray[np.uint8]]  # offsets [n + 1], bytes


class PendingChange:
    """The tables after a pending change: new values are kept separately and take precedence over the tables."""

    def __init__(self, tables: dict[str, dict[Any, Any]]) -> None:
        self._tables = tables
        self._sizes = {name: len(table) for name, table in tables.items()}
        self.parts: dict[str, dict[Any, Any]] = {name: {} for name in tables}

    def get(self, name: str, key: Any) -> Any:
        """Return the value of a key, None if there is none."""
        part = self.parts[name]
        return part[key] if key in part else self._tables[name].get(key)

    def put(self, name: str, key: Any, value: Any) -> None:
        """Set the value of a key."""
        part = self.parts[name]
        self._sizes[name] += key not in part and key not in self._tables[name]
        part[key] = value

    def put_task(self, task: int, **values: Any) -> None:
        """Set values of a task, by table."""
        for name, value in values.items():
            self.put(name, task, value)

    def add(self, fact: str, number: int) -> None:
        """Add a number to a fact."""
        self.put("fact", fact, self.get("fact", fact) + number)

    def shift(self, name: str, key: Any, share: Units, sign: int) -> None:
        """Put a share into a line of counts (1), or take it out (-1)."""
        self.put(name, key, shift(self.get(name, key), share, sign))

    def count(self, names: tuple[str, str, str], row: int, share: Units, sign: int = 1) -> None:
        """Put the share of a vote into the counts by row, by worker and by given label, or take it out."""
        for name, key in zip(names, (row, *self.get("pair", row)), strict=True):
            self.shift(name, key, share, sign)

    def size(self, name: str) -> int:
        """Return how many keys a table has."""
        return self._sizes[name]

    def code(self, name: str, text: str) -> int:
        """Return the code of a text; a new one gets the next."""
        code: int | None = self.get(name, text)
        return self.next_code(name, text) if code is None else code

    def next_code(self, name: str, text: str) -> int:
        """Return a new code for a text."""
        code = self.size(f"{name} text")
        self.put(name, text, code)
        self.put(f"{name} text", code, text)
        return code

    def merge(self) -> dict[str, dict[Any, Any]]:
        """Return the tables with the change in them."""
        return {name: {**table, **self.parts[name]} if self.parts[name] else table for name, table in self._tables.items()}


def pack(ids: Iterable[str]) -> Texts:
    """Return texts as offsets, [n + 1], and bytes."""
    encoded = [text.encode() for text in ids]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(encoded), np.uint8)


def unpack(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> list[str]:
    """Return the texts that `pack` has packed."""
    whole, cuts = data.tobytes(), offsets.tolist()
    return [whole[a:b].decode() for a, b in zip(cuts, cuts[1:], strict=False)]


POSTERIOR, HONEST, LASTING = 0, 1, 2  # kinds of confidence: LASTING takes what was measured, however long ago
NOTHING, LABELS, ALL = 0, 1, 2  # what a renewal is due of: LABELS is the mean worker, because a vote names a new label
RENEW_AFTER: Final = 10  # measure again when one vote in ten has changed
CELLS_PER_CHANGE: Final = 8192  # and no more of the K * K cells of the mean worker are recounted per change
FIT: Final = 1 << 32  # changes that a fit counts as: more than a tenth of any votes
LENT_HITS: Final = 5.0  # votes of the mean worker lent where shared error is measured
LENT_AGREED: Final = 2.0  # and where agreement with the labels is
TOGETHER: Final = 8  # votes whose probabilities are multiplied before the logarithm is taken
SAMPLED_CELLS: Final = 1 << 17  # votes x labels of the sample that workers are judged by, about
Line = tuple[int, ...]  # [K] counts, in units


class Measured(NamedTuple):
    """The inputs of honest confidence other than the running counts."""

    lent: list[list[float]]  # [K given, K true] units of votes of the mean worker that every worker is lent
    lent_total: float  # for every true label
    log_prior: list[float]  # [K] where scores start
    uniform: list[float]  # [K] equal shares of the labels that exist, 0 for others
    shared_error: float
    holds: float
    votes: int  # that there were
    changes: int  # that there had been


class RuleVote(NamedTuple):
    """A vote, as the rule sees it."""

    given: int
    seen: Line  # the worker's votes for this label, by the labels of their tasks
    total: Line  # all of the worker's votes


def due(measured: Measured | None, kind: int, changes: int, named: Line) -> int:
    """Return what must be renewed before such readers can be answered; `named` has the votes by label, [K]."""
    if kind == POSTERIOR:
        return NOTHING
    if measured is None:
        return ALL
    since = changes - measured.changes
    after = max((measured.votes + RENEW_AFTER - 1) // RENEW_AFTER, len(named) ** 2 // CELLS_PER_CHANGE)
    if kind == HONEST and since and since >= after:
        return ALL
    unknown = any(votes and not share > 0.0 for votes, share in zip(named, measured.uniform, strict=True))
    return LABELS if unknown else NOTHING


def before_last_step(ballots: list[RuleVote], label: int, measured: Measured, one: int) -> list[float]:
    """Return the honest probabilities of a task that has this label, before the last step of the rule, [K]."""
    k, uniform = len(measured.uniform), measured.uniform
    scores, shown = list(measured.log_prior), list(uniform)
    for first in range(0, len(ballots), TOGETHER):
        product = [1.0] * k
        for ballot in ballots[first : first + TOGETHER]:
            lent, whole = measured.lent[ballot.given], measured.lent_total
            says = []
            for c in range(k):
                own = one if c == label else 0  # the task's own part is left out
                says.append((float(ballot.seen[c] - own) + lent[c]) / (float(ballot.total[c] - own) + whole))
            says[ballot.given] = max(says)  # no vote speaks against what it says
            product = [p * x for p, x in zip(product, says, strict=True)]
            shown[ballot.given] += 1.0
        for c in range(k):
            if uniform[c] > 0.0:
                scores[c] += math.log(product[c])
    best = max((s for s, share in zip(scores, uniform, strict=True) if share > 0.0), default=-math.inf)
    size = float(len(ballots))
    cold = min(1.0, 2.0 * measured.holds) / (2.0 * (1.0 + (size - 1.0) * measured.shared_error))
    weight = [math.exp((s - best) * cold) if share > 0.0 else 0.0 for s, share in zip(scores, uniform, strict=True)]
    total = 0.0
    for w in weight:  # in this order: sum() may add more exactly
        total += w
    share = reference.VOTE_SHARE
    return [(1.0 - share) * (w / total) + share * s / (size + 1.0) for w, s in zip(weight, shown, strict=True)]


def last_step(before: list[float], label: int) -> tuple[bool, list[float]]:
    """Return whether the two best are as likely, and the probabilities in which the label has the largest, [K]."""
    best, total = 0.0, 0.0
    for p in before:
        best = max(best, p)
        total += p
    near = sum(p >= best - reference.TIE_TOLERANCE for p in before)
    total += best - before[label]
    return near > 1, [(best if c == label else p) / total for c, p in enumerate(before)]


def answer_units(probability: float) -> int:
    """Return the probability of a vote's own label in the units of sums by worker."""
    return round(probability / reference.ANSWER_UNIT)


def stream_pair_sums(
    tasks: list[tuple[list[tuple[int, int]], int, int]],  # of each without gold: its votes (worker, given), winner, label
    named: Line,  # [K] votes on these by label
    agreeing: int,  # those that equal the label of their task
) -> tuple[float, float, float, float, float]:
    """Return the sums over pairs of votes on one task that honest confidence is measured from; see `Measures` in the core."""
    every = float(sum(named))
    if not every:
        return 0.0, 0.0, 0.0, 0.0, 0.0
    same = 0.0
    for votes in named:
        same += (float(votes) / every) * (float(votes) / every)
    chance, agree = min(same, 0.999), float(agreeing) / every
    by_worker: dict[int, list[int]] = {}
    hits = 0
    for ballots, winner, label in tasks:
        for worker, given in ballots:
            counts = by_worker.setdefault(worker, [0, 0, 0])
            for place, is_so in enumerate((True, given == winner, given == label)):
                counts[place] += is_so
            hits += given == winner
    mean = float(hits) / every
    of_worker: dict[int, tuple[float, float, float]] = {}
    for worker, (votes, hit, right) in by_worker.items():
        rate = min(max((float(hit) + LENT_HITS * mean) / (float(votes) + LENT_HITS), 0.02), 0.98)
        agreed = (float(right) + LENT_AGREED * agree) / (float(votes) + LENT_AGREED)
        skill = min(max((agreed - chance) / (1.0 - chance), 0.0), 1.0)
        of_worker[worker] = rate, math.sqrt(rate * (1.0 - rate)), skill
    totals, alike, pairs = [0.0, 0.0, 0.0], 0, 0
    for ballots, winner, _ in tasks:
        sums, squares = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
        shown: dict[int, int] = {}
        for worker, given in ballots:
            rate, deviation, skill = of_worker[worker]
            alike += 2 * shown.get(given, 0)
            shown[given] = shown.get(given, 0) + 1
            for place, x in enumerate((float(given == winner) - rate, deviation, skill)):
                sums[place] += x
                squares[place] += x * x
        pairs += len(ballots) * (len(ballots) - 1)
        totals = [total + (x * x - square) for total, x, square in zip(totals, sums, squares, strict=True)]
    return totals[0], totals[1], totals[2], float(alike), float(pairs)


def keep_measured(moment: tuple[float, float, float, int, int], lent: Any, log_prior: Any, uniform: Any, one: int) -> Measured:
    """Return what is kept of a renewal; `moment` has lent_total, shared_error, holds, votes, changes; `lent` counts in `one`."""
    lent_total, shared_error, holds, votes, changes = moment
    units = [[x * float(one) for x in line] for line in lent.tolist()]
    return Measured(units, lent_total * float(one), log_prior.tolist(), uniform.tolist(), shared_error, holds, votes, changes)


def widen(measured: Measured) -> Measured:
    """Return what was measured with one more label, which nobody has given."""
    lent = [[*line, 0.0] for line in measured.lent] + [[0.0] * (len(measured.lent) + 1)]
    return measured._replace(lent=lent, log_prior=[*measured.log_prior, -math.inf], uniform=[*measured.uniform, 0.0])
