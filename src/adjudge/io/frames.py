"""Columns and frames: ids as polars series and as vocabularies, and the caller's own kind of frame, in and out.

An id is text, a whole number or a boolean, and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, time
from importlib.util import find_spec
from itertools import chain, pairwise
from types import NoneType
from typing import Any, Final, cast
from uuid import UUID

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import MAX_INTEGER_ID, Vocabulary, common_kind, text_of
from adjudge.data.votes import MOST_WEIGHT, FrameKind, Votes
from adjudge.errors import InputError, quote
from adjudge.io.unsupported import NUMBERS_UNSUPPORTED, refuse
from adjudge.kernels.cpu import compiled

MAX_EXACT_ID: Final = 2**53  # beyond this, numbers with a decimal point skip whole numbers
CHUNK_TEXTS: Final = 1 << 20  # texts handled at once, so that copies stay small
SMALL: Final = 1 << 14  # numbers that are given to polars as a list
PLAIN_ID_TYPES: Final = frozenset({str, int, bool, NoneType})  # types of values that are taken as they are
KIND_OF_ARRAY: Final = {"<i8": pl.Int64(), "<i4": pl.Int32(), "<u4": pl.UInt32(), "<f8": pl.Float64(), "|b1": pl.Boolean()}
ID_DTYPES: Final = {"string": pl.String(), "integer": pl.Int64(), "boolean": pl.Boolean()}
NO_TIMES: Final = frozenset({"", "None", "NaT", "nan", "<NA>"})  # missing times as texts
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
    if what.startswith("moment"):  # of any type: a time that cannot be parsed is ignored
        times = [str(value) for value in values] if isinstance(values, Iterable) else []
        return pl.Series([None if time in NO_TIMES else time for time in times], dtype=pl.String)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"the {what} column is {quote(values)}: give a sequence of ids")
    if what == "weight":
        return _weights(values, first_row)
    if what.endswith("score"):
        return _scores(values)
    given = values if isinstance(values, list) else list(values)
    if given and type(given[0]) is str:
        with suppress(TypeError, ValueError):  # values of other types, which have to be looked at
            texts = pl.Series(given, dtype=pl.String)
            if _is_label(what):
                refuse(given, what, first_row)
            return texts
    kinds: set[type] = set(map(type, given))
    if not kinds <= PLAIN_ID_TYPES:  # values of few types need not be looked at one by one
        given = [_to_plain(v) for v in given]
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
        if any(abs(cast(float, v)) > MAX_EXACT_ID for v in given if v is not None):
            raise InputError(f"the {what} column mixes decimals with whole numbers too large for them: give such ids as text")
        return pl.Series(given, dtype=pl.Float64, strict=False)
    filled: list[object] = given
    if has_missing:  # missing values are of any type
        filler = next((v for v in given if v is not None), "")
        filled = [filler if v is None else v for v in given]
    kind = common_kind(filled, what, first_row)
    try:
        return pl.Series(given, dtype=ID_DTYPES[kind])
    except (UnicodeEncodeError, TypeError) as error:
        raise InputError(f"the {what} column cannot be read as text: {error}") from error


def _weights(values: Iterable[object], first_row: int) -> pl.Series:
    """Return weights as numbers, not ids; any other value is an error that names its row."""
    found: list[float | None] = []
    for row, value in enumerate(values, first_row + 1):
        try:
            found.append(None if value is None else float(cast(Any, value)))
        except (TypeError, ValueError, OverflowError):
            found.append(float("nan"))
        if isinstance(value, bool | np.bool_) or not (found[-1] is None or 0 <= found[-1] <= MOST_WEIGHT):
            raise InputError(f"weight in row {row} is {quote(value)}: {WEIGHTS}")
    return pl.Series(found, dtype=pl.Float64)


def _scores(values: Iterable[object]) -> pl.Series:
    """Return scores as numbers, or as texts where one of them is no number: reading them names it."""
    given = [_to_plain(value) for value in values]
    if all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in given):
        return pl.Series(given, dtype=pl.Float64, strict=False)
    return pl.Series([None if value is None else str(value) for value in given], dtype=pl.String)


def options_of(values: Iterable[object]) -> list[str]:
    """Return the texts of a set of options, without missing ones.

    >>> options_of([1.0, "x", None, True])
    ['1', 'x', 'true']
    """
    plain = [_to_plain(v) for v in values]
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
    """Return votes as a frame of task, worker and label, in task order; and weight, if votes have weights."""
    task = np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))
    frame = pl.DataFrame(
        {
            "task": column(votes.tasks, task),
            "worker": column(votes.workers, votes.row_worker()[votes.row]),
            "label": column(votes.labels, votes.row_label[votes.row]),
        }
    )
    return frame if votes.row_weight is None else frame.with_columns(weight=numbers(votes.row_weight[votes.row]))


def prepare_ids(series: pl.Series, what: str, first_row: int = 0, *, keep_categories: bool = False) -> pl.Series:
    """Return the series as String, Int64 or Boolean; whole numbers stored as floats become numbers again."""
    dtype = series.dtype
    if dtype in (pl.String, pl.Int64, pl.Boolean) or (keep_categories and dtype in (pl.Categorical, pl.Enum)):
        return series
    if dtype in (pl.Categorical, pl.Enum, pl.Null):
        return series.cast(pl.String)
    if dtype == pl.Object:
        return prepare_ids(series_of(series.to_list(), what, first_row), what, first_row)
    if dtype.is_integer():
        largest = series.max()
        if isinstance(largest, int) and largest > MAX_INTEGER_ID:
            raise InputError(f"the {what} column holds {largest}, beyond 64 bits: give such ids as text")
        return series.cast(pl.Int64)
    if dtype.is_float():
        return _to_whole(series, what, first_row)
    if dtype in (pl.Date, pl.Datetime, pl.Time):
        return _format_moments(series)
    if dtype == pl.Binary:
        try:
            return series.cast(pl.String)  # the UTF-8 that they are
        except pl.exceptions.PolarsError:
            return series_of(series.to_list(), what, first_row)  # which says where they are not
    if _is_label(what) and isinstance(dtype, pl.List | pl.Array | pl.Struct):
        refuse(series, what, first_row, may_be_set=False)
    if _is_label(what) and isinstance(dtype, pl.List | pl.Array):
        raise InputError(f"the {what} column holds lists: these are sets, say multi=True (--multi on the command line)")
    raise InputError(f"the {what} column holds {dtype}: give text, whole numbers or booleans")


def id_columns(
    batch: pl.DataFrame, roles: Iterable[str], first_row: int = 0, *, keep_categories: bool = False
) -> dict[str, pl.Series]:
    """Return the prepared columns of these roles; only labels may be missing. `first_row` rows came before."""
    columns = {role: prepare_ids(batch[role], role, first_row, keep_categories=keep_categories) for role in roles}
    for role in (role for role in columns if role != "label"):
        require_present(columns[role], role, first_row)
    return columns


def text_column(series: pl.Series, name: str) -> pl.Series:
    """Return a column of ids as the texts that identify them, named by their role."""
    return prepare_ids(series, name).cast(pl.String).alias(name)


def _is_label(what: str) -> bool:
    return what.endswith(("label", "truth"))


def _format_moments(series: pl.Series) -> pl.Series:
    """Return dates and times as Python writes them: microseconds only where there are some.

    >>> from datetime import datetime
    >>> _format_moments(pl.Series([datetime(2024, 5, 1), datetime(2024, 5, 1, 9, 30, 0, 500)])).to_list()
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


