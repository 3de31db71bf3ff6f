"""A fit noted between two passes, so that another process can go on from there."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from quorate.engines.base import Point
from quorate.fit import TraceRow
from quorate.io import container
from quorate.statistics import Statistics

KIND: Final = "checkpoint"
VERSION: Final = 1
NAME: Final = "checkpoint.quorate"


def save(folder: Path, point: Point, file: int) -> None:
    """Notes a point and which file belongs to it, of labels (glad: of abilities); a reader finds the old note or the new one."""
    meta = {
        "trace": [asdict(row) for row in point.trace],
        "hard": point.hard,
        "seen": [one.hex() for one in point.seen],
        "labels": file,
    }
    counted = point.statistics
    arrays: dict[str, NDArray[Any]] = {"priors": point.priors}
    if isinstance(counted, Statistics):  # what is not follows from the file
        arrays |= {"counts": counted.counts, "class_counts": counted.class_counts}
    container.save(folder / NAME, KIND, VERSION, meta, arrays)


def load(folder: Path) -> tuple[Point, int] | None:
    """Returns the point noted here, and which file belongs to it; None where there is none, an error where it is damaged."""
    path = folder / NAME
    if not path.exists():
        return None
    meta, arrays = container.load(path, KIND, VERSION)
    point = Point(
        Statistics(np.array(arrays["counts"]), np.array(arrays["class_counts"])) if "counts" in arrays else None,
        np.array(arrays["priors"]),
        tuple(TraceRow(**row) for row in meta["trace"]),
        meta["hard"],
        tuple(bytes.fromhex(one) for one in meta["seen"]),
    )
    return point, meta["labels"]
