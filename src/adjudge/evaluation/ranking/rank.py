"""One call from comparisons to a ranking: `adj.rank`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import numpy as np

from adjudge.data import options
from adjudge.data.options import Number, Rules
from adjudge.errors import InputError, OptionError, SuspiciousVotes, itemize, quote, warn
from adjudge.evaluation.intervals import Flags, Floats, Integers
from adjudge.evaluation.ranking.comparisons import Comparisons, group_comparisons, read_comparisons
from adjudge.evaluation.ranking.covariates import Effect, check_names
from adjudge.evaluation.ranking.errors import Clusters, errors, estimate_clustered_errors
from adjudge.evaluation.ranking.fit import FittedRanking, fit, problem_of
from adjudge.evaluation.ranking.ranking import Ranking
from adjudge.evaluation.ranking.tournament import Tournament, components, has_maximum
from adjudge.io.sources import Source

Decided: TypeAlias = bool | Literal["auto"]
RULES: Final[Rules] = {
    "prior": Number(least=0, most=1e6, words=("auto",)),
    "level": Number(least=0.5, most=0.9999),
    "draws": Number(least=8, most=10_000, whole=True),
    "seed": Number(least=0, whole=True),
}
PRIOR: Final = 1.0  # comparisons with an item of mean strength, half of them won: where the likelihood alone is not enough
MIN_JUDGES: Final = 2  # with enough comparisons, so that judges can be told apart
MIN_COMPARISONS: Final = 10  # that are enough
MIN_CLUSTERS: Final = 5  # that show how comparisons of one depend on each other
MIN_INFORMATION_LEFT: Final = 1e-6  # share of what comparisons say of an effect that strengths must leave
LENT_VARIANCE: Final = 2.0  # of points, that of 8 comparisons of equals: a few ties do not prove that all end so
MIN_DISPERSION: Final = 0.25  # of points: fewer ties than this allows for are usual
MIN_SWAPS: Final = 30  # comparisons' worth of information about the position


def rank(
    comparisons: Source,
    *,
    judges: Decided = "auto",
    position: Decided = "auto",
    prior: float | Literal["auto"] = "auto",
    level: float = 0.9,
    draws: int = 64,
    seed: int = 0,
    left: str | None = None,
    right: str | None = None,
    winner: str | None = None,
    worker: str | None = None,
    cluster: str | None = None,
    groups: Source | None = None,
    covariates: str | Sequence[str] = (),
    separator: str | None = None,
    header: bool = True,
) -> Ranking:
    """Rank items by pairwise comparisons: strengths with intervals, judges, and neighbours that are not separated.

    The model is that of Bradley and Terry: the log-odds that one item beats another are the difference of their strengths. A tie
    is half a win for each side. Judges multiply these log-odds by their reliability, and the left side may have an advantage that
    depends on the judge; strengths are free of both.

    Parameters
    ----------
    comparisons : source
        A path, several paths or a pattern, a frame of pandas, polars or pyarrow, a dict of columns, or tuples (left, right,
        winner) or (left, right, winner, worker). The winner is one of the two ids, or a word: left, right, a, b, model_a,
        model_b, tie, draw, both. A comparison without a winner is an abstention. A table with columns winner and loser and none
        for the sides is read as such.
    judges : bool or "auto", default "auto"
        Whether to estimate a reliability for every worker, or to take all as equal. "auto" does so if at least two workers have
        ten comparisons each.
    position : bool or "auto", default "auto"
        Whether to estimate the advantage of the left side, for every judge if `judges` are estimated. "auto" does so if items
        were seen on both sides often enough.
    prior : float or {"auto"}, default "auto"
        Pseudo-comparisons with an average item, half of them won, that every item gets. "auto" adds one if the likelihood has no
        finite maximum (an item won everything) and if judges are estimated; otherwise it adds none, and strengths are those of
        maximum likelihood. 0 adds none, and raises if there is no maximum.
    level : float, default 0.9
        Level of the intervals of strengths, ranks, reliabilities and positions.
    draws : int, default 64
        Number of draws that approximate the errors if items and judges number more than 2,000.
    seed : int, default 0
        Seed of these draws.
    left, right, winner, worker : str, optional
        Names of the columns, if they are not among the usual ones (left, model_a, item_1, …).
    cluster : str, optional
        Column whose value makes comparisons depend on each other: all judges and both orders of one prompt share its quirks.
        Errors are then cluster-robust. By default a column called prompt, document or conversation (or prompt_id, …) is used; ""
        takes all comparisons as independent. A comparison without a cluster stands alone.
    groups : source, optional
        Judges that compare as one: a table of worker and group, or "families" (model families, recognised by name). A group gives
        each pair of a cluster, in one order, the outcome that most of its members gave; if they are evenly split, it abstains.
    covariates : str or sequence of str, default ()
        What else may sway a choice, such as length, markup or language. Strengths are then those of items that are alike in it;
        `effects` has the effects. Each name is a column with the difference (left minus right), or two columns, one per side
        (`length_a`, `length_b`). Numbers count in standard deviations; texts are categories.
    separator : str, optional
        Field separator of a text file, if the header does not show it.
    header : bool, default True
        False if the first line of a text file is a comparison; columns are then called 1, 2, …

    Returns
    -------
    Ranking
        The leaderboard, judges, position and effects.

    Raises
    ------
    OptionError
        If an option is invalid, or there are too few clusters for robust errors.
    InputError
        If the comparisons cannot be read, or have no finite fit without a prior.

    Examples
    --------
    >>> import adjudge as adj
    >>> games = {"model_a": ["x", "y", "z", "x"], "model_b": ["y", "z", "x", "z"], "winner": ["x", "tie", "x", "z"]}
    >>> adj.rank(games).leaderboard.select("rank", "item", "wins").rows()
    [(1, 'x', 2), (2, 'z', 1), (3, 'y', 0)]

    """
    options.check({"prior": prior, "level": level, "draws": draws, "seed": seed}, RULES)
    for name, value in (("judges", judges), ("position", position)):
        if not isinstance(value, bool) and value != "auto":
            raise OptionError(f"{name} is {quote(value)}: give True, False or 'auto'")
    columns = {"left": left, "right": right, "winner": winner, "worker": worker, "cluster": cluster}
    names = check_names(covariates)
    known = read_comparisons(comparisons, **columns, covariates=names, separator=separator, header=header)
    if groups is not None:
        known = group_comparisons(known, groups)
    if cluster and known.clusters < MIN_CLUSTERS:
        raise OptionError(
            f"cluster={quote(cluster)} (--cluster) has {known.clusters} values, too few to tell how comparisons of one depend on "
            f"each other: {MIN_CLUSTERS} are needed; leave it out, or give cluster='' if the comparisons are independent"
        )
    if not len(known.left):
        raise InputError("there are no comparisons to rank: give lines with a left item, a right item and a winner")
    whole = known.tournament()
    t = whole if whole.judges == 1 else known.tournament(judges=False)
    component = components(t.items, t.left, t.right)
    exists = has_maximum(t, component)
    with_judges, judges_why = _use_judges(known, whole, judges)
    weights, prior_why = _prior(known, t, component, exists, prior, with_judges)
    if position is True and not known.has_sides:
        raise OptionError("position=True needs the sides, and columns of winners and losers have none: leave it out")
    with_position, position_why = _use_position(t, position) if known.has_sides else (False, "")
    if len(exists) > 1:
        sizes = itemize(np.bincount(component).tolist(), 5)
        warn(
            f"the items fall into {len(exists)} components that were never compared ({sizes} items): ranks hold within each",
            SuspiciousVotes,
        )
    games = whole if with_judges else t
    if known.effects:
        games = known.tournament(judges=with_judges, style=True)
        _require_identified(games, known.effects, position=with_position)
    fitted = fit(problem_of(games, position=with_position, judges=with_judges, prior=weights))
    problem = fitted.problem
    use_clusters, cluster_why = _use_clusters(known)
    if use_clusters:
        assert known.cluster is not None
        row = games.rows_of(known.left, known.right, known.judge if with_judges else np.zeros_like(known.judge))
        error_estimates = estimate_clustered_errors(fitted, Clusters.of(games, row, known.outcome, known.cluster), draws, seed)
    else:
        score = None if fitted.information.is_small else problem.scores(fitted.parameters)
        error_estimates = errors(fitted.information, problem.gauge, score, draws, seed, dispersion=_dispersion(fitted))
    told = {
        "prior": float(weights.max(initial=0.0)),
        "prior_why": prior_why,
        "position": with_position,
        "position_why": position_why,
        "judges": with_judges,
        "judges_why": judges_why,
        "clusters": known.clusters if use_clusters else None,
        "clusters_why": cluster_why,
    }
    return Ranking(
        items=known.items,
        workers=known.judges,
        tournament=whole,
        fitted=fitted,
        errors=error_estimates,
        level=level,
        component=component,
        has_maximum=exists,
        comparisons=known,
        effect_names=known.effects,
        seed=seed,
        told=told,
        understood=known.understood,
        frame_kind=known.frame_kind,
    )


def _use_judges(known: Comparisons, t: Tournament, asked: Decided) -> tuple[bool, str]:
    """Return whether judges are told apart, and why not where nobody said so."""
    if asked is False or (asked == "auto" and not known.has_judges):
        return False, ""
    if asked is True and (not known.has_judges or t.judges < MIN_JUDGES):
        there = "one worker alone compares" if known.has_judges else "no column says who compared"
        raise OptionError(f"judges=True compares judges, and {there}: leave it out, or name the column with worker=… (--worker)")
    enough = int((t.per_judge(t.count) >= MIN_COMPARISONS).sum())
    if asked == "auto" and enough < MIN_JUDGES:
        who = "there is one judge" if t.judges == 1 else f"{enough} of {t.judges} judges have {MIN_COMPARISONS} comparisons"
        return False, f"judges are taken for equal: {who}"
    return True, ""


def _use_clusters(known: Comparisons) -> tuple[bool, str]:
    """Return whether errors are cluster-robust, and why not where a column was found."""
    if known.cluster is None or known.clusters == len(known.left):  # clusters of one comparison are independent
        return False, ""
    if known.clusters < MIN_CLUSTERS:
        column = quote(known.understood.columns.get("cluster", "cluster"))
        return False, (
            f"comparisons are taken for independent: {column} has {known.clusters} values, and {MIN_CLUSTERS} are needed to tell "
            "how comparisons of one depend on each other"
        )
    return True, ""


def _dispersion(fitted: FittedRanking) -> float:
    """Return the ratio of the variance of points to that of wins and losses alone: a tie is half a win for sure."""
    t = fitted.problem.tournament
    chance = fitted.problem.chances(fitted.estimates)
    variance = float(t.count @ (chance * (1 - chance)))
    return max(1 - float(t.ties.sum()) / 4 / (variance + LENT_VARIANCE), MIN_DISPERSION)


def _use_position(t: Tournament, asked: Decided) -> tuple[bool, str]:
    """Return whether the advantage of the left side is estimated, and why not where nobody said so.

    What tells it is the information about it that is left when strengths are known no better than by the same comparisons:
    none where every item always has the same side.
    """
    if asked != "auto":
        return asked, ""
    quarter = t.count / 4  # the information of comparisons between equals
    across = t.per_item(quarter, -quarter)
    strengths = problem_of(t, position=False, judges=False)
    alone = strengths.information(strengths.evaluate(np.zeros(t.items)))
    left_over = 4 * (quarter.sum() - alone.solve(across, strengths.gauge, 1e-6) @ across)
    if left_over < MIN_SWAPS:
        return False, "the position is taken for neutral: too few items were seen on both sides to tell its advantage"
    return True, ""


def _require_identified(t: Tournament, effects: Sequence[Effect], *, position: bool) -> None:
    """Raise if comparisons cannot tell the effects of covariates from strengths, the position or each other.

    Some of the information about the effects has to be left when strengths are known no better than by the same comparisons.
    """
    quarter = t.count / 4  # the information of comparisons between equals
    strengths = problem_of(t.without_style(), position=position, judges=False)
    alone = strengths.information(strengths.evaluate(np.zeros(strengths.size)))
    across = np.zeros((len(effects), strengths.size))
    for line, own in zip(across, t.style.T, strict=True):
        line[: t.items] = t.per_item(quarter * own, -quarter * own)
        line[t.items :] = quarter @ own
    whole = (t.style * quarter[:, None]).T @ t.style
    solved = np.stack([alone.solve(line, strengths.gauge) for line in across])
    scale = np.sqrt(np.diag(whole))
    values, vectors = np.linalg.eigh((whole - across @ solved.T) / np.outer(scale, scale))
    if values[0] < MIN_INFORMATION_LEFT:
        effect = effects[int(np.abs(vectors[:, 0]).argmax())]
        what = quote(effect.covariate) + (f" ({quote(effect.value)})" if effect.value is not None else "")
        raise InputError(
            f"the effect of covariate {what} cannot be separated from the items, the sides or another covariate: it needs "
            "comparisons of the same items that differ in it; leave it out"
        )


def _prior(
    known: Comparisons, t: Tournament, component: Integers, exists: Flags, asked: float | str, with_judges: bool
) -> tuple[Floats, str]:
    """Return the comparisons that every item is given, [items], and why."""
    bad = ~exists[component]
    if asked != "auto":
        if asked == 0 and bad.any():
            raise InputError(f"strengths have no finite maximum: {_extremes(known, t, bad)}; leave prior out, or give prior=1")
        return np.full(t.items, float(asked)), ""
    if with_judges:
        return np.full(t.items, PRIOR), _explain_prior(known, t, bad)
    return np.where(bad, PRIOR, 0.0), _explain_prior(known, t, bad)


def _explain_prior(known: Comparisons, t: Tournament, bad: Flags) -> str:
    if not bad.any():
        return ""
    return (
        f"comparisons alone leave some strengths without bound ({_extremes(known, t, bad)}): "
        "each item there is given half a win and half a loss against one of mean strength"
    )


def _extremes(known: Comparisons, t: Tournament, bad: Flags) -> str:
    """Return who won, or lost, all comparisons; or that some items as a group did."""
    wins, losses = t.per_item(t.left_wins, t.right_wins), t.per_item(t.right_wins, t.left_wins)
    level = t.per_item(t.ties) > 0
    out = []
    for word, one in (("won", losses == 0), ("lost", wins == 0)):
        who = np.flatnonzero(one & bad & ~level)
        if len(who):
            out.append(f"{itemize(map(quote, known.items.take(who).ids()), 3)} {word} all comparisons")
    return " and ".join(out) or "a group of items won, or lost, all comparisons with the others"
