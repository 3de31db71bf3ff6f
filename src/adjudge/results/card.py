"""A result as a small HTML card, which notebooks display by themselves: the answer first, then what to call next.

A card is one element with its own styles: no script, no style sheet, no request. It inherits the notebook's colours and fonts,
so it is readable in light and dark themes. Ids, labels and reasons are escaped. Cards use only what the fit has already
computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Final

from adjudge.data.vocabulary import text_of
from adjudge.data.votes import piece
from adjudge.errors import make_visible
from adjudge.io.items import items_of
from adjudge.results.overview import UNCLEAR_VERDICT, is_few, least_certain, workers_in_brief
from adjudge.results.result import Result

if TYPE_CHECKING:
    from adjudge.results.explanation import Explanation
    from adjudge.results.sets import MultiResult

MAX_CARD_ROWS: Final = 5  # lines of a table
MAX_CARD_ID_CHARACTERS: Final = 40  # characters of an id or label; the whole is shown on hover
MAX_CARD_VOTES: Final = 24  # of an explanation
MAX_SENTENCE: Final = 300  # characters of a reason or a warning
MAX_HOVER: Final = 1000
MAX_CARD_VERDICT_VOTES: Final = 10_000  # votes up to which workers are judged for a card alone: a few tenths of a second
MAX_SUMMED: Final = 20_000_000  # tasks whose confidence is summed
MAX_CARD_STREAM_TASKS: Final = 2_000  # tasks of a stream whose labels are looked at

CARD_BORDER: Final = "1px solid rgba(128,128,128,.35)"
CARD_STYLES: Final = {
    "card": f"border:{CARD_BORDER};border-radius:6px;padding:.7em 1em;max-width:60em;color:inherit;background:transparent;"
    "font:inherit;font-variant-numeric:tabular-nums;overflow-wrap:break-word;overflow-x:auto",
    "title": "font-weight:600;margin:0 0 .4em",
    "figures": "margin:0 0 .4em",
    "figure": "display:inline-block;margin:0 1.6em .2em 0",
    "value": "font-size:1.25em;font-weight:600",
    "name": "opacity:.75",
    "heading": "font-weight:600;margin:.6em 0 .1em",
    "table": "border-collapse:collapse;margin:0;font:inherit;color:inherit;background:transparent",
    "cell": f"text-align:left;padding:.1em .9em .1em 0;border:0;border-bottom:{CARD_BORDER};color:inherit;background:transparent",
    "note": "margin:.3em 0 0",
    "next": "margin:.6em 0 0;opacity:.75",
}


@dataclass(frozen=True)
class CardTable:
    """A small table of a card; cells are shown as text, numbers to three digits."""

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    more: str = ""  # what is left out, and how to get it

    @classmethod
    def cut(cls, heading: str, columns: Sequence[str], rows: Sequence[Sequence[object]], where: str, limit: int) -> CardTable:
        """Return a table of the first rows; `where` is what has all of them."""
        more = f"… and {len(rows) - limit} more: {where}" if len(rows) > limit else ""
        return cls(heading, columns, rows[:limit], more)


@dataclass(frozen=True)
class Card:
    """What a card shows, from top to bottom. Every part is plain text, and escaped here.

    >>> card = Card("Study", figures=[("tasks", 100)], next_steps=["study.sizes"])
    >>> "<b>" in card.html(), "study.sizes" in card.html()
    (False, True)
    """

    title: str
    figures: Sequence[tuple[str, object]] = ()  # name and value, the most important first
    sentences: Sequence[str] = ()
    tables: Sequence[CardTable] = ()
    warnings: Sequence[str] = field(default=())
    next_steps: Sequence[str] = field(default=())  # what to call next

    def html(self) -> str:
        """Return the card as HTML: one element that can be embedded in any page."""
        parts = [_tag("div", _text(self.title, MAX_SENTENCE), "title")]
        if self.figures:
            parts.append(_tag("div", "".join(_figure(name, value) for name, value in self.figures), "figures"))
        parts += [_tag("div", _text(sentence, MAX_SENTENCE), "note") for sentence in self.sentences]
        parts += [_tag("div", "⚠ " + _text(warning, MAX_SENTENCE), "note") for warning in self.warnings]
        parts += [_table(table) for table in self.tables if table.rows]
        if self.next_steps:
            steps = ", ".join(f"<code>{_text(step, MAX_SENTENCE)}</code>" for step in self.next_steps)
            parts.append(_tag("div", f"next: {steps}", "next"))
        return _tag("div", "".join(parts), "card")


def of_result(result: Result) -> str:
    """Return the card of a result."""
    votes, facts = result.votes, result.facts
    figures: list[tuple[str, object]] = [("tasks", votes.n_tasks)]
    if 0 < votes.n_tasks <= MAX_SUMMED or not result.is_on_disk:
        figures.append(("expected wrong labels", _wrong(result.expected_errors, votes.n_tasks)))
    figures += _measured_figures(facts)
    figures += [("votes", len(votes)), ("workers", votes.n_workers), ("labels", votes.n_labels)]
    chosen = facts.get("why")
    here = len(result.fit.outcome.labels) == votes.n_tasks
    tables = [_first_labels(result)] if here else []
    if here and not result.is_on_disk:
        doubtful = [(one.task, one.label, one.confidence, one.votes) for one in least_certain(result)]
        items = {} if votes.item_source is None else items_of(votes, [text_of(task) for task, *_ in doubtful])
        shown = [(*row, _item_text(items.get(text_of(row[0]), {}))) for row in doubtful]
        columns = ("task", "label", "confidence", "votes", *(("item",) if items else ()))
        tables.append(CardTable("least certain", columns, shown if items else doubtful))
    found, nobody, unjudged = _workers(result)
    return Card(
        title=repr(result),
        figures=figures,
        sentences=[*([f"{result.model} chose {chosen}"] if chosen else []), *nobody],
        tables=[*tables, *found],
        warnings=[*_warnings(result), *_together(facts)],
        next_steps=['result.report("report.html")', "result.labels", f"result.workers{unjudged}"],
    ).html()


def of_sets(result: MultiResult) -> str:
    """Return the card of a result with several correct options."""
    tasks, options = len(result.votes.tasks), result.votes.options.texts()
    facts = result.facts if len(result.results) == 1 else {}
    figures = [("tasks", tasks), ("expected wrong sets", _wrong(result.expected_errors, tasks)), *_measured_figures(facts)]
    figures += [("votes", result.votes.n_votes), ("workers", result.votes.binary.n_workers), ("options", len(options))]
    rows = [
        (result.votes.tasks[at], " | ".join(options[option] for option in chosen) or "(none)", confidence)
        for at, (chosen, confidence) in enumerate(result.first_sets(MAX_CARD_ROWS))
    ]
    more = f"… and {tasks - len(rows)} more: result.labels" if tasks > len(rows) else ""
    return Card(
        title=repr(result),
        figures=figures,
        tables=[CardTable("first sets", ("task", "set", "confidence"), rows, more)],
        warnings=[*_warnings(result), *_together(facts)],
        next_steps=["result.labels", "result.probabilities", "result.workers"],
    ).html()


def of_explanation(why: Explanation) -> str:
    """Return the card of an explanation: the answer, then what every vote adds."""
    rows = [(vote.worker, vote.label, f"{vote.contribution:+.2f}", vote.accuracy) for vote in why.evidence]
    columns = ("worker", "label", "adds to the log-odds", "accuracy")
    moved = [("prior", f"{why.prior:+.2f}"), *((step.name, f"{step.change:+.2f}") for step in why.steps)]
    return Card(
        title=repr(why),
        sentences=[*why.sentences()],
        tables=[
            CardTable.cut("votes", columns, rows, "explanation.votes", MAX_CARD_VOTES),
            CardTable("what else moves them", ("", "log-odds"), moved),
        ],
        next_steps=["explanation.plot()", "explanation.votes", "print(explanation)"],
    ).html()


def of_stream(online: Any) -> str:
    """Return the card of a stream (`adj.Online`); labels are shown of a small one alone, as a large one measures before."""
    tables = []
    if 0 < len(online) <= MAX_CARD_STREAM_TASKS:
        frame = online.labels_frame().head(MAX_CARD_ROWS).select("task", "label", "confidence", "votes")
        more = f"… and {len(online) - MAX_CARD_ROWS} more: online.labels()" if len(online) > MAX_CARD_ROWS else ""
        tables.append(CardTable("first labels", frame.columns, frame.rows(), more))
    figures = [("tasks", len(online)), *([("abstentions", online.abstentions)] if online.abstentions else [])]
    steps = ["online.labels()", "online.workers()", "online.refit().workers"]
    return Card(repr(online), figures, tables=tables, next_steps=steps).html()


def _first_labels(result: Result) -> CardTable:
    """Return the labels of the first tasks, taken from the fit."""
    votes, outcome = result.votes, result.fit.outcome
    n = min(MAX_CARD_ROWS, votes.n_tasks)
    label, confidence = piece(outcome.labels, slice(0, n)).tolist(), piece(outcome.confidence, slice(0, n)).tolist()
    rows = [(votes.tasks[at], votes.labels[label[at]], confidence[at], votes.votes_on(at)) for at in range(n)]
    more = f"… and {votes.n_tasks - n} more: result.labels" if votes.n_tasks > n else ""
    return CardTable("first labels", ("task", "label", "confidence", "votes"), rows, more)


def _workers(result: Result) -> tuple[list[CardTable], list[str], str]:
    """Return the workers to look at, if verdicts exist or are quick to compute; otherwise a heading or note that says why not."""
    judged = "judged" in vars(result) and "assessment" in vars(result.judged)  # both are cached after first use
    if not result.is_here or not (judged or len(result.votes) <= MAX_CARD_VERDICT_VOTES):
        return [], [], " (judges every worker)"
    brief = workers_in_brief(result.workers_frame(), MAX_CARD_ROWS)
    if brief is None:
        return [], [], ""
    counts = dict(brief.verdicts)
    unclear = counts.pop(UNCLEAR_VERDICT, 0)
    flagged = sum(counts.values())
    heading = f"workers to look at: {flagged or 'none'} of {brief.workers}" + (f", {unclear} unclear" if unclear else "")
    rows = [(one.worker, one.verdict, one.why) for one in brief.flagged]
    more = f"… and {flagged - len(rows)} more: result.workers" if flagged > len(rows) else ""
    return ([CardTable(heading, ("worker", "verdict", "why"), rows, more)], [], "") if rows else ([], [heading], "")


def _measured_figures(facts: Any) -> list[tuple[str, object]]:
    votes, effective = facts.get("votes_per_task"), facts.get("effective_votes")
    return [] if votes is None or effective is None else [("effective votes per task", f"{effective:.3g} of {votes:.3g}")]


def _item_text(item: Mapping[str, str]) -> str:
    """Return what was judged as one line."""
    return item[next(iter(item))] if len(item) == 1 else "; ".join(f"{name}: {text}" for name, text in item.items())


def _wrong(expected: float, tasks: int) -> str:
    return f"{_number(expected)} ({expected / tasks:.1%})" if tasks else "0"


def _together(facts: Any) -> list[str]:
    return ["workers err together: their votes count for much less than their number"] if is_few(facts) else []


def _warnings(result: Result | MultiResult) -> list[str]:
    """Return what a reader of the figures has to know."""
    out = []
    if not result.converged:
        out.append(f"not converged after {result.iterations} iterations")
    if result.unvoted:
        out.append(f"{result.unvoted} tasks have nothing but abstentions, and no label")
    if isinstance(result, Result) and result.is_on_disk:
        return out
    if result.ties:
        out.append(f"{result.ties} labels were picked among tied ones")
    unknown = len(result.unknown_workers)
    if unknown:
        out.append(f"{unknown} workers were unknown to the model, and counted as the mean worker")
    return out


def _table(table: CardTable) -> str:
    head = "".join(_tag("th", _text(name), "cell") for name in table.columns) if any(table.columns) else ""
    rows = "".join(f"<tr>{''.join(_tag('td', _cell(cell), 'cell') for cell in row)}</tr>" for row in table.rows)
    more = _tag("div", _text(table.more, MAX_SENTENCE), "name") if table.more else ""
    return _tag("div", _text(table.heading, MAX_SENTENCE), "heading") + _tag("table", f"<tr>{head}</tr>{rows}", "table") + more


def _figure(name: str, value: object) -> str:
    return _tag("span", f"{_tag('span', _cell(value), 'value')} {_tag('span', _text(name), 'name')}", "figure")


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float | int) and not isinstance(value, bool):
        return _number(value)
    text = str(value)
    return _text(text, MAX_SENTENCE if " " in text else MAX_CARD_ID_CHARACTERS)


def _number(value: float) -> str:
    """Return a number to the digits that mean something, thousands apart: a thin space, which never breaks a line."""
    if value != value:
        return "–"
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.3g}"


def _text(value: object, limit: int = MAX_CARD_ID_CHARACTERS) -> str:
    """Return data as text of HTML: escaped, controls made visible, cut in the middle with the whole on hover."""
    text = make_visible(str(value))
    if len(text) <= limit:
        return escape(text)
    half = (limit - 1) // 2
    whole = text if len(text) <= MAX_HOVER else text[:MAX_HOVER] + "…"
    return f'<span title="{escape(whole)}">{escape(text[:half])}…{escape(text[-half:])}</span>'


def _tag(name: str, inside: str, style: str) -> str:
    return f'<{name} style="{CARD_STYLES[style]}">{inside}</{name}>'
