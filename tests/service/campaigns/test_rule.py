"""Rules: who decides, when, and that every decision is a pure function of where a task stood and the evidence."""

import math
import re
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from adjudge import OptionError, Policy
from adjudge.service.campaigns.decision import CODES, EXPERTS_DIFFER, NEW, NO_EXPERT, REASONS, STATUSES, Evidence, Standing
from adjudge.service.campaigns.rule import SECOND, Rule

LABELS = ("a", "b", "c")
K = len(LABELS)
PAGE = Path(__file__).parents[3] / "docs" / "policy.md"


def seen(votes, shares, **more):
    """Evidence with these probabilities, in percent."""
    chances = [share / 100 for share in shares]
    label = chances.index(max(chances))
    return Evidence(**({"votes": votes, "label": label, "confidence": chances[label], "probabilities": chances} | more))


def told(standing):
    return standing.status, standing.label, standing.reason


# ---- what can happen at all

WITHIN_A_MINUTE = st.integers(0, 60)
weights = st.lists(st.integers(0, 20), min_size=K, max_size=K).filter(any)
SECTIONS = {
    "escalate": st.builds(dict, votes_run_out=st.booleans(), disagreement=st.sampled_from([None, 0.3, 0.5]), tie=st.booleans()),
    "quorum": st.sampled_from([None, {"groups": 1}, {"groups": 2}, {"groups": 2, "votes": 2}]),
    "experts": st.builds(dict, decide=st.booleans()),
}
CERTAIN = {"confidence": st.sampled_from([0.4, 0.6, 0.8, 0.9, {"a": 0.9, "*": 0.5}, {"a": 0.5, "b": 0.7, "c": 1.0}])}
BY_COST = {
    "costs": st.sampled_from([{"*": {"*": 1}}, {"a": {"*": 5}, "*": {"*": 1}}, {"*": {"a": 3, "*": 0}}]),
    "maximum_cost": st.sampled_from([0.0, 0.1, 0.3, 0.5]),
}
CLOCK = {
    "hysteresis": st.sampled_from([0, 0, 0.05, 0.2]),
    "hold": st.sampled_from([0, 0, 10]),
    "lock": st.sampled_from([None, None, 0, 20]),
}
COUNTS = {"minimum_votes": st.integers(1, 4), "maximum_votes": st.sampled_from([None, 4, 9])}


def policies(*, clock=True):
    """Policies of every kind: half of them without the sections, which most of the short cuts are for."""
    parts = COUNTS | (CLOCK if clock else {})
    kinds = [parts | sections | sure for sections in ({}, SECTIONS) for sure in (CERTAIN, BY_COST)]
    return st.one_of([st.fixed_dictionaries(kind) for kind in kinds]).map(Policy.of)


@st.composite
def evidence(draw, *, authority=True, breaker=True, time=WITHIN_A_MINUTE):
    given = draw(weights)
    chances = [weight / sum(given) for weight in given]
    best = [label for label in range(K) if chances[label] == max(chances)]
    label = draw(st.sampled_from(best))
    groups = draw(st.lists(st.integers(0, 3), min_size=K, max_size=K))
    expert = draw(st.sampled_from([NO_EXPERT, NO_EXPERT, EXPERTS_DIFFER, 0, 1, 2])) if authority else NO_EXPERT
    return Evidence(
        votes=draw(st.integers(0, 10)),
        label=label,
        confidence=chances[label],
        probabilities=chances,
        tie=len(best) > 1,
        time=draw(time) * SECOND,
        gold=authority and draw(st.booleans()) and draw(st.booleans()),
        breaker=breaker and draw(st.booleans()),
        counts=[float(count) for count in draw(weights)],
        groups=groups,
        expert=expert,
        experts={NO_EXPERT: 0, EXPERTS_DIFFER: 2}.get(expert, 1),
    )


def stories(**options):
    """Evidence in the order of time."""
    return st.lists(evidence(**options), min_size=1, max_size=6).map(lambda told: sorted(told, key=lambda each: each.time))


