"""Panel stack: gold teaches whom of a dense panel to believe, and corrects the votes.

Every judge of a dense panel has voted on most tasks, so a few gold tasks say something about each of them, and about judges who
err alike, which no count of agreement tells. The score of a label is

    b * log p + the sum of u_j over the judges j who gave it,

where p is the honest probability of the label in a fit without gold. Multinomial regression on the gold finds b and u, with b
pulled to 1 (standard deviation 0.3) and u_j to 0 (standard deviation `spread` / sqrt(judges)). Without gold it is that fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import Fit
from adjudge.data.memory import free_memory, gib
from adjudge.data.options import Number, Place, Rules
from adjudge.data.votes import Votes
from adjudge.engines.base import OffersWhole, Session, WholeVotes
from adjudge.errors import AdjudgeError, InputError
from adjudge.models.base import COMMON, MODELS, Knowns, Model
from adjudge.models.dawid_skene import ConfusionRecipe
from adjudge.models.honest import facts_of
from adjudge.models.temperature import probability_pieces

if TYPE_CHECKING:
    from adjudge.results.result import Result

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
LOG_FLOOR: Final = 1e-6  # honest probabilities below this count as this
TRUST_DEVIATION: Final = 0.3  # standard deviation of b around 1
NEWTON_STEPS: Final = 30
MIN_NEWTON_STEP: Final = 1e-9  # below which a step is not halved any more
LAST_NEWTON_STEP: Final = 1e-12  # after which rounding is all that moves
MAX_JUDGES: Final = 1000  # the regression solves for all of them at once
DENSE_SHARE: Final = 0.5  # of all judge x task cells, from which a panel is dense
MIN_STACK_GOLD: Final = 20  # gold tasks from which `auto` considers the stack
FOLDS: Final = 5
MIN_GAIN_NATS: Final = 1.0  # of log loss over all gold tasks, judged by stacks that did not see them
MAX_NAMED_WEIGHTS: Final = 2
MAX_INPUT_BYTES: Final = 1 << 28  # of judges' votes on gold tasks, up to which `auto` considers the stack
INPUT_COPIES: Final = 3  # arrays of that size that a step of the regression holds


class Stack(NamedTuple):
    """What a panel stack has learned."""

    trust: float  # b: how far the votes themselves are believed
    weights: Floats  # [workers] u: what a judge's vote adds to the log-score of its label
    log_votes: Floats  # [tasks, K] log p of the votes without gold

    def scores(self, votes: Votes) -> Floats:
        """Return the scores of all labels, [tasks, K]."""
        n, k = votes.n_tasks, votes.n_labels
        cell, share = judge_shares(votes)
        worker = votes.row_worker()[votes.row]
        added = np.bincount(cell, share * self.weights[worker], minlength=n * k).reshape(n, k)
        return self.trust * self.log_votes + added


@dataclass(frozen=True, kw_only=True)
class PanelStack(Model):
    """A dense panel whose judges are weighted by regression on gold tasks.

    It is for panels in which every judge votes on most tasks, such as LLM judges, with at least 20 gold tasks. `result.workers`
    has the `weight` of each judge, which its vote adds to the log-odds of its label. A negative weight counts against the label,
    as for a judge who shares the errors of others.

    Parameters
    ----------
    spread : float, default 1.0
        How far gold may move the weight of a judge.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=200, workers=7, votes_per_task=7, labels=2, skill=0.6, shared_error=0.4, seed=3)
    >>> result = adj.PanelStack().fit(crowd.votes, gold=crowd.truth.head(50))
    >>> result.workers.columns[-3:]
    ['weight', 'gold_votes', 'gold_right']

    """

    name: ClassVar[str] = "panel"
    title: ClassVar[str] = "panel stack"
    rules: ClassVar[Rules] = {**COMMON, "spread": Number(least=1e-3, most=1e3)}
    takes: ClassVar[frozenset[str]] = frozenset()
    needs_gold: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = False
    is_likelihood: ClassVar[bool] = False
    place: ClassVar[Place] = "memory"

    spread: float = 1.0

    def require_votes(self, votes: Votes) -> None:
        """Raise if there are more judges than the regression can solve for.

        Parameters
        ----------
        votes : Votes
            The votes to fit.

        Raises
        ------
        InputError
            If there are too many judges.

        """
        super().require_votes(votes)
        if votes.n_workers > MAX_JUDGES:
            raise InputError(
                f"model 'panel' is made for panels of up to {MAX_JUDGES} judges, and these votes have {votes.n_workers} workers: "
                "choose another model"
            )

    def _fit(self, session: Session, known: Knowns) -> Fit:
        here = cast(OffersWhole, session)  # as its place says
        whole = here.whole()
        stack = learn_stack(self, whole, known.possible(session))
        return stacked_fit(self, here, whole, stack, {"chose": "panel", "why": f"panel stack: {describe(stack, whole)}"})


def stacked_fit(model: Model, session: OffersWhole, whole: WholeVotes, stack: Stack, facts: dict[str, object]) -> Fit:
    """Return the decisions of a stack."""
    votes, scores = whole.votes, stack.scores(whole.votes)
    shares = softmax(scores)
    right, total = gold_answers(whole)
    if whole.gold is not None:
        given = np.flatnonzero(whole.gold >= 0)
        shares[given] = np.eye(votes.n_labels)[whole.gold[given]]
    right_votes = np.bincount(votes.row, shares.ravel()[judge_shares(votes)[0]], minlength=votes.n_rows).astype(np.float64)
    outcome = replace(session.decided(scores, shares), right_votes=right_votes)
    params, statistics, _ = session.estimate(ConfusionRecipe(model))
    with np.errstate(invalid="ignore"):
        columns = {"weight": stack.weights, "gold_votes": total, "gold_right": right / total}
    return Fit(
        outcome,
        params,
        statistics,
        worker_columns=columns,
        posterior=partial(np.asarray, shares),
        scoring="confusion",
        stack=stack,
        facts={**facts, "trust_in_votes": stack.trust},
    )


def learn_stack(model: PanelStack, whole: WholeVotes, possible: NDArray[np.bool_]) -> Stack:
    """Return the stack that the gold of these votes teaches; `possible`, [K], says which labels there are."""
    log_votes = log_votes_alone(model, whole)
    gold = np.zeros(0, np.int64) if whole.gold is None else np.flatnonzero(whole.gold >= 0)
    need, have = INPUT_COPIES * 8 * len(gold) * (1 + whole.votes.n_workers) * whole.votes.n_labels, free_memory()
    if need > have:
        raise AdjudgeError(
            f"model 'panel' needs about {gib(need)} for {len(gold)} gold tasks and {whole.votes.n_workers} judges, but "
            f"{gib(have)} are free: give fewer gold tasks, or choose another model"
        )
    inputs = stack_inputs(whole.votes, log_votes, gold)[:, :, possible]
    place = np.cumsum(possible) - 1
    truth = np.zeros(0, np.int64) if whole.gold is None else place[whole.gold[gold]]
    theta = regress(inputs, truth, model.spread)
    return Stack(float(theta[0]), theta[1:], log_votes)


def log_votes_alone(model: Model, whole: WholeVotes) -> Floats:
    """Return the logarithm of honest probabilities of a fit without gold, [tasks, K]."""
    engine = "reference" if whole.kernels.__name__.endswith("reference") else "cpu"
    alone: Result = MODELS["auto"](seed=model.seed, ties=model.ties).fit(whole.votes, engine=engine, trace="light", gold={})
    parts = [part for _, part in probability_pieces(alone.fit, alone.session)]
    honest = np.concatenate([np.zeros((0, whole.votes.n_labels)), *parts])
    out: Floats = np.log(np.maximum(honest, LOG_FLOOR))
    return out


def judge_shares(votes: Votes) -> tuple[Integers, Floats]:
    """Return the cell task * K + label of each vote, and its share of its judge's votes on the task, [votes] each."""
    task = np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))
    worker = votes.row_worker()[votes.row]
    _, pair, repeated = np.unique(task * max(votes.n_workers, 1) + worker, return_inverse=True, return_counts=True)
    return task * votes.n_labels + votes.row_label[votes.row], 1.0 / repeated[pair]


