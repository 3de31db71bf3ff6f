"""The definition of every pass, in readable NumPy: the oracle of the fast kernels, and the fallback without them.

Everything is in logarithms (30,000 votes on one task must not underflow) and in float64. A task's score starts
at the log prior, and its votes are added one after the other in their stored order.

Sums that feed the next pass are exact (see `adjudge.data.exact`): soft shares are counted in whole units, *coarse* or, with a
second sum (`rest`), *fine*; `restore_counts` brings the sums back to scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import (
    COARSE,
    LOG_UNIT,
    decode_coarse,
    decode_fine,
    encode_coarse,
    encode_fine,
    round_to_unit,
    sums_of,
    unit_below,
)
from adjudge.errors import InputError

Floats = NDArray[np.float64]
Counts = NDArray[np.float64] | NDArray[np.int64]
TIE_TOLERANCE = 1e-9  # scores this close (relative to the best, absolute below 1) are tied
SAME_SCORE_TOLERANCE = 1e-11  # scores this close are equal: a table's rounding can cause the difference
VOTE_SHARE = 0.2  # of honest probabilities that comes from the shares of the votes
MAX_DENSE_CELLS = 16  # cells of the table per vote, up to which counting goes over all cells
ANSWER_UNIT = 2.0**-36  # of sums of probabilities by row: whole units add up to the same in any order
CLASS_UNIT = COARSE * 2.0**-16  # of coarse class counts; what it leaves is added apart


class TaskKeys(Protocol):
    """Hashes of (seed, task), [tasks], as `tie_keys` returns them: an array, or ids that are hashed on demand."""

    def __getitem__(self, tasks: NDArray[np.int64], /) -> NDArray[np.uint64]:
        """Return those of some tasks, [some]."""
        ...


class Sums(NamedTuple):
    """The scalars of a pass over one shard."""

    log_likelihood: float
    classification: float
    changed: int
    impossible: int


def em_pass(
    task_ptr: NDArray[np.int64],  # IN [tasks + 1] absolute positions in `row`
    row: NDArray[np.uint32],  # IN [all votes]
    table: Floats,  # IN [rows, K] log pi
    log_prior: Floats,  # IN [K]
    task_key: TaskKeys,  # IN [tasks] see tie_keys
    label_hash: NDArray[np.uint64],  # IN [K]
    *,
    checked: bool = False,  # whether `check_votes` has passed these votes
    hard: bool,
    by_prior: bool,  # ties go to the larger prior first
    delta: bool = False,  # hard: the counts hold the previous labels; only tasks that changed touch them
    likelihood: bool = True,  # whether the log-likelihood is wanted; a faster twin may leave it NaN in hard passes
    classification: bool = True,  # whether C2 is wanted; a faster twin may leave it NaN
    threads: int = 1,  # for faster twins
    labels: NDArray[np.int32],  # IN/OUT [tasks] previous label in, this pass's out
    confidence: Floats | None = None,  # OUT [tasks]
    tie: NDArray[np.bool_] | None = None,  # OUT [tasks]
    posterior: Floats | None = None,  # OUT [tasks, K]
    counts: Counts | None = None,  # OUT [rows, K] added to
    class_counts: Counts | None = None,  # OUT [K] added to
    unit: float = LOG_UNIT,  # of soft counts, see unit_below
    rest: Floats | None = None,  # OUT [rows, K] added to: the second sums of fine counts
    class_rest: Floats | None = None,  # OUT [K] added to: what coarse class counts leave, or second sums
) -> Sums:
    """Return the sums of one E-step (the paper's equations 1, 2 and 11) with the recount that feeds the M-step."""
    if not checked:
        check_votes(task_ptr, row, len(table))
    scores, impossible = task_scores(task_ptr, row, table, log_prior)
    winner, tied = pick(scores, task_key, label_hash, tie_weights=log_prior if by_prior else None)

    best = scores.max(axis=1, initial=-np.inf, keepdims=True)
    scores = np.where(_near(scores, best, SAME_SCORE_TOLERANCE), best, scores)  # a tie stays a tie from pass to pass
    weight = np.exp(scores - best)
    total = round_to_unit(weight, unit_below(scores.shape[1])).sum(axis=1, keepdims=True)
    probability = weight * (1.0 / total)

    changed = np.flatnonzero(winner != labels)
    before = labels[changed]
    labels[:] = winner
    picked = np.arange(len(winner)), winner
    if confidence is not None:
        confidence[:] = probability[picked]
    if tie is not None:
        tie[:] = tied
    if posterior is not None:
        posterior[:] = probability
    if counts is not None and class_counts is not None:
        if hard and delta:
            ptr, some = select(task_ptr, row, changed)
            recount_hard(ptr, some, before, counts, class_counts, -1)
            recount_hard(ptr, some, winner[changed], counts, class_counts)
        elif hard:
            recount_hard(task_ptr, row, winner, counts, class_counts)
        else:
            count_shares(task_ptr, row, probability, counts, class_counts, unit, rest, class_rest)
    log_likelihood = -np.inf if impossible else float((best + np.log(total)).sum())
    return Sums(log_likelihood, float(scores[picked].sum()), len(changed), impossible)


def majority(
    task_ptr: NDArray[np.int64],  # IN [tasks + 1]
    row: NDArray[np.uint32],  # IN [all votes]
    row_label: NDArray[np.int32],  # IN [rows]
    task_key: TaskKeys,  # IN [tasks]
    label_hash: NDArray[np.uint64],  # IN [K]
    *,
    checked: bool = False,  # whether `check_votes` has passed these votes
    tie_weights: Floats | None,  # IN [K] ties go to the largest of these first
    soft: bool,  # count by vote shares, not by the winner
    row_weight: Floats | None = None,  # IN [rows] what a vote of a row counts in the shares; None: 1
    threads: int = 1,  # for faster twins
    labels: NDArray[np.int32],  # OUT [tasks]
    confidence: Floats | None = None,  # OUT [tasks] the winner's share of the votes
    tie: NDArray[np.bool_] | None = None,  # OUT [tasks]
    posterior: Floats | None = None,  # OUT [tasks, K] vote shares
    counts: Counts | None = None,  # OUT [rows, K] added to
    class_counts: Counts | None = None,  # OUT [K] added to
    unit: float = LOG_UNIT,  # of soft counts, see unit_below
    rest: Floats | None = None,  # OUT [rows, K] added to: the second sums of fine counts
    class_rest: Floats | None = None,  # OUT [K] added to: what coarse class counts leave, or second sums
) -> None:
    """Majority vote on every task: the label with the largest share of the votes, ties by the rule of `pick`.

    The counts are of votes, regardless of their weight.
    """
    if not checked:
        check_votes(task_ptr, row, len(row_label))
        check_codes("row_label", row_label, len(label_hash))
    length = np.diff(task_ptr)
    tasks, k = len(length), len(label_hash)
    some, task = row[task_ptr[0] : task_ptr[-1]], np.repeat(np.arange(tasks), length)
    ballots, weight = task * k + row_label[some], None if row_weight is None else row_weight[some]
    total = length if weight is None else np.bincount(task, weight, minlength=tasks)
    shares = np.bincount(ballots, weight, minlength=tasks * k).reshape(tasks, k) / total[:, None]
    winner, tied = pick(shares, task_key, label_hash, tie_weights)
    labels[:] = winner
    if confidence is not None:
        confidence[:] = shares[np.arange(tasks), winner]
    if tie is not None:
        tie[:] = tied
    if posterior is not None:
        posterior[:] = shares
    if counts is not None and class_counts is not None:
        if soft:
            count_shares(task_ptr, row, shares, counts, class_counts, unit, rest, class_rest)
        else:
            recount_hard(task_ptr, row, winner, counts, class_counts)


def task_scores(task_ptr: NDArray[np.int64], row: NDArray[np.uint32], table: Floats, log_prior: Floats) -> tuple[Floats, int]:
    """Return log p_c + sum of log pi over each task's votes, [tasks, K], and the number of impossible tasks.

    A task is impossible when every label has probability 0. Then the limit of smoothing to 0 decides: the
    labels with the fewest impossible votes, and among them the finite part.
    """
    scores = _sum_votes(task_ptr, row, table, log_prior)
    stuck = np.flatnonzero(np.isneginf(scores).all(axis=1)) if scores.shape[1] else np.zeros(0, np.int64)
    if len(stuck):
        never = np.isneginf(table)
        ptr, some = select(task_ptr, row, stuck)
        misses = _sum_votes(ptr, some, never.astype(np.float64), np.zeros_like(log_prior))
        finite = _sum_votes(ptr, some, np.where(never, 0.0, table), log_prior)
        misses[np.isneginf(finite)] = np.inf  # a label with prior 0 stays out
        fewest = misses.min(axis=1, keepdims=True)
        scores[stuck] = np.where(misses == fewest, finite, -np.inf)
    return scores, len(stuck)


def pick(
    scores: Floats, task_key: TaskKeys, label_hash: NDArray[np.uint64], tie_weights: Floats | None = None
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return the winner of each task, [tasks], and whether it was tied, [tasks].

    The winner of a tie is the tied label with the largest hash of (seed, task id, label): fair on average, and
    the same in every pass, row order and engine.
    """
    if not scores.size:
        return np.zeros(len(scores), np.int32), np.zeros(len(scores), np.bool_)
    best = scores.max(axis=1, keepdims=True)
    candidate = _near(scores, best, TIE_TOLERANCE)
    winner = candidate.argmax(axis=1)
    tied = candidate.sum(axis=1) > 1
    where = np.flatnonzero(tied)
    candidate = candidate[where]
    if tie_weights is not None:
        weight = np.where(candidate, tie_weights, -np.inf)
        candidate &= weight == weight.max(axis=1, keepdims=True)
    key = mix(task_key[where][:, None] ^ label_hash)  # of tied tasks alone: keys may be hashed on demand
    key[~candidate] = 0
    winner[where] = key.argmax(axis=1)
    return winner.astype(np.int32), tied


def recount_hard(
    task_ptr: NDArray[np.int64],
    row: NDArray[np.uint32],
    labels: NDArray[np.int32],
    counts: Counts,
    class_counts: Counts,
    times: float = 1,
    threads: int = 1,  # for faster twins
) -> None:
    """Add one per vote to counts[row, label of its task] and one per task to class_counts[label], `times` times."""
    rows, k = counts.shape
    label = np.repeat(labels.astype(np.int64), np.diff(task_ptr))
    cell = row[task_ptr[0] : task_ptr[-1]].astype(np.int64) * k + label
    if rows * k <= MAX_DENSE_CELLS * max(len(cell), 1):
        counts += times * np.bincount(cell, minlength=rows * k).reshape(rows, k)
    else:  # most cells stay as they are: tables of many labels are large
        seen, number = np.unique(cell, return_counts=True)
        counts[seen // k, seen % k] += (times * number).astype(counts.dtype)
    class_counts += times * np.bincount(labels, minlength=k)


def recount_soft(
    task_ptr: NDArray[np.int64], row: NDArray[np.uint32], posterior: Floats, counts: Counts, class_counts: Counts
) -> None:
    """Add the posterior of its task to counts[row] for every vote, and every posterior to class_counts."""
    rows, k = counts.shape
    some = row[task_ptr[0] : task_ptr[-1]]
    task = np.repeat(np.arange(len(posterior)), np.diff(task_ptr))
    for c in range(k):
        counts[:, c] += np.bincount(some, weights=posterior[task, c], minlength=rows)
    class_counts += posterior.sum(axis=0)


def count_shares(
    task_ptr: NDArray[np.int64],
    row: NDArray[np.uint32],
    posterior: Floats,  # IN [tasks, K]
    counts: Counts,  # OUT [rows, K] added to
    class_counts: Counts,  # OUT [K] added to
    unit: float,
    rest: Floats | None,  # OUT [rows, K] added to
    class_rest: Floats | None,  # OUT [K] added to
) -> None:
    """Do what `recount_soft` does in whole units, so that the sums do not depend on any order."""
    none = np.zeros(len(class_counts))
    if rest is not None:
        units, left = encode_fine(posterior, unit)
        recount_soft(task_ptr, row, units, counts, none)
        recount_soft(task_ptr, row, left, rest, none)
    else:
        shares = encode_coarse(posterior, unit)
        recount_soft(task_ptr, row, shares, counts, none)
        units = round_to_unit(shares, CLASS_UNIT)  # a label may have as many shares as there are tasks
        left = shares - units
    class_counts += units.sum(axis=0)
    second = class_counts if class_rest is None else class_rest
    second += left.sum(axis=0)


def restore_counts(counts: Floats, rest: Floats | None = None, unit: float = LOG_UNIT, threads: int = 1) -> None:
    """Bring sums of shares back to scale: coarse ones, or fine ones with their second sums. OUT [...]."""
    counts[...] = decode_coarse(counts, unit) if rest is None else decode_fine(counts, rest, unit)


def votes_per_row(row: NDArray[np.uint32], rows: int, threads: int = 1) -> NDArray[np.int64]:
    """Return how many votes each row has, [rows]."""
    return np.bincount(row, minlength=rows)


def check_votes(task_ptr: NDArray[np.int64], row: NDArray[np.uint32], rows: int, threads: int = 1) -> None:
    """Raise unless a pass can run over these votes: tasks follow each other within `row`, and every row exists."""
    if not len(task_ptr) or task_ptr[0] < 0 or task_ptr[-1] > len(row):
        raise InputError("row does not have the shape that the other arrays ask for")
    falls = np.flatnonzero(task_ptr[1:] < task_ptr[:-1])
    if len(falls):
        raise InputError(f"task_ptr falls at {falls[0]}: the votes of a task begin where those before it end")
    wrong = np.flatnonzero(row[task_ptr[0] : task_ptr[-1]] >= rows)
    if len(wrong):
        vote = task_ptr[0] + wrong[0]
        raise InputError(f"row {row[vote]} of vote {vote} does not exist: there are {rows} rows")


def check_codes(name: str, codes: NDArray[np.int32], n: int) -> None:
    """Raise unless every code is at least 0 and below n."""
    wrong = np.flatnonzero((codes < 0) | (codes >= n))
    if len(wrong):
        raise InputError(f"{name}[{wrong[0]}] is {codes[wrong[0]]}: give codes of at least 0 and below {n}")


def weight_shares(
    task_ptr: NDArray[np.int64],  # IN [tasks + 1]
    row: NDArray[np.uint32],  # IN [all votes]
    row_label: NDArray[np.int32],  # IN [rows]
    table: Floats,  # IN [rows, K] the weight of a row's votes, for the label they gave
) -> Floats:
    """Return each label's share of the positive weights that the votes of a task have, [tasks, K].

    If no label has a positive weight, there is not any evidence: the best labels share equally.
    """
    tasks, k, some = len(task_ptr) - 1, table.shape[1], row[task_ptr[0] : task_ptr[-1]]
    cell = np.repeat(np.arange(tasks), np.diff(task_ptr)) * k + row_label[some]
    weights = table[some, row_label[some]]
    scores = np.bincount(cell, weights=weights, minlength=tasks * k).astype(np.float64).reshape(tasks, k)
    best = scores.max(axis=1, initial=-np.inf, keepdims=True)
    positive = np.where(best > 0, np.maximum(scores, 0.0), scores == best)
    shares: Floats = positive / positive.sum(axis=1, keepdims=True)
    return shares


def confusion_table(
    counts: Counts,  # IN [rows, K]
    worker_ptr: NDArray[np.int64],  # IN [workers + 1]
    smoothing: float,
    threads: int = 1,  # for faster twins
) -> tuple[Floats, Floats]:
    """Return log pi, [rows, K], and the votes of each worker by true label, [workers, K] (equations 3 and 9).

    A worker who never met true label c has pi = 0 for every answer under c, unless smoothed.
    """
    k = counts.shape[1]
    totals = sums_of(counts.astype(np.float64), worker_ptr[:-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        table = np.log(counts + smoothing)
        table -= np.repeat(np.log(totals + k * smoothing), np.diff(worker_ptr), axis=0)
    table[np.isnan(table)] = -np.inf  # 0 / 0
    return round_to_unit(table, LOG_UNIT), totals


def classification(
    counts: Counts,  # IN [rows, K]
    class_counts: Counts,  # IN [K]
    table: Floats,  # IN [rows, K] log pi
    log_prior: Floats,  # IN [K]
    threads: int = 1,  # for faster twins
) -> float:
    """Return C2 of the paper, the sum of log p(votes, chosen label), from the counts of the chosen labels alone."""
    by_vote = np.where(counts > 0, counts * np.where(np.isneginf(table), 0.0, table), 0.0).sum()
    return float(by_vote + (class_counts * np.where(class_counts > 0, log_prior, 0.0)).sum())


def pair_sums(
    task_ptr: NDArray[np.int64],  # IN [tasks + 1]
    row: NDArray[np.uint32],  # IN [all votes]
    row_label: NDArray[np.int32],  # IN [rows]
    labels: NDArray[np.int32],  # IN [tasks] the current labels
    values: Floats,  # IN [quantities, 2, rows] of a vote: if it differs from its task's label, and if it equals it
    n_labels: int,
    row_weight: Floats | None = None,  # IN [rows] what a vote of a row counts; None: 1
    threads: int = 1,  # for faster twins
) -> Floats:
    """Return sums over tasks and ordered pairs of different votes, [quantities + 2].

    First, for every quantity, of the products of its two values; then the pairs that give the same label; then all pairs.
    A pair of weighted votes counts as the product of their weights, which the values include. A vote does not pair with itself.
    """
    some = row[task_ptr[0] : task_ptr[-1]]
    tasks = len(task_ptr) - 1
    task = np.repeat(np.arange(tasks), np.diff(task_ptr))
    given = row_label[some]
    equal = given == labels[task]
    out = np.zeros(len(values) + 2)
    for at, (other, own) in enumerate(values):
        x = np.where(equal, own[some], other[some])
        out[at] = (np.bincount(task, x, minlength=tasks) ** 2 - np.bincount(task, x * x, minlength=tasks)).sum()
    weight = np.ones(len(some)) if row_weight is None else row_weight[some]
    for at, group in ((-2, task * n_labels + given), (-1, task)):
        out[at] = (np.bincount(group, weight) ** 2 - np.bincount(group, weight * weight)).sum()
    return out


class HonestRule(NamedTuple):
    """The inputs of honest probabilities other than the lines of the votes; see `adjudge.models.honest`."""

    log_prior: Floats  # [K] where scores start; minus infinity for labels that do not exist
    uniform: Floats  # [K] equal shares of the labels that exist, 0 for others
    shared_error: float  # rho
    holds: float  # how far votes agree with each other as the labels say they should, 0 to 1


def honest_pass(
    task_ptr: NDArray[np.int64],  # IN [tasks + 1]
    row: NDArray[np.uint32],  # IN [all votes]
    row_label: NDArray[np.int32],  # IN [rows]
    labels: NDArray[np.int32],  # IN [tasks] the labels that were decided
    lines: Floats,  # IN [rows, K] log-probability of a vote by true label, times its weight
    without: Floats,  # IN [rows, K] the same with one vote less on tasks of this label: for the label that its task has
    rule: HonestRule,
    *,
    row_weight: Floats | None = None,  # IN [rows] what a vote of a row counts; None: 1
    threads: int = 1,  # for faster twins
    confidence: Floats | None = None,  # OUT [tasks] the probability of the label
    tie: NDArray[np.bool_] | None = None,  # IN/OUT [tasks] set where the two best are as likely before the last step
    probabilities: Floats | None = None,  # OUT [tasks, K]
    answers: NDArray[np.int64] | None = None,  # OUT [rows] added to: probability of the votes' own label, see ANSWER_UNIT
    doubts: NDArray[np.int64] | None = None,  # OUT [rows] added to: probability that the label of the vote's task is wrong
    unraised: Floats | None = None,  # OUT [tasks, K] probabilities before the last step; of this kernel alone
    wanted: NDArray[np.int32] | None = None,  # IN [tasks] a label of each task whose probability is wanted
    chance: Floats | None = None,  # OUT [tasks] that probability, before the last step
) -> None:
    """Write the honest probabilities of the labels of every task.

    Each task is scored without its own part in the counts, no vote speaks against what it says, shared error and chance
    agreement flatten the scores, and a fifth comes from the shares of the votes. In the last step the label that was
    decided gets the largest probability.
    """
    k, tasks = lines.shape[1], len(task_ptr) - 1
    some, size, voted = _votes_of(task_ptr, row, row_weight)
    task = np.repeat(np.arange(tasks), np.diff(task_ptr))
    given = row_label[some]
    said = score_votes(some, row_label, labels[task], lines, without)
    weight = soften(_scores(task, said, tasks, rule), size, rule)
    shown = np.bincount(task * k + given, voted, minlength=tasks * k).reshape(tasks, k)
    before = (1.0 - VOTE_SHARE) * weight + VOTE_SHARE * (shown + rule.uniform) / (size + 1)[:, None]
    if unraised is not None:
        unraised[:] = before
    picked = np.arange(tasks), labels
    best = before.max(axis=1, initial=0.0)
    total = before.sum(axis=1) - before[picked] + best
    if confidence is not None:
        confidence[:] = best / total
    if tie is not None:
        tie |= (before >= best[:, None] - TIE_TOLERANCE).sum(axis=1) > 1
    if chance is not None and wanted is not None:
        chance[:] = before[picked[0], wanted]
    if probabilities is not None:
        probabilities[:] = before
        probabilities[picked] = best
        probabilities /= total[:, None]
    if answers is not None and doubts is not None:
        rows = len(row_label)
        answers += _units_by_row(some, before[task, given], rows)
        doubts += _units_by_row(some, (1.0 - before[picked])[task], rows)


def below_chance(
    task_ptr: NDArray[np.int64],  # IN [tasks + 1]
    row: NDArray[np.uint32],  # IN [all votes]
    row_label: NDArray[np.int32],  # IN [rows]
    labels: NDArray[np.int32],  # IN [tasks] the labels that were decided
    lines: Floats,  # IN [rows, K] as for `honest_pass`
    without: Floats,  # IN [rows, K]
    rule: HonestRule,
    row_worker: NDArray[np.int64],  # IN [rows]
    worker_ptr: NDArray[np.int64],  # IN [workers + 1] where each worker's rows begin
    unit: float,  # of the sums
    sums: NDArray[np.int64],  # OUT [4, rows] added to
    row_weight: Floats | None = None,  # IN [rows] what a vote of a row counts; None: 1
    threads: int = 1,  # for faster twins
) -> None:
    """Add up what the other votes of a task say of each worker's answers, over tasks of two votes or more.

    The sums of a row: its votes; the honest probability of its label without the vote, on these votes; the same on all votes
    of its worker; and the square of the latter. But for the first they are in units: integers, so no order of adding matters.
    The others speak with their weights; the answers count once each.
    """
    tasks, rows = len(task_ptr) - 1, len(row_label)
    (some, size, _), cast = _votes_of(task_ptr, row, row_weight), np.diff(task_ptr)
    task = np.repeat(np.arange(tasks), cast)
    said = score_votes(some, row_label, labels[task], lines, without)
    others = _scores(task, said, tasks, rule)[task]
    exists = rule.uniform > 0
    others[:, exists] -= said[:, exists]
    several = cast[task] > 1
    some = some[several]
    p = soften(others[several], size[task][several], rule)
    sums[0] += np.bincount(some, minlength=rows)
    np.add.at(sums[1], some, np.rint(p[np.arange(len(some)), row_label[some]] / unit).astype(np.int64))
    order = np.argsort(row_worker[some], kind="stable")
    bounds = np.searchsorted(row_worker[some][order], np.arange(len(worker_ptr)))
    for worker in np.unique(row_worker[some]).tolist():
        mine = slice(int(worker_ptr[worker]), int(worker_ptr[worker + 1]))
        shown = p[order[bounds[worker] : bounds[worker + 1]]][:, row_label[mine]]
        sums[2, mine] += np.rint(shown / unit).astype(np.int64).sum(axis=0)
        sums[3, mine] += np.rint(shown * shown / unit).astype(np.int64).sum(axis=0)


def _votes_of(
    task_ptr: NDArray[np.int64], row: NDArray[np.uint32], row_weight: Floats | None
) -> tuple[NDArray[np.uint32], NDArray[Any], Floats | None]:
    """Return the rows of the votes, [votes]; how many votes each task has by their weights, [tasks]; the weights, [votes]."""
    some, length = row[task_ptr[0] : task_ptr[-1]], np.diff(task_ptr)
    if row_weight is None:
        return some, length, None
    weight = row_weight[some]
    return some, np.bincount(np.repeat(np.arange(len(length)), length), weight, minlength=len(length)), weight


def score_votes(
    row: NDArray[np.uint32], row_label: NDArray[np.int32], label: NDArray[np.int32], lines: Floats, without: Floats
) -> Floats:
    """Return what votes say of every label, [votes, K]; `label` is that of each vote's task, [votes]."""
    each, said = np.arange(len(row)), lines[row]
    said[each, label] = without[row, label]
    said[each, row_label[row]] = said.max(axis=1, initial=-np.inf)
    return said


def _scores(task: NDArray[np.int64], said: Floats, tasks: int, rule: HonestRule) -> Floats:
    """Return the sum of what its votes say of a task, [tasks, K]."""
    k = said.shape[1]
    return np.stack([np.bincount(task, said[:, c], minlength=tasks) for c in range(k)], axis=1) + rule.log_prior


def soften(scores: Floats, size: NDArray[Any], rule: HonestRule) -> Floats:
    """Return the probabilities of scores, [n, K], on tasks with [n] votes, flattened by the workers' shared errors.

    Less than one vote, by its weight, shares no error either.
    """
    cold = min(1.0, 2.0 * rule.holds) / (2.0 * (1.0 + np.maximum(size - 1, 0) * rule.shared_error))
    exists = rule.uniform > 0
    known = scores[:, exists]
    weight = np.zeros(scores.shape)
    weight[:, exists] = np.exp((known - known.max(axis=1, initial=-np.inf, keepdims=True)) * cold[:, None])
    weight /= weight.sum(axis=1, keepdims=True)
    return weight


def select(
    task_ptr: NDArray[np.int64], row: NDArray[np.uint32], tasks: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return (task_ptr, row) of these tasks alone, [chosen + 1] and [their votes]."""
    length = np.diff(task_ptr)[tasks]
    ptr = np.zeros(len(tasks) + 1, np.int64)
    np.cumsum(length, out=ptr[1:])
    where = np.repeat(task_ptr[tasks] - ptr[:-1], length) + np.arange(ptr[-1])
    return ptr, row[where]


def hash_texts(offsets: NDArray[np.int64], data: NDArray[np.uint8], threads: int = 1) -> NDArray[np.uint64]:
    """Return the 64-bit FNV-1a hash of each text, [n], finished by `mix`: a stable name for an id.

    >>> hash_texts(np.array([0, 1]), np.frombuffer(b"a", np.uint8)).tolist()
    [198367012849983736]
    """
    hashed = np.full(len(offsets) - 1, 0xCBF29CE484222325, np.uint64)
    for place, still in _by_position(np.diff(offsets)):
        hashed[still] ^= data[offsets[still] + place]
        hashed[still] *= np.uint64(0x100000001B3)
    return mix(hashed)


def hash_integers(values: NDArray[np.int64], threads: int = 1) -> NDArray[np.uint64]:
    """Return the hash of each number's decimal text, [n]."""
    digits = values.astype("S20").view(np.uint8).reshape(len(values), -1)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum((digits != 0).sum(axis=1), out=offsets[1:])
    return hash_texts(offsets, digits[digits != 0])


def tie_keys(task_hash: NDArray[np.uint64], seed: int, threads: int = 1) -> NDArray[np.uint64]:
    """Return the hash of (seed, task), [tasks]; `mix(key ^ label_hash)` is that of (seed, task, label)."""
    salt = mix(np.array([int(seed) % 2**64], np.uint64))
    return mix(task_hash ^ salt)


def mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return x with its bits mixed (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _units_by_row(row: NDArray[np.uint32], shares: Floats, rows: int) -> NDArray[np.int64]:
    """Return the sum of the votes' shares by row, in units of ANSWER_UNIT, [rows]."""
    return np.bincount(row, np.rint(shares / ANSWER_UNIT), minlength=rows).astype(np.int64)


def _sum_votes(task_ptr: NDArray[np.int64], row: NDArray[np.uint32], table: Floats, start: Floats) -> Floats:
    """Return start + the table's lines of each task's votes, added in stored order, [tasks, K]."""
    scores = np.repeat(start[None, :], len(task_ptr) - 1, axis=0)
    for place, still in _by_position(np.diff(task_ptr)):
        scores[still] += table[row[task_ptr[still] + place]]
    return scores


def _near(scores: Floats, best: Floats, near: float) -> NDArray[np.bool_]:
    """Return which scores are within a tolerance of the best: relative to it, absolute below 1."""
    return scores >= best - near * np.maximum(1.0, np.abs(best))


def _by_position(length: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield (position, the sequences long enough to have that position), longest sequences first."""
    order = np.argsort(-length, kind="stable")
    longer_than = len(length) - np.cumsum(np.bincount(length, minlength=1)) if len(length) else np.zeros(0, np.int64)
    for place, still in enumerate(longer_than.tolist()):
        if still:
            yield place, order[:still]