def told_by(rule, story, standing=NEW):
    for each in story:
        standing = rule.decide(standing, each)
    return standing


@given(policies(), stories())
def test_every_standing_is_of_the_table_and_settled(policy, story):
    rule, standing = Rule(policy, LABELS), NEW
    for each in story:
        standing = rule.decide(standing, each)
        assert (standing.status, standing.reason) in REASONS
        assert standing.status in STATUSES
        assert (standing.label >= 0) == (standing.status in ("held", "decided", "locked"))
        assert standing.due == 0 or standing.due > each.time
        assert (standing.due > 0) <= (standing.status in ("held", "decided"))
        assert rule.due(standing) == standing.due
        assert rule.decide(standing, each) is standing  # nothing new: the same object
        assert rule.tick(standing, each.time) is standing
        assert rule.why(standing, each)[-1].startswith(standing.status)


@given(policies(), stories(authority=False))
def test_never_decided_below_the_minimum(policy, story):
    rule, standing = Rule(policy, LABELS), NEW
    for each in story:
        standing = rule.decide(standing, each)
        if each.votes < policy.minimum_votes:
            assert standing.status == "open" or (standing.status == "locked" and standing.since <= each.time)
            assert rule.decide(NEW, each).status == "open"


@given(policies(clock=False), stories(authority=False, breaker=False), evidence(authority=False, breaker=False, time=st.just(60)))
def test_without_hysteresis_and_clock_only_the_evidence_counts(policy, story, last):
    rule = Rule(policy, LABELS)
    assert told(told_by(rule, [*story, last])) == told(rule.decide(NEW, last))


@given(policies(), st.integers(0, K - 1), stories(authority=False))
def test_a_lock_is_final(policy, label, story):
    rule = Rule(policy, LABELS)
    locked = Rule(Policy(lock=0), LABELS).decide(NEW, Evidence(3, label, 1.0))
    assert locked.status == "locked"
    for each in story:
        assert rule.decide(locked, each) is locked


@given(policies(), stories(), st.integers(0, 100), st.integers(0, 100))
def test_a_late_clock_gives_what_one_in_time_gives(policy, story, first, second):
    rule = Rule(policy, LABELS)
    standing = told_by(rule, story)
    early = story[-1].time + first * SECOND
    assert rule.tick(rule.tick(standing, early), early + second * SECOND) == rule.tick(standing, early + second * SECOND)


@given(policies(), stories(), st.permutations(range(K)))
def test_decisions_do_not_depend_on_the_codes_of_labels(policy, story, order):
    """Label i becomes label order[i]."""
    rule = Rule(policy, LABELS)
    back = [order.index(i) for i in range(K)]
    other = Rule(policy, [LABELS[i] for i in back])
    standing = changed = NEW
    for each in story:
        standing = rule.decide(standing, each)
        moved = Evidence(
            votes=each.votes,
            label=order[each.label],
            confidence=each.confidence,
            probabilities=[each.probabilities[i] for i in back],
            tie=each.tie,
            time=each.time,
            gold=each.gold,
            breaker=each.breaker,
            counts=[each.counts[i] for i in back],
            groups=[each.groups[i] for i in back],
            expert=each.expert if each.expert < 0 else order[each.expert],
            experts=each.experts,
        )
        changed = other.decide(changed, moved)
        assert (changed.status, changed.reason, changed.since, changed.due) == (
            standing.status,
            standing.reason,
            standing.since,
            standing.due,
        )
        assert changed.label == (-1 if standing.label < 0 else order[standing.label])


