"""Who is good, who is not, and how sure that is: votes against accuracy, a dot per worker or a cell for many."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.io.ids import column
from adjudge.report import words
from adjudge.results.groups import as_members
from adjudge.results.overview import TO_LOOK_AT, UNKNOWN, label_shares
from adjudge.results.result import Result

QUESTION: Final = "Who is good, who is not, and how sure are we?"
MAX_DOTS: Final = 2000  # workers that are drawn one by one
MAX_NOTABLE: Final = 300  # that are drawn, or described, where there are more
MAX_JUDGED: Final = 5_000_000  # votes up to which workers are judged: some ten seconds
MAX_CELLS: Final = 40_000_000  # votes x labels up to which they are: some four seconds
LEVEL: Final = 1.5  # times the votes of the worker with fewest that the one with most has, where all have about as many
VOTE_BINS: Final = 32  # of the logarithm of votes
ACCURACY_BINS: Final = 25
KEPT: Final = ("worker", "votes", "accuracy", "accuracy_low", "accuracy_high", "agreement", "verdict", "answers_like", "why")
MEANING: Final = {
    "copy": ("copies another", "copy each other's answers"),
    "adversary": ("avoids what others say", "avoid what others say"),
    "spammer": ("answers without looking", "answer without looking"),
}


@dataclass(frozen=True, eq=False)
class WorkersView:
    """Every worker with what is known of it, and the cut of them that a picture can hold."""

    frame: pl.DataFrame  # code, worker (text), votes, accuracy, accuracy_low, accuracy_high, verdict, why, …; null: not known
    people: Result  # the result whose workers have these codes: members of groups one by one
    chance: float  # accuracy of who guesses at the rates at which labels are given; NaN where it is not known
    is_judged: bool  # whether there are verdicts
    left_out: str  # why there are none

    @property
    def is_binned(self) -> bool:
        """Whether there are too many workers to draw one by one."""
        return len(self.frame) > MAX_DOTS

    @property
    def is_level(self) -> bool:
        """Whether all workers have about as many votes, as judges have: then their rank tells more than their votes."""
        votes = self.frame["votes"]
        return not self.is_binned and len(votes) > 1 and float(votes.max()) < LEVEL * float(votes.min())  # type: ignore[arg-type]

    @cached_property
    def notable(self) -> pl.DataFrame:
        """The workers to look at first, then those with most votes: at most `MAX_NOTABLE`."""
        order = {verdict: rank for rank, verdict in enumerate(TO_LOOK_AT)}
        grave = pl.col("verdict").replace_strict(order, default=len(order), return_dtype=pl.Int8).fill_null(len(order))
        return self.frame.sort(grave, -pl.col("votes"), "code").head(MAX_NOTABLE)

    @property
    def dots(self) -> pl.DataFrame:
        """The workers that are drawn one by one: all, or the notable ones."""
        return self.notable if self.is_binned else self.frame

    @cached_property
    def cells(self) -> pl.DataFrame:
        """How many workers are where: votes_from, votes_to, accuracy_from, accuracy_to, workers; none where all are dots."""
        if not self.is_binned:
            kinds = dict.fromkeys(("votes_from", "votes_to", "accuracy_from", "accuracy_to"), pl.Float64)
            return pl.DataFrame(schema={**kinds, "workers": pl.Int64})
        known = self.frame.filter(pl.col("accuracy").is_not_null())
        votes, accuracy = known["votes"].to_numpy(), known["accuracy"].to_numpy()
        edges = vote_edges(votes)
        across = np.clip(np.searchsorted(edges, votes, side="right") - 1, 0, len(edges) - 2)
        up = np.minimum((accuracy * ACCURACY_BINS).astype(np.int64), ACCURACY_BINS - 1)
        cell, workers = np.unique(across * ACCURACY_BINS + up, return_counts=True)
        across, up = np.divmod(cell, ACCURACY_BINS)
        return pl.DataFrame(
            {
                "votes_from": edges[across],
                "votes_to": edges[across + 1],
                "accuracy_from": up / ACCURACY_BINS,
                "accuracy_to": (up + 1) / ACCURACY_BINS,
                "workers": workers,
            }
        )

    @cached_property
    def verdicts(self) -> dict[str, int]:
        """How many workers have each verdict, the gravest first; empty where nobody was judged."""
        counted = dict(self.frame["verdict"].drop_nulls().value_counts().iter_rows())
        return {word: counted[word] for word in (*TO_LOOK_AT, UNKNOWN, "informative") if word in counted}

    @property
    def sentence(self) -> str:
        """What the picture shows here."""
        n = len(self.frame)
        if not n:
            return "There are no workers."
        if not self.verdicts:
            return f"{self._range()}{'' if not self.left_out else f' {self.left_out}'}"
        flagged = [(number, MEANING[word][number > 1]) for word, number in self.verdicts.items() if word in MEANING]
        unclear = self.verdicts.get(UNKNOWN, 0)
        few = f"; {words.count(unclear)} cannot be told from guessing yet" if 0 < unclear < n else ""
        if len(flagged) == 1:
            return words.sentence(f"{words.count(flagged[0][0])} of {words.counted(n, 'worker')} {flagged[0][1]}{few}")
        if flagged:
            found = words.listed([f"{words.count(number)} {what}" for number, what in flagged])
            return words.sentence(f"of {words.counted(n, 'worker')}, {found}{few}")
        if unclear == n:
            return "No worker can be told from guessing yet: more votes, or votes on the same tasks, would show who knows."
        if n == 1:
            return "There is one worker, whose answers nobody else's contradict."
        return words.sentence(f"none of {words.counted(n, 'worker')} guesses, copies or works against the others{few}")

    def _range(self) -> str:
        known = self.frame["accuracy"].drop_nulls().drop_nans()
        if not len(known):
            return f"There are {words.counted(len(self.frame), 'worker')}."
        low, high = float(known.quantile(0.1, "nearest") or 0.0), float(known.quantile(0.9, "nearest") or 0.0)
        what = "All workers are" if len(known) < 10 else f"Eight of ten among {words.counted(len(known), 'worker')} are"
        low, high = (float(known.min() or 0.0), float(known.max() or 0.0)) if len(known) < 10 else (low, high)  # type: ignore[arg-type]
        return f"{what} right in {words.percent(low)} to {words.percent(high)} of their votes."


def workers(result: Result, *, judged: bool | None = None) -> WorkersView:
    """Return the view of the workers of a result.

    - `result`: of any model, in memory or on disk.
    - `judged`: whether to look for verdicts, which costs about as much as the fit; by default where votes are in memory and
      not too many.

    >>> import adjudge as adj
    >>> workers(adj.aggregate(adj.simulate(tasks=300, workers=8, seed=1).votes)).sentence
    'None of 8 workers guesses, copies or works against the others.'
    """
    people = result if result.grouping is None else as_members(result)
    few = len(people.votes) <= MAX_JUDGED and len(people.votes) * people.votes.n_labels <= MAX_CELLS
    asked = (result.is_here and few) if judged is None else judged
    why = ""
    if not asked:
        reason = "among so many votes" if result.is_here else "where votes are on disk"
        remedy = "result.workers, or --workers, has them" if result.is_here else "aggregate in memory for them, where it suffices"
        why = f"Verdicts are not looked for {reason}: {remedy}."
    known = people.workers_frame(trust=asked or not result.is_here)
    frame = known.select(
        pl.Series("code", np.arange(len(known))),
        *(name for name in KEPT if name in known.columns),
    ).with_columns(pl.col("worker").cast(pl.String), pl.col("accuracy").cast(pl.Float64).fill_nan(None))
    missing = [name for name in KEPT if name not in frame.columns]
    kinds = {"accuracy_low": pl.Float64, "accuracy_high": pl.Float64}
    frame = frame.with_columns(pl.lit(None, kinds.get(name, pl.String)).alias(name) for name in missing)
    frame = frame.with_columns(
        pl.col("accuracy_low", "accuracy_high").fill_nan(None), pl.col("answers_like").cast(pl.String), _groups(result, people)
    )
    has_verdicts = "verdict" in known.columns and bool(known["why"].is_not_null().any())
    if not has_verdicts:
        frame = frame.with_columns(verdict=pl.lit(None, pl.String))
    return WorkersView(frame, people, chance_level(result), has_verdicts, why)


def _groups(result: Result, people: Result) -> pl.Series:
    """Return the group that each worker votes in, as text; null where there is none."""
    grouping = result.grouping
    if grouping is None:
        return pl.repeat(None, people.votes.n_workers, dtype=pl.String, eager=True).alias("group")
    known = pl.DataFrame({"worker": column(grouping.members.workers), "group": column(grouping.groups, grouping.group)})
    own = pl.DataFrame({"worker": column(people.votes.workers)})
    return own.join(known, on="worker", how="left", maintain_order="left")["group"].cast(pl.String).alias("group")


def chance_level(result: Result) -> float:
    """Return how often a worker is right who guesses at the rates at which labels are given; NaN where it is not known."""
    shares = label_shares(result)
    return float("nan") if not shares else float(sum(one.of_votes * one.of_labels for one in shares))


def vote_edges(votes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return edges of bins of votes, equal in their logarithm and whole where bins would hold no whole number."""
    most = max(float(votes.max()) if len(votes) else 1.0, 2.0)
    edges = np.unique(np.round(np.geomspace(1.0, most + 1.0, VOTE_BINS + 1)))
    return edges if len(edges) > 1 else np.array([1.0, 2.0])
