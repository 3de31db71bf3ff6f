"""Run coroutines that never suspend: the calls of `Client` are those of `AsyncClient`, over connections that block."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine, all of whose waits block the thread.

    >>> async def double(number: int) -> int:
    ...     return 2 * number
    >>> run(double(21))
    42
    """
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    work.close()
    raise RuntimeError("a call that has to block was suspended")


def iterate(source: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yield what an asynchronous generator yields whose waits block the thread; it is closed with this one."""
    try:
        while True:
            try:
                yield run(source.__anext__())
            except StopAsyncIteration:
                return
    finally:
        run(source.aclose())
