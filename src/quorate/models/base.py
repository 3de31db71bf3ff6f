"""What every model is: frozen settings that fit votes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from quorate import settings
from quorate.em import Progress
from quorate.engines.base import Engine, Session
from quorate.engines.registry import resolve
from quorate.errors import OptionError
from quorate.fit import Fit
from quorate.io.read import as_votes
from quorate.io.sources import Source
from quorate.result import Result
from quorate.settings import Choice, Number, Rules
from quorate.votes import Votes

COMMON: Rules = {"seed": Number(whole=True), "ties": Choice(("hash", "prior"))}


@dataclass(frozen=True)
class Watch:
    """How a fit is begun and watched: from which labels, by whom, and whether every pass tells its likelihood."""

    progress: Progress | None = None
    likelihood: bool = True
    start: NDArray[np.int32] | None = None  # labels to begin with, in the place of majority vote


@dataclass(frozen=True, kw_only=True)
class Model:
    """Settings, checked on the way in; `fit` leaves them as they are and returns a `Result`."""

    name: ClassVar[str]
    title: ClassVar[str]
    rules: ClassVar[Rules] = COMMON
    learns: ClassVar[bool] = True  # whether it estimates parameters beyond the labels

    seed: int = 0
    ties: str = "hash"

    def __post_init__(self) -> None:
        settings.check(asdict(self), self.rules)

    @classmethod
    def options(cls) -> Mapping[str, object]:
        """Returns the options this model takes, with their defaults."""
        return {f.name: f.default for f in fields(cls)}

    def fit(
        self,
        votes: Votes | Source,
        *,
        engine: str | Engine = "auto",
        threads: int | None = None,
        trace: str = "full",
        progress: Progress | None = None,
        start: NDArray[np.int32] | None = None,
    ) -> Result:
        """Returns the labels, the workers and the rest, decoded.

        `trace="light"` spares hard passes the likelihood, which more than halves their time on the compiled engine;
        labels and the final likelihood are the same. `progress` is called after every iteration. `start` gives label
        codes to begin with, [tasks], for models that would else begin with majority vote.
        """
        settings.check({"trace": trace}, {"trace": Choice(("full", "light"))})
        place = resolve(engine, threads)
        known = as_votes(votes)
        if start is not None and (np.shape(start) != (known.n_tasks,) or not _are_codes(start, known.n_labels)):
            raise OptionError(
                f"start gives the code of a label, 0 to {known.n_labels - 1}, for each of the {known.n_tasks} tasks"
            )
        session = place.load(known, seed=self.seed, ties=self.ties)
        return Result(known, self._fit(known, session, Watch(progress, trace == "full", start)), session, self.name, asdict(self))

    def _fit(self, votes: Votes, session: Session, watch: Watch) -> Fit:
        raise TypeError(f"{type(self).__name__} names settings but no way to fit them")


def _are_codes(labels: NDArray[np.int32], n: int) -> bool:
    return not len(labels) or bool(labels.min() >= 0 and labels.max() < n)
