"""All workers of a campaign at a moment, as columns that can be sorted and searched: read in slices, and kept for a while."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.service.http import views
from adjudge.service.http.fold import Slice, Steps

if TYPE_CHECKING:
    from adjudge.service.campaigns.crowd import Worker
    from adjudge.service.campaigns.state import CampaignState
    from adjudge.service.http.campaign import Campaign

WORKERS_PER_STEP: Final = 256
ROSTER_AGE_S: Final = 5.0
STALE_S: Final = 120.0  # up to which an old roster is shown while a new one is read
ROSTER_REST_RATIO: Final = 20.0  # times as long as reading took that a roster holds at least
SORTS: Final = {"votes": "votes", "accuracy": "accuracy", "drift": "drift", "name": "worker"}
SCHEMA: Final = {
    "code": pl.Int64,
    "worker": pl.String,
    "votes": pl.Int64,
    "accuracy": pl.Float64,
    "accuracy_low": pl.Float64,
    "accuracy_high": pl.Float64,
    "recent": pl.Float64,
    "drift": pl.Float64,
    "group": pl.String,
    "expert": pl.Boolean,
    "banned": pl.Boolean,
    "probation": pl.Boolean,
}


class Roster(NamedTuple):
    """The workers of a campaign.

    - `frame`: a line per worker: number as `code`, name, votes, accuracy with its interval, recent mean and drift.
    - `position`: of the campaign then; `chance`: accuracy of who guesses at the rates at which labels are decided.
    """

    frame: pl.DataFrame
    position: int
    chance: float


class Page(NamedTuple):
    """One page of workers, and the cursor of the next; None on the last."""

    rows: list[dict[str, object]]
    next: str | None
    found: int


def list_page(roster: Roster, *, sort: str, descending: bool, search: str, after: str | None, limit: int) -> Page:
    """Return workers after a cursor, in an order.

    - `sort`: a key of `SORTS`; workers of equal value follow by number.
    - `search`: part of a name, or a group.
    - `after`: number of the last worker before.
    """
    frame = roster.frame
    if search:
        lowered = pl.lit(search.lower())
        names = pl.col("worker").str.to_lowercase().str.contains(lowered, literal=True)
        frame = frame.filter(names | (pl.col("group").str.to_lowercase() == lowered).fill_null(value=False))
    column = SORTS[sort]
    ordered = frame.sort(column, "code", descending=[descending, False], nulls_last=True)
    start = 0
    if after is not None:
        number = int(after) if after.isascii() and after.isdigit() and len(after) < 19 else -1
        start = next((at + 1 for at in np.flatnonzero(ordered["code"].to_numpy() == number).tolist()), 0)
    rows = ordered.slice(start, limit).to_dicts()
    more = start + limit < len(ordered)
    return Page(rows, str(rows[-1]["code"]) if more else None, len(ordered))


class Rosters:
    """Caches rosters and reads them again once they are too old."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, float, Roster]] = {}
        self._reading: set[int] = set()

    async def read(self, campaign: Campaign) -> Roster:
        """Return the roster of a campaign, at most seconds old if few people ask, else minutes."""
        now, number = time.monotonic(), campaign.number
        until, read_at, known = self._known.get(number, (0.0, 0.0, None))
        if known is not None:
            if now < until or known.position == campaign.position:
                return known
            if now - read_at < STALE_S and len(known.frame) > WORKERS_PER_STEP:
                if number not in self._reading:
                    self._reading.add(number)
                    campaign.campaigns.start(self._read(campaign))
                return known
        return await self._read(campaign)

    async def _read(self, campaign: Campaign) -> Roster:
        began = time.monotonic()
        try:
            roster = await campaign.in_turn(_steps(campaign))
        finally:
            self._reading.discard(campaign.number)
        end = time.monotonic()
        self._known[campaign.number] = end + max(ROSTER_AGE_S, ROSTER_REST_RATIO * (end - began)), end, roster
        return roster


def _steps(campaign: Campaign) -> Steps[Roster]:
    """Read all workers in slices; each sees the state as it is then."""
    pace, rows = Slice(), list[tuple[object, ...]]()
    state = campaign.state
    workers = iter(list(state.crowd.all.values()))
    while some := list(islice(workers, WORKERS_PER_STEP)):
        rows += _rows(campaign, state, some)
        if pace.is_over():
            yield None
            if campaign.state is not state:
                state = campaign.state
            pace.begin()
    frame: pl.DataFrame = yield lambda: pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return Roster(frame, state.position, _chance(state))


def _rows(campaign: Campaign, state: CampaignState, workers: Sequence[Worker]) -> list[tuple[object, ...]]:
    known = views.accuracies(state, workers)
    return [
        (
            each.number,
            campaign.names.name(each.number),
            each.votes,
            accuracy.mean,
            *(accuracy.interval or (None, None)),
            each.recent if each.seen else None,
            each.recent - each.usual if each.seen else None,
            each.group,
            each.expert,
            each.banned,
            state.on_probation(each),
        )
        for each, accuracy in zip(workers, known, strict=True)
    ]


def _chance(state: CampaignState) -> float:
    """Return how often a worker is right who guesses at the rates at which labels are decided."""
    counts = np.array(list(state.tasks.summary().labels.values()), float)
    shares: NDArray[np.float64] = counts / max(counts.sum(), 1.0)
    return float((shares**2).sum()) if counts.sum() else 1.0 / len(state.labels)