@given(st.integers(1, 100), stories(authority=False, breaker=False), st.sampled_from([0, 0.05]))
def test_costs_of_one_are_a_confidence(percent, story, hysteresis):
    assume(hysteresis < percent / 100)
    sure = Rule(Policy(confidence=percent / 100, hysteresis=hysteresis), LABELS)
    cheap = Rule(Policy(costs={"*": {"*": 1}}, maximum_cost=1 - percent / 100, hysteresis=hysteresis), LABELS)
    one = other = NEW
    for each in story:
        one, other = sure.decide(one, each), cheap.decide(other, each)
        assert (one.status, one.label) == (other.status, other.label)
        assert one.reason.replace("confidence", "costs") == other.reason


@given(policies(), stories(authority=False))
def test_one_group_is_no_quorum(policy, story):
    if policy.quorum is None or policy.quorum.groups == 1:
        policy = Policy.of({**policy.document(), "quorum": {"groups": 2}})
    for each in story:
        each.groups = [min(1, groups) for groups in each.groups]
        assert told_by(Rule(policy, LABELS), [each]).status in ("open", "escalated")
    assert told_by(Rule(policy, LABELS), story).status in ("open", "escalated")


@given(st.lists(st.integers(80, 100), min_size=1, max_size=30), st.sampled_from([0.85, 0.9]))
def test_hysteresis_never_flips_within_its_band(path, threshold):
    """From 0.90 down to 0.80 the label stays, and no other passes."""
    rule = Rule(Policy(confidence=threshold, hysteresis=threshold - 0.8, maximum_votes=None), LABELS)
    first = standing = rule.decide(NEW, seen(3, (95, 5, 0)))
    for step, share in enumerate(path):
        standing = rule.decide(standing, seen(4 + step, (share, 100 - share, 0), time=step))
        assert standing is first
    assert rule.decide(standing, seen(40, (79, 21, 0))).status == "open"
    assert told(rule.decide(standing, seen(40, (5, 95, 0))))[:2] == ("decided", 1)


@given(st.integers(1, 10**6), st.integers(0, 10**12), st.integers(0, 10**9))
def test_a_hold_delays_by_exactly_the_hold(milliseconds, begin, late):
    rule = Rule(Policy(hold=milliseconds / 1000), LABELS)
    held = rule.decide(NEW, seen(3, (95, 5, 0), time=begin))
    end = begin + milliseconds * 1000
    assert (held.status, held.reason, held.since, held.due) == ("held", "hold", begin, end)
    assert rule.tick(held, end - 1) is held
    assert rule.decide(held, seen(4, (96, 4, 0), time=end - 1)) is held
    for after in (rule.tick(held, end + late), rule.decide(held, seen(4, (96, 4, 0), time=end + late))):
        assert (told(after), after.since) == (("decided", 0, "confidence"), end)


@settings(max_examples=80)
@given(policies(), st.lists(st.tuples(stories(), evidence(time=st.just(60))), min_size=1, max_size=8), st.data())
def test_might_change_misses_nothing(policy, tasks, data):
    """A refit changes what is thought of the votes; tasks that are not named by might_change stand as they stood."""
    rule = Rule(policy, LABELS)
    stands, after = [], []
    for story, last in tasks:
        standing = rule.decide(told_by(rule, story), last)
        new = data.draw(evidence(time=st.just(60)))
        for field in ("votes", "gold", "breaker", "counts", "groups", "expert", "experts"):
            setattr(new, field, getattr(last, field))
        if new.gold:
            new.label, new.confidence = last.label, last.confidence
        stands.append(standing)
        after.append(new)
    flagged = rule.might_change(
        np.array([CODES[standing.status] for standing in stands], np.uint8),
        np.array([standing.label for standing in stands], np.int32),
        np.array([each.votes for each in after], np.int64),
        np.array([each.label for each in after], np.int32),
        np.array([each.confidence for each in after]),
        np.array([each.probabilities for each in after]) if rule.needs_probabilities else None,
    )
    assert flagged.dtype == bool
    for flag, standing, each in zip(flagged, stands, after, strict=True):
        assert flag or rule.decide(standing, each) is standing


