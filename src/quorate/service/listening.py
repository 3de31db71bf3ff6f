"""Those who listen to the decisions of a campaign, as they come to be on disk."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from quorate.live.decision import Decision
from quorate.service.errors import Lagged

MOST: Final = 10_000  # decisions that a listener may be behind


class Listener:
    """One who listens: decisions in order, until it is too slow."""

    def __init__(self) -> None:
        self._waiting: deque[Decision] = deque()
        self._there = asyncio.Event()
        self.is_lagged = False

    def tell(self, decisions: list[Decision]) -> None:
        """Take decisions that are on disk."""
        if len(self._waiting) + len(decisions) > MOST:
            self.is_lagged = True
        else:
            self._waiting.extend(decisions)
        self._there.set()

    async def next(self) -> list[Decision]:
        """Return the decisions that have come, at least one."""
        while not self._waiting:
            if self.is_lagged:
                raise Lagged(f"more than {MOST} decisions were waiting")
            self._there.clear()
            await self._there.wait()
        found = list(self._waiting)
        self._waiting.clear()
        return found


class Listeners:
    """All who listen to one campaign."""

    def __init__(self) -> None:
        self._all: set[Listener] = set()

    def __len__(self) -> int:
        return len(self._all)

    def tell(self, decisions: list[Decision]) -> None:
        """Tell all of them."""
        for listener in self._all:
            listener.tell(decisions)

    async def listen(self) -> AsyncIterator[Decision]:
        """Yield decisions from now on; raise `Lagged` when the caller is too slow."""
        listener = Listener()
        self._all.add(listener)
        try:
            while True:
                for decision in await listener.next():
                    yield decision
        finally:
            self._all.discard(listener)
