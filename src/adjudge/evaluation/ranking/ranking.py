"""What `rank` returns: the leaderboard, neighbours, components, and what comparisons show of each judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import Vocabulary, text_of
from adjudge.data.votes import FrameKind, Understood
from adjudge.errors import InputError, itemize, make_visible, pluralize, quote
from adjudge.evaluation.intervals import Flags, Floats, Integers, quantiles, ratio, sum_by, two_sided
from adjudge.evaluation.ranking.comparisons import Comparisons
from adjudge.evaluation.ranking.covariates import Effect
from adjudge.evaluation.ranking.errors import EQUAL, EstimateErrors, find_rivals, neighbours, order_of, rank_intervals, ranks
from adjudge.evaluation.ranking.fit import FittedRanking, RankingStep
from adjudge.evaluation.ranking.stability import Cycles, draw_ranks, find_cycles, summarise_ranks
from adjudge.evaluation.ranking.tournament import Tournament
from adjudge.io.frames import Frame, column, to_native
from adjudge.results.plotting import Picture, Theme, draw

MEAN_POINTS: Final = 1000.0  # of an item of mean strength, as chess players know them
MAX_RIVALS: Final = 3  # items that a sentence names
MIN_STABILITY_ITEMS: Final = 3  # two have one difference, which says it all
MAX_STABILITY_ITEMS: Final = 200  # items up to which sentences tell how firm the ranks are, as it takes little time
MAX_BOARD_ROWS: Final = 10  # lines of the leaderboard on a card
POINTS_PER_NAT: Final = 400 / np.log(10)  # 400 points are odds of ten to one


def judge_figures(t: Tournament, strength: Floats, repeated: Tournament | None = None) -> dict[str, Floats]:
    """Return counts and shares of every judge, [judges] each, by the strengths of items, [items]; NaN is a share of nothing.

    `left_share` is that of comparisons that the left side won, and `agreement` that of those whose winner is the stronger item,
    ties as half in both. `repeats` are pairs of comparisons of the same two items in the same order, and `consistency` the share
    of these with the same answer; `swapped_repeats` and `swapped_consistency` are the same of opposite orders, where the same
    item is preferred, or both are ties. `repeated` has the rows within which comparisons repeat each other; by default `t`.
    """
    r = t if repeated is None else repeated
    gap = strength[t.left] - strength[t.right]
    right = np.where(np.abs(gap) <= EQUAL, 0.5 * t.count, np.where(gap > 0, t.points, t.count - t.points))
    count = t.per_judge(t.count)
    again, met = r.per_judge(r.count * (r.count - 1) / 2), _swapped_pairs(r)
    same = r.per_judge(np.asarray(sum(some * (some - 1) / 2 for some in (r.left_wins, r.right_wins, r.ties))))
    return {
        "agreement": ratio(t.per_judge(right), count),
        "left_share": ratio(t.per_judge(t.points), count),
        "ties": t.per_judge(t.ties),
        "repeats": again,
        "consistency": ratio(same, again),
        "swapped_repeats": met[0],
        "swapped_consistency": ratio(met[1], met[0]),
    }


def _chance(gap: float) -> float:
    """Return the probability of a win by log-odds."""
    return float(0.5 * (1 + np.tanh(0.5 * gap)))


def with_spread(variance: Floats, deviation: Floats, spread: float) -> Floats:
    """Return the variance of judges' estimates, [judges], with what an estimated spread of judges adds (Morris 1983).

    `deviation` is how far the estimates are from the mean judge, to which they were shrunk: B of the way, which is the variance
    over the square of the spread. A spread of K judges is known to about 2/(K - 2) of its square.
    """
    shrunk = np.minimum(variance / spread**2, 0.95)
    return np.asarray(variance + 2 / max(len(variance) - 2, 1) * np.square(shrunk * deviation / (1 - shrunk)))


def _swapped_pairs(t: Tournament) -> tuple[Floats, Floats]:
    """Return pairs of comparisons of the same items in opposite orders, and those that agree, [judges] each."""
    pairs, pair = np.unique(np.minimum(t.left, t.right) * t.items + np.maximum(t.left, t.right), return_inverse=True)
    key = t.judge * len(pairs) + pair
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(key[order[1:]] == key[order[:-1]])  # a judge has at most two rows of a pair
    here, there = order[twice], order[twice + 1]
    judge = t.judge[here]
    alike = t.left_wins[here] * t.right_wins[there] + t.right_wins[here] * t.left_wins[there] + t.ties[here] * t.ties[there]
    return sum_by(judge, t.count[here] * t.count[there], t.judges), sum_by(judge, alike, t.judges)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Ranking:
    """Items by strength with intervals, judges, and neighbours that are not separated yet.

    Examples
    --------
    >>> import adjudge as adj
    >>> games = [("x", "y", "x"), ("y", "x", "x"), ("x", "y", "y"), ("y", "z", "y"), ("z", "y", "z"), ("z", "x", "tie")]
    >>> ranking = adj.rank(games)
    >>> ranking
    Ranking(3 items, 6 comparisons: x leads)
    >>> ranking.leaderboard.select("rank", "item", "rank_low", "rank_high", "wins", "losses", "ties").rows()
    [(1, 'x', 1, 3, 2, 1, 1), (2, 'z', 1, 3, 1, 1, 1), (3, 'y', 1, 3, 2, 3, 0)]
    >>> round(ranking.probability("x", "y"), 3)
    0.636

    """

    items: Vocabulary
    workers: Vocabulary  # the judges; one that stands for all where the source does not name them
    tournament: Tournament
    fitted: FittedRanking
    errors: EstimateErrors
    level: float  # of all intervals
    component: Integers  # [items] 0 is the largest
    has_maximum: Flags  # [components] whether the likelihood alone has a finite maximum
    comparisons: Comparisons
    told: Mapping[str, Any]  # what was decided, and why
    understood: Understood
    effect_names: tuple[Effect, ...] = ()  # what the effects are of
    seed: int = 0  # of drawn ranks
    frame_kind: FrameKind = "polars"

    def __repr__(self) -> str:
        count = int(self.tournament.count.sum())
        first = self._order[ranks(self.strength, self.component)[self._order] == 1]
        first = first[self.component[first] == 0]
        leads = f"{quote(text_of(self.items[int(first[0])]))[1:-1]} leads" if len(first) == 1 else f"{len(first)} share the lead"
        parts = f" in {len(self.has_maximum)} components" if len(self.has_maximum) > 1 else ""
        return f"Ranking({len(self.items)} items{parts}, {count} comparisons: {leads})"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        from adjudge.results.card import Card, CardTable

        facts, columns = self.facts, ["rank", "item", "strength", "low", "high", "rank_low", "rank_high", "comparisons"]
        rows = self.leaderboard_frame().select(columns).rows()
        tables = [CardTable.cut("leaderboard", columns, rows, "ranking.leaderboard", MAX_BOARD_ROWS)]
        if self.effect_names:
            columns = ["covariate", "value", "effect", "low", "high", "unit"]
            rows = self.effects_frame().select(columns).rows()
            tables.append(CardTable.cut("effects of covariates", columns, rows, "ranking.effects", MAX_BOARD_ROWS))
        figures = [(name, facts[name]) for name in ("items", "comparisons", "ties")]
        steps = [f"ranking.{name}" for name in ("leaderboard", "neighbours", "volatility", "cycles", "judges", "plot()")]
        return Card(repr(self), figures, self.sentences()[1:], tables, next_steps=steps).html()

    def plot(self, *, theme: Theme = "light") -> Picture:
        """Draw the strengths with their intervals, the strongest first.

        Parameters
        ----------
        theme : {"light", "dark", "none"}, default "light"
            "none" leaves the look to Altair's own themes.

        """
        return draw("studies:ranking", self, theme=theme)

    @cached_property
    def leaderboard(self) -> Frame:
        """One row per item, the strongest first: rank, item, strength, low, high, rank_low, rank_high and the counts behind them.

        `strength` is in nats, with the mean 0 over the items of a component; `low` and `high` are its interval. `rank` is within
        the `component`, and so are `rank_low` and `rank_high`: one more than the items that are better beyond doubt, and as many
        as are left by those that are worse beyond doubt. Each difference is tested alone, at the `level`: among six equal items
        a third have a range below 1 to 6 at level 0.9. `comparisons`, `wins`, `losses` and `ties` are counts. `points` is the
        strength on the scale of chess (mean 1000, 400 points for odds of ten to one), and `win_probability` that of winning
        against an item of mean strength.
        """
        return to_native(self.leaderboard_frame(), self.frame_kind)

    @cached_property
    def neighbours(self) -> Frame:
        """One row per pair of consecutive items: component, upper, lower, difference, low, high, probability, further.

        `probability` is that of the upper one being better. `further` estimates how many comparisons of the two would separate
        them: 0 where they are separated, null where they are equal, or a billion would not do.
        """
        return to_native(self.neighbours_frame(), self.frame_kind)

    @cached_property
    def judges(self) -> Frame:
        """One row per judge: worker, comparisons, reliability and position_bias with intervals, and figures of its answers.

        `reliability` is 1 for the average judge, 0 for one who guesses, negative for one who prefers the worse item.
        `position_bias` is the gain of the left side with the judge, in nats. Both are null if they were not estimated.
        `agreement` is the share of comparisons whose winner is the stronger item, `left_share` that of the left side; ties count
        half in both. `repeats` counts pairs of comparisons of the same items in the same order, `consistency` the share of them
        with the same answer; `swapped_repeats` and `swapped_consistency` are the same for opposite orders, with the same item
        winning. With clusters, only comparisons of one cluster repeat each other.
        """
        return to_native(self.judges_frame(), self.frame_kind)

    @cached_property
    def components(self) -> Frame:
        """One row per component: component, items, comparisons, leader (null if several share the first rank), maximum_exists.

        Items of different components were never compared, not even through others, so nobody knows which is better.
        `maximum_exists` is False where some items won, or lost, all comparisons with the others, so that only the prior keeps
        their strengths finite.
        """
        return to_native(self.components_frame(), self.frame_kind)

    @cached_property
    def effects(self) -> Frame:
        """One row per effect of a covariate: covariate, value, against, effect, low, high, unit, win_probability.

        `effect` is what the left side gains in log-odds from a difference of one `unit`, the standard deviation of differences;
        of a category, what a side with this `value` gains against one with the commonest, `against`. `win_probability` is that
        of winning with such a difference against an equal. There is no line without covariates.
        """
        return to_native(self.effects_frame(), self.frame_kind)

    @cached_property
    def volatility(self) -> Frame:
        """One row per item, in the order of the leaderboard: how its rank varies within the errors of the strengths.

        The columns are component, rank, item, expected_rank, low, high, keeps, first. `expected_rank` is the mean of drawn ranks,
        `low` and `high` hold them at the `level`, `keeps` is the share of draws with the same rank, `first` that with rank 1.
        """
        return to_native(self.volatility_frame(), self.frame_kind)

    @cached_property
    def rank_probabilities(self) -> Frame:
        """One row per item and possible rank: component, item, rank, probability, by the draws of `volatility`."""
        return to_native(self.rank_probabilities_frame(), self.frame_kind)

    @cached_property
    def cycles(self) -> Frame:
        """One row per circle of three items: by most of the points, first beats second, second beats third, third beats first.

        The columns are first, second, third, first_share, second_share, third_share (of the points that each has against the
        next), comparisons (the fewest of the three) and p_value: how probable a majority as clear as the weakest of the three is
        between equals. There are up to 20 lines, the clearest cycles first; `intransitivity` counts all.
        """
        return to_native(self.cycles_frame(), self.frame_kind)

    @property
    def intransitivity(self) -> dict[str, Any] | None:
        """Numbers of `triples` of items that were all compared, of `cycles` among them, and of cycles `expected` by chance.

        `expected` is None if comparisons depend on each other (clusters). None beyond 2000 items.
        """
        found = self._cycles
        if found is None:
            return None
        expected = None if self.told["clusters"] is not None else found.expected
        return {"triples": found.triples, "cycles": found.cycles, "expected": expected}

    @cached_property
    def winner(self) -> Any:
        """The id of the item that is better than each of the others, or None while one of them may be as strong.

        It is the first item of the largest component if the interval of every difference to another one excludes 0. Among
        equal items there is a winner with probability 1 - level at most.
        """
        return None if len(self._rivals) else self.items[int(self._order[0])]

    @property
    def facts(self) -> dict[str, Any]:
        """Choices and findings as plain values: model, prior, position and judges with the reasons, and more."""
        t, f = self.tournament, self.fitted
        out = {
            "model": "bradley-terry",
            "items": len(self.items),
            "comparisons": int(t.count.sum()),
            "ties": int(t.ties.sum()),
            "abstentions": self.understood.abstentions,
            "components": len(self.has_maximum),
            "left_share": float(t.points.sum() / t.count.sum()),
        }
        out |= {**self.told, "position_bias": None, "position_low": None, "position_high": None}
        if f.problem.has_position:
            half, middle = float(self._half_widths[f.problem.at_position]), f.estimates.position
            out |= {"position_bias": middle, "position_low": middle - half, "position_high": middle + half}
        spread = f.problem.has_judges
        return out | {
            "reliability_spread": f.problem.reliability_spread if spread else None,
            "position_spread": f.problem.position_spread if spread and f.problem.has_position else None,
            "level": self.level,
            "winner": self.winner,
            "intervals": "exact" if self.errors.draws is None else f"{self.errors.draws.count} draws",
            "log_likelihood": f.log_likelihood,
            "iterations": len(f.trace),
            "converged": f.converged,
        }

    @property
    def trace(self) -> tuple[RankingStep, ...]:
        """Every iteration: phase, penalised log-likelihood (which never falls within a phase), largest change."""
        return self.fitted.trace

    def probability(self, a: object, b: object) -> float:
        """Return the probability that the average judge prefers item `a` to item `b` in one comparison.

        It does not depend on which is on the left. How sure it is that `a` is better is the `probability` of `neighbours`.

        Parameters
        ----------
        a, b : object
            Ids of two items of the same component.

        """
        codes = self.items.codes([a, b])
        for given, code in zip((a, b), codes, strict=True):
            if code < 0:
                raise InputError(f"{quote(given)} is not among the items: {itemize(self.items.texts(), 6)}")
        one, other = (int(code) for code in codes)
        if self.component[one] != self.component[other]:
            raise InputError(f"{quote(a)} and {quote(b)} are in different components: no comparisons lead from one to the other")
        gap = self.strength[one] - self.strength[other]
        return _chance(gap)

    @property
    def strength(self) -> Floats:
        """The strengths in the order of `items`, [items]."""
        return self.fitted.estimates.strength

    @property
    def standard_error(self) -> Floats:
        """Their standard errors, [items]."""
        return np.asarray(np.sqrt(self.errors.variance[: len(self.items)]))

    def sentences(self) -> list[str]:
        """Return the sentences to read before the leaderboard."""
        facts = self.facts
        judges = f" by {len(self.workers)} judges" if len(self.workers) > 1 else ""
        count, ties = pluralize(facts["comparisons"], "comparison"), pluralize(facts["ties"], "tie")
        out = [f"{count} of {facts['items']} items{judges}, {ties}"]
        if len(self.has_maximum) > 1:
            sizes = np.bincount(self.component)
            out.append(
                f"the items fall into {len(sizes)} components that were never compared ({itemize(sizes.tolist(), 5)} items): "
                "ranks and strengths hold within a component, and say nothing across"
            )
        for reason in ("prior_why", "position_why", "judges_why", "clusters_why"):
            if facts[reason]:
                out.append(facts[reason])
        if facts["position_bias"] is not None:
            low, high = facts["position_low"], facts["position_high"]
            share, least, most = map(_chance, (facts["position_bias"], low, high))
            word = "an advantage" if low > 0 else "a disadvantage" if high < 0 else "no clear advantage"
            out.append(
                f"the left side has {word} with the average judge: it wins {share:.1%} of comparisons between equal items "
                f"({least:.1%} to {most:.1%}); strengths are corrected for it"
            )
        if facts["clusters"] is not None:
            column = make_visible(self.understood.columns.get("cluster", "cluster"))
            out.append(
                f"intervals are cluster-robust: comparisons with one {column} depend on each other ({facts['clusters']} clusters)"
            )
        out += self._effects_told()
        if MIN_STABILITY_ITEMS <= len(self.items) <= MAX_STABILITY_ITEMS:
            out += self._stability_told()
        return [*out, *self._two_told(), self._lead()]

    def _effects_told(self) -> list[str]:
        """Return a sentence per effect of a covariate."""
        out = []
        for row in self.effects_frame().iter_rows(named=True):
            name = make_visible(row["covariate"])
            what = f"{row['unit']:.3g} more {name}"
            if row["value"] is not None:
                what = f"{name} {make_visible(row['value'])} instead of {make_visible(row['against'])}"
            word = "helps" if row["low"] > 0 else "harms" if row["high"] < 0 else "has no clear effect"
            out.append(
                f"{what} {word}: the side with it wins {row['win_probability']:.1%} of comparisons between equal items "
                f"({_chance(row['low']):.1%} to {_chance(row['high']):.1%}); strengths are corrected for it"
            )
        return out

    def _stability_told(self) -> list[str]:
        """Return how firm the ranks are, and whether triples of items beat each other in a circle."""
        frame = self.volatility_frame().filter(component=1)
        first = frame.row(0, named=True)
        moved = float(np.abs(self._drawn_ranks - ranks(self.strength, self.component)).mean())
        out = [
            f"within the errors {make_visible(text_of(first['item']))} is first in {first['first']:.0%} of rankings, and an item "
            f"moves by {moved:.1f} ranks on average"
        ]
        found = self._cycles
        if found is None or not found.triples:
            return out
        chance = "" if self.told["clusters"] is not None else f" (chance alone makes about {found.expected:.0f})"
        line = f"{found.cycles} of {found.triples} triples of items beat each other in a circle{chance}"
        if found.strongest:
            one = found.strongest[0]
            names = [self._show(item) for item in one.items]
            steps = zip(names, [*names[1:], names[0]], one.shares, strict=True)
            line += ", most clearly " + ", ".join(f"{a} beats {b} ({share:.0%})" for a, b, share in steps)
        return [*out, line]

    def _two_told(self) -> list[str]:
        """Return how often the stronger of two items is preferred, with the interval and the p-value of a difference."""
        if len(self.items) != 2:
            return []
        two = neighbours(self.strength, self.component, self.errors, self.level)
        share, low, high = (_chance(two[name][0]) for name in ("difference", "low", "high"))
        p = 2 * (1 - two["probability"][0])
        first, second = self._show(two["upper"][0]), self._show(two["lower"][0])
        order = ", whichever is on the left" if self.told["position"] else ""
        who = "the average judge prefers" if self.told["judges"] else "judges prefer"
        return [
            f"{who} {first} to {second} in {share:.1%} of comparisons ({low:.1%} to {high:.1%}){order}; "
            f"p {'< 0.0001' if p < 1e-4 else f'= {p:.2g}'}"
        ]

    def _show(self, item: int) -> str:
        return make_visible(text_of(self.items[int(item)]))

    def _lead(self) -> str:
        """Return whether there is a winner, in words."""
        first = self._show(self._order[0])
        if self.winner is not None and len(self.items) == 2:
            return f"{first} is better than {self._show(self._order[1])} at the {100 * self.level:g}% level"
        if self.winner is not None:
            return f"{first} is better than every other item, each at the {100 * self.level:g}% level"
        names = itemize(map(self._show, self._rivals), MAX_RIVALS)
        return f"no winner at the {100 * self.level:g}% level: {first} leads, and {names} may be as strong"

    def leaderboard_frame(self) -> pl.DataFrame:
        """Return `leaderboard` as a polars frame."""
        t, order = self.tournament, self._order
        half = self._half_widths[: len(self.items)]
        best, worst = self._rank_intervals
        wins = t.per_item(t.left_wins, t.right_wins)
        losses, ties = t.per_item(t.right_wins, t.left_wins), t.per_item(t.ties)
        whole = {"comparisons": wins + losses + ties, "wins": wins, "losses": losses, "ties": ties}
        return pl.DataFrame(
            {
                "rank": ranks(self.strength, self.component)[order],
                "item": column(self.items, order),
                "strength": self.strength[order],
                "low": (self.strength - half)[order],
                "high": (self.strength + half)[order],
                "rank_low": best[order],
                "rank_high": worst[order],
                **{name: values[order].astype(np.int64) for name, values in whole.items()},
                "points": (MEAN_POINTS + POINTS_PER_NAT * self.strength)[order],
                "win_probability": (0.5 * (1 + np.tanh(0.5 * self.strength)))[order],
                "component": self.component[order] + 1,
            }
        )

    def neighbours_frame(self) -> pl.DataFrame:
        """Return `neighbours` as a polars frame."""
        found = neighbours(self.strength, self.component, self.errors, self.level)
        upper, lower = found["upper"], found["lower"]
        return pl.DataFrame(
            {
                "component": self.component[upper] + 1,
                "upper": column(self.items, upper),
                "lower": column(self.items, lower),
                **{name: found[name] for name in ("difference", "low", "high", "probability", "further")},
            }
        ).with_columns(further=pl.when(pl.col("further") >= 0).then("further"))

    def judges_frame(self) -> pl.DataFrame:
        """Return `judges` as a polars frame."""
        t, f, p = self.tournament, self.fitted.estimates, self.fitted.problem
        nothing, both = np.full(t.judges, np.nan), p.has_judges and p.has_position
        columns: dict[str, Any] = {"worker": column(self.workers), "comparisons": t.per_judge(t.count)}
        for bias, ends, at, is_known, values, mean, spread in (
            ("reliability", "reliability", p.scales, p.has_judges, f.reliability, 1.0, p.reliability_spread),
            ("position_bias", "position", p.judge_positions, both, f.judge_position, f.position, p.position_spread),
        ):
            value = half = nothing
            if is_known:
                value, variance = values, with_spread(self.errors.variance[at], values - mean, spread)
                half = self._deviations[at] * np.sqrt(variance)
            columns |= {bias: value, f"{ends}_low": value - half, f"{ends}_high": value + half}
        frame = pl.DataFrame({**columns, **judge_figures(t, self.strength, self.comparisons.within_clusters())}).fill_nan(None)
        return frame.with_columns(pl.col("comparisons", "ties", "repeats", "swapped_repeats").cast(pl.Int64))

    def effects_frame(self) -> pl.DataFrame:
        """Return `effects` as a polars frame."""
        at, effect = self.fitted.problem.styles, self.fitted.estimates.effect
        half = self._half_widths[at]
        names = self.effect_names
        return pl.DataFrame(
            {
                "covariate": pl.Series([one.covariate for one in names], dtype=pl.String),
                "value": pl.Series([one.value for one in names], dtype=pl.String),
                "against": pl.Series([one.against for one in names], dtype=pl.String),
                "effect": effect,
                "low": effect - half,
                "high": effect + half,
                "unit": pl.Series([one.unit for one in names], dtype=pl.Float64),
                "win_probability": 0.5 * (1 + np.tanh(0.5 * effect)),
            }
        )

    def volatility_frame(self) -> pl.DataFrame:
        """Return `volatility` as a polars frame."""
        order, rank = self._order, ranks(self.strength, self.component)
        told = summarise_ranks(self._drawn_ranks, rank, self.level)
        frame = pl.DataFrame(
            {
                "component": self.component[order] + 1,
                "rank": rank[order],
                "item": column(self.items, order),
                **{name: values[order] for name, values in told.items()},
            }
        )
        return frame.with_columns(pl.col("low", "high").cast(pl.Int64))

    def rank_probabilities_frame(self) -> pl.DataFrame:
        """Return `rank_probabilities` as a polars frame."""
        drawn, order = self._drawn_ranks, self._order
        place, items = np.argsort(order), len(order)
        cell, count = np.unique(place[None, :] * (items + 1) + drawn, return_counts=True)
        item, rank = order[cell // (items + 1)], cell % (items + 1)
        return pl.DataFrame(
            {
                "component": self.component[item] + 1,
                "item": column(self.items, item),
                "rank": rank,
                "probability": count / len(drawn),
            }
        )

    def cycles_frame(self) -> pl.DataFrame:
        """Return `cycles` as a polars frame."""
        found = () if self._cycles is None else self._cycles.strongest
        items, shares = np.array([one.items for one in found], np.int64), np.array([one.shares for one in found])
        words = ("first", "second", "third")
        return pl.DataFrame(
            {
                **{word: column(self.items, items.reshape(-1, 3)[:, n]) for n, word in enumerate(words)},
                **{f"{word}_share": shares.reshape(-1, 3)[:, n] for n, word in enumerate(words)},
                "comparisons": pl.Series([min(one.comparisons) for one in found], dtype=pl.Int64),
                "p_value": pl.Series([two_sided(one.z, np.inf) / 2 for one in found], dtype=pl.Float64),
            }
        )

    def components_frame(self) -> pl.DataFrame:
        """Return `components` as a polars frame."""
        count, order = len(self.has_maximum), self._order
        first = np.searchsorted(self.component[order], np.arange(count))
        leading = np.bincount(self.component, ranks(self.strength, self.component) == 1, count)
        leader = column(self.items, order[first])
        compared = np.bincount(self.component[self.tournament.left], self.tournament.count, count)
        return pl.DataFrame(
            {
                "component": np.arange(1, count + 1),
                "items": np.bincount(self.component, minlength=count),
                "comparisons": compared.astype(np.int64),
                "leader": leader.set(pl.Series(leading > 1), None),
                "maximum_exists": self.has_maximum,
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON."""
        names = ("leaderboard", "neighbours", "judges", "components", "effects", "volatility", "cycles")
        tables = {name: getattr(self, f"{name}_frame")().to_dicts() for name in names}
        return {"facts": self.facts, "intransitivity": self.intransitivity, **tables}

    @cached_property
    def _drawn_ranks(self) -> NDArray[np.int32]:
        return draw_ranks(self.strength, self.component, self.errors, self.seed)

    @cached_property
    def _cycles(self) -> Cycles | None:
        problem = self.fitted.problem
        return find_cycles(problem.tournament, problem.chances(self.fitted.estimates))

    @cached_property
    def _rank_intervals(self) -> tuple[Integers, Integers]:
        return rank_intervals(self.strength, self.component, self.errors, self.level)

    @cached_property
    def _rivals(self) -> Integers:
        return find_rivals(self.strength, self.component, self.errors, self.level)

    @cached_property
    def _order(self) -> Integers:
        return order_of(self.strength, self.component)

    @cached_property
    def _deviations(self) -> Floats:
        """Standard errors that an interval reaches to each side, [parameters]."""
        return quantiles(self.level, self.errors.degrees(len(self.errors.variance)))

    @property
    def _half_widths(self) -> Floats:
        """Half the width of every interval, [parameters]."""
        return np.asarray(self._deviations * np.sqrt(self.errors.variance))
