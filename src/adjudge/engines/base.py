"""The interface of an engine: sessions that hold the state of a fit, and the recipes they run where their counts are.

The EM loop exchanges things of the size of K with a session: class counts, priors, likelihoods. Counts and tables, one line
per row, never leave it: they are in this process, on disk, on executors or on a device. A model gives a `Recipe`, which says
how the counts of some workers become lines of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import FitOutcome, Others, Parameters, Pieces, Statistics, TableLines, TraceRow
from adjudge.data.vectors import Vector
from adjudge.data.votes import RowWeights, Votes, WorkerRows
from adjudge.io.reading import PLAIN_READING, Reading
from adjudge.kernels import reference
from adjudge.kernels.cpu import methods_of
from adjudge.kernels.reference import Sums

if TYPE_CHECKING:
    from adjudge.engines.passes import RowFunction, VotePass

Floats = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class PassSums:
    """Sums of a pass over all tasks: everything that the loop sees of it."""

    class_counts: NDArray[np.float64] | NDArray[np.int64]  # [K] tasks with this true label
    log_likelihood: float = float("nan")  # sum of log p(votes of a task), marginal over the true label
    classification: float = float("nan")  # C2 of the paper: sum of log p(votes, chosen label)
    changed: int = 0  # tasks whose label is another than before the pass
    impossible: int = 0  # tasks whose votes have probability 0 under every label
    penalty: float = 0.0  # what beliefs about workers add to the likelihood under the table of this pass
    step: str | None = None  # "extrapolated" or "rejected", where the M-step before was not one of EM (models/acceleration.py)


class ClassEstimate(NamedTuple):
    """Result of an M-step for the labels."""

    priors: Floats  # [K] p_c, in force in the E-step
    penalty: float  # what beliefs about labels add to the likelihood
    shares: Floats  # [K] what the stopping rule follows: the priors, or where these are fixed the shares of the labels


class Tables(Protocol):
    """Function of an engine's kernels from counts to the table: log pi, [rows, K], and votes by worker and true label."""

    def __call__(self, counts: Any, worker_ptr: NDArray[np.int64], smoothing: float) -> tuple[Floats, Floats]:
        """Return log pi, [rows, K], and the votes of each worker by true label, [workers, K]."""
        ...


class WorkerBlock(NamedTuple):
    """Some workers (or all), with everything an M-step needs of them, where their counts are."""

    panel: WorkerRows  # of (worker, given label) pairs
    row_votes: Callable[[], NDArray[Any]]  # [rows] votes in each row of the panel, weighted if they have weights
    history: Others | None  # pseudo-votes of these workers
    tables: Tables
    weights: RowWeights | None = None  # of the rows that votes are stored by, if these have weights
    threads: int = 0  # of the compiled kernels; 0: those of NumPy are used


class Gather(Protocol):
    """Sums over all workers of something small (K x K numbers, say), from the counts of the last pass."""

    def __call__(self, function: Callable[[WorkerBlock, Any], T]) -> T:
        """Return the sum (`+`) of a function of every block of workers and its counts, [rows, K]."""
        ...


class MStep(Protocol):
    """A recipe together with a block of workers."""

    def __call__(self, counts: Any, shared: Any) -> TableLines:
        """Return the lines of these workers; `counts` is [rows, K], `shared` is what `Recipe.shared` returned."""
        ...


