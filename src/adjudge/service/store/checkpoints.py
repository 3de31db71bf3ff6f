"""Checkpoints of a SQLite file, in parallel with its commits: they copy the write-ahead log into the file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

LOG: Final = logging.getLogger(__name__)


class Checkpoints:
    """A thread that copies the write-ahead log into its file on request, so that no commit waits for it.

    `connect` returns a connection that may write. The thread calls it, when the first checkpoint is requested.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self.running = threading.Lock()  # held during a checkpoint; SQLite refuses a second one at the same time
        self._wanted = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def request(self) -> None:
        """Have the log copied soon."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="adjudge-checkpoint", daemon=True)
            self._thread.start()
        self._wanted.set()

    def close(self) -> None:
        """End the thread after its current checkpoint."""
        self._closed = True
        if self._thread is not None:
            self._wanted.set()
            self._thread.join()

    def _work(self) -> None:
        try:
            connection = self._connect()
        except Exception as error:  # the writer makes a checkpoint later
            LOG.warning("checkpoints cannot run in parallel with commits: %s", error)
            return
        try:
            while True:
                self._wanted.wait()
                self._wanted.clear()
                if self._closed:
                    return
                try:
                    with self.running:
                        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                except Exception as error:  # a later one will retry; a commit that fails reports the reason
                    LOG.info("a checkpoint failed: %s", error)
        finally:
            connection.close()
