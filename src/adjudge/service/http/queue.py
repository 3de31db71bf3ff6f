"""Two queues: tasks for a worker to vote on, and tasks for a person to judge.

A worker gets the task on which their vote is expected to add most to the chance of a right label. A person gets escalated tasks
and audits, blind: both look the same, and nothing of votes or decisions is shown.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.service.http import views
from adjudge.service.http.errors import TooMany
from adjudge.service.http.types import NextAnswer, NextTask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adjudge.service.http.campaign import Campaign

QUEUE_PAGE_TASKS: Final = 2000  # of the least certain tasks
PAGES: Final = 10  # of this size that are searched, if the first has no task for the worker or person
MAX_QUEUE_CELLS: Final = 20_000_000  # cells [task, true label, given label] that are looked at for one answer
QUEUE_CHUNK_CELLS: Final = 1_000_000  # of these at once
REMEMBERED: Final = 100_000  # workers, so that a client with ever new names cannot use up memory
LEASE: Final = 300 * 1_000_000  # microseconds for which a task that was given to a worker is not given to them again
HOUR: Final = 3600 * 1_000_000
DAY: Final = 24 * HOUR


class Queue:
    """What was given to whom, of one campaign. It is not part of the state: after a restart it begins empty."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._given: dict[str, list[tuple[int, str]]] = {}  # worker -> (time, task) of late; who asked last is last

    def next(self, worker: str, n: int) -> NextAnswer:
        """Return up to n tasks that the worker has not voted on, the most valuable first."""
        campaign, now = self._campaign, self._campaign.now()
        state, number = campaign.state, campaign.names.number(worker)
        n = min(n, self._left(worker, now))
        names = self._open(worker, number, now)[: max(n, MAX_QUEUE_CELLS // len(state.labels) ** 2)]
        if not names:
            return NextAnswer([])
        value = self._value(self._likely(names), self._confusion(number))
        best = np.argsort(-value, kind="stable")[:n].tolist()
        self._given.setdefault(worker, []).extend((now, names[at]) for at in best)
        if len(self._given) > REMEMBERED:
            del self._given[next(iter(self._given))]
        return NextAnswer(
            [NextTask(task=names[at], value=float(value[at]), decision=views.view_decision(state, names[at])) for at in best]
        )

    def _open(self, worker: str, number: int | None, now: int) -> list[str]:
        """Return open tasks that the worker has neither voted on nor was given just now, the least certain first."""
        state, after = self._campaign.state, None
        leased = {task for time, task in self._given.get(worker, ()) if now - time < LEASE}
        for _ in range(PAGES):
            rows = state.tasks.list_page({"open"}, "uncertainty", limit=QUEUE_PAGE_TASKS, after=after)
            names = [name for _, name in rows if name not in leased and (number is None or state.voted(name, number) < 0)]
            if names or len(rows) < QUEUE_PAGE_TASKS:
                return names
            after = rows[-1]
        return []

    def _left(self, worker: str, now: int) -> int:
        """Return how many tasks the worker may be given now; raise where there are none left."""
        caps, left = self._campaign.state.policy.next, 1 << 30
        kept = DAY if caps.per_worker_per_day is not None else HOUR if caps.per_worker_per_hour is not None else LEASE
        known = ((min(time, now), task) for time, task in self._given.pop(worker, ()))  # the log may have been set back since
        handed_out = [pair for pair in known if now - pair[0] < kept]
        if handed_out:
            self._given[worker] = handed_out
        for cap, span, word in ((caps.per_worker_per_hour, HOUR, "hour"), (caps.per_worker_per_day, DAY, "day")):
            if cap is not None:
                times = [time for time, _ in handed_out if now - time < span]
                left = min(left, cap - len(times))
                if left <= 0:
                    wait = (min(times, default=now) + span - now) / 1e6
                    raise TooMany(f"this worker was given {cap} tasks within the last {word}", retry_after=max(1.0, wait))
        return left

    def _likely(self, names: list[str]) -> NDArray[np.float64]:
        """Return how likely each label is, [n, K]; a task without votes is as likely the one as the other."""
        state, k = self._campaign.state, len(self._campaign.state.labels)
        predictions = state.online.state.predict_many(names, state.lasting)
        if not predictions:
            return np.full((len(names), k), 1 / k)
        return np.where((predictions[2] > 0)[:, None], predictions[4], 1 / k)

    def _confusion(self, number: int | None) -> NDArray[np.float64]:
        """Return how the worker answers, [K true, K given]; a new one as the mean of all."""
        state = self._campaign.state
        text = None if number is None or number not in state.crowd.all else state.crowd.all[number].text
        matrix = None if text is None else state.online.state.confusion(text)
        if matrix is None:
            k = len(state.labels)
            matrix = np.full((k, k), 0.3 / max(1, k - 1))
            np.fill_diagonal(matrix, 0.7)
        return np.asarray(matrix)

    @staticmethod
    def _value(likely: NDArray[np.float64], answers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how much a vote adds to the chance of the likeliest label, [n], where probabilities are [n, K]."""
        value: NDArray[np.float64] = -likely.max(axis=1)
        step = max(1, QUEUE_CHUNK_CELLS // answers.size)
        for start in range(0, len(likely), step):
            joint = likely[start : start + step, :, None] * answers[None, :, :]  # [tasks, true, given]
            value[start : start + step] += joint.max(axis=1).sum(axis=1)
        return value


class PeopleQueue:
    """The tasks of one campaign that wait for a person. What was given to whom is not part of the state."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._given: dict[str, tuple[int, str | None]] = {}  # task -> when and to whom it was given, the latest last

    def next(self, person: str | None, n: int) -> list[str]:
        """Return up to n tasks that wait, the longest waiting first.

        Left out are tasks that this person has voted on, and tasks that somebody else was given a moment ago.

        - `person`: who asks; None: nobody knows.
        """
        now = self._campaign.now()
        self._given = {task: given for task, given in self._given.items() if 0 <= now - given[0] < LEASE}
        looked = islice(self._waiting(), PAGES * QUEUE_PAGE_TASKS)
        names = list(islice((name for name in looked if self._is_for(name, person)), n))
        for name in names:
            self._given.pop(name, None)
            self._given[name] = now, person
        while len(self._given) > REMEMBERED:
            del self._given[next(iter(self._given))]
        return names

    def has_voted(self, task: str, person: str | None) -> bool:
        """Return whether a person has a vote on a task."""
        number = None if person is None else self._campaign.names.number(person)
        return number is not None and self._campaign.state.voted(task, number) >= 0

    def _is_for(self, task: str, person: str | None) -> bool:
        given = self._given.get(task)
        return (given is None or given[1] == person) and not self.has_voted(task, person)

    def _waiting(self) -> Iterator[str]:
        """Yield tasks that wait, by when escalated ones came in, and audits were drawn."""
        state = self._campaign.state
        audits = {} if state.audits is None else state.audits.waiting
        drawn = ((float(each[0].time), name) for name, each in audits.items())
        return (name for _, name in merge((row for row in self._escalated() if row[1] not in audits), sorted(drawn)))

    def _escalated(self) -> Iterator[tuple[float, str]]:
        """Yield when escalated tasks came in, and their names, the longest waiting first."""
        tasks, after = self._campaign.state.tasks, None
        for _ in range(PAGES):
            rows = tasks.list_page({"escalated"}, "age", limit=QUEUE_PAGE_TASKS, after=after)
            yield from rows
            if len(rows) < QUEUE_PAGE_TASKS:
                return
            after = rows[-1]
