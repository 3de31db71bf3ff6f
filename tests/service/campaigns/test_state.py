"""The fold: which votes count is what a dictionary says, and neither snapshots, threads nor readers change a bit of it."""

from itertools import groupby

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adjudge.online import Online
from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.reader import StateReader
from adjudge.service.campaigns.tasks import SETTLED_STATUSES
from adjudge.service.campaigns.voting import RequestVotes, VoteFold
from adjudge.service.store import events as e
from adjudge.service.store.archive import CopiedArchive
from live_stories import POLICIES, TASKS, WORKERS, Story, begin, fold, ops

MODELS = st.sampled_from(["fds", "auto", "ds", "hybrid"])
STATE_SETTINGS = settings(max_examples=60, deadline=None)
pytestmark = pytest.mark.filterwarnings("ignore::adjudge.errors.NotConverged")  # of refits of a few votes


def stories(**options):
    return st.builds(
        lambda policy, model, confidence, ops: Story(policy=policy, model=model, settings={"confidence": confidence}).tell(ops),
        st.sampled_from(POLICIES),
        MODELS,
        st.sampled_from(["honest", "honest", "posterior"]),
        ops(**options),
    )


def read_everything(state):
    for name in [f"t{n}" for n in range(TASKS + 1)]:
        task = state.find(name)
        state.find_archived(name)
        state.ballots(name)
        state.has_gold(name)
        state.gold_of(name)
        state.is_concerned(name)
        for worker in range(1, WORKERS + 2):
            state.voted(name, worker)
        if task is not None:
            answer = state.answer(name)
            state.decision(task, answer)
            state.evidence(task, answer)
            state.why(task, answer)
            state.tally(name)
    for worker in state.crowd.all.values():
        state.on_probation(worker)
        state.stream.confusion(worker.text)
        state.counts(worker)
    state.accuracy_of(list(state.crowd.all.values()))
    state.votes_in_memory()
    state.describe_stall()
    state.next_due()
    state.tasks.counts()
    state.tasks.older(state.time, 3)
    for settled in (True, False):
        state.tasks.in_order(settled=settled)
        state.tasks.oldest(2, settled=settled)
    for order in ("uncertainty", "age"):
        state.tasks.list_page({"open", "decided", "held"}, order, limit=3, after=None)


def test_reading_covers_every_reader():
    readers = {name for name in vars(StateReader) if not name.startswith("_")}
    assert readers - {"code", "in_force"} <= set(read_everything.__code__.co_names)


@STATE_SETTINGS
@given(stories())
def test_votes_in_force_are_what_a_dictionary_says(story):
    state = fold(story.log)
    assert state.votes == len(story.votes)
    for worker in state.crowd.all.values():
        assert worker.votes == sum(who == worker.number for _, who in story.votes)
        assert worker.banned == (worker.number in story.banned)
    for name in [f"t{n}" for n in range(TASKS)]:
        ballots = {who: (label, counts) for who, label, counts in state.ballots(name)}
        assert len(ballots) == len(state.ballots(name))
        expected = {who: label for (task, who), (label, _) in story.votes.items() if task == name}
        assert {who: label for who, (label, _) in ballots.items()} == expected
        for who in range(1, WORKERS + 1):
            assert state.voted(name, who) == expected.get(who, -1)
            if who in ballots:
                worker = state.crowd.all[who]
                assert ballots[who][1] == (not worker.banned and not state.on_probation(worker))
        assert (state.find(name) is not None) == (name in story.tasks)
        if name in story.tasks:
            assert state.has_gold(name) == (name in story.gold)
    positions = {position for (_, who), (_, position) in story.votes.items() if who not in story.banned}
    cast = ((p, event) for p, event in enumerate(story.log, 1) if isinstance(event, e.Vote | e.Change))
    assert {position for position, event in cast if state.in_force(event, position)} == positions


