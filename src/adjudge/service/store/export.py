"""Votes and decisions of a campaign as a sequence of frames, for `adjudge.io.write.write_batches`."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from adjudge.service.store.events import Change, Created, LabelAdded, Retraction, Vote, to_micros
from adjudge.service.store.ids import hash_of
from adjudge.service.store.rows import encode_text

if TYPE_CHECKING:
    from adjudge.service.store.store import Store

ROWS_PER_FRAME: Final = 1 << 16
TIME: Final = pl.Datetime("us", "UTC")
VOTES_SCHEMA: Final = {
    "task": pl.String(),
    "worker": pl.String(),
    "label": pl.String(),
    "time": TIME,
    "position": pl.Int64(),
    "event": pl.String(),
    "id": pl.String(),
}
DECISIONS_SCHEMA: Final = {
    "task": pl.String(),
    "label": pl.String(),
    "confidence": pl.Float64(),
    "status": pl.String(),
    "votes": pl.Int64(),
    "policy": pl.Int64(),
    "time": TIME,
    "position": pl.Int64(),
    "reason": pl.String(),
    "flips": pl.Int64(),
    "by": pl.String(),
}


def vote_frames(store: Store, campaign: int, *, in_force: bool = True) -> Iterator[pl.DataFrame]:
    """Yield votes that have not expired, in the order of the log: at least one frame, which may be empty.

    Columns: task, worker (the name, or `#7` if the name of worker 7 was erased), label (its id), time, position, event and id.
    With `in_force`, only the last vote of each worker on each task, unless it was retracted; otherwise every vote, change and
    retraction (which has no label).
    """
    until = store.last(campaign)
    kept = _positions_in_force(store, campaign, until) if in_force else None
    return _frames(_vote_rows(store, campaign, until, kept), VOTES_SCHEMA)


def decision_frames(store: Store, campaign: int) -> Iterator[pl.DataFrame]:
    """Yield decisions in the order of the log, a column for each of their fields: at least one frame."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode

    def rows() -> Iterator[tuple[Any, ...]]:
        for row in store.decisions(campaign):
            fields = decode(row.body) | {"task": row.task, "position": row.position}
            fields["time"] = to_micros(fields["time"]) if fields.get("time") else None
            yield tuple(fields.get(name) for name in DECISIONS_SCHEMA)

    return _frames(rows(), DECISIONS_SCHEMA)


def _names(store: Store, campaign: int) -> dict[int, str]:
    """Return the names of workers by number, with an unused one in place of each that was erased."""
    names = dict(store.workers(campaign))
    taken = set(names.values())
    for number, name in names.items():
        if name is None:
            substitute = f"#{number}"
            while substitute in taken:
                substitute = "#" + substitute
            names[number] = substitute
    return {number: str(name) for number, name in names.items()}


def _vote_rows(store: Store, campaign: int, until: int, kept: npt.NDArray[np.int64] | None) -> Iterator[tuple[Any, ...]]:
    names, base = _names(store, campaign), store.bases.find(campaign)
    labels: list[str] = [] if base is None else list(base.labels)
    labels_position = 0 if base is None else base.position
    at = 0
    for first, events in store.read(campaign, until=until, skip_expired=True):
        for position, event in enumerate(events, first):
            if isinstance(event, Vote | Change | Retraction):
                if kept is not None:
                    while at < len(kept) and kept[at] < position:  # expired meanwhile
                        at += 1
                    if at == len(kept) or kept[at] != position:
                        continue
                label = None if isinstance(event, Retraction) else labels[event.label]
                vote_id = None if isinstance(event, Retraction) else event.id
                name = names.get(event.worker, f"#{event.worker}")
                yield event.task, name, label, event.time, position, event.__struct_config__.tag, vote_id
            elif isinstance(event, Created):
                labels = list(event.labels)
            elif isinstance(event, LabelAdded) and position > labels_position:
                labels.append(event.id)


def _positions_in_force(store: Store, campaign: int, until: int) -> npt.NDArray[np.int64]:
    """Return the positions of votes in force, in order; this takes 24 bytes per vote of the log."""
    keys, positions, counts = bytearray(), array("q"), bytearray()
    for first, events in store.read(campaign, until=until, skip_expired=True):
        for position, event in enumerate(events, first):
            if isinstance(event, Vote | Change | Retraction):
                keys += hash_of(encode_text(f"{event.worker} {event.task}"))
                positions.append(position)
                counts.append(not isinstance(event, Retraction))
    pairs = np.frombuffer(keys, np.uint64).reshape(-1, 2)
    places = np.frombuffer(positions, np.int64)
    order = np.lexsort((places, pairs[:, 1], pairs[:, 0]))
    ordered = pairs[order]
    last = np.ones(len(order), bool)
    last[:-1] = (ordered[1:] != ordered[:-1]).any(1)
    last &= np.frombuffer(counts, bool)[order]
    return np.sort(places[order[last]])


def _frames(rows: Iterator[tuple[Any, ...]], schema: dict[str, Any]) -> Iterator[pl.DataFrame]:
    stored = {name: pl.Int64() if kind == TIME else kind for name, kind in schema.items()}
    is_first = True
    while (chunk := list(islice(rows, ROWS_PER_FRAME))) or is_first:
        yield pl.DataFrame(chunk, schema=stored, orient="row").cast({"time": TIME})
        is_first = False
