"""A look at the pairs of workers: their agreement, and who copies whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from quorate.agreeing import copying
from quorate.agreeing.copying import Copies
from quorate.agreeing.pair_table import Cells, Ints, PairFigures, figures, tables
from quorate.agreeing.reference import Reference
from quorate.agreeing.tally import TooManyError
from quorate.agreeing.voices import heard_once
from quorate.agreeing.vote_pairs import VotePairs

REMEDY: Final = "look at a sample of the tasks, or of the workers"
ROUNDS: Final = 3  # times the labels are settled anew with one vote for each ring found so far
MOST_VOTE_PAIRS: Final = 1 << 26  # pairs of votes on the same task that are looked at; a task of n votes has n (n - 1) / 2


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
    """Returns a panel whose pairs were not looked at."""
    return Panel(reference, copying.nothing(), without=why)


def look(vote_pairs: VotePairs, reference: Reference | None, seed: int) -> Panel:
    """Returns the pairs of workers; a reference that is not truth is settled anew if a ring seems to have made it."""
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
        return Panel(None, copying.nothing(), cells, pairs)
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
    """Returns who copies whom, and for each pair how often both gave the same wrong answer, [pairs]."""
    seen = copying.gather(once, reference)
    same_wrong = np.zeros(len(pairs), np.int64)
    same_wrong[np.searchsorted(pairs.a * once.votes.n_workers + pairs.b, seen.pairs)] = seen.same_wrong()
    return copying.find(once.votes, reference, seen), same_wrong