class Recipe(Protocol):
    """A model's part in the loop and the engines: stateless settings and functions that can be pickled."""

    @property
    def name(self) -> str:
        """The model's name in messages."""
        ...

    @property
    def tol(self) -> float:
        """The change below which the loop stops: see `stop`."""
        ...

    @property
    def max_iter(self) -> int:
        """Maximum number of iterations."""
        ...

    @property
    def stop(self) -> str:
        """The rule: "priors" (they, or label shares, move less than tol), "objective" (gains less), "labels" (none changed)."""
        ...

    @property
    def starts_hard(self) -> bool:
        """Whether the first M-step is fed with hard labels (or with shares), and the first E-step is hard."""
        ...

    @property
    def is_likelihood(self) -> bool:
        """Whether scores are log-probabilities, so that there is a likelihood."""
        ...

    @property
    def anchor(self) -> float:
        """The share of the counts that were remembered (`Session.remember`) in those that an M-step sees; mostly 0."""
        ...

    @property
    def phase(self) -> str | None:
        """The name of its iterations in the trace; None: "soft" and "hard"."""
        ...

    @property
    def may_cycle(self) -> bool:
        """Whether labels may repeat in a cycle, which the loop then detects by fingerprints of the counts."""
        ...

    @property
    def switch(self) -> float:
        """The change of the priors from which on E-steps are hard; minus infinity: they stay as the first one was."""
        ...

    def class_priors(self, class_counts: Any) -> ClassEstimate:
        """Return p_c of the class counts of a pass, [K]."""
        ...

    def shared(self, priors: Floats, gather: Gather) -> Any:
        """Return what every worker's lines need besides its own counts, from sums over all workers in any number of rounds.

        None if they need nothing else: an engine may then make the lines of the next M-step during the pass before.
        """
        ...

    def on(self, block: WorkerBlock) -> MStep:
        """Return the M-step of these workers."""
        ...


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """State of the loop between two iterations: all it needs to continue."""

    class_counts: Any  # [K] of the last E-step
    shares: Floats  # [K] of the last M-step: what the stopping rule follows
    trace: tuple[TraceRow, ...]
    hard: bool  # whether the next E-step is
    seen: tuple[bytes, ...]  # fingerprints of the counts after every pass, of recipes that may cycle


class AlternatingSteps(Protocol):
    """M-steps and E-steps over state that a loop does not see."""

    def m_step(self, recipe: Recipe, priors: Floats) -> None:
        """Compute the table from the counts of the last pass, without moving the counts."""
        ...

    def e_step(self, *, hard: bool, likelihood: bool = True, last: bool = False) -> PassSums:
        """Return the sums of a pass: an E-step under the current table, and the recount.

        Without `likelihood` a hard pass may leave the log-likelihood NaN if that is faster. The `last` one is followed by
        `Session.finish`: what that returns may be found in the same pass.
        """
        ...


class Steps(AlternatingSteps, Protocol):
    """The steps that the loop of EM needs from a session, which it may resume."""

    def fingerprint(self) -> bytes:
        """Return a fingerprint of the counts: equal counts give equal bytes."""
        ...

    def restore(self) -> Checkpoint | None:
        """Restore the state of this fit, and return its checkpoint; None if it was not interrupted."""
        ...

    def checkpoint(self, point: Checkpoint) -> None:
        """Store a checkpoint with the current state, if the fit can be resumed."""
        ...


