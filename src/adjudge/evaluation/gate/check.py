"""One call that checks votes against requirements: each holds, fails, or is inconclusive and says what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Unpack

import numpy as np
import polars as pl

from adjudge.data import options
from adjudge.data.options import DEFAULTS, ModelName, Number, ReadOptions, Rules
from adjudge.data.votes import Understood, Votes
from adjudge.errors import InputError, OptionError, itemize, list_values, make_visible
from adjudge.evaluation.clusters import ClusterSource, read_clusters
from adjudge.evaluation.gate.figures import KNOWN_LABELS, Figure, Missing, VoteFigures, figures_of, judge, subtract
from adjudge.evaluation.gate.requirements import (
    AT_LEAST,
    COMPARED,
    FAILS,
    INCONCLUSIVE,
    IS_SHARE,
    VERDICT_HOLDS,
    Requirement,
    Verdict,
    parse_requirement,
)
from adjudge.evaluation.inputs import TaskValues
from adjudge.io.frames import column
from adjudge.io.read import as_votes
from adjudge.io.reading import Reading
from adjudge.io.sources import Source
from adjudge.io.workers import load_votes
from adjudge.models.base import Model

RULES: Final[Rules] = {
    "level": Number(least=0.5, most=0.999),
    "resamples": Number(least=100, most=1_000_000, whole=True),
    "seed": Number(least=0, whole=True),
}
NO_WORSE: Final = Number(least=0, most=1)
EXIT_CODES: Final[Mapping[Verdict, int]] = {VERDICT_HOLDS: 0, FAILS: 3, INCONCLUSIVE: 4}
MAX_LISTED_TASKS: Final = 5  # tasks to label in a sentence


@dataclass(frozen=True)
class RequirementFinding:
    """What was found about one requirement."""

    requirement: Requirement
    figure: Figure
    verdict: Verdict
    missing: Missing | None = None  # what would decide, if nothing is decided
    margin: float | None = None  # of a comparison with a baseline

    @property
    def wanted(self) -> str:
        """What is required, as text."""
        if self.margin is None:
            return str(self.requirement)
        unit = f"{100 * self.margin:g} points" if IS_SHARE[self.requirement.figure] else f"{self.margin:g}"
        return f"{self.requirement.name} no worse than before by {unit}"

    @property
    def measured(self) -> str:
        """The figure with its interval, as text."""
        found = self.figure.estimate
        show = self.requirement.show if self.margin is None else self.requirement.show_difference
        if found != found:
            return "not measured"
        unit = " points" if self.margin is not None and IS_SHARE[self.requirement.figure] else ""
        interval = "" if found.low == found.high else f" ({show(found.low)} to {show(found.high)})"
        return f"{'at most ' * self.figure.is_upper}{show(float(found))}{unit}{interval}"

    def sentence(self) -> str:
        """Return the verdict with its reason."""
        told = f"{self.verdict}: {self.wanted}; {self.measured}, {self.figure.basis}"
        return told if self.missing is None else f"{told}; {self.missing}"

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain Python values, ready for JSON."""
        need, found = self.requirement, self.figure.estimate
        return {
            "requirement": self.wanted,
            "figure": need.name,
            "relation": need.relation,
            "threshold": need.threshold if self.margin is None else None,
            "no_worse": self.margin,
            **found.summary(),
            "is_upper_bound": self.figure.is_upper,
            "basis": self.figure.basis,
            "verdict": self.verdict,
            "missing": None
            if self.missing is None
            else {"what": self.missing.what, "more": self.missing.more, "why": str(self.missing)},
        }


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CheckResult:
    """Whether votes meet requirements. `verdict` is holds, fails or inconclusive; `print` gives a sentence per requirement.

    Examples
    --------
    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=300, workers=9, labels=2, skill=0.9, seed=1)
    >>> checked = adj.check(crowd.votes, ["votes_per_task>=3", "accuracy>=0.8"], gold=crowd.truth)
    >>> checked.verdict, checked.exit_code
    ('holds', 0)
    >>> print(adj.check(crowd.votes, "accuracy>=0.8"))
    inconclusive: accuracy >= 80.0%; not measured, no known labels; confidence expects 95.8%, which only known labels can
    check; 50 more known labels of random tasks would decide
    label these 50 tasks, drawn at random: ...

    """

    findings: Sequence[RequirementFinding]
    level: float
    to_label: tuple[object, ...]  # tasks drawn at random, whose known labels would decide what is open
    understood: Understood | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict on all requirements: one that fails decides, and then one that is inconclusive."""
        verdicts = {finding.verdict for finding in self.findings}
        return next(verdict for verdict in (FAILS, INCONCLUSIVE, VERDICT_HOLDS) if verdict in verdicts)

    @property
    def holds(self) -> bool:
        """Whether every requirement holds."""
        return self.verdict == VERDICT_HOLDS

    @property
    def exit_code(self) -> int:
        """The exit code of `adjudge check`: 0 if all hold, 3 if one fails, 4 if something is missing."""
        return EXIT_CODES[self.verdict]

    def __repr__(self) -> str:
        return f"CheckResult({self.verdict}, {len(self.findings)} requirements)"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """Return a sentence per requirement, and one on what to label."""
        out = [finding.sentence() for finding in self.findings]
        if self.to_label:
            names = itemize((make_visible(str(task)) for task in self.to_label), MAX_LISTED_TASKS)
            out.append(f"label these {len(self.to_label)} tasks, drawn at random: {names}")
        return out

    def markdown(self) -> str:
        """Return a summary in Markdown, as a CI job posts it."""
        lines = [f"### adjudge check: {self.verdict}", "", "| | required | measured | why |", "|---|---|---|---|"]
        for finding in self.findings:
            why = finding.figure.basis if finding.missing is None else f"{finding.figure.basis}; {finding.missing}"
            cells = (finding.verdict, finding.wanted, finding.measured, why)
            lines.append("| " + " | ".join(_escape_markdown(cell) for cell in cells) + " |")
        lines += ["", f"{100 * self.level:g}% intervals; a requirement holds or fails only if the whole interval says so."]
        if self.to_label:
            names = ", ".join(f"`{_escape_markdown(str(task))}`" for task in self.to_label[:MAX_LISTED_TASKS])
            more = "" if len(self.to_label) <= MAX_LISTED_TASKS else ", …"
            lines += ["", f"Label {len(self.to_label)} tasks, drawn at random: {names}{more}"]
        return "\n".join(lines) + "\n"

    def to_label_frame(self) -> pl.DataFrame:
        """Return the tasks to label as a polars frame."""
        return pl.DataFrame({"task": pl.Series([str(task) for task in self.to_label], dtype=pl.String)})

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain Python values, ready for JSON."""
        return {
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "level": self.level,
            "requirements": [finding.to_dict() for finding in self.findings],
            "to_label": [str(task) for task in self.to_label],
        }


