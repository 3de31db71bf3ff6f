"""Cards of what is measured, for notebooks: evaluations, agreement, comparisons, panels, rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from adjudge.results.card import Card, Table

if TYPE_CHECKING:
    from adjudge.evaluation.agreement.coefficients import Estimate
    from adjudge.evaluation.agreement.figures import Agreement
    from adjudge.evaluation.compare.comparison import Comparison
    from adjudge.evaluation.panel.study import PanelStudy
    from adjudge.evaluation.rates.figures import Rates
    from adjudge.evaluation.sets import SetEvaluation
    from adjudge.evaluation.truth import Evaluation

FEW: Final = 8  # lines of a table


def of_evaluation(found: Evaluation) -> str:
    """Return the card of an evaluation."""
    figures = [("accuracy", found.accuracy), ("macro F1", found.macro_f1), ("tasks with truth", found.tasks)]
    warnings = []
    known = found.calibration
    if known.tasks:
        figures += [("wrong labels", known.errors), ("foretold by confidence", known.expected_errors)]
        figures.append(("calibration error", known.expected_calibration_error))
    if found.without_truth or found.without_label:
        warnings.append(f"left out: {found.without_truth} labels without truth, {found.without_label} tasks without label")
    if found.gold:
        warnings.append(f"{found.gold} labels were given as gold: accuracy without them is {found.accuracy_without_gold:.3f}")
    frame = found.per_label_frame()
    rows = frame.sort("support", descending=True, maintain_order=True).head(FEW).rows()
    table = Table("labels", frame.columns, rows, _more(len(frame), "evaluation.per_label"))
    return Card(
        repr(found), figures, tables=[table], warnings=warnings, next_steps=["evaluation.confusion", "evaluation.reliability"]
    ).html()


def of_set_evaluation(found: SetEvaluation) -> str:
    """Return the card of an evaluation of sets."""
    names = {"exact_accuracy": "exact sets", "option_accuracy": "right options", "jaccard": "Jaccard", "micro_f1": "micro F1"}
    figures = [(title, getattr(found, name)) for name, title in names.items()]
    left = found.without_truth + found.without_label
    warnings = [f"left out: {found.without_truth} sets without truth, {found.without_label} tasks without set"] if left else []
    return Card(
        repr(found), [*figures, ("tasks with truth", found.tasks)], warnings=warnings, next_steps=["evaluation.summary()"]
    ).html()


def of_agreement(found: Agreement) -> str:
    """Return the card of how far workers agree."""
    figures = [
        ("Krippendorff's alpha", _estimate(found.alpha)),
        ("percent agreement", _estimate(found.percent)),
        ("effective votes per task", f"{_estimate(found.effective_votes)} of {found.votes_per_task:.3g}"),
        ("tasks", found.tasks),
        ("workers", len(found.workers)),
    ]
    rings = [(len(ring), ", ".join(map(str, ring))) for ring in found.rings[:FEW]]
    table = Table("workers who answer alike", ("workers", "who"), rings, _more(len(found.rings), "agreement.rings"))
    against = found.errors_against
    sentences = [] if against is None else [f"errors are measured against {'the truth' if against == 'truth' else against}"]
    warnings = [f"no pairs of workers: {found.without_pairs}"] if found.without_pairs else []
    return Card(repr(found), figures, sentences, [table], warnings, ["agreement.figures", "agreement.pairs"]).html()


def of_comparison(found: Comparison) -> str:
    """Return the card of models side by side."""
    columns, rows = found.overview()
    refused = found.models_frame().filter(pl.col("refused").is_not_null()).select("model", "refused").rows()
    figures = [("advised", found.best), ("models", len(rows)), ("tasks on which they differ", found.disputed)]
    if found.judged_by is not None:
        figures.append((f"tasks with {found.judged_by}", found.judged_tasks))
    return Card(
        repr(found),
        figures,
        found.advice,
        [Table("models", columns, rows)],
        warnings=[f"{model} could not run: {why}" for model, why in refused],
        next_steps=["comparison.models", "comparison.differences", "comparison.disagreements", "comparison.plot()"],
    ).html()


def of_panel(study: PanelStudy) -> str:
    """Return the card of a study of panels."""
    whole = study.points[-1]
    kind = "accuracy" if study.measured_by == "truth" else "expected accuracy"
    what = "judges" if study.by == "judges" else "votes per task"
    figures = [
        (f"of {whole.size} {what} are enough", study.enough),
        (f"{kind} of all", whole.accuracy),
        ("effective votes of all", whole.effective_votes),
    ]
    sizes = [(one.size, one.accuracy, one.low, one.high, one.shortfall.value, one.cost) for one in study.points]
    columns = ("size", kind, "low", "high", "short of all", "cost per task")
    tables = [Table(f"panels of random {what}", columns, sizes)]
    known = [one for one in study.found if one.adds is not None]
    judges = [(study.workers[one.worker], one.word, one.adds.value if one.adds else None, one.why) for one in known[:FEW]]
    tables.append(Table("who adds most", ("worker", "", "adds", "why"), judges, _more(len(known), "study.judges")))
    return Card(
        repr(study), figures, study.sentences(), tables, next_steps=["study.judges", "study.panels", "study.best(budget=…)"]
    ).html()


def of_rates(found: Rates) -> str:
    """Return the card of shares in groups."""
    frame = found.rates_frame()
    figures = [
        ("groups", len(found.found)),
        ("tasks", sum(one.tasks for one in found.found)),
        ("known labels", found.facts["gold"]),
    ]
    names = ("group", "label", "share", "low", "high", "tasks", "method")
    table = Table("shares", names, frame.select(names).head(FEW).rows(), _more(len(frame), "rates.rates"))
    return Card(
        repr(found), figures, found.sentences(), [table], next_steps=["rates.differences", "rates.gold_needed", "rates.plot()"]
    ).html()


def _estimate(value: Estimate) -> str:
    shown = f"{float(value):.3g}"
    return shown if value.low != value.low else f"{shown} ({value.low:.3g} to {value.high:.3g})"


def _more(number: int, where: str) -> str:
    return f"… and {number - FEW} more: {where}" if number > FEW else ""
