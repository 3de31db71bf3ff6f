"""Batches of a polars query, to their end or to an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

END: Final = "__adjudge_end"  # true in the row that follows the last one


def whole_batches(query: pl.LazyFrame, **options: Any) -> Iterator[pl.DataFrame]:
    """Yield the batches of a query in order; raise `ComputeError` if it stops early.

    polars ends the batches without an error if one of its threads panics, as damaged Arrow and Parquet files make them do. So
    a row is added after the last one: without it, rows are missing.
    """
    schema = query.collect_schema()
    after = pl.DataFrame({**{name: pl.Series([None], dtype=dtype) for name, dtype in schema.items()}, END: [True]}).lazy()
    marked = pl.concat([query.with_columns(pl.lit(False).alias(END)), after])
    ended = False
    for batch in marked.collect_batches(maintain_order=True, **options):
        ended = bool(batch[-1, END]) if len(batch) else ended
        rows = batch[: len(batch) - ended].drop(END)
        if len(rows) or not ended:
            yield rows
    if not ended:
        raise pl.exceptions.ComputeError("it is damaged: polars stopped before the last row")
