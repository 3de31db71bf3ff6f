"""Votes of one moment, folded many at a time: the same as `CampaignState.apply` of each, in fewer steps.

The stream learns a run of votes in one call. The consequences of each for its task and its worker then follow in the order of
the votes, so that decisions are those of a replay, which goes vote by vote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

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
# Of votes that go together: tasks, workers, names of tasks, numbers of workers, labels, ids; the labels before them, -1: none.
_Columns: TypeAlias = "tuple[Sequence[Any], ...]"


class VoteColumns(NamedTuple):
    """The votes of a request."""

    names: list[str]  # of the tasks
    numbers: list[int]  # of the workers
    labels: list[int]  # codes; -1: the vote is known by its id
    ids: list[str | None] | None  # given by clients; None: no vote has one


class VoteFold:
    """Folds the votes of a request.

    - `state`: into which they are folded.
    - `time`: of their events.

    `events` are the events so far. `touched` has the prediction of the stream for every task; None if it has not predicted since.
    """

    def __init__(self, state: CampaignState, time: int) -> None:
        self.events: list[events.Event] = []
        self.touched: dict[str, Answer | None] = {}
        self._state, self._time = state, time
        self._evidence = Evidence(0, -1, 0.0, time=time)
        self._unfinished: _Columns | None = None
        self._run_votes = MAX_RUN_VOTES  # of the next run; fewer where runs end early, so that no vote is prepared many times
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

    def fold(self, votes: VoteColumns, start: int) -> int:
        """Fold votes from one on, in order and as far as possible in this way; return how many."""
        known = self._find(votes, start) if self._is_plain else []
        if not known:
            return 0
        state, run = self._state, slice(start, start + len(known))
        names, numbers, labels = votes.names[run], votes.numbers[run], votes.labels[run]
        ids = [None] * len(known) if votes.ids is None else votes.ids[run]
        again = None if votes.ids is None else [vote_id is not None for vote_id in ids]
        tasks, workers = zip(*known, strict=True)
        state.position += 1  # after an error, it shows that the state has changed
        was, *answers = state.stream.vote_many(
            names, [worker.text for worker in workers], labels, again, state.kind, MAX_RUN_CELLS
        )
        state.position -= 1
        self._follow((tasks, workers, names, numbers, labels, ids, was), *answers)
        if len(was) > (last := len(answers[0])):
            self._unfinished = tuple([column[last]] for column in (tasks, workers, names, numbers, labels, ids, was))
            state.position += 1
        self._run_votes = min(MAX_RUN_VOTES, 2 * len(was) + 2)
        return len(was)

    def renew(self) -> None:
        """Measure what confidence rests on, and finish the vote that made it due. Takes long: it looks at all votes."""
        assert self._unfinished is not None
        state, vote = self._state, self._unfinished
        state.online.renew_due()
        label, tie, votes, gold, likely = state.stream.predict(vote[2][0], state.lasting)
        state.position -= 1
        self._unfinished = None
        self._follow(vote, [label], [votes], [IS_TIE * tie + IS_GOLD * gold], likely)

    def _find(self, votes: VoteColumns, start: int) -> list[tuple[Task, Worker]]:
        """Return tasks and workers of votes, up to one that has to be applied on its own; make those that are new."""
        state, time, end = self._state, self._time, start + self._run_votes
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

    def _follow(self, columns: _Columns, leading: list[int], totals: list[int], flags: list[int], likely: list[float]) -> None:
        """Note the consequences of votes that the stream has learned.

        - `leading`: the leading label of the task after each; -1: the vote was there already.
        - `totals`: the votes on it.
        - `flags`: whether it ties, and is gold.
        - `likely`: the probabilities of its labels, one after the other.
        """
        state, time, evidence, start = self._state, self._time, self._evidence, self._state.position
        rule, append = state.rule, self.events.append
        decide, minimum, needs_probabilities = rule.decide, state.policy.minimum_votes, rule.needs_probabilities
        position, k = start, len(state.labels)
        at, first = -k, 0
        last: dict[str, int] = {}  # where the probabilities after the last vote on a task begin, -1: it is not new
        evidence.breaker = state.breakers.tripped is not None
        for task, worker, name, number, code, vote_id, was, label, total, flag in zip(
            *columns, leading, totals, flags, strict=False
        ):
            at += k
            if label < 0:
                last.setdefault(name, -1)
                continue
            position += 1
            last[name] = at
            if was < 0:
                worker.votes += 1
                first += 1
                if task.moved is not None and number in task.moved:
                    task.moved[number] = position
                append(events.Vote(time=time, task=name, worker=number, label=code, id=vote_id))
            else:
                task.note_move(number, position)
                append(events.Change(time=time, task=name, worker=number, label=code, id=vote_id))
            worker.cast(likely[at + code])
            standing = task.standing
            if standing is NEW and total < minimum and not flag & IS_GOLD:
                continue  # as `decide` would say
            evidence.votes, evidence.label, evidence.confidence = total, label, likely[at + label]
            evidence.tie, evidence.gold = bool(flag & IS_TIE), flag >= IS_GOLD
            if needs_probabilities:
                evidence.probabilities = likely[at : at + k]
            after = decide(standing, evidence)
            if after is not standing or task.expired:
                state.position, state.time = position, time
                answer = label, evidence.tie, total, evidence.gold, likely[at : at + k]
                state.stand(task, answer, state.unless_expired(task, answer, after) if task.expired else after)
                evidence.breaker = state.breakers.tripped is not None
        if position > start:
            state.position, state.time = position, time
            state.since_refit += position - start
            state.votes += first
        for name, at in last.items():
            if at < 0:
                self.touched.setdefault(name, None)
                continue
            i = at // k
            self.touched[name] = leading[i], bool(flags[i] & IS_TIE), totals[i], flags[i] >= IS_GOLD, likely[at : at + k]
        ends = sorted(at for at in last.values() if at >= 0)
        self._touch([columns[0][at // k] for at in ends], [leading[at // k] for at in ends], ends, likely)

    def _touch(self, tasks: list[Task], leading: list[int], starts: list[int], likely: list[float]) -> None:
        """Note that tasks were touched, one after the other, and how certain they are.

        - `leading`: their leading labels.
        - `starts`: where their probabilities begin in `likely`.
        """
        shown: list[float] = []
        for task, label, at in zip(tasks, leading, starts, strict=True):
            task.touched = self._time
            shown.append(likely[at + (task.standing.label if task.standing.label >= 0 else label)])
        if tasks:
            self._state.tasks.touch_many([task.slot for task in tasks], shown)