def vocabulary(series: pl.Series) -> Vocabulary:
    """Return the vocabulary of a prepared series of distinct ids, without a Python object per id."""
    if series.dtype == pl.String:
        offsets = np.zeros(len(series) + 1, np.int64)
        np.cumsum(series.str.len_bytes().to_numpy(), out=offsets[1:])
        whole = series.str.join("").item() if len(series) else ""
        return Vocabulary.wrap("string", np.frombuffer(whole.encode(), np.uint8), offsets)
    values = series.to_numpy().copy()
    return Vocabulary.wrap("boolean" if series.dtype == pl.Boolean else "integer", values)


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
    if len(codes) and codes.min() < 0:
        return whole.gather(index.set(index < 0, None))
    return whole[index]  # `gather` may run a query


def match_ids(ids: Vocabulary, among: Vocabulary) -> NDArray[np.int64]:
    """Return the code of each id among others, compared by text, [ids]; -1 if it is not among them.

    >>> match_ids(Vocabulary.of([7, 8]), Vocabulary.of(["x", "7"])).tolist()
    [1, -1]
    """
    if among.is_hashed:  # they may be too many for a table in memory
        return among.codes(ids.ids())
    own, others = (column(v) if ids.kind == "integer" == among.kind else text_series(*v.text_buffers()) for v in (ids, among))
    known = pl.DataFrame({"id": others}).with_row_index("code")
    codes = pl.DataFrame({"id": own}).join(known, on="id", how="left", maintain_order="left")["code"]
    return codes.cast(pl.Int64).fill_null(-1).to_numpy()


