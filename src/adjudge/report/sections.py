"""The sections of a report on single labels, in the order in which people ask."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from adjudge.report import palette, words
from adjudge.report.findings import MAX_DISPUTED, Findings, wilson_95
from adjudge.report.html import Content, Markup, figures, fold, join, prose, scroll, section, small, table, tag
from adjudge.report.picture import Picture, Style
from adjudge.report.soft import ambiguity
from adjudge.report.svg import bar, data_table, inline, symbol
from adjudge.report.views import labels as of_labels
from adjudge.report.views import votes as of_votes
from adjudge.report.views import workers as of_workers
from adjudge.report.views.labels import DOUBT, HeadlineView, SharesView, TasksView, TraceView
from adjudge.report.views.studies import accuracies
from adjudge.report.views.votes import AgreementView, ConfusionView, waterfall
from adjudge.report.views.workers import WorkersView
from adjudge.results.explanation import Explanation
from adjudge.results.result import Result

if TYPE_CHECKING:
    from adjudge.results.promise.certify import Promise

MAX_SQUARES: Final = 40  # votes that a line shows
MAX_SIGN: Final = 3  # characters of a label that fits into a square
MAX_KEYS: Final = 12  # labels that the key names
MAX_ITEM_TEXT: Final = 300  # characters of a part of an item before it folds
MAX_TEXT: Final = 200  # characters of a name on hover
MAX_DATA: Final = 200  # lines of a folded table
GOLD_ASKED: Final = 50  # known labels that show how good the others are
MODEL_NAMES: Final = (
    *("gpt", "claude", "gemini", "gemma", "llama", "mistral", "mixtral", "qwen", "phi", "deepseek", "command", "grok", "nova"),
    *("llm", "sonnet", "haiku", "opus", "olmo", "yi-", "o1", "o3", "o4"),
)
DENSE: Final = 0.8  # votes of all that the workers could cast
MIN_PANEL_JUDGES, MAX_PANEL_JUDGES = 2, 100
MIN_PANEL_TASKS: Final = 30
MODEL_PANELS: Final = (
    "Language models that judge the same tasks err together: on public panels only half of the real errors were expected."
)
RANGE: Final = "{} to {} if it is as far off as on seven of ten public sets"
PROMISE_QUESTION: Final = "What can be promised?"
OWN, OTHER = "this report", "other models"
OWN_STYLES: Final = {OWN: Style("accent", "diamond"), OTHER: Style("grey")}


@dataclass(frozen=True)
class LabelKeys:
    """A colour and a short sign for every label, so that squares differ even without colours."""

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
        rank = self.order.get(label, len(palette.CATEGORIES))
        return f"c{rank}" if rank < len(palette.CATEGORIES) else "other"

    def square(self, label: str, who: str) -> Markup:
        """Return a vote as a small square; `who` appears on hover."""
        return tag("span", self.sign(label), class_=f"vote {self.kind(label)}", title=f"{who}: {words.shorten(label, MAX_TEXT)}")

    def key(self, labels: Iterable[str]) -> Markup | None:
        """Return what the squares mean; nothing if they say it themselves."""
        if self.is_short:
            return None
        found = sorted(set(labels), key=lambda label: self.order.get(label, 0))
        lines = [
            tag("li", tag("span", self.sign(label), class_=f"vote {self.kind(label)}"), words.shorten(label, 90))
            for label in found[:MAX_KEYS]
        ]
        rest = [tag("li", f"… and {words.count(len(found) - MAX_KEYS)} more")] if len(found) > MAX_KEYS else []
        return tag("ul", lines, rest, class_="key")


def task_lines(found: Sequence[Explanation], keys: LabelKeys, gains: Sequence[float] | None = None) -> Markup:
    """Return the lines of tasks, with the key of their labels; `gains` are right labels that one more vote may bring."""
    seen = {words.name(vote.label) for one in found for vote in one.evidence[:MAX_SQUARES]}
    worth = [math.nan] * len(found) if gains is None else gains
    return join([keys.key(seen), [_task(one, keys, gain) for one, gain in zip(found, worth, strict=True)]])


def _task(one: Explanation, keys: LabelKeys, gain: float) -> Markup:
    by_skill = sorted(one.evidence, key=lambda vote: -vote.accuracy if vote.accuracy == vote.accuracy else 0.0)
    squares = [
        keys.square(words.name(vote.label), f"{words.shorten(vote.worker, MAX_TEXT)} ({words.percent(vote.accuracy)} right)")
        for vote in by_skill[:MAX_SQUARES]
    ]
    more = len(by_skill) - len(squares)
    squares += [tag("span", f"… {words.count(more)} more", class_="small")] if more else []
    label = words.name(one.label)
    named = [] if keys.is_short else [keys.square(label, "label"), " "]
    shown = [named, words.shorten(label, 90), tag("span", " tie", class_="small") if one.tie else None]
    votes = tag("span", squares, class_="votes")
    return task_line(one.task, shown, one.confidence, votes, _inside(one, gain), hover=words.shorten(one.task, MAX_TEXT))


def task_line(
    task: object, label: Content, confidence: float, votes: Content, inside: Content, hover: str | None = None
) -> Markup:
    """Return one task: a line with its label, confidence and votes, which expands to `inside`."""
    head = tag(
        "summary",
        tag("span", words.shorten(task, 60), class_="id", title=hover),
        tag("span", label, class_="lab"),
        tag("span", bar(confidence, "doubt" if confidence < DOUBT else "accent"), words.percent(confidence), class_="conf"),
        votes,
    )
    return tag("details", head, tag("div", inside, class_="inside"), class_="task")


def item_parts(item: Mapping[str, str]) -> Markup:
    """Return what was judged, part by part, as text; what is long is folded behind its beginning."""
    parts = []
    for name, text in item.items():
        short = [tag("b", words.name(name)), ": ", words.shorten(" ".join(text.split()), MAX_ITEM_TEXT)]
        whole = [tag("p", words.name(line)) for line in text.splitlines()]
        parts.append(tag("p", *short) if len(text) <= MAX_ITEM_TEXT else fold(short, *whole))
    return join(parts)


def _inside(one: Explanation, gain: float) -> Markup:
    """Return why the task has its label: sentences, then the waterfall of log-odds."""
    if one.item:
        return join([item_parts(one.item), _inside(replace(one, item={}), gain)])
    if one.known:
        return tag("p", "This label is known (gold): its votes did not decide it.")
    if one.runner_up is None:
        return tag("p", "There is no other label that it could have.")
    runner = f"runner-up {words.quote(one.runner_up)} at {words.percent(one.probabilities[one.runner_up])}"
    label = words.quote(one.label)
    worth = f" One more vote is expected to bring {words.figure(gain)} right labels." if gain > 0 else ""
    head = f"{label} at {words.percent(one.confidence)}, {runner}. {settling(one)}{worth}"
    picture = waterfall(one)
    return join([tag("p", head), inline(picture), fold("Data", data_table(picture), class_="fold data")])


def settling(one: Explanation) -> str:
    """Return on whom the label hangs, and what would settle it, in sentences."""
    flips = [vote for vote in one.evidence if vote.flips_if_removed]
    if len(one.evidence) == 1:
        hangs = "Nobody else has voted on it."
    elif one.is_opaque:
        hangs = "What a changed vote would do is not known for a model of your own."
    elif len(flips) == 1:
        hangs = f"Without the vote of {words.shorten(flips[0].worker)} it would have another label."
    elif flips:
        hangs = f"Without any one of {words.count(len(flips))} votes it would have another label."
    else:
        hangs = "No single vote could be missing and change the label."
    if one.more_votes is None:
        return f"{hangs} More votes of average workers would not bring it to {words.percent(one.settled)}."
    if not one.more_votes:
        return hangs
    votes = words.tally(one.more_votes, "more vote")
    return f"{hangs} If the label is right, about {votes} of average workers would bring it to {words.percent(one.settled)}."


def trust(found: Findings) -> Markup:
    """Return the section that says whether labels can be trusted."""
    view, evaluation = of_labels.headline(found.result), found.evaluation
    cards = [(words.tally(view.tasks, "task").split(" ", 1)[1], words.count(view.tasks), size_of(view)), wrong_card(view)]
    lead = f"{view.sentence} {_advice(found)}".strip()
    if evaluation is not None:
        low, high = wilson_95(evaluation.correct, evaluation.tasks)
        span = f"{words.percent(low)} to {words.percent(high)}"
        cards.insert(
            0, ("accuracy", words.percent(evaluation.accuracy), f"{span}, on {words.tally(evaluation.tasks, 'task')} with truth")
        )
        measured = (
            f"{words.percent(evaluation.accuracy)} of {words.tally(evaluation.tasks, 'label')} with truth are right ({span})"
        )
        lead = f"{words.sentence(measured)} By the votes alone: {view.sentence[0].lower()}{view.sentence[1:]}"
    if view.effective_votes == view.effective_votes:
        behind = f"of {words.figure(view.votes_per_task)} votes; shared errors take the rest"
        cards.append(("effective votes per task", words.figure(view.effective_votes), behind))
    how = (
        "Confidence is the probability that a label is right, judged from other tasks and from the errors that workers share. "
        "Its sum says how many labels are wrong. The range is not an interval: it is how far such sums were from the truth on "
        "public sets of votes."
    )
    return trust_section(view, cards, found.tasks, found.tasks.sentence, how, lead)


def _advice(found: Findings) -> str:
    """Return how to measure the labels if no gold was given; with a warning for panels of language models."""
    if found.is_gold.any() or not found.result.votes.n_tasks:
        return ""
    remedy = f"{GOLD_ASKED} known labels would show it: gold=… with calibrate=True (--gold gold.csv --calibrate)."
    if is_model_panel(found.result):
        return f"{MODEL_PANELS} {remedy}"
    return f"This is an estimate from the votes alone. {remedy}"


def is_model_panel(result: Result) -> bool:
    """Return whether these look like language models that judge every task: such panels err together, and no vote shows it."""
    votes = result.votes
    if votes.n_tasks < MIN_PANEL_TASKS or not MIN_PANEL_JUDGES <= votes.n_workers <= MAX_PANEL_JUDGES:
        return False
    if len(votes) < DENSE * votes.n_tasks * votes.n_workers:
        return False
    named = sum(any(word in name.lower() for word in MODEL_NAMES) for name in votes.workers.texts())
    return 2 * named >= votes.n_workers


def trust_section(
    view: HeadlineView, cards: list[tuple[str, str, str]], tasks: TasksView, sentence: str, how: str, lead: str = ""
) -> Markup:
    """Return the first section: figures as cards, and the spread of confidence; `lead` is its answer, by default the view's."""
    spread = tasks.picture(with_list=False)
    body: list[Content] = [figures(cards)]
    if view.tasks > 1:
        body += [tag("p", sentence), inline(spread)]
    return section("trust", of_labels.TRUST, lead or view.sentence, *body, how=how, data=data_table(spread), lead=True)


