"""Ids to codes, batch by batch."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.errors import InputError


class Dictionary:
    """Gives every distinct id a code, in order of first appearance, over any number of batches."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._known: pl.DataFrame | None = None

    def encode(self, ids: pl.Series) -> NDArray[np.uint32]:
        """Returns the code of every id of a prepared series without missing values, [n]."""
        batch = ids.to_frame("id")
        fresh = batch.unique(maintain_order=True)
        if self._known is None:
            self._known = fresh.with_row_index("code")
        else:
            if self._known.schema["id"] != batch.schema["id"]:
                raise InputError(
                    f"the {self._what} ids are {self._known.schema['id']} in one part of the source and "
                    f"{batch.schema['id']} in another: use one type throughout"
                )
            fresh = fresh.join(self._known, on="id", how="anti", maintain_order="left")
            self._known = self._known.extend(fresh.with_row_index("code", offset=len(self._known)))
        coded = batch.join(self._known, on="id", how="left", maintain_order="left")
        return coded["code"].to_numpy().astype(np.uint32, copy=False)

    def ids(self) -> pl.Series:
        """Returns the distinct ids in code order."""
        return pl.Series("id", [], pl.String) if self._known is None else self._known["id"]