class Session(Steps, Protocol):
    """Votes laid out on an engine, with the state of a fit: the label of every task, counts and table.

    A session whose results need their own class names it as `result`.
    """

    @property
    def votes(self) -> Votes:
        """The votes, as laid out by the engine."""
        ...

    @property
    def gold_given(self) -> int:
        """The number of gold tasks, with votes or without."""
        ...

    def labels_to_start(self, labels: Any) -> NDArray[np.int32]:
        """Return checked initial label codes, [tasks]."""
        ...

    def identify(self, settings: Mapping[str, Any]) -> None:
        """Take the settings that identify this fit, for sessions that can be resumed."""
        ...

    def start(self, *, hard: bool) -> PassSums:
        """Take majority vote as the current labels, by winner (hard) or by vote shares (soft), and return its sums."""
        ...

    def recount(self, labels: NDArray[np.int32]) -> PassSums:
        """Take these labels, [tasks], as the current ones, and return their sums."""
        ...

    def adopt(self, parameters: Callable[[WorkerRows], Parameters], priors: Floats) -> None:
        """Take parameters that were learned elsewhere: their lines as a function of a panel, and p_c, [K]."""
        ...

    def gather(self, function: Callable[[WorkerBlock, Any], T], *, gold: bool = True) -> T:
        """Return the sum of a function over all blocks of workers and their counts (see `Gather`).

        Without `gold` the counts are of tasks without gold.
        """
        ...

    def run(self, job: VotePass[T], function: RowFunction) -> T:
        """Return the result of a pass over all votes under the current labels: see `engines/passes.py`.

        `function` makes the inputs by row of every block of workers and its counts. Counts and labels are those of the last
        hard pass or recount.
        """
        ...

    def finish(self, *, hard: bool = False) -> FitOutcome:
        """Return what the E-step under the current table says of every task; `hard` leaves the counts of its labels."""
        ...

    def remember(self) -> None:
        """Keep the counts of the last pass, to start from again, and as the anchor of M-steps."""
        ...

    def recall(self) -> PassSums:
        """Take the counts that were kept as those of the last pass, and return its sums."""
        ...

    def set_aside(self) -> None:
        """Keep the current table and priors, to be averaged with others."""
        ...

    def blend(self) -> None:
        """Take the mean of the table and log priors that were set aside and of the current ones."""
        ...

    def gold_tasks(self, *, votes: int) -> int:
        """Return the number of gold tasks with at least `votes` votes."""
        ...

    def majority(self) -> FitOutcome:
        """Return the decisions of majority vote; the counts are those of its winners."""
        ...

    def weighted_majority(self) -> FitOutcome:
        """Return the decisions of votes weighted by the current table; the counts are those of the winners."""
        ...

    def estimate(self, shown: Recipe | None = None) -> FitEstimate:
        """Return the fit's knowledge of workers: under the current table, or from the last counts by another recipe."""
        ...

    def posterior(self) -> Pieces:
        """Return the final T_qc, weight shares or vote shares, [tasks, K]; at once, or in chunks."""
        ...

    def gold(self) -> NDArray[np.bool_] | None:
        """Return which tasks have their label from gold, [tasks]; None if no gold was given."""
        ...

    def keep(self, pieces: Iterable[Floats]) -> Floats:
        """Return the chunks, [some tasks] each, as one array, [tasks]: in memory or on disk."""
        ...


class FitEstimate(NamedTuple):
    """A finished fit's knowledge of workers and labels."""

    params: Parameters
    statistics: Statistics  # of the last E-step
    columns: Mapping[str, NDArray[Any]]  # [workers] each: the recipe's columns of a worker, besides its lines


Report = Callable[[str, int, int], None]  # what is being done, how many votes of it, of how many (0: not known)


@dataclass(frozen=True, eq=False)
class GladModel:
    """Parameters of GLAD's passes: the ability of every worker, the ease of every task."""

    x: Vector  # [workers + tasks] ability (alpha), then the logarithm of ease (beta, the inverse of the difficulty)
    log_prior: NDArray[np.float64]  # [K]
    log_others: float  # log(K - 1)


class Believe(Protocol):
    """Prior of abilities or difficulties."""

    def __call__(
        self, x: NDArray[np.float64], slope: NDArray[np.float64], curvature: NDArray[np.float64], *, of_tasks: bool
    ) -> float:
        """Return the log-prior of some abilities or log eases; add to its `slope` and `curvature`, [some] each."""
        ...


class GladPasses(Protocol):
    """The passes of GLAD over the votes of a session; they hold the output of the last E-step."""

    def vector(self) -> Vector:
        """Return an uninitialised vector, [workers + tasks]."""
        ...

    def expect(self, model: GladModel) -> Sums:
        """Return the sums of an E-step."""
        ...

    def class_counts(self) -> NDArray[np.float64]:
        """Return the expected number of tasks of each label in the last E-step, [K]."""
        ...

    def gradient(self, model: GladModel, slope: Vector, curvature: Vector, believe: Believe) -> float:
        """Return the expected log-likelihood under the last E-step, including the prior.

        OUT [workers + tasks] each: its slope by ability and by log ease, and its curvature.
        """
        ...

    def finish(self, model: GladModel) -> tuple[FitOutcome, Statistics]:
        """Return the decisions of the E-step, and its soft statistics."""
        ...

    def posterior(self, model: GladModel) -> Pieces:
        """Return T_qc, [tasks, K]: at once, or in chunks."""
        ...

    def restore(self) -> tuple[Checkpoint, Vector] | None:
        """Return where this fit was interrupted, and the abilities it had then; None if it was not."""
        ...

    def checkpoint(self, point: Checkpoint, x: Vector) -> None:
        """Store a point to resume from, with the abilities as they are now."""
        ...