def size_of(view: HeadlineView) -> str:
    """Return how many votes, workers and labels there are."""
    what = words.tally(view.labels, "label" if view.noun == "label" else "option")
    return f"{words.tally(view.votes, 'vote')} by {words.tally(view.workers, 'worker')}, {what}"


def wrong_card(view: HeadlineView) -> tuple[str, str, str]:
    """Return how many labels are expected to be wrong, with what that was worth elsewhere."""
    behind = f"{words.percent(view.wrong_share)} of them"
    if view.wrong_range is not None and view.expected_wrong >= 1:
        behind += "; " + RANGE.format(*(words.figure(end) for end in view.wrong_range))
    elif not view.is_honest:
        behind += "; the model's own posterior, which is too sure"
    return f"expected wrong {view.noun}s", words.figure(view.expected_wrong), behind


def workers(view: WorkersView, real: dict[int, tuple[int, int]], noun: str = "vote") -> Markup:
    """Return the section of the workers: the picture, the one that is looked at, and the list.

    `real` are right votes and votes with truth by code.
    """
    where = "the most accurate first" if view.is_level else "further right with more votes, higher with better accuracy"
    how = (
        f"A dot is a worker, {where}. Accuracy is estimated from all votes; the thin line is its 90% interval. The dashed line "
        "is the accuracy of guessing at the rates at which labels are given. A verdict says what the votes prove, not what "
        "somebody meant."
    )
    panel = tag("div", class_="detail onlyjs", id="worker-detail", aria_live="polite")
    choose = "Choose a worker: click on a dot, press Enter on one, or take a name from the list."
    pick = tag("p", choose, class_="small onlyjs")
    body: list[Content] = [inline(view.picture()), pick, panel, _search(), _list(view, real, noun)]
    rest = len(view.frame) - len(view.notable)
    if rest > 0:
        listed = f"The list has the {words.count(len(view.notable))} workers to look at first, or with most votes;"
        where = "`result.workers` or `--workers workers.csv`, their confusion in `result.confusion(worker)`"
        body.append(small(f"{listed} {words.count(rest)} more are in {where}."))
    return section("workers", of_workers.QUESTION, view.sentence, *body, how=how)


