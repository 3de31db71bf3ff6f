"""What adjudge does not do, recognised where it arrives: boxes, spans, soft votes, numbers, rankings, free text.

Labels are few names that come again. A value that is none is an error that says what it looks like and what to do instead;
where texts or whole numbers may be names after all, a sign (`SuspiciousVotes`) says so. docs/what-adjudge-does-not-do.md has
the reasons.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from adjudge.data.votes import Votes
from adjudge.errors import InputError, listed, shown

Kind = Literal["boxes", "spans", "probabilities", "numbers", "objects"]
NAMES_ONLY: Final = "adjudge chooses among labels, which are names that come again"
NUMBERS: Final = (
    "adjudge does not do numbers: a label is a name that comes again, and none is near another; round them to a few steps, or "
    "take the mean or median of every task"
)
MEANT: Final = "labels=[…] says that they are labels"
INSTEAD: Final[Mapping[Kind, str]] = {
    "boxes": f"looks like a box or a shape, but {NAMES_ONLY}: vote on the label of each region, or merge shapes by overlap",
    "spans": f"looks like a span of text, but {NAMES_ONLY}: make every token, or every candidate span, a task of its own",
    "probabilities": "looks like probabilities of labels; soft votes are not supported: give the likeliest label of each vote",
    "numbers": f"looks like measurements; {NUMBERS}",
    "objects": "is an object, not a label: name the field that is the label, and make a column of it",
}
SPAN_KEYS: Final = frozenset({"start", "end", "startoffset", "endoffset", "tokenstart", "tokenend", "spans"})
BOX_KEYS: Final = frozenset(
    [
        "x",
        "y",
        "w",
        "h",
        "width",
        "height",
        "xmin",
        "ymin",
        "xmax",
        "ymax",
        "x1",
        "y1",
        "x2",
        "y2",
        "left",
        "top",
        "right",
        "bottom",
    ]
)
SHAPE_KEYS: Final = frozenset({"bbox", "polygon", "points", "rle", "mask", "segmentation", "keypoints"})
CORNERS: Final = 4  # numbers of a box
ABOUT_ONE: Final = 0.02  # how far probabilities may be from 1 together: people round them
LOOKED_AT: Final = 20  # values looked at closely
MAX_STEPS: Final = 20  # labels with decimals that may be the steps of a scale
MAX_TEXTS: Final = 100_000  # whose spelling is looked at
MANY_TEXTS: Final = 100  # different texts that are more than a list of labels
FEW_VOTES: Final = 5  # votes per label, of free text
WORDS: Final = 3  # of a text that is more than a name
MIN_JOINED: Final = 3  # labels that look like sets or rankings
MANY_NUMBERS: Final = 30  # different whole numbers that may be measurements
NEAR: Final = 0.25  # how much nearer than others votes on one task are, where numbers measure
SAMPLE: Final = 1 << 17  # votes whose numbers are compared
NUMBER: Final = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)")
# What Unicode calls white space, and polars strips; Python would strip four separators of old files, too.
WHITE_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
XML: Final = "XML, as CVAT and Pascal VOC write boxes and shapes"
COCO: Final = frozenset({"images", "annotations"})
REGIONS: Final = f"{NAMES_ONLY}: export the labels of each region as a table"


def kind_of(value: Any, *, may_be_set: bool = True) -> Kind | None:
    """Return what a value is, where it is neither a label nor a set of options; four whole numbers may be either.

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
    items = list(value) if may_be_set else [_number(item) for item in value]
    if isinstance(items[0], Mapping):
        return _kind_of_object(items[0])
    if isinstance(items[0], list | tuple | np.ndarray):
        return "boxes"  # the points of a polygon
    if not all(isinstance(item, int | float | np.number) and not isinstance(item, bool) for item in items):
        return None
    if all(float(item).is_integer() for item in items):
        return "boxes" if len(items) == CORNERS and not may_be_set else None
    return "probabilities" if _sum_to_one(items) else "boxes" if len(items) == CORNERS else "numbers"


def _number(item: Any) -> Any:
    return int(item) if isinstance(item, str) and item.isdecimal() else item


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
    return min(found) >= 0 and abs(sum(found) - 1) <= ABOUT_ONE


def refuse(values: Iterable[Any], what: str, first_row: int = 0, *, may_be_set: bool = True) -> None:
    """Raise where one of the first values is no label, and say which; `first_row` rows came before."""
    if isinstance(values, pl.Series):  # whose lists would come as series
        values = values.head(LOOKED_AT).to_list()
    for row, value in zip(range(first_row + 1, first_row + LOOKED_AT + 1), values, strict=False):
        kind = None if value is None else kind_of(value, may_be_set=may_be_set)
        if kind is not None:
            raise InputError(f"{what} in row {row} is {shown(value)}, which {_said(value, kind)}")


def _said(value: Any, kind: Kind) -> str:
    may_be_set = kind_of(value) is None  # four numbers
    more = "; where they are options of a set: multi=True (--multi on the command line)" if may_be_set else ""
    return f"{INSTEAD[kind]}{more}"


