"""Why a worker has a verdict: one sentence with the figures behind it."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.votes import Votes
from adjudge.io.ids import column
from adjudge.results.trust.verdicts import MIN_BITS, VERDICTS, Assessment

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
            "word": pl.Series(VERDICTS).gather(found.verdict),
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
