"""The caller's own kind of frame, in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, cast

import polars as pl

from adjudge.data.votes import FrameKind
from adjudge.errors import InputError, shown
from adjudge.io.ids import series_of


class Frame(Any):  # type: ignore[misc]
    """A frame of the caller's own kind: of polars, pandas or pyarrow, and of Spark for votes on Spark.

    For type checkers alone: which kind it is depends on the votes, so any use of it is taken for right.
    """


def kind_of(source: object) -> FrameKind | None:
    """Return the kind of a frame, or None for anything else."""
    frame = wrapped_frame(source)
    if frame is None:
        return None
    if frame.implementation.is_pandas_like():
        return "pandas"
    return "pyarrow" if frame.implementation.is_pyarrow() else "polars"


def columns_of(frame: Any) -> list[str]:
    """Return the names of a frame's columns."""
    return list(wrapped_frame(frame).columns)


def select(frame: Any, columns: Mapping[str, str]) -> pl.DataFrame:
    """Return these columns of any frame as polars, named by their role."""
    wrapped = wrapped_frame(frame)
    return pl.DataFrame({role: _series(wrapped.get_column(name), role) for role, name in columns.items()})


def with_index(frame: Any) -> Any:
    """Return a frame of pandas whose named index levels are columns, too; any other as it is, wrapped or not."""
    own = _unwrapped(frame)
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
            f"the pandas series {shown(source.name)} has {levels} index level{'' if levels == 1 else 's'}: "
            f"give one for each of {', '.join(keys)}, and the {last} as values"
        )
    names = list(source.index.names)
    at = [names.index(key) for key in keys] if set(names) == set(keys) else list(range(levels))
    columns = {key: source.index.get_level_values(place).to_list() for key, place in zip(keys, at, strict=True)}
    return {**columns, last: source.to_list()}


def scale_of(frame: Any, name: str) -> list[object] | None:
    """Return the labels in their order where a column says it: an ordered categorical, an Enum; None for any other column."""
    wrapped = wrapped_frame(frame)
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


def wrapped_frame(source: object) -> Any:
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


def _unwrapped(frame: Any) -> Any:
    import narwhals as nw

    return frame.to_native() if type(frame) is nw.DataFrame else frame


def _series(column: Any, what: str) -> pl.Series:
    out: pl.Series
    if not column.implementation.is_pandas_like():
        out = column.to_polars()
        return out
    # pandas: without pyarrow, and in columns of objects, values go one by one.
    dtype = column.dtype
    if dtype.is_numeric() and str(column.to_native().dtype).islower():
        return series_of(column.to_numpy(), what)
    if str(dtype) == "Object" or find_spec("pyarrow") is None:
        return series_of(column.to_list(), what)
    out = column.to_polars()
    return out


def native(frame: pl.DataFrame, kind: FrameKind) -> Frame:
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


def beside(frame: Any, new: pl.DataFrame) -> Frame:
    """Return a frame of any kind with more columns, row for row; its own columns, rows and index stay as they are."""
    kind = kind_of(frame)
    if kind == "polars":
        return cast(Frame, frame.hstack(new))
    if kind == "pyarrow":
        columns = new.to_arrow(compat_level=pl.CompatLevel.oldest())
        for name in new.columns:
            frame = frame.append_column(name, columns[name])
        return cast(Frame, frame)
    columns = native(new, "pandas")
    return cast(Frame, frame.assign(**{name: _with_missing(columns[name], new[name]) for name in new.columns}))


def _with_missing(column: Any, values: pl.Series) -> Any:
    """Return a column of pandas without its index; whole numbers and booleans stay what they are where some are missing."""
    dtype: Any = "Int64" if values.dtype == pl.Int64 else "boolean" if values.dtype == pl.Boolean else None
    if dtype is None or not values.null_count():
        return column.array
    import pandas as pd

    return pd.array(values.to_list(), dtype=dtype)
