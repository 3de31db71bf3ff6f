"""What honest confidence of a stream rests on beside its counts: measured again when it is due."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from adjudge.online.settings import LASTING
from adjudge.results.honest import LENT, PairSums, streamed_error, streamed_rule

ALL = 2  # what `measure` is asked for: 1 is the mean worker alone


class Renewal:
    """The renewals of one stream. Readers make them, one at a time; others read and learn meanwhile."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self._lock = threading.Lock()
        self.every_label = False  # whether labels that nobody has given are possible, too

    def now(self) -> None:
        """Measure everything, whether it is due or not."""
        is_done = False
        while not is_done:
            with self._lock: is_done = self.measure(ALL)  # noqa: E701  # fmt: skip

    def due(self) -> None:
        """Measure what is due: nothing, the mean worker, or all."""
        with self._lock: self.measure(self._state.due(1))  # noqa: E701  # fmt: skip

    def read(self, kind: int, read: Callable[[int], Any]) -> Any:
        """Return what a reader of the state finds, given the kind of confidence, after renewing what is due.

        Votes that came during the renewal can make another one due, and need not: what was measured lasts.
        """
        found = read(kind)
        while found is False:
            self.due()
            found = read(LASTING)
        return found

    def measure(self, due: int) -> bool:
        """Measure nothing (0), the mean worker (1) or all (2); return False if a label was added meanwhile."""
        if not due:
            return True
        pairs, given, left_out, tasks, votes, changes = self._state.measure(due == ALL)
        k = len(tasks)
        by_label, not_summed = (np.asarray(count, np.float64).reshape(k, k) for count in (given, left_out))
        by_class = np.array(tasks, np.float64)
        if due == ALL:
            shared_error, holds = streamed_error(PairSums(*pairs), by_label - not_summed)
        else:  # what was measured stays, and so does the moment of it
            shared_error, holds, votes, changes = self._state.measured()
        rule, lent = streamed_rule(by_label, by_class, shared_error, holds, every_label=self.every_label)
        is_done: bool = self._state.install(lent, LENT, *rule, votes, changes)
        return is_done
