"""One call from votes to how many judges are enough, which of them to take, and which add nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final, Unpack, get_args

import numpy as np

from adjudge.data import options
from adjudge.data.options import DEFAULTS, Choice, ModelName, Number, PanelKind, ReadOptions, Rules
from adjudge.data.votes import Votes, require_unweighted
from adjudge.errors import InputError, OptionError, pluralize, quote
from adjudge.evaluation.agreement.agreement import fit_labels
from adjudge.evaluation.agreement.coefficients import measure_errors
from adjudge.evaluation.clusters import ClusterSource, read_clusters
from adjudge.evaluation.inputs import TaskValues, group_judges, read_truth_codes, vote_tasks
from adjudge.evaluation.intervals import Bootstrap, Integers
from adjudge.evaluation.panel import yardstick as measures
from adjudge.evaluation.panel.judges import find_alike, judge_crowd, judge_panel, measure_accuracies, measure_confusions
from adjudge.evaluation.panel.panels import Chosen, Panels
from adjudge.evaluation.panel.study import PanelStudy, check_budget
from adjudge.io.read import as_votes
from adjudge.io.reading import Reading
from adjudge.io.sources import Source
from adjudge.io.workers import Cost, load_votes, read_costs
from adjudge.models.base import Model, as_model
from adjudge.results.result import Result

USUAL_SIZES: Final = (1, 2, 3, 4, 5, 7, 9, 12, 16, 24, 32, 48, 64, 96, 128, 192)
RULES: Final[Rules] = {
    "by": Choice(get_args(PanelKind)),
    "subsets": Number(least=1, most=10_000, whole=True),
    "within": Number(least=0.0, most=0.5),
    "seed": Number(least=0, whole=True),
}
MIN_COVERAGE: Final = 0.5  # share of the tasks that workers saw, from which on they are a panel of judges
MAX_STUDY_JUDGES: Final = 200
MAX_STUDY_VOTES: Final = 300_000  # looked at: of more, those of some tasks
MAX_JUDGE_VOTES: Final = 10_000_000  # workers x votes, as every judge is left out once
MAX_STUDY_CELLS: Final = 200_000  # tasks x labels
RESAMPLES: Final = 200  # for the interval of the correlation of errors


def panel(
    source: Votes | Source,
    *,
    truth: Result | Source | None = None,
    cost: Cost | None = None,
    budget: float | None = None,
    model: ModelName | Model = DEFAULTS.model,
    by: PanelKind = "auto",
    sizes: Iterable[int] | None = None,
    subsets: int = 50,
    within: float = 0.01,
    groups: Source | None = None,
    seed: int = 0,
    cluster: ClusterSource | None = None,
    progress: Callable[[str], None] | None = None,
    truth_task: str | None = None,
    truth_label: str | None = None,
    **reading: Unpack[ReadOptions],
) -> PanelStudy:
    """Measure how many judges are enough, which panel is best for a budget, and what each judge adds.

    Parameters
    ----------
    source : Votes or source
        The votes: anything that `adj.read` takes, or the votes that it returned.
    truth : Result or source, optional
        Known labels of some tasks, as for `adj.evaluate`, to measure accuracy by. Without it, labels of panels are measured by
        the honest probabilities of all votes: an estimate, which misses errors that all judges share.
    truth_task, truth_label : str, optional
        The columns of the truth, if they do not have usual names.
    cost : Cost, optional
        Price of a vote: a number, a dict of worker to cost, or a frame or file with the columns worker and cost.
    budget : float, optional
        Budget per task, which `best()` and the sentences respect.
    model : str or Model, default "auto"
        The model that labels the votes of each panel, as for `adj.aggregate`; "mv" is the fastest.
    by : PanelKind, default "auto"
        What a panel is made of: "judges" (some of the workers, with all their votes) or "votes" (some votes of each task, as in a
        crowd whose workers saw few tasks each); "auto" chooses judges if at most 200 workers saw at least half of the tasks.
    sizes : iterable of int, optional
        Sizes of panels to examine; by default all small ones and some larger. The full size is always included.
    subsets : int, default 50
        Number of random panels of each size, or all if there are fewer. With many votes, fewer are drawn.
    within : float, default 0.01
        Negligible loss of accuracy: panels within this distance of all votes are enough, and a judge whose interval ends below it
        adds nothing.
    groups : source, optional
        Who votes as one, as for `adj.aggregate`: a table worker to group, "families" (model families, recognised by the names of
        judges) or "answers_like".
    seed : int, default 0
        Seed of the draws.
    cluster : ClusterSource, optional
        The prompt, document or conversation of each task (a dict task -> cluster, a table, or a column of the votes), as for
        `adj.rates`: intervals allow for tasks that depend on each other, and a choice is measured on other clusters.
    progress : callable, optional
        Called with a description of the current step, about a hundred times.
    **reading
        The options of `adj.read`.

    Returns
    -------
    PanelStudy
        Accuracy by number of judges, the gain of every judge, and the best panels.

    Raises
    ------
    InputError
        If the input cannot be read or understood; the message names the place and the value.
    OptionError
        If an option is unknown or out of range, or does not go with another.

    Examples
    --------
    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=200, workers=7, votes_per_task=7, skill=0.9, seed=1)
    >>> study = adj.panel(crowd.votes, truth=crowd.truth, cost={f"w{n}": 1 + n for n in range(7)}, subsets=10)
    >>> study.enough, study.best(budget=6).workers
    (4, ('w1', 'w0', 'w2'))

    """
    options.check({"by": by, "subsets": subsets, "within": within, "seed": seed}, RULES)
    chosen_model = model if isinstance(model, Model) else as_model(model, seed)
    how = Reading.of(reading)
    every_vote = as_votes(source, how, study="panel")
    if groups is not None:
        every_vote = group_judges(every_vote, groups, "panel")
    require_unweighted(every_vote, "panel", "read the votes without weight")
    every_vote = replace(load_votes(every_vote), found_gold=None)  # panels are to learn from their votes alone
    if every_vote.n_workers < 2 or every_vote.n_tasks < 2:
        size = f"{pluralize(every_vote.n_workers, 'worker')} on {pluralize(every_vote.n_tasks, 'task')}"
        raise InputError(f"{size}: a panel needs two of each at least")
    costs = None if cost is None else read_costs(cost, every_vote.workers)
    if budget is not None:
        budget = check_budget(budget if isinstance(budget, bool) else options.to_python(budget), costs is not None)
    kind = _kind(every_vote, by)
    codes = None if truth is None else read_truth_codes(every_vote, truth, truth_task, truth_label)
    clusters = read_clusters(TaskValues.of(source, every_vote, how), cluster)
    votes, codes, looked_at = _sample(every_vote, codes, kind, seed)
    some = None if looked_at is None else every_vote.n_tasks
    own = None if clusters is None else clusters.of(np.arange(every_vote.n_tasks) if looked_at is None else looked_at)
    if costs is not None and cost is not None and some is not None:
        costs = read_costs(cost, votes.workers)
    wanted, step = _sizes(votes, kind, sizes), progress or (lambda _: None)
    step("all votes")
    result = chosen_model.fit(votes, trace="light")
    labels = result.fit.outcome.labels.astype(np.int64)
    if codes is None:  # errors are then measured against majority vote
        yardstick, reference = measures.of_result(result), fit_labels(votes, "mv", seed)
    else:
        yardstick, reference = measures.of_truth(codes, votes.n_labels), codes
    if own is not None:
        yardstick = replace(yardstick, cluster=np.unique(own[yardstick.tasks], return_inverse=True)[1])
    correlation = measure_errors(votes, reference, Bootstrap(RESAMPLES, 0.9, seed), own).correlation
    panels = Panels(measures.Decider(votes, chosen_model), yardstick, costs, seed, step)
    points = tuple(panels.points(kind, wanted, subsets, labels, max(float(np.nan_to_num(correlation)), 0.0)))
    chosen: list[Chosen] = []
    if kind == "judges":
        like = find_alike(votes, labels, codes)
        judges = judge_panel(panels.decider, yardstick, like, labels, reference, within, seed, step)
        chosen = panels.choose(reference)
    else:
        judges = judge_crowd(result, yardstick, within, seed, step)
    if codes is not None:
        known = measure_accuracies(votes, yardstick)
        judges = [replace(one, accuracy=known.get(one.worker)) for one in judges]
    if costs is not None:
        judges = [replace(one, cost=float(costs[one.worker])) for one in judges]
    return PanelStudy(
        by=kind,
        measured_by="all votes" if codes is None else "truth",
        model=chosen_model.name,
        workers=votes.workers,
        votes=len(votes),
        tasks=votes.n_tasks,
        judged_tasks=len(yardstick),
        sampled_from=some,
        within=float(within),
        points=points,
        found=tuple(judges),
        chosen=tuple(chosen),
        error_correlation=correlation,
        find_confusions=None if codes is None else partial(measure_confusions, votes, yardstick),
        budget=budget,
        clusters=None if clusters is None else (clusters.column, clusters.number),
        understood=every_vote.understood,
        frame_kind=every_vote.frame_kind,
    )


def _kind(votes: Votes, by: str) -> str:
    """Return what a panel of these votes is made of: judges, where most of them saw most tasks, or votes per task."""
    if by != "auto":
        if by == "judges" and votes.n_workers > MAX_STUDY_JUDGES:
            raise OptionError(
                f"by is 'judges', but there are {votes.n_workers} workers, more than {MAX_STUDY_JUDGES}: take by='votes'"
            )
        return by
    pairs = len(np.unique(vote_tasks(votes) * votes.n_workers + votes.row_worker()[votes.row]))
    dense = pairs >= MIN_COVERAGE * votes.n_tasks * votes.n_workers
    return "judges" if dense and votes.n_workers <= MAX_STUDY_JUDGES else "votes"


def _sample(votes: Votes, codes: Integers | None, kind: str, seed: int) -> tuple[Votes, Integers | None, Integers | None]:
    """Return the votes to look at, the true labels of their tasks, and their codes, None for all tasks."""
    limit = MAX_STUDY_VOTES if kind == "votes" else min(MAX_STUDY_VOTES, MAX_JUDGE_VOTES // votes.n_workers)
    cells = MAX_STUDY_CELLS // max(votes.n_labels, 1)
    if votes.n_tasks > cells:
        limit = min(limit, len(votes) * cells // votes.n_tasks)
    if len(votes) <= limit:
        return votes, codes, None
    first = np.zeros(votes.n_tasks, np.bool_) if codes is None else codes >= 0
    part = measures.some_tasks(votes, first, limit, np.random.default_rng([seed, 0]))
    return part.votes, None if codes is None else codes[part.tasks], part.tasks


def _sizes(votes: Votes, kind: str, sizes: Iterable[int] | None) -> tuple[int, ...]:
    """Return the sizes to look at, smallest first; the last is that of all votes."""
    per_task = np.diff(votes.task_ptr)
    most = votes.n_workers if kind == "judges" else int(per_task.max())
    if sizes is None:
        many = most if kind == "judges" else np.quantile(per_task, 0.95)  # few tasks have more votes
        return (*(size for size in USUAL_SIZES if size < min(many, most)), most)
    typed: object = sizes  # a number or a text is a likely slip
    if isinstance(typed, str) or not isinstance(typed, Iterable):
        raise OptionError(f"sizes is {quote(sizes)}: give a list of whole numbers, as [1, 3, 5]")
    given = list(typed)
    for size in given:
        Number(least=1, most=most, whole=True).check("sizes", size)
    return (*sorted({int(size) for size in given} - {most}), most)
