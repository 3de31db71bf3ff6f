"""The *Log*: every event, the latest first, filtered and downloadable."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from starlette.responses import Response, StreamingResponse

from adjudge.errors import make_visible
from adjudge.service.board.pages import PAGE_HEADERS
from adjudge.service.board.story import EVENT_NAMES, Chapter, position_at, tell, tell_decision
from adjudge.service.board.visit import PageRequest
from adjudge.service.campaigns.decision import Decision
from adjudge.service.http.errors import Invalid
from adjudge.service.store.events import Event

if TYPE_CHECKING:
    from adjudge.service.http.campaign import Campaign

SHOWN_EVENTS: Final = 100
SCANNED_AT_ONCE: Final = 2000  # events read together
MAX_SCANNED: Final = 100_000  # events looked at for one page …
MAX_SCAN_S: Final = 0.1  # … and how long they are looked at
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")  # what spreadsheets would run
LOG_COLUMNS: Final = ("position", "time", "event", "task", "worker", "label", "actor", "reason", "confidence")
_decode: Final = msgspec.json.Decoder(Decision).decode


class Filter(NamedTuple):
    """Which lines of the log are shown; "" is any."""

    event: str = ""
    task: str = ""
    worker: str = ""
    label: str = ""
    reason: str = ""
    actor: str = ""
    since: str = ""
    until: str = ""

    def holds(self, chapter: Chapter) -> bool:
        """Return whether a line is shown."""
        return (
            (not self.event or chapter.kind == self.event or (self.event == "decision" and chapter.decision is not None))
            and (not self.task or chapter.task == self.task)
            and (not self.worker or self.worker in chapter.workers)
            and (not self.label or chapter.label == self.label)
            and (not self.reason or self.reason.lower() in (chapter.reason or "").lower())
            and (not self.actor or chapter.actor == self.actor)
        )


class LogSpan(NamedTuple):
    """The positions of a log that a filter's dates leave."""

    first: int
    last: int


def _day(text: str) -> int | None:
    """Return when a day begins, in microseconds since 1970; None for an empty text."""
    if not text:
        return None
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise Invalid("since and until are days, as 2026-03-31") from None
    return int(day.timestamp() * 1e6)


def _filter(visit: PageRequest) -> Filter:
    return Filter(**{name: visit.query.get(name, "").strip() for name in Filter._fields})


async def _span(campaign: Campaign, wanted: Filter) -> LogSpan:
    await campaign.on_disk_now()
    first, last, store = campaign.state.begins, campaign.committed, campaign.campaigns.store
    since, until = _day(wanted.since), _day(wanted.until)

    def find() -> LogSpan:
        begin = first if since is None else position_at(store, campaign.number, first, last, since)
        if until is None:
            return LogSpan(begin, last)
        end = until + int(timedelta(days=1).total_seconds() * 1e6)
        return LogSpan(begin, position_at(store, campaign.number, first, last, end) - 1)

    return await campaign.campaigns.in_thread(find)


async def _read(campaign: Campaign, wanted: Filter, first: int, last: int) -> list[Chapter]:
    """Return the lines of some positions, in order; most of those that a filter does not want are left out."""
    store, number = campaign.campaigns.store, campaign.number
    worker = campaign.names.number(wanted.worker) if wanted.worker else None

    def may_hold(event: Event) -> bool:
        if worker is not None and worker not in (getattr(event, "worker", None), *getattr(event, "workers", ())):
            return False
        return not wanted.task or wanted.task in (getattr(event, "task", None), *getattr(event, "tasks", ()))

    def read() -> tuple[list[tuple[int, Event]], list[Decision]]:
        pages = store.read(number, after=first - 1, until=last, skip_expired=True)
        told = [(position, event) for begin, page in pages for position, event in enumerate(page, begin) if may_hold(event)]
        decided = list[Decision]()
        if wanted.worker:  # votes have one, and decisions do not
            return told, decided
        for row in store.decisions(number, after=first - 1, task=wanted.task or None):
            if row.position > last:
                break
            decided.append(_decode(row.body))
        return told, decided

    told, decided = await campaign.campaigns.in_thread(read)

    def put() -> list[Chapter]:
        rows = [tell(position, event, campaign.state, campaign.names) for position, event in told]
        rows += map(tell_decision, decided)
        return sorted(rows, key=lambda chapter: (chapter.position, chapter.decision is not None))

    return await campaign.read(put, 5 * (len(told) + len(decided)))


