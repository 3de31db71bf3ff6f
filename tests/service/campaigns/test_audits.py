"""Live audits in the fold: what is drawn, what answers and deadlines do, and that a replay has the same bits."""

from collections import Counter
from random import Random

import pytest

from adjudge.errors import OptionError
from adjudge.results.promise.audits import AuditRule
from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.policy import AuditPlan, Policy
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.store import events as e
from adjudge.service.store.archive import MemoryArchive
from live_stories import begin, fold

DAY = 86_400 * 10**6
AUDIT = {"share": 1.0, "error": 0.05, "risk": 0.1, "run": 5000, "deadline_days": 7}
RULE = {"minimum_votes": 1, "confidence": 0.5, "maximum_votes": None}


class Stream:
    """A campaign whose decisions are made by one vote each, so that a test chooses which of them are wrong."""

    def __init__(self, audit=AUDIT, **policy):
        self.log = []
        self.time = 0
        self.add(
            e.Created(
                time=0, labels=["bad", "fine"], names=["bad", "fine"], model="fds", policy={**RULE, "audit": audit, **policy}
            )
        )

    def add(self, event):
        self.log.append(event)
        if len(self.log) == 1:
            self.state = begin(self.log)
        self.state.apply(len(self.log), event)
        changes, self.state.changes = self.state.changes, []
        return changes

    def vote(self, task, label=0, worker=1):
        self.time += 1
        return self.add(e.Vote(time=self.time, task=task, worker=worker, label=label))

    def answer(self, task, label, by="mo"):
        self.time += 1
        return self.add(e.AuditAnswer(time=self.time, task=task, label=label, by=by))

    def tick(self, days):
        self.time += int(days * DAY)
        return self.add(e.Tick(time=self.time))

    @property
    def audits(self):
        return self.state.audits


def counts(audits):
    return audits.drawn, audits.state.audited, audits.state.wrong, audits.expired, sum(map(len, audits.waiting.values()))


def test_every_automatic_decision_is_drawn_and_no_other():
    stream = Stream()
    stream.vote("t1")
    stream.add(e.Override(time=9, task="t2", label=0))
    stream.add(e.GoldSet(time=9, task="t3", label=1))
    stream.vote("t2")
    stream.vote("t3")
    assert list(stream.audits.waiting) == ["t1"]
    assert (stream.audits.decisions, stream.audits.drawn) == (1, 1)


def test_the_share_is_drawn_by_the_log_alone():
    stream, other = Stream({**AUDIT, "share": 0.1}), Stream({**AUDIT, "share": 0.1})
    for n in range(4000):
        stream.vote(f"t{n}", worker=n % 40)
        other.vote(f"t{n}", worker=n % 40)
    drawn = list(stream.audits.waiting)
    assert 330 < len(drawn) < 470  # 400, and 3.7 standard errors
    assert drawn == list(other.audits.waiting)
    assert stream.audits.decisions == 4000


def test_another_campaign_draws_others():
    draws = [Stream({**AUDIT, "share": 0.3}).audits for _ in range(3)]
    created = [
        e.Created(time=time, labels=["a", "b"], names=["a", "b"], model="fds", settings=s)
        for time, s in ((0, {}), (1, {}), (0, {"seed": 5}))
    ]
    for audits, made in zip(draws, created, strict=True):
        for n in range(200):
            audits.draw(made, f"t{n}", label=0, position=n + 2, time=n)
    assert len({tuple(audits.waiting) for audits in draws}) == 3


def test_a_right_answer_is_a_decision_of_its_own():
    stream = Stream()
    stream.vote("t1", 1)
    [decision] = stream.answer("t1", 1)
    assert (decision.status, decision.label, decision.reason, decision.by, decision.flips) == (
        "decided",
        "fine",
        "audit",
        "mo",
        0,
    )
    assert counts(stream.audits) == (1, 1, 0, 0, 0)
    for worker in range(2, 9):
        assert stream.vote("t1", 0, worker) == []  # votes no longer change it