def test_might_change_names_few_under_the_default_policy():
    rule = Rule(Policy(), LABELS)
    status = np.array(
        [CODES[status] for status in ("open", "open", "open", "decided", "decided", "decided", "escalated", "locked")], np.uint8
    )
    label = np.array([-1, -1, -1, 0, 0, 0, -1, 0], np.int32)
    votes = np.array([2, 3, 3, 3, 3, 3, 9, 3])
    winner = np.array([0, 0, 0, 0, 1, 0, 0, 1], np.int32)
    confidence = np.array([0.99, 0.8, 0.9, 0.9, 0.99, 0.8, 0.8, 0.99])
    expected = [False, False, True, False, True, True, False, False]
    assert rule.might_change(status, label, votes, winner, confidence).tolist() == expected
    with pytest.raises(OptionError, match="probabilities is None: give them"):
        Rule(Policy(costs={"*": {"*": 1}}, maximum_cost=0.1), LABELS).might_change(status, label, votes, winner, confidence)


def test_might_change_sees_ties_of_cost():
    """Two labels cost the same: the leading one is decided, and a refit can make it another."""
    rule = Rule(Policy(costs={"*": {"*": 0}}, maximum_cost=0), LABELS)
    decided = rule.decide(NEW, seen(3, (60, 40, 0)))
    after = seen(3, (40, 60, 0))
    assert (decided.label, rule.decide(decided, after).label) == (0, 1)
    flagged = rule.might_change(
        *(np.array([value]) for value in (CODES["decided"], 0, 3, 1, 0.6)), probabilities=np.array([after.probabilities])
    )
    assert flagged.tolist() == [True]


# ---- who decides, first to last

EXPERT = {"experts": {"decide": True}}
ONE = {"expert": 2, "experts": 1}


def test_precedence_of_all_who_decide():
    """An override before gold, gold before an expert, an expert before the lock, the lock before a breaker, that before votes."""
    rule = Rule(Policy(lock=0, **EXPERT), LABELS)
    votes = rule.decide(NEW, seen(3, (95, 5, 0)))
    assert told(votes) == ("locked", 0, "confidence")
    assert rule.decide(votes, seen(9, (0, 100, 0), breaker=True)) is votes
    assert told(rule.decide(NEW, seen(3, (95, 5, 0), breaker=True))) == ("held", 0, "breaker")
    expert = rule.decide(votes, seen(4, (95, 5, 0), breaker=True, **ONE))
    assert told(expert) == ("locked", 2, "expert")
    gold = rule.decide(expert, seen(4, (0, 100, 0), gold=True, breaker=True, **ONE))
    assert told(gold) == ("decided", 1, "gold")
    override = rule.override(gold, 0, 5, by="ann")
    assert (told(override), override.by) == (("decided", 0, "override"), "ann")
    assert rule.decide(override, seen(4, (0, 100, 0), gold=True, breaker=True, **ONE)) is override
    assert rule.override(override, 2, 6).label == 2


def test_gold_taken_back_leaves_it_to_the_votes():
    rule = Rule(Policy(hysteresis=0.2, lock=10), LABELS)
    gold = rule.decide(NEW, seen(3, (0, 100, 0), gold=True, time=1))
    assert (told(gold), gold.due) == (("decided", 1, "gold"), 0)
    assert told(rule.decide(gold, seen(3, (20, 80, 0), time=2))) == ("open", -1, "confidence")  # no hysteresis for gold
    after = rule.decide(gold, seen(3, (0, 100, 0), time=2))
    assert (told(after), after.since, after.due) == (("decided", 1, "confidence"), 1, 1 + 10 * SECOND)


