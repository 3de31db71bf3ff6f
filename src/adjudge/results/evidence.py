"""What votes say of a label against its runner-up, which votes it hangs on, and how many more would settle it.

The parts of votes are log-odds that add up to those of the reported probabilities. Honest probabilities come from a rule: scores
without the task's own part in the counts, a temperature, a share of the votes. A vote's part is what it adds to the scores; the
rest of the rule are steps. The model's own posterior comes from scores, or from shares of votes or weights, without steps. A
count of 0 makes log-odds infinite: they are cut at a bound.

A label hangs on a vote if the model would decide otherwise without it, or had it been another. The model decides as it does in
`predict`: from the parameters that were learned, which one vote would hardly change. Votes to come are taken as they are
expected: the mean worker gives each label as often as its confusion says, given that the label of the task is the true one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT, round_to_unit
from adjudge.data.fit import PSEUDO_VOTES_PER_WORKER, Parameters, given_votes
from adjudge.data.options import DEFAULTS
from adjudge.data.votes import Votes, WorkerRows, piece
from adjudge.engines.base import OffersScoring
from adjudge.engines.shard import hashes
from adjudge.errors import OptionError
from adjudge.kernels import reference
from adjudge.kernels.reference import VOTE_SHARE, HonestRule, soften
from adjudge.models.honest import AccuracyLaw, Honest, accuracy_columns, stream_rule, worker_law
from adjudge.models.knowledge import Learned, transfer
from adjudge.models.temperature import apply_temperature
from adjudge.results.explanation import Step

if TYPE_CHECKING:
    from adjudge.results.result import Result

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
CERTAIN_LOG_ODDS: Final = 30.0  # log-odds that stand for infinite ones: a probability of 1e-13
MIN_STEP_LOG_ODDS: Final = 1e-12  # steps below this are not worth a line


@dataclass(frozen=True, eq=False)
class TaskVotes:
    """The votes of some tasks of a result, read without those of others."""

    result: Result
    codes: Codes  # [tasks]
    task_ptr: Codes  # [tasks + 1] where the votes of each begin in `row`
    row: NDArray[np.uint32]  # [votes]
    labels: Codes  # [tasks] that were decided

    @classmethod
    def of(cls, result: Result, codes: Codes) -> TaskVotes:
        """Return the votes of the tasks with these codes, [tasks]."""
        if type(result.votes) is Votes:
            ptr, row = reference.select(result.votes.task_ptr, result.votes.row, codes)
        else:  # on disk: only these are read
            rows = [result.votes.votes_in(slice(code, code + 1))[1] for code in codes.tolist()]
            ptr = np.concatenate([[0], np.cumsum([len(some) for some in rows])]).astype(np.int64)
            row = np.concatenate([np.zeros(0, np.uint32), *rows])
        return cls(result, codes, ptr, row, figures_at(result.fit.outcome.labels, codes).astype(np.int64))

    @property
    def n_tasks(self) -> int:
        """The number of tasks."""
        return len(self.codes)

    def cut(self, at: int) -> slice:
        """Return the votes of one of the tasks."""
        return slice(int(self.task_ptr[at]), int(self.task_ptr[at + 1]))

    @cached_property
    def task(self) -> Codes:
        """The task of each vote, [votes], counted from 0."""
        return np.repeat(np.arange(self.n_tasks), np.diff(self.task_ptr))

    @cached_property
    def given(self) -> Codes:
        """The label that each vote gives, [votes]."""
        return self.result.votes.row_label[self.row].astype(np.int64)

    @cached_property
    def worker(self) -> Codes:
        """The worker of each vote, [votes]."""
        return np.searchsorted(self.result.votes.worker_ptr, self.row, side="right") - 1

    @cached_property
    def weight(self) -> Floats:
        """The weight of each vote, [votes]."""
        weight = self.result.votes.row_weight
        return np.ones(len(self.row)) if weight is None else weight[self.row]

    def figures(self, by_task: NDArray[Any]) -> NDArray[Any]:
        """Return figures of these tasks, [tasks], from those of all, which may be on disk."""
        return figures_at(by_task, self.codes)

    def sums(self, by_vote: NDArray[Any]) -> Floats:
        """Return the sum over the votes of each task, [tasks] or [tasks, K], of figures by vote."""
        if by_vote.ndim == 1:
            return np.bincount(self.task, by_vote, minlength=self.n_tasks).astype(np.float64)
        return np.stack([self.sums(by_vote[:, c]) for c in range(by_vote.shape[1])], axis=1)

    def counted(self) -> Floats:
        """Return how many votes each label has on each task, by their weights, [tasks, K]."""
        return self.by_label(self.weight)

    def by_label(self, by_vote: Floats) -> Floats:
        """Return the sum over the votes for each label on each task, [tasks, K], of figures by vote, [votes]."""
        k = self.result.votes.n_labels
        cells = np.bincount(self.task * k + self.given, by_vote, minlength=self.n_tasks * k)
        return cells.reshape(self.n_tasks, k).astype(np.float64)


def figures_at(by_task: NDArray[Any], codes: Codes) -> NDArray[Any]:
    """Return the figures of some tasks, [codes], from those of all; of an array on disk only these are read."""
    if not isinstance(by_task, np.memmap):
        return by_task[codes]
    return np.concatenate([np.zeros(0, by_task.dtype), *(piece(by_task, slice(code, code + 1)) for code in codes.tolist())])


@dataclass(frozen=True, eq=False)
class LabelEvidence:
    """The log-odds of the labels of some tasks against their runners-up, taken apart."""

    probabilities: Floats  # [tasks, K]
    runner_up: Codes  # [tasks] -1 if there is no other label
    log_odds: Floats  # [tasks]
    prior: Floats  # [tasks] part of the class priors
    contribution: Floats  # [votes] part of each vote
    steps: tuple[tuple[Step, ...], ...]  # [tasks] what else has a part
    certain: NDArray[np.bool_]  # [tasks] whether the log-odds are infinite, and cut
    sums: Floats  # [tasks, K] what the probabilities come from: scores, or weights of the votes by label


class LabelScores(NamedTuple):
    """Scores by label, with impossible votes counted separately."""

    finite: Floats  # [..., K] sum over possible votes
    misses: Floats  # [..., K] votes that are impossible under the label
    ruled_out: NDArray[np.bool_]  # [K] labels whose class prior is 0

    def limited(self) -> Floats:
        """Return scores, [..., K]: minus infinity except for the labels with the fewest impossible votes."""
        misses = np.where(self.ruled_out, np.inf, self.misses)
        out: Floats = np.where(misses == misses.min(axis=-1, keepdims=True), self.finite, -np.inf)
        return out


def split(lines: Floats) -> tuple[Floats, Floats]:
    """Return log-probabilities with 0 in place of minus infinity, and where that was, as 0 and 1."""
    impossible = np.isneginf(lines)
    return np.where(impossible, 0.0, lines), impossible.astype(np.float64)


def honest_evidence(some: TaskVotes, rule: HonestRule, lines: tuple[Floats, Floats]) -> LabelEvidence:
    """Return what votes say by the rule of honest confidence; `lines` is what votes of each row say, [rows, K] each.

    See `adjudge.models.honest`.
    """
    labels, n, row_label = some.labels.astype(np.int32), np.arange(some.n_tasks), some.result.votes.row_label
    said = reference.score_votes(some.row, row_label, labels[some.task], *lines)
    probabilities, before = (np.zeros((some.n_tasks, len(rule.uniform))) for _ in range(2))
    reference.honest_pass(
        some.task_ptr,
        some.row,
        row_label,
        labels,
        *lines,
        rule,
        row_weight=some.result.votes.row_weight,
        probabilities=probabilities,
        unraised=before,
    )
    other, own = _next_best(probabilities, some.labels), some.labels
    against = np.where(other < 0, own, other)
    each = np.arange(len(some.row))
    contribution = said[each, own[some.task]] - said[each, against[some.task]]
    prior = rule.log_prior[own] - rule.log_prior[against]
    size = some.sums(some.weight)
    cold = 1.0 / (2.0 * (1.0 + np.maximum(size - 1.0, 0.0) * rule.shared_error))
    colder = cold * min(1.0, 2.0 * rule.holds)
    score = prior + some.sums(contribution)
    mixed = np.log(before[n, own]) - np.log(before[n, against])
    final = np.log(probabilities[n, own]) - np.log(probabilities[n, against])
    changes = np.stack([score * cold - score, score * (colder - cold), mixed - score * colder, final - mixed], axis=1)
    steps = tuple(
        _worth_a_line(
            Step("shared error", line[0], f"what votes say counts {temper:.0%}: workers may err together"),
            Step("chance agreement", line[1], "votes agree with each other hardly more than chance"),
            Step("vote shares", line[2], "a fifth of the probability is the share of the votes"),
            Step("model's choice", line[3], "the model chose this label, so it gets the largest probability"),
        )
        for line, temper in zip(changes.tolist(), cold.tolist(), strict=True)
    )
    scores = some.sums(said) + rule.log_prior
    return LabelEvidence(probabilities, other, final, prior, contribution, steps, np.zeros(some.n_tasks, np.bool_), scores)


def model_evidence(some: TaskVotes) -> LabelEvidence:
    """Return what votes say by the model that decided: by scores, or by shares of weights or votes."""
    result = some.result
    if result.fit.stack is not None:
        return stack_evidence(some)
    decided_by, params = cast(OffersScoring, result.session).scoring()
    if result.fit.log_others is not None:
        return score_evidence(some, *_glad_lines(some, result.fit.log_others))
    if decided_by == "votes":
        counted = some.counted()
        return share_evidence(some, counted, counted, some.weight)
    if params is None:  # the model has its own scores, which are not sums over workers
        raise OptionError(f"model {result.model!r} cannot explain its own posterior: fit with confidence='honest', the default")
    if decided_by == "scores":
        return score_evidence(some, params.table[some.row], params.log_prior)
    weights = params.table[some.row, some.given]
    sums = some.by_label(weights)
    best = sums.max(axis=1, initial=-np.inf, keepdims=True)
    return share_evidence(some, sums, np.where(best > 0, np.maximum(sums, 0.0), sums == best), weights)


def stack_evidence(some: TaskVotes) -> LabelEvidence:
    """Return what votes add to the scores of a panel stack; what they say without gold is a step before them."""
    n, weights, before = np.arange(some.n_tasks), _stack_weights(some), _before_stack(some)
    sums = before + some.by_label(weights)
    probabilities = np.exp(sums - sums.max(axis=1, initial=-np.inf, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    other = _next_best(probabilities, some.labels)
    against = np.where(other < 0, some.labels, other)
    sign = (some.given == some.labels[some.task]).astype(np.float64) - (some.given == against[some.task])
    alone = before[n, some.labels] - before[n, against]
    why = f"what the votes say by themselves, believed {some.result.fit.stack.trust:.2f} times"
    return LabelEvidence(
        probabilities,
        other,
        sums[n, some.labels] - sums[n, against],
        np.zeros(some.n_tasks),
        weights * sign,
        tuple((Step("votes without gold", float(change), why),) for change in alone),
        np.zeros(some.n_tasks, np.bool_),
        sums,
    )


def stack_flips(some: TaskVotes, runner_up: Codes) -> Flips:
    """Return the votes that decide a label of a panel stack: without them, or if they changed sides, it would differ."""
    each, weights = np.arange(len(some.row)), _stack_weights(some)
    sums = (_before_stack(some) + some.by_label(weights))[some.task]
    label, has_other = some.labels[some.task], (runner_up >= 0)[some.task]
    sums[each, some.given] -= weights
    removed = sums.argmax(axis=1) != label
    sums[each, np.where(has_other, runner_up[some.task], some.given)] += weights
    changed = sums.argmax(axis=1) != label
    agrees = some.given == label
    return Flips(removed & has_other & agrees, changed & has_other & agrees)


def _before_stack(some: TaskVotes) -> Floats:
    """Return what the votes say without gold, as a panel stack counts it, [tasks, K]."""
    stack = some.result.fit.stack
    out: Floats = stack.trust * stack.log_votes[some.codes]
    return out


def _stack_weights(some: TaskVotes) -> Floats:
    """Return what each vote adds to the score of its label in a panel stack, [votes]; repeated votes share a weight."""
    _, pair, repeated = np.unique(np.stack([some.task, some.worker]), axis=1, return_inverse=True, return_counts=True)
    out: Floats = some.result.fit.stack.weights[some.worker] / repeated[pair.ravel()]
    return out


def score_evidence(some: TaskVotes, lines: Floats, log_prior: Floats) -> LabelEvidence:
    """Return what votes say by scores: log-probabilities of the votes by true label, [votes, K], and of the labels, [K]."""
    n, each = np.arange(some.n_tasks), np.arange(len(some.row))
    finite, impossible = split(lines)
    start, ruled_out = split(log_prior)
    scores = LabelScores(some.sums(finite) + start, some.sums(impossible), ruled_out > 0)
    limited = scores.limited()
    probabilities = np.exp(limited - limited.max(axis=1, initial=-np.inf, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    nowhere = ~some.result.votes.given_labels() & scores.ruled_out
    own = np.arange(len(log_prior)) == some.labels[:, None]
    order = np.lexsort((-scores.finite, scores.misses, np.broadcast_to(scores.ruled_out, own.shape), own | nowhere))
    other = np.where((own | nowhere)[n, order[:, 0]], -1, order[:, 0]) if len(log_prior) else np.full(some.n_tasks, -1)
    label, against = some.labels, np.where(other < 0, some.labels, other)
    parts = [of_vote[each, label[some.task]] - of_vote[each, against[some.task]] for of_vote in (finite, -impossible)]
    before = [of_label[label] - of_label[against] for of_label in (start, -ruled_out)]
    known, unlimited = (some.sums(part) + rest for part, rest in zip(parts, before, strict=True))
    certain = unlimited > 0
    bound = np.maximum(CERTAIN_LOG_ODDS, (CERTAIN_LOG_ODDS - known) / np.where(certain, unlimited, 1.0))
    bound = np.where(certain, bound, CERTAIN_LOG_ODDS)
    return LabelEvidence(
        probabilities,
        other,
        known + unlimited * bound,
        before[0] + before[1] * bound,
        parts[0] + parts[1] * bound[some.task],
        ((),) * some.n_tasks,
        certain,
        limited,
    )


def share_evidence(some: TaskVotes, sums: Floats, counted: Floats, weights: Floats) -> LabelEvidence:
    """Return what votes say by shares: each vote has a part of the log-odds in proportion to its weight, [votes].

    `sums` are the weights of each label, `counted` what shares are of, [tasks, K] each. Weights of one label add up, its
    log-odds do not; the parts are scaled so that they do.
    """
    n = np.arange(some.n_tasks)
    probabilities = counted / counted.sum(axis=1, keepdims=True)
    other = _next_best(probabilities, some.labels, least=-1.0)
    against = np.where(other < 0, some.labels, other)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_odds = np.log(probabilities[n, some.labels]) - np.log(probabilities[n, against])
    certain = np.isposinf(log_odds)
    log_odds = np.where(np.isfinite(log_odds), log_odds, CERTAIN_LOG_ODDS)
    margin = sums[n, some.labels] - sums[n, against]
    even = 1.0 / np.where(sums[n, against] > 0, sums[n, against], np.inf)  # the limit of what follows, for equal sums
    scale = np.where(margin == 0.0, even, log_odds / np.where(margin == 0.0, 1.0, margin))
    sign = (some.given == some.labels[some.task]).astype(np.float64) - (some.given == against[some.task])
    parts = sign * weights * scale[some.task]
    return LabelEvidence(probabilities, other, log_odds, np.zeros(len(n)), parts, ((),) * len(n), certain, sums)


def calibrate_evidence(some: TaskVotes, found: LabelEvidence) -> LabelEvidence:
    """Return evidence of probabilities at the temperature of the fit, which is one more step."""
    temperature = some.result.fit.temperature
    if temperature == 1.0:
        return found
    n, probabilities = np.arange(some.n_tasks), apply_temperature(found.probabilities, temperature)
    against = np.where(found.runner_up < 0, some.labels, found.runner_up)
    final = np.log(probabilities[n, some.labels]) - np.log(probabilities[n, against])
    changes = (final - found.log_odds).tolist()
    why = f"a temperature of {temperature:.3g} suits the labels that are known"
    steps = tuple(
        (*steps, *_worth_a_line(Step("calibration", change, why))) for steps, change in zip(found.steps, changes, strict=True)
    )
    return replace(found, probabilities=probabilities, log_odds=final, steps=steps, certain=np.zeros(len(n), np.bool_))


def _next_best(probabilities: Floats, labels: Codes, least: float = 0.0) -> Codes:
    """Return the most probable label but the one decided, [tasks]; -1 if none has more than `least`."""
    if probabilities.shape[1] < 2:
        return np.full(len(labels), -1)
    others = probabilities.copy()
    others[np.arange(len(labels)), labels] = -2.0
    other = others.argmax(axis=1)
    return np.where(others[np.arange(len(labels)), other] > least, other, -1)


def _worth_a_line(*steps: Step) -> tuple[Step, ...]:
    return tuple(step for step in steps if abs(step.change) > MIN_STEP_LOG_ODDS)


def _glad_lines(some: TaskVotes, log_others: float) -> tuple[Floats, Floats]:
    """Return what GLAD's votes say, [votes, K], less what they say of all labels alike, and its log priors, [K]."""
    fit = some.result.fit
    ease = 1.0 / some.figures(fit.task_columns["difficulty"])
    lines = np.zeros((len(some.row), some.result.votes.n_labels))
    x = fit.worker_columns["ability"][some.worker] * ease[some.task]
    lines[np.arange(len(some.row)), some.given] = x + log_others
    priors = fit.params.priors if fit.scored_by is None else fit.scored_by
    with np.errstate(divide="ignore"):
        return lines, np.log(priors)


