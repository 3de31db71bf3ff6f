"""Bans and unbans reach archived tasks: the state then is what it would be if nothing had left memory."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.tasks import Archived, Task, VotesOf
from adjudge.service.store import events as e
from adjudge.service.store.archive import CopiedArchive
from live_stories import begin, fold

HONEST, RING = range(1, 7), range(7, 13)
POLICY = {"minimum_votes": 3, "maximum_votes": 50, "confidence": 0.5}


class Campaign:
    """Honest workers who are right, and a ring that overrules them on some tasks; tasks leave memory, or none does."""

    def __init__(self, seed, *, sweeps):
        self._random, self._sweeps = Random(seed), sweeps
        created = e.Created(time=0, labels=["x", "y"], names=["x", "y"], model="fds", policy=POLICY)
        self.log, self.state = [created], begin([created])
        self.state.apply(1, created)
        self.names = [f"t{n}" for n in range(40)]
        for n, name in enumerate(self.names):
            truth, is_attacked = self._random.randrange(2), n >= 20 and self._random.random() < 0.5
            honest = self._random.sample(HONEST, self._random.choice([1, 3]) if is_attacked else 4)
            votes = [(worker, truth) for worker in honest]  # the ring earns trust before it strikes
            votes += [(worker, 1 - truth if is_attacked else truth) for worker in (RING if is_attacked or n < 20 else ())]
            for worker, label in votes:
                self.tell(e.Vote(time=self.state.time + 1, task=name, worker=worker, label=label))
            number = self._random.randrange(6)  # drawn in both campaigns
            if sweeps:
                self.tell(e.Sweep(time=self.state.time, decided=number, others=number // 2))

    def tell(self, event):
        self.log.append(event)
        self.state.apply(self.state.position + 1, event)

    def judge(self, kind, workers):
        """Ban or unban workers, and let that reach the archive in pieces, between which tasks leave and come back."""
        self.tell(kind(time=self.state.time + 1, workers=list(workers), by="mo"))
        names = [name for name in self.names if self.state.is_concerned(name)]
        for start in range(0, len(names), 3):
            if self._sweeps:
                self.tell(e.Sweep(time=self.state.time, decided=2))
            self.tell(e.Revisit(time=self.state.time + 1, tasks=names[start : start + 3]))
        self.tell(e.Revisit(time=self.state.time, tasks=[], reached=list(self.state.unreached)))
        return names

    def decisions(self):
        return {name: (self.state.find(name).standing.status, self.state.find(name).standing.label) for name in self.names}

    def counted(self):
        return {name: sorted(vote for vote in self.state.ballots(name) if vote[2]) for name in self.names}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_a_ban_with_an_archive_decides_what_it_decides_without(seed):
    with_archive, without = (Campaign(seed, sweeps=sweeps) for sweeps in (True, False))
    before = with_archive.decisions()
    assert before == without.decisions()
    for each in (with_archive, without):
        each.judge(e.Ban, RING)
    assert with_archive.decisions() == without.decisions()
    assert with_archive.counted() == without.counted()
    assert not any(with_archive.state.is_concerned(name) for name in with_archive.names)
    assert not with_archive.state.unreached
    for each in (with_archive, without):
        each.judge(e.Unban, RING)
    assert with_archive.decisions() == without.decisions() == before
    assert with_archive.counted() == without.counted()
    assert not any(worker.aside for worker in with_archive.state.crowd.all.values())


def test_the_state_remembers_what_a_ban_has_not_reached():
    campaign = Campaign(3, sweeps=True)
    campaign.tell(e.Sweep(time=campaign.state.time, decided=100))
    campaign.tell(e.Ban(time=campaign.state.time, workers=list(RING)))
    state, at = campaign.state, campaign.state.position
    assert state.unreached == dict.fromkeys(RING, at)
    restored = snapshot.from_bytes(snapshot.to_bytes(state), CopiedArchive(state.archive))
    assert restored.unreached == state.unreached
    assert snapshot.digest(fold(campaign.log)) == snapshot.digest(state)
    some = next(name for name in campaign.names if state.is_concerned(name))
    campaign.tell(e.Revisit(time=state.time, tasks=[some, "unknown", some], reached=[7, 8]))
    assert set(state.unreached) == {9, 10, 11, 12}
    assert (some in state.tasks.by_name, state.find("unknown")) == (True, None)
    campaign.tell(e.Unban(time=state.time, workers=[9]))
    assert set(state.unreached) == {10, 11, 12}, "nothing of theirs was kept aside but on the one task in memory"
    assert snapshot.digest(fold(campaign.log)) == snapshot.digest(state)


def test_a_worker_whose_votes_are_all_in_memory_leaves_nothing_to_reach():
    campaign = Campaign(3, sweeps=False)
    campaign.tell(e.Ban(time=campaign.state.time, workers=[*RING, 77]))
    assert not campaign.state.unreached


def test_a_task_that_comes_back_meets_the_ban_at_once():
    """It is decided again even if a vote that does not count brings it back."""
    campaign = Campaign(3, sweeps=True)
    campaign.tell(e.Sweep(time=campaign.state.time, decided=100))
    campaign.tell(e.Ban(time=campaign.state.time, workers=list(RING)))
    some = next(name for name in campaign.names if len(campaign.state.ballots(name)) == 7)  # the ring, and one other
    assert campaign.decisions()[some][0] == "decided"
    campaign.tell(e.Vote(time=campaign.state.time, task=some, worker=9, label=0))
    assert campaign.decisions()[some][0] == "open"


def test_votes_that_have_expired_are_not_brought_back():
    campaign = Campaign(3, sweeps=True)
    campaign.tell(e.Sweep(time=campaign.state.time, decided=100))
    before = campaign.decisions()
    campaign.tell(e.Truncated(time=campaign.state.time + 9, until=1, before=campaign.state.time + 9))
    assert campaign.judge(e.Ban, RING) == []
    campaign.tell(e.Revisit(time=campaign.state.time, tasks=campaign.names))
    after = campaign.decisions()
    archived = [name for name in campaign.names if name not in campaign.state.tasks.by_name]
    assert len(archived) > 10
    assert {name: after[name] for name in archived} == {name: before[name] for name in archived}


def test_breakers_do_not_watch_it():
    campaign = Campaign(5, sweeps=True)
    campaign.tell(e.PolicySet(time=campaign.state.time, policy={**POLICY, "breakers": {"window": 4}}))
    campaign.tell(e.Sweep(time=campaign.state.time, decided=100))
    campaign.judge(e.Ban, RING)
    campaign.judge(e.Unban, RING)
    assert campaign.state.breakers.tripped is None


def test_a_banned_worker_keeps_the_figures_of_the_ban():
    campaign = Campaign(1, sweeps=True)
    state, ringleader = campaign.state, campaign.state.crowd.all[7]
    [live] = state.accuracy_of([ringleader])
    votes = ringleader.votes
    campaign.tell(e.Ban(time=state.time + 5, workers=[7], by="mo", reason="a ring"))
    ban = ringleader.ban
    assert (ban.accuracy, ban.votes, ban.time, ban.by, ban.reason) == (live.mean, votes, state.time, "mo", "a ring")
    assert ban.interval == live.interval
    assert ban.interval[0] < ban.accuracy < ban.interval[1]
    campaign.tell(e.Ban(time=state.time + 5, workers=[7], by="eve"))
    assert ringleader.ban is ban, "who is banned already stays banned for the first reason"
    restored = snapshot.from_bytes(snapshot.to_bytes(state), CopiedArchive(state.archive))
    assert restored.crowd.all[7].ban == ban
    campaign.judge(e.Unban, [7])
    assert ringleader.ban is None
    assert state.accuracy_of([ringleader])[0].mean is not None


def test_the_search_finds_votes_of_workers_and_no_others():
    def record(*workers):
        return Archived(
            Task("12", 0, 0), (0, False, 1, False, [1.0]), ([(w, 0) for w in workers], 0, None, 0, -1, 3), 1
        ).to_bytes()

    search = VotesOf(["12", "7"])
    assert search.has_some(record("1", "12"))
    assert search.has_some(record("7"))
    assert not search.has_some(record("1", "2", "112", "77"))
    assert not search.has_some(record())
