"""A policy: when votes are enough, and what happens when they are not. One JSON document, checked as a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import msgspec

from adjudge.data.options import Number, to_python
from adjudge.errors import InputError, OptionError, choice_error, quote
from adjudge.results.promise.audits import AUDIT_RULES, AuditRule

if TYPE_CHECKING:
    from os import PathLike

    from adjudge.service.campaigns.outcome import Outcome
    from adjudge.service.campaigns.rule import Rule

MAX_POLICY_NUMBER: Final = 1_000_000_000  # votes, decisions or seconds: beyond it a number is a mistake
AT_LEAST_ONE: Final = Number(1, MAX_POLICY_NUMBER, whole=True)
SECONDS_RANGE: Final = Number(0, MAX_POLICY_NUMBER)
SHARE_RANGE: Final = Number(0, 1)
CONFIDENCE: Final = 0.9  # required if a policy has neither `confidence` nor `costs`
ANY_LABEL: Final = "*"  # in place of a label: every label that is not named
COST: Final = Number(0, 1e12)
OPTIONAL_SECTIONS: Final = ("quorum", "probation", "breakers", "audit")  # sections that are null where they are not given


class Check(Protocol):
    """What a value is checked by."""

    def check(self, name: str, value: object) -> None:
        """Raise an `OptionError` that names the field, the value and the accepted values."""


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
    def of(cls, document: Any) -> Any:
        """Return the part from a document, or as it is."""
        if isinstance(document, cls):
            return document
        if not isinstance(document, Mapping):
            raise OptionError(f"{cls.NAME} is {quote(document)}: give an object with any of {', '.join(cls.__struct_fields__)}")
        for field in document:
            if field not in cls.__struct_fields__:
                raise choice_error(f"field of {cls.NAME}", field, cls.__struct_fields__)
        return cls(**document)


class Escalate(Section, frozen=True):
    """When a person has to decide.

    - `votes_run_out`: at `maximum_votes`, if they do not suffice.
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


class AuditPlan(Section, frozen=True):
    """A person judges some automatic decisions blind; if too many are wrong, new decisions are held.

    - `share`: of the automatic decisions that are drawn, at random.
    - `error`: error rate that automatic decisions may have.
    - `risk`: probability that the bound on their error rate is ever too low.
    - `run`: mean number of audits up to a false alarm, at least.
    - `deadline_days`: an audit without an answer counts as wrong after this time.
    """

    NAME: ClassVar[str] = "audit"
    RULES: ClassVar[Mapping[str, Check]] = {
        "share": Number(1e-6, 1),
        "error": AUDIT_RULES["error"],
        "risk": AUDIT_RULES["risk"],
        "run": AUDIT_RULES["run"],
        "deadline_days": Number(0.001, 3650),
    }
    share: float = 0.01
    error: float = 0.05
    risk: float = 0.1
    run: float = 5000.0
    deadline_days: float = 7.0

    @property
    def rule(self) -> AuditRule:
        """How the answers are judged."""
        return AuditRule(self.error, self.risk, self.run)


class Next(Section, frozen=True):
    """How much the queue gives to a worker.

    - `per_worker_per_hour`: at most so many tasks in any hour.
    - `per_worker_per_day`: at most so many tasks in any 24 hours.
    """

    NAME: ClassVar[str] = "next"
    RULES: ClassVar[Mapping[str, Check]] = {"per_worker_per_hour": Maybe(AT_LEAST_ONE), "per_worker_per_day": Maybe(AT_LEAST_ONE)}
    per_worker_per_hour: int | None = None
    per_worker_per_day: int | None = None


