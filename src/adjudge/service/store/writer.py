"""The only thread that writes to a store: whole batches, in the order of submission."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, ParamSpec, TypeVar

from adjudge.service.store.batch import Batch
from adjudge.service.store.errors import StoreError, StoreUnavailable
from adjudge.service.store.store import Store

LOG: Final = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
IDLE_S: Final = 0.2  # without work, before the store is tidied


class Writer:
    """The thread that owns the writing connection of a store.

    While one batch is being written, fill the next one, so that one commit serves all requests that came meanwhile. A batch
    that fails also fails those waiting behind it, because they assume that it was written. `on_done` is called in this thread
    with each batch, and None or the error. From now on only this thread writes the store; closing the writer leaves it open.

    >>> from adjudge.service.store.opening import open_store
    >>> from adjudge.service.store.events import Tick
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = open_store(folder.name + "/votes.db")
    >>> writer = Writer(store, lambda batch, error: None)
    >>> number = writer.run(store.create_campaign, "spam").result()
    >>> batch = Batch()
    >>> batch.extend(number, 1, [Tick(time=0)])
    >>> writer.submit(batch)
    >>> writer.close()
    >>> store.last(number)
    1
    >>> store.close(); folder.cleanup()
    """

    def __init__(self, store: Store, on_done: Callable[[Batch, Exception | None], None]) -> None:
        self._store = store
        self._on_done = on_done
        self._queue: queue.SimpleQueue[Batch | Callable[[], None] | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="adjudge-writer", daemon=True)
        self._thread.start()

    def submit(self, batch: Batch) -> None:
        """Have a batch written, which must not change any more; `on_done` reports the outcome."""
        self._put(batch)

    def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in the writer's thread, after everything submitted before; return the future of its result."""
        future: Future[T] = Future()

        def do() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work(*args, **kwargs))
                except BaseException as error:  # raised where the future is awaited
                    future.set_exception(error)

        self._put(do)
        return future

    def _put(self, work: Batch | Callable[[], None] | None) -> None:
        with self._guard:
            if self._closed:
                raise StoreError(f"the writer of {self._store.url} is closed")
            self._closed = work is None
            self._queue.put(work)

    def close(self, timeout: float | None = None) -> None:
        """Write everything submitted, then end the thread; raise if that takes longer than `timeout` seconds."""
        with self._guard:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise StoreUnavailable(f"the store {self._store.url} has not taken all that was submitted within {timeout} s")

    def _work(self) -> None:
        is_idle = False
        while True:
            try:
                work = self._queue.get(timeout=None if is_idle else IDLE_S)
            except queue.Empty:
                self._store.tidy(idle=True)
                is_idle = True
                continue
            is_idle = False
            if work is None:
                return
            if isinstance(work, Batch):
                self._write(work)
            else:
                work()

    def _write(self, batch: Batch) -> None:
        try:
            self._store.write(batch)
        except Exception as error:
            for failed in (batch, *self._take_waiting()):
                self._report(failed, error)
        else:
            self._report(batch, None)
            self._store.tidy()

    def _take_waiting(self) -> list[Batch]:
        """Take all batches out of the queue; other work stays."""
        batches: list[Batch] = []
        others: list[Any] = []
        with self._guard:
            while not self._queue.empty():
                work = self._queue.get()
                if isinstance(work, Batch):
                    batches.append(work)
                else:
                    others.append(work)
            for work in others:
                self._queue.put(work)
        return batches

    def _report(self, batch: Batch, error: Exception | None) -> None:
        """Call `on_done`; the thread survives any error it raises."""
        try:
            self._on_done(batch, error)
        except Exception:
            LOG.exception("handling the outcome of a batch failed")