def _search() -> Markup:
    label = tag("label", "Find a worker", for_="worker-search")
    field = tag("input", type="search", id="worker-search", autocomplete="off", spellcheck="false")
    return tag("div", label, field, tag("span", id="worker-hint", class_="small hint", role="status"), class_="search onlyjs")


def _list(view: WorkersView, real: dict[int, tuple[int, int]], noun: str) -> Markup:
    heads = ["worker", "verdict", f"{noun}s", "accuracy", "90% interval", *(["by truth"] if real else []), "why"]
    lines = []
    for row in view.notable.iter_rows(named=True):
        who, code_ = row["worker"], row["code"]
        name = tag("span", words.shorten(who, 40), class_="who", data_w=code_, title=words.shorten(who, MAX_TEXT))
        known = row["accuracy_low"] is not None
        span = f"{words.percent(row['accuracy_low'])} to {words.percent(row['accuracy_high'])}" if known else "–"
        right = "–" if row["accuracy"] is None else words.percent(row["accuracy"])
        cells: list[Content] = [_badge(row["verdict"]), words.count(row["votes"]), right, span]
        if real:
            hits, seen = real.get(code_, (0, 0))
            cells.append(f"{words.percent(hits / seen)} of {words.count(seen)}" if seen else "–")
        numbers = [tag("td", cell, class_="n" if at else None) for at, cell in enumerate(cells)]
        why = tag("td", "" if row["why"] is None else words.shorten(row["why"], 400), class_="why")
        lines.append(tag("tr", tag("th", name, scope="row"), numbers, why, data_w=code_))
    head = [tag("th", what, scope="col", class_="n" if 1 < at < len(heads) - 1 else None) for at, what in enumerate(heads)]
    whole = tag("table", tag("thead", tag("tr", head)), tag("tbody", lines), class_="wide", id="worker-list")
    return scroll(whole, "Workers, those to look at first", class_="list")


