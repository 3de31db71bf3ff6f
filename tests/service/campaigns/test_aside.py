"""Votes that do not count: of the banned and of those on probation; and what happens to tasks meanwhile, by hand."""

import pytest

from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.decision import Standing
from adjudge.service.store import events as e
from adjudge.service.store.archive import CopiedArchive
from live_stories import begin

EASY = {"minimum_votes": 2, "confidence": 0.6}
PROBATION = {**EASY, "probation": {"votes": 3, "accuracy": 0.6}}


class Told:
    """A campaign with shorthands for events; each advances the time by one."""

    def __init__(self, policy=EASY, **settings):
        created = e.Created(time=0, labels=["x", "y"], names=["X", "Y"], model="fds", policy=policy, settings=settings)
        self.state = begin([created])
        self(created)

    def __call__(self, event):
        return self.state.apply(self.state.position + 1, event)

    @property
    def time(self):
        return self.state.time + 1

    def vote(self, task, worker, label):
        kind = e.Vote if self.state.voted(task, worker) < 0 else e.Change
        return self(kind(time=self.time, task=task, worker=worker, label=label))

    def trust(self, *workers):
        for worker in workers:
            self(e.WorkerSet(time=self.time, worker=worker, expert=True))
            self(e.WorkerSet(time=self.time, worker=worker, expert=False))

    def decide(self, tasks, label=0, workers=(1, 2, 3)):
        for task in tasks:
            for worker in workers:
                self.vote(task, worker, label)

    def counts(self, task):
        return {worker: counts for worker, _, counts in self.state.ballots(task)}

    def status(self, task):
        return self.state.find(task).standing.status


def test_a_newcomer_is_promoted_once_enough_votes_were_right():
    told = Told(PROBATION)
    told.trust(1, 2, 3)
    told.decide(["a", "b", "c", "d"])
    for task, label in (("a", 0), ("b", 1)):
        told.vote(task, 9, label)
    assert told.counts("a") == {1: True, 2: True, 3: True, 9: False}
    assert (told.state.crowd.all[9].judged, told.state.crowd.all[9].right) == (2, 1)
    told.vote("b", 9, 0)  # a changed vote is judged again
    assert told.state.on_probation(told.state.crowd.all[9])
    told.vote("c", 9, 0)
    assert not told.state.on_probation(told.state.crowd.all[9])
    assert [told.counts(task)[9] for task in "abc"] == [True] * 3
    assert told.state.answer("b")[2] == 4


def test_too_many_wrong_votes_keep_a_newcomer_aside():
    told = Told(PROBATION)
    told.trust(1, 2, 3)
    told.decide("abcdefgh")
    for task in "abcdefgh":
        told.vote(task, 9, 1)
    assert told.state.on_probation(told.state.crowd.all[9])
    assert told.state.crowd.all[9].judged == 8
    assert told.state.stream.tasks_of("9") == []


def test_a_judgement_follows_its_task():
    told = Told(PROBATION)
    told.trust(1, 2, 3)
    told.vote("a", 9, 0)
    worker = told.state.crowd.all[9]
    assert (worker.judged, worker.right) == (0, 0)
    told.decide("a")
    assert (worker.judged, worker.right) == (1, 1)
    told(e.Override(time=told.time, task="a", label=1))
    assert (worker.judged, worker.right) == (1, 0)
    told(e.Reopen(time=told.time, task="a"))
    assert (worker.judged, worker.right) == (0, 0)
    told(e.Retraction(time=told.time, task="a", worker=9))
    assert worker.votes == 0
    assert told.state.find("a").aside == []


def test_probation_is_for_those_who_come_later():
    told = Told(EASY)
    told.vote("a", 1, 0)
    told(e.PolicySet(time=told.time, policy=PROBATION))
    told.vote("a", 1, 1)
    told.vote("a", 2, 1)
    assert told.counts("a") == {1: True, 2: False}
    told(e.PolicySet(time=told.time, policy=EASY))
    assert told.counts("a") == {1: True, 2: True}


def test_an_expert_needs_no_probation():
    told = Told(PROBATION)
    told.vote("a", 1, 0)
    told(e.WorkerSet(time=told.time, worker=1, expert=True))
    assert told.counts("a") == {1: True}
    told(e.WorkerSet(time=told.time, worker=1, expert=False))
    told.vote("a", 1, 1)
    assert told.counts("a") == {1: True}
    assert told.state.stream.voted("a", "1") == 1


