"""Columns of ids as polars series and as vocabularies: text, whole numbers or booleans, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import date, time
from itertools import pairwise
from types import NoneType
from typing import Any, Final, cast
from uuid import UUID

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import LARGEST, Vocabulary, common_kind, text_of
from adjudge.data.votes import MOST_WEIGHT, Votes
from adjudge.errors import InputError, shown
from adjudge.io.not_votes import NUMBERS, refuse
from adjudge.kernels.cpu import compiled

EXACT: Final = 2**53  # beyond this, numbers with a decimal point skip whole numbers
CHUNK: Final = 1 << 20  # texts handled at once, so that copies stay small
SMALL: Final = 1 << 14  # numbers that are given to polars as a list
FEW_TEXTS: Final = 1 << 10  # that are sorted before polars has begun
SIMPLE: Final = frozenset({str, int, bool, NoneType})  # types of values that are taken as they are
KIND_OF_ARRAY: Final = {
    "<i8": pl.Int64(),
    "<i4": pl.Int32(),
    "<u4": pl.UInt32(),
    "<f8": pl.Float64(),
    "|b1": pl.Boolean(),
}
DTYPE: Final = {"string": pl.String(), "integer": pl.Int64(), "boolean": pl.Boolean()}
WEIGHTS: Final = f"give a number from 0 (an abstention) to {MOST_WEIGHT:g}"


def series_of(values: object, what: str, first_row: int = 0) -> pl.Series:
    """Return Python values, an array or any column as a series; mixed types are refused, naming the row.

    >>> series_of(["a", None], "label").to_list()
    ['a', None]
    """
    if isinstance(values, pl.Series):
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind in "iubf":
        return pl.Series(values)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"the {what} column is {shown(values)}: give a sequence of ids")
    if what == "weight":
        return _weights(values, first_row)
    given = values if isinstance(values, list) else list(values)
    texts = _texts(given)
    if texts is not None:
        if _is_label(what):
            refuse(given, what, first_row)
        return texts
    kinds: set[type] = set(map(type, given))
    if not kinds <= SIMPLE:  # values of few types need not be looked at one by one
        given = [_plain(v) for v in given]
        if any(isinstance(v, bytes) for v in given):
            given = [_text_of_bytes(v, what, first_row + n) if isinstance(v, bytes) else v for n, v in enumerate(given, 1)]
        kinds = set(map(type, given))
    has_missing = NoneType in kinds
    kinds.discard(NoneType)
    if _is_label(what):
        refuse(given, what, first_row)
    if kinds and all(issubclass(kind, list | tuple | set | frozenset | np.ndarray) for kind in kinds):  # sets of options
        return pl.Series([None if v is None else options_of(cast(Any, v)) for v in given], dtype=pl.List(pl.String))
    if float in kinds and kinds <= {int, float}:
        if any(abs(cast(float, v)) > EXACT for v in given if v is not None):
            raise InputError(f"the {what} column mixes decimals with whole numbers too large for them: give such ids as text")
        return pl.Series(given, dtype=pl.Float64, strict=False)
    filled: list[object] = given
    if has_missing:  # missing values are of any type
        filler = next((v for v in given if v is not None), "")
        filled = [filler if v is None else v for v in given]
    kind = common_kind(filled, what, first_row)
    try:
        return pl.Series(given, dtype=DTYPE[kind])
    except (UnicodeEncodeError, TypeError) as error:
        raise InputError(f"the {what} column cannot be read as text: {error}") from error


def _texts(values: list[Any]) -> pl.Series | None:
    """Return values that are texts or None as a series; None where others are among them, which have to be looked at."""
    if not values or type(values[0]) is not str:
        return None
    try:
        return pl.Series(values, dtype=pl.String)
    except (TypeError, ValueError):
        return None


def _weights(values: Iterable[object], first_row: int) -> pl.Series:
    """Return weights, which are no ids, as numbers; one that is no number is an error that names its row."""
    found: list[float | None] = []
    for row, value in enumerate(values, first_row + 1):
        try:
            found.append(None if value is None else float(cast(Any, value)))
        except (TypeError, ValueError, OverflowError):
            found.append(float("nan"))
        if isinstance(value, bool | np.bool_) or not (found[-1] is None or 0 <= found[-1] <= MOST_WEIGHT):
            raise InputError(f"weight in row {row} is {shown(value)}: {WEIGHTS}")
    return pl.Series(found, dtype=pl.Float64)


def options_of(values: Iterable[object]) -> list[str]:
    """Return the texts of a set of options, without missing ones.

    >>> options_of([1.0, "x", None, True])
    ['1', 'x', 'true']
    """
    plain = [_plain(v) for v in values]
    return [text_of(int(v) if isinstance(v, float) and v.is_integer() else v) for v in plain if v is not None]


def label_columns(names: Iterable[str], *taken: str) -> list[str]:
    """Return labels as column names, distinct from existing columns and from each other.

    >>> label_columns(["x", "task", "label task"], "task")
    ['x', 'label task', 'label label task']
    """
    out: list[str] = []
    for name in names:
        while name in taken or name in out:
            name = f"label {name}"  # noqa: PLW2901
        out.append(name)
    return out


def frame_of(votes: Votes) -> pl.DataFrame:
    """Return votes as a frame of task, worker and label, in task order; and weight, where votes have weights."""
    task = np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))
    frame = pl.DataFrame(
        {
            "task": column(votes.tasks, task),
            "worker": column(votes.workers, votes.row_worker()[votes.row]),
            "label": column(votes.labels, votes.row_label[votes.row]),
        }
    )
    return frame if votes.row_weight is None else frame.with_columns(weight=numbers(votes.row_weight[votes.row]))


def prepared(series: pl.Series, what: str, first_row: int = 0, *, keep_categories: bool = False) -> pl.Series:
    """Return the series as String, Int64 or Boolean; whole numbers stored as floats become numbers again."""
    dtype = series.dtype
    if dtype in (pl.String, pl.Int64, pl.Boolean) or (keep_categories and dtype in (pl.Categorical, pl.Enum)):
        return series
    if dtype in (pl.Categorical, pl.Enum, pl.Null):
        return series.cast(pl.String)
    if dtype == pl.Object:
        return prepared(series_of(series.to_list(), what, first_row), what, first_row)
    if dtype.is_integer():
        largest = series.max()
        if isinstance(largest, int) and largest > LARGEST:
            raise InputError(f"the {what} column holds {largest}, beyond 64 bits: give such ids as text")
        return series.cast(pl.Int64)
    if dtype.is_float():
        return _whole(series, what, first_row)
    if dtype in (pl.Date, pl.Datetime, pl.Time):
        return _moments(series)
    if dtype == pl.Binary:
        return _decoded(series, what, first_row)
    if _is_label(what) and isinstance(dtype, pl.List | pl.Array | pl.Struct):
        refuse(series, what, first_row, may_be_set=False)
    if _is_label(what) and isinstance(dtype, pl.List | pl.Array):
        raise InputError(f"the {what} column holds lists: these are sets, say multi=True (--multi on the command line)")
    raise InputError(f"the {what} column holds {dtype}: give text, whole numbers or booleans")


def _is_label(what: str) -> bool:
    return what.endswith(("label", "truth"))


def _moments(series: pl.Series) -> pl.Series:
    """Return dates and times as Python writes them: microseconds only where there are some.

    >>> from datetime import datetime
    >>> _moments(pl.Series([datetime(2024, 5, 1), datetime(2024, 5, 1, 9, 30, 0, 500)])).to_list()
    ['2024-05-01 00:00:00', '2024-05-01 09:30:00.000500']
    """
    dtype = series.dtype
    if dtype == pl.Date:
        return series.dt.to_string("%Y-%m-%d")
    nanoseconds = dtype == pl.Time or getattr(dtype, "time_unit", "us") == "ns"
    fraction = series.dt.to_string("%.9f" if nanoseconds else "%.6f")
    fraction = fraction.replace(".000000000" if nanoseconds else ".000000", "")
    fraction = fraction.str.strip_suffix("000") if nanoseconds else fraction
    clock = series.dt.to_string("%H:%M:%S" if dtype == pl.Time else "%Y-%m-%d %H:%M:%S")
    zone = series.dt.to_string("%:z") if getattr(dtype, "time_zone", None) else pl.Series([""])
    return clock + fraction + zone


def _decoded(series: pl.Series, what: str, first_row: int) -> pl.Series:
    """Return bytes as the UTF-8 that they are; others are an error that names the row."""
    try:
        return series.cast(pl.String)
    except pl.exceptions.PolarsError:
        return series_of(series.to_list(), what, first_row)  # which says where


def vocabulary(series: pl.Series) -> Vocabulary:
    """Return the vocabulary of a prepared series of distinct ids, without a Python object per id."""
    if series.dtype == pl.String:
        offsets = np.zeros(len(series) + 1, np.int64)
        np.cumsum(series.str.len_bytes().to_numpy(), out=offsets[1:])
        whole = series.str.join("").item() if len(series) else ""
        return Vocabulary.known("string", np.frombuffer(whole.encode(), np.uint8), offsets)
    values = series.to_numpy().copy()
    return Vocabulary.known("boolean" if series.dtype == pl.Boolean else "integer", values)


def numbers(values: NDArray[Any]) -> pl.Series:
    """Return an array of numbers or booleans, [n], as a series.

    With its first array polars loads NumPy's masked arrays, which takes longer than all work on a small crowd; so
    small arrays are given as lists.

    >>> numbers(np.array([1.5, 2.0])).to_list(), numbers(np.zeros(2, np.int32)).dtype
    ([1.5, 2.0], Int32)
    """
    kind = KIND_OF_ARRAY.get(values.dtype.str)
    if kind is None or len(values) > SMALL or "numpy.ma" in sys.modules:
        return pl.Series(values)
    return pl.Series(values.tolist(), dtype=kind)


def column(ids: Vocabulary, codes: NDArray[np.integer] | None = None) -> pl.Series:
    """Return the ids with these codes (all without) as a series; code -1 is missing."""
    whole = text_series(*ids.text_buffers()) if ids.kind == "string" else numbers(ids.values)
    if codes is None:
        return whole
    index = numbers(codes)
    return whole.gather(index.set(index < 0, None) if len(codes) and codes.min() < 0 else index)


def matched(ids: Vocabulary, among: Vocabulary) -> NDArray[np.int64]:
    """Return the code of each id among others, compared by text, [ids]; -1 if it is not among them.

    >>> matched(Vocabulary.of([7, 8]), Vocabulary.of(["x", "7"])).tolist()
    [1, -1]
    """
    texts = [column(v) if v.kind == "integer" == other.kind else _as_text(v) for v, other in ((ids, among), (among, ids))]
    known = pl.DataFrame({"id": texts[1]}).with_row_index("code")
    found = pl.DataFrame({"id": texts[0]}).join(known, on="id", how="left", maintain_order="left")["code"]
    return found.cast(pl.Int64).fill_null(-1).to_numpy()


def _as_text(ids: Vocabulary) -> pl.Series:
    return text_series(*ids.text_buffers()) if ids.kind == "boolean" else column(ids).cast(pl.String)


def sort_order(ids: Vocabulary) -> NDArray[np.uint32]:
    """Return the codes in the order of their ids: numbers by value, texts by their bytes.

    >>> sort_order(Vocabulary.of(["b", "a", "ab"])).tolist(), sort_order(Vocabulary.of([3, -1])).tolist()
    ([1, 2, 0], [1, 0])
    """
    if ids.kind != "string":
        return np.argsort(ids.values).astype(np.uint32)
    if len(ids) > FEW_TEXTS:
        return column(ids).arg_sort().to_numpy()
    whole, cuts = ids.values.tobytes(), ids.offsets.tolist()
    texts = [whole[a:b] for a, b in pairwise(cuts)]
    return np.array(sorted(range(len(texts)), key=texts.__getitem__), np.uint32)


def narrowed(ids: Vocabulary) -> Vocabulary:
    """Return texts as whole numbers when that loses nothing ("7", but not "007").

    >>> narrowed(Vocabulary.of(["7", "12"])).ids(), narrowed(Vocabulary.of(["7", "012"])).ids()
    ([7, 12], ['7', '012'])
    """
    if ids.kind != "string" or not len(ids):
        return ids
    core = compiled()
    if core is not None:
        values = core.whole_numbers(*ids.text_buffers())
        return ids if values is None else Vocabulary.known("integer", values)
    series = column(ids)
    numbers = series.cast(pl.Int64, strict=False)
    plain = numbers.null_count() == 0 and (numbers.cast(pl.String) == series).all()
    return vocabulary(numbers) if plain else ids


def text_series(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> pl.Series:
    """Return the texts in two flat arrays as a series, without a Python object per text.

    >>> text_series(np.array([0, 1, 1, 3]), np.frombuffer(b"abc", np.uint8)).to_list()
    ['a', '', 'bc']
    """
    core = compiled()
    if core is not None:
        return pl.Series(core.TextArray(offsets, data))
    return split_series(offsets, data)


def split_series(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> pl.Series:
    """Return what `text_series` does without the compiled core: texts joined by an unused character, and split again."""
    seen = np.bincount(data, minlength=128)
    free = next((c for c in range(1, 128) if not seen[c]), None)
    if free is None:  # every ASCII character occurs: no separator is left
        whole, cuts = data.tobytes(), offsets.tolist()
        return pl.Series([whole[a:b].decode() for a, b in zip(cuts, cuts[1:], strict=False)], dtype=pl.String)
    parts = [_split(offsets[n : n + CHUNK + 1], data, free) for n in range(0, len(offsets) - 1, CHUNK)]
    return pl.concat(parts) if parts else pl.Series([], dtype=pl.String)


def _split(offsets: NDArray[np.int64], data: NDArray[np.uint8], separator: int) -> pl.Series:
    base, n = int(offsets[0]), len(offsets) - 1
    spread = np.full(int(offsets[-1]) - base + n - 1, separator, np.uint8)
    where = np.arange(int(offsets[-1]) - base) + np.repeat(np.arange(n), np.diff(offsets))
    spread[where] = data[base : int(offsets[-1])]
    return pl.Series([spread.tobytes().decode()]).str.split(chr(separator)).explode()


def _whole(series: pl.Series, what: str, first_row: int) -> pl.Series:
    series = series.fill_nan(None)
    odd = (series != series.round()) | (series.abs() > EXACT)
    at = odd.arg_true()
    if len(at):
        place, value = int(at[0]), series[int(at[0])]
        instead = NUMBERS if _is_label(what) else "give text or whole numbers"
        raise InputError(f"{what} in row {first_row + place + 1} is {value}: {instead}")
    return series.cast(pl.Int64)


def is_missing(value: object) -> bool:
    """Return whether a value stands for none: None, NaN, or the NA of a table.

    >>> is_missing(None), is_missing(float("nan")), is_missing("")
    (True, True, False)
    """
    return _plain(value) is None


def _plain(value: Any) -> object:
    """Return a NumPy scalar as a Python object, a string of any subclass, a UUID or a date as str, and NaN or NA as None."""
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return str(value)
    missing = value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    if not missing and isinstance(value, UUID | date | time):
        return str(value)  # a datetime is a date
    return None if missing else value


def _text_of_bytes(value: bytes, what: str, row: int) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{what} in row {row} is {shown(value)}, bytes that are not UTF-8: give such ids as text") from error


def require_present(ids: pl.Series, role: str, first_row: int = 0, why: str = "") -> None:
    """Raise where an id is missing, with its row; `first_row` rows came before these."""
    if ids.null_count():
        row = first_row + int(ids.is_null().arg_true()[0]) + 1
        raise InputError(f"{role} is missing in row {row}{why or f': every vote needs a {role}'}")


def id_text(value: object, role: str) -> str:
    """Return the text of an id that may be new."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, str | int | np.integer):
        raise InputError(f"{role} is {shown(value)}: give text or a whole number")
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{role} is {shown(value)}: not valid text ({error.reason})") from error
    return text


def known_text(value: object) -> str:
    """Return the text of an id that is looked up."""
    text = value if type(value) is str else text_of(value)
    return text if text.isascii() else id_text(text, "an id")