def test_experts():
    rule = Rule(Policy(hold=5, **EXPERT), LABELS)
    assert told(rule.decide(NEW, seen(1, (60, 20, 20), **ONE))) == ("decided", 2, "expert")
    differ = rule.decide(NEW, seen(2, (60, 20, 20), expert=EXPERTS_DIFFER, experts=2))
    assert told(differ) == ("escalated", -1, "experts")
    assert told(rule.override(differ, 1, 7)) == ("decided", 1, "override")
    assert told(rule.decide(differ, seen(2, (60, 20, 20), expert=1, experts=1))) == ("decided", 1, "expert")  # one took it back
    assert told(Rule(Policy(), LABELS).decide(NEW, seen(1, (60, 20, 20), **ONE))) == ("open", -1, "minimum_votes")


def test_an_expert_agrees_with_a_locked_label():
    rule = Rule(Policy(lock=0, **EXPERT), LABELS)
    locked = rule.decide(NEW, seen(3, (95, 5, 0), time=4))
    agreed = rule.decide(locked, seen(4, (95, 5, 0), expert=0, experts=1, time=9))
    assert (told(agreed), agreed.since) == (("locked", 0, "expert"), 4)
    assert told(rule.decide(agreed, seen(5, (95, 5, 0), expert=EXPERTS_DIFFER, experts=2))) == ("escalated", -1, "experts")


def test_reopening():
    rule = Rule(Policy(reopen={"votes": 2}, **EXPERT), LABELS)
    expert = rule.decide(NEW, seen(8, (5, 5, 90), **ONE))
    again = rule.reopen(expert, 8, 7, experts=1)
    assert (told(again), again.floor, again.since) == (("open", -1, "reopened"), 10, 7)
    assert rule.decide(again, seen(9, (5, 5, 90), **ONE)) is again  # beyond the maximum in between is fine
    assert told(rule.decide(again, seen(10, (5, 5, 90), **ONE))) == (
        "decided",
        2,
        "confidence",
    )  # the old vote is one of many now
    assert told(rule.decide(again, seen(10, (35, 35, 30)))) == ("escalated", -1, "maximum_votes")
    assert told(rule.decide(again, seen(9, (5, 5, 90), expert=2, experts=2))) == ("decided", 2, "expert")
    back = rule.decide(rule.decide(again, seen(10, (5, 5, 90))), seen(9, (5, 5, 90)))
    assert (back.status, back.reason, back.floor) == ("open", "reopened", 10)
    assert told(rule.decide(again, seen(8, (5, 5, 90), gold=True))) == ("decided", 2, "gold")


def test_a_decision_falls_and_comes_back():
    rule = Rule(Policy(), LABELS)
    decided = rule.decide(NEW, seen(3, (95, 5, 0), time=1))
    fallen = rule.decide(decided, seen(4, (80, 20, 0), time=2))
    assert (told(fallen), fallen.since) == (("open", -1, "confidence"), 2)
    escalated = rule.decide(decided, seen(9, (80, 20, 0), time=3))
    assert told(escalated) == ("escalated", -1, "maximum_votes")
    assert told(rule.decide(escalated, seen(10, (95, 5, 0)))) == ("decided", 0, "confidence")  # further votes suffice
    assert told(rule.decide(escalated, seen(8, (80, 20, 0)))) == ("open", -1, "confidence")  # one was taken back


def test_a_breaker_holds_new_decisions_alone():
    rule = Rule(Policy(hold=10), LABELS)
    sure, turned = (95, 5, 0), (5, 95, 0)
    held = rule.decide(NEW, seen(3, sure, time=0))
    stopped = rule.tick(held, 10 * SECOND, breaker=True)
    assert (told(stopped), stopped.due, stopped.since) == (("held", 0, "breaker"), 0, 0)
    assert rule.tick(stopped, 99 * SECOND) is stopped
    assert told(rule.decide(held, seen(3, sure, time=SECOND, breaker=True))) == ("held", 0, "breaker")
    free = rule.decide(stopped, seen(3, sure, time=30 * SECOND))
    assert (told(free), free.since) == (("decided", 0, "confidence"), 30 * SECOND)
    early = rule.decide(rule.decide(held, seen(3, sure, time=1, breaker=True)), seen(3, sure, time=2))
    assert (told(early), early.due) == (("held", 0, "hold"), 10 * SECOND)  # what is left of the hold
    assert rule.decide(free, seen(4, sure, breaker=True, time=31 * SECOND)) is free
    assert told(rule.decide(free, seen(5, turned, breaker=True, time=31 * SECOND))) == ("held", 1, "breaker")
    assert rule.decide(free, seen(5, (60, 40, 0), breaker=True, time=31 * SECOND)).status == "open"