def _badge(verdict: str | None) -> Markup | None:
    """Return a verdict with its mark."""
    if verdict is None:
        return None
    return tag("span", symbol(Style(f"v-{verdict}", palette.VERDICTS[verdict].shape)), verdict, class_="badge")


def _show(identity: str, question: str, answer: str, picture: Picture, *more: Content, how: str) -> Markup:
    """Return a section of one picture, with its data as a table."""
    return section(identity, question, answer, inline(picture), *more, how=how, data=data_table(picture))


def crowd(view: ConfusionView) -> Markup:
    """Return the section on which labels the crowd confuses."""
    what = "the true label" if view.against == "the truth" else "the label that was chosen"
    how = (
        f"A row holds all votes on tasks of one label ({what}); its cells are the shares of the labels that were given, and on "
        "the right stands how many votes that are. Outlined cells are right votes."
    )
    more = None if view.is_matrix else small(f"Of {words.count(len(view.labels))} labels the pairs that most votes confuse.")
    return _show("confusion", "What does the crowd confuse?", view.sentence, view.picture(), more, how=how)


def balance(view: SharesView) -> Markup:
    """Return the section of class balance, before and after."""
    how = (
        "The ring is a label's share of the votes, the dot its share of the labels that were chosen. They differ where workers "
        "give a label too freely, or too seldom, and the model has seen it."
    )
    rest = len(view.frame) - len(view.top)
    more = small(f"… and {words.count(rest)} more: `result.priors` has all.") if rest > 0 else None
    return _show("balance", of_labels.SHARES, view.sentence, view.picture(), more, how=how)


def doubts(found: Findings) -> Markup:
    """Return the section of the tasks in doubt, with every vote and its contribution."""
    view, names = found.tasks, found.result.votes.labels.texts()
    shares = of_labels.shares(found.result).frame["label"].to_list()
    keys = LabelKeys({label: rank for rank, label in enumerate(shares or names)})
    body: list[Content] = []
    listed = [found.explanations[code] for code in found.doubtful]
    if listed:
        body += [
            tag("h3", "Where one more vote is worth most" if max(found.doubtful.values()) > 0 else "Least certain"),
            task_lines(listed, keys, list(found.doubtful.values())),
        ]
    again = [found.explanations[code] for code in view.disputed[:MAX_DISPUTED].tolist()]
    if again and view.n_tasks > len(listed):
        body += [tag("h3", "Most disputed: the labels that most votes speak against"), task_lines(again, keys)]
    if not listed:
        body.append(small("Every label is certain."))
    left = view.n_tasks - len(found.explanations)
    if left > 0:
        every = f"{words.count(left)} more tasks: `-o labels.csv` or `result.labels` has all of them with their confidence,"
        body.append(small(f"{every} `result.explain(task)` says why of any, `result.ask_next(100)` where to ask again."))
    how = (
        "A line is a task: its label, the confidence, and its votes as squares, those of the most accurate workers first. Open "
        "it to see what each vote added to the log-odds of the label against the runner-up: to the right for the label, to the "
        "left against it, each bar from where the one before has ended. At the line both labels are as likely; log-odds of 2.2 "
        "are nine to one, of 4.6 ninety-nine to one."
    )
    return section("tasks", of_labels.DOUBTS, _in_doubt(found) or view.sentence, *body, how=how)