async def show(visit: PageRequest) -> Response:
    """Show the log, the latest line first."""
    campaign, wanted = visit.campaign, _filter(visit)
    span = await _span(campaign, wanted)
    before = visit.query.get("before", "")
    end = min(int(before) - 1, span.last) if before.isascii() and before.isdigit() and len(before) < 19 else span.last
    rows: list[Chapter] = []
    scanned, reached, late = 0, end, time.monotonic() + MAX_SCAN_S
    while reached >= span.first and len(rows) < SHOWN_EVENTS and scanned < MAX_SCANNED and time.monotonic() < late:
        begin = max(span.first, reached - (SHOWN_EVENTS if not scanned else SCANNED_AT_ONCE) + 1)
        found = await _read(campaign, wanted, begin, reached)
        rows += [chapter for chapter in reversed(found) if wanted.holds(chapter)]
        scanned, reached = scanned + reached - begin + 1, begin - 1
    more = reached >= span.first
    if len(rows) > SHOWN_EVENTS:
        cut = rows[SHOWN_EVENTS - 1].position
        rows = [row for row in rows if row.position >= cut]
        reached, more = cut - 1, cut > span.first
    values = {
        "rows": rows,
        "filter": wanted,
        "query": {name: value for name, value in wanted._asdict().items() if value},
        "next": reached + 1 if more else None,
        "scanned": scanned,
        "total": span.last - span.first + 1,
        "events": sorted({*EVENT_NAMES.values(), "decision"}),
        "labels": campaign.labels,
    }
    return visit.board.pages.page("log.html", visit, values)


async def download(visit: PageRequest) -> Response:
    """Give every line that a filter leaves, oldest first, as CSV or JSON lines."""
    campaign, wanted, form = visit.campaign, _filter(visit), visit.query.get("format", "csv")
    if form not in ("csv", "jsonl"):
        raise Invalid("format has to be csv or jsonl")
    span = await _span(campaign, wanted)

    async def chunks() -> AsyncIterator[bytes]:
        if form == "csv":
            yield (",".join(LOG_COLUMNS) + "\r\n").encode()
        for begin in range(span.first, span.last + 1, SCANNED_AT_ONCE):
            visit.permit.check()
            rows = await _read(campaign, wanted, begin, min(begin + SCANNED_AT_ONCE - 1, span.last))
            kept = [chapter for chapter in rows if wanted.holds(chapter)]
            yield (_csv(kept) if form == "csv" else _lines(kept)).encode("utf-8", "replace")

    kind = "text/csv" if form == "csv" else "application/x-ndjson"
    headers = PAGE_HEADERS | {
        "content-disposition": f'attachment; filename="log.{form}"',
        "content-type": f"{kind}; charset=utf-8",
    }
    return StreamingResponse(chunks(), headers=headers)


def _values(chapter: Chapter) -> tuple[Any, ...]:
    confidence = None if chapter.decision is None else round(chapter.decision.confidence, 6)
    said = chapter.task, list(chapter.workers), chapter.label, chapter.actor, chapter.reason, confidence
    return chapter.position, chapter.time.isoformat(), chapter.kind, *said


def _csv(rows: list[Chapter]) -> str:
    """Return lines as CSV; a text that a spreadsheet would run begins with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out)
    for chapter in rows:
        cells = [" ".join(value) if isinstance(value, list) else value for value in _values(chapter)]
        writer.writerow([_harmless(cell) if isinstance(cell, str) else cell for cell in cells])
    return out.getvalue()


def _harmless(text: str) -> str:
    visible = make_visible(text)
    return f"'{visible}" if text.startswith(FORMULA_STARTS) else visible


def _lines(rows: list[Chapter]) -> str:
    def objects() -> Iterator[str]:
        for chapter in rows:
            yield msgspec.json.encode(dict(zip(LOG_COLUMNS, _values(chapter), strict=True))).decode() + "\n"

    return "".join(objects())
