"""A look at the pairs of workers: their agreement, and who copies whom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from quorate.agreeing import copying
from quorate.agreeing.copying import Alike, Copies
from quorate.agreeing.pair_table import Cells, Ints, Keys, PairFigures, figures, tables
from quorate.agreeing.reference import Reference
from quorate.agreeing.tally import Tally, TooManyError
from quorate.agreeing.voices import heard_once
from quorate.agreeing.vote_pairs import Block, VotePairs
from quorate.votes import Votes

MOST_VOTE_PAIRS: Final = 1 << 28  # pairs of votes on the same task that are looked at; a task of n votes has n (n - 1) / 2


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
        return unseen(reference, f"the tasks have {number} pairs of votes, more than the {MOST_VOTE_PAIRS} that are looked at")
    if votes.n_workers**2 * votes.n_labels * (votes.n_labels + 1) >= 2**62:
        return unseen(reference, f"{votes.n_workers} workers x {votes.n_labels} labels are too many to look at in pairs")
    try:
        return _look(vote_pairs, reference, seed)
    except TooManyError as error:
        return unseen(reference, f"the tables of {votes.n_workers} workers have {error}")


def _look(vote_pairs: VotePairs, reference: Reference | None, seed: int) -> Panel:
    votes = vote_pairs.votes
    if reference is None:
        cells = tables(vote_pairs)
        return Panel(None, copying.nothing(), cells, figures(cells))
    alike_key, alike = copying.alike_tally(votes, reference)
    known_key, known = _known_tally(votes, reference)
    cells = tables(vote_pairs, [(alike_key, alike), *([] if known is None else [(known_key, known)])])
    pairs = figures(cells)
    code = pairs.a * votes.n_workers + pairs.b
    copies, same_wrong = _find(votes, reference, copying.decode(alike, votes), known, pairs)
    panel = Panel(reference, copies, cells, pairs, same_wrong)
    if reference.source == "truth":
        return panel
    better = heard_once(votes, reference, pairs, copies, seed)
    if better is reference:
        return panel
    copies, same_wrong = copying.find(votes, better, copying.count_alike(vote_pairs, better), code, pairs.shared)
    return replace(panel, reference=better, copies=copies, same_wrong=same_wrong)


def _find(votes: Votes, reference: Reference, alike: Alike, known: Tally | None, pairs: PairFigures) -> tuple[Copies, Ints]:
    code = pairs.a * votes.n_workers + pairs.b
    if known is None:
        return copying.find(votes, reference, alike, code, pairs.shared)
    some, shared = known.counts()
    copies, found = copying.find(votes, reference, alike, some, shared)
    same_wrong = np.zeros(len(code), np.int64)
    same_wrong[np.searchsorted(code, some)] = found
    return copies, same_wrong


def _known_tally(votes: Votes, reference: Reference) -> tuple[Keys, Tally | None]:
    """Returns what counts the pairs of votes on tasks of known label by pair of workers; no tally where all are known."""
    worker, w = votes.row_worker(), votes.n_workers
    known = reference.labels >= 0

    def keys(block: Block) -> Ints:
        there = known[block.task]
        return worker[block.left[there]] * w + worker[block.right[there]]

    return keys, None if known.all() else Tally(w * w)