@STATE_SETTINGS
@given(stories())
def test_what_is_kept_aside_is_counted_as_it_is_judged(story):
    state = fold(story.log)
    for worker in state.crowd.all.values():
        aside = worker.aside or {}
        tasks = {name: state.find(name) for name in aside}
        assert worker.judged == sum(tasks[name].standing.status in SETTLED_STATUSES for name in aside)
        assert worker.right == sum(
            tasks[name].standing.status in SETTLED_STATUSES and tasks[name].standing.label == label
            for name, label in aside.items()
        )
        for name, task in tasks.items():
            assert task.aside.count(worker.number) == 1
        if not worker.banned and not state.on_probation(worker):
            assert not any(name in state.tasks.by_name for name in aside)
    for task in state.tasks:
        assert all(task.name in state.crowd.all[number].aside for number in task.aside or ())


@STATE_SETTINGS
@given(stories(without=("refit", "sweep")))
def test_the_stream_has_learned_what_counts_and_nothing_else(story):
    """Without evictions and refits, its votes are those of a new stream that gets them in any order."""
    state = fold(story.log)
    votes = {(task, str(who)): label for task, who, label in counted(state)}
    assert sum(map(len, (state.stream.votes_of(task.name) or () for task in state.tasks))) == len(votes)
    fresh = Online(labels=state.labels, model=state.created.model)
    for (task, worker), label in votes.items():
        fresh.learn(task, worker, state.labels[label])
    table = {line[0]: line[1:] for line in zip(*(fresh.workers()[c] for c in ("worker", "votes")), strict=True)}
    for worker in state.crowd.all.values():
        assert table.get(worker.text, (0,))[0] == len(state.stream.tasks_of(worker.text))


def counted(state):
    for task in state.tasks:
        yield from ((task.name, who, label) for who, label, counts in state.ballots(task.name) if counts)


@STATE_SETTINGS
@given(stories(without=("refit", "sweep", "policy", "ban", "unban", "worker", "label", "tick", "tasks")))
def test_counts_are_those_of_a_stream_that_got_the_same_votes(story):
    if story.policy.get("probation"):
        return
    state, fresh = fold(story.log), Online(labels=["l0", "l1", "l2"], model=story.model)
    for event in story.log:
        if isinstance(event, e.Vote | e.Change):
            fresh.learn(event.task, str(event.worker), f"l{event.label}")
        elif isinstance(event, e.Retraction):
            fresh.retract(event.task, str(event.worker))
        elif isinstance(event, e.GoldSet):
            fresh.gold(event.task, None if event.label is None else f"l{event.label}")
    assert state.stream.counts() == fresh.state.counts()


@STATE_SETTINGS
@given(stories(), st.data())
def test_a_snapshot_at_any_point_changes_nothing(story, data):
    at = data.draw(st.integers(1, len(story.log)))
    whole, early = begin(story.log), None
    for position, event in enumerate(story.log, 1):
        whole.apply(position, event)
        if position >= at and early is None and not whole.refit_read:
            saved = snapshot.to_bytes(whole)
            early = snapshot.from_bytes(saved, CopiedArchive(whole.archive))
            assert snapshot.to_bytes(early) == saved
            if early.next_due():  # the other may remember what is not due any more
                assert 0 < whole.next_due() <= early.next_due()
            whole.changes.clear()
    if early is not None:
        fold(story.log, early)
        assert early.changes == whole.changes
        assert snapshot.to_bytes(early) == snapshot.to_bytes(whole)


@STATE_SETTINGS
@given(stories())
def test_readers_change_nothing_and_threads_neither(story):
    state = fold(story.log)
    read = fold(story.log, between=read_everything, threads=2)
    assert snapshot.to_bytes(read) == snapshot.to_bytes(state)
    assert read.changes == state.changes
    assert snapshot.digest(fold(story.log, threads=1)) == snapshot.digest(state)