def _in_doubt(found: Findings) -> str:
    """Return which task is least certain, and which label most votes speak against; empty if there is none of them."""
    view = found.tasks
    if view.n_tasks < 2 or not len(view.uncertain):
        return ""
    first = view.listed(view.uncertain[:1]).row(0, named=True)
    least = f"task {words.quote(first['task'])} is the least certain one ({words.percent(first['confidence'])})"
    if not len(view.disputed):
        return words.sentence(f"{least}; no vote speaks against the label of its task")
    most = found.explanations[int(view.disputed[0])]
    votes = words.tally(len(most.evidence), "vote")
    against = f"{words.count(int(view.against[0]))} of {votes} speak against the label of task {words.quote(most.task)}"
    return words.sentence(f"{least}; {against}")


def alike(view: AgreementView | None, reason: str) -> Markup:
    """Return the section of who answers alike; `reason` says why there is nothing to see."""
    if view is None:
        return section("agreement", of_votes.ALIKE, reason)
    if view.n_workers < 2 or not view.shared.any():
        return section("agreement", of_votes.ALIKE, view.sentence)
    shown = len(view.workers)
    remarks = []
    if shown < view.n_workers:
        rest = f"Of {words.count(view.n_workers)} workers {shown} are shown: those in rings first, then those with most votes. "
        remarks.append(small(f"{rest}`adjudge agreement VOTES --pairs pairs.csv` has all pairs."))
    if view.sampled:
        remarks.append(small("There are too many pairs of votes: some of the tasks were compared."))
    rows = [
        (words.shorten(a, 40), words.shorten(b, 40), f"{kappa:.2f}", words.percent(same), words.count(shared))
        for a, b, kappa, same, shared in view.partners(MAX_DATA)
    ]
    heads = ["worker", "and", "beyond chance", "same answer", "shared tasks"]
    data = scroll(table(heads, rows, numbers=3), "Pairs of workers, those who agree most first")
    how = (
        "A cell is how far two workers agree beyond chance (Cohen's kappa): 1 is always, 0 as guesses would, below 0 less than "
        f"that. Pale cells rest on fewer than {of_votes.FIRM} shared tasks. Workers who agree stand side by side. "
        "Outlined are rings: workers who answer alike beyond what the labels explain, as they copy, err for the same reason, or "
        "know what others do not."
    )
    return section("agreement", of_votes.ALIKE, view.sentence, inline(view.picture()), remarks, how=how, data=data)


def against_truth(found: Findings) -> list[Markup | None]:
    """Return the sections that need truth, or one that says how to see them."""
    evaluation = found.evaluation
    if evaluation is None:
        missing = "No truth was given" if found.truth is None else "The truth has none of the tasks whose label was not given"
        gain = "accuracy, whether confidence is true, and how often each worker is really right"
        return [no_truth("How good are the labels?", missing, gain)]
    low, high = wilson_95(evaluation.correct, evaluation.tasks)
    span = f"{words.percent(low)} to {words.percent(high)}"
    answer = (
        f"{words.percent(evaluation.accuracy)} of {words.tally(evaluation.tasks, 'label')} with truth are right "
        f"(95% interval {span}).{_left_out(found)}"
    )
    more = small("All models, with tests of their differences: `adjudge compare VOTES --truth truth.csv`.")
    how = "Each dot is the accuracy of a model on the same votes, with its 95% interval. The dashed line is majority vote."
    models = _show("truth", "How good are the labels?", answer, _models(found.scores), more, how=how)
    return [models, _reliability(found), _wrong(found)]


def no_truth(question: str, missing: str, gain: str) -> Markup:
    """Return the section of truth where there is none: why, and what to pass to see what it would show."""
    remedy = prose(f"{missing}: pass `--truth truth.csv` or `result.report(path, truth=…)` to see {gain}.")
    return tag("section", tag("h2", question, id="truth-title"), tag("p", remedy), id="truth", aria_labelledby="truth-title")


