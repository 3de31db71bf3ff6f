"""Why a task has its label: what every vote adds to the log-odds of the label, what else moves them, as text and as data.

The bars of an explanation are the prior, the votes and the steps, in this order. Their sum is the log-odds of the label
against the runner-up, as the reported probabilities have them. `adjudge.results.explain` makes explanations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import polars as pl

from adjudge.data.vocabulary import Id
from adjudge.data.votes import FrameKind
from adjudge.errors import make_visible
from adjudge.io import frames
from adjudge.io.frames import Frame, series_of
from adjudge.results.plotting import Picture, Theme, draw

BAR_CHARACTERS: Final = 16  # characters of the longest bar, to each side of zero
MAX_PRINTED_NAME_CHARACTERS: Final = 24  # characters of a worker, a label or a step
MAX_PRINTED_VOTES: Final = 24  # votes on the screen; of others the sum is shown
MAX_PRINTED_ITEM_CHARACTERS: Final = 280  # of each part of an item
MAX_SEEN: Final = 3  # members of a group, or workers, that are named
EVIDENCE_SCHEMA: Final = {
    "worker": None,  # of the ids' own kind
    "label": None,
    "weight": pl.Float64,
    "contribution": pl.Float64,
    "accuracy": pl.Float64,
    "flips_if_removed": pl.Boolean,
    "flips_if_changed": pl.Boolean,
}


class MemberVote(NamedTuple):
    """A vote of a worker who votes in a group."""

    worker: Id
    label: Id


class Step(NamedTuple):
    """Something other than a vote that moves the log-odds."""

    name: str
    change: float  # of the log-odds
    why: str  # one sentence


@dataclass(frozen=True)
class VoteEvidence:
    """One vote on the task: its worker, its label, and its contribution to the log-odds of the label against the runner-up."""

    worker: Id  # or the group that votes
    label: Id  # that it gives
    weight: float  # of the vote: 1 unless votes have weights
    contribution: float  # to the log-odds; below 0 it speaks against the label
    accuracy: float  # the worker's expected share of right votes
    flips_if_removed: bool | None  # whether the model would decide otherwise without this vote; None: not known
    flips_if_changed: bool | None  # whether it would, had this vote been for the runner-up; None: not known
    members: tuple[MemberVote, ...] = ()  # of a group: the votes that make up this one

    @property
    def is_decisive(self) -> bool:
        """Whether the label hangs on this vote alone."""
        return bool(self.flips_if_removed or self.flips_if_changed)


class Bar(NamedTuple):
    """One bar of the waterfall: the log-odds move from `start` to `end`."""

    kind: str  # "prior", "vote" or "step"
    name: str
    change: float
    start: float
    end: float


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The explanation of a label, as `result.explain` returns it: why the task has it, and how certain that is.

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> why = adj.aggregate(votes, model="mv").explain("t1")
    >>> why.label, why.runner_up, [(vote.worker, vote.flips_if_changed) for vote in why.evidence]
    ('cat', 'dog', [('ann', True), ('bob', True), ('eve', False)])
    >>> [bar.name for bar in why.bars()]
    ['prior', 'ann: cat', 'bob: cat', 'eve: dog', 'shared error', 'chance agreement', 'vote shares']
    >>> abs(sum(bar.change for bar in why.bars()) - why.log_odds) < 1e-9
    True

    """

    task: Id
    label: Id
    confidence: float  # probability that the label is right
    probabilities: Mapping[Id, float]  # of every label, in label order
    runner_up: Id | None  # the most probable other label; None if there is no other
    log_odds: float  # of the label against the runner-up; bounded where `certain`
    prior: float  # what the class priors add to the log-odds
    evidence: tuple[VoteEvidence, ...]  # the votes, largest contribution first
    steps: tuple[Step, ...]  # what else moves the log-odds, in order
    more_votes: int | None  # of an average worker, until confidence is `settled`, if the label is right; None: not with 100
    settled: float  # the confidence from which a label counts as settled
    tie: bool  # whether the label was picked among tied ones
    known: bool  # whether the label is gold: given, not decided
    certain: bool  # whether the log-odds are infinite, so that they and some bars are cut at a bound
    model: str  # that decided the label
    confidence_by: str  # "honest" or "posterior": what the probabilities are
    frame_kind: FrameKind = "polars"
    is_opaque: bool = False  # whether a model of the caller's own decided, so that decisive votes are not known
    not_cast: tuple[MemberVote, ...] = field(default=())  # votes of groups whose members tied, which did not count
    item: Mapping[str, str] = field(default_factory=dict)  # what was judged, by its parts; empty if nothing says

    def __repr__(self) -> str:
        return f"Explanation({self.task!r}: {self.label!r}, confidence {self.confidence:.2f}, {len(self.evidence)} votes)"

    @property
    def votes(self) -> Frame:
        """Worker, label, weight, contribution (to the log-odds), accuracy, flips_if_removed and flips_if_changed of every vote.

        Of votes in groups also `members`, as text.
        """
        return frames.to_native(self.votes_frame(), self.frame_kind)

    def votes_frame(self) -> pl.DataFrame:
        """Return `votes` as a polars frame, regardless of the caller's frame library."""
        columns = {
            name: series_of([getattr(vote, name) for vote in self.evidence], name)
            if kind is None
            else pl.Series([getattr(vote, name) for vote in self.evidence], dtype=kind)
            for name, kind in EVIDENCE_SCHEMA.items()
        }
        if any(vote.members for vote in self.evidence):
            columns["members"] = pl.Series([_members(vote.members, len(vote.members)) for vote in self.evidence], dtype=pl.String)
        return pl.DataFrame(columns)

    def bars(self) -> Iterator[Bar]:
        """Yield the bars of the waterfall: the prior, the votes, the steps. The last one ends at `log_odds`."""
        found = [("prior", "prior", self.prior)]
        found += [("vote", f"{vote.worker}: {vote.label}", vote.contribution) for vote in self.evidence]
        found += [("step", step.name, step.change) for step in self.steps]
        at = 0.0
        for kind, name, change in found:
            yield Bar(kind, name, change, at, at + change)
            at += change

    def bars_frame(self) -> pl.DataFrame:
        """Return the bars as a polars frame: kind, name, change, start, end."""
        schema = {"kind": pl.String, "name": pl.String, "change": pl.Float64, "start": pl.Float64, "end": pl.Float64}
        return pl.DataFrame(list(self.bars()), schema=schema, orient="row")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        plain = ("task", "label", "confidence", "runner_up", "log_odds", "prior", "more_votes", "settled")
        flags = ("tie", "known", "certain", "model", "confidence_by")
        return {
            **{name: getattr(self, name) for name in plain},
            "probabilities": [{"label": label, "probability": p} for label, p in self.probabilities.items()],
            "votes": [
                {name: getattr(vote, name) for name in EVIDENCE_SCHEMA}
                | ({"members": [one._asdict() for one in vote.members]} if vote.members else {})
                for vote in self.evidence
            ],
            "steps": [step._asdict() for step in self.steps],
            **({"item": dict(self.item)} if self.item else {}),
            **({"not_cast": [one._asdict() for one in self.not_cast]} if self.not_cast else {}),
            **{name: getattr(self, name) for name in flags},
        }

    def plot(self, *, theme: Theme = "light") -> Picture:
        """Return the waterfall of the log-odds as a picture.

        Parameters
        ----------
        theme : Theme, default "light"
            "light", "dark" or "none", which leaves the look to Altair's own themes.

        Returns
        -------
        Picture
            The waterfall of the log-odds as a picture.

        """
        return draw("votes:waterfall", self, theme=theme)

    def _repr_html_(self) -> str:
        from adjudge.results.card import of_explanation

        return of_explanation(self)

    def __str__(self) -> str:
        return "\n".join([*item_lines(self.item), *self.sentences(), "", *self._waterfall()])

    def sentences(self) -> Iterator[str]:
        """Yield the answer in sentences."""
        votes = f"{len(self.evidence)} vote{'' if len(self.evidence) == 1 else 's'}"
        if self.known:
            yield f"task {shown_id(self.task)}: {shown_id(self.label)} is known (gold); its {votes} did not decide it"
            return
        against = "" if self.runner_up is None else f", {shown_id(self.runner_up)} {percent(self.probabilities[self.runner_up])}"
        short = self.confidence < self.settled <= round(self.confidence, 2)  # rounding must not settle it
        sure = f"{self.confidence - 0.005:.0%}" if short else percent(self.confidence)
        yield f"task {shown_id(self.task)}: {shown_id(self.label)} {sure}{against}"
        tied = "; a tie, so the label was picked" if self.tie else ""
        yield f"decided by {self.model} from {votes}{tied}"
        if self.runner_up is None:
            return
        yield self._hangs_on()
        yield self._settling()

    def _hangs_on(self) -> str:
        """Return on whom the label hangs, in one sentence."""
        removed = [vote.worker for vote in self.evidence if vote.flips_if_removed]
        changed = [vote.worker for vote in self.evidence if vote.flips_if_changed]
        if len(self.evidence) == 1:
            return "nobody else has voted on it"
        if self.is_opaque:
            return "decisive votes are not known for a model of your own"
        if removed:
            return f"without the vote of {_any_of(removed)} the label would be another"
        if changed:
            return f"had {_any_of(changed)} said {shown_id(self.runner_up)}, the label would be another"
        return "no single vote could change the label"

    def _settling(self) -> str:
        """Return how many more votes would settle the label, in one sentence."""
        if self.more_votes == 0:
            return f"it is settled: confidence is at least {percent(self.settled)}"
        if self.more_votes is None:
            return f"more votes of average workers would not bring it to {percent(self.settled)}"
        votes = f"{self.more_votes} more vote{'' if self.more_votes == 1 else 's'}"
        return f"if it is right, about {votes} of average workers would bring it to {percent(self.settled)}"

    def _waterfall(self) -> Iterator[str]:
        """Yield the bars as lines of text."""
        if self.runner_up is None or self.known:
            for vote in self.evidence[:MAX_PRINTED_VOTES]:
                yield f"{shown_id(vote.worker)} said {shown_id(vote.label)}"
            if len(self.evidence) > MAX_PRINTED_VOTES:
                yield f"… and {len(self.evidence) - MAX_PRINTED_VOTES} more"
            return
        yield f"log-odds of {shown_id(self.label)} against {shown_id(self.runner_up)}"
        lines = [("prior", "", self.prior, "")]
        lines += [self._line(vote) for vote in self._select_votes()]
        left = len(self.evidence) - len(lines) + 1
        if left:
            rest = sum(vote.contribution for vote in self.evidence) - sum(vote.contribution for vote in self._select_votes())
            lines.append((f"{left} more votes", "", rest, ""))
        lines += [(step.name, "", step.change, step.why) for step in self.steps]
        bound = "; certain, so the bars are cut at a bound" if self.certain else ""
        lines.append(("in all", "", self.log_odds, f"{percent(self.confidence)}{bound}"))
        most = max(abs(change) for _, _, change, _ in lines) or 1.0
        names, said = max(len(line[0]) for line in lines), max(len(line[1]) for line in lines)
        for name, label, change, note in lines:
            cells = f"{name:<{names}}  {label:<{said}}  {change:+8.2f}  {bar(change / most)}"
            yield f"{cells}  {note}".rstrip()
        for member in self.not_cast[:MAX_PRINTED_VOTES]:
            yield f"{shown_id(member.worker)} said {shown_id(member.label)}, which did not count: members of the group tied"

    def _select_votes(self) -> tuple[VoteEvidence, ...]:
        """Return the votes that are shown: all, or the most telling for and against."""
        if len(self.evidence) <= MAX_PRINTED_VOTES:
            return self.evidence
        most = sorted(self.evidence, key=lambda vote: -abs(vote.contribution))[:MAX_PRINTED_VOTES]
        return tuple(sorted(most, key=lambda vote: -vote.contribution))

    def _line(self, vote: VoteEvidence) -> tuple[str, str, float, str]:
        weight = "" if vote.weight == 1.0 else f", weight {vote.weight:g}"
        notes = [f"right {percent(vote.accuracy)} of the time{weight}"]
        if vote.members:
            notes.append(_members(vote.members, MAX_SEEN))
        if vote.flips_if_removed and len(self.evidence) > 1:
            notes.append("decisive")
        elif vote.flips_if_changed and len(self.evidence) > 1:
            notes.append(f"decisive, had it been {shown_id(self.runner_up)}")
        return shown_id(vote.worker), shown_id(vote.label), vote.contribution, "; ".join(notes)


