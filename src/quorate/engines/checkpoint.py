"""A fit noted between two passes, so that another process can go on from there."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np

from quorate.engines.base import Point
from quorate.fit import TraceRow
from quorate.io import container
from quorate.statistics import Statistics

KIND: Final = "checkpoint"
VERSION: Final = 1
NAME: Final = "checkpoint.quorate"


def save(folder: Path, point: Point, labels: int) -> None:
    """Notes a point and which file has the labels that belong to it; a reader finds the old note or the new one."""
    meta = {
        "trace": [asdict(row) for row in point.trace],
        "hard": point.hard,
        "seen": [one.hex() for one in point.seen],
        "labels": labels,
    }
    counted = point.statistics
    arrays = {"counts": counted.counts, "class_counts": counted.class_counts, "priors": point.priors}
    container.save(folder / NAME, KIND, VERSION, meta, arrays)


def load(folder: Path) -> tuple[Point, int] | None:
    """Returns the point noted here, and which file has its labels; None where there is none, an error where it is damaged."""
    path = folder / NAME
    if not path.exists():
        return None
    meta, arrays = container.load(path, KIND, VERSION)
    point = Point(
        Statistics(np.array(arrays["counts"]), np.array(arrays["class_counts"])),
        np.array(arrays["priors"]),
        tuple(TraceRow(**row) for row in meta["trace"]),
        meta["hard"],
        tuple(bytes.fromhex(one) for one in meta["seen"]),
    )
    return point, meta["labels"]
