"""The sections of a report on single labels, in the order in which people ask."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from adjudge.report import words
from adjudge.report.draw import curves, matrix
from adjudge.report.draw import tasks as draw_tasks
from adjudge.report.draw import workers as draw_workers
from adjudge.report.draw.tasks import LabelKeys
from adjudge.report.findings import MAX_DISPUTED, Findings, wilson
from adjudge.report.html import Content, Markup, scrolled, table, tag
from adjudge.report.section import code, figures, section, small
from adjudge.report.views import agreement as of_agreement
from adjudge.report.views import reliability as of_reliability
from adjudge.report.views import shares as of_shares
from adjudge.report.views import tasks as of_tasks
from adjudge.report.views import trace as of_trace
from adjudge.report.views import workers as of_workers
from adjudge.report.views.agreement import AgreementView
from adjudge.report.views.confusion import ConfusionView
from adjudge.report.views.headline import QUESTION, HeadlineView, headline
from adjudge.report.views.shares import SharesView
from adjudge.report.views.trace import TraceView
from adjudge.report.views.workers import WorkersView

MAX_DATA: Final = 200  # lines of a folded table
RANGE: Final = "such sums meant {} to {} on seven of ten public sets"


def trust(found: Findings) -> Markup:
    """Return the section that says whether labels can be trusted."""
    view, evaluation, view_tasks = headline(found.result), found.evaluation, found.tasks
    cards = [(words.counted(view.tasks, "task").split(" ", 1)[1], words.count(view.tasks), size_of(view))]
    cards.append(wrong_card(view))
    if evaluation is not None:
        low, high = wilson(evaluation.correct, evaluation.tasks)
        span = f"{words.percent(low)} to {words.percent(high)}, on {words.counted(evaluation.tasks, 'task')} with truth"
        cards.append(("accuracy", words.percent(evaluation.accuracy), span))
    if view.effective_votes == view.effective_votes:
        behind = f"of {words.figure(view.votes_per_task)}: what errors that workers share leave"
        cards.append(("effective votes per task", words.figure(view.effective_votes), behind))
    rows = [(f"{words.percent(low)} to {words.percent(high)}", words.count(n)) for low, high, n, _ in view_tasks.bins.iter_rows()]
    body: list[Content] = [figures(cards)]
    if view.tasks > 1:
        body += [tag("p", view_tasks.sentence), curves.confidence(view_tasks)]
    how = (
        "Confidence is the probability that a label is right, judged from other tasks and from the errors that workers share. "
        "Its sum says how many labels are wrong. The range is not an interval: it is how far such sums were from the truth on "
        "public sets of votes."
    )
    return section(
        "trust", QUESTION, view.sentence, *body, how=how, data=table(["confidence", "tasks"], rows, numbers=1), lead=True
    )


def size_of(view: HeadlineView) -> str:
    """Return how many votes, workers and labels there are."""
    what = words.counted(view.labels, "label" if view.noun == "label" else "option")
    return f"{words.counted(view.votes, 'vote')} by {words.counted(view.workers, 'worker')}, {what}"


def wrong_card(view: HeadlineView) -> tuple[str, str, str]:
    """Return how many labels are expected to be wrong, with what that was worth elsewhere."""
    behind = f"{words.percent(view.wrong_share)} of them"
    if view.wrong_range is not None and view.expected_wrong >= 1:
        behind += "; " + RANGE.format(*(words.figure(end) for end in view.wrong_range))
    elif not view.is_honest:
        behind += "; the model's own posterior, which is too sure"
    return f"expected wrong {view.noun}s", words.figure(view.expected_wrong), behind


def workers(found: Findings) -> Markup:
    """Return the section of the workers: the picture, the one that is looked at, and the list."""
    return workers_section(found.workers, found.real)


def workers_section(view: WorkersView, real: dict[int, tuple[int, int]], noun: str = "vote") -> Markup:
    """Return the same from a view; `real` are right votes and votes with truth by code."""
    how = (
        "A dot is a worker: to the right those with many votes, above those who are right more often. Accuracy is expected from "
        "all votes; the thin line is where it is with a probability of 90%. The dashed line is who guesses at the rates at which "
        "labels are given. A verdict says what the votes prove, not what somebody meant."
    )
    panel = tag("div", class_="detail onlyjs", id="worker-detail", aria_live="polite")
    choose = "Choose a worker: click on a dot, press Enter on one, or take a name from the list."
    pick = tag("p", choose, class_="small onlyjs")
    body: list[Content] = [draw_workers.draw(view), pick, panel, _search(), _list(view, real, noun)]
    rest = len(view.frame) - len(view.notable)
    if rest > 0:
        body.append(
            small(
                f"The list has the {words.count(len(view.notable))} workers to look at first, or with most votes; "
                f"{words.count(rest)} more are in ",
                code("result.workers"),
                " or ",
                code("--workers workers.csv"),
                ", their confusion in ",
                code("result.confusion(worker)"),
                ".",
            )
        )
    return section("workers", of_workers.QUESTION, view.sentence, *body, how=how)


def _search() -> Markup:
    label = tag("label", "Find a worker", for_="worker-search")
    field = tag("input", type="search", id="worker-search", autocomplete="off", spellcheck="false")
    return tag("div", label, field, tag("span", id="worker-hint", class_="small hint", role="status"), class_="search onlyjs")


def _list(view: WorkersView, real: dict[int, tuple[int, int]], noun: str) -> Markup:
    heads = ["worker", "verdict", f"{noun}s", "accuracy", "90% interval", *(["by truth"] if real else []), "why"]
    lines = []
    for row in view.notable.iter_rows(named=True):
        name = tag(
            "span",
            words.shortened(row["worker"], 40),
            class_="who",
            data_w=row["code"],
            title=words.shortened(row["worker"], 200),
        )
        known = row["accuracy_low"] is not None
        span = f"{words.percent(row['accuracy_low'])} to {words.percent(row['accuracy_high'])}" if known else "–"
        right = "–" if row["accuracy"] is None else words.percent(row["accuracy"])
        cells: list[Content] = [draw_workers.badge(row["verdict"]), words.count(row["votes"]), right, span]
        if real:
            hits, seen = real.get(row["code"], (0, 0))
            cells.append(f"{words.percent(hits / seen)} of {words.count(seen)}" if seen else "–")
        numbers = [tag("td", cell, class_="n" if at else None) for at, cell in enumerate(cells)]
        why = tag("td", "" if row["why"] is None else words.shortened(row["why"], 400), class_="why")
        lines.append(tag("tr", tag("th", name, scope="row"), numbers, why, data_w=row["code"]))
    head = [tag("th", what, scope="col", class_="n" if 1 < at < len(heads) - 1 else None) for at, what in enumerate(heads)]
    whole = tag("table", tag("thead", tag("tr", head)), tag("tbody", lines), class_="wide", id="worker-list")
    return scrolled(whole, "Workers, those to look at first", class_="list")


def crowd(found: Findings) -> Markup:
    """Return the section of what the crowd confuses."""
    return crowd_section(found.crowd)


def crowd_section(view: ConfusionView) -> Markup:
    """Return the same from a view."""
    what = "the true label" if view.against == "the truth" else "the label that was chosen"
    how = (
        f"A row holds all votes on tasks of one label ({what}); its cells are the shares of the labels that were given, and on "
        "the right stands how many votes that are. Outlined cells are right votes."
    )
    more = None if view.is_matrix else small(f"Of {words.count(len(view.labels))} labels the pairs that most votes confuse.")
    return section(
        "confusion", "What does the crowd confuse?", view.sentence, matrix.confusion(view), more, how=how, data=_worst(view)
    )


def _worst(view: ConfusionView) -> Markup | None:
    return matrix.pairs(view) if view.is_matrix and len(view.worst) else None


def balance(view: SharesView) -> Markup:
    """Return the section of class balance, before and after."""
    how = (
        "The ring is a label's share of the votes, the dot its share of the labels that were chosen. They differ where workers "
        "give a label too freely, or too seldom, and the model has seen it."
    )
    rest = len(view.frame) - len(view.top)
    more = None
    if rest > 0:
        more = small(f"… and {words.count(rest)} more: ", code("result.priors"), " has all.")
    return section("balance", of_shares.QUESTION, view.sentence, curves.shares(view), more, how=how)


def doubts(found: Findings) -> Markup:
    """Return the section of the tasks in doubt, with every vote and what it contributed."""
    view, names = found.tasks, found.result.votes.labels.texts()
    shares = of_shares.shares(found.result).frame["label"].to_list()
    keys = LabelKeys({label: rank for rank, label in enumerate(shares or names)})
    body: list[Content] = []
    listed = [found.explanations[code] for code in found.doubtful]
    if listed:
        body += [
            tag("h3", "Where one more vote is worth most" if max(found.doubtful.values()) > 0 else "Least certain"),
            draw_tasks.tasks(listed, keys, list(found.doubtful.values())),
        ]
    again = [found.explanations[code] for code in view.disputed[:MAX_DISPUTED].tolist()]
    if again and view.n_tasks > len(listed):
        body += [
            tag("h3", "Most disputed: the labels that most votes speak against"),
            draw_tasks.tasks(again, keys),
        ]
    if not listed:
        body.append(small("Every label is certain."))
    left = view.n_tasks - len(found.explanations)
    if left > 0:
        body.append(
            small(
                f"{words.count(left)} more tasks: ",
                code("-o labels.csv"),
                " or ",
                code("result.labels"),
                " has all of them with their confidence, ",
                code("result.explain(task)"),
                " says why of any, ",
                code("result.ask_next(100)"),
                " where to ask again.",
            )
        )
    how = (
        "A line is a task: its label, the confidence, and its votes as squares, those of the most accurate workers first. Open "
        "it to see what each vote added to the log-odds of the label against the runner-up: to the right for the label, to the "
        "left against it, each bar from where the one before has ended. At the line both labels are as likely; log-odds of 2.2 "
        "are nine to one, of 4.6 ninety-nine to one."
    )
    return section("tasks", of_tasks.QUESTION, _in_doubt(found) or view.sentence, *body, how=how)


def _in_doubt(found: Findings) -> str:
    """Return which task is least certain, and which label most votes speak against; empty where there is none of them."""
    view = found.tasks
    if view.n_tasks < 2 or not len(view.uncertain):
        return ""
    first = view.listed(view.uncertain[:1]).row(0, named=True)
    least = f"task {words.quoted(first['task'])} is the least certain one ({words.percent(first['confidence'])})"
    if not len(view.disputed):
        return words.sentence(f"{least}; no vote speaks against the label of its task")
    most = found.explanations[int(view.disputed[0])]
    votes = words.counted(len(most.evidence), "vote")
    against = f"{words.count(int(view.against[0]))} of {votes} speak against the label of task {words.quoted(most.task)}"
    return words.sentence(f"{least}; {against}")


def alike(view: AgreementView | None, reason: str) -> Markup:
    """Return the section of who answers alike; `reason` says why there is nothing to see."""
    if view is None:
        return section("agreement", of_agreement.QUESTION, reason)
    if view.n_workers < 2 or not view.shared.any():
        return section("agreement", of_agreement.QUESTION, view.sentence)
    shown = len(view.workers)
    remarks = []
    if shown < view.n_workers:
        rest = f"Of {words.count(view.n_workers)} workers {shown} are shown: those in rings first, then those with most votes. "
        remarks.append(small(rest, code("adjudge agreement VOTES --pairs pairs.csv"), " has all pairs."))
    if view.sampled:
        remarks.append(small("There are too many pairs of votes: some of the tasks were compared."))
    rows = [
        (words.shortened(a, 40), words.shortened(b, 40), f"{kappa:.2f}", words.percent(same), words.count(shared))
        for a, b, kappa, same, shared in matrix.partners(view, MAX_DATA)
    ]
    heads = ["worker", "and", "beyond chance", "same answer", "shared tasks"]
    data = scrolled(table(heads, rows, numbers=3), "Pairs of workers, those who agree most first")
    how = (
        "A cell is how far two workers agree beyond chance (Cohen's kappa): 1 is always, 0 as guesses would, below 0 less than "
        "that. Workers who agree stand side by side. Outlined are rings: workers who answer alike beyond what the labels "
        "explain, as they copy, err for the same reason, or know what others do not."
    )
    return section("agreement", of_agreement.QUESTION, view.sentence, matrix.agreement(view), remarks, how=how, data=data)


def against_truth(found: Findings) -> list[Markup | None]:
    """Return the sections that need truth, or one that says how to see them."""
    evaluation = found.evaluation
    if evaluation is None:
        missing = "No truth was given" if found.truth is None else "The truth has none of the tasks whose label was not given"
        remedy = [f"{missing}: pass ", code("--truth truth.csv"), " or ", code("result.report(path, truth=…)")]
        text = tag("p", *remedy, " to see accuracy, whether confidence is true, and how often each worker is really right.")
        return [
            tag(
                "section",
                tag("h2", "How good are the labels?", id="truth-title"),
                text,
                id="truth",
                aria_labelledby="truth-title",
            )
        ]
    low, high = wilson(evaluation.correct, evaluation.tasks)
    span = f"{words.percent(low)} to {words.percent(high)}"
    answer = (
        f"{words.percent(evaluation.accuracy)} of {words.counted(evaluation.tasks, 'label')} with truth are right "
        f"(95% interval {span}).{_left_out(found)}"
    )
    scores = found.scores
    rows = [(one.model, words.percent(one.accuracy), f"{words.percent(one.low)} to {words.percent(one.high)}") for one in scores]
    more = small("All models, with tests of their differences: ", code("adjudge compare VOTES --truth truth.csv"), ".")
    how = "Each dot is the accuracy of a model on the same votes, with its 95% interval. The dashed line is majority vote."
    data = table(["model", "accuracy", "95% interval"], rows, numbers=2)
    models = section("truth", "How good are the labels?", answer, curves.models(scores), more, how=how, data=data)
    return [models, _reliability(found), _wrong(found)]


def _left_out(found: Findings) -> str:
    """Return that truth says nothing of labels that were given; empty where none was."""
    number = 0 if found.truth is None or found.judged is None else len(found.truth) - len(found.judged)
    if not number:
        return ""
    return f" {words.counted(number, 'task')} with truth whose label was given as gold {'is' if number == 1 else 'are'} left out."


def _reliability(found: Findings) -> Markup | None:
    assert found.evaluation is not None
    view = of_reliability.reliability(found.evaluation)
    if not len(view.bins):
        return None
    rows = [
        (f"{words.percent(low)} to {words.percent(high)}", words.count(n), words.percent(mean), words.percent(right))
        for low, high, n, mean, right in view.bins.iter_rows()
    ]
    how = (
        "A dot is a bin of tasks of like confidence, the larger the more of them. Dots on the dashed line are as often right as "
        "confidence says; below it confidence is too sure, above it too modest."
    )
    data = table(["confidence", "tasks", "mean", "right"], rows, numbers=3)
    return section("reliability", of_reliability.QUESTION, view.sentence, curves.reliability(view), how=how, data=data)


def _wrong(found: Findings) -> Markup | None:
    """Return what labels are taken for: the truth against the labels that were chosen."""
    evaluation = found.evaluation
    assert evaluation is not None
    if evaluation.correct == evaluation.tasks:
        return None
    true, chosen = np.nonzero(evaluation.matrix)
    view = ConfusionView(evaluation.label_names, true, chosen, evaluation.matrix[true, chosen], None, "the truth")
    first = view.worst.row(0, named=True)
    true_name, taken_for = words.apart(first["true"], first["given"])
    answer = words.sentence(
        f"most often {true_name} is taken for {taken_for}: "
        f"{words.counted(int(first['votes']), 'task')}, {words.percent(first['share'])} of these"
    )
    how = "A row holds all tasks of one true label; its cells are the shares of the labels that were chosen for them."
    drawn = matrix.confusion(view, columns="chosen", counted="tasks")
    return section("errors", "Which labels are wrong?", answer, drawn, how=how)


def convergence(view: TraceView) -> Markup:
    """Return the last section: whether the fit has converged."""
    if not view.iterations:
        return section("trace", of_trace.QUESTION, view.sentence)
    rows = [
        (str(iteration), phase, _figure(change), _figure(likelihood), words.count(changed))
        for iteration, phase, change, likelihood, changed in view.frame.iter_rows()
    ]
    heads = ["iteration", "phase", "change", "log likelihood", "labels changed"]
    data = scrolled(table(heads, rows, numbers=3), "The iterations of the fit")
    how = "A bar is a pass over all votes, and how many labels it changed. A fit has converged where the last bars are empty."
    return section("trace", of_trace.QUESTION, view.sentence, curves.trace(view), how=how, data=data)


def _figure(value: Any) -> str:
    return "–" if value is None or value != value else f"{value:.4g}"


def sections(found: Findings) -> list[Markup]:
    """Return all sections, in order."""
    result = found.result
    why = found.workers.left_out or "Pairs of workers are compared where votes are in memory."
    parts = [
        trust(found),
        workers(found),
        crowd(found),
        balance(of_shares.shares(result)),
        doubts(found),
        alike(found.agreement, why),
        *against_truth(found),
        convergence(of_trace.trace(result)),
    ]
    return [part for part in parts if part is not None]
