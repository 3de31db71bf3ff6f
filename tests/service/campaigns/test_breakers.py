"""Breakers: a flood of colluders trips them within one window, honest traffic does not, and a person resets them."""

from random import Random

import pytest

from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.breakers import BLOCKS_PER_WINDOW, Breakers
from adjudge.service.campaigns.policy import BreakerLimits as Limits
from adjudge.service.store import events as e
from adjudge.service.store.archive import MemoryArchive
from live_stories import begin

WINDOW = 200
POLICY = {"minimum_votes": 3, "confidence": 0.7, "breakers": {"window": WINDOW}}


class Traffic:
    """Votes of honest workers on new tasks, one after the other, and of colluders who name one label always."""

    def __init__(self, policy, seed=1):
        self.random = Random(seed)
        self.log = [e.Created(time=0, labels=["bad", "fine"], names=["bad", "fine"], model="fds", policy=policy)]
        self.state = begin(self.log)
        self.decided = self.task = 0
        self.add(self.log[0])

    def add(self, event):
        self.state.apply(self.state.position + 1, event)
        self.decided += sum(change.status == "decided" for change in self.state.changes)
        self.state.changes.clear()

    def vote(self, workers, skill, share, votes=4):
        """One task more, with a vote of some of these workers."""
        self.task += 1
        truth = int(self.random.random() >= share)
        for worker in self.random.sample(workers, votes):
            label = truth if self.random.random() < skill else 1 - truth
            self.add(e.Vote(time=self.state.position, task=f"t{self.task}", worker=worker, label=label))

    def honest(self, tasks, share=0.3):
        for _ in range(tasks):
            self.vote(range(1, 60), 0.85, share)

    def flood(self, tasks):
        for _ in range(tasks):
            self.vote(range(100, 130), 1.0, 1.0)


@pytest.fixture(scope="module")
def attacked():
    traffic = Traffic(POLICY)
    traffic.honest(900)
    assert traffic.state.breakers.tripped is None
    before = traffic.decided
    traffic.flood(WINDOW + 50)
    return traffic, traffic.decided - before


def test_a_flood_trips_within_one_window(attacked):
    traffic, decided = attacked
    assert 0 < decided <= WINDOW
    assert traffic.state.breakers.tripped.startswith("the share of 'bad' in the last 200 decisions is 0.")


def test_what_has_tripped_holds_new_decisions_until_a_person_resets_it(attacked):
    traffic, _ = attacked
    state = snapshot.from_bytes(snapshot.to_bytes(traffic.state), MemoryArchive())
    held = [task for task in state.tasks if task.standing.reason == "breaker"]
    assert len(held) == state.tasks.counts()["held"] > 20
    assert "a breaker has tripped" in " ".join(
        state.rule.why(held[0].standing, state.evidence(held[0], state.answer(held[0].name)))
    )
    state.apply(state.position + 1, e.BreakerReset(time=state.time, by="mo"))
    assert state.breakers.tripped is None
    assert state.tasks.counts()["held"] == 0
    assert {state.tasks.by_name[task.name].standing.status for task in held} == {"decided"}


def test_another_policy_begins_anew(attacked):
    traffic, _ = attacked
    for policy in ({**POLICY, "breakers": None}, {**POLICY, "breakers": {"window": WINDOW, "label_share": 0.9}}):
        state = snapshot.from_bytes(snapshot.to_bytes(traffic.state), MemoryArchive())
        state.apply(state.position + 1, e.PolicySet(time=state.time, policy=policy))
        assert state.breakers == Breakers()
        assert state.tasks.counts()["held"] == 0


def test_honest_traffic_trips_nothing():
    """20 campaigns of 20,000 decisions whose labels come in bursts: what people flag is not independent."""
    for seed in range(20):
        random, breakers, limits = Random(seed), Breakers(), Limits()
        usual = random.uniform(0.05, 0.95)
        for _ in range(400):
            share = random.betavariate(1 + 8 * usual, 9 - 8 * usual)  # of a burst of 50
            for _ in range(50):
                label = int(random.random() >= share)
                breakers.note_decision(
                    limits, "ab", label, against=random.choice((0, 0, 0.2, 0.33)), is_flip=random.random() < 0.02
                )
        assert breakers.tripped is None


