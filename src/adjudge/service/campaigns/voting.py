"""Votes of one moment, folded many at a time: the same as `CampaignState.apply` of each, in fewer steps.

The stream learns a run of votes in one call. The consequences of each for its task and its worker then follow in the order of
the votes, so that decisions are those of a replay, which goes vote by vote.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from adjudge.service.campaigns.decision import NEW, Evidence
from adjudge.service.campaigns.tasks import Answer, Task
from adjudge.service.store import events

if TYPE_CHECKING:
    from adjudge.service.campaigns.crowd import Worker
    from adjudge.service.campaigns.state import CampaignState

MAX_RUN_CELLS: Final = 1 << 14  # votes of a task times labels, summed over a run: less than a millisecond
MAX_RUN_VOTES: Final = 500
IS_TIE: Final = 1  # flags of the stream
IS_GOLD: Final = 2
# (task, worker), name, number, label and id of a vote, and the label before it (-1: none); then what the stream says of the task:
# the leading label (-1: the vote was there already), votes, flags.
_Learned: TypeAlias = "tuple[tuple[Task, Worker], str, int, int, str | None, int, int, int, int]"
# Where the probabilities of a vote begin, its task, and what the stream says of it: label, votes, flags.
_Prediction: TypeAlias = tuple[int, Task, int, int, int]
_FIRST: Final = itemgetter(0)


class RequestVotes(NamedTuple):
    """The votes of a request."""

    names: list[str]  # of the tasks
    numbers: list[int]  # of the workers
    labels: list[int]  # codes; -1: the vote is known by its id
    ids: list[str | None] | None  # given by clients; None: no vote has one


class VoteFold:
    """Folds the votes of a request.

    - `state`: into which they are folded.
    - `time`: of their events.

    `events` are the events so far. `touched` has the prediction of the stream for every task; None if it has to be asked.
    """

    def __init__(self, state: CampaignState, time: int) -> None:
        self.events: list[events.Event] = []
        self.touched: dict[str, Answer | None] = {}
        self._state, self._time = state, time
        self._evidence = Evidence(0, -1, 0.0, time=time)
        self._unfinished: tuple[tuple[Task, Worker], str, int, int, str | None, int] | None = None
        breakers = state.policy.breakers
        # With any of these, more than the stream and the task itself has to be looked at between two votes.
        self._is_plain = not (
            state.rule.needs_votes or state.policy.probation or (breakers is not None and breakers.disagreement is not None)
        )

    @property
    def is_renewal_due(self) -> bool:
        """Whether the last vote waits for `renew`, which comes before all others."""
        return self._unfinished is not None

    def apply(self, event: events.Vote | events.Change) -> None:
        """Fold a vote on its own."""
        touched = self._state.apply(self._state.position + 1, event)
        assert touched is not None
        self.touched[event.task] = touched[1]
        self.events.append(event)

    def fold(self, votes: RequestVotes, start: int) -> int:
        """Fold votes from one on, in order and as far as possible in this way; return how many."""
        known = self._find(votes, start) if self._is_plain else []
        if not known:
            return 0
        state, run = self._state, slice(start, start + len(known))
        names, numbers, labels = votes.names[run], votes.numbers[run], votes.labels[run]
        ids = [None] * len(known) if votes.ids is None else votes.ids[run]
        again = None if votes.ids is None else [vote_id is not None for vote_id in ids]
        state.position += 1  # after an error, it shows that the state has changed
        was, leading, *others, likely = state.stream.vote_many(
            names, [worker.text for _, worker in known], labels, again, state.kind, MAX_RUN_CELLS
        )
        state.position -= 1
        self._follow(zip(known, names, numbers, labels, ids, was, leading, *others, strict=False), likely)
        if len(was) > (last := len(leading)):
            self._unfinished = known[last], names[last], numbers[last], labels[last], ids[last], was[last]
            state.position += 1
        return len(was)

    def renew(self) -> None:
        """Measure what confidence rests on, and finish the vote that made it due. Takes long: it looks at all votes."""
        assert self._unfinished is not None
        state, vote = self._state, self._unfinished
        state.online.renew_due()
        label, tie, votes, gold, likely = state.stream.predict(vote[1], state.lasting)
        state.position -= 1
        self._unfinished = None
        self._follow([(*vote, label, votes, IS_TIE * tie + IS_GOLD * gold)], likely)

    def _find(self, votes: RequestVotes, start: int) -> list[tuple[Task, Worker]]:
        """Return tasks and workers of votes, up to one that has to be applied on its own; make those that are new."""
        state, time, end = self._state, self._time, start + MAX_RUN_VOTES
        tasks, crowd, tallies, may_have = state.tasks.by_name, state.crowd.all, state.tallies, state.archive.may_have
        known: list[tuple[Task, Worker]] = []
        for name, number, code in zip(votes.names[start:end], votes.numbers[start:end], votes.labels[start:end], strict=True):
            if code < 0:
                break
            worker = crowd.get(number) or state.crowd.get(number)
            if worker.banned or worker.aside or name in tallies:
                break
            task = tasks.get(name)
            if task is None:
                if may_have(name):
                    break
                task = Task(name, time, time)
                state.tasks.enter(task)
            known.append((task, worker))
        return known

    def _follow(self, votes: Iterable[_Learned], likely: list[float]) -> None:
        """Note the consequences of votes that the stream has learned; `likely` has the probabilities of all labels after each."""
        state, time, evidence, start = self._state, self._time, self._evidence, self._state.position
        rule, append = state.rule, self.events.append
        decide, minimum, needs_probabilities = rule.decide, state.policy.minimum_votes, rule.needs_probabilities
        position, k = start, len(state.labels)
        at = -k
        last: dict[str, _Prediction | None] = {}
        evidence.breaker = state.breakers.tripped is not None
        for (task, worker), name, number, code, vote_id, was, label, total, flags in votes:
            at += k
            if label < 0:
                last.setdefault(name, None)
                continue
            position += 1
            if was < 0:
                worker.votes += 1
                state.votes += 1
                if task.moved is not None and number in task.moved:
                    task.moved[number] = position
                append(events.Vote(time=time, task=name, worker=number, label=code, id=vote_id))
            else:
                task.note_move(number, position)
                append(events.Change(time=time, task=name, worker=number, label=code, id=vote_id))
            worker.cast(likely[at + code])
            last[name] = at, task, label, total, flags
            if task.standing is NEW and total < minimum and not flags & IS_GOLD:
                continue  # as `decide` would say
            evidence.votes, evidence.label, evidence.confidence = total, label, likely[at + label]
            evidence.tie, evidence.gold = bool(flags & IS_TIE), flags >= IS_GOLD
            if needs_probabilities:
                evidence.probabilities = likely[at : at + k]
            after = decide(task.standing, evidence)
            if after is not task.standing or task.expired:
                state.position, state.time = position, time
                answer = label, evidence.tie, total, evidence.gold, likely[at : at + k]
                state.stand(task, answer, state.unless_expired(task, answer, after) if task.expired else after)
                evidence.breaker = state.breakers.tripped is not None
        if position > start:
            state.position, state.time = position, time
            state.since_refit += position - start
        for name, seen in last.items():
            if seen is None:
                self.touched.setdefault(name, None)
                continue
            at, task, label, total, flags = seen
            self.touched[name] = label, bool(flags & IS_TIE), total, flags >= IS_GOLD, likely[at : at + k]
        self._touch(sorted((seen for seen in last.values() if seen is not None), key=_FIRST), likely)

    def _touch(self, seen: list[_Prediction], likely: list[float]) -> None:
        """Note that tasks were touched, in the order of their last votes, and how certain they are."""
        slots: list[int] = []
        shown: list[float] = []
        for at, task, label, _, _ in seen:
            task.touched = self._time
            slots.append(task.slot)
            shown.append(likely[at + (task.standing.label if task.standing.label >= 0 else label)])
        if seen:
            self._state.tasks.touch_many(slots, shown)