def test_a_wrong_decision_is_corrected():
    stream = Stream()
    stream.vote("t1", 1)
    [decision] = stream.answer("t1", 0)
    assert (decision.status, decision.label, decision.reason, decision.flips) == ("decided", "bad", "audit", 1)
    assert counts(stream.audits) == (1, 1, 1, 0, 0)
    assert stream.audits.decisions == 1  # nobody audits a person
    assert stream.state.rule.why(
        stream.state.tasks.by_name["t1"].standing,
        stream.state.evidence(stream.state.tasks.by_name["t1"], stream.state.answer("t1")),
    ) == ["a person judged it in an audit (mo), without seeing the votes", "decided: bad"]


@pytest.mark.parametrize("known", ["gold", "override"])
def test_what_a_person_decided_meanwhile_stays_and_the_audit_counts(known):
    stream = Stream()
    stream.vote("t1", 1)
    event = e.GoldSet(time=2, task="t1", label=0) if known == "gold" else e.Override(time=2, task="t1", label=0, by="eve")
    stream.add(event)
    assert stream.answer("t1", 1) == []
    standing = stream.state.tasks.by_name["t1"].standing
    assert (standing.reason, standing.label) == (known, 0)
    assert counts(stream.audits) == (1, 1, 0, 0, 0)  # the decision that was drawn was right


def test_the_audit_judges_the_decision_that_was_drawn():
    stream = Stream()
    stream.vote("t1", 1)
    for worker in range(2, 6):
        stream.vote("t1", 0, worker)  # now it is another one, which was drawn as well
    assert [audit.label for audit in stream.audits.waiting["t1"]] == [1, 0]
    copy = snapshot.from_bytes(snapshot.to_bytes(stream.state), MemoryArchive())
    stream.answer("t1", 0)
    assert counts(stream.audits) == (2, 2, 1, 0, 0)
    first, second = copy.audits.waiting["t1"]
    copy.run_clock(first.due)
    assert counts(copy.audits) == (2, 1, 1, 1, 1)
    assert copy.audits.waiting == {"t1": [second]}


def test_without_an_answer_it_counts_as_wrong_at_the_deadline():
    stream = Stream()
    stream.vote("t1")
    stream.tick(6.9)
    assert counts(stream.audits) == (1, 0, 0, 0, 1)
    assert stream.state.next_due() == stream.audits.waiting["t1"][0].due
    stream.tick(0.2)
    assert counts(stream.audits) == (1, 1, 1, 1, 0)
    assert stream.audits.waiting == {}
    assert stream.state.next_due() == 0
    stream.answer("t1", 0)  # too late: it decides, and counts no more
    assert counts(stream.audits) == (1, 1, 1, 1, 0)


def test_a_task_may_have_very_many_audits(monkeypatch):
    stream, rebuilt, rebuild = Stream(), [], CampaignState._note_dues
    monkeypatch.setattr(CampaignState, "_note_dues", lambda state: (rebuilt.append(1), rebuild(state)))
    stream.vote("t1")
    for n in range(1, 4000):
        stream.time += 1
        stream.add(e.Change(time=stream.time, task="t1", worker=1, label=n % 2))
    assert stream.audits.count_waiting() == 4000
    assert len(rebuilt) < 8  # each takes time for every audit that waits
    stream.tick(8)
    assert (stream.audits.expired, stream.audits.waiting) == (4000, {})
    assert stream.state.next_due() == 0


