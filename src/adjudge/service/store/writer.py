"""The one thread that writes a store: whole batches, in the order in which they were submitted."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from adjudge.service.store.batch import Batch
from adjudge.service.store.errors import StoreError, StoreUnavailable
from adjudge.service.store.protocol import Store

LOG: Final = logging.getLogger(__name__)
T = TypeVar("T")
IDLE_S: Final = 0.2  # without work, until there is time to tidy up


class Writer:
    """The thread that owns the writing connection of a store.

    A batch that fails takes those with it that were waiting behind it: they were made in the belief that it is written.
    While a batch is on its way to the disk, fill the next: so one commit serves all that came meanwhile.

    - `store`: open for writing. Only this thread writes it from now on; closing the writer leaves it open.
    - `on_done`: called in the writer's thread with each batch, and None or the error.

    >>> from adjudge.service.store.opening import open_store
    >>> from adjudge.service.store.events import Tick
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = open_store(folder.name + "/votes.db")
    >>> writer = Writer(store, lambda batch, error: None)
    >>> number = writer.run(lambda store: store.create_campaign("spam")).result()
    >>> batch = Batch()
    >>> batch.append(number, 1, Tick(time=0))
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
        """Let a batch be written; `on_done` says when it is, or why it is not.

        - `batch`: not to be changed any more.
        """
        self._put(batch)

    def run(self, work: Callable[[Store], T]) -> Future[T]:
        """Let the writer's thread do something with the store, after what was submitted before; return what will come of it.

        - `work`: called with the store.
        """
        future: Future[T] = Future()

        def do() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work(self._store))
                except BaseException as error:  # of whoever waits for it
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
        """Write what was submitted, then end the thread; raise if that takes too long.

        - `timeout`: seconds to wait; None for as long as it takes.
        """
        with self._guard:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise StoreUnavailable(f"the store {self._store.url} has not taken all that was submitted within {timeout} s")

    def _work(self) -> None:
        idle = False
        while True:
            try:
                work = self._queue.get(timeout=None if idle else IDLE_S)
            except queue.Empty:
                self._store.tidy(idle=True)
                idle = True
                continue
            idle = False
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
            for one in (batch, *self._waiting()):
                self._tell(one, error)
        else:
            self._tell(batch, None)
            self._store.tidy()

    def _waiting(self) -> list[Batch]:
        """Take the batches that wait out of the queue; other work stays."""
        waiting: list[Batch] = []
        others: list[Any] = []
        with self._guard:
            while not self._queue.empty():
                work = self._queue.get()
                if isinstance(work, Batch):
                    waiting.append(work)
                else:
                    others.append(work)
            for work in others:
                self._queue.put(work)
        return waiting

    def _tell(self, batch: Batch, error: Exception | None) -> None:
        """Call `on_done`; whatever it does, the thread lives on."""
        try:
            self._on_done(batch, error)
        except Exception:
            LOG.exception("what to do after a batch failed")
