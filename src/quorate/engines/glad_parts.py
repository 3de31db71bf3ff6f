"""Parts of votes that GLAD's passes go over, and where they lie with what is as long as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from quorate.engines.base import Checkpoint
from quorate.fit import Pieces
from quorate.vectors import Vector

Floats = NDArray[np.float64]

# What a pass over the votes is for: an E-step that leaves labels and `right`, slopes that read `right`, or a look.
Use = Literal["expect", "slope", "look"]


@dataclass(frozen=True, eq=False)
class Part:
    """The votes of some tasks, with what the E-steps say of them; good until the next one is asked for."""

    tasks: slice
    task_ptr: NDArray[np.int64]  # [tasks + 1] positions in `row`
    row: NDArray[np.uint32]
    task_key: NDArray[np.uint64]  # [tasks]
    labels: NDArray[np.int32]  # [tasks] of the last E-step; written to
    right: Floats  # [votes of these tasks] the probability that each is right: all that an E-step leaves for the M-step


class Shelf(Protocol):
    """Where votes lie, and what is as long as they are or as the tasks."""

    def vector(self) -> Vector:
        """Returns a vector, [workers + tasks], whose numbers are yet to be written."""
        ...

    def parts(self, what: str, use: Use) -> Iterator[Part]:
        """Yields all votes in order of their tasks."""
        ...

    def collected(self, found: Iterator[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
        """Returns labels, confidence and tie, [tasks] each, of what is found of some tasks after the other."""
        ...

    def figures(self, found: Iterator[Floats]) -> Pieces:
        """Returns figures of all tasks, [tasks, K]: at once, or piece by piece."""
        ...

    def resume(self) -> tuple[Checkpoint, Vector] | None:
        """Returns where this fit was broken off, and the abilities it had then; None where it was not."""
        ...

    def note(self, point: Checkpoint, x: Vector) -> None:
        """Keeps a point to go on from."""
        ...

    def clear(self) -> None:
        """Lets go of what only a fit needs that goes on."""
        ...
