"""Texts to codes, in the order in which they first appear."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.kernels.core import compiled
from quorate.vocabulary import Vocabulary


class Dictionary:
    """Gives every distinct text a code in order of first appearance. It serves one thread at a time.

    >>> d = Dictionary()
    >>> d.encode(pl.Series(["a", "b", "a"])).tolist(), d.vocabulary().ids()
    ([0, 1, 0], ['a', 'b'])
    """

    def __init__(self) -> None:
        core: Any = compiled()
        self._core = core
        self._table: Any = None if core is None else core.TextDictionary()
        self._known: dict[str, int] = {}

    def encode(self, texts: pl.Series) -> NDArray[np.uint32]:
        """Return the code of every text of a series without missing values, [n]."""
        if self._table is None:
            return np.array([self._known.setdefault(t, len(self._known)) for t in texts], np.uint32)
        codes = self._core.Codes()
        stream = self._core.Stream(texts.to_frame("id").__arrow_c_stream__())
        while (batch := stream.next()) is not None:
            self._core.encode(batch, [0], [self._table], [codes], 1)
        out: NDArray[np.uint32] = codes.finish()
        return out

    def vocabulary(self) -> Vocabulary:
        """Return the texts, in the order of their codes."""
        if self._table is None:
            return Vocabulary.of_texts(list(self._known))
        offsets, data = self._table.texts()
        return Vocabulary.known("string", data, offsets)