def test_banned_while_on_probation():
    told = Told(PROBATION)
    told.trust(1, 2, 3)
    told.decide("abcd")
    told.vote("a", 9, 0)
    told(e.Ban(time=told.time, workers=[9]))
    for task in "bcd":
        told.vote(task, 9, 0)
    assert told.counts("d")[9] is False  # enough were right, and a ban is a ban
    told(e.Unban(time=told.time, workers=[9]))
    assert told.counts("d")[9] is False  # until the next vote
    told.vote("e", 9, 0)
    assert [told.counts(task)[9] for task in "abcde"] == [True] * 5
    told.vote("f", 8, 0)
    told(e.Ban(time=told.time, workers=[8]))
    told(e.PolicySet(time=told.time, policy=EASY))
    assert told.counts("f")[8] is False
    told(e.Unban(time=told.time, workers=[8]))
    assert told.counts("f")[8] is True


def test_a_ban_is_one_step():
    """No decision is made by half of those who are banned."""
    told = Told(EASY)
    told.decide("a", 0, (1, 2, 3))
    told.decide("a", 1, (4, 5))
    told.state.changes.clear()
    told(e.Ban(time=told.time, workers=[1, 2, 3]))
    assert [(change.label, change.votes) for change in told.state.changes] == [("y", 2)]
    assert told.state.find("a").flips == 1


def test_a_ban_reaches_tasks_in_the_archive_when_they_come_back():
    told = Told(EASY)
    told.decide("ab", 0, (1, 2, 3))
    told(e.Sweep(time=told.time, decided=2))
    assert told.state.archived_tasks == 2
    told(e.Ban(time=told.time, workers=[1]))
    assert told.counts("a") == {1: False, 2: True, 3: True}  # readers know at once
    assert told.status("a") == "decided"
    told.vote("a", 4, 0)
    assert told.counts("a") == {1: False, 2: True, 3: True, 4: True}
    told(e.Unban(time=told.time, workers=[1]))
    assert told.counts("a") == {1: True, 2: True, 3: True, 4: True}
    assert told.counts("b") == {1: True, 2: True, 3: True}
    assert told.state.archived_tasks == 1


def test_votes_aside_outlive_the_archive():
    told = Told(PROBATION)
    told.trust(1, 2, 3)
    for task in "abc":
        told.vote(task, 9, 0)
    told.decide("abc")
    told(e.Sweep(time=told.time, decided=3))
    assert told.state.crowd.all[9].judged == 3
    told.vote("d", 9, 0)
    assert not told.state.on_probation(told.state.crowd.all[9])
    assert [told.counts(task)[9] for task in "abcd"] == [True] * 4


@pytest.mark.parametrize("event", [e.GoldSet(time=2, task="a", label=1), e.TasksAdded(time=2, tasks=["a"])])
def test_a_task_without_votes_can_leave_and_come_back(event):
    told = Told(EASY)
    told(event)
    before = told.state.decision(told.state.find("a"), told.state.answer("a"))
    told(e.Sweep(time=told.time, decided=1, others=1))
    assert told.state.archived_tasks == 1
    assert told.state.decision(*told.state.find_archived("a")) == before
    assert told.state.has_gold("a") == isinstance(event, e.GoldSet)
    told.vote("a", 1, 0)
    assert told.state.archived_tasks == 0
    assert told.state.answer("a")[2] == 1
    assert told.state.has_gold("a") == isinstance(event, e.GoldSet)


def test_a_person_can_decide_what_nobody_counts():
    told = Told(EASY)
    told.vote("a", 1, 0)
    told(e.Ban(time=told.time, workers=[1]))
    told(e.Override(time=told.time, task="a", label=1, by="mo"))
    decision = told.state.changes[-1]
    assert (decision.label, decision.status, decision.confidence, decision.by) == (
        "y",
        "decided",
        pytest.approx(0.5, abs=0.5),
        "mo",
    )
    told.vote("b", 1, 0)
    told(e.Override(time=told.time, task="b", label=1))
    assert (told.state.changes[-1].label, told.state.changes[-1].confidence) == ("y", 0.0)


def test_what_is_held_does_not_leave():
    told = Told({**EASY, "hold": 50e-6})
    told.decide("a")
    assert told.status("a") == "held"
    told(e.Sweep(time=told.time, decided=5, others=5))
    assert told.state.archived_tasks == 0
    told(e.Tick(time=told.time + 60))
    assert told.status("a") == "decided"