def test_a_hold_begins_again_with_another_label():
    rule = Rule(Policy(hold=10), LABELS)
    held = rule.decide(NEW, seen(3, (95, 5, 0), time=0))
    other = rule.decide(held, seen(9, (5, 95, 0), time=9 * SECOND))
    assert (told(other), other.due) == (("held", 1, "hold"), 19 * SECOND)
    assert rule.decide(held, seen(4, (60, 40, 0), time=9 * SECOND)).status == "open"


def test_a_lock_begins_after_the_hold():
    rule = Rule(Policy(hold=10, lock=20), LABELS)
    held = rule.decide(NEW, seen(3, (95, 5, 0), time=0))
    decided = rule.tick(held, 10 * SECOND)
    assert (decided.status, decided.due) == ("decided", 30 * SECOND)
    locked = rule.tick(held, 99 * SECOND)
    assert (told(locked), locked.since) == (("locked", 0, "confidence"), 30 * SECOND)


def test_another_policy_brings_its_own_clock():
    held = Rule(Policy(hold=10), LABELS).decide(NEW, seen(3, (95, 5, 0), time=0))
    longer, none = Rule(Policy(hold=60), LABELS), Rule(Policy(), LABELS)
    assert longer.adopt(held, 5 * SECOND).due == 60 * SECOND
    freed = none.decide(none.adopt(held, 5 * SECOND), seen(3, (95, 5, 0), time=5 * SECOND))
    assert (told(freed), freed.since) == (("decided", 0, "confidence"), 5 * SECOND)
    assert none.adopt(freed, 6 * SECOND) is freed
    locks = Rule(Policy(lock=2), LABELS).adopt(freed, 60 * SECOND)
    assert locks.due == 60 * SECOND  # no decision is locked before the policy that says so
    assert none.adopt(locks, 60 * SECOND).due == 0
    gold = none.decide(NEW, seen(3, (95, 5, 0), gold=True))
    assert Rule(Policy(lock=2), LABELS).adopt(gold, 5) is gold
    locked = Rule(Policy(lock=0), LABELS).decide(NEW, seen(3, (95, 5, 0)))
    assert none.adopt(locked, 5) is locked


def test_least_cost_is_not_always_the_leading_label():
    rule = Rule(Policy(costs={"a": {"*": 10}, "*": {"*": 1}}, maximum_cost=0.9), LABELS)
    assert told(rule.decide(NEW, seen(3, (20, 80, 0)))) == ("decided", 0, "costs")  # missing an a costs ten times as much
    assert told(rule.decide(NEW, seen(3, (5, 95, 0)))) == ("decided", 1, "costs")
    assert rule.expected_cost(1, seen(3, (20, 80, 0))) == pytest.approx(2)
    plain, doubt = Rule(Policy(), LABELS), seen(3, (20, 80, 0))
    assert math.isnan(plain.expected_cost(0, doubt))
    assert plain.cheapest(doubt) == 1
    assert plain.has_quorum(1, doubt)


