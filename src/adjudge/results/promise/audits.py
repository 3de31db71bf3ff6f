"""Audits of decisions as they are made: a bound on their error rate that holds at any time, and an alarm for drift.

An audit has a person judge one decision, drawn at random among all of them. Two statistics are kept:

- the *bound* on the mean error probability of the decisions audited so far. With S wrong of T audited, it is the p at which the
  mean over stakes η of (1 - η)^S (1 - pη)^-T reaches 1 / risk. By Ville's inequality it holds at every T with probability
  1 - risk, however the error rate drifts and however often one looks.
- the *alarm* of Shiryaev and Roberts: R ← (R + 1)(1 + s(x - error)) for five stakes s, where x is 1 for a wrong decision. It is
  raised when the mean of the five R reaches `run`, which takes at least `run` audits on average while the error rate is at most
  `error`.

The state is two counts and five floats. Folding the same audits gives the same bits on every machine: the alarm uses only
additions and multiplications, and `math.fsum`, whose result does not depend on the order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from adjudge.data.options import Number, Rules, check
from adjudge.errors import InputError, quote

UPPER_STAKES: Final = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)  # of bets that the error rate is below p
LOWER_STAKES: Final = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 16.0)  # of bets that it is above p
ALARM_STAKES: Final = (0.025, 0.05, 0.1, 0.2, 0.4)  # each is divided by `error`
BOUND_BISECTION_STEPS: Final = 50
MAX_EXPONENT: Final = 700.0  # exp of more overflows
EVIDENCE_CAP_RUNS: Final = 10  # runs at which evidence stops growing, so that the alarm ends some time after a drift ended
AUDIT_RULES: Final[Rules] = {
    "error": Number(least=0.0001, most=0.5),
    "risk": Number(least=0.0001, most=0.5),
    "run": Number(least=10, most=1e9),
}


class AuditState(NamedTuple):
    """What is known from the audits so far. As JSON it is [wrong, audited, [evidence, …]], and comes back to the bit."""

    wrong: int = 0  # audited decisions that were wrong
    audited: int = 0
    evidence: tuple[float, ...] = (0.0,) * len(ALARM_STAKES)  # R of each stake of the alarm


@dataclass(frozen=True)
class AuditRule:
    """How audits are judged; states are immutable, so that a fold of a log can keep any of them.

    >>> rule = AuditRule(error=0.05, risk=0.1, run=5000)
    >>> state = rule.fold([False] * 100)
    >>> round(rule.upper_bound(state), 3), rule.is_alarmed(state)
    (0.04, False)
    >>> rule.is_alarmed(rule.fold([True] * 8, state))
    True
    """

    error: float = 0.05  # error rate that decisions may have
    risk: float = 0.1  # probability that the bound is ever below the mean error rate
    run: float = 5000  # mean number of audits up to a false alarm, at least

    def __post_init__(self) -> None:
        check({"error": self.error, "risk": self.risk, "run": self.run}, AUDIT_RULES)

    def add(self, state: AuditState, wrong: bool) -> AuditState:
        """Return the state after one more audit."""
        if not isinstance(wrong, bool):
            raise InputError(f"an audit says {quote(wrong)}: give True for a wrong decision, False for a right one")
        surprise, cap = (1.0 if wrong else 0.0) - self.error, float(EVIDENCE_CAP_RUNS * self.run)
        evidence = tuple(
            min((kept + 1.0) * (1.0 + stake / self.error * surprise), cap)
            for kept, stake in zip(state.evidence, ALARM_STAKES, strict=True)
        )
        return AuditState(state.wrong + wrong, state.audited + 1, evidence)

    def fold(self, audits: Iterable[bool], state: AuditState | None = None) -> AuditState:
        """Return the state after these audits, in their order; True is a wrong decision."""
        state = AuditState() if state is None else state
        for wrong in audits:
            state = self.add(state, wrong)
        return state

    def alarm_level(self, state: AuditState) -> float:
        """Return how near the alarm is: the mean evidence as a share of `run`; 1 and more is an alarm."""
        return math.fsum(state.evidence) / len(state.evidence) / self.run

    def is_alarmed(self, state: AuditState) -> bool:
        """Return whether audits say that the error rate now exceeds `error`."""
        return self.alarm_level(state) >= 1.0

    def restart_alarm(self, state: AuditState) -> AuditState:
        """Return the state with the evidence of the alarm forgotten, as after a person dealt with it; counts are kept."""
        return state._replace(evidence=AuditState().evidence)

    def upper_bound(self, state: AuditState) -> float:
        """Return what the mean error rate of the decisions so far exceeds with at most probability `risk`, at any time."""
        if not state.audited:
            return 1.0
        return _bisect(state.wrong / state.audited, 1.0, lambda p: _evidence(state, p, -1.0, UPPER_STAKES) >= 1.0 / self.risk)

    def lower_bound(self, state: AuditState) -> float:
        """Return what the mean error rate of the decisions so far is below with at most probability `risk`, at any time."""
        if not state.audited:
            return 0.0
        return _bisect(0.0, state.wrong / state.audited, lambda p: _evidence(state, p, 1.0, LOWER_STAKES) < 1.0 / self.risk)


def read_state(saved: object) -> AuditState:
    """Return a state from its JSON value, [wrong, audited, [evidence, …]]; raise unless it is one.

    >>> read_state([1, 20, [0.5, 0.25, 0.125, 0.0625, 0.0]]) == AuditState(1, 20, (0.5, 0.25, 0.125, 0.0625, 0.0))
    True
    """
    match saved:
        case [int(wrong), int(audited), [*evidence]] if not isinstance(wrong, bool) and 0 <= wrong <= audited:
            values = [float(value) for value in evidence if isinstance(value, float | int) and 0.0 <= value < math.inf]
            if len(values) == len(evidence) == len(ALARM_STAKES):
                return AuditState(wrong, audited, tuple(values))
    shape = f"[wrong, audited, [{len(ALARM_STAKES)} numbers]], with 0 <= wrong <= audited"
    raise InputError(f"the saved state of audits is {quote(saved)}: expected {shape}")


def _evidence(state: AuditState, p: float, sign: float, stakes: tuple[float, ...]) -> float:
    """Return the mean wealth of the bets with these stakes against a mean error rate of p."""
    wealth = (
        math.exp(min(state.wrong * math.log1p(sign * stake) - state.audited * math.log1p(sign * p * stake), MAX_EXPONENT))
        for stake in stakes
    )
    return math.fsum(wealth) / len(stakes)


def _bisect(low: float, high: float, is_beyond: Callable[[float], bool]) -> float:
    """Return where `is_beyond` turns from False to True between `low` and `high`."""
    for _ in range(BOUND_BISECTION_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    return (low + high) / 2
