"""Write one page that answers common questions about votes: a single file that needs no network, server or library.

A content-security policy in the page allows its own script and style by their hashes, and nothing else: text in the votes
cannot run as code or fetch anything. docs/decisions/040-altair.md has the reasons.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from adjudge.data.options import SET_SEPARATOR
from adjudge.data.votes import Understood
from adjudge.errors import InputError
from adjudge.evaluation.inputs import read_truth
from adjudge.evaluation.sets import evaluate_sets
from adjudge.io.sources import Source
from adjudge.io.write import check_files, check_page, write_aside
from adjudge.report import palette, words
from adjudge.report.findings import Findings, details
from adjudge.report.html import Content, Markup, data, fold, join, table, tag
from adjudge.report.sections import sections
from adjudge.report.set_sections import set_sections, set_workers
from adjudge.report.svg import shapes
from adjudge.report.views.labels import headline
from adjudge.report.views.votes import AgreementView
from adjudge.report.views.workers import WorkersView
from adjudge.results.result import Result

if TYPE_CHECKING:
    from adjudge.evaluation.compare.compare import Comparison
    from adjudge.results.sets import MultiResult

REMOTE_REPORT_REFUSAL: Final = (
    "a report looks at votes and labels together, and those of this result stay on Spark's executors: aggregate the votes, or "
    "those of some tasks, with engine='cpu' or 'disk'"
)
MODES: Final[tuple[palette.Mode, ...]] = ("light", "dark")
CONTENTS: Final = {
    "trust": "Trust",
    "promise": "Promise",
    "workers": "Workers",
    "confusion": "Confusion",
    "balance": "Balance",
    "tasks": "Tasks in doubt",
    "ambiguity": "Ambiguity",
    "agreement": "Agreement",
    "items": "Items",
    "judges": "Judges",
    "truth": "Truth",
    "trace": "Convergence",
}


def write(
    result: Result | MultiResult, path: str | os.PathLike[str], *, truth: Result | Source | None = None, **options: Any
) -> None:
    """Write the report of a result to one HTML file, completely or not at all; see `Result.report`.

    `truth` and the other options are those of `page`.
    """
    target = Path(path)
    read = {"the votes": getattr(result.votes, "folder", None), "the truth": truth if isinstance(truth, str | Path) else None}
    check_files({"the report": target}, read)
    check_page(target)
    whole = page(result, truth=truth, **options)
    write_aside(target, lambda aside: aside.write_bytes(whole.encode("utf-8", "replace")))


def page(
    result: Result | MultiResult,
    *,
    truth: Result | Source | None = None,
    truth_task: str | None = None,
    truth_label: str | None = None,
    title: str | None = None,
    source: str = "",
    comparison: Comparison | None = None,
    set_separator: str = SET_SEPARATOR,
) -> str:
    """Return the report of a result as one HTML document.

    - `result`: of any model, of single labels or of sets, in memory or on disk.
    - `truth`, `truth_task`, `truth_label`: known labels, as for `adj.evaluate`.
    - `title`: the heading of the page.
    - `source`: what the votes were read from, as the reader names it.
    - `comparison`: what `adj.compare` returned for these votes; without it a few models are fitted, if there is truth.
    - `set_separator`: what joins the options of true sets written as text.

    >>> import adjudge as adj
    >>> page(adj.aggregate([(1, "<b>", "cat"), (1, "bob", "cat"), (2, "<b>", "dog")])).count("<b>")  # in the brand alone
    1
    """
    if not isinstance(result, Result):
        evaluation, view = None, set_workers(result)
        if truth is not None:
            columns: Any = {"truth_task": truth_task, "truth_label": truth_label, "set_separator": set_separator}
            evaluation = evaluate_sets(result, cast(Source, truth), **columns, with_gold=False)
        known = details(view, None, None, {})
        body = set_sections(result, view, evaluation)
        return _document(result, body, known | _page_data(view, None, "set"), title, source)
    if len(result.fit.outcome.labels) != result.votes.n_tasks:
        raise InputError(REMOTE_REPORT_REFUSAL)
    if not result.votes.n_tasks:
        return _document(result, [tag("p", "There are no votes, so there is nothing to show.")], None, title, source)
    known_truth = None if truth is None else read_truth(truth, truth_task, truth_label)
    findings = Findings(result, known_truth, comparison)
    known = details(findings.workers, findings.agreement, findings.true_codes, findings.real)
    return _document(result, sections(findings), known | _page_data(findings.workers, findings.agreement, "vote"), title, source)


def _page_data(view: WorkersView, agreement: AgreementView | None, noun: str) -> dict[str, Any]:
    """Return the script's data apart from the workers: shapes, words, the worker shown first, and the agreement matrix."""
    first = view.notable["code"][0] if len(view.notable) else None
    matrix = None
    if agreement is not None:
        kappa = [None if k != k else round(float(k), 2) for k in agreement.kappa.ravel().tolist()]
        matrix = {"workers": [words.shorten(name, 200) for name in agreement.workers], "kappa": kappa}
    return {
        "noun": noun,
        "first": None if first is None else str(first),
        "shapes": {verdict: sign.shape for verdict, sign in palette.VERDICTS.items()},
        "beyond": "Its confusion is not in this page: result.confusion(worker) has it.",
        "matrix": matrix,
    }