def item_lines(item: Mapping[str, str]) -> Iterator[str]:
    """Yield what was judged, a line for each part, with an empty line behind them; long text is cut.

    >>> list(item_lines({"text": "How  are you?"}))
    ['text: How are you?', '']
    """
    for name, text in item.items():
        line = " ".join(text[: 4 * MAX_PRINTED_ITEM_CHARACTERS].split())
        cut = line if len(line) <= MAX_PRINTED_ITEM_CHARACTERS else f"{line[:MAX_PRINTED_ITEM_CHARACTERS].rstrip()}…"
        yield f"{make_visible(name)}: {make_visible(cut)}"
    if item:
        yield ""


def bar(share: float) -> str:
    """Return a bar in block characters, to the right of zero or to the left; `share` is from -1 to 1.

    >>> bar(0.5), bar(-0.25)
    ('                │████████        ', '            ████│                ')
    """
    halves = round(abs(share) * BAR_CHARACTERS * 2)
    full, half = divmod(halves, 2)
    if share < 0:
        return ("▐" * half + "█" * full).rjust(BAR_CHARACTERS) + "│" + " " * BAR_CHARACTERS
    return " " * BAR_CHARACTERS + "│" + ("█" * full + "▌" * half).ljust(BAR_CHARACTERS)


def percent(share: float) -> str:
    """Return a share as people read it; what is not quite certain is not shown as certain.

    >>> percent(0.873), percent(0.9996), percent(1.0)
    ('87%', '>99%', '100%')
    """
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    return ">99%" if share > 0.995 else "<1%" if share < 0.005 else f"{share:.0%}"


