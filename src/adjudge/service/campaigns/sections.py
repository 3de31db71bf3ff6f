"""The parts of a policy that are documents of their own, and how a value in one is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol

import msgspec

from adjudge.data.options import Number, to_python
from adjudge.errors import OptionError, choice_error, quote

MAX_POLICY_NUMBER: Final = 1_000_000_000  # votes, decisions or seconds: beyond it a number is a mistake
AT_LEAST_ONE: Final = Number(1, MAX_POLICY_NUMBER, whole=True)
SECONDS_RANGE: Final = Number(0, MAX_POLICY_NUMBER)
SHARE_RANGE: Final = Number(0, 1)


class Check(Protocol):
    """What a value is checked by."""

    def check(self, name: str, value: object) -> None:
        """Raise an `OptionError` that names the field, the value and what is accepted."""


class FlagCheck:
    """True or false."""

    def check(self, name: str, value: object) -> None:
        """Raise unless the value is one of the two."""
        if not isinstance(value, bool):
            raise OptionError(f"{name} is {quote(value)}: give true or false")


class Maybe:
    """A value that can be left out, as null."""

    def __init__(self, rule: Check) -> None:
        self.rule = rule

    def check(self, name: str, value: object) -> None:
        """Raise unless the value is None, or what the rule accepts."""
        if value is None:
            return
        try:
            self.rule.check(name, value)
        except OptionError as error:
            raise OptionError(f"{error}, or null") from None


def settle(struct: msgspec.Struct, rules: Mapping[str, Check], prefix: str = "") -> None:
    """Check the fields of a new struct, and make its numbers Python's own: a float where a field is one.

    Equal documents then have equal values, and equal JSON: 1 and 1.0 are one share.
    """
    for field, rule in rules.items():
        value = getattr(struct, field)
        rule.check(f"{prefix}{field}", value)
        number = rule.rule if isinstance(rule, Maybe) else rule
        if value is not None and isinstance(number, Number):
            whole: Any = to_python(value)
            msgspec.structs.force_setattr(struct, field, whole if number.whole else float(whole) + 0.0)  # never -0.0


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a policy, checked when it is made."""

    NAME: ClassVar[str] = ""
    RULES: ClassVar[Mapping[str, Check]] = {}

    def __post_init__(self) -> None:
        settle(self, self.RULES, f"{self.NAME}.")

    @classmethod
    def of(cls, given: Any) -> Any:
        """Return the part from a document, or as it is."""
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            raise OptionError(f"{cls.NAME} is {quote(given)}: give an object with any of {', '.join(cls.__struct_fields__)}")
        for field in given:
            if field not in cls.__struct_fields__:
                raise choice_error(f"field of {cls.NAME}", field, cls.__struct_fields__)
        return cls(**given)


class Escalate(Section, frozen=True):
    """When a person is asked.

    - `votes_run_out`: at `maximum_votes`, where they do not suffice.
    - `disagreement`: where more than this share of the effective votes is against the leading label.
    - `tie`: where the best labels tie.
    """

    NAME: ClassVar[str] = "escalate"
    RULES: ClassVar[Mapping[str, Check]] = {"votes_run_out": FlagCheck(), "disagreement": Maybe(SHARE_RANGE), "tie": FlagCheck()}
    votes_run_out: bool = True
    disagreement: float | None = None
    tie: bool = False


class Quorum(Section, frozen=True):
    """Votes for a label have to come from several groups of workers.

    - `groups`: from at least so many groups.
    - `votes`: at least so many votes for the label from each of these.
    """

    NAME: ClassVar[str] = "quorum"
    RULES: ClassVar[Mapping[str, Check]] = {"groups": AT_LEAST_ONE, "votes": AT_LEAST_ONE}
    groups: int = 2
    votes: int = 1


class Experts(Section, frozen=True):
    """What votes of experts do.

    - `decide`: whether a vote of an expert decides at once. Experts who differ escalate.
    """

    NAME: ClassVar[str] = "experts"
    RULES: ClassVar[Mapping[str, Check]] = {"decide": FlagCheck()}
    decide: bool = False


class ReopenRules(Section, frozen=True):
    """What a reopened task needs.

    - `votes`: so many votes more than it had, before votes decide it again.
    """

    NAME: ClassVar[str] = "reopen"
    RULES: ClassVar[Mapping[str, Check]] = {"votes": Number(0, MAX_POLICY_NUMBER, whole=True)}
    votes: int = 2


class Probation(Section, frozen=True):
    """Votes of new workers are kept aside until the workers have shown what they can.

    - `votes`: so many of their votes have to be judged.
    - `accuracy`: at least this share of those has to be right.
    """

    NAME: ClassVar[str] = "probation"
    RULES: ClassVar[Mapping[str, Check]] = {"votes": AT_LEAST_ONE, "accuracy": SHARE_RANGE}
    votes: int = 10
    accuracy: float = 0.7


class BreakerLimits(Section, frozen=True):
    """When something jumps, new decisions are held until a person has looked. Each field but `window` can be null: off.

    - `window`: the latest decisions that are compared with all before them.
    - `label_share`: trips when the share of any label moves by more than this.
    - `disagreement`: trips when the mean share of votes against the decided label rises by more than this.
    - `flip_rate`: trips when the share of decisions that changed a decided label rises by more than this.
    """

    NAME: ClassVar[str] = "breakers"
    RULES: ClassVar[Mapping[str, Check]] = {
        "window": AT_LEAST_ONE,
        "label_share": Maybe(SHARE_RANGE),
        "disagreement": Maybe(SHARE_RANGE),
        "flip_rate": Maybe(SHARE_RANGE),
    }
    window: int = 1000
    label_share: float | None = 0.3
    disagreement: float | None = 0.2
    flip_rate: float | None = 0.1


class Next(Section, frozen=True):
    """How much the queue gives to a worker.

    - `per_worker_per_hour`: at most so many tasks in any hour.
    - `per_worker_per_day`: at most so many tasks in any 24 hours.
    """

    NAME: ClassVar[str] = "next"
    RULES: ClassVar[Mapping[str, Check]] = {"per_worker_per_hour": Maybe(AT_LEAST_ONE), "per_worker_per_day": Maybe(AT_LEAST_ONE)}
    per_worker_per_hour: int | None = None
    per_worker_per_day: int | None = None
