"""Queries of polars in forked processes: an error instead of a hang.

polars runs queries on a pool of threads. A fork copies the pool without its threads, so a query in the child waits forever.
Everything else works in a child: frames are made and read without the pool, and the compiled core starts threads of its own.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from adjudge.errors import PACKAGE_NAME, AdjudgeError, package_of

# The methods of a lazy frame that run queries; those of an eager frame call `_collect_eager`.
SINK_METHODS: Final = ("sink_csv", "sink_ipc", "sink_ndjson", "sink_parquet")
QUERIES: Final = ("collect", "_collect_eager", "collect_batches", "collect_schema", *SINK_METHODS)
WRITE_METHODS: Final = ("write_csv", "write_ipc", "write_ndjson", "write_parquet")  # of a frame


def install() -> None:
    """Let adjudge raise in forked children where polars would wait for threads that are gone."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_look, after_in_child=_guard)


class _Parent:
    """The process that forks."""

    had_threads = False  # of polars; stays True in its children and theirs


def _look() -> None:
    _Parent.had_threads = _Parent.had_threads or ("polars" in sys.modules and _has_threads())


def _has_threads() -> bool:
    """Return whether polars has started its pool; without /proc, whether it may have."""
    try:
        names = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    except OSError:  # another system than Linux, or a thread that ended meanwhile
        return True
    return any(name.startswith("polars-") and name[7:8].isdigit() for name in names)


def _guard() -> None:
    if not _Parent.had_threads:
        return
    polars = sys.modules["polars"]
    for owner, names in ((polars.LazyFrame, QUERIES), (polars.DataFrame, WRITE_METHODS)):
        for name in names:
            method = getattr(owner, name, None)
            if method is not None and not hasattr(method, "_is_guarded"):
                setattr(owner, name, _wrap(method))


def _wrap(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of polars that raises if adjudge calls it, directly or through another library."""

    @functools.wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if package_of(frame) == PACKAGE_NAME:
                raise AdjudgeError(
                    "this process was forked from one that had used polars, and polars has no threads here: start processes "
                    'with multiprocessing.get_context("spawn"), or fork before the first use of adjudge or polars'
                )
            frame = frame.f_back
        return method(*args, **options)

    call._is_guarded = True  # type: ignore[attr-defined]
    return call