def shown_id(value: object) -> str:
    """Return an id as a terminal may show it: what it would obey is escaped, and long ones are shortened in the middle.

    >>> shown_id("cat"), shown_id("a" * 30 + "b" * 30)
    ('cat', 'aaaaaaaaaaaa…bbbbbbbbbbb')
    """
    text = make_visible(str(value))
    half = MAX_PRINTED_NAME_CHARACTERS // 2
    return (
        text
        if len(text) <= MAX_PRINTED_NAME_CHARACTERS
        else f"{text[:half]}…{text[len(text) - (MAX_PRINTED_NAME_CHARACTERS - half - 1) :]}"
    )


def _any_of(ids: list[Id]) -> str:
    """Return "ann", "either of ann and bob", or the like."""
    names = [shown_id(one) for one in ids]
    if len(names) <= 1:
        return "".join(names)
    if len(names) <= MAX_SEEN:
        return f"any of {', '.join(names)}"
    return f"any of {len(names)} workers ({', '.join(names[:MAX_SEEN])}, …)"


def _members(members: tuple[MemberVote, ...], limit: int) -> str:
    """Return the votes of members as text, at most `limit` of them."""
    texts = [f"{shown_id(one.worker)} {shown_id(one.label)}" for one in members[:limit]]
    return ", ".join(texts) + ("" if len(members) <= limit else f", … ({len(members) - limit} more)")