def _escape_markdown(text: str) -> str:
    """Return text from data as a cell of a table: on one line, without markup."""
    shown = make_visible(text).replace("\\", "\\\\")
    for mark in "|`<>*_[]":
        shown = shown.replace(mark, f"&#{ord(mark)};")
    return " ".join(shown.split())


def check(
    source: Votes | Source,
    require: str | Sequence[str],
    *,
    gold: Source | None = None,
    baseline: Votes | Source | None = None,
    baseline_gold: Source | None = None,
    no_worse: float | None = None,
    cluster: ClusterSource | None = None,
    level: float = 0.9,
    model: ModelName | Model = DEFAULTS.model,
    resamples: int = 1000,
    seed: int = 0,
    **reading: Unpack[ReadOptions],
) -> CheckResult:
    """Check votes against requirements, as a gate before a release.

    A requirement holds if the whole interval of its figure meets the threshold, and fails if the whole interval misses it.
    Otherwise it is inconclusive, and the check says how many known labels or tasks would decide it.

    Parameters
    ----------
    source : Votes or anything that `adj.read` takes
        The votes.
    require : str or sequence of str
        Figures with limits: `accuracy>=0.9` (of the labels, measured by known ones), `rate(pass)>=80%` (the true share of a
        label), `alpha>=0.6`, `effective_votes>=2`, `votes_per_task>=3`, `tasks>=100`; also with `<=`. A figure without a limit is
        only compared with the baseline.
    gold : source of known labels, optional
        Known labels of random tasks, which the fit does not learn from.
    baseline : Votes or source, optional
        Earlier votes: required accuracy, rates and alpha must be no worse than theirs by more than `no_worse`.
    baseline_gold : source of known labels, optional
        Known labels for the baseline; by default those of `gold`, except for rates of tasks that both sets have, whose answers
        may differ.
    no_worse : float, optional
        The margin of the comparison, in the unit of the figure: 0.02 of a share is 2 points.
    cluster : dict, source or column, optional
        The prompt, document or conversation of each task, as for `adj.rates`.
    level : float
        The level of intervals. One end decides, so that at 0.9 a requirement that is just missed holds in 5% of checks.
    model : str or Model
        The model whose labels are measured.
    resamples : int
        Bootstraps for the intervals of alpha and effective votes.
    seed : int
        Seed of ties, resamples and the tasks to label.
    **reading
        The options of `adj.read`, for both sets of votes.

    Returns
    -------
    CheckResult
        The verdicts, and the tasks to label.

    Examples
    --------
    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=300, workers=9, labels=2, skill=0.9, seed=1)
    >>> adj.check(crowd.votes, ["accuracy>=0.9", "alpha>=0.2"], gold=crowd.truth)
    CheckResult(holds, 2 requirements)

    """
    options.check({"level": level, "resamples": resamples, "seed": seed}, RULES)
    wanted = [require] if isinstance(require, str) else list_values("require", require, "['accuracy>=0.9']")
    needs = [parse_requirement(text) for text in wanted]
    _check_options(needs, baseline, baseline_gold, no_worse)
    drawn: Any = {"level": float(level), "resamples": resamples, "seed": seed}

    def read_figures(votes_source: Any, known: Source | None) -> tuple[VoteFigures, Votes]:
        how = Reading.of(reading)
        every_vote = as_votes(votes_source, how, study="check")
        votes = load_votes(every_vote)
        if not votes.n_tasks or not len(votes):
            raise InputError("there are no votes to check")
        clusters = read_clusters(TaskValues.of(votes_source, votes, how), cluster)
        return figures_of(votes, known, clusters, model, **drawn), every_vote

    new, every_vote = read_figures(source, gold)
    findings = [_find(need, new.measure(need)) for need in needs if need.threshold is not None]
    if baseline is not None:
        before = baseline_gold if baseline_gold is not None else gold
        old, _ = read_figures(baseline, before)
        shared = bool(set(old.votes.tasks.texts()) & set(new.votes.tasks.texts()))
        for need in (need for need in needs if need.figure in COMPARED):
            apart = need.figure == "rate" and shared and baseline_gold is None and gold is not None
            against = read_figures(baseline, None)[0] if apart else old
            findings.append(_compare(need, subtract(need, new, against), float(no_worse or 0.0)))
    return CheckResult(
        findings=tuple(findings), level=float(level), to_label=_draw_tasks(new, findings, seed), understood=every_vote.understood
    )


