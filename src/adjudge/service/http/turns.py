"""The time budget of the event loop: long work on a campaign runs in slices or in a thread, one piece of work at a time.

Work on the state of a campaign is a generator. It yields None when its slice is over, and the loop answers others before it
goes on; or it yields a function that takes long, and gets back what the function returned in another thread. Until the work
has ended nobody else reads or changes that campaign, so that nobody ever sees the half of it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")
Steps: TypeAlias = Generator[Callable[[], Any] | None, Any, T]
LONG_READ_US: Final = 2000  # microseconds on the loop: what takes longer is read in another thread
SLICE_S: Final = 0.005  # of work on the loop, after which others have their turn


class Slice:
    """Tells when a slice of work on the loop is over; the next one begins when it has told so.

    >>> Slice(seconds=60).is_over(), Slice(seconds=0).is_over()
    (False, True)
    """

    __slots__ = ("_seconds", "_until")

    def __init__(self, seconds: float = SLICE_S) -> None:
        self._seconds = seconds
        self._until = time.perf_counter() + seconds

    def is_over(self) -> bool:
        """Return whether the slice is used up."""
        return time.perf_counter() >= self._until

    def begin(self) -> None:
        """Begin the next one."""
        self._until = time.perf_counter() + self._seconds


class Turn:
    """Lets one piece of work at a time have a campaign, in the order in which they ask."""

    __slots__ = ("_waiting", "is_taken")

    def __init__(self) -> None:
        self.is_taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take the turn if it is free; return whether it was."""
        if self.is_taken:
            return False
        self.is_taken = True
        return True

    async def wait(self) -> None:
        """Take the turn, after all who asked before."""
        if self.take():
            return
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # it was handed over at the same moment
                self.give()
            raise

    def give(self) -> None:
        """Hand the turn to the next who waits; it stays taken where there is one."""
        while self._waiting:
            following = self._waiting.popleft()
            if not following.done():
                following.set_result(None)
                return
        self.is_taken = False


def drain(steps: Steps[T]) -> T:
    """Run work to its end at once, without slices."""
    try:
        job = steps.send(None)
        while True:
            job = steps.send(None if job is None else job())
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def finish(steps: Steps[T], job: Callable[[], Any] | None, in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]) -> T:
    """Go on with work that has yielded `job`, in slices and in threads, to its end."""
    try:
        while True:
            try:
                if job is None:
                    await asyncio.sleep(0)
                    done = None
                else:
                    done = await in_thread(job)
            except BaseException as error:
                job = steps.throw(error)
            else:
                job = steps.send(done)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
