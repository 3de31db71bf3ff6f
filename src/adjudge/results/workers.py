"""What a result tells of its workers: the frame, with accuracy, intervals, verdicts and their reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.options import DEFAULTS
from adjudge.data.votes import Votes, abstention_rates, piece
from adjudge.data.weights import unweighted
from adjudge.engines.base import Session
from adjudge.engines.registry import resolve
from adjudge.io.ids import column, matched, numbers
from adjudge.results.honest import HonestProbabilities, accuracy_columns, has_room, judged_later

if TYPE_CHECKING:
    from adjudge.results.result import Result
    from adjudge.results.trust.verdicts import Assessment

CHUNK = 1 << 20  # tasks looked at at once, so that copies stay small


@dataclass(frozen=True, eq=False)
class JudgedWorkers:
    """The workers of a result, judged when asked; what is found is kept."""

    result: Result

    def frame(self, *, trust: bool = True) -> pl.DataFrame:
        """Return a line per worker, as a polars frame; without `trust` what costs no pass alone."""
        if self.result.grouping is not None:
            from adjudge.results.groups import members_frame

            return members_frame(self.result, trust=trust)
        cast, agreeing = self.result.votes.votes_per_row(), self.result.agreeing_votes()
        votes, counted = self._by_worker(cast), self._weighed(cast)
        return pl.DataFrame(
            {
                "worker": column(self.result.votes.workers),
                "votes": votes,
                "accuracy": self._weighed(self.result.fit.outcome.right) / counted,
                "agreement": self._weighed(agreeing) / counted,
                "abstained": abstained_column(self.result.votes, votes),
                **(self._repeat_columns() if trust and self.result.is_here else {}),
                **(self._trust_columns(votes, self._by_worker(agreeing) / votes) if trust and self.result.is_here else {}),
                **(self._honest_columns(votes) if trust and self.result.fit.honest is not None else {}),
                **self.result.fit.worker_columns,
            }
        )

    def _honest_columns(self, votes: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Return the accuracy of every worker, with its 90% interval, where confidence is honest: on every engine.

        And how far answers follow what others say, where the session is in this process.
        """
        found = accuracy_columns(*self.result.fit.honest.worker_accuracy(self.result.votes, votes, self.result.per_set))
        return found if self.below_chance is None else {**found, "below_chance": self.below_chance}

    @cached_property
    def assessment(self) -> Assessment:
        """Intervals and verdicts of all workers, whatever the model."""
        from adjudge.results.trust.verdicts import assess

        result, honest = self.result, self.honest
        votes, labels, gold, per_set = unweighted(result.votes), result.fit.outcome.labels, result.session.gold(), result.per_set
        if honest is None:
            return assess(votes, labels, gold, per_set=per_set)
        judge, z, k = self.judge_without, self.below_chance, int(honest.exists.sum())
        return assess(votes, labels, gold, below=z, judge_without=judge, n_labels=k, per_set=per_set)

    @cached_property
    def honest(self) -> HonestProbabilities | None:
        """The honest probabilities of the labels, whichever confidence the fit has; None where there are none."""
        session = getattr(self.result.session, "own", self.result.session)  # members of groups are judged by their own votes
        if self.result.fit.honest is not None and session is self.result.session:
            return cast(HonestProbabilities, self.result.fit.honest)
        if not self.result.is_here or not hasattr(session, "below_chance") or not has_room(self.result.votes):
            return None
        named = self.result.votes.given_labels() | (self.result.fit.params.priors > 0)
        if self.result.history is not None:
            named[matched(self.result.history.labels, self.result.votes.labels)[np.unique(self.result.history.row_label)]] = True
        return judged_later(session, self.result.fit.outcome.labels, named)

    @cached_property
    def below_chance(self) -> NDArray[np.float64] | None:
        """How far each worker's answers follow what the others say, in standard errors, [workers]; None where it is unknown."""
        known = self.honest
        if known is None or not hasattr(known.session, "below_chance"):
            return None
        z: NDArray[np.float64] = known.below_chance(self.result.votes) / np.sqrt(self.result.per_set)
        return z

    def judge_without(self, left_out: NDArray[np.bool_]) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
        """Return how likely labels are right, [tasks], judged by a fit of this model without some workers, [workers]."""
        assert self.honest is not None
        left, tasks = self.result.votes.without_workers(left_out)
        honest = None if not len(left) else judged_later(*self._refitted(left, tasks), self.honest.exists)

        def chance(wanted: NDArray[np.int64]) -> NDArray[np.float64]:
            out = np.full(self.result.votes.n_tasks, np.nan)
            if honest is not None:
                out[tasks] = honest.chance(wanted[tasks].astype(np.int32))
            return out

        return chance

    def _refitted(self, left: Votes, tasks: NDArray[np.int64]) -> tuple[Session, NDArray[np.int32]]:
        """Return a session over some of the votes, on these tasks, and the labels of the same model: or of majority vote."""
        known = self.result.session.gold()
        gold = None if known is None else gold_frame(left, self.result.fit.outcome.labels[tasks], known[tasks])
        if self.result.refit is not None:
            again = self.result.refit(left, gold=gold, history=self.result.history)
            return again.session, again.fit.outcome.labels
        given = {name: self.result.settings.get(name, getattr(DEFAULTS, name)) for name in ("seed", "ties")}
        session = resolve(DEFAULTS.engine).load(left, seed=cast(int, given["seed"]), ties=cast(str, given["ties"]), gold=gold)
        return session, session.majority().labels

    def _trust_columns(self, votes: NDArray[np.int64], agreement: NDArray[np.float64]) -> dict[str, Any]:
        from adjudge.results.trust.reasons import reasons
        from adjudge.results.trust.verdicts import VERDICTS

        found, below, what = self.assessment, self.below_chance, "vote" if self.result.per_set == 1 else "answer"
        return {
            "accuracy_low": found.accuracy.low,
            "accuracy_high": found.accuracy.high,
            "information": found.information,
            "evidence": found.evidence,
            "below_chance": pl.repeat(None, len(votes), dtype=pl.Float64, eager=True) if below is None else numbers(below),
            "verdict": pl.Series(VERDICTS).gather(found.verdict),
            "answers_like": column(self.result.votes.workers, found.answers_like),
            "why": reasons(unweighted(self.result.votes), found, votes, agreement, below, what),
        }

    def _repeat_columns(self) -> dict[str, pl.Series]:
        """Return how often every worker repeats its own answer; nothing where nobody voted twice on a task."""
        votes = self.result.votes
        if votes.duplicates != "all" or self.result.per_set > 1:
            return {}
        same, pairs = repeated_answers(votes)
        if not pairs.any():
            return {}
        shares = pl.Series(np.divide(same, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0))
        return {"self_consistency": shares.fill_nan(None)}

    def _by_worker(self, by_row: NDArray[Any]) -> NDArray[Any]:
        starts = self.result.votes.worker_ptr[:-1]
        return np.add.reduceat(by_row, starts) if len(starts) else by_row

    def _weighed(self, by_row: NDArray[Any]) -> NDArray[Any]:
        """Return sums by worker, [workers], of votes by row, [rows], each times its weight."""
        weight = self.result.votes.row_weight
        return self._by_worker(by_row if weight is None else by_row * weight)


