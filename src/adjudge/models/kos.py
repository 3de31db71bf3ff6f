"""KOS: messages between tasks and workers along the votes (Karger, Oh and Shah 2011)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any, ClassVar, Final, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import Fit
from adjudge.data.options import DEFAULTS, Number, Place, Rules
from adjudge.data.votes import Votes
from adjudge.engines import memory
from adjudge.engines.base import ClassEstimate, Gather, MStep, OffersWhole, PassSums, Recipe, Session, WholeVotes, WorkerBlock
from adjudge.kernels import methods_reference
from adjudge.kernels.methods_reference import Edges
from adjudge.models import em
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.dawid_skene import ConfusionRecipe

Floats = NDArray[np.float64]
MAX_MESSAGE: Final = 2.0**900  # messages beyond this are scaled down, all by one power of two, which changes no sign
SCALE: Final = 2.0**-400


@dataclass(frozen=True, kw_only=True)
class KOS(Model):
    """Karger, Oh and Shah 2011: messages between tasks and workers, for two labels.

    A task sends each of its workers the sum of the other votes, weighted by the messages of their workers. A worker sends each of
    its tasks how far its votes on other tasks agree with their messages. All messages start at 1, so the first round is majority
    vote, and nothing is random. Finally the sign of the weighted sum of all votes decides; a task without messages gets its
    majority. Confidence is the label's share of the weights.

    Parameters
    ----------
    max_iter : int, default 100
        Number of rounds.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [(t, w, "yes" if (t < 3) == (w != "eve") else "no") for t in range(6) for w in ("ann", "bob", "eve", "zoe")]
    >>> result = adj.KOS().fit(votes)
    >>> result.labels["label"].to_list()
    ['yes', 'yes', 'yes', 'no', 'no', 'no']
    >>> result.workers.filter(worker="eve")["weight"].item()
    -1.0

    """

    name: ClassVar[str] = "kos"
    title: ClassVar[str] = "messages (KOS)"
    scoring: ClassVar[str] = "weight"
    place: ClassVar[Place] = "memory"
    most_labels: ClassVar[int] = 2
    takes: ClassVar[frozenset[str]] = frozenset()
    takes_weights: ClassVar[bool] = False
    is_likelihood: ClassVar[bool] = False
    room: ClassVar[memory.Room] = memory.MESSAGES
    rules: ClassVar[Rules] = {**COMMON, "max_iter": Number(least=1, whole=True)}

    max_iter: int = DEFAULTS.max_iter

    def _fit(self, session: Session, known: Knowns) -> Fit:
        here = cast(OffersWhole, session)  # as its place says
        steps = KosSteps(self, here.whole())
        ended = em.repeat(steps, steps, partial(steps.start, hard=True), replace(known.options, start=None, warm=None))
        shares = steps.shares()
        outcome = here.decided(shares, shares)
        params, statistics, _ = session.estimate(ConfusionRecipe(self))
        weights = steps.weights()
        return Fit(
            outcome,
            params,
            statistics,
            ended.trace,
            converged=ended.trace[-1].labels_changed == 0,
            worker_columns={"weight": weights},
            posterior=partial(_is_unchanged, shares),  # which can be pickled
            skill=weights,
        )


def _is_unchanged(shares: Floats) -> Floats:
    return shares


class Messages:
    """The messages of all votes between rounds: the loop of KOS over arrays, for the model and for callers with a start."""

    def __init__(self, edges: Edges, start: Floats, *, kernels: ModuleType = methods_reference, threads: int = 1) -> None:
        self._edges, self._kernels, self._threads = edges, kernels, threads
        self._to_task = np.array(start, np.float64)  # [votes] y, changed in place
        self._to_worker = np.zeros(len(start))  # [votes] x
        self.score = np.zeros(len(edges.task_ptr) - 1)  # [tasks] above 0: the label of sign 1
        self.weight = np.zeros(len(self.score))  # [tasks] the largest |score| that the messages allow
        self.total = np.zeros(len(edges.worker_ptr) - 1)  # [workers] how far its votes agree with what tasks sent
        self._largest = self.send_to_workers()

    def send_to_workers(self) -> float:
        """Let tasks send messages, which makes their scores, and return the largest of them."""
        out = {"to_worker": self._to_worker, "score": self.score, "weight": self.weight}
        self._largest = self._kernels.kos_tasks(self._edges, self._to_task, **out, threads=self._threads)
        return self._largest

    def send_to_tasks(self) -> None:
        """Let workers send messages."""
        out = {"to_task": self._to_task, "total": self.total}
        largest = self._kernels.kos_workers(self._edges, self._to_worker, **out, threads=self._threads)
        if largest > MAX_MESSAGE:
            self._to_task *= SCALE

    def know(self, votes: NDArray[np.int64], sign: Floats) -> None:
        """Let tasks with a known label send their votes, [some], that label, [some], as loud as the loudest task."""
        self._to_worker[votes] = sign * (self._largest or 1.0)


def edges_of(votes: Votes) -> Edges:
    """Return votes for one of two labels as edges; the label of code 1 has sign 1."""
    worker = votes.row_worker()[votes.row]
    order = np.argsort(worker, kind="stable")
    ptr = np.searchsorted(worker[order], np.arange(votes.n_workers + 1)).astype(np.int64)
    return Edges(votes.task_ptr, ptr, order.astype(np.int64), np.where(votes.row_label[votes.row] == 1, 1.0, -1.0))


class KosSteps:
    """KOS over its votes: both recipe and steps of the loop. An M-step is workers' messages, an E-step tasks'."""

    starts_hard = True
    switch = -np.inf
    is_likelihood = False
    stop = "priors"
    tol = 0.0  # it never converges: it takes all `max_iter` rounds
    anchor = 0.0
    phase = "messages"
    may_cycle = False

    def __init__(self, model: KOS, whole: WholeVotes) -> None:
        self.name, self.max_iter = model.name, model.max_iter
        self._k, edges = whole.votes.n_labels, edges_of(whole.votes)
        self._messages = Messages(edges, np.ones(len(edges.sign)), kernels=whole.methods, threads=whole.threads)
        self._votes, self._sign = np.zeros(0, np.int64), np.zeros(0)
        if whole.gold is not None:
            gold = np.repeat(whole.gold, np.diff(edges.task_ptr))
            self._votes = np.flatnonzero(gold >= 0)
            self._sign = np.where(gold[self._votes] == 1, 1.0, -1.0)
        self._majority = self._messages.score.copy(), self._messages.weight.copy()
        self._labels = np.zeros(len(self._messages.score), np.bool_)

    def start(self, *, hard: bool) -> PassSums:
        """Return the sums of the first messages of tasks, when all workers are believed alike."""
        return self.e_step(hard=hard)

    def m_step(self, recipe: Recipe, priors: Floats) -> None:
        """Let workers send messages."""
        self._messages.send_to_tasks()

    def e_step(self, *, hard: bool, likelihood: bool = True, last: bool = False) -> PassSums:
        """Let tasks send messages, and return how many of each label there are, and how many tasks changed theirs."""
        self._messages.send_to_workers()
        self._messages.know(self._votes, self._sign)
        labels = self._scores()[0] > 0
        changed, self._labels = int((labels != self._labels).sum()), labels
        counts = np.array([len(labels) - labels.sum(), labels.sum()], np.float64)[: self._k]
        return PassSums(counts, changed=changed)

    def shares(self) -> Floats:
        """Return each label's share of the weights of a task, [tasks, K]."""
        score, weight = self._scores()
        upper = 0.5 + 0.5 * score / np.where(weight > 0, weight, 1.0)
        return np.ascontiguousarray(np.stack([1.0 - upper, upper], axis=1)[:, : self._k])

    def weights(self) -> Floats:
        """Return what a vote of each worker counts, [workers], from -1 to 1; all alike where no message is left."""
        total = self._messages.total
        largest = float(np.abs(total).max(initial=0.0))
        return total / largest if largest > 0 else np.ones(len(total))

    def _scores(self) -> tuple[Floats, Floats]:
        """Return scores and weights, [tasks] each: those of the majority where no message is left."""
        reached = self._messages.weight > 0
        score, weight = (np.where(reached, now, first) for now, first in zip(self._now, self._majority, strict=True))
        return score, weight

    @property
    def _now(self) -> tuple[Floats, Floats]:
        return self._messages.score, self._messages.weight

    def class_priors(self, class_counts: Any) -> ClassEstimate:
        """Return the shares of the labels, [K], which decide nothing."""
        shares = class_counts / max(float(class_counts.sum()), 1.0)
        return ClassEstimate(shares, 0.0, shares)

    def shared(self, priors: Floats, gather: Gather) -> None:
        """Return nothing: messages are its own."""

    def on(self, block: WorkerBlock) -> MStep:
        """Raise: messages do not follow from the counts of workers."""
        raise TypeError("KOS has no lines per worker")
