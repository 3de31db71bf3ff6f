"""What readers ask of a campaign's state. Nothing here changes it, so that who reads what never changes a decision.

Readers get the confidence from the latest measurement of the fold; measuring again is a step of the fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.options import StreamedModel
from adjudge.errors import pluralize
from adjudge.models.honest import AccuracyLaw, accuracy_columns
from adjudge.online import CONFIDENCE_CODES, Online
from adjudge.online.reading import crowd_sums
from adjudge.service.campaigns.audits import Audits
from adjudge.service.campaigns.breakers import Breakers
from adjudge.service.campaigns.crowd import Crowd, Worker
from adjudge.service.campaigns.decision import Decision, Evidence, moment
from adjudge.service.campaigns.policy import Policy, PolicyVersion
from adjudge.service.campaigns.rule import Rule
from adjudge.service.campaigns.settings import RefitSettings, Retention
from adjudge.service.campaigns.tally import Ballot, Tally
from adjudge.service.campaigns.tasks import NO_ANSWER, Answer, Archived, Task, Tasks
from adjudge.service.store import events
from adjudge.service.store.archive import Archive

# How likely an answer is right and a label wrong, by given label and label of the task, [K, K] each, and what follows from it.
CrowdView: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], AccuracyLaw]


class Accuracy(NamedTuple):
    """How often a worker is right."""

    mean: float | None  # None: no vote of theirs counts
    interval: tuple[float, float] | None  # holds it with a chance of .9; None where confidence is not honest


UNKNOWN_ACCURACY: Final = Accuracy(None, None)
STALLED: Final = (
    "probation keeps the votes of all workers aside, and no decision is there to judge them by: decide some tasks (gold, "
    "overrides), or mark experts"
)
MIN_REBUILT_DUES: Final = 1024  # so many times at which the clock is due, some of them out of date, are kept anyhow


def prepare_intervals() -> None:
    """Compute the tables that intervals are read from, which are kept."""
    accuracy_columns(np.array([0.5]), np.array([2.0]))


class StateReader:
    """The state of a campaign up to `position`, as its readers see it; `CampaignState` folds events into it.

    - `created`: the first event of the log, which is to be applied like all others.
    - `archive`: where tasks go that leave memory.
    """

    def __init__(self, created: events.Created, archive: Archive) -> None:
        self.created = created
        self.archive = archive
        self.position, self.time = 0, created.time
        self.labels, self.names = list(created.labels), list(created.names)
        self.codes = {label: code for code, label in enumerate(self.labels)}
        self.online = Online(labels=self.labels, model=cast(StreamedModel, created.model), **created.settings)
        self.stream: Any = self.online.state  # called vote by vote
        self.online.expect_every_label()  # they were chosen beforehand
        self.kind = CONFIDENCE_CODES[self.online.settings["confidence"]]
        self.lasting = 2 * self.kind  # the same confidence, from the latest measurement however old
        self.refit, self.retention = RefitSettings.of(created.refit), Retention.of(created.retention)
        self.policies: list[PolicyVersion] = []
        self.image_hosts: list[str] = []  # from which the page shows images of items
        self.tasks, self.crowd = Tasks(), Crowd()
        self.tallies: dict[str, Tally] = {}
        self.changes: list[Decision] = []  # decisions of the latest events; the caller of `apply` takes them out
        self.since_refit = 0  # votes learned and taken back
        self.votes = 0  # in force, those kept aside among them
        self.archived_tasks = 0  # that have left memory
        self.begins = 1  # the first position of the log that is kept
        self.expired = 0  # archived tasks that were last touched before this time have no votes
        self.clock_sets: list[tuple[int, int]] = []  # position and time of each `ClockSet` in the log that is kept
        self.away: dict[str, tuple[int, list[int]]] = {}  # of archived tasks with votes kept aside: last touch, and workers
        self.unreached: dict[int, int] = {}  # worker: position of a ban or unban that has not reached the whole archive
        self.refit_read = 0  # where the refit under way has read; 0: none is
        self.refit_under_way: Any = None
        self._dues: list[tuple[int, str]] = []
        self._max_dues = MIN_REBUILT_DUES  # with more of them, those that no longer hold are taken out
        self.breakers = Breakers()
        self.audits: Audits | None = None  # while the policy has `audit`
        self._crowd_at: tuple[int, CrowdView | None] = (-1, None)  # position, and what workers are judged by there, for readers
        self._absent: str | None = None  # the last task that was not in the archive: a new one is looked for twice
        self._adopt_policy(created.policy, created.time, None)

    def _adopt_policy(self, document: dict[str, Any], time: int, by: str | None, note: str | None = None) -> None:
        policy = Policy.of(document)
        self.rule = Rule(policy, self.labels)
        self.tallies = {}  # the quorum may ask for other counts
        self.policies.append(PolicyVersion(len(self.policies) + 1, policy, max(1, self.position), time, by, note))
        self.policy, self.version = policy, len(self.policies)
        if policy.audit is None:
            self.audits = None
        elif self.audits is None:
            self.audits = Audits(policy.audit)
        else:
            self.audits.adopt(policy.audit)

    def code(self, label: str) -> int | None:
        """Return the code of a label's id, None for an unknown one."""
        return self.codes.get(label)

    def find(self, name: str) -> Task | None:
        """Return a task, from memory or as it was archived, without bringing it back; None for an unknown one."""
        task = self.tasks.by_name.get(name)
        if task is not None:
            return task
        record = self._find_record(name)
        return None if record is None else record.task

    def find_archived(self, name: str) -> tuple[Task, Answer] | None:
        """Return a task that is not in memory, and the stream's prediction at the time it left."""
        record = self._find_record(name)
        return None if record is None else (record.task, record.answer)

    def _find_record(self, name: str) -> Archived | None:
        if name is self._absent or not self.archive.may_have(name):
            self._absent = name
            return None
        data = self.archive.get(name, self.position)
        if data is None:
            return None
        record = Archived.from_bytes(data)
        return record.without_votes() if record.task.touched < self.expired else record

    def ballots(self, name: str) -> list[tuple[int, int, bool]]:
        """Return (worker, label, whether it counts) of every vote in force on a task."""
        task, workers = self.tasks.by_name.get(name), self.crowd.all
        votes = self.stream.votes_of(name) or ()
        if task is None and (record := self._find_record(name)) is not None:
            task, votes = record.task, record.ballots
        counted = [(int(text), label, not workers[int(text)].banned) for text, label in votes]
        aside = [workers[number] for number in (task.aside if task is not None else None) or ()]
        kept = ((worker.number, worker.aside[name], self.counts(worker)) for worker in aside if worker.aside is not None)
        return [*counted, *kept]

    def has_gold(self, name: str) -> bool:
        """Return whether the true label of a task is known."""
        return self.gold_of(name) >= 0

    def gold_of(self, name: str) -> int:
        """Return the code of the true label of a task, -1 if it is unknown."""
        record = None if name in self.tasks.by_name else self._find_record(name)
        label, _, _, is_gold, _ = self.answer(name) if record is None else record.answer
        return label if is_gold else -1

    def in_force(self, event: events.Vote | events.Change, position: int) -> bool:
        """Return whether a vote of the log is still in force: not changed, not taken back, its worker not banned."""
        worker = self.crowd.all.get(event.worker)
        if worker is None or worker.banned or self.voted(event.task, event.worker) != event.label:
            return False
        task = self.find(event.task)
        moved = None if task is None else task.moved
        return (moved or {}).get(event.worker, position) == position

    def votes_in_memory(self) -> int:
        """Return how many votes that count are in memory."""
        votes: int = self.stream.measure(False)[4]
        return votes

    def voted(self, name: str, worker: int) -> int:
        """Return the label that a worker's vote on a task has, -1 where they have none there."""
        known = self.crowd.all.get(worker)
        if known is None:
            return -1
        if known.aside is not None and (aside := known.aside.get(name)) is not None:
            return aside
        if name not in self.tasks.by_name:
            record = self._find_record(name)
            return -1 if record is None else dict(record.ballots).get(known.text, -1)
        label: int = self.stream.voted(name, known.text)
        return label

    def answer(self, name: str) -> Answer:
        """Return what the stream says of a task in memory today, for readers: nothing of the state changes."""
        return cast(Answer, self.stream.predict(name, self.lasting) or NO_ANSWER)

    def decision(self, task: Task, answer: Answer) -> Decision:
        """Return the decision on a task, as clients see it."""
        standing = task.standing
        label = standing.label if standing.label >= 0 else answer[0]
        return Decision(
            task.name,
            self.labels[label] if label >= 0 else None,
            answer[4][label] if label >= 0 and answer[4] else 0.0,
            standing.status,
            answer[2],
            task.version or self.version,
            moment(standing.since or task.opened),
            task.position,
            standing.reason,
            task.flips,
            standing.by,
        )

    def next_due(self) -> int:
        """Return the time at which the clock alone changes a decision next; 0: never."""
        return self._dues[0][0] if self._dues else 0

    def evidence(self, task: Task, answer: Answer) -> Evidence:
        """Return what the policy looks at."""
        label, tie, votes, gold, likely = answer
        confidence = likely[label] if label >= 0 else 0.0
        evidence = Evidence(votes, label, confidence, likely, tie, self.time, gold, self.breakers.tripped is not None)
        if self.rule.needs_votes:
            self.tally(task.name).fill(evidence, len(self.labels))
        return evidence

    def tally(self, name: str) -> Tally:
        """Return the votes on a task that count, counted. Those of a task in memory are walked the first time alone."""
        tally = self.tallies.get(name)
        if tally is None:
            quorum = self.policy.quorum
            tally = Tally(1 if quorum is None else quorum.votes, self._ballots(name))
            if name in self.tasks.by_name:
                self.tallies[name] = tally
        return tally

    def _ballots(self, name: str) -> list[Ballot]:
        """Return (label, group, whether from an expert) of every vote on a task that counts."""
        workers, cast = self.crowd.all, self.stream.votes_of(name) or ()
        if name not in self.tasks.by_name and (record := self._find_record(name)) is not None:
            cast = record.ballots
        votes = ((label, workers[int(text)]) for text, label in cast)
        return [(label, worker.group, worker.expert) for label, worker in votes if not worker.banned]

    def accuracy_of(self, workers: Sequence[Worker]) -> list[Accuracy]:
        """Return how often workers are right, by the votes of theirs that count, for readers."""
        if self._crowd_at[0] != self.position:
            self._crowd_at = self.position, self._crowd_view()
        return self._accuracy_by(self._crowd_at[1], workers)

    def _crowd_view(self) -> CrowdView | None:
        """Return the statistics of the crowd by which workers are judged; None if they are out of date."""
        crowd = self.stream.crowd(self.lasting)
        if crowd is False:
            return None
        sums = crowd_sums(crowd)
        return *sums.by_answer(), sums.law

    def _accuracy_by(self, view: CrowdView | None, workers: Sequence[Worker]) -> list[Accuracy]:
        """Return how often workers are right, with the interval by the library's rule where confidence is honest."""
        figures_of_votes = None if view is None else self.stream.judge([worker.text for worker in workers], *view[:2])
        if view is None or figures_of_votes is None:
            return [UNKNOWN_ACCURACY] * len(workers)
        votes, right, doubt = figures_of_votes
        counted = np.maximum(votes, 1)
        columns = accuracy_columns(*view[2](right / counted, doubt / counted, votes))
        bounds = zip(columns["accuracy_low"].tolist(), columns["accuracy_high"].tolist(), strict=True)
        figures = zip(votes.tolist(), columns["accuracy"].tolist(), bounds, strict=True)
        return [Accuracy(mean, both if self.lasting else None) if n else UNKNOWN_ACCURACY for n, mean, both in figures]

    def counts(self, worker: Worker) -> bool:
        """Return whether the votes of a worker count."""
        return not worker.banned and not self.on_probation(worker)

    def describe_stall(self) -> str | None:
        """Return why nothing can be decided, if nobody has passed probation and no decision judges anybody."""
        if self.policy.probation is None or self.tasks.settled or self.archived_tasks:
            return None
        return None if any(map(self.counts, self.crowd.all.values())) else STALLED

    def why(self, task: Task, answer: Answer) -> list[str]:
        """Return sentences on where a task stands: which votes are kept aside, and what the policy makes of the others."""
        aside = [self.crowd.all[number] for number in task.aside or ()]
        kept = [worker.banned for worker in aside if not self.counts(worker)]
        told = []
        for are_banned, why in ((False, "on probation"), (True, "banned")):
            if count := kept.count(are_banned):
                told.append(f"{pluralize(count, 'vote')} kept aside, from workers who are {why}")
        return [*told, *self.rule.why(task.standing, self.evidence(task, answer))]

    def is_concerned(self, name: str) -> bool:
        """Return whether a ban or an unban changes which votes of an archived task count."""
        record = None if name in self.tasks.by_name else self._find_record(name)
        if record is None:
            return False
        workers = self.crowd.all
        return any(workers[int(text)].banned for text, _ in record.ballots) or any(
            self.counts(workers[number]) for number in record.task.aside or ()
        )

    def on_probation(self, worker: Worker) -> bool:
        """Return whether the votes of a worker do not count yet."""
        return self.policy.probation is not None and not worker.trusted
