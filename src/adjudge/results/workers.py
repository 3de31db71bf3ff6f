"""What a result tells of its workers: the frame, with accuracy, intervals, verdicts and their reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.options import DEFAULTS
from adjudge.data.votes import Votes, abstention_rates, piece, without_weights
from adjudge.engines.base import Session
from adjudge.engines.registry import resolve
from adjudge.io.frames import column, match_ids, numbers
from adjudge.models.honest import HonestProbabilities, accuracy_columns, has_room, measure_and_judge
from adjudge.results.trust.verdicts import MIN_BITS, VERDICT_NAMES, Assessment, assess

if TYPE_CHECKING:
    from adjudge.results.result import Result

ONE_LABEL: Final = 0.9  # share of one label among a spammer's votes from which it is named


def reasons(
    votes: Votes,
    found: Assessment,
    given: NDArray[np.int64],
    agreement: NDArray[np.float64],
    below: NDArray[np.float64] | None,
    noun: str = "vote",
) -> pl.Series:
    """Return the sentence of each worker, [workers]; null where memory did not suffice to judge them.

    `given` has the votes of each, `agreement` the share that equals the label, `below` how far they follow what others say.
    `noun` is what votes are called.
    """
    favourite, most = _favourites(votes)
    needed, right = np.zeros(votes.n_workers), np.zeros(votes.n_workers)
    for proof in found.proofs:
        needed[proof.members], right[proof.members] = proof.needed, proof.found
    facts = pl.DataFrame(
        {
            "word": pl.Series(VERDICT_NAMES).gather(found.verdict),
            "votes": pl.Series(given).cast(pl.String) + np.where(given == 1, f" {noun}", f" {noun}s"),
            "equal": _percent(agreement),
            "label": column(votes.labels, favourite).cast(pl.String),
            "most": _percent(most / np.maximum(given, 1)),
            "is_one": most >= ONE_LABEL * given,
            "bits": found.evidence,
            "compared": found.compared,
            "z": np.full(len(given), np.nan) if below is None else below,
            "like": column(votes.workers, found.answers_like).cast(pl.String),
            "agreeing": found.agreeing,
            "shared": found.shared,
            "needed": _percent(needed),
            "right": _percent(right),
        }
    )
    word, bits = pl.col("word"), _figure("bits")
    alike = pl.format("agrees with {} on {} of {} shared tasks", "like", "agreeing", "shared")
    own = (
        pl.when(word == "informative")
        .then(pl.format("{} of {} equal the labels: {} bits of evidence against guessing", "equal", "votes", bits))
        .when(word == "adversary")
        .then(pl.format("{} of {} equal the labels, and answers avoid what others say (z = {})", "equal", "votes", _figure("z")))
        .when((word == "spammer") & pl.col("is_one"))
        .then(pl.format("gives '{}' in {} of {}, whatever is shown", "label", "most", "votes"))
        .when(word == "spammer")
        .then(pl.format("{} of {} equal the labels, as guesses would: {} bits of evidence", "equal", "votes", bits))
        .when(pl.col("compared") == 0)
        .then(pl.format("nothing to compare {} with: no other worker judged the same tasks", "votes"))
        .when(pl.col("bits") >= MIN_BITS)
        .then(pl.format("{} of {} equal the labels, but evidence points both ways (z = {})", "equal", "votes", _figure("z")))
        .otherwise(pl.format("{} cannot tell: {} bits of evidence, {} are needed", "votes", bits, pl.lit(f"{MIN_BITS:.1f}")))
    )
    # Where agreement needs an accuracy that the others deny, it is the reason; else it is told beside the reason.
    proved = pl.format("{}, which takes an accuracy of {}; the others' votes say {}", alike, "needed", "right")
    why = pl.when(word == "copy").then(proved).when(pl.col("like").is_not_null()).then(pl.format("{}; {}", own, alike))
    out = facts.select(why=pl.when(pl.col("bits").is_not_nan()).then(why.otherwise(own)))
    return out["why"]


def _favourites(votes: Votes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the label that each worker gives most often, the first of several, and how often, [workers] each."""
    by_row, worker = votes.votes_per_row(), votes.row_worker()
    order = np.lexsort((-by_row, worker))  # rows of a worker are in the order of their labels
    first = order[votes.worker_ptr[:-1]] if votes.n_workers else np.zeros(0, np.int64)
    return votes.row_label[first].astype(np.int64), by_row[first]