def _document(
    result: Result | MultiResult, body: Sequence[Content], known: dict[str, Any] | None, title: str | None, source: str
) -> str:
    view = headline(result)
    named = title or (words.shorten(source, 80) if source else f"Votes on {words.tally(view.tasks, 'task')}")
    return assemble(named, [_read(result, source)], body, known, f"with the model {view.model}")


def assemble(named: str, about: Sequence[Content], body: Sequence[Content], known: dict[str, Any] | None, made_with: str) -> str:
    """Return a page: its title, what it is about, its sections, and the data of its script, if any."""
    css, script = style(), _load("page.js")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(css)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{named} – adjudge"),
        Markup(f"<style>{css}</style>"),
    ]
    links = [tag("li", tag("a", word, href=f"#{at}")) for at, word in CONTENTS.items() if f'id="{at}"' in join(body)]
    top = tag(
        "header",
        tag("p", tag("b", "adjudge"), " report", class_="brand"),
        tag("h1", named),
        *about,
        tag("nav", tag("ul", links), aria_label="Sections") if links else None,
    )
    version = import_module("adjudge").__version__  # by name: the package itself names what is above this layer
    made = f"Made by adjudge {version} {made_with}. "
    warning = "This page holds names and votes of the data it was made from; it loads nothing and sends nothing."
    marks = tag("svg", shapes(), width="0", height="0", aria_hidden="true", focusable="false")
    whole = [marks, top, tag("main", list(body)), tag("footer", tag("p", made + warning))]
    whole += [] if known is None else [data("page-data", known), Markup(f"<script>{script}</script>")]
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', whole), lang='en')}\n"


def style() -> str:
    """Return the style sheet: colours of the palette as variables, light and dark, and the rules of page.css."""
    light, dark = ("".join(f"--{name}:{value};" for name, value in palette.colours(mode).items()) for mode in MODES)
    rules = [f".h{step}{{background:var(--h{step});color:var(--h{step}i)}}" for step in range(palette.LEVELS + 1)]
    rules += [f".v-{verdict}{{color:var(--v-{verdict})}}" for verdict in palette.VERDICTS]
    rules += [f".c{at}{{background:var(--t{at});border-color:var(--c{at})}}" for at in range(len(palette.CATEGORIES))]
    # Print is for paper: always the light colours.
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        f"{''.join(rules)}\n{_load('page.css')}"
    )


def _load(name: str) -> str:
    return files("adjudge.report").joinpath(name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode('ascii')}"


def _read(result: Result | MultiResult, source: str) -> Markup:
    """Return what was read, and how it was understood and decided."""
    understood, facts = result.understood, result.facts
    rows: list[tuple[Content, Content]] = []
    if understood is not None:
        rows += _understood(understood)
    rows.append(("model", f"{result.model}{_settings(result)}"))
    if isinstance(facts.get("why"), str):
        rows.append(("auto chose", str(facts["why"])))
    counts = {"groups": "groups of workers", "excluded_workers": "workers left out", "excluded_votes": "votes left out"}
    rows += [(what, words.count(number)) for name, what in counts.items() if isinstance(number := facts.get(name), int)]
    if result.unvoted:
        rows.append(("tasks without votes", f"{words.count(result.unvoted)}: nothing but abstentions, so they have no label"))
    if result.ties:
        rows.append(("ties", f"{words.tally(result.ties, 'label')} picked among tied ones"))
    return join([describe_source(understood, source), fold("How it was read and decided", table(["", ""], rows))])


def describe_source(understood: Understood | None, source: str = "") -> Markup:
    """Return what was read, and as what, in a paragraph."""
    sentence = "The votes were given as arrays."
    if understood is not None:
        article = "a " if re.search("table|frame|dict", understood.format) else ""  # exports go by their names
        sentence = f"Read {f'{source} ' if source else ''}as {article}{understood}."
    return tag("p", words.shorten(sentence, 600), class_="small")


def _understood(understood: Understood) -> list[tuple[Content, Content]]:
    rows: list[tuple[Content, Content]] = [("format", understood.format)]
    rows += [(f"{role} is", words.shorten(name, 200)) for role, name in understood.columns.items()]
    rows.append(("votes that count", words.count(understood.votes)))
    known = {"abstentions": understood.abstentions, "repeated votes": understood.repeated, "gold answers": understood.gold}
    rows += [(what, words.count(number)) for what, number in known.items() if number > 0]
    skipped = understood.skipped.items()
    return rows + [(f"left out: {words.shorten(why, 200)}", words.tally(lines, "line")) for why, lines in skipped]


def _settings(result: Result | MultiResult) -> str:
    settings = (result if isinstance(result, Result) else result.results[0]).settings
    told = ", ".join(f"{name}={words.shorten(value, 40)}" for name, value in settings.items())
    return f" ({told})" if told else ""
