"""Expired votes in the fold: the same state from every beginning, whether records have lost their votes on disk or not yet."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adjudge.errors import InputError
from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.settings import Retention
from adjudge.service.campaigns.tasks import Archived
from adjudge.service.store import events as e
from adjudge.service.store.archive import MemoryArchive
from live_stories import POLICIES, Story, begin, fold, ops


class Stripped(MemoryArchive):
    """An archive whose records lose their votes, as those of a store do."""

    def strip(self, before):
        for task, rows in self._records.items():
            read = [(position, Archived.from_bytes(record)) for position, record in rows]
            self._records[task] = [
                (position, (record.without_votes() if record.task.touched < before else record).to_bytes())
                for position, record in read
            ]


def expiring(log, random):
    """The log of a service that expires votes at intervals: workers without votes vote again."""
    state, real = begin(log), []

    def add(event):
        real.append(event)
        state.apply(len(real), event)

    for event in log:
        number = getattr(event, "worker", None)
        if isinstance(event, e.Vote | e.Change):
            kind = e.Vote if state.voted(event.task, number) < 0 else e.Change
            add(kind(time=event.time, task=event.task, worker=number, label=event.label))
        elif isinstance(event, e.RefitDone):
            add(e.RefitDone(time=event.time, read=state.refit_read))
        elif isinstance(event, e.GoldSet) and event.label is None:
            if state.find(event.task) is not None and state.has_gold(event.task):
                add(event)
        elif not isinstance(event, e.Retraction) or state.voted(event.task, number) >= 0:
            add(event)
        if random.random() < 0.15:
            kept = random.randrange(len(real))
            add(e.Truncated(time=event.time, until=kept, before=real[kept].time))
            tasks, before = state.tasks, state.expired
            sweep = {"decided": tasks.older(before, 99), "emptied": tasks.older(before, 99, settled=False)}
            if any(sweep.values()):
                add(e.Sweep(time=event.time, **sweep))
    return real, state


@settings(max_examples=150)
@given(ops(most=100), st.integers(0, 2**32), st.sampled_from(POLICIES))
def test_the_state_follows_from_every_beginning(told, seed, policy):
    random = Random(seed)
    real, state = expiring(Story(policy=policy).tell(told).log, random)
    wanted = snapshot.digest(state) if not state.refit_read else None
    assert fold(real).votes == state.votes
    archive = Stripped()
    again = begin(real, archive)
    for position, event in enumerate(real, 1):
        again.apply(position, event)
        if isinstance(event, e.Truncated) and not again.refit_read:  # as a base: its records are stripped after it
            archive.strip(again.expired)
            again = snapshot.from_bytes(snapshot.to_bytes(again), archive)
    for name in sorted({event.task for event in real if hasattr(event, "task")}):
        known, other = state.find(name), again.find(name)
        assert (known is None) == (other is None)
        if known is not None:
            assert known.standing == other.standing
            assert state.ballots(name) == again.ballots(name)
    if wanted is not None:
        assert snapshot.digest(again) == wanted


@settings(max_examples=150)
@given(ops(most=100), st.integers(0, 2**32), st.sampled_from(POLICIES))
def test_no_vote_outlives_its_time(told, seed, policy):
    """Untouched tasks have no votes left; votes in force were cast since their task was last emptied."""
    random = Random(seed)
    real, state = expiring(Story(policy=policy).tell(told).log, random)
    for worker in state.crowd.all.values():
        for name in worker.aside or ():
            task = state.find(name)
            assert worker.number in task.aside
            assert task.touched >= state.expired or name in state.tasks.by_name
    for name in sorted({event.task for event in real if hasattr(event, "task")}):
        if name not in state.tasks.by_name and (task := state.find(name)) is not None and task.touched < state.expired:
            assert state.ballots(name) == []
            assert task.expired
    for at, event in enumerate(real[state.begins - 1 :], state.begins):  # what is left is listed once at most
        if isinstance(event, e.Vote | e.Change) and state.in_force(event, at):
            assert event.label == state.voted(event.task, event.worker)


def test_how_long_votes_are_kept_is_checked():
    assert Retention.of({}).votes_days is None
    assert Retention.of({"votes_days": 0.5}).votes_days == 0.5
    for wrong in (0, -1, "30"):
        with pytest.raises(InputError, match="retention: "):
            Retention.of({"votes_days": wrong})