Flags = NDArray[np.bool_]


Decisions = tuple[Codes, Codes, Codes]  # labels: [tasks] now, [votes] without each vote, and [votes] had each been another


class VoteScores(NamedTuple):
    """What votes say of every label, [votes, K]."""

    finite: Floats
    misses: Floats  # 1 if a vote is impossible under a label


class Flips(NamedTuple):
    """Whether the label of its task would be another, [votes] each."""

    removed: Flags  # without the vote
    changed: Flags  # had it been for the runner-up


def flips_of(some: TaskVotes, runner_up: Codes, learned: Learned) -> Flips:
    """Return on which votes the labels of some tasks hang; `runner_up` has the other label of each task, [tasks], or -1.

    Nothing hangs on a vote where the learned model would decide otherwise anyway, and everything on the only vote of a task.
    """
    has_other = runner_up >= 0
    other = np.where(has_other, runner_up, some.labels)[some.task]
    before, removed, changed = _by_votes(some, other) if learned.scoring == "heads" else _by_lines(some, learned, other)
    settled = (before == some.labels) & has_other
    alone = np.diff(some.task_ptr) == 1
    label, same = some.labels[some.task], (settled & ~alone)[some.task]
    return Flips((removed != label) & same | (alone & has_other)[some.task], (changed != label) & settled[some.task])


