"""One call from votes to the true share of each label in each group of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any, Final, TypeAlias, Unpack

import numpy as np

from adjudge.data import options
from adjudge.data.options import DEFAULTS, Duplicates, ModelName, Number, Rules
from adjudge.data.vocabulary import text_of
from adjudge.data.votes import Votes
from adjudge.errors import InputError, OptionError, listed, shown
from adjudge.evaluation.rates.differences import MAX_PAIRS, differences, gold_needed
from adjudge.evaluation.rates.figures import GroupRate, Rates
from adjudge.evaluation.rates.gold import MIN_GOLD, Gold, Table, corrected, table_of
from adjudge.evaluation.rates.grouping import Grouping, VotesSource, read_grouping, read_items
from adjudge.evaluation.rates.intervals import quantile
from adjudge.evaluation.rates.shares import VOTES, Beliefs, Estimate, Integers, by_votes
from adjudge.io.answers import gold_codes, matching_answers, read_gold
from adjudge.io.exclude import held
from adjudge.io.read import Shaping, as_votes
from adjudge.io.sets import SetVotes
from adjudge.io.sources import Source, is_spark_frame
from adjudge.models.base import Model, make
from adjudge.results.result import Result
from adjudge.results.temperature import posterior_pieces

RULES: Final[Rules] = {"confidence": Number(least=0.5, most=0.999), "seed": Number(least=0, whole=True)}
SHARES: Final = ("heads", "weight")  # ways of scoring whose posterior is a share of votes: not what votes say of a task
FACTS: Final = ("shared_error", "effective_votes", "chose", "why")  # of the fit
TaskGroups: TypeAlias = Mapping[Any, object] | Source | str


def rates(
    source: Votes | Source,
    *,
    by: TaskGroups | None = None,
    gold: Source | None = None,
    item: TaskGroups | None = None,
    baseline: object = None,
    confidence: float = 0.9,
    sample: bool = True,
    model: ModelName | Model = DEFAULTS.model,
    seed: int = 0,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: Duplicates = DEFAULTS.duplicates,
    **shaping: Unpack[Shaping],
) -> Rates:
    """Return the true share of each label in each group of tasks, corrected for what judges get wrong, with intervals.

    - `source`: the votes: anything that `adj.read` takes, or the votes that it returned.
    - `by`: the group of each task (the system that made it, a week, a language): a dict task -> group, a frame or file with
      columns for both, or the name of a column of the source. Without it all tasks are one group. Tasks without group are
      left out, and counted in `facts`.
    - `gold`: known labels of some tasks: a dict task -> label, or a frame or file. They must be a random sample of their group:
      labels of the tasks that were hardest, or looked at first, correct in a wrong direction. Labels are estimated without
      them. From 10 known labels in a group on, they correct what the votes say.
    - `item`: what a task is about, as `by` is given. Tasks of two groups about the same item (answers of two systems to one
      prompt) are pairs, which makes the interval of the difference narrower.
    - `baseline`: the group that all others are compared with; by default every two groups are compared.
    - `confidence`: how often an interval is to hold the truth.
    - `sample`: True where the tasks of a group are a sample, and the interval is for what they are a sample of (all prompts, all
      traffic of the week). False asks for the share among these very tasks.
    - `model`: the model that judges the workers, as for `adj.aggregate`.
    - `seed`: that of the model, which decides ties.
    - `task`, `worker`, `label`, `labels`, `duplicates`, `shaping` (`wide`, `abstain`, `format`, …): as for `adj.read`.

    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=400, workers=9, labels=2, label_names=["bad", "good"], skill=0.8, seed=3)
    >>> systems = {f"t{n}": "old" if n < 200 else "new" for n in range(400)}
    >>> found = adj.rates(crowd.votes, by=systems)
    >>> found.rates.filter(label="good").select("group", "share", "low", "high").rows()
    [('new', 0.566..., 0.482..., 0.646...), ('old', 0.475..., 0.393..., 0.558...)]
    >>> found.differences.columns
    ['group', 'other', 'label', 'difference', 'low', 'high', 'p_value', 'pairs']
    """
    options.check({"confidence": confidence, "seed": seed}, RULES)
    if not isinstance(sample, bool):
        raise OptionError(f"sample is {shown(sample)}: give True or False")
    if is_spark_frame(source):
        raise InputError("rates is not run on Spark: give the votes in memory (frame.toArrow())")
    if isinstance(source, SetVotes):
        raise InputError("rates is for votes with one label: give one yes/no vote per task and option")
    given = as_votes(source, task=task, worker=worker, label=label, labels=labels, duplicates=duplicates, **shaping)
    votes = replace(held(given), found_gold=None)  # known labels correct the fit: it may not learn from them
    if not votes.n_tasks or not len(votes):
        raise InputError("there are no votes: a share needs tasks that somebody has judged")
    origin = VotesSource(source, votes, shaping)
    grouping, table = read_grouping(by, origin)
    items = None if item is None else read_items(item, origin, table)
    pairs, not_compared = _pairs(grouping, baseline)
    known, unused = _gold(gold, votes)
    result = make(model, {"seed": 0}, {} if isinstance(model, Model) else {"seed": seed}).fit(votes)
    beliefs = _beliefs(result)
    table_of_gold = None if known is None else table_of(beliefs, known)
    tasks = [grouping.tasks(code) for code in range(len(grouping.names))]
    found = [_estimate(beliefs, own, known, table_of_gold, sample=sample) for own in tasks]
    groups = [
        _group(beliefs.of(own), own, one, known, float(confidence), sample=sample) for own, one in zip(tasks, found, strict=True)
    ]
    return Rates(
        groups=grouping.names,
        labels=votes.labels,
        found=tuple(groups),
        compared=tuple(differences(found, pairs, items, float(confidence))),
        confidence=float(confidence),
        facts={
            "model": result.model,
            "sample": sample,
            "tasks": votes.n_tasks,
            "without_group": int((grouping.group < 0).sum()),
            "empty_groups": list(grouping.empty),
            "unvoted_tasks": len(votes.unvoted),
            "gold": 0 if known is None else len(known.tasks),
            "gold_unused": unused,
            "min_gold": MIN_GOLD,
            "few_gold": [
                name for name, one in zip(grouping.names.texts(), groups, strict=True) if one.gold and one.method == VOTES
            ],
            "not_compared": not_compared,
            **{name: result.facts[name] for name in FACTS if name in result.facts},
        },
        understood=given.understood,
        frame_kind=given.frame_kind,
    )


def _pairs(grouping: Grouping, baseline: object) -> tuple[list[tuple[int, int]], str]:
    """Return which groups are compared, and why some are not, in a sentence."""
    number, names = len(grouping.names), grouping.names.texts()
    if baseline is not None:
        text = text_of(baseline)
        if text not in names:
            raise InputError(f"baseline is {shown(baseline)}, which is no group with votes: choose one of {listed(names)}")
        base = names.index(text)
        return [(code, base) for code in range(number) if code != base], ""
    if number * (number - 1) // 2 > MAX_PAIRS:
        return [], f"{number} groups are too many to compare every two of them: name one with baseline=… (--baseline)"
    return list(combinations(range(number), 2)), ""


def _gold(source: Source | None, votes: Votes) -> tuple[Gold | None, int]:
    """Return the known labels of tasks with votes, and how many are of others."""
    if source is None:
        return None, 0
    given = read_gold(matching_answers(source, "gold", votes.tasks), votes.labels)
    codes = gold_codes(given, votes.tasks).astype(np.int64)
    tasks = np.flatnonzero(codes >= 0)
    return Gold(tasks, codes[tasks]), len(given.labels) - len(tasks)


def _beliefs(result: Result) -> Beliefs:
    """Return what the votes of a fit say of its tasks.

    The posterior over the class priors is the likelihood. Where a posterior is only a share of votes, as that of majority vote,
    honest probabilities over their mean stand for it.
    """
    honest = result.probabilities_frame().drop("task").to_numpy()
    exists = result.votes.given_labels()
    if result.fit.scoring in SHARES:
        posterior, priors = honest, honest.mean(axis=0)
    else:
        posterior = np.concatenate([piece for _, piece in posterior_pieces(result.fit, result.session)])
        priors = result.fit.params.priors
    likelihood = np.divide(posterior, priors, out=np.zeros_like(posterior), where=priors > 0)
    return Beliefs(likelihood, honest, result.fit.outcome.labels.astype(np.int64), exists, honest.mean(axis=0))


def _estimate(beliefs: Beliefs, tasks: Integers, known: Gold | None, table: Table | None, *, sample: bool) -> Estimate:
    """Return the shares of a group."""
    if known is None:
        return by_votes(beliefs.of(tasks), tasks, sample=sample)
    return corrected(beliefs, tasks, known, table, sample=sample)


def _group(
    found: Beliefs, tasks: Integers, estimate: Estimate, known: Gold | None, confidence: float, *, sample: bool
) -> GroupRate:
    """Return what is shown of a group, `tasks` its codes."""
    gold = 0 if known is None else len(known.within(tasks)[0])
    low, high = estimate.interval(quantile(confidence, estimate.df), len(tasks))
    needed = gold_needed(found, estimate, gold, (high - low) / 2.0, confidence, sample=sample)
    naive = np.bincount(found.label, minlength=len(low)) / len(tasks)
    return GroupRate(len(tasks), gold, estimate.share, low, high, naive, estimate.method, needed)