SECTIONS: Final[Mapping[str, type[Section]]] = {
    "escalate": Escalate,
    "quorum": Quorum,
    "experts": Experts,
    "reopen": ReopenRules,
    "probation": Probation,
    "breakers": BreakerLimits,
    "audit": AuditPlan,
    "next": Next,
}


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When votes are enough to decide a task, and what happens when they are not.

    Nothing given: at least 3 votes, a confidence of 0.9, at most 9 votes and then a person, no hold, no lock. Every option
    is a field of the JSON document that the service, the command line and the library share. Equal policies have equal
    JSON (`to_json`). docs/policy.md explains each field with examples.

    - `minimum_votes`: no task is decided by fewer votes.
    - `maximum_votes`: stop requesting votes at this count; None: never.
    - `confidence`: how likely the leading label has to be right: a number above 0 and at most 1, or one per label, where "*"
      stands for the labels that are not named. Left out: 0.9, or nothing where `costs` are given.
    - `costs`: what a wrong decision costs: true label to decided label to cost. A right one costs nothing unless it is named;
      "*" stands for the labels that are not named. The label of least expected cost is decided, in place of the leading one.
    - `maximum_cost`: with `costs`: the expected cost at which a label is decided, at most.
    - `hysteresis`: a decided label stays until its confidence is below its threshold by more than this (or its expected cost
      above the maximum), or another label can be decided.
    - `hold`: seconds for which a label has to stay the decided one before the decision is final; the status is `held` meanwhile.
    - `lock`: seconds after the decision from which on votes no longer change it; 0: at once; None: never.
    - `escalate`: when a person has to decide: `votes_run_out` (True), `disagreement` (None: the largest share of effective votes
      against the leading label), `tie` (False).
    - `quorum`: votes for the label have to come from so many `groups` of workers (2), so many `votes` from each (1).
    - `experts`: with `decide` (False) a vote of an expert decides at once, and experts who differ escalate.
    - `reopen`: a reopened task needs so many more `votes` (2) than it had.
    - `probation`: votes of a worker count once so many `votes` (10) were judged, and this share (`accuracy`, 0.7) was right.
    - `breakers`: new decisions are held when in the last `window` (1000) decisions a label's share (`label_share`, 0.3), the
      disagreement (`disagreement`, 0.2) or the share of flips (`flip_rate`, 0.1) moves by more than this.
    - `audit`: a person judges a `share` (0.01) of the automatic decisions blind; new ones are held when more than `error` (0.05)
      are wrong. `risk` (0.1), `run` (5000) and `deadline_days` (7) say how sure that is, and how long an answer may take.
    - `next`: how much the queue gives to a worker: `per_worker_per_hour` and `per_worker_per_day` (None).

    >>> Policy()
    Policy(minimum_votes=3, maximum_votes=9, confidence=0.9)
    >>> policy = Policy(confidence={"spam": 0.95, "*": 0.8}, hold=60)
    >>> policy.decide({"spam": 0.9, "ok": 0.1}, votes=4).status
    'open'
    >>> policy == Policy.from_json(policy.to_json())
    True
    """

    RULES: ClassVar[Mapping[str, Check]] = {
        "minimum_votes": AT_LEAST_ONE,
        "maximum_votes": Maybe(AT_LEAST_ONE),
        "maximum_cost": Maybe(COST),
        "hysteresis": COST,
        "hold": SECONDS_RANGE,
        "lock": Maybe(SECONDS_RANGE),
    }

    minimum_votes: int = 3
    maximum_votes: int | None = 9
    confidence: float | dict[str, float] | None = None
    costs: dict[str, dict[str, float]] | None = None
    maximum_cost: float | None = None
    hysteresis: float = 0.0
    hold: float = 0.0
    lock: float | None = None
    escalate: Escalate = Escalate()
    quorum: Quorum | None = None
    experts: Experts = Experts()
    reopen: ReopenRules = ReopenRules()
    probation: Probation | None = None
    breakers: BreakerLimits | None = None
    audit: AuditPlan | None = None
    next: Next = Next()

    if TYPE_CHECKING:  # parts are given as documents, too

        def __init__(
            self,
            *,
            minimum_votes: int = ...,
            maximum_votes: int | None = ...,
            confidence: float | Mapping[str, float] | None = ...,
            costs: Mapping[str, Mapping[str, float]] | None = ...,
            maximum_cost: float | None = ...,
            hysteresis: float = ...,
            hold: float = ...,
            lock: float | None = ...,
            escalate: Escalate | Mapping[str, float | bool | None] = ...,
            quorum: Quorum | Mapping[str, int] | None = ...,
            experts: Experts | Mapping[str, bool] = ...,
            reopen: ReopenRules | Mapping[str, int] = ...,
            probation: Probation | Mapping[str, float] | None = ...,
            breakers: BreakerLimits | Mapping[str, float | None] | None = ...,
            audit: AuditPlan | Mapping[str, float] | None = ...,
            next: Next | Mapping[str, int | None] = ...,  # noqa: A002
        ) -> None: ...

    def __post_init__(self) -> None:
        settle(self, self.RULES)
        for field, kind in SECTIONS.items():
            part = getattr(self, field)
            if part is not None or field not in OPTIONAL_SECTIONS:
                msgspec.structs.force_setattr(self, field, kind.of(part))
        if self.costs is None and self.confidence is None:
            msgspec.structs.force_setattr(self, "confidence", CONFIDENCE)
        if self.confidence is not None:
            msgspec.structs.force_setattr(self, "confidence", _confidence(self.confidence))
        if self.costs is not None:
            msgspec.structs.force_setattr(self, "costs", _costs(self.costs))
        self._check_together()

    def _check_together(self) -> None:
        """Raise for values that contradict each other."""
        most = self.maximum_votes
        if most is not None and self.minimum_votes > most:
            raise OptionError(f"minimum_votes is {self.minimum_votes}: give at most maximum_votes, which is {most}")
        if self.costs is not None and self.confidence is not None:
            raise OptionError(
                f"confidence is {quote(self.confidence)}: leave it out beside costs, which have maximum_cost instead"
            )
        if self.costs is not None and self.maximum_cost is None:
            raise OptionError("maximum_cost is None: give the expected cost at which a label is decided, at most, beside costs")
        if self.costs is None and self.maximum_cost is not None:
            raise OptionError(f"maximum_cost is {self.maximum_cost:g}: give costs with it, or leave it out")
        lowest = min(_thresholds(self.confidence), default=math.inf)
        if self.hysteresis >= lowest:
            raise OptionError(
                f"hysteresis is {self.hysteresis:g}: give a number below every confidence, the lowest is {lowest:g}"
            )
        if self.quorum is not None and most is not None and (asked := self.quorum.groups * self.quorum.votes) > most:
            raise OptionError(f"quorum asks for {asked} votes: give at most maximum_votes, which is {most}")
        if self.breakers is not None and all(
            value is None for value in (self.breakers.label_share, self.breakers.disagreement, self.breakers.flip_rate)
        ):
            raise OptionError("breakers has nothing to watch: give label_share, disagreement or flip_rate, or leave it out")

    @classmethod
    def of(cls, document: Policy | Mapping[str, Any]) -> Policy:
        """Return the policy that a document describes.

        Parameters
        ----------
        document : Policy or dict
            Field to value, as in JSON; a policy is returned as it is.

        Raises
        ------
        OptionError
            If a field is unknown or has an invalid value.

        Examples
        --------
        >>> Policy.of({"minimum_votes": 5})
        Policy(minimum_votes=5, maximum_votes=9, confidence=0.9)

        """
        if isinstance(document, Policy):
            return document
        if not isinstance(document, Mapping):
            raise OptionError(f"a policy is {quote(document)}: give an object with any of {', '.join(cls.__struct_fields__)}")
        for field in document:
            if field not in cls.__struct_fields__:
                raise choice_error("field of a policy", field, cls.__struct_fields__, limit=20)
        return cls(**document)

    @classmethod
    def from_json(cls, text: str | bytes) -> Policy:
        """Return the policy that a JSON document describes.

        Parameters
        ----------
        text : str or bytes
            The document.

        Examples
        --------
        >>> Policy.from_json('{"confidence": 0.8, "lock": 86400}')
        Policy(minimum_votes=3, maximum_votes=9, confidence=0.8, lock=86400.0)

        """
        try:
            document = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InputError(f"the policy is not JSON: {error}") from None
        return cls.of(document)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Policy:
        """Return the policy in a JSON file.

        Parameters
        ----------
        path : str or path
            The file.

        """
        try:
            text = Path(path).read_bytes()
        except (OSError, ValueError) as error:
            told = getattr(error, "strerror", None) or error
            raise InputError(f"cannot read the policy {quote(str(path), 500)}: {told}") from None
        try:
            return cls.from_json(text)
        except (InputError, OptionError) as error:
            raise type(error)(f"{Path(path).name}: {error}") from None

    def to_json(self, *, indent: int = 0) -> str:
        """Return the policy as a JSON document; equal policies give equal text.

        Parameters
        ----------
        indent : int, default 0
            Spaces per level; 0 writes one line.

        Examples
        --------
        >>> Policy(hold=60).to_json() == Policy(hold=60.0, confidence=0.9).to_json()
        True

        """
        text = msgspec.json.encode(self, order="deterministic")
        return (msgspec.json.format(text, indent=indent) if indent else text).decode()

    def document(self) -> dict[str, Any]:
        """Return the whole document: field to value, as JSON has them."""
        document: dict[str, Any] = msgspec.json.decode(self.to_json())
        return document

    def rule(self, labels: Sequence[str]) -> Rule:
        """Return the policy compiled for the labels of a campaign.

        Parameters
        ----------
        labels : sequence of str
            Ids of the labels, in code order.

        Examples
        --------
        >>> Policy(confidence={"spam": 0.95}).rule(["spam", "ok"])
        Traceback (most recent call last):
        adjudge.errors.OptionError: confidence has nothing for the label 'ok': name it, or give "*" for all others

        """
        from adjudge.service.campaigns.rule import Rule

        return Rule(self, labels)

    def decide(
        self,
        probabilities: Mapping[str, float],
        *,
        votes: int | Mapping[str, int],
        groups: Mapping[str, Mapping[str, int]] | None = None,
        experts: Sequence[str] = (),
        gold: str | None = None,
        breaker: bool = False,
        time: float = 0.0,
        before: Outcome | None = None,
    ) -> Outcome:
        """Return the decision of the policy on a task: status, label, reason, and why in sentences.

        Parameters
        ----------
        probabilities : Mapping[str, float]
            Probability of each label; they sum to 1.
        votes : int or Mapping[str, int]
            Number of votes that count; or votes by label, which `escalate.disagreement` needs.
        groups : Mapping[str, Mapping[str, int]], optional
            Votes by label for each group of workers, for a `quorum`.
        experts : sequence of str, default ()
            Labels that experts voted for, one per vote.
        gold : str, optional
            The true label, if known.
        breaker : bool, default False
            Whether a circuit breaker has tripped.
        time : float, default 0.0
            Current time in seconds, from any origin.
        before : Outcome, optional
            Previous outcome under the same policy; hysteresis, holds and locks continue from it.

        Examples
        --------
        >>> outcome = Policy().decide({"spam": 0.94, "ok": 0.06}, votes=3)
        >>> outcome
        Outcome(status='decided', label='spam', confidence=0.94, reason='confidence')
        >>> outcome.why
        ['3 of at least 3 votes, at most 9', '0.94 of 0.90 confidence for spam', 'decided: spam']

        """
        from adjudge.service.campaigns.outcome import outcome

        return outcome(
            self,
            probabilities,
            votes=votes,
            groups=groups or {},
            experts=experts,
            gold=gold,
            breaker=breaker,
            time=time,
            before=before,
        )

    def __rich_repr__(self) -> Any:
        yield from self._chosen_fields()

    def __repr__(self) -> str:
        return f"Policy({', '.join(f'{name}={value!r}' for name, value in self._chosen_fields())})"

    def _chosen_fields(self) -> list[tuple[str, Any]]:
        """Return the fields that a reader wants: those that every policy has, and all that were chosen."""
        always = ("minimum_votes", "maximum_votes", "confidence" if self.costs is None else "costs")
        fields = [(field.name, getattr(self, field.name), field.default) for field in msgspec.structs.fields(Policy)]
        return [(name, msgspec.to_builtins(value)) for name, value, usual in fields if name in always or value != usual]


def _confidence(document: Any) -> float | dict[str, float]:
    """Return the threshold, or one per label."""
    if not isinstance(document, Mapping):
        return _threshold("confidence", document)
    if not document:
        raise OptionError("confidence names no label: give a number above 0 and at most 1, or one per label")
    each = {_label("confidence", label): _threshold(f"confidence of {quote(label)}", value) for label, value in document.items()}
    return each[ANY_LABEL] if list(each) == [ANY_LABEL] else dict(sorted(each.items()))


def _threshold(name: str, value: Any) -> float:
    if isinstance(value, Mapping | bool) or not Number(0, 1).accepts(value) or value == 0:
        per_label = ", or one per label" if name == "confidence" else ""
        raise OptionError(f"{name} is {quote(value)}: give a number above 0 and at most 1{per_label}")
    return float(value)


def _thresholds(confidence: float | dict[str, float] | None) -> list[float]:
    if confidence is None:
        return []
    return list(confidence.values()) if isinstance(confidence, dict) else [confidence]


def _costs(document: Any) -> dict[str, dict[str, float]]:
    """Return true label to decided label to cost, in the order of the labels."""
    if not isinstance(document, Mapping) or not document:
        raise OptionError(f"costs is {quote(document)}: give true label to decided label to cost")
    costs = {}
    for true, line in sorted((_label("costs", true), line) for true, line in document.items()):
        if not isinstance(line, Mapping):
            raise OptionError(f"costs of {quote(true)} is {quote(line)}: give decided label to cost")
        for decided, cost in line.items():
            COST.check(f"cost of deciding {quote(_label('costs', decided))} where {quote(true)} is true", cost)
        costs[true] = {decided: float(line[decided]) + 0.0 for decided in sorted(line)}  # never -0.0
    return costs


def _label(field: str, label: object) -> str:
    if not isinstance(label, str):
        raise OptionError(f"{field} names the label {quote(label)}: give the ids of labels, which are text")
    return label


class PolicyVersion(msgspec.Struct, frozen=True):
    """One version of a campaign's policy, and since when it holds."""

    version: int
    policy: Policy
    position: int
    time: int
    by: str | None = None
    note: str | None = None