# Sweeps. What left memory is not looked at by what looks at all tasks (a refit, a policy, a ban, a reset, the clock), and
# honest confidence measures the errors that workers share on the tasks in memory. Everything else is as if nothing had left.
OF_ONE_TASK = ("refit", "policy", "ban", "unban", "worker", "reset", "tick", "label")


@STATE_SETTINGS
@given(
    st.sampled_from([p for p in POLICIES if "breakers" not in p and "lock" not in p and "hold" not in p]),
    MODELS,
    ops(without=OF_ONE_TASK),
)
def test_sweeps_change_no_decision_of_votes(policy, model, ops):
    """With the model's own confidence: the counts of tasks that left stay in the stream."""
    story = Story(policy=policy, model=model, settings={"confidence": "posterior"}).tell(ops)
    swept, kept = fold(story.log), fold(without_sweeps(story.log))
    assert told(swept.changes) == told(kept.changes)
    for name in story.tasks:
        one, other = swept.find(name), kept.find(name)
        assert one.standing == other.standing
        assert (one.flips, one.last, one.moved, one.aside) == (other.flips, other.last, other.moved, other.aside)
        assert sorted(swept.ballots(name)) == sorted(kept.ballots(name))
    assert [w.judged for w in swept.crowd.all.values()] == [w.judged for w in kept.crowd.all.values()]


def without_sweeps(log):
    """The same log, in which nothing leaves memory: positions stay what they are."""
    return [e.Sweep(time=event.time, decided=0) if isinstance(event, e.Sweep) else event for event in log]


def told(changes):
    return [(d.task, d.label, d.status, d.votes, d.position, d.reason, round(d.confidence, 12)) for d in changes]


@STATE_SETTINGS
@given(stories())
def test_sweeps_never_change_which_votes_are_in_force(story):
    swept, kept = fold(story.log), fold(without_sweeps(story.log))
    assert swept.votes == kept.votes
    for name in story.tasks:
        in_force = [sorted((who, label) for who, label, _ in state.ballots(name)) for state in (swept, kept)]
        assert in_force[0] == in_force[1]
    assert swept.archived_tasks + len(swept.tasks) == len(kept.tasks)


def fold_together(state, events, has_ids):
    """Fold votes of one time as a request does; return what it touched."""
    votes, at = VoteFold(state, events[0].time), 0
    columns = [[getattr(event, field) for event in events] for field in ("task", "worker", "label")]
    while at < len(events):
        done = votes.fold(RequestVotes(*columns, ["id"] * len(events) if has_ids else None), at)
        if votes.is_renewal_due:
            votes.renew()
        if not done and is_new(state, events[at], has_ids):
            votes.apply(events[at])
        elif not done:
            votes.touched.setdefault(events[at].task, None)
        at += done or 1
    return votes.touched


def is_new(state, event, has_ids):
    return has_ids or state.voted(event.task, event.worker) != event.label


@STATE_SETTINGS
@given(st.tuples(stories(), st.just(True)) | st.tuples(stories(without=["refit"]), st.just(False)))  # refits have positions
def test_votes_that_are_folded_together_give_the_state_of_each_folded_alone(told):
    story, has_ids = told
    log = [msgspec.structs.replace(event, time=event.time // 40 * 40) for event in story.log]
    alone, together = begin(log), begin(log)
    for (_, are_votes), events in groupby(log, key=lambda event: (event.time, isinstance(event, e.Vote | e.Change))):
        run, touched = list(events), {}
        for event in run:
            if not are_votes:
                together.apply(together.position + 1, event)
                alone.apply(alone.position + 1, event)
            elif is_new(alone, event, has_ids):
                touched[event.task] = alone.apply(alone.position + 1, event)[1]
            else:
                touched.setdefault(event.task, None)
        assert not are_votes or fold_together(together, run, has_ids) == touched
        assert together.changes == alone.changes
    if not together.refit_read:
        assert snapshot.digest(together) == snapshot.digest(alone)