def _by_votes(some: TaskVotes, other: Codes) -> Decisions:
    """Return what majority vote decides; `other` is the label that each vote could have been for, [votes]."""
    counted, total, each, weights = some.counted(), some.sums(some.weight), np.arange(len(some.row)), _vote_weights(some)
    now = _pick_labels(some, counted / total[:, None], weights)
    left, total = counted[some.task], total[some.task]
    left[each, some.given] -= some.weight
    fewer = total - some.weight
    removed = _pick_labels(some, left / np.where(fewer > 0, fewer, 1.0)[:, None], weights, some.task)
    left[each, other] += some.weight
    return now, removed, _pick_labels(some, left / total[:, None], weights, some.task)


def _by_lines(some: TaskVotes, learned: Learned, other: Codes) -> Decisions:
    """Return what scores decide; `other` is the label that each vote could have been for, [votes]."""
    params, (own, new) = _learned_lines(some, learned, some.given, other)
    (start, ruled_out), weights = split(params.log_prior), params.log_prior
    finite, misses = some.sums(own.finite) + start, some.sums(own.misses)
    now = _pick_labels(some, LabelScores(finite, misses, ruled_out > 0).limited(), weights)
    finite, misses = finite[some.task] - own.finite, misses[some.task] - own.misses
    removed = _pick_labels(some, LabelScores(finite, misses, ruled_out > 0).limited(), weights, some.task)
    finite, misses = finite + new.finite, misses + new.misses
    return now, removed, _pick_labels(some, LabelScores(finite, misses, ruled_out > 0).limited(), weights, some.task)


