"""What labels cannot be, recognised where it arrives: boxes, spans, soft votes, numbers, rankings, free text.

Labels are few names that come again. A value that is none is an error that says what it looks like and what to do instead;
where texts or whole numbers may be names after all, a sign (`SuspiciousVotes`) says so. docs/what-adjudge-does-not-do.md has
the reasons.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from adjudge.errors import InputError, quote

Kind = Literal["boxes", "spans", "probabilities", "numbers", "objects"]
NAMES_ONLY: Final = "adjudge chooses among labels, which are names that come again"
NUMBERS_UNSUPPORTED: Final = (
    "a label is a name that comes again, and none is near another; adj.scores (adjudge scores) merges numbers into a score per "
    "task with an interval; or round them to a few steps"
)
MEANT: Final = "labels=[…] says that they are labels"
INSTEAD: Final[Mapping[Kind, str]] = {
    "boxes": f"looks like a box or a shape, but {NAMES_ONLY}: vote on the label of each region, or merge shapes by overlap",
    "spans": f"looks like a span of text, but {NAMES_ONLY}: make every token, or every candidate span, a task of its own",
    "probabilities": "looks like probabilities of labels; soft votes are not supported: give the likeliest label of each vote",
    "numbers": f"looks like measurements; {NUMBERS_UNSUPPORTED}",
    "objects": "is an object, not a label: name the field that is the label, and make a column of it",
}
SPAN_KEYS: Final = frozenset({"start", "end", "startoffset", "endoffset", "tokenstart", "tokenend", "spans"})
_BOX_WORDS: Final = "x y w h width height xmin ymin xmax ymax x1 y1 x2 y2 left top right bottom"
BOX_KEYS: Final = frozenset(_BOX_WORDS.split())
SHAPE_KEYS: Final = frozenset({"bbox", "polygon", "points", "rle", "mask", "segmentation", "keypoints"})
CORNERS: Final = 4  # numbers of a box
PROBABILITY_SUM_TOLERANCE: Final = 0.02  # how far probabilities may be from 1 together: people round them
INSPECTED_VALUES: Final = 20  # values looked at closely
XML: Final = "XML, as CVAT and Pascal VOC write boxes and shapes"
COCO: Final = frozenset({"images", "annotations"})
REGIONS: Final = f"{NAMES_ONLY}: export the labels of each region as a table"


def kind_of(value: Any, *, may_be_set: bool = True) -> Kind | None:
    """Return the kind of a value that is neither a label nor a set of options; four whole numbers may be either.

    >>> kind_of({"start": 3, "end": 9, "label": "PER"}), kind_of([0.2, 0.8]), kind_of(["joy", "fear"])
    ('spans', 'probabilities', None)
    >>> kind_of([0, 10, 30, 40]), kind_of([0, 10, 30, 40], may_be_set=False)
    (None, 'boxes')
    """
    if isinstance(value, Mapping):
        return _kind_of_object(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple | set | frozenset) or not value:
        return None
    items = [int(i) if not may_be_set and isinstance(i, str) and i.isdecimal() else i for i in value]
    if isinstance(items[0], Mapping):
        return _kind_of_object(items[0])
    if isinstance(items[0], list | tuple | np.ndarray):
        return "boxes"  # the points of a polygon
    if not all(isinstance(item, int | float | np.number) and not isinstance(item, bool) for item in items):
        return None
    if all(float(item).is_integer() for item in items):
        return "boxes" if len(items) == CORNERS and not may_be_set else None
    return "probabilities" if _sum_to_one(items) else "boxes" if len(items) == CORNERS else "numbers"


def _kind_of_object(value: Mapping[Any, Any]) -> Kind:
    keys = {re.sub("[^a-z0-9]", "", str(key).lower()) for key in value}
    if keys & SPAN_KEYS:
        return "spans"
    numbers = [v for v in value.values() if isinstance(v, int | float) and not isinstance(v, bool)]
    is_soft = bool(numbers) and len(numbers) == len(value) and _sum_to_one(numbers)
    is_box = len(keys & BOX_KEYS) >= (CORNERS if is_soft else 2)  # labels may be called x and y
    return "boxes" if is_box or keys & SHAPE_KEYS else "probabilities" if is_soft else "objects"


def _sum_to_one(items: Iterable[Any]) -> bool:
    found = [float(item) for item in items]
    return min(found) >= 0 and abs(sum(found) - 1) <= PROBABILITY_SUM_TOLERANCE


def refuse(values: Iterable[Any], what: str, first_row: int = 0, *, may_be_set: bool = True) -> None:
    """Raise if one of the first values is not a label, and name it; `first_row` rows came before."""
    if isinstance(values, pl.Series):  # whose lists would come as series
        values = values.head(INSPECTED_VALUES).to_list()
    for row, value in zip(range(first_row + 1, first_row + INSPECTED_VALUES + 1), values, strict=False):
        kind = None if value is None else kind_of(value, may_be_set=may_be_set)
        if kind is not None:
            raise InputError(f"{what} in row {row} is {quote(value)}, which {explain(value, kind)}")


def explain(value: Any, kind: Kind) -> str:
    """Return why a value of this kind is not a label, and what to do instead."""
    may_be_set = kind_of(value) is None  # four numbers
    more = "; if they are options of a set: multi=True (--multi on the command line)" if may_be_set else ""
    return f"{INSTEAD[kind]}{more}"


def of_file(path: Path) -> str:
    """Return the end of an error message that says what a file without votes is; empty if unknown."""
    return f"; this is {XML}, but {REGIONS}" if path.suffix.lower() == ".xml" else ""


def of_columns(columns: Iterable[object]) -> str:
    """Return the end of an error message that says what a table without votes is; empty if its columns do not show it.

    >>> of_columns(["images", "annotations", "categories"])[:27]
    '; this looks like COCO, whi'
    """
    return f"; this looks like COCO, which has boxes and shapes, but {REGIONS}" if set(columns) >= COCO else ""
