"""One call that fits every model to the same votes, judges them, and says which to take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, Unpack

import numpy as np
import polars as pl

from adjudge.data import options
from adjudge.data.options import DEFAULTS, Duplicates, ModelName, Number, Rules
from adjudge.data.votes import Gold, Votes
from adjudge.errors import InputError, OptionError, AdjudgeError, shown, unknown
from adjudge.evaluation.compare import advice
from adjudge.evaluation.compare.choice import cautious_of, choose
from adjudge.evaluation.compare.comparison import MODEL_COLUMNS, PAIR_COLUMNS, Comparison, table
from adjudge.evaluation.compare.disagreement import differing, overruled
from adjudge.evaluation.compare.fits import Fitted, Ints, Job, Progress, Refused, run
from adjudge.evaluation.compare.judged import LEVEL, Judged, Known, Pairs, Scores, folds_of, gold_of, pairs, scores
from adjudge.evaluation.compare.stability import PARTS, LeftOut, left_out, stable_share
from adjudge.evaluation.truth import read_truth
from adjudge.io.answers import gold_codes, matching_answers, read_gold
from adjudge.io.formats.found import gold_frame
from adjudge.io.ids import column
from adjudge.io.read import Shaping, as_votes
from adjudge.io.sets import SetVotes
from adjudge.io.sources import Source, is_spark_frame
from adjudge.io.suspicious import SOME, unmatched, warn_suspicious
from adjudge.models.base import MODELS, USUAL
from adjudge.results.result import Result

EVERY: Final = "all"  # models
RULES: Final[Rules] = {
    "resamples": Number(least=0, most=1_000_000, whole=True),
    "folds": Number(least=2, most=1000, whole=True),
    "refits": Number(least=0, most=1000, whole=True),
    "confidence": Number(least=0.5, most=0.9999),
    "seed": Number(least=0, whole=True),
}
WHAT: Final = ("workers", "tasks")  # that are left out


def compare(
    source: Votes | Source,
    *,
    truth: Result | Source | None = None,
    gold: Source | None = None,
    models: Iterable[ModelName] | Literal["all"] | None = None,
    resamples: int = 1000,
    folds: int = 5,
    refits: int | None = None,
    confidence: float = 0.95,
    seed: int = DEFAULTS.seed,
    threads: int | None = None,
    progress: Progress | None = None,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: Duplicates = DEFAULTS.duplicates,
    truth_task: str | None = None,
    truth_label: str | None = None,
    **shaping: Unpack[Shaping],
) -> Comparison:
    """Return models on the same votes: how accurate each is, which differences are real, and which model to take.

    - `source`: the votes: anything that `adj.read` takes, or the votes that it returned.
    - `truth`: known labels to judge by, as for `adj.evaluate`; never learned from. Its columns are named by `truth_task` and
      `truth_label` where their usual names do not tell.
    - `gold`: known labels to learn from, as for `adj.aggregate`. Without truth models are judged by them, too: cross-validated,
      so that no label is judged by a fit that was given it. With truth they are judged by the truth of other tasks.
    - `models`: names of the models, or "all"; by default auto and those of the paper. Majority vote always takes part: it is
      what others have to beat.
    - `resamples`: bootstraps over tasks, of which intervals hold the middle `confidence`; 0 draws none.
    - `folds`: parts of the gold, each hidden from the fit that it judges.
    - `refits`: how often each model is fitted without a fifth of the workers, and as often without a fifth of the tasks, to
      see which labels stay; by default 5 without truth and gold, else 0.
    - `seed`: decides ties, folds and resamples.
    - `threads`: how many to use; all cores by default. Fits run side by side, each on one thread where there are enough fits.
    - `progress`: called as progress(model, fits done, fits in all) after every fit.
    - `task`, `worker`, `label`, `labels`, `duplicates`, `shaping` (`wide`, `abstain`, `format`, …): as for `adj.read`.

    A model that cannot run (too large, no weights) is listed with its reason.

    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=300, workers=12, seed=1)
    >>> c = adj.compare(crowd.votes, models=["mv", "auto", "fds"])
    >>> c.best, c.judged_by
    ('auto', None)
    >>> c.advice[2]
    'Some model differs from majority vote on 11 of 300 tasks (3.7%); on the others all agree.'
    """
    given = {"resamples": resamples, "folds": folds, "refits": 0 if refits is None else refits}
    options.check({**given, "confidence": confidence, "seed": seed}, RULES)
    names = model_names(models)
    _require_here(source)
    votes = as_votes(source, task=task, worker=worker, label=label, labels=labels, duplicates=duplicates, **shaping)
    if not len(votes):
        raise InputError("there are no votes to compare models on")
    learned, votes = _gold(votes, gold, strict=bool(shaping.get("strict", False)))
    known = _known(votes, truth, learned, truth_task, truth_label)
    if refits is None:
        refits = PARTS if known is None else 0
    plan = Plan(votes, learned, known, folds, seed)
    done = _fit_all(plan, names, left_out(votes, refits, seed), threads, progress)
    if "mv" not in done.whole:  # nothing takes less than majority vote
        raise AdjudgeError(f"not even majority vote could run: {done.refused['mv']}")
    return _compared(plan, done, resamples, confidence)


def model_names(models: Iterable[str] | str | None) -> list[str]:
    """Return the names of the models to compare, each once, majority vote among them.

    >>> model_names(["Dawid-Skene", "fds", "ds"])
    ['ds', 'fds', 'mv']
    """
    if models is None:
        return list(USUAL)
    if isinstance(models, str):
        if models == EVERY:
            return list(MODELS)
        raise OptionError(f"models is {shown(models)}: give a list of names, as ['auto', 'ds'], or 'all'")
    out = []
    for name in models:
        found = options.model_name(name)
        if not isinstance(found, str) or found not in MODELS:
            raise unknown("model", name, MODELS)
        out.append(found)
    if not out:
        raise OptionError("models is empty: name some, or leave it out for the usual ones")
    return list(dict.fromkeys([*out, "mv"]))


@dataclass(frozen=True, eq=False)
class Plan:
    """What is compared: votes, what is learned from, and what is judged by."""

    votes: Votes
    gold: Ints | None  # [tasks] codes to learn from, below 0 where there is none
    known: Known | None  # what is judged by
    folds: int
    seed: int

    @property
    def hides(self) -> bool:
        """Whether the known labels are gold, so that they must be hidden from the fits that they judge."""
        return self.known is not None and self.known.source == "gold"

    @property
    def judged(self) -> Ints:
        """The tasks that are judged, [n] codes."""
        return np.zeros(0, np.int64) if self.known is None else self.known.tasks

    def learned(self, hidden: Ints | None = None) -> Gold | None:
        """Return the gold to learn from, but for the `hidden` tasks; None where none is left."""
        if self.gold is None:
            return None
        left = self.gold >= 0
        if hidden is not None:
            left = left.copy()
            left[hidden] = False
        tasks = np.flatnonzero(left)
        return gold_of(self.votes, tasks, self.gold[tasks]) if len(tasks) else None

    def fold_of(self, learns: bool) -> Ints:
        """Return the fold of each known task, [n]; a model that learns nothing is the same in all of them."""
        assert self.known is not None
        folds = min(self.folds, len(self.known)) if learns else 1
        return folds_of(self.known, folds, np.random.default_rng([self.seed, 4]))


@dataclass(frozen=True, eq=False)
class Fits:
    """All fits of a comparison, by model."""

    whole: Mapping[str, Fitted]  # of all votes, with all gold
    held_out: Mapping[str, list[Fitted]]  # one for each fold of the gold
    parts: Mapping[str, list[tuple[LeftOut, Fitted]]]  # without some workers, or some tasks
    refused: Mapping[str, str]


def _fit_all(plan: Plan, names: list[str], parts: list[LeftOut], threads: int | None, progress: Progress | None) -> Fits:
    """Fit every model to all votes, to the gold of other folds, and to parts of the votes: all in one queue."""
    jobs: list[tuple[str, str, Job]] = []
    chosen = {name: MODELS[name](seed=plan.seed) for name in names}
    for name, model in chosen.items():
        jobs.append((name, "whole", Job(model, plan.votes, plan.learned(), plan.judged)))
        if plan.hides and plan.known is not None:
            fold = plan.fold_of(model.learns)
            for number in range(int(fold.max()) + 1):
                hidden = plan.known.tasks[fold == number]
                jobs.append((name, "held_out", Job(model, plan.votes, plan.learned(hidden), plan.judged)))
        jobs += [(name, "part", Job(model, part.votes, plan.learned())) for part in parts]
    jobs.sort(key=lambda one: one[1] != "whole")  # these say first what cannot run
    found = run([job for _, _, job in jobs], threads=threads, progress=progress)
    refused = {name: one.why for (name, _, _), one in zip(jobs, found, strict=True) if isinstance(one, Refused)}

    def of(name: str, kind: str) -> list[Fitted]:
        both = zip(jobs, found, strict=True)
        return [one for (whose, what, _), one in both if (whose, what) == (name, kind) and isinstance(one, Fitted)]

    ran = [name for name in names if name not in refused]
    return Fits(
        whole={name: of(name, "whole")[0] for name in ran},
        held_out={name: of(name, "held_out") for name in ran},
        parts={name: list(zip(parts, of(name, "part"), strict=True)) for name in ran},
        refused=refused,
    )


def _compared(plan: Plan, done: Fits, resamples: int, confidence: float) -> Comparison:
    """Return the figures of all fits, and the advice."""
    votes, known, names = plan.votes, plan.known, list(done.whole)
    found: dict[str, Scores] = {}
    between: Pairs | None = None
    choice = None
    if known is not None:
        judged = {name: _judged(plan, done, name) for name in names}
        found = {name: scores(one, known, resamples, confidence, plan.seed) for name, one in judged.items()}
        names.sort(key=lambda name: -found[name].right)  # a stable sort: equal ones stay in the order of the registry
        right = {name: judged[name].right(known) for name in names}
        between, choice = pairs(right, resamples, confidence, plan.seed), choose(right)
    labels = {name: done.whole[name].labels for name in names}
    cautious = cautious_of(done.whole)
    trusted = done.whole[cautious]
    against = overruled(votes, labels, trusted.accuracy)
    stable = {what: {name: stable_share(done.whole[name], done.parts[name], what) for name in names} for what in WHAT}
    apart = differing(labels)
    seen = advice.Evidence(
        votes.n_tasks, votes.n_workers, names, trusted.facts, apart, against, stable["workers"], stable["tasks"], _notes(done)
    )
    best, said = cautious, []
    folds = min(plan.folds, len(plan.judged)) if plan.hides else 0
    if choice is not None and between is not None and known is not None:
        best, said = choice.best, advice.with_truth(choice, found, between, known, folds, seen)
    else:
        said = advice.without_truth(best, seen)
    below = {} if between is None or choice is None else {n: advice.is_below(n, choice.highest, between) for n in names}
    rows = [_model_row(name, done, seen, found.get(name), below.get(name)) for name in names]
    rows += [{"model": name, "refused": why} for name, why in done.refused.items()]
    return Comparison(
        best=best,
        advice=tuple(said),
        facts=trusted.facts,
        judged_by=None if known is None else known.source,
        judged_tasks=len(plan.judged),
        gold_tasks=0 if plan.gold is None else int((plan.gold >= 0).sum()),
        folds=folds,
        disputed=against.tasks,
        resamples=resamples,
        confidence=confidence,
        seed=plan.seed,
        votes=votes,
        labels_by_model=labels,
        model_table=table(rows, MODEL_COLUMNS),
        pair_table=table(_pair_rows(apart, between, votes.n_tasks), PAIR_COLUMNS),
        dispute_table=against.frame(votes, labels["mv"], trusted.confidence, _known_codes(plan)),
        frame_kind=votes.frame_kind,
    )


def _model_row(name: str, done: Fits, seen: advice.Evidence, figures: Scores | None, below: bool | None) -> dict[str, Any]:
    whole = done.whole[name]
    return {
        "model": name,
        **({} if figures is None else asdict(figures)),
        "below_highest": below,
        "expected_wrong": whole.expected_wrong,  # of all tasks, not of those judged
        "agrees_with_mv": 1 - seen.apart(name, "mv") / seen.tasks,
        "stable_workers": seen.stable_workers[name],
        "stable_tasks": seen.stable_tasks[name],
        "converged": whole.converged,
        "seconds": whole.seconds,
    }


def _notes(done: Fits) -> list[str]:
    """Return what went wrong in the fits, a sentence each."""
    notes = [f"{name} did not converge in its iterations." for name, one in done.whole.items() if not one.converged]
    return notes + [f"{name} could not run: {why}." for name, why in done.refused.items()]


def _judged(plan: Plan, done: Fits, name: str) -> Judged:
    """Return the labels of a model on the known tasks, from fits that did not learn them."""
    assert plan.known is not None
    if not plan.hides:
        return Judged.of(done.whole[name], plan.known)
    return Judged.held_out(done.held_out[name], plan.fold_of(MODELS[name].learns), plan.known)


def _pair_rows(apart: Mapping[tuple[str, str], int], between: Pairs | None, tasks: int) -> list[dict[str, Any]]:
    rows = []
    for (a, b), number in apart.items():
        row: dict[str, Any] = {"model_a": a, "model_b": b, "differing": number, "same": 1 - number / tasks}
        if between is not None:
            found, adjusted = between.between(a, b)
            value, low, high = found.difference
            row |= {"difference": value, "low": low, "high": high, "only_a": found.only_a, "only_b": found.only_b}
            row |= {"p_value": found.p_value, "p_adjusted": adjusted, "significant": adjusted < LEVEL}
        rows.append(row)
    return rows


def _known_codes(plan: Plan) -> Ints:
    """Return the label of every task that truth or gold gives, [tasks] codes; -1 elsewhere."""
    out = np.full(plan.votes.n_tasks, -1, np.int64) if plan.gold is None else plan.gold.copy()
    if plan.known is not None:
        out[plan.known.tasks] = plan.known.labels
    return out


def _require_here(source: object) -> None:
    if is_spark_frame(source):
        raise InputError(
            "compare fits every model several times and is not run on Spark: give the votes of some tasks in memory "
            "(frame.toArrow())"
        )
    if isinstance(source, SetVotes):
        raise InputError("compare is for votes with one label: give one yes/no vote per task and option")


def _gold(votes: Votes, gold: Source | None, *, strict: bool) -> tuple[Ints | None, Votes]:
    """Return the labels to learn from, [tasks] codes below 0 where there is none, and the votes without gold of their own."""
    found = votes.found_gold
    if found is not None:
        gold = gold_frame(votes) if gold is None else gold
        votes = replace(votes, found_gold=None)
    if gold is None:
        return None, votes
    frame = matching_answers(gold, "gold", votes.tasks, strict=strict)
    codes = gold_codes(read_gold(frame, votes.labels), votes.tasks).astype(np.int64)
    return (codes if (codes >= 0).any() else None), votes


def _known(
    votes: Votes, truth: Result | Source | None, gold: Ints | None, truth_task: str | None, truth_label: str | None
) -> Known | None:
    """Return what models are judged by: the truth of tasks outside the gold, or else the gold."""
    if truth is not None:
        frame = read_truth(truth, truth_task, truth_label)
        ours = column(votes.tasks).cast(pl.String)
        there = int(frame["task"].is_in(ours.implode()).sum())
        warn_suspicious(unmatched("truth", (len(frame), len(ours), there), frame["task"].head(SOME), ours.head(SOME)))
        known = Known.by_truth(frame, votes, gold)
        if not len(known):
            beside = " beside the gold, which models are given: leave the truth out to be judged by gold" if there else ""
            raise InputError(f"the truth has no task with votes{beside}")
        return known
    if gold is None:
        return None
    known = Known.by_gold(gold)
    if len(known) < 2:
        raise InputError("the gold has one task with votes: it takes two or more to judge models by gold that they learn from")
    return known