def _learned_lines(some: TaskVotes, learned: Learned, *given: Codes) -> tuple[Parameters, list[VoteScores]]:
    """Return the parameters for the workers of these votes, and what each vote says where it gives these labels, [votes]."""
    votes, k = some.result.votes, some.result.votes.n_labels
    present, worker = np.unique(some.worker, return_inverse=True)
    cells = np.unique(np.concatenate([worker * k + labels for labels in given]))
    panel = WorkerRows(
        worker_ptr=np.searchsorted(cells // k, np.arange(len(present) + 1)).astype(np.int64),
        row_label=(cells % k).astype(np.int32),
        workers=votes.workers.take(present),
        labels=votes.labels,
    )
    params = transfer(learned, panel).params
    lines = [params.table[np.searchsorted(cells, worker * k + labels)] * some.weight[:, None] for labels in given]
    return params, [VoteScores(*split(round_to_unit(one, LOG_UNIT))) for one in lines]


def _pick_labels(some: TaskVotes, scores: Floats, weights: Floats, task: Codes | None = None) -> Codes:
    """Return the winners of scores, [n, K], ties by the rule of the fit.

    `task` says which task each line is of, [n]; `weights` are of labels, [K], where the more frequent one wins a tie.
    """
    result = some.result
    seed, ties = (result.settings.get(name, getattr(DEFAULTS, name)) for name in ("seed", "ties"))
    key = reference.tie_keys(hashes(reference, result.votes.tasks.take(some.codes)), cast(int, seed))
    own = key if task is None else key[task]
    label_hash = hashes(reference, result.votes.labels)
    winner, _ = reference.pick(scores, own, label_hash, weights if ties == "prior" else None)
    return winner.astype(np.int64)


def _vote_weights(some: TaskVotes) -> Floats:
    """Return the total weight of the votes for each label, [K], if ties go to the more frequent label."""
    votes = some.result.votes
    by_row = votes.votes_per_row() * (1.0 if votes.row_weight is None else votes.row_weight)
    return np.bincount(votes.row_label, by_row, minlength=votes.n_labels).astype(np.float64)


MAX_MORE: Final = 100  # votes looked ahead


def mean_worker(learned: Learned) -> Floats:
    """Return the confusion of the mean worker of a fit, smoothed, [K given, K true]; 0 for labels that do not exist."""
    known = learned.knowledge
    return stream_rule(given_votes(known, known.counts), known.class_counts, 0.0, 1.0)[1] / PSEUDO_VOTES_PER_WORKER


def expected_lines(confusion: Floats, label: int, *, honest: bool) -> Floats:
    """Return what a vote of the mean worker says of every label where `label` is true, in expectation, [K].

    `confusion` is [K given, K true]. Where confidence is honest, no vote speaks against what it says.
    """
    with np.errstate(divide="ignore"):
        lines = np.log(confusion)
    if honest:
        np.fill_diagonal(lines, lines.max(axis=1, initial=-np.inf))
    share = confusion[:, label]
    cast = share > 0
    return np.asarray(share[cast] @ np.where(np.isneginf(lines[cast]), 0.0, lines[cast]))


def more_honest_votes(
    some: TaskVotes, honest: Honest, scores_now: Floats, settled: float, temperature: float
) -> list[int | None]:
    """Return how many more votes bring the label of each task to honest confidence `settled`.

    `scores_now` has the scores of the honest rule, [tasks, K].
    """
    rule, population, counted = honest.rule, honest.population, some.counted()
    more = np.arange(MAX_MORE + 1.0)[:, None]
    found = []
    for label, score, votes in zip(some.labels.tolist(), scores_now, counted, strict=True):
        line = expected_lines(population, label, honest=True)
        scores = np.where(rule.uniform > 0, score + more * line, -np.inf)
        shown = votes + more * population[:, label]
        found.append(_first(_honest(scores, shown, rule), label, settled, temperature))
    return found


def _honest(scores: Floats, shown: Floats, rule: HonestRule) -> Floats:
    """Return honest probabilities, [n, K], of scores and of votes by label, [n, K] each."""
    size = shown.sum(axis=1)
    out: Floats = (1.0 - VOTE_SHARE) * soften(scores, size, rule) + VOTE_SHARE * (shown + rule.uniform) / (size + 1.0)[:, None]
    return out


def more_scored_votes(some: TaskVotes, probabilities: Floats, confusion: Floats, settled: float) -> list[int | None]:
    """Return the same of a posterior that comes from scores; `probabilities` has it now, [tasks, K]."""
    more = np.arange(MAX_MORE + 1.0)[:, None]
    found = []
    for label, now in zip(some.labels.tolist(), probabilities, strict=True):
        with np.errstate(divide="ignore"):
            scores = np.where(now > 0, np.log(now) + more * expected_lines(confusion, label, honest=False), -np.inf)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        found.append(_first(shares / shares.sum(axis=1, keepdims=True), label, settled, some.result.fit.temperature))
    return found


def more_counted_votes(some: TaskVotes, sums: Floats, weight: float, confusion: Floats, settled: float) -> list[int | None]:
    """Return the same of a posterior that is a share of votes or weights; `sums` has these by label, [tasks, K].

    `weight` is that of the mean vote.
    """
    more = np.arange(MAX_MORE + 1.0)[:, None]
    found = []
    for label, now in zip(some.labels.tolist(), sums, strict=True):
        after = np.maximum(now + more * max(weight, 0.0) * confusion[:, label], 0.0)
        total = after.sum(axis=1, keepdims=True)
        found.append(_first(after / np.where(total > 0, total, 1.0), label, settled, some.result.fit.temperature))
    return found


def _first(probabilities: Floats, label: int, settled: float, temperature: float) -> int | None:
    """Return the first line, of one vote more each, in which the label is settled; None if it is in none."""
    known = apply_temperature(np.clip(probabilities, 0.0, 1.0), temperature)
    there = np.flatnonzero(known[:, label] >= settled)
    return int(there[0]) if len(there) else None


def stack_accuracy(
    votes: Votes, shares: Floats, labels: NDArray[np.int32], per_set: int, law: AccuracyLaw
) -> dict[str, NDArray[np.float64]]:
    """Return the accuracy of every worker and its 90% interval, [workers] each, from a stack's probabilities, [tasks, K]."""
    task = np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))
    doubts = 1.0 - shares[np.arange(votes.n_tasks), labels]
    parts = (shares[task, votes.row_label[votes.row]], doubts[task])
    sums = np.array([np.bincount(votes.row, part, minlength=votes.n_rows) for part in parts])
    cast_votes = votes.by_worker(votes.votes_per_row())
    return accuracy_columns(*worker_law(votes, sums / per_set, cast_votes / per_set, law))
