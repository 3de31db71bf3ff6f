"""The caller's own kind of frame, in and out."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, cast

import polars as pl

from quorate.data.votes import FrameKind
from quorate.io.ids import series_of


class Frame(Any):  # type: ignore[misc]
    """A frame of the caller's own kind: of polars, pandas or pyarrow, and of Spark for votes on Spark.

    For type checkers alone: which kind it is depends on the votes, so any use of it is taken for right.
    """


def kind_of(source: object) -> FrameKind | None:
    """Return the kind of a frame, or None for anything else."""
    frame = _wrapped(source)
    if frame is None:
        return None
    if frame.implementation.is_pandas_like():
        return "pandas"
    return "pyarrow" if frame.implementation.is_pyarrow() else "polars"


def columns_of(frame: Any) -> list[str]:
    """Return the names of a frame's columns."""
    return list(_wrapped(frame).columns)


def select(frame: Any, columns: Mapping[str, str]) -> pl.DataFrame:
    """Return these columns of any frame as polars, named by their role."""
    wrapped = _wrapped(frame)
    return pl.DataFrame({role: _series(wrapped.get_column(name), role) for role, name in columns.items()})


def _wrapped(source: object) -> Any:
    """Return any eager frame behind one interface, None for anything else; narwhals is loaded with the first frame."""
    import narwhals as nw

    wrapped: Any = nw.from_native(source, eager_only=True, pass_through=True)
    return wrapped if isinstance(wrapped, nw.DataFrame) else None


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