def test_audits_of_one_task_expire_each_at_its_own_deadline():
    stream = Stream({**AUDIT, "deadline_days": 9})
    stream.vote("t1", 0)
    for days, label in ((3, 1), (9, 0), (5, 1)):
        stream.add(e.PolicySet(time=stream.time, policy={**RULE, "audit": {**AUDIT, "deadline_days": days}}))
        stream.add(e.Change(time=stream.time, task="t1", worker=1, label=label))
    assert [round(audit.due / DAY) for audit in stream.audits.waiting["t1"]] == [9, 3, 9, 5]
    for days, expired in ((2, 0), (2, 1), (2, 2), (4, 4)):
        stream.tick(days)
        assert stream.audits.expired == expired
    assert stream.audits.waiting == {}
    assert stream.state.next_due() == 0


def test_a_task_that_has_left_memory_is_audited_as_well():
    stream = Stream()
    stream.vote("t1", 1)
    stream.add(e.Sweep(time=stream.time, decided=1))
    assert "t1" not in stream.state.tasks.by_name
    state = snapshot.from_bytes(snapshot.to_bytes(stream.state), stream.state.archive)
    assert state.next_due() == stream.state.next_due() > 0
    [decision] = stream.answer("t1", 0)
    assert decision.label == "bad"


def test_the_alarm_trips_the_breaker_and_a_reset_restarts_it():
    stream = Stream()
    for n in range(40):
        stream.vote(f"t{n}")
    for n in range(20):
        stream.answer(f"t{n}", 1)
        if stream.state.breakers.tripped:
            break
    assert 3 < n < 19
    told = f"audits: {n + 1} of the last {n + 1} audited decisions were wrong, and {n + 1} of all {n + 1}"
    assert stream.state.breakers.tripped == f"{told}: more than the 0.05 that the policy accepts"
    [held] = stream.vote("after")
    assert (held.status, held.reason) == ("held", "breaker")
    stream.add(e.BreakerReset(time=stream.time))
    assert stream.state.breakers.tripped is None
    assert stream.state.tasks.by_name["after"].standing.status == "decided"
    for before in range(n + 1, 40):  # decisions from before the reset: counted, and no second alarm
        stream.answer(f"t{before}", 1)
    assert stream.audits.state[:2] == (40, 40)
    assert stream.state.breakers.tripped is None
    for later in range(20):
        stream.vote(f"u{later}")
        stream.answer(f"u{later}", 1)
    assert "audits: " in stream.state.breakers.tripped


def test_the_alarm_trips_beside_breakers_and_an_expert_does_not_untrip_it():
    stream = Stream(breakers={"window": 50}, experts={"decide": True})
    stream.state.breakers.hold("audits: so many")
    stream.add(e.WorkerSet(time=stream.time, worker=9, expert=True))
    [decision] = stream.vote("t1", worker=9)
    assert (decision.status, decision.reason) == ("decided", "expert")
    assert stream.state.breakers.tripped == "audits: so many"


def test_a_policy_without_audits_lifts_the_alarm_and_no_other_breaker():
    for cause, lifted in (("audits: so many", True), ("the share of 'x' has moved", False)):
        stream = Stream()
        stream.state.breakers.hold(cause)
        [held] = stream.vote("t1")
        assert held.reason == "breaker"
        stream.add(e.PolicySet(time=stream.time, policy=RULE))
        assert stream.state.breakers.tripped == (None if lifted else cause)
        assert stream.state.tasks.by_name["t1"].standing.status == ("decided" if lifted else "held")


def test_policies_keep_restart_or_drop_audits():
    stream = Stream()
    for n in range(6):
        stream.vote(f"t{n}")
    stream.answer("t0", 1)
    stream.answer("t1", 0)
    kept = counts(stream.audits)
    level = stream.audits.plan.rule.alarm_level(stream.audits.state)
    assert level > 0
    for audit in ({**AUDIT, "share": 0.5, "deadline_days": 1}, {**AUDIT, "risk": 0.2}):
        stream.add(e.PolicySet(time=stream.time, policy={**RULE, "audit": audit}))
        assert counts(stream.audits) == kept
        assert stream.audits.plan.rule.alarm_level(stream.audits.state) == level
    stream.add(e.PolicySet(time=stream.time, policy={**RULE, "audit": {**AUDIT, "error": 0.1}}))
    assert counts(stream.audits) == kept
    assert stream.audits.plan.rule.alarm_level(stream.audits.state) == 0
    stream.tick(8)
    assert counts(stream.audits) == (6, 6, 5, 4, 0)  # as was promised when they were drawn
    stream.add(e.PolicySet(time=stream.time, policy=RULE))
    assert stream.audits is None
    stream.vote("t9")
    stream.answer("t9", 0)
    stream.add(e.PolicySet(time=stream.time, policy={**RULE, "audit": AUDIT}))
    assert counts(stream.audits) == (0, 0, 0, 0, 0)