def _models(scores: pl.DataFrame) -> Picture:
    """Return the picture of the accuracy of models."""
    told = "; ".join(f"{model} {words.percent(accuracy)}" for model, accuracy in scores.select("model", "accuracy").rows())
    majority = scores.filter(model="mv")["accuracy"].to_list()
    named = pl.when("is_own").then(pl.format("{} (this report)", "model")).otherwise("model")
    kind = pl.when("is_own").then(pl.lit(OWN)).otherwise(pl.lit(OTHER))
    rows = scores.select("accuracy", "low", "high", model=named, kind=kind)
    return Picture(f"Accuracy by model: {told}", (accuracies(rows, OWN_STYLES, majority[0] if majority else None),))


def _left_out(found: Findings) -> str:
    """Return that truth says nothing of labels that were given; empty if none was."""
    number = 0 if found.truth is None or found.judged is None else len(found.truth) - len(found.judged)
    if not number:
        return ""
    return f" {words.tally(number, 'task')} with truth whose label was given as gold {'is' if number == 1 else 'are'} left out."


def _reliability(found: Findings) -> Markup | None:
    assert found.evaluation is not None
    view = of_labels.reliability(found.evaluation)
    if not len(view.bins):
        return None
    how = (
        "A dot is a bin of tasks of like confidence, the larger the more of them. Dots on the dashed line are as often right as "
        "confidence says; below it confidence is too sure, above it too modest."
    )
    return _show("reliability", of_labels.RELIABILITY, view.sentence, view.picture(), how=how)


def _wrong(found: Findings) -> Markup | None:
    """Return what labels are taken for: the truth against the labels that were chosen."""
    evaluation = found.evaluation
    assert evaluation is not None
    if evaluation.correct == evaluation.tasks:
        return None
    true, chosen = np.nonzero(evaluation.matrix)
    view = ConfusionView(evaluation.label_names, true, chosen, evaluation.matrix[true, chosen], None, "the truth")
    first = view.worst.row(0, named=True)
    true_name, taken_for = words.tell_apart(first["true"], first["given"])
    answer = words.sentence(
        f"most often {true_name} is taken for {taken_for}: "
        f"{words.tally(int(first['votes']), 'task')}, {words.percent(first['share'])} of these"
    )
    how = "A row holds all tasks of one true label; its cells are the shares of the labels that were chosen for them."
    picture = view.picture(columns="chosen", counted="tasks")
    return _show("errors", "Which labels are wrong?", answer, picture, how=how)


def promise_section(promise: Promise | None) -> Markup | None:
    """Return the section of what gold has certified about these labels; None if nobody has asked."""
    if promise is None:
        return None
    cards = [
        ("labels accepted", words.count(promise.accepted), f"{words.percent(promise.share)} of {words.count(promise.tasks)}"),
        ("wrong, at most", words.percent(promise.error), f"with a risk of {words.percent(promise.risk)} that more are"),
        ("gold tasks among these", words.count(promise.gold), f"of {words.count(promise.drawn)} drawn"),
        ("wrong gold tasks", words.count(promise.wrong), f"{words.count(promise.allowed)} allowed"),
    ]
    how = (
        "The gold tasks were drawn at random, and answered by a person. Accepted are the labels above the lowest confidence at "
        "which the gold has no more errors than allowed. The promise holds however bad the confidence is; it says nothing about "
        "the other labels."
    )
    body = None if promise.threshold is None else figures(cards)
    return section("promise", PROMISE_QUESTION, promise.sentence, body, how=how)


def convergence(view: TraceView) -> Markup:
    """Return the last section: whether the fit has converged."""
    if not view.iterations:
        return section("trace", of_labels.TRACE, view.sentence)
    how = "A bar is a pass over all votes, and how many labels it changed. A fit has converged where the last bars are empty."
    return _show("trace", of_labels.TRACE, view.sentence, view.picture(), how=how)


def sections(found: Findings) -> list[Markup | None]:
    """Return all sections, in order."""
    result = found.result
    why = found.workers.left_out or "Pairs of workers are compared where votes are in memory."
    return [
        trust(found),
        promise_section(result.latest_promise),
        workers(found.workers, found.real),
        crowd(found.crowd),
        balance(of_labels.shares(result)),
        doubts(found),
        ambiguity(result),
        alike(found.agreement, why),
        *against_truth(found),
        convergence(of_labels.trace(result)),
    ]
