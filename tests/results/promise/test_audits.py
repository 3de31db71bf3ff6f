"""Audits: bound and alarm hold what they promise, equal an independent computation, and replay to the bit."""

import json
import math

import numpy as np
import pytest

from adjudge.errors import AdjudgeError
from adjudge.results.promise.audits import ALARM_STAKES, LOWER_STAKES, UPPER_STAKES, AuditRule, AuditState, read_state

RULE = AuditRule(error=0.05, risk=0.1, run=5000)
NOTHING = AuditState()


def wealth(wrong, audited, p, sign, stakes):
    """The evidence against p as the mean of products, in NumPy."""
    stakes = np.array(stakes)
    return np.exp(wrong * np.log1p(sign * stakes) - audited * np.log1p(sign * p * stakes)).mean()


@pytest.mark.parametrize(("wrong", "audited"), [(0, 1), (0, 100), (3, 100), (10, 100), (30, 100), (12, 12), (60, 4000)])
def test_the_bounds_solve_their_equation(wrong, audited):
    state = AuditState(wrong, audited)
    low, high = RULE.lower_bound(state), RULE.upper_bound(state)
    assert low <= wrong / audited <= high
    if high < 0.999:
        assert wealth(wrong, audited, high, -1, UPPER_STAKES) == pytest.approx(10, rel=1e-9)
    if low > 1e-6:
        assert wealth(wrong, audited, low, 1, LOWER_STAKES) == pytest.approx(10, rel=1e-9)


def test_known_bounds():
    assert RULE.upper_bound(AuditState(0, 100)) < 0.05 < RULE.upper_bound(AuditState(10, 100))
    assert RULE.lower_bound(AuditState(30, 100)) > 0.15
    assert (RULE.lower_bound(AuditState()), RULE.upper_bound(AuditState())) == (0.0, 1.0)


def test_the_alarm_follows_the_recursion_of_shiryaev_and_roberts():
    stakes, evidence, state = np.array(ALARM_STAKES) / 0.05, np.zeros(len(ALARM_STAKES)), AuditState()
    for wrong in np.random.default_rng(1).random(3000) < 0.04:
        state = RULE.add(state, bool(wrong))
        evidence = (evidence + 1) * (1 + stakes * (float(wrong) - 0.05))
        assert state.evidence == pytest.approx(tuple(evidence), rel=1e-12)
        assert RULE.alarm_level(state) == pytest.approx(evidence.mean() / 5000, rel=1e-12)


def upper_bounds(wrong, stakes, risk):
    """The upper bound after every audit of many streams, [streams, audits], by Newton's method on arrays."""
    total = np.cumsum(wrong, axis=1)
    audited = np.arange(1, wrong.shape[1] + 1)
    low, high = total / audited, np.ones(total.shape)
    for _ in range(30):
        middle = (low + high) / 2
        logs = [total * math.log1p(-s) - audited * np.log1p(-middle * s) for s in stakes]
        beyond = np.mean([np.exp(np.minimum(one, 700)) for one in logs], axis=0) >= 1 / risk
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return high


@pytest.mark.parametrize("drift", ["steady", "rising", "waves"])
def test_the_bound_holds_at_every_time_under_drift(drift):
    """400 streams of 600 audits: ever below the mean error rate in at most 10%; one end is checked against the class."""
    time = np.arange(600)
    rate = {"steady": 0.05 + 0 * time, "rising": np.where(time < 300, 0.02, 0.12), "waves": 0.06 + 0.05 * np.sin(time / 40)}[
        drift
    ]
    wrong = np.random.default_rng(7).random((400, 600)) < rate
    bounds = upper_bounds(wrong, UPPER_STAKES, 0.1)
    truth = np.cumsum(rate) / (time + 1)
    assert (bounds < truth - 1e-9).any(axis=1).mean() <= 0.1
    for stream in range(20):
        assert RULE.upper_bound(RULE.fold(map(bool, wrong[stream]))) == pytest.approx(bounds[stream, -1], abs=1e-7)


def first_alarm(rule, stream, state=NOTHING):
    for audit, wrong in enumerate(stream, 1):
        state = rule.add(state, bool(wrong))
        if rule.is_alarmed(state):
            return audit
    return None


def test_the_alarm_is_silent_in_calm_and_quick_after_a_drift():
    rng = np.random.default_rng(3)
    calm = [first_alarm(RULE, rng.random(1000) < 0.03) for _ in range(40)]
    assert calm.count(None) == 40
    delays = []
    for _ in range(100):
        state = RULE.fold(map(bool, rng.random(500) < 0.03))
        delays.append(first_alarm(RULE, rng.random(2000) < 0.10, state) or 2000)
    assert np.median(delays) <= 250


def test_an_alarm_ends_after_the_drift_and_when_it_is_restarted():
    state = RULE.fold([True] * 500)
    assert RULE.is_alarmed(state)
    assert all(map(math.isfinite, state.evidence))
    assert not RULE.is_alarmed(RULE.fold([False] * 300, state))
    restarted = RULE.restart_alarm(state)
    assert restarted[:2] == state[:2]
    assert RULE.alarm_level(restarted) == 0


def test_a_state_saved_at_any_time_goes_on_to_the_bit():
    audits = [bool(wrong) for wrong in np.random.default_rng(2).random(500) < 0.08]
    whole = RULE.fold(audits)
    for cut in (0, 1, 137, 499):
        saved = json.dumps(RULE.fold(audits[:cut]))
        resumed = RULE.fold(audits[cut:], read_state(json.loads(saved)))
        assert resumed == whole
        assert [value.hex() for value in resumed.evidence] == [value.hex() for value in whole.evidence]


@pytest.mark.parametrize(
    "saved", [None, [], [2, 1, [0.0] * 5], [0, 1, [0.0] * 4], [0, 1, [-1.0] * 5], [0, 1, ["0"] * 5], [0, 1, [float("inf")] * 5]]
)
def test_a_damaged_state_is_refused(saved):
    with pytest.raises(AdjudgeError, match="saved state of audits"):
        read_state(saved)


@pytest.mark.parametrize("setting", [{"error": 0}, {"error": 0.7}, {"risk": 1.0}, {"run": 1}, {"error": float("nan")}])
def test_a_rule_out_of_range_is_refused(setting):
    with pytest.raises(AdjudgeError, match=next(iter(setting))):
        AuditRule(**setting)


def test_an_audit_is_true_or_false():
    with pytest.raises(AdjudgeError, match="True for a wrong decision"):
        RULE.add(AuditState(), 1)


@pytest.mark.slow
def test_the_bound_and_the_alarm_over_long_streams():
    """400 streams of 4,000 audits: the bound is ever too low in at most 10%; a false alarm at .03 in at most 4 of 100."""
    rng = np.random.default_rng(11)
    time = np.arange(4000)
    for rate in (np.full(4000, 0.03), 0.06 + 0.05 * np.sin(time / 300), np.where(time < 2000, 0.02, 0.12)):
        wrong = rng.random((400, 4000)) < rate
        too_low = upper_bounds(wrong, UPPER_STAKES, 0.1) < np.cumsum(rate) / (time + 1) - 1e-9
        assert too_low.any(axis=1).mean() <= 0.1
    alarms = [first_alarm(RULE, rng.random(4000) < 0.03) for _ in range(100)]
    assert alarms.count(None) >= 96  # 0.7% of a thousand streams had one
