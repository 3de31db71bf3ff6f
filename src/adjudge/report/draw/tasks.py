"""Tasks in doubt: a line each, with its votes as small squares, which opens to what every vote contributed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from adjudge.report import words
from adjudge.report.draw.curves import bar
from adjudge.report.html import Markup, join, scrolled, tag
from adjudge.report.palette import CATEGORIES
from adjudge.report.views.tasks import DOUBT
from adjudge.results.explanation import Explanation, VoteEvidence

MAX_SQUARES: Final = 40  # votes that a line shows
MAX_FALL: Final = 24  # votes whose contribution is shown: the most telling ones
MAX_SIGN: Final = 3  # characters of a label that fits into a square
MAX_KEYS: Final = 12  # labels that the key names
WIDTH: Final = 180.0  # of a waterfall, in units of its drawing
MAX_TEXT: Final = 200  # characters of a name on hover


@dataclass(frozen=True)
class LabelKeys:
    """A colour and a short sign for every label, so that squares can be told apart without colours."""

    order: Mapping[str, int]  # label to its rank: the most frequent one first

    @cached_property
    def is_short(self) -> bool:
        """Whether every label fits into a square; else all have numbers, as labels may be numbers themselves."""
        return all(len(label) <= MAX_SIGN for label in self.order)

    def sign(self, label: str) -> str:
        """Return what stands for a label in a square: the label itself where all are short, else its rank."""
        return label if self.is_short else str(self.order.get(label, len(self.order)) + 1)

    def kind(self, label: str) -> str:
        """Return the class that colours a label; labels beyond the eight most frequent ones share one."""
        rank = self.order.get(label, len(CATEGORIES))
        return f"c{rank}" if rank < len(CATEGORIES) else "other"

    def square(self, label: str, who: str) -> Markup:
        """Return a vote as a small square; `who` stands on hover."""
        return tag(
            "span", self.sign(label), class_=f"vote {self.kind(label)}", title=f"{who}: {words.shortened(label, MAX_TEXT)}"
        )

    def key(self, labels: Iterable[str]) -> Markup | None:
        """Return what the squares mean; nothing where they say it themselves."""
        if self.is_short:
            return None
        found = sorted(set(labels), key=lambda label: self.order.get(label, 0))
        lines = [
            tag("li", tag("span", self.sign(label), class_=f"vote {self.kind(label)}"), words.shortened(label, 90))
            for label in found[:MAX_KEYS]
        ]
        rest = [tag("li", f"… and {words.count(len(found) - MAX_KEYS)} more")] if len(found) > MAX_KEYS else []
        return tag("ul", lines, rest, class_="key")


def tasks(found: Sequence[Explanation], keys: LabelKeys, gains: Sequence[float] | None = None) -> Markup:
    """Return the lines of tasks, with the key of their labels; `gains` are right labels that one more vote may bring."""
    seen = {words.name(vote.label) for one in found for vote in one.evidence[:MAX_SQUARES]}
    worth = [math.nan] * len(found) if gains is None else gains
    return join([keys.key(seen), [_task(one, keys, gain) for one, gain in zip(found, worth, strict=True)]])


def _task(one: Explanation, keys: LabelKeys, gain: float) -> Markup:
    by_skill = sorted(one.evidence, key=lambda vote: -vote.accuracy if vote.accuracy == vote.accuracy else 0.0)
    squares = [
        keys.square(words.name(vote.label), f"{words.shortened(vote.worker, MAX_TEXT)} ({words.percent(vote.accuracy)} right)")
        for vote in by_skill[:MAX_SQUARES]
    ]
    more = len(by_skill) - len(squares)
    squares += [tag("span", f"… {words.count(more)} more", class_="small")] if more else []
    doubt, label = "bar doubt" if one.confidence < DOUBT else "bar", words.name(one.label)
    named = [] if keys.is_short else [keys.square(label, "label"), " "]
    head = tag(
        "summary",
        tag("span", words.shortened(one.task, 60), class_="id", title=words.shortened(one.task, MAX_TEXT)),
        tag("span", named, words.shortened(label, 90), tag("span", " tie", class_="small") if one.tie else None, class_="lab"),
        tag("span", bar(one.confidence, doubt), words.percent(one.confidence), class_="conf"),
        tag("span", squares, class_="votes"),
    )
    return tag("details", head, tag("div", _inside(one, gain), class_="inside"), class_="task")


def _inside(one: Explanation, gain: float) -> Markup:
    """Return why the task has its label: sentences, then the waterfall of log-odds."""
    if one.known:
        return tag("p", "This label is known (gold): its votes did not decide it.")
    if one.runner_up is None:
        return tag("p", "There is no other label that it could have.")
    runner = f"runner-up {words.quoted(one.runner_up)} at {words.percent(one.probabilities[one.runner_up])}"
    label = words.quoted(one.label)
    worth = f" One more vote is expected to bring {words.figure(gain)} right labels." if gain > 0 else ""
    head = f"{label} at {words.percent(one.confidence)}, {runner}. {settling(one)}{worth}"
    return join([tag("p", head), scrolled(_waterfall(one), f"What every vote on task {words.shortened(one.task)} contributed")])


def settling(one: Explanation) -> str:
    """Return on whom the label hangs, and what would settle it, in sentences."""
    flips = [vote for vote in one.evidence if vote.flips_if_removed]
    if len(one.evidence) == 1:
        hangs = "Nobody else has voted on it."
    elif len(flips) == 1:
        hangs = f"Without the vote of {words.shortened(flips[0].worker)} it would have another label."
    elif flips:
        hangs = f"Without any one of {words.count(len(flips))} votes it would have another label."
    else:
        hangs = "No single vote could be missing and change the label."
    if one.more_votes is None:
        return f"{hangs} More votes of average workers would not bring it to {words.percent(one.settled)}."
    if not one.more_votes:
        return hangs
    votes = words.counted(one.more_votes, "more vote")
    return f"{hangs} If the label is right, about {votes} of average workers would bring it to {words.percent(one.settled)}."


def _waterfall(one: Explanation) -> Markup:
    """Return a table of what adds up to the log-odds of the label against the runner-up, the most telling votes of many.

    Each bar begins where the one before has ended. The line is where both labels are as likely.
    """
    shown = sorted(one.evidence, key=lambda vote: -abs(vote.contribution))[:MAX_FALL]
    shown.sort(key=lambda vote: -vote.contribution)
    rest = len(one.evidence) - len(shown)
    lines = [_Line("prior", "how frequent both labels are", one.prior)]
    lines += [_of_vote(vote) for vote in shown]
    if rest:
        left = sum(vote.contribution for vote in one.evidence) - sum(vote.contribution for vote in shown)
        lines.append(_Line(f"{words.count(rest)} more votes", "", left))
    lines += [_Line(step.name, step.why, step.change) for step in one.steps]
    ends = list(itertools.accumulate(line.change for line in lines))
    low, high = min(0.0, *ends), max(0.0, *ends)
    scale = WIDTH / max(high - low, 1e-9)
    zero = -low * scale
    rows = [
        _row(line, (start - low) * scale, (end - low) * scale, zero)
        for line, start, end in zip(lines, [0.0, *ends[:-1]], ends, strict=True)
    ]
    total = "in all" if not one.certain else "in all (certain: cut at a bound)"
    rows.append(_row(_Line(total, "", one.log_odds), zero, (one.log_odds - low) * scale, zero, kind="sum"))
    heads = [tag("th", what, scope="col") for what in ("who", "says")]
    heads += [tag("th", "right", scope="col", class_="n acc"), tag("th", "log-odds", scope="col", class_="n"), tag("td")]
    return tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="fall")


class _Line(NamedTuple):
    """Something that moves the log-odds."""

    name: str
    says: str
    change: float
    accuracy: float | None = None  # of a worker; None: it is no vote


def _of_vote(vote: VoteEvidence) -> _Line:
    says = words.shortened(vote.label, 40)
    if vote.weight != 1.0:
        says += f" (weight {vote.weight:g})"
    if vote.members:
        named = ", ".join(f"{words.shortened(one.worker, 20)} {words.shortened(one.label, 20)}" for one in vote.members[:6])
        says += f" (group: {named}{'…' if len(vote.members) > 6 else ''})"
    return _Line(words.shortened(vote.worker, 40), says, vote.contribution, vote.accuracy)


def _row(line: _Line, start: float, end: float, zero: float, kind: str | None = None) -> Markup:
    """Return a line of the waterfall, whose bar goes from `start` to `end`."""
    drawn = tag(
        "svg",
        tag(
            "rect",
            x=f"{min(start, end):.1f}",
            width=f"{max(abs(end - start), 0.7):.1f}",
            y="2",
            height="10",
            class_="for" if line.change >= 0 else "contra",
        ),
        tag("line", x1=f"{zero:.1f}", x2=f"{zero:.1f}", y1="-4", y2="18", class_="zero"),
        viewBox=f"-2 0 {WIDTH + 4:g} 14",
        width="100%",
        height="14",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    return tag(
        "tr",
        tag("th", line.name, scope="row"),
        tag("td", tag("span", line.says, class_="note") if line.accuracy is None else line.says),
        tag("td", "" if line.accuracy is None else words.percent(line.accuracy), class_="n acc"),
        tag("td", f"{line.change:+.2f}".replace("-", "−"), class_="n"),
        tag("td", drawn, class_="bars"),
        class_=kind,
    )