def test_a_clock_that_was_ahead_shifts_deadlines():
    stream = Stream()
    stream.time = 100 * DAY
    stream.vote("t1")
    stream.time = 10 * DAY
    stream.add(e.ClockSet(time=stream.time))
    assert stream.audits.waiting["t1"][0].due == 17 * DAY == stream.state.next_due()
    stream.tick(7)
    assert stream.audits.expired == 1


def test_counts_and_bits_are_those_of_the_rule():
    random, stream = Random(4), Stream({**AUDIT, "share": 0.5})
    wrong = []
    for n in range(600):
        stream.vote(f"t{n}", worker=random.randrange(40))
        if f"t{n}" in stream.audits.waiting:
            wrong.append(random.random() < 0.03)
            stream.answer(f"t{n}", int(wrong[-1]))
    rule = AuditRule(0.05, 0.1, 5000)
    state = rule.fold(wrong)
    assert stream.audits.state == state
    assert [value.hex() for value in stream.audits.state.evidence] == [value.hex() for value in state.evidence]
    assert (stream.audits.upper_bound, stream.audits.lower_bound) == (rule.upper_bound(state), rule.lower_bound(state))


def random_stream(seed, events=400):
    """A campaign with answers, deadlines, holds, sweeps, resets, refits and changes of the policy in any order."""
    random, policy = Random(seed), {"hold": 2e-6}
    audit = {**AUDIT, "share": 0.7, "error": 0.1, "run": 50, "deadline_days": 1}
    stream = Stream(audit, **policy)
    while len(stream.log) < events:
        kind, task = random.random(), f"t{random.randrange(60)}"
        stream.time += random.randrange(3)
        if kind < 0.6:
            stream.vote(task, random.randrange(2), random.randrange(8))
        elif kind < 0.8:
            stream.answer(random.choice([*stream.audits.waiting, task]), random.randrange(2))
        elif kind < 0.93:
            stream.tick(random.choice((0, 0, 0, 0, 0.6)))
        else:
            event = random.choice(
                (
                    e.Sweep(time=stream.time, decided=2, others=1),
                    e.BreakerReset(time=stream.time),
                    e.Override(time=stream.time, task=task, label=1),
                    e.Reopen(time=stream.time, task=task),
                    e.PolicySet(time=stream.time, policy={**RULE, **policy, "audit": {**audit, "run": random.choice((10, 50))}}),
                    e.ClockSet(time=max(0, stream.time - random.randrange(DAY))),
                )
            )
            stream.time = event.time
            stream.add(event)
    return stream


@pytest.mark.parametrize("seed", range(6))
def test_state_equals_replay_wherever_it_was_saved(seed):
    log = random_stream(seed).log
    whole = fold(log)
    assert whole.audits.state.audited > 20
    archive = MemoryArchive()
    state = begin(log, archive)
    for position, event in enumerate(log, 1):
        state.apply(position, event)
        if position % 23 == 0:
            state = snapshot.from_bytes(snapshot.to_bytes(state), archive)
    assert snapshot.unequal(snapshot.to_bytes(whole), snapshot.to_bytes(state)) == []
    assert snapshot.digest(whole) == snapshot.digest(state)


