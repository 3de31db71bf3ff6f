"""Estimate the true share of each label in each group of tasks from votes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Final, TypeAlias, Unpack

import numpy as np
import polars as pl

from adjudge.data import options
from adjudge.data.options import DEFAULTS, ModelName, Number, ReadOptions, Rules
from adjudge.data.vocabulary import Vocabulary, text_of
from adjudge.data.votes import FrameKind, Understood, Votes
from adjudge.errors import InputError, OptionError, itemize, pluralize, quote
from adjudge.evaluation.clusters import ClusterSource, describe_clusters, read_clusters
from adjudge.evaluation.inputs import KnownLabels, TaskGrouping, TaskValues, group_judges, read_gold_codes, vote_tasks
from adjudge.evaluation.intervals import FIGURE_DECIMALS, Floats, Integers, quantile
from adjudge.evaluation.rates import shares
from adjudge.evaluation.rates.planning import LabelPlan, Needed, gold_needed, plan_labels
from adjudge.evaluation.rates.shares import MIN_GOLD, JudgeShares, ShareDifference, ShareEstimate, TaskBeliefs
from adjudge.evaluation.rates.verdicts import CAVEAT, GroupVerdict, judge_pairs, tasks_needed
from adjudge.io.frames import Frame, column, to_native
from adjudge.io.read import as_votes
from adjudge.io.reading import Reading
from adjudge.io.sources import Source
from adjudge.io.workers import load_votes
from adjudge.models.base import Model, as_model
from adjudge.models.temperature import posterior_pieces
from adjudge.results.plotting import Picture, Theme, draw
from adjudge.results.result import Result

MAX_NAMED_GROUPS: Final = 3  # groups in a sentence
MAX_NAMED_VERDICTS: Final = 10  # sentences about pairs of groups
MAX_CARD_SHARES: Final = 8  # lines of a card
MAX_GROUP_PAIRS: Final = 2_000  # of groups that are compared
RULES: Final[Rules] = {"level": Number(least=0.5, most=0.999), "seed": Number(least=0, whole=True)}
POWER_RULES: Final[Rules] = {"difference": Number(least=1e-6, most=1.0), "power": Number(least=0.5, most=0.999)}
VOTE_SHARE_SCORINGS: Final = ("heads", "weight")  # whose posterior is a share of votes: not what votes say of a task
FACTS: Final = ("shared_error", "effective_votes", "chose", "why")  # of the fit
TaskGroups: TypeAlias = Mapping[Any, object] | Source | str


@dataclass(frozen=True, eq=False)
class GroupRate:
    """The shares of labels in one group."""

    tasks: int
    gold: int  # tasks with a known label
    share: Floats  # [K]
    low: Floats
    high: Floats
    naive: Floats  # [K] shares of the labels that the fit gives
    method: str  # votes, ppi, rogan-gladen or gold
    plan: LabelPlan
    needed: Needed


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Rates:
    """The true share of each label in each group, with intervals; `print` states their assumptions.

    Examples
    --------
    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=300, workers=9, labels=2, label_weights=[3, 1], skill=0.85, seed=2)
    >>> found = adj.rates(crowd.votes)
    >>> found
    Rates(1 group, 2 labels, 300 tasks, by votes)
    >>> found.rates.columns
    ['group', 'label', 'share', 'low', 'high', 'tasks', 'gold', 'naive', 'method']

    """

    groups: Vocabulary
    labels: Vocabulary
    found: Sequence[GroupRate]  # one per group
    compared: Sequence[ShareDifference]
    verdicts: Sequence[GroupVerdict]  # one per pair of groups
    level: float  # of intervals
    facts: Mapping[str, Any]
    understood: Understood | None = None  # what reading made of the votes' source
    frame_kind: FrameKind = "polars"

    def __repr__(self) -> str:
        tasks, number = sum(one.tasks for one in self.found), len(self.found)
        methods = itemize(dict.fromkeys(one.method for one in self.found))
        return f"Rates({pluralize(number, 'group')}, {len(self.labels)} labels, {tasks} tasks, by {methods})"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        from adjudge.results.card import Card, CardTable

        figures = [("groups", len(self.found)), ("tasks", sum(one.tasks for one in self.found))]
        figures.append(("known labels", self.facts["gold"]))
        names = ("group", "label", "share", "low", "high", "tasks", "method")
        rows = self.rates_frame().select(names).rows()
        table = CardTable.cut("shares", names, rows, "rates.rates", MAX_CARD_SHARES)
        steps = ["rates.differences", "rates.gold_needed", "rates.plot()"]
        return Card(repr(self), figures, self.sentences(), [table], next_steps=steps).html()

    def plot(self, *, label: object = None, theme: Theme = "light") -> Picture:
        """Draw shares with their intervals, a line per group.

        Parameters
        ----------
        label : object, optional
            The label whose share is shown; by default every label, or the last of two.
        theme : Theme, default "light"
            "light", "dark" or "none", which leaves the look to Altair's own themes.

        Returns
        -------
        Picture
            Shares with their intervals, a line per group.

        """
        return draw("studies:rates", self, label, theme=theme)

    @cached_property
    def rates(self) -> Frame:
        """One row per group and label: group, label, share, low, high, tasks, gold, naive, method.

        `share` is the estimated true share, and `low` to `high` its interval (docs/rates.md shows how often such intervals hold).
        `tasks` have votes, and `gold` of them a known label. `naive` is the share of the labels as the fit gives them, which
        judges' errors distort. `method` is "votes" (by votes alone), "ppi" (corrected by the group's own gold), "rogan-gladen"
        (by the gold of all groups) or "gold" (every label is known).
        """
        return to_native(self.rates_frame(), self.frame_kind)

    @cached_property
    def differences(self) -> Frame:
        """One row per pair of groups and label: group, other, label, difference (group minus other), low, high, p_value, pairs.

        `pairs` is the number of clusters that both groups have, whose luck cancels out. `p_value` is the probability of a
        difference as large where there is none; many of them at once need a correction, which they do not have.
        """
        return to_native(self.differences_frame(), self.frame_kind)

    @cached_property
    def gold_needed(self) -> Frame:
        """One row per group: group, label (with the widest interval), half_width, gold, more, why.

        `more` is the number of further known labels, of random tasks of the group, that would halve that interval; null if the
        group has too few tasks.
        """
        return to_native(self.gold_needed_frame(), self.frame_kind)

    def tasks_needed(self, difference: float, *, power: float = 0.8) -> Frame:
        """Return how many tasks per group show such a difference: group, other, label, tasks, needed.

        Parameters
        ----------
        difference : float
            The difference of two shares that is to be shown: 0.03 is 3 points.
        power : float
            How often it is to be shown, from 0.5 to 0.999.

        Returns
        -------
        Frame
            `tasks` are those of the smaller group now, and `needed` those of each group, if known labels grow with them; null
            beyond a billion.

        """
        return to_native(self.tasks_needed_frame(difference, power), self.frame_kind)

    def tasks_needed_frame(self, difference: float, power: float = 0.8) -> pl.DataFrame:
        """Return `tasks_needed` as a polars frame.

        Parameters
        ----------
        difference, power : as for `tasks_needed`
            The difference to detect, and the probability of detecting it.

        """
        options.check({"difference": difference, "power": power}, POWER_RULES)
        rows = []
        for pair in self.compared:
            tasks = min(self.found[pair.one].tasks, self.found[pair.other].tasks)
            for code in range(len(self.labels)):
                rows.append((tasks, tasks_needed(pair, tasks, code, float(difference), float(power), self.level)))
        frame = pl.DataFrame(rows, schema={"tasks": pl.Int64, "needed": pl.Int64}, orient="row")
        return self.differences_frame().select("group", "other", "label").with_columns(frame["tasks"], frame["needed"])

    def rates_frame(self) -> pl.DataFrame:
        """Return `rates` as a polars frame, regardless of the caller's frame library."""
        k, n = len(self.labels), len(self.found)
        frame = pl.DataFrame(
            {
                "group": column(self.groups, np.repeat(np.arange(n), k)),
                "label": column(self.labels, np.tile(np.arange(k), n)),
                **_join(self.found, share="share", low="low", high="high", naive="naive"),
                **{name: np.repeat([getattr(one, name) for one in self.found], k) for name in ("tasks", "gold", "method")},
            },
            schema_overrides={"method": pl.String},
        )
        return frame.select("group", "label", "share", "low", "high", "tasks", "gold", "naive", "method")

    def differences_frame(self) -> pl.DataFrame:
        """Return `differences` as a polars frame, regardless of the caller's frame library."""
        k = len(self.labels)
        one, other = (np.repeat([getattr(two, name) for two in self.compared], k).astype(np.int64) for name in ("one", "other"))
        return pl.DataFrame(
            {
                "group": column(self.groups, one),
                "other": column(self.groups, other),
                "label": column(self.labels, np.tile(np.arange(k), len(self.compared))),
                **_join(self.compared, difference="value", low="low", high="high", p_value="p_value"),
                "pairs": np.repeat([two.pairs for two in self.compared], k).astype(np.int64),
            }
        )

    def gold_needed_frame(self) -> pl.DataFrame:
        """Return `gold_needed` as a polars frame, regardless of the caller's frame library."""
        needed = [one.needed for one in self.found]
        return pl.DataFrame(
            {
                "group": column(self.groups),
                "label": column(self.labels, np.array([one.label for one in needed], np.int64)),
                "half_width": np.array([one.half_width for one in needed]).round(FIGURE_DECIMALS),
                "gold": np.array([one.gold for one in self.found], np.int64),
                "more": pl.Series([one.more for one in needed], dtype=pl.Int64),
                "why": pl.Series([one.why for one in needed], dtype=pl.String),
            }
        )

    def sentences(self) -> list[str]:
        """Return the assumptions behind the figures, as sentences."""
        facts, methods = self.facts, {one.method for one in self.found}
        whose = "the tasks that these are a sample of" if facts["sample"] else "these very tasks"
        out = [one.sentence() for one in self.verdicts[:MAX_NAMED_VERDICTS]]
        if len(self.verdicts) > MAX_NAMED_VERDICTS:
            out.append(f"{len(self.verdicts) - MAX_NAMED_VERDICTS} more pairs of groups are in differences")
        if self.verdicts and "votes" in methods:
            out.append(CAVEAT)
        out += [f"{100 * self.level:g}% intervals of the shares among {whose}; labels by {facts['model']}"]
        if "votes" in methods:
            out.append("by votes alone, intervals allow for some errors that all judges share; only known labels show them")
        if "rogan-gladen" in methods:
            out.append("rogan-gladen pools the known labels of all groups, and assumes that judges err alike in every group")
        if facts["clusters"]:
            out.append(describe_clusters(facts["cluster"], facts["clusters"]))
        if facts["gold_unused"]:
            out.append(f"{facts['gold_unused']} known labels are of tasks without votes: they are not used")
        if facts["without_group"]:
            out.append(f"{facts['without_group']} of {facts['tasks']} tasks are in no group, and left out")
        if facts["empty_groups"]:
            some = itemize(facts["empty_groups"], MAX_NAMED_GROUPS)
            out.append(f"{pluralize(len(facts['empty_groups']), 'group')} without votes left out: {some}")
        if facts["few_gold"]:
            some = itemize(facts["few_gold"], MAX_NAMED_GROUPS)
            out.append(f"fewer than {facts['min_gold']} known labels, which are too few to correct by: {some}")
        if facts["not_compared"]:
            out.append(facts["not_compared"])
        return out

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain Python values, ready for JSON."""
        tables = {name: getattr(self, f"{name}_frame")().to_dicts() for name in ("rates", "differences", "gold_needed")}
        verdicts = [{**asdict(one), "sentence": one.sentence()} for one in self.verdicts]
        return {"level": self.level, **tables, "verdicts": verdicts, "facts": dict(self.facts), "sentences": self.sentences()}


def _join(parts: Sequence[object], **names: str) -> dict[str, Floats]:
    """Return columns by name: the attribute of every part, [K] each, one after the other."""
    return {
        out: np.concatenate([np.zeros(0), *(getattr(part, name) for part in parts)]).round(FIGURE_DECIMALS)
        for out, name in names.items()
    }


def rates(
    source: Votes | Source,
    *,
    by: TaskGroups | None = None,
    gold: Source | None = None,
    cluster: ClusterSource | None = None,
    baseline: object = None,
    good: object = None,
    level: float = 0.9,
    sample: bool = True,
    groups: Source | None = None,
    model: ModelName | Model = DEFAULTS.model,
    seed: int = 0,
    **reading: Unpack[ReadOptions],
) -> Rates:
    """Estimate the true share of each label in each group of tasks, corrected for errors of judges, with intervals.

    Parameters
    ----------
    source : Votes or source
        The votes: anything that `adj.read` takes, or the votes that it returned.
    by : TaskGroups, optional
        The group of each task (the system that made it, a week, a language): a dict task -> group, a frame or file with columns
        for both, or the name of a column of the source. Without it all tasks are one group. Tasks without group are left out,
        and counted in `facts`.
    gold : source, optional
        Known labels of some tasks: a dict task -> label, or a frame or file. They must be a random sample of their group: labels
        of the hardest tasks, or of the first ones, correct in the wrong direction. The fit does not use them; 10 or more in a
        group correct its shares.
    cluster : ClusterSource, optional
        The prompt, document or conversation of each task, as `by` is given. Tasks of one cluster depend on each other: intervals
        allow for it, and luck with a prompt that two groups share (answers of two systems) cancels out of their difference. A
        column called prompt, document or conversation is used automatically; "" takes tasks as independent.
    baseline : object, optional
        The group that all others are compared with; by default every pair of groups is compared.
    good : object, optional
        The good label, which verdicts are about; by default one called pass, good, yes, …, otherwise the last.
    level : float, default 0.9
        Level of the intervals.
    sample : bool, default True
        True if the tasks of a group are a sample, and the interval is for the population (all prompts, all traffic of the
        week). False if the interval is for these tasks only.
    groups : source, optional
        Who votes as one, as for `adj.aggregate`: a table worker to group, "families" (model families, recognised by the names of
        judges) or "answers_like".
    model : str or Model, default "auto"
        The model that judges the workers, as for `adj.aggregate`.
    seed : int, default 0
        Seed of the model, which breaks ties.
    **reading
        The options of `adj.read`.

    Returns
    -------
    Rates
        Shares with intervals, and their differences.

    Raises
    ------
    InputError
        If the input cannot be read or understood; the message names the place and the value.
    OptionError
        If an option is unknown or out of range, or does not go with another.

    Examples
    --------
    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=400, workers=9, labels=2, label_names=["bad", "good"], skill=0.8, seed=3)
    >>> systems = {f"t{n}": "old" if n < 200 else "new" for n in range(400)}
    >>> found = adj.rates(crowd.votes, by=systems)
    >>> found.rates.filter(label="good").select("group", "share", "low", "high").rows()
    [('new', 0.566..., 0.482..., 0.646...), ('old', 0.475..., 0.393..., 0.558...)]
    >>> found.differences.columns
    ['group', 'other', 'label', 'difference', 'low', 'high', 'p_value', 'pairs']

    """
    options.check({"level": level, "seed": seed}, RULES)
    if not isinstance(sample, bool):
        raise OptionError(f"sample is {quote(sample)}: give True or False")
    how = Reading.of(reading)
    every_vote = as_votes(source, how, study="rates")
    if groups is not None:
        every_vote = group_judges(every_vote, groups, "rates")
    votes = replace(load_votes(every_vote), found_gold=None)  # known labels correct the fit: it may not learn from them
    if not votes.n_tasks or not len(votes):
        raise InputError("there are no votes: a share needs tasks that somebody has judged")
    values = TaskValues.of(source, votes, how)
    grouping, table = values.grouping(by)
    clusters = read_clusters(values, cluster, table)
    pairs, not_compared = _pairs(grouping, baseline)
    names, wanted = votes.labels.texts(), None if good is None else text_of(good)
    if wanted is not None and wanted not in names:
        raise InputError(f"good is {quote(good)}, which no vote has: the labels are {itemize(names)}")
    known, unused = None, 0
    if gold is not None:
        codes, unused = read_gold_codes(votes, gold, strict=how.strict)
        known = KnownLabels.of(codes, "gold")
    result = (model if isinstance(model, Model) else as_model(model, seed)).fit(votes)
    beliefs = beliefs_of(result)
    confusion = None if known is None else shares.table_of(beliefs, known)
    estimates, shown = [], []
    for code in range(len(grouping.names)):
        tasks = grouping.tasks(code)
        estimate = shares.estimate_shares(beliefs, tasks, known, confusion, sample=sample)
        if clusters is not None:
            estimate = shares.allow_for_clusters(estimate, clusters.code)
        estimates.append(estimate)
        shown.append(_group(beliefs.of(tasks), tasks, estimate, known, float(level), sample=sample))
    judge, task = votes.row_worker()[votes.row], vote_tasks(votes)
    judges = [JudgeShares.of(judge[grouping.group[task] == code]) for code in range(len(shown))] if pairs else []
    code_of = None if clusters is None else clusters.code
    compared = tuple(shares.differences(estimates, pairs, code_of, float(level), judges))
    corrected = zip(grouping.names.texts(), shown, strict=True)
    return Rates(
        groups=grouping.names,
        labels=votes.labels,
        found=tuple(shown),
        compared=compared,
        verdicts=tuple(judge_pairs(compared, [one.plan for one in shown], grouping.names.texts(), names, wanted, float(level))),
        level=float(level),
        facts={
            "model": result.model,
            "sample": sample,
            "tasks": votes.n_tasks,
            "without_group": int((grouping.group < 0).sum()),
            "empty_groups": list(grouping.empty),
            "unvoted_tasks": len(votes.unvoted),
            "gold": 0 if known is None else len(known),
            "gold_unused": unused,
            "cluster": None if clusters is None else clusters.column,
            "clusters": None if clusters is None else clusters.number,
            "min_gold": MIN_GOLD,
            "few_gold": [name for name, one in corrected if one.gold and one.method == shares.VOTES_METHOD],
            "not_compared": not_compared,
            **{name: result.facts[name] for name in FACTS if name in result.facts},
        },
        understood=every_vote.understood,
        frame_kind=every_vote.frame_kind,
    )


def _pairs(grouping: TaskGrouping, baseline: object) -> tuple[list[tuple[int, int]], str]:
    """Return which groups are compared, and why some are not, in a sentence."""
    number, names = len(grouping.names), grouping.names.texts()
    if baseline is not None:
        text = text_of(baseline)
        if text not in names:
            raise InputError(f"baseline is {quote(baseline)}, which is not a group with votes: choose one of {itemize(names)}")
        base = names.index(text)
        return [(code, base) for code in range(number) if code != base], ""
    if number * (number - 1) // 2 > MAX_GROUP_PAIRS:
        return [], f"{number} groups are too many to compare every two of them: name one with baseline=… (--baseline)"
    return list(combinations(range(number), 2)), ""


def beliefs_of(result: Result) -> TaskBeliefs:
    """Return what the votes of a fit say of its tasks.

    The posterior over the class priors is the likelihood. If a posterior is only a share of votes, as with majority vote,
    honest probabilities divided by their mean replace it.
    """
    honest = result.probabilities_frame().drop("task").to_numpy()
    exists = result.votes.given_labels()
    if result.fit.scoring in VOTE_SHARE_SCORINGS:
        posterior, priors = honest, honest.mean(axis=0)
    else:
        posterior = np.concatenate([piece for _, piece in posterior_pieces(result.fit, result.session)])
        priors = result.fit.params.priors
    likelihood = np.divide(posterior, priors, out=np.zeros_like(posterior), where=priors > 0)
    return TaskBeliefs(likelihood, honest, result.fit.outcome.labels.astype(np.int64), exists, honest.mean(axis=0))


def _group(
    found: TaskBeliefs, tasks: Integers, estimate: ShareEstimate, known: KnownLabels | None, level: float, *, sample: bool
) -> GroupRate:
    """Return what is shown of a group, `tasks` its codes."""
    gold = 0 if known is None else len(known.within(tasks)[0])
    low, high = estimate.interval(quantile(level, estimate.df), len(tasks))
    plan = plan_labels(found, estimate, gold, sample=sample)
    needed = gold_needed(plan, (high - low) / 2.0, level)
    naive = np.bincount(found.label, minlength=len(low)) / len(tasks)
    return GroupRate(len(tasks), gold, estimate.share, low, high, naive, estimate.method, plan, needed)
