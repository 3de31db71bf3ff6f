"""What the EM loop asks of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from quorate.fit import Outcome, Pieces, TraceRow
from quorate.gold import Gold
from quorate.kernels.reference import Sums
from quorate.params import Parameters
from quorate.statistics import Statistics
from quorate.vectors import Vector
from quorate.votes import Votes


class Session(Protocol):
    """Votes laid out on an engine, with the current label of every task."""

    def start(self, *, hard: bool) -> Statistics:
        """Returns the statistics of majority vote: by winner (hard) or by vote shares (soft)."""
        ...

    def recount(self, labels: NDArray[np.int32]) -> Statistics:
        """Returns the statistics of these labels, [tasks], and takes them as the current ones."""
        ...

    def step(self, params: Parameters, *, hard: bool, likelihood: bool = True) -> Statistics:
        """Returns the statistics of one pass: an E-step under `params`, and the recount.

        Without `likelihood` a hard pass may leave the log-likelihood NaN, where that is faster.
        """
        ...

    def confusion_table(
        self, counts: NDArray[np.float64] | NDArray[np.int64], smoothing: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns log pi, [rows, K], and the votes of each worker by true label, [workers, K]."""
        ...

    def finish(self, params: Parameters) -> Outcome:
        """Returns what the E-step under `params` says of every task."""
        ...

    def majority(self) -> tuple[Outcome, Statistics]:
        """Returns what majority vote says of every task, and the statistics of its winners."""
        ...

    def weigh(self, params: Parameters) -> tuple[Outcome, Statistics]:
        """Returns what votes with the weights in `params` say of every task, and the statistics of the winners."""
        ...

    def posterior(self, params: Parameters) -> Pieces:
        """Returns T_qc under `params`, [tasks, K]: at once, or piece by piece."""
        ...

    def gold(self) -> NDArray[np.bool_] | None:
        """Returns which tasks have their label from gold, [tasks]; None where no gold was given."""
        ...

    def weight_shares(self, params: Parameters) -> Pieces:
        """Returns the share of each task's weights in `params` that each label has, [tasks, K]: at once, or piece by piece."""
        ...

    def shares(self) -> Pieces:
        """Returns the share of each task's votes that each label has, [tasks, K]: at once, or piece by piece."""
        ...


Report = Callable[[str, int, int], None]  # what is being done, how many votes of it, of how many (0: not known)


@runtime_checkable
class Keeps(Protocol):
    """A session that puts away figures of all tasks, so that they need not fit in memory."""

    def keep(self, pieces: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Returns the pieces, [some tasks] each, as one array, [tasks]."""
        ...


def kept(session: Session, pieces: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Returns the pieces as one array, [tasks]: in memory, unless the session puts it away."""
    return session.keep(pieces) if isinstance(session, Keeps) else np.concatenate([np.zeros(0), *pieces])


@dataclass(frozen=True, eq=False)
class Point:
    """Where the loop stands between two iterations: all it needs to go on."""

    statistics: Any  # of the last E-step
    priors: NDArray[np.float64]  # [K] of the last M-step
    trace: tuple[TraceRow, ...]
    hard: bool  # whether the next E-step is
    seen: tuple[bytes, ...]  # see `em.Cycle`


@runtime_checkable
class Notes(Protocol):
    """Passes that can be broken off and taken up again by another process."""

    def resume(self) -> Point | None:
        """Returns where this very fit was broken off, and takes up the labels it had then; None where it was not."""
        ...

    def note(self, point: Point) -> None:
        """Keeps a point to go on from, and the labels as they are now."""
        ...


@runtime_checkable
class Resumable(Notes, Protocol):
    """A session whose fit can be broken off and taken up again by another process."""

    def identify(self, settings: Mapping[str, Any]) -> None:
        """Takes what tells this fit from others."""
        ...


@dataclass(frozen=True, eq=False)
class GladModel:
    """What GLAD's passes ask for: how able every worker is, how easy every task."""

    x: Vector  # [workers + tasks] ability (alpha), then the logarithm of ease (beta, the inverse of the difficulty)
    log_prior: NDArray[np.float64]  # [K]
    log_others: float  # log(K - 1)


class Believe(Protocol):
    """What is believed of abilities or difficulties beforehand."""

    def __call__(
        self, x: NDArray[np.float64], slope: NDArray[np.float64], curvature: NDArray[np.float64], *, of_tasks: bool
    ) -> float:
        """Returns what it adds to the log-likelihood, for some of them; slope and curvature, alike, are added to."""
        ...


class GladPasses(Protocol):
    """The passes of GLAD over the votes of a session, which keep the last E-step to themselves."""

    def vector(self) -> Vector:
        """Returns a vector, [workers + tasks], whose numbers are yet to be written."""
        ...

    def expect(self, model: GladModel) -> Sums:
        """Returns the sums of an E-step."""
        ...

    def class_counts(self) -> NDArray[np.float64]:
        """Returns the expected number of tasks of each label in the last E-step, [K]."""
        ...

    def gradient(self, model: GladModel, slope: Vector, curvature: Vector, believe: Believe) -> float:
        """Returns the expected log-likelihood under the last E-step, with what is believed beforehand.

        OUT [workers + tasks] each: its slope, by ability and by log ease, and how fast that may change.
        """
        ...

    def finish(self, model: GladModel) -> tuple[Outcome, Statistics]:
        """Returns what the E-step says of every task, and its soft statistics."""
        ...

    def posterior(self, model: GladModel) -> Pieces:
        """Returns T_qc, [tasks, K]: at once, or piece by piece."""
        ...

    def resume(self) -> tuple[Point, Vector] | None:
        """Returns where this fit was broken off, and the abilities it had then; None where it was not."""
        ...

    def note(self, point: Point, x: Vector) -> None:
        """Keeps a point to go on from, with the abilities as they are now."""
        ...


@runtime_checkable
class OffersGlad(Protocol):
    """A session that can run GLAD; an engine that cannot leaves this out, and the model says so."""

    def glad(self) -> GladPasses:
        """Returns the passes of GLAD over these votes."""
        ...


class Engine(Protocol):
    """A place where passes run."""

    @property
    def name(self) -> str:
        """The engine's name."""
        ...

    def load(self, votes: Votes, *, seed: int, ties: str, gold: Gold | None = None) -> Session:
        """Returns a session over these votes, of which gold tasks keep their label."""
        ...


@runtime_checkable
class ReadsVotes(Protocol):
    """An engine that reads sources itself, because it need not (or cannot) have them in memory."""

    def read(self, source: Any, **options: Any) -> Votes:
        """Returns the votes of any source; the options are those of `read`."""
        ...