def text_series(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> pl.Series:
    """Return the texts in two flat arrays as a series, without a Python object per text.

    >>> text_series(np.array([0, 1, 1, 3]), np.frombuffer(b"abc", np.uint8)).to_list()
    ['a', '', 'bc']
    """
    core = compiled()
    if core is not None:
        return pl.Series(core.TextArray(offsets, data))
    return decode_texts(offsets, data)


def decode_texts(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> pl.Series:
    """Return what `text_series` does without the compiled core."""
    whole, chunks = data.tobytes(), range(0, len(offsets) - 1, CHUNK_TEXTS)  # so that few Python objects exist at once
    parts = ([whole[a:b].decode() for a, b in pairwise(offsets[n : n + CHUNK_TEXTS + 1].tolist())] for n in chunks)
    return pl.concat(pl.Series(texts, dtype=pl.String) for texts in chain([[]], parts))


def _to_whole(series: pl.Series, what: str, first_row: int) -> pl.Series:
    series = series.fill_nan(None)
    odd = (series != series.round()) | (series.abs() > MAX_EXACT_ID)
    at = odd.arg_true()
    if len(at):
        place, value = int(at[0]), series[int(at[0])]
        instead = NUMBERS_UNSUPPORTED if _is_label(what) else "give text or whole numbers"
        raise InputError(f"{what} in row {first_row + place + 1} is {value}: {instead}")
    return series.cast(pl.Int64)


def is_missing(value: object) -> bool:
    """Return whether a value stands for none: None, NaN, or the NA of a table.

    >>> is_missing(None), is_missing(float("nan")), is_missing("")
    (True, True, False)
    """
    return _to_plain(value) is None


def _to_plain(value: Any) -> object:
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
        raise InputError(f"{what} in row {row} is {quote(value)}, bytes that are not UTF-8: give such ids as text") from error


def require_present(ids: pl.Series, role: str, first_row: int = 0, why: str = "") -> None:
    """Raise if an id is missing, with its row; `first_row` rows came before these."""
    if ids.null_count():
        row = first_row + int(ids.is_null().arg_true()[0]) + 1
        raise InputError(f"{role} is missing in row {row}{why or f': every vote needs a {role}'}")


def id_text(value: object, role: str) -> str:
    """Return the text of an id that may be new."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, str | int | np.integer):
        raise InputError(f"{role} is {quote(value)}: give text or a whole number")
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{role} is {quote(value)}: not valid text ({error.reason})") from error
    return text


def known_text(value: object) -> str:
    """Return the text of an id that is looked up."""
    text = value if type(value) is str else text_of(value)
    return text if text.isascii() else id_text(text, "an id")


class Frame(Any):  # type: ignore[misc]
    """A frame of the caller's own kind: of polars, pandas or pyarrow, and of Spark for votes on Spark.

    For type checkers alone: which kind it is depends on the votes, so any use of it is treated as right.
    """


def kind_of(source: object) -> FrameKind | None:
    """Return the kind of a frame, or None for anything else."""
    frame = wrap_frame(source)
    if frame is None:
        return None
    if frame.implementation.is_pandas_like():
        return "pandas"
    return "pyarrow" if frame.implementation.is_pyarrow() else "polars"


def columns_of(frame: Any) -> list[str]:
    """Return the names of a frame's columns."""
    return list(wrap_frame(frame).columns)


def select(frame: Any, columns: Mapping[str, str]) -> pl.DataFrame:
    """Return these columns of any frame as polars, named by their role."""
    wrapped = wrap_frame(frame)
    return pl.DataFrame({role: _series(wrapped.get_column(name), role) for role, name in columns.items()})


def with_index(frame: Any) -> Any:
    """Return a frame of pandas whose named index levels are columns, too; any other as it is, wrapped or not."""
    own = frame.to_native() if hasattr(frame, "to_native") else frame
    names = [name for name in getattr(getattr(own, "index", None), "names", None) or () if name is not None]
    new = [name for name in names if name not in own.columns]
    return own.reset_index(level=new) if new else frame


def is_series(source: object) -> bool:
    """Return whether this is a series of pandas: values under an index."""
    return type(source).__name__ == "Series" and type(source).__module__.partition(".")[0] == "pandas"


def of_series(source: Any, roles: Sequence[str]) -> dict[str, Any]:
    """Return a series of pandas as columns by role: the levels of its index, in order or by their names, then the values.

    A series of labels by task is truth or gold; one by task and worker is votes.
    """
    *keys, last = roles
    levels = source.index.nlevels
    if levels != len(keys):
        raise InputError(
            f"the pandas series {quote(source.name)} has {levels} index level{'' if levels == 1 else 's'}: "
            f"give one for each of {', '.join(keys)}, and the {last} as values"
        )
    names = list(source.index.names)
    at = [names.index(key) for key in keys] if set(names) == set(keys) else list(range(levels))
    columns = {key: source.index.get_level_values(place).to_list() for key, place in zip(keys, at, strict=True)}
    return {**columns, last: source.to_list()}


def scale_of(frame: Any, name: str) -> list[object] | None:
    """Return the labels in their order where a column says it: an ordered categorical, an Enum; None for any other column."""
    wrapped = wrap_frame(frame)
    if wrapped is None:
        return None
    column = wrapped.get_column(name).to_native()
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, pl.Enum):
        return list(dtype.categories)
    if getattr(dtype, "ordered", False):  # of pandas
        return list(cast(Any, dtype).categories.to_list())
    if getattr(getattr(column, "type", None), "ordered", False):  # of pyarrow: its chunks have one dictionary each
        chunks = column.unify_dictionaries().chunks
        return list(chunks[0].dictionary.to_pylist()) if chunks else None
    return None


def wrap_frame(source: object) -> Any:
    """Return any eager frame behind one interface, None for anything else; narwhals is loaded with the first frame.

    Every function here takes a wrapped frame, too: wrapping takes longer than looking at a small one.
    """
    import narwhals as nw

    if type(source) is nw.DataFrame:
        return source
    try:
        wrapped: Any = nw.from_native(source, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        names = [str(name) for name in cast(Any, source).columns]
        twice = next((name for n, name in enumerate(names) if name in names[:n]), "")
        raise InputError(f"the column {twice!r} occurs twice in the frame: rename one of them") from error
    return wrapped if isinstance(wrapped, nw.DataFrame) else None


def _series(column: Any, what: str) -> pl.Series:
    if not column.implementation.is_pandas_like():
        return cast(pl.Series, column.to_polars())
    # pandas: without pyarrow, and in columns of objects, values go one by one.
    dtype = column.dtype
    if dtype.is_numeric() and str(column.to_native().dtype).islower():
        return series_of(column.to_numpy(), what)
    if str(dtype) == "Object" or find_spec("pyarrow") is None:
        return series_of(column.to_list(), what)
    return cast(pl.Series, column.to_polars())


def to_native(frame: pl.DataFrame, kind: FrameKind) -> Frame:
    """Return a polars frame as the caller's own kind."""
    out: Any = frame
    if kind == "polars":
        return cast(Frame, out)
    if kind == "pyarrow":
        return cast(Frame, frame.to_arrow(compat_level=pl.CompatLevel.oldest()))
    if find_spec("pyarrow") is None:
        import pandas as pd

        return cast(Frame, pd.DataFrame(frame.to_dict(as_series=False)))
    out = frame.to_pandas()
    for name, series in zip(frame.columns, frame.iter_columns(), strict=True):
        if series.dtype == pl.Int64 and series.null_count():  # an id is never a float
            out[name] = series.to_pandas(use_pyarrow_extension_array=True).astype("Int64")
    return cast(Frame, out)


def add_columns(frame: Any, new: pl.DataFrame) -> Frame:
    """Return a frame of any kind with more columns, row for row; its own columns, rows and index stay as they are."""
    kind = kind_of(frame)
    if kind == "polars":
        return cast(Frame, frame.hstack(new))
    if kind == "pyarrow":
        columns = new.to_arrow(compat_level=pl.CompatLevel.oldest())
        for name in new.columns:
            frame = frame.append_column(name, columns[name])
        return cast(Frame, frame)
    columns = to_native(new, "pandas")
    return cast(Frame, frame.assign(**{name: _with_missing(columns[name], new[name]) for name in new.columns}))


def _with_missing(column: Any, values: pl.Series) -> Any:
    """Return a column of pandas without its index; whole numbers and booleans stay what they are where some are missing."""
    dtype: Any = "Int64" if values.dtype == pl.Int64 else "boolean" if values.dtype == pl.Boolean else None
    if dtype is None or not values.null_count():
        return column.array
    import pandas as pd

    return pd.array(values.to_list(), dtype=dtype)
