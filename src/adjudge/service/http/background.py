"""A server in a thread of this process: for tests, notebooks and examples."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from os import PathLike, fspath
from pathlib import Path

from adjudge.errors import AdjudgeError


@contextmanager
def running(
    *, labels: Iterable[str] = (), store: str | PathLike[str] | None = None, port: int = 0, allow_private: bool = False
) -> Iterator[str]:
    """Run a service in a thread of this process, and yield its address; only this machine can reach it.

    Parameters
    ----------
    labels : iterable of str, default ()
        Labels of the campaign "default", which is created if it does not exist.
    store : str or path, optional
        A file, or the address of a PostgreSQL database; by default a temporary file.
    port : int, default 0
        TCP port; 0 picks a free one.
    allow_private : bool, default False
        Whether webhooks may be posted to addresses that are not public.

    Examples
    --------
    >>> import adjudge
    >>> from adjudge.service import running
    >>> with running(labels=["spam", "fine"]) as url, adjudge.Client(url) as client:
    ...     print(client.health().status)
    ok

    """
    from adjudge.service.http.server import (
        Settings,
        run,  # loads the libraries of the extra `serve`
    )

    with ExitStack() as stack:
        if store is None:
            store = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="adjudge-"))) / "votes.db"
        settings = Settings(
            store=fspath(store), port=port, labels=tuple(labels), allow_private=allow_private, log_level="error", grace=5
        )
        started, address, failed = threading.Event(), "", []
        loop, stop = asyncio.new_event_loop(), asyncio.Event()

        def tell(where: str) -> None:
            nonlocal address
            address = where
            started.set()

        def work() -> None:
            try:
                with asyncio.Runner(loop_factory=lambda: loop) as runner:
                    runner.run(run(settings, tell, stop))
            except BaseException as error:
                failed.append(error)
            finally:
                started.set()

        thread = threading.Thread(target=work, name="adjudge service", daemon=True)
        thread.start()
        try:
            started.wait()
            if not failed:
                yield address
        finally:
            with suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(stop.set)
            thread.join()
        if failed:
            raise failed[0] if isinstance(failed[0], AdjudgeError) else AdjudgeError(f"the service failed: {failed[0]!r}")