def test_random_streams_reach_every_end_of_an_audit():
    ends, tripped = Counter(), 0
    for seed in range(6):
        stream = random_stream(seed)
        audits = stream.audits
        tripped += stream.state.breakers.tripped is not None
        ends += Counter(
            right=audits.state.audited - audits.state.wrong, wrong=audits.state.wrong - audits.expired, expired=audits.expired
        )
    assert min(ends["right"], ends["wrong"], ends["expired"]) > 20
    assert tripped > 0


def test_a_snapshot_from_before_audits_is_read():
    import msgspec

    stream = Stream(None)
    stream.vote("t1")
    saved = msgspec.msgpack.decode(snapshot.to_bytes(stream.state))
    del saved["audits"]
    assert snapshot.from_bytes(msgspec.msgpack.encode(saved), MemoryArchive()).audits is None


@pytest.mark.parametrize(
    ("audit", "told"),
    [
        ({"share": 0}, "audit.share is 0: give a number of at least 1e-06 and at most 1"),
        ({"error": 0.7}, "audit.error is 0.7: give a number of at least 0.0001 and at most 0.5"),
        ({"risk": "low"}, "audit.risk is 'low': give a number of at least 0.0001 and at most 0.5"),
        ({"run": 3}, "audit.run is 3: give a number of at least 10 and at most 1e+09"),
        ({"deadline_days": -1}, "audit.deadline_days is -1: give a number of at least 0.001 and at most 3650"),
        ({"part": 1}, "unknown field of audit 'part': did you mean"),
        (0.01, "audit is 0.01: give an object with any of share, error, risk, run, deadline_days"),
    ],
)
def test_a_plan_that_is_wrong_is_refused(audit, told):
    with pytest.raises(OptionError) as caught:
        Policy(audit=audit)
    assert str(caught.value).startswith(told.removesuffix(": did you mean"))
    assert "\n" not in str(caught.value)


def test_an_empty_plan_has_the_usual_figures():
    assert Policy(audit={}).audit == AuditPlan(**{**AUDIT, "share": 0.01})


def run_stream(rates, seed):
    """Answers of a stream of decisions whose chance to be wrong is given: bounds, and the answer at which the breaker trips."""
    random, stream, bounds, truth = Random(seed), Stream({**AUDIT, "share": 0.2}), [], 0.0
    for n, rate in enumerate(rates):
        stream.vote(f"t{n}", worker=n % 50)
        if f"t{n}" in stream.audits.waiting:
            stream.answer(f"t{n}", int(random.random() < rate))
            truth += rate
            audited = stream.audits.state.audited
            bounds.append(stream.audits.upper_bound - truth / audited)
            if stream.state.breakers.tripped:
                return bounds, audited
    return bounds, None


def test_the_bound_of_a_campaign_holds_and_the_alarm_is_quick():
    late = [run_stream([0.03] * 500 + [0.25] * 3000, seed) for seed in range(6)]
    assert all(tripped is not None for _, tripped in late)
    assert sorted(tripped for _, tripped in late)[3] < 250
    calm = [run_stream([0.02] * 1500, seed) for seed in range(10)]
    assert sum(min(bounds) < 0 for bounds, _ in calm) <= 3
    assert sum(tripped is not None for _, tripped in calm) == 0


@pytest.mark.slow
def test_four_hundred_campaigns():
    """The bar: a bound below the truth in at most 10% of 400 streams, and a median delay of at most 250 audits at .10."""
    rates = [0.03] * 1000 + [0.06] * 1000
    streams = [run_stream(rates, seed) for seed in range(400)]
    assert sum(min(bounds) < 0 for bounds, _ in streams) <= 40
    delays = []
    for seed in range(60):
        _, tripped = run_stream([0.03] * 500 + [0.10] * 6000, 1000 + seed)
        delays.append(tripped or 2000)
    assert sorted(delays)[30] - 100 <= 250