def stack_inputs(votes: Votes, log_votes: Floats, tasks: Integers) -> Floats:
    """Return log p and the judges' votes on some tasks, [tasks, 1 + workers, K]."""
    n, k, judges = len(tasks), votes.n_labels, votes.n_workers
    out = np.zeros((n, 1 + judges, k))
    out[:, 0] = log_votes[tasks]
    cell, share = judge_shares(votes)
    place = np.full(votes.n_tasks, -1)
    place[tasks] = np.arange(n)
    at = place[cell // max(k, 1)]
    chosen = at >= 0
    worker = votes.row_worker()[votes.row]
    np.add.at(out, (at[chosen], 1 + worker[chosen], cell[chosen] % max(k, 1)), share[chosen])
    return out


def regress(inputs: Floats, truth: Integers, spread: float) -> Floats:
    """Return b and u of all judges, [1 + workers], from inputs, [gold, 1 + workers, K], and true labels, [gold].

    The maximum of a concave log-posterior by Newton's method; a step that does not climb is halved.
    """
    judges = inputs.shape[1] - 1
    centre = np.append(1.0, np.zeros(judges))
    precision = np.append(TRUST_DEVIATION**-2, np.full(judges, judges / spread**2))
    theta = centre.copy()
    if not len(truth):
        return theta
    target = np.eye(inputs.shape[2])[truth]

    def loss(at: Floats) -> float:
        scores = np.einsum("njk,j->nk", inputs, at)
        top = scores.max(axis=1)
        fit = top + np.log(np.exp(scores - top[:, None]).sum(axis=1)) - (scores * target).sum(axis=1)
        return float(fit.sum() + precision @ (at - centre) ** 2 / 2)

    for _ in range(NEWTON_STEPS):
        share = softmax(np.einsum("njk,j->nk", inputs, theta))
        slope = np.einsum("njk,nk->j", inputs, share - target) + precision * (theta - centre)
        mean = np.einsum("njk,nk->nj", inputs, share)
        bend = np.einsum("nik,nk,njk->ij", inputs, share, inputs, optimize=True) - mean.T @ mean + np.diag(precision)
        step = np.linalg.solve(bend, slope)
        while loss(theta - step) > loss(theta) and np.abs(step).max() > MIN_NEWTON_STEP:
            step /= 2
        theta -= step
        if np.abs(step).max() < LAST_NEWTON_STEP:
            break
    return theta


def cross_validated_gain(model: PanelStack, whole: WholeVotes, log_votes: Floats, possible: NDArray[np.bool_]) -> float:
    """Return by how many nats stacks that did not see them judge the gold tasks better than the votes alone do.

    Minus infinity if fewer of their labels are right. Folds go by the hash of the task: the same in any order of rows.
    """
    assert whole.gold is not None
    gold = np.flatnonzero(whole.gold >= 0)
    inputs = stack_inputs(whole.votes, log_votes, gold)[:, :, possible]
    truth = (np.cumsum(possible) - 1)[whole.gold[gold]]
    fold = np.argsort(np.argsort(whole.task_key[gold], kind="stable"), kind="stable") % FOLDS
    alone = softmax(inputs[:, 0])
    stacked = np.empty_like(alone)
    for hidden in range(FOLDS):
        theta = regress(inputs[fold != hidden], truth[fold != hidden], model.spread)
        stacked[fold == hidden] = softmax(np.einsum("njk,j->nk", inputs[fold == hidden], theta))
    each = np.arange(len(gold))
    if (stacked.argmax(axis=1) == truth).sum() < (alone.argmax(axis=1) == truth).sum():
        return -np.inf
    return float(np.log(np.maximum(stacked[each, truth], LOG_FLOOR)).sum() - np.log(alone[each, truth]).sum())


def stack_of_auto(model: Model, session: Session, known: Knowns) -> Fit | None:
    """Return the fit of a stack, for `auto`, if the panel is dense and cross-validation on its gold says so; else None."""
    votes = known.votes
    if type(votes) is not Votes or votes.row_weight is not None or votes.n_workers > MAX_JUDGES or known.in_history is not None:
        return None
    if len(votes) < DENSE_SHARE * votes.n_tasks * votes.n_workers or not hasattr(session, "whole"):
        return None
    gold = session.gold_tasks(votes=2)
    if not MIN_STACK_GOLD <= gold < votes.n_tasks or known.classes is not None:
        return None
    if 8 * gold * (1 + votes.n_workers) * votes.n_labels > MAX_INPUT_BYTES:
        return None
    here, stacking, possible = cast(OffersWhole, session), PanelStack(seed=model.seed, ties=model.ties), known.possible(session)
    whole = here.whole()
    stack = learn_stack(stacking, whole, possible)
    gain = cross_validated_gain(stacking, whole, stack.log_votes, possible)
    if gain < MIN_GAIN_NATS:
        return None
    why = f"panel stack: {describe(stack, whole)}, and cross-validation on them gains {gain:.1f} nats of log loss"
    return stacked_fit(model, here, whole, stack, {**facts_of(known.dependence), "chose": "panel", "why": why})


def describe(stack: Stack, whole: WholeVotes) -> str:
    """Return whose votes count most, and least, in one sentence."""
    gold = 0 if whole.gold is None else int((whole.gold >= 0).sum())
    order = np.argsort(-stack.weights, kind="stable")
    names = whole.votes.workers

    def named(some: Integers) -> str:
        return ", ".join(f"{names[int(code)]} {stack.weights[code]:+.2f}" for code in some)

    most, least = order[:MAX_NAMED_WEIGHTS], order[::-1][:MAX_NAMED_WEIGHTS]
    if len(order) <= MAX_NAMED_WEIGHTS:
        return f"{gold} gold tasks say whom to believe (log-odds per vote: {named(order)})"
    return f"{gold} gold tasks say whom to believe (log-odds per vote: most {named(most)}; least {named(least)})"


def gold_answers(whole: WholeVotes) -> tuple[Floats, Floats]:
    """Return the right votes of each worker on gold tasks, and all of them, [workers] each."""
    votes = whole.votes
    gold = np.full(votes.n_tasks, -1) if whole.gold is None else whole.gold
    truth, worker = np.repeat(gold, np.diff(votes.task_ptr)), votes.row_worker()[votes.row]
    known = truth >= 0
    right = known & (truth == votes.row_label[votes.row])
    sums = (np.bincount(worker[some], minlength=votes.n_workers).astype(np.float64) for some in (right, known))
    return cast(tuple[Floats, Floats], tuple(sums))


def softmax(scores: Floats) -> Floats:
    """Return probabilities of scores, [n, K]."""
    out: Floats = np.exp(scores - scores.max(axis=1, initial=-np.inf, keepdims=True))
    out /= out.sum(axis=1, keepdims=True)
    return out