def agreeing_votes(result: Result) -> NDArray[np.int64]:
    """Return the votes of each row that equal the label of their task, [rows]."""
    v, out = result.votes, np.zeros(result.votes.n_rows, np.int64)
    for part, whole_ptr, whole_row in v.parts():
        labels = piece(result.fit.outcome.labels, part)
        for start in range(0, len(labels), CHUNK):
            ptr = whole_ptr[start : start + CHUNK + 1]
            row = whole_row[ptr[0] : ptr[-1]]
            chosen = np.repeat(labels[start : start + CHUNK], np.diff(ptr))
            out += np.bincount(row[v.row_label[row] == chosen], minlength=v.n_rows)
    return out


def repeated_answers(votes: Votes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, of the pairs of votes that a worker gave one task, those that agree and all of them, [workers] each.

    >>> import adjudge as adj
    >>> votes = adj.read([(1, "ann", "x"), (1, "ann", "x"), (1, "ann", "y"), (1, "bob", "x"), (2, "bob", "y")])
    >>> same, pairs = repeated_answers(votes)
    >>> same.tolist(), pairs.tolist()
    ([1, 0], [3, 0])
    """
    same, pairs = np.zeros(votes.n_workers, np.int64), np.zeros(votes.n_workers, np.int64)
    row_worker, row_label = votes.row_worker(), votes.row_label
    for _, whole_ptr, whole_row in votes.parts():
        for start in range(0, len(whole_ptr) - 1, CHUNK):
            ptr = whole_ptr[start : start + CHUNK + 1]
            row = whole_row[ptr[0] : ptr[-1]]
            worker, label = row_worker[row], row_label[row]
            begins = np.ones(len(row), np.bool_)  # of a worker's votes on a task: they stand together
            begins[1:] = worker[1:] != worker[:-1]
            begins[ptr[:-1] - ptr[0]] = True
            for new, out in ((begins, pairs), (begins | np.append(True, label[1:] != label[:-1])[: len(row)], same)):
                first = np.flatnonzero(new)
                size = np.diff(first, append=len(row))
                np.add.at(out, worker[first[size > 1]], (size * (size - 1) // 2)[size > 1])
    return same, pairs


def abstained_column(votes: Votes, given: NDArray[np.int64]) -> pl.Series:
    """Return the share of abstentions of each worker, [workers], who gave so many votes; null where it was not counted."""
    rates = abstention_rates(given, votes.abstentions, votes.abstained)
    empty = pl.repeat(None, len(given), dtype=pl.Float64, eager=True)
    return (empty if rates is None else numbers(rates)).alias("abstained")


def gold_frame(votes: Votes, labels: NDArray[np.int32], known: NDArray[np.bool_]) -> pl.DataFrame | None:
    """Return the labels of those tasks of some votes that are `known`, [tasks], as a table of gold; None where none is."""
    at = np.flatnonzero(known)
    return pl.DataFrame({"task": column(votes.tasks, at), "label": column(votes.labels, labels[at])}) if len(at) else None