def test_hysteresis_of_costs():
    rule = Rule(Policy(costs={"*": {"*": 1}}, maximum_cost=0.1, hysteresis=0.1), LABELS)
    decided = rule.decide(NEW, seen(3, (90, 10, 0)))
    assert told(decided) == ("decided", 0, "costs")
    low = seen(4, (80, 20, 0))
    assert rule.decide(decided, low) is decided
    assert rule.why(decided, low)[1] == "expected cost 0.2 of at most 0.1 for deciding a (it stays up to 0.2)"
    assert told(rule.decide(decided, seen(5, (79, 21, 0)))) == ("open", -1, "costs")
    assert told(rule.decide(decided, seen(5, (9, 91, 0)))) == ("decided", 1, "costs")


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_ties_of_cost_go_by_id(order):
    """All but the leading label cost the same: the likeliest of them, or the first by its id, on any order of codes."""
    ids = [LABELS[i] for i in order]
    rule = Rule(Policy(costs={"*": {"a": 9, "*": 0}}, maximum_cost=1), ids)
    chances = [{"a": 0.5, "b": 0.25, "c": 0.25}[name] for name in ids]
    decided = rule.decide(NEW, Evidence(3, ids.index("a"), 0.5, chances))
    assert ids[decided.label] == "b"


def test_a_kept_label_needs_its_quorum():
    rule = Rule(Policy(hysteresis=0.2, quorum={"groups": 2}), LABELS)
    both, one = [2, 0, 0], [1, 1, 0]
    decided = rule.decide(NEW, seen(3, (95, 5, 0), groups=both))
    assert rule.decide(decided, seen(4, (80, 20, 0), groups=both)) is decided
    assert told(rule.decide(decided, seen(4, (80, 20, 0), groups=one))) == ("open", -1, "confidence")
    assert told(rule.decide(decided, seen(4, (95, 5, 0), groups=one))) == ("open", -1, "quorum")
    assert rule.decide(decided, seen(9, (8, 92, 0), groups=[2, 1, 0])).status == "escalated"


CASES = {
    ("open", "minimum_votes"): ({}, [seen(2, (95, 5, 0))]),
    ("open", "reopened"): ({}, ["reopen", seen(1, (95, 5, 0))]),
    ("open", "confidence"): ({}, [seen(3, (80, 20, 0))]),
    ("open", "costs"): ({"costs": {"*": {"*": 1}}, "maximum_cost": 0.1}, [seen(3, (80, 20, 0))]),
    ("open", "quorum"): ({"quorum": {}}, [seen(3, (95, 5, 0), groups=[1, 0, 0])]),
    ("held", "hold"): ({"hold": 5}, [seen(3, (95, 5, 0))]),
    ("held", "breaker"): ({}, [seen(3, (95, 5, 0), breaker=True)]),
    ("decided", "confidence"): ({}, [seen(3, (95, 5, 0))]),
    ("decided", "costs"): ({"costs": {"*": {"*": 1}}, "maximum_cost": 0.1}, [seen(3, (95, 5, 0))]),
    ("decided", "expert"): (EXPERT, [seen(1, (95, 5, 0), **ONE)]),
    ("decided", "gold"): ({}, [seen(1, (95, 5, 0), gold=True)]),
    ("decided", "override"): ({}, ["override", seen(3, (5, 95, 0))]),
    ("decided", "audit"): ({}, ["audit", seen(3, (5, 95, 0))]),
    ("escalated", "maximum_votes"): ({}, [seen(9, (80, 20, 0))]),
    ("escalated", "disagreement"): ({"escalate": {"disagreement": 0.4}}, [seen(9, (95, 5, 0), counts=[5, 4, 0])]),
    ("escalated", "tie"): ({"escalate": {"tie": True}}, [seen(4, (50, 50, 0), tie=True)]),
    ("escalated", "experts"): (EXPERT, [seen(2, (95, 5, 0), expert=EXPERTS_DIFFER, experts=2)]),
    ("locked", "confidence"): ({"lock": 0}, [seen(3, (95, 5, 0))]),
    ("locked", "costs"): ({"costs": {"*": {"*": 1}}, "maximum_cost": 0.1, "lock": 0}, [seen(3, (95, 5, 0))]),
    ("locked", "expert"): ({"lock": 0, **EXPERT}, [seen(3, (95, 5, 0), **ONE)]),
}