def signs(votes: Votes, seen: int) -> Iterator[str]:
    """Yield what labels look like, where names of labels seldom do; raise where they can be nothing else.

    `seen` labels were given.
    """
    given = votes.labels.take(np.flatnonzero(votes.given_labels()))
    if given.kind == "integer" and seen >= MANY_NUMBERS and _measure(votes):
        yield (
            f"the labels are {seen} different whole numbers, and votes on one task are near each other, as measurements are; "
            f"{NUMBERS}; {MEANT}"
        )
    if given.kind != "string" or not len(given):
        return
    some = given if seen <= MAX_TEXTS else given.take(np.arange(MAX_TEXTS))
    texts = [text.strip(WHITE_SPACE) for text in some.texts()]
    yield from _written_as_json(texts)
    yield from _decimals(texts)
    yield from _rankings(texts)
    if seen >= MANY_TEXTS and len(votes) < FEW_VOTES * seen:
        long = [text for text in texts if text.count(" ") >= WORDS - 1]
        if 2 * len(long) > len(texts):
            yield (
                f"{seen} different texts in {len(votes)} votes look like free text ({listed(long, 2)}), which adjudge "
                f"does not merge: {NAMES_ONLY}; sort them into a few labels first"
            )


def boxes_as_sets(sets: pl.Series) -> Iterator[str]:
    """Yield a sign where every set of options, of lists of texts, has four of many whole numbers."""
    options = sets.explode().drop_nulls().unique()
    if len(options) > MAX_STEPS and (sets.list.len() == CORNERS).all() and options.str.contains("^-?[0-9]+$").all():
        yield f"every vote has four of {len(options)} whole numbers, which looks like boxes, but {NAMES_ONLY}; {MEANT}"


def _measure(votes: Votes) -> bool:
    """Return whether votes on one task that differ are near each other, compared with votes of any two tasks."""
    values = votes.labels.values.astype(np.int64)
    for _, ptr, row in votes.parts():
        label = values[votes.row_label[row[:SAMPLE]]]
        begins = np.zeros(len(label) + 1, np.bool_)
        begins[ptr[ptr <= len(label)]] = True
        apart = np.abs(np.diff(label))[~begins[1 : len(label)]]
        anywhere = np.abs(label - np.roll(label, int(0.382 * len(label))))
        apart, anywhere = apart[apart > 0], anywhere[anywhere > 0]
        if len(apart) >= MANY_NUMBERS and len(anywhere):
            return bool(np.median(apart) <= NEAR * np.median(anywhere))
    return False


def _written_as_json(texts: Sequence[str]) -> Iterator[str]:
    """Yield a sign for labels that are JSON lists of options; raise for other lists and for objects."""
    if not all(text.startswith(("[", "{")) for text in texts):
        return
    try:
        found = [json.loads(text) for text in texts[:LOOKED_AT]]
    except (ValueError, RecursionError):
        return
    kinds = [kind_of(value, may_be_set=False) for value in found]
    if kinds[0] is not None and None not in kinds:
        raise InputError(f"the label {shown(texts[0])} {_said(found[0], kinds[0])}")
    if len(texts) >= MIN_JOINED:
        yield f"labels look like sets written as JSON ({listed(texts, 3)}): multi=True (--multi) takes them as such"


def _decimals(texts: Sequence[str]) -> Iterator[str]:
    """Yield a sign for a few numbers with decimals, which may be the steps of a scale; raise for many."""
    if not all(map(NUMBER.fullmatch, texts)):
        return
    broken = [text for text in texts if float(text) % 1 != 0]  # an infinite one, of very many digits, is not whole either
    message = f"{len(broken)} labels are numbers with decimals ({listed(broken, 3)}); {NUMBERS}; {MEANT}"
    if len(broken) > MAX_STEPS:
        raise InputError(message)
    if broken:
        yield message


def _rankings(texts: Sequence[str]) -> Iterator[str]:
    """Yield a sign for labels that put the same things in different orders."""
    if len(texts) < MIN_JOINED or not all(">" in text for text in texts):
        return
    orders = {tuple(sorted(part.strip() for part in text.split(">"))) for text in texts}
    if len(orders) == 1 and len(next(iter(orders))) > 2:
        yield (
            f"labels look like rankings ({listed(texts, 3)}), which are no labels: make a comparison of every pair of things, "
            "and give these to adj.rank (adjudge rank)"
        )


def of_file(path: Path) -> str:
    """Return what a file is that holds no votes, as an error goes on; nothing where that is not known."""
    return f"; this is {XML}, but {REGIONS}" if path.suffix.lower() == ".xml" else ""


def of_columns(columns: Iterable[object]) -> str:
    """Return what a table is that holds no votes, as an error goes on; nothing where its columns do not tell.

    >>> of_columns(["images", "annotations", "categories"])[:27]
    '; this looks like COCO, whi'
    """
    return f"; this looks like COCO, which has boxes and shapes, but {REGIONS}" if set(columns) >= COCO else ""