def decide(breakers, limits, number, *, label=0, against=0.0, flips=0):
    for at in range(number):
        breakers.note_decision(limits, "ab", label, against=against, is_flip=at < flips)


@pytest.mark.parametrize(
    ("jump", "why"),
    [
        ({"label": 1}, "the share of 'a' in"),
        ({"against": 0.4}, "the mean share of votes against the decided label in"),
        ({"flips": 90}, "the share of changed decisions in"),
    ],
)
def test_each_jump_is_named_and_can_be_left_out(jump, why):
    name = {"label": "label_share", "against": "disagreement", "flips": "flip_rate"}[next(iter(jump))]
    for limits, trips in ((Limits(window=100), True), (Limits(window=100, **{name: None}), False)):
        breakers = Breakers()
        decide(breakers, limits, 300)
        decide(breakers, limits, 100, **jump)
        assert (breakers.tripped is not None) == trips
        assert not trips or breakers.tripped.startswith(why)


def test_less_disagreement_and_fewer_flips_are_no_alarm():
    breakers, limits = Breakers(), Limits(window=100)
    decide(breakers, limits, 300, against=0.5, flips=300)
    decide(breakers, limits, 300)
    assert breakers.tripped is None


def test_a_short_past_says_nothing():
    breakers, limits = Breakers(), Limits(window=100)
    decide(breakers, limits, 99)
    decide(breakers, limits, 99, label=1)
    assert breakers.tripped is None
    decide(breakers, limits, 101, label=1)
    decide(breakers, limits, 100)
    assert breakers.tripped is not None


def test_small_windows_do_not_trip_by_chance():
    random, breakers, limits = Random(5), Breakers(), Limits(window=10)
    for _ in range(20_000):
        decide(breakers, limits, 1, label=random.randrange(2))
    assert breakers.tripped is None


def test_memory_is_bounded():
    breakers, limits = Breakers(), Limits(window=1_000_000)
    decide(breakers, limits, 70_000)
    assert len(breakers.blocks) <= BLOCKS_PER_WINDOW + 1
    assert breakers.past.decisions + sum(block.decisions for block in breakers.blocks) + breakers.latest.decisions == 70_000


def test_a_refit_that_would_change_many_decisions_trips():
    breakers, limits = Breakers(), Limits(window=100)
    breakers.check_refit(limits, 9, 99)  # too few are decided to say
    breakers.check_refit(limits, 10, 100)
    assert breakers.tripped is None
    breakers.check_refit(limits, 11, 100)
    assert breakers.tripped == "a refit would change 11 of 100 decided labels: more than a share of 0.100"


def test_what_a_person_decides_is_not_watched():
    traffic = Traffic(POLICY)
    for at in range(30):
        traffic.add(e.GoldSet(time=1, task=f"g{at}", label=0))
        traffic.add(e.TasksAdded(time=1, tasks=[f"o{at}"]))
        traffic.add(e.Override(time=1, task=f"o{at}", label=0))
    assert traffic.state.breakers == Breakers()
    traffic.honest(1)
    assert traffic.state.breakers.latest.decisions == 1
    for worker in range(1, 5):
        traffic.add(e.Ban(time=traffic.state.time, workers=[worker]))
    assert traffic.state.breakers.latest.decisions == 1


def test_a_lock_is_no_second_decision():
    traffic = Traffic({**POLICY, "lock": 0.001})
    for _ in range(3):
        traffic.vote(range(1, 60), 1.0, 0.3)
    traffic.add(e.Tick(time=traffic.state.time + 10_000))
    assert traffic.state.tasks.counts()["locked"] == traffic.state.breakers.latest.decisions > 0