def _percent(share: NDArray[np.float64]) -> pl.Series:
    """Return shares as text in percent, [n], with a decimal where they are close to all without being all."""
    percent = pl.Series("p", share, pl.Float64).fill_nan(None) * 100
    near = (percent > 99) & (percent < 100)
    close = percent.clip(0, 99.9).round(1).cast(pl.String)
    return close.zip_with(near.fill_null(False), percent.round(0).cast(pl.Int64).cast(pl.String)) + "%"


def _figure(name: str) -> pl.Expr:
    """Return a column as text with one decimal."""
    return pl.col(name).round(1).cast(pl.String)


CONFUSION_CHUNK_TASKS = 1 << 20  # tasks looked at at once, so that copies stay small


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
        result, honest = self.result, self.honest
        votes, labels, gold, per_set = (
            without_weights(result.votes),
            result.fit.outcome.labels,
            result.session.gold(),
            result.per_set,
        )
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
        if not self.result.is_here or not hasattr(session, "run") or not has_room(self.result.votes):
            return None
        named = self.result.votes.given_labels() | (self.result.fit.params.priors > 0)
        if self.result.history is not None:
            named[match_ids(self.result.history.labels, self.result.votes.labels)[np.unique(self.result.history.row_label)]] = (
                True
            )
        return measure_and_judge(session, self.result.fit.outcome.labels, named)

    @cached_property
    def below_chance(self) -> NDArray[np.float64] | None:
        """How far each worker's answers follow what the others say, in standard errors, [workers]; None where it is unknown."""
        known = self.honest
        if known is None or hasattr(known.session, "honest_outcome"):  # its tasks are not in this process
            return None
        z: NDArray[np.float64] = known.below_chance(self.result.votes) / np.sqrt(self.result.per_set)
        return z

    def judge_without(self, left_out: NDArray[np.bool_]) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
        """Return how likely labels are right, [tasks], judged by a fit of this model without some workers, [workers]."""
        assert self.honest is not None
        left, tasks = self.result.votes.without_workers(left_out)
        honest = None if not len(left) else measure_and_judge(*self._refitted(left, tasks), self.honest.exists)

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
        found, below, what = self.assessment, self.below_chance, "vote" if self.result.per_set == 1 else "answer"
        return {
            "accuracy_low": found.accuracy.low,
            "accuracy_high": found.accuracy.high,
            "information": found.information,
            "evidence": found.evidence,
            "below_chance": pl.repeat(None, len(votes), dtype=pl.Float64, eager=True) if below is None else numbers(below),
            "verdict": pl.Series(VERDICT_NAMES).gather(found.verdict),
            "answers_like": column(self.result.votes.workers, found.answers_like),
            "why": reasons(without_weights(self.result.votes), found, votes, agreement, below, what),
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
        for start in range(0, len(labels), CONFUSION_CHUNK_TASKS):
            ptr = whole_ptr[start : start + CONFUSION_CHUNK_TASKS + 1]
            row = whole_row[ptr[0] : ptr[-1]]
            chosen = np.repeat(labels[start : start + CONFUSION_CHUNK_TASKS], np.diff(ptr))
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
        for start in range(0, len(whole_ptr) - 1, CONFUSION_CHUNK_TASKS):
            ptr = whole_ptr[start : start + CONFUSION_CHUNK_TASKS + 1]
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