@pytest.mark.parametrize("wanted", REASONS, ids=" ".join)
def test_every_reason_can_be_given(wanted):
    document, story = CASES[wanted]
    rule, standing = Rule(Policy.of(document), LABELS), NEW
    for each in story:
        if each == "reopen":
            standing = rule.reopen(standing, 1, 0)
        elif each == "override":
            standing = rule.override(standing, 0, 0, by="ann")
        elif each == "audit":
            standing = rule.override(standing, 0, 0, by="ann", reason="audit")
        else:
            standing = rule.decide(standing, each)
    assert (standing.status, standing.reason) == wanted
    assert rule.why(standing, story[-1])


def test_every_reason_is_documented():
    """The table of docs/policy.md has the rows of the code, with its words."""
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert {(status, reason): text for status, reason, text in rows} == dict(REASONS)


def test_why_in_words():
    rule = Rule(Policy(), LABELS)
    assert rule.why(NEW, seen(2, (84, 16, 0))) == [
        "2 of at least 3 votes: 1 more needed at least",
        "0.84 of 0.90 confidence for a",
        "open",
    ]
    near = seen(3, (89.999, 10.001, 0))
    assert rule.why(rule.decide(NEW, near), near)[1] == "0.89 of 0.90 confidence for a"  # too little never looks enough
    assert rule.why(NEW, Evidence(0, -1, 0.0)) == ["0 of at least 3 votes: 3 more needed at least", "open"]
    again = rule.reopen(NEW, 8, 0)
    assert (
        rule.why(again, seen(9, (95, 5, 0)))[0] == "9 of at least 10 votes, as the decision was appealed: 1 more needed at least"
    )
    assert rule.why(rule.override(NEW, 1, 0, by="ann"), near) == ["a person decided (ann), whatever the votes say", "decided: b"]


def test_why_of_all_that_can_be_asked_for():
    policy = Policy(hysteresis=0.2, hold=60, quorum={}, escalate={"disagreement": 0.4}, confidence=0.995)
    rule, more = Rule(policy, LABELS), {"groups": [2, 1, 0], "counts": [3, 1, 0]}
    sure = seen(4, (99.6, 0.4, 0), **more)
    held = rule.decide(NEW, sure)
    assert rule.why(held, sure) == [
        "4 of at least 3 votes, at most 9",
        "0.996 of 0.995 confidence for a",
        "0.25 of the votes against a, where at most 0.40 may be",
        "2 of at least 2 groups with a vote for it",
        "held: a is decided if it stays so until 1970-01-01T00:01:00+00:00",
    ]
    less = seen(4, (90, 10, 0), **more)
    assert rule.why(rule.decide(held, less), less)[1] == "0.900 of 0.995 confidence for a (it stays down to 0.795)"
    costs = Rule(Policy(costs={"a": {"*": 10}, "*": {"*": 1}}, maximum_cost=0.9), LABELS)
    doubt = seen(3, (9, 91, 0))
    assert costs.why(costs.decide(NEW, doubt), doubt)[1] == "expected cost 0.9 of at most 0.9 for deciding b"


def test_what_a_rule_looks_at():
    plain = Rule(Policy(), LABELS)
    assert not plain.needs_votes
    assert not plain.needs_probabilities
    assert Rule(Policy(hysteresis=0.1), LABELS).needs_probabilities
    assert Rule(Policy(costs={"*": {"*": 1}}, maximum_cost=0.1), LABELS).needs_probabilities
    for field, document in {"counts": {"escalate": {"disagreement": 0.4}}, "groups": {"quorum": {}}, "experts": EXPERT}.items():
        rule = Rule(Policy.of(document), LABELS)
        assert rule.needs_votes
        assert getattr(rule, f"needs_{field}")


def test_a_standing_is_small_and_frozen():
    with pytest.raises(AttributeError):
        NEW.label = 1
    assert Standing() == NEW
    assert [STATUSES[CODES[status]] for status in STATUSES] == list(STATUSES)
