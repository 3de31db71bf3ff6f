"""The counts stored with a task equal a recount of its votes after any sequence of events."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.campaigns.tally import Tally
from adjudge.service.store import events as e
from adjudge.service.store.archive import MemoryArchive
from live_stories import Story, begin, ops

pytestmark = pytest.mark.filterwarnings("ignore::adjudge.errors.NotConverged")
EVERYTHING = {
    "minimum_votes": 1,
    "confidence": 0.6,
    "quorum": {"groups": 2, "votes": 1},
    "experts": {"decide": True},
    "escalate": {"disagreement": 0.4},
    "breakers": {"window": 4},
}
POLICIES = (
    EVERYTHING,
    {**EVERYTHING, "quorum": {"groups": 1, "votes": 2}},
    {**EVERYTHING, "probation": {"votes": 2, "accuracy": 0.5}},
)


def counted(state, name):
    """Count the votes of a task one by one."""
    workers = state.crowd.all
    votes = [(label, workers[int(text)]) for text, label in state.stream.votes_of(name) or ()]
    quorum = state.policy.quorum
    return Tally(1 if quorum is None else quorum.votes, [(label, worker.group, worker.expert) for label, worker in votes])


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(POLICIES), ops(most=150))
def test_tallies_equal_a_count_of_the_votes(policy, ops):
    story = Story(policy=policy).tell(ops)
    state, tallied = begin(story.log), 0
    for position, event in enumerate(story.log, 1):
        state.apply(position, event)
        tallied += len(state.tallies)
        for name, tally in state.tallies.items():
            assert name in state.tasks.by_name
            assert tally == counted(state, name), (position, event)
    if not state.refit_read:
        copy = snapshot.from_bytes(snapshot.to_bytes(state), MemoryArchive())
        for task in copy.tasks:
            assert copy.tally(task.name) == state.tally(task.name)


def test_a_vote_walks_no_votes(monkeypatch):
    """Under a policy with groups, experts, disagreement and breakers, only the first look at a task walks its votes."""
    created = e.Created(time=0, labels=["a", "b"], names=["a", "b"], model="fds", policy=EVERYTHING)
    state = CampaignState(created, MemoryArchive())
    state.apply(1, created)
    walked = []
    monkeypatch.setattr(
        CampaignState, "_ballots", lambda self, name, walk=CampaignState._ballots: walked.append(name) or walk(self, name)
    )
    for worker in range(1, 40):
        state.apply(state.position + 1, e.WorkerSet(time=1, worker=worker, group=f"g{worker % 5}", expert=worker == 30))
        state.apply(state.position + 1, e.Vote(time=1, task="t", worker=worker, label=worker % 2))
    for worker in range(1, 20):
        state.apply(state.position + 1, e.Change(time=2, task="t", worker=worker, label=1 - worker % 2))
        state.apply(state.position + 1, e.Retraction(time=2, task="t", worker=40 - worker))
    state.apply(state.position + 1, e.Reopen(time=3, task="t"))
    assert walked == ["t"]
    assert state.tally("t") == counted(state, "t")