def test_a_policy_sets_the_clock_of_decisions_that_were_made():
    told = Told(EASY)
    told.decide("a")
    assert told.state.next_due() == 0
    told(e.PolicySet(time=told.time, policy={**EASY, "lock": 100e-6}))
    again = snapshot.from_bytes(snapshot.to_bytes(told.state), CopiedArchive(told.state.archive))
    since = told.state.find("a").standing.since
    assert told.state.next_due() == again.next_due() == since + 100
    told(e.Tick(time=since + 100))
    assert told.state.changes[-1].status == "locked"


def test_a_policy_sets_the_clock_of_what_comes_back():
    told = Told(EASY)
    told.decide("a")
    told(e.Sweep(time=told.time, decided=1))
    told(e.PolicySet(time=told.time, policy={**EASY, "lock": 10e-6}))
    told(e.GoldSet(time=told.time + 100, task="b", label=0))
    told.vote("a", 4, 1)
    told.vote("a", 5, 1)
    assert told.state.find("a").standing.status == "locked"


def test_dues_are_forgotten_once_they_are_many():
    told = Told({**EASY, "lock": 1000.0})
    for at in range(600):
        told.decide([f"t{at}"], 0, (1, 2))
        told(e.Sweep(time=told.time, decided=1))
        told.decide([f"t{at}"], 0, (3,))
        told(e.Sweep(time=told.time, decided=1))
    assert len(told.state._dues) <= 1100
    assert told.state.archived_tasks == 600


def test_the_least_recently_touched_leave_first():
    told = Told(EASY)
    told.decide("abcdef")
    told.decide("ab", 0, (4,))
    told.vote("z", 1, 0)
    told(e.Sweep(time=told.time, decided=2))
    assert sorted(task.name for task in told.state.tasks) == ["a", "b", "e", "f", "z"]
    told.decide("e", 0, (5,))
    told(e.Sweep(time=told.time, decided=3, others=1))
    assert [task.name for task in told.state.tasks] == ["e"]
    assert (told.state.tasks.settled, told.state.tasks.waiting) == (1, 0)


def test_what_looks_at_all_tasks_touches_only_what_it_changes():
    told = Told(EASY)
    told.decide("ab")
    touched = told.state.find("a").touched
    told(e.PolicySet(time=told.time + 50, policy={**EASY, "hysteresis": 0.1}))
    assert told.state.find("a").touched == touched
    told(e.PolicySet(time=told.time + 50, policy={**EASY, "minimum_votes": 9}))
    assert told.state.find("a").touched == told.state.time
    assert told.state.find("a").standing == Standing("open", -1, told.state.time, 0, "minimum_votes")


def test_a_new_policy_finds_no_appeal_where_there_was_none():
    told = Told()
    told(e.TasksAdded(time=told.time, tasks=["empty"]))
    told(e.PolicySet(time=told.time, policy={**EASY, "minimum_votes": 3}))
    assert told.state.tasks.by_name["empty"].standing == Standing()
    told(e.RefitBegun(time=told.time))
    told(e.RefitDone(time=told.time, read=told.state.position))
    assert told.state.tasks.by_name["empty"].standing == Standing()


def test_a_task_that_comes_into_memory_is_listed_by_its_own_confidence():
    told = Told(PROBATION)
    told.trust(1, 2, 3)
    told.decide(["sure"])
    told(e.Sweep(time=told.time, decided=1))
    told(e.TasksAdded(time=told.time, tasks=["new"]))  # takes the line that the other had
    listed = {name: key for key, name in told.state.tasks.list_page({"open", "decided"}, "uncertainty", limit=9, after=None)}
    assert listed == {"new": 0.0}
    told.vote("sure", 9, 1)  # from the archive, for a vote that is kept aside
    listed = {name: key for key, name in told.state.tasks.list_page({"open", "decided"}, "uncertainty", limit=9, after=None)}
    assert listed["sure"] == pytest.approx(told.state.answer("sure")[4][0])
    assert listed["sure"] > 0.6


def test_why_is_the_same_once_a_task_has_left_memory():
    told = Told({**EASY, "quorum": {"groups": 2}, "escalate": {"disagreement": 0.4}})
    for worker in (1, 2, 3, 4):
        told(e.WorkerSet(time=told.time, worker=worker, group=f"g{worker % 2}"))
    told.decide(["t"], workers=(1, 2, 3, 4))

    def why():
        task = told.state.find("t")
        answer = told.state.answer("t") if "t" in told.state.tasks.by_name else told.state.find_archived("t")[1]
        return told.state.rule.why(task.standing, told.state.evidence(task, answer))

    before = why()
    assert "2 of at least 2 groups with a vote for it" in before
    told(e.Sweep(time=told.time, decided=1))
    assert "t" not in told.state.tasks.by_name
    assert why() == before