def _check_options(needs: Sequence[Requirement], baseline: object, baseline_gold: object, no_worse: float | None) -> None:
    if not needs:
        raise OptionError("require names no figure: give one, like require=['accuracy>=0.9'] (--require 'accuracy>=0.9')")
    if baseline is None:
        for name, value in (("no_worse", no_worse), ("baseline_gold", baseline_gold)):
            if value is not None:
                raise OptionError(f"{name} is given without baseline: say which votes to compare with")
        for need in needs:
            if need.threshold is None:
                raise OptionError(f"require names {need.name} without a limit: give one, like '{need.name}>=0.9', or a baseline")
    for need in needs:
        if need.threshold is None and need.figure not in COMPARED:
            raise OptionError(
                f"require names {need.name} without a limit, and only {itemize(COMPARED)} are compared with a baseline"
            )
    if no_worse is not None and not NO_WORSE.accepts(no_worse):
        raise OptionError(f"no_worse is {no_worse!r}: give a number of at least 0 and at most 1, like 0.02 for 2 points")


def _find(need: Requirement, figure: Figure) -> RequirementFinding:
    verdict = judge(need, figure)
    assert need.threshold is not None
    return RequirementFinding(need, figure, verdict, figure.plan(need, need.threshold) if verdict == INCONCLUSIVE else None)


def _compare(need: Requirement, difference: Figure, margin: float) -> RequirementFinding:
    """Return whether a figure has become worse: smaller, or larger if it is required to be at most something."""
    limit = -margin if need.relation == AT_LEAST else margin
    verdict = need.judge(difference.estimate, limit)
    missing = difference.plan(need, limit) if verdict == INCONCLUSIVE else None
    return RequirementFinding(need, difference, verdict, missing, margin)


def _draw_tasks(figures: VoteFigures, findings: Sequence[RequirementFinding], seed: int) -> tuple[object, ...]:
    """Return tasks without a known label, drawn at random, as many as the open requirements need."""
    asked = [finding.missing.more for finding in findings if finding.missing is not None and finding.missing.what == KNOWN_LABELS]
    wanted = max((number for number in asked if number is not None), default=0)
    if not wanted:
        return ()
    names = figures.votes.tasks
    unknown = np.flatnonzero(figures.known < 0)
    in_order = unknown[np.argsort(np.array(names.take(unknown).texts(), dtype=object), kind="stable")]
    drawn = np.random.default_rng([seed, 7]).permutation(len(in_order))[:wanted]
    return tuple(column(names, in_order[np.sort(drawn)]).to_list())
