"""Server-sent events: bytes become events, and a cursor knows which of them were seen."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from adjudge.client.errors import ConnectionFailed, Unexpected
from adjudge.errors import OptionError, shown
from adjudge.live.decision import Decision

SILENCE: Final = 45.0  # seconds after which a connection is taken for lost: the service says something every 15
MAX_EVENT: Final = 1_000_000  # bytes of an event without an end
ALL: Final = 10**9  # decisions at one position, all of them

_decision: Final = msgspec.json.Decoder(Decision).decode


class Event(NamedTuple):
    """One event: its id ("" where it has none), its kind, and what it holds."""

    id: str
    kind: str
    data: bytes


class Parser:
    r"""Takes bytes as they come, and returns whole events.

    >>> parser = Parser()
    >>> parser.feed(b": hello\n\nid: 17\nevent: decision\nda"), parser.feed(b"ta: {}\r\n\r\n")
    ([], [Event(id='17', kind='decision', data=b'{}')])
    """

    def __init__(self) -> None:
        self._rest = b""
        self._clear()

    def _clear(self) -> None:
        self._id, self._kind = "", "message"
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[Event]:
        """Return the events that are whole now.

        - `piece`: bytes as they came.
        """
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > MAX_EVENT:
            raise Unexpected("an event has no end: is this the address of a adjudge service?")
        found: list[Event] = []
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if not line:
                if self._data:
                    found.append(Event(self._id, self._kind, b"\n".join(self._data)))
                self._clear()
                continue
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                self._data.append(value)
            elif name == b"event":
                self._kind = value.decode(errors="replace")
            elif name == b"id":
                self._id = value.decode(errors="replace")
        return found


class Seen:
    """Where in the sequence of decisions a reader is: it gets each of them once, over any number of connections.

    - `after`: a position, behind all of whose decisions it begins; or the place of a decision, such as "17.2".

    >>> seen = Seen("17.2")
    >>> str(seen), str(Seen(17))
    ('17.2', '17')
    """

    def __init__(self, after: int | str) -> None:
        given = str(after) if isinstance(after, int | str) and not isinstance(after, bool) else ""
        position, dot, number = given.partition(".")
        if not _is_number(position) or (dot and not _is_number(number)):
            raise OptionError(f"after is {shown(after)}: give a position such as 17, or the place of a decision such as '17.2'")
        self._place = int(position), int(number) if dot else ALL

    def __str__(self) -> str:
        position, number = self._place
        return str(position) if number == ALL else f"{position}.{number}"

    def new(self, events: list[Event]) -> list[tuple[str, Decision]]:
        """Return the decisions among events that were not seen yet, each with its place."""
        found: list[tuple[str, Decision]] = []
        for event in events:
            if event.kind != "decision":
                continue
            position, dot, number = event.id.partition(".")
            if not _is_number(position) or (dot and not _is_number(number)):
                raise Unexpected(f"an event has the id {event.id!r}, which is no position")
            place = int(position), int(number) if dot else 1
            if place <= self._place:
                continue
            try:
                decision = _decision(event.data)
            except (ValueError, RecursionError) as error:
                raise Unexpected(f"an event is not understood: {error}") from None
            self._place = place
            found.append((str(self), decision))
        return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def ended() -> ConnectionFailed:
    """Return the error for a stream of events that has ended: the server stops, or this reader was too slow."""
    return ConnectionFailed("the stream of events has ended", sent=True)
