"""Long exchanges of the client: votes in lines, decisions as they come. Lost connections are made again."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from types import TracebackType
from typing import Any, Self

from adjudge.client.blocking import Exchange
from adjudge.client.calls import Vote
from adjudge.client.errors import ServiceError
from adjudge.client.events import Parser, Seen, ended
from adjudge.client.lines import Lines, Refusal, Refused
from adjudge.client.retry import Attempts
from adjudge.live.decision import Decision


def send_lines(
    votes: Iterable[Vote],
    lines: Lines,
    connect: Callable[[], Exchange],
    attempts: Callable[[], Attempts[Any]],
    refused: Refused | None,
) -> Generator[Decision, None, None]:
    """Yield one decision per vote.

    - `votes`: are taken as there is room for them.
    - `lines`: which are sent and answered.
    - `connect`: begins an exchange.
    - `attempts`: decides about trying again; begins anew whenever something was answered.
    - `refused`: is told of votes that are not taken; None: the first one raises.
    """
    source, exchange, tries = iter(votes), None, attempts()
    try:
        while True:
            while lines.wants:
                try:
                    lines.add(next(source))
                except StopIteration:
                    lines.end()
            if lines.finished:
                return
            try:
                if exchange is None:
                    exchange = connect()
                    lines.begin()
                lines.check()
                exchange.write(lines.outgoing())
                if lines.ended:
                    exchange.end()
                found = lines.received(exchange.piece())
            except ServiceError as error:
                if exchange is not None:
                    exchange.close()
                    exchange = None
                time.sleep(tries.after(error))
                continue
            if found:
                tries = attempts()
            for one in found:
                if isinstance(one, Decision):
                    yield one
                else:
                    refuse(one, refused)
    finally:
        if exchange is not None:
            exchange.close()


def refuse(refusal: Refusal, refused: Refused | None) -> None:
    """Tell of a vote that was not taken, or raise."""
    if refused is None:
        raise refusal.error
    refused(*refusal)


class Events:
    """Decisions as they come, each once: an iterator that makes lost connections again.

    `last` is the place of the decision that came last, as "17.1". A program that stores it, and begins with it the next time
    (`client.events(after=last)`), misses none and gets none twice.
    """

    def __init__(self, seen: Seen, connect: Callable[[str], Exchange], attempts: Callable[[bool], Attempts[Any]]) -> None:
        self.last = str(seen)
        self._seen, self._connect, self._attempts = seen, connect, attempts
        self._exchange: Exchange | None = None
        self._running = self._run()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Decision:
        self.last, decision = next(self._running)
        return decision

    def _run(self) -> Generator[tuple[str, Decision], None, None]:
        tries, parser, answered = self._attempts(False), Parser(), False
        try:
            while True:
                try:
                    if self._exchange is None:
                        self._exchange, parser = self._connect(str(self._seen)), Parser()
                    piece = self._exchange.piece()
                    if not piece:
                        raise ended()
                    found = self._seen.new(parser.feed(piece))
                except ServiceError as error:
                    self._drop()
                    time.sleep(tries.after(error))
                    continue
                if found or not answered:
                    tries, answered = self._attempts(True), True  # from now on a lost connection is waited for
                yield from found
        finally:
            self._drop()

    def _drop(self) -> None:
        if self._exchange is not None:
            self._exchange.close()
            self._exchange = None

    def close(self) -> None:
        """Let go of the connection."""
        self._running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
