"""Replays: the recorded decisions and the snapshot agree with the log, and where they do not, the place is named."""

import msgspec
import pytest

from adjudge.errors import AdjudgeError, InputError
from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.replay import check, replay
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.store import events as e
from adjudge.service.store.archive import StoreArchive
from adjudge.service.store.batch import Batch, DecisionRow
from adjudge.service.store.opening import open_store
from live_stories import POLICIES, Story, fold, make_ops

encode = msgspec.json.Encoder().encode
pytestmark = pytest.mark.filterwarnings("ignore::adjudge.errors.NotConverged")


@pytest.fixture
def store(tmp_path):
    store = open_store(tmp_path / "votes.db")
    yield store
    store.close()


def write(store, log, *, snapshot_at=None, spoil=None):
    """Write a log with its decisions, as a server does; `spoil` may change a decision."""
    number, batch = store.create_campaign("c"), Batch()
    archive = StoreArchive(store, number, batch.archived.append)
    state = CampaignState(log[0], archive)
    saved = None
    for position, event in enumerate(log, 1):
        state.apply(position, event)
        batch.extend(number, position, [event])
        for decision in state.changes:
            told = decision if spoil is None else spoil(decision)
            if told is not None:
                batch.decide(number, [DecisionRow(position, decision.task, encode(told))])
        state.changes.clear()
        if snapshot_at is not None and position >= snapshot_at and saved is None and not state.refit_read:
            saved = position, snapshot.bundle(snapshot.to_bytes(state), archive.state(), b"")
    store.write(batch)
    if saved is not None:
        store.snapshots(number).save(*saved)
    return number, state


@pytest.mark.parametrize("seed", range(8))
def test_a_log_and_what_was_recorded_agree(store, seed):
    story = Story(policy=POLICIES[seed % len(POLICIES)]).tell(make_ops(seed, 150))
    number, state = write(store, story.log, snapshot_at=60)
    found = check(store, number)
    assert found.difference is None
    assert (found.position, found.digest) == (len(story.log), snapshot.digest(state))
    assert found.snapshot is not None
    assert found.decisions == sum(1 for _ in store.decisions(number)) > 5
    assert snapshot.digest(replay(store, number)) == found.digest


def test_a_replay_can_end_early(store):
    story = Story(policy=POLICIES[0]).tell(make_ops(3, 80))
    number, _ = write(store, story.log)
    assert snapshot.to_bytes(replay(store, number, until=50)) == snapshot.to_bytes(fold(story.log[:50]))


def long_story():
    return Story(policy=POLICIES[0]).tell(make_ops(1, 120, ["vote"]))


def test_a_decision_that_was_recorded_otherwise_is_named(store):
    seen = []

    def spoil(decision):
        seen.append(decision)
        return msgspec.structs.replace(decision, label="l1" if decision.label != "l1" else "l0") if len(seen) == 7 else decision

    number, _ = write(store, long_story().log, spoil=spoil)
    found = check(store, number).difference
    assert (found.position, found.task) == (seen[6].position, seen[6].task)
    assert found.what.startswith(
        f"the decision of task '{seen[6].task}' is recorded otherwise: label is '{seen[6].label}', and was"
    )


def test_a_decision_that_is_missing_is_named(store):
    seen = []

    def spoil(decision):
        seen.append(decision)
        return None if len(seen) == 4 else decision

    number, _ = write(store, long_story().log, spoil=spoil)
    found = check(store, number).difference
    assert (found.position, found.task) == (seen[3].position, seen[3].task)
    assert found.what.endswith("is not recorded")


def test_a_decision_too_many_is_named(store):
    log = long_story().log
    number, _ = write(store, log)
    batch = Batch()
    batch.extend(number, len(log) + 1, [e.Erase(time=log[-1].time, worker=1)])
    batch.decide(number, [DecisionRow(len(log) + 1, "t1", next(store.decisions(number)).body)])
    store.write(batch)
    found = check(store, number).difference
    assert (found.position, found.what) == (len(log) + 1, "a decision of task 't1' is recorded that is not made")


def test_a_snapshot_of_another_state_is_named(store):
    log = long_story().log
    number, state = write(store, log)
    archive = StoreArchive(store, number, lambda _: None)
    state.since_refit += 1
    store.snapshots(number).save(len(log), snapshot.bundle(snapshot.to_bytes(state), archive.state(), b""))
    found = check(store, number).difference
    assert found.position == len(log)
    assert found.what.endswith("differs in since_refit")


def test_an_empty_log_and_a_gap_are_errors(store):
    number = store.create_campaign("c")
    for run in (replay, check):
        with pytest.raises(InputError, match="has no events"):
            run(store, number)
    state = fold(long_story().log)
    with pytest.raises(AdjudgeError, match="event 500 does not follow event 1"):
        state.apply(500, e.Tick(time=1))