@dataclass(frozen=True, eq=False, repr=False)
class SetExplanation:
    """What `explain` returns of a task with several correct options: the yes or no of every option.

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", ["fear", "joy"]), ("t1", "bob", ["joy"]), ("t1", "eve", ["joy"]), ("t2", "ann", [])]
    >>> why = adj.aggregate(votes, model="mv", multi=True).explain("t1")
    >>> why.chosen, why.options["fear"].label
    (['joy'], 'no')

    """

    task: Id
    chosen: list[str]  # the options of the set
    confidence: float  # that the whole set is right
    options: Mapping[str, Explanation]  # of the yes or no of each option, the least certain first
    frame_kind: FrameKind = "polars"

    def __repr__(self) -> str:
        return f"SetExplanation({self.task!r}: {self.chosen!r}, confidence {self.confidence:.2f}, {len(self.options)} options)"

    @property
    def votes(self) -> Frame:
        """Option, and the columns of `Explanation.votes`, of every vote on every option."""
        return frames.to_native(self.votes_frame(), self.frame_kind)

    def votes_frame(self) -> pl.DataFrame:
        """Return `votes` as a polars frame, regardless of the caller's frame library."""
        return pl.concat([_add_option(name, one) for name, one in self.options.items()], how="vertical_relaxed")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return {
            "task": self.task,
            "label": self.chosen,
            "confidence": self.confidence,
            "options": [{"option": name, **one.to_dict()} for name, one in self.options.items()],
        }

    def __str__(self) -> str:
        chosen = ", ".join(shown_id(option) for option in self.chosen) or "none of the options"
        head = f"task {shown_id(self.task)}: {chosen} {percent(self.confidence)}"
        parts = [f"option {shown_id(name)}\n{one}" for name, one in self.options.items()]
        return "\n\n".join([head, *parts])


def _add_option(option: str, one: Explanation) -> pl.DataFrame:
    frame = one.votes_frame()
    return frame.select(pl.lit(option).alias("option"), *frame.columns)