class OffersGlad(Protocol):
    """A session that can run GLAD: that of an engine with all counts in this process."""

    def glad(self) -> GladPasses:
        """Return the passes of GLAD over these votes."""
        ...

    def count(self, statistics: Statistics) -> None:
        """Use the statistics of GLAD's last E-step as those of the last pass."""
        ...


@dataclass(frozen=True, eq=False)
class WholeVotes:
    """Votes in memory, with what decides ties between labels, and the gold."""

    votes: Votes
    kernels: ModuleType  # of the engine: `reference`, or the compiled `cpu`
    threads: int
    task_key: NDArray[np.uint64]  # [tasks] hashes of seed and task id: see `reference.tie_keys`
    label_hash: NDArray[np.uint64]  # [K]
    row_weight: Floats | None = None  # [rows] what a vote of a row counts; None: 1
    gold: NDArray[np.int32] | None = None  # [tasks] given labels, below 0 if there is none

    @property
    def methods(self) -> ModuleType:
        """The kernels of single methods."""
        return methods_of(self.kernels)

    def decided(
        self, scores: Floats, posterior: Floats, tie_weights: Floats | None = None
    ) -> tuple[NDArray[np.int32], Floats, NDArray[np.bool_]]:
        """Return label, confidence and tie of every task, [tasks] each, by its scores, [tasks, K]; gold has its own label."""
        labels, tie = reference.pick(scores, self.task_key, self.label_hash, tie_weights)
        confidence: Floats = posterior[np.arange(len(labels)), labels] if posterior.size else np.zeros(len(labels))
        if self.gold is not None:
            given = self.gold >= 0
            labels, tie = np.where(given, self.gold, labels), tie & ~given
            confidence = np.where(given, 1.0, confidence)
        return labels.astype(np.int32), confidence, tie


class OffersWhole(Session, Protocol):
    """A session of an engine with all votes in memory: models whose `place` is "memory" are given one."""

    def whole(self) -> WholeVotes:
        """Return all votes, for a method whose passes are its own."""
        ...

    def decided(self, scores: Floats, posterior: Floats) -> FitOutcome:
        """Return the decisions of a method's own scores and posterior, [tasks, K] each; the counts are those of the winners."""
        ...


@runtime_checkable
class OffersScoring(Protocol):
    """A session whose decisions can be taken apart: its parameters are in this process."""

    def scoring(self) -> tuple[str, Parameters | None]:
        """Return how tasks were decided ("scores", "weights" or "votes"), and by which parameters of the rows, if any."""
        ...


class Engine(Protocol):
    """Where passes run: loaded by name (`engines.registry`), so that nothing imports an engine that is not used.

    Its `place` says what it has in this process ("process": all counts; "memory": all votes, too), for models that ask for
    it; an engine without one has nothing there.
    """

    @property
    def name(self) -> str:
        """The engine's name."""
        ...

    def read(self, source: Any, reading: Reading = PLAIN_READING) -> Votes:
        """Return the votes of any source in the form this engine needs; `source` may be `Opened`."""
        ...

    def load(
        self,
        votes: Votes,
        *,
        seed: int,
        ties: str,
        gold: Any = None,
        history: Callable[[WorkerRows], Others] | None = None,
    ) -> Session:
        """Return a session over these votes.

        `gold` is any source of task and label: those tasks keep their label. `history` returns the pseudo-votes of the
        workers of a panel, and is in force in every M-step.
        """
        ...
