"""Ids to codes that stay: for votes that come one at a time or in batches, in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.kernels.core import compiled
from quorate.vocabulary import Vocabulary

NEVER = 0xFFFFFFFF  # the code of an id that was never seen


class Dictionary:
    """Gives every distinct text a code in order of first appearance; knows codes by text and texts by code.

    >>> d = Dictionary()
    >>> d.code("a"), d.code("b"), d.code("a"), d.find("c") == NEVER
    (0, 1, 0, True)
    """

    def __init__(self) -> None:
        core: Any = compiled()
        self._core = core
        self._table: Any = None if core is None else core.TextDictionary()
        self._known: dict[str, int] = {}
        # Bound once: a vote is learned in microseconds, and each lookup in between counts.
        self.code: Callable[[str], int] = self._add if self._table is None else self._table.code
        self.find: Callable[[str], int] = self._find if self._table is None else self._table.find

    def __len__(self) -> int:
        return len(self._known) if self._table is None else len(self._table)

    def encode(self, texts: pl.Series) -> NDArray[np.uint32]:
        """Returns the code of every text of a series without missing values, [n]."""
        if self._table is None:
            return np.array([self._add(t) for t in texts], np.uint32)
        codes = self._core.Codes()
        stream = self._core.Stream(texts.to_frame("id").__arrow_c_stream__())
        while (batch := stream.next()) is not None:
            self._core.encode(batch, [0], [self._table], [codes], 1)
        out: NDArray[np.uint32] = codes.finish()
        return out

    def vocabulary(self, begin: int = 0) -> Vocabulary:
        """Returns the texts with codes from `begin` on."""
        if self._table is None:
            return Vocabulary.of_texts(list(self._known)[begin:])
        offsets, data = self._table.texts(begin)
        return Vocabulary.known("string", data, offsets)

    def _add(self, text: str) -> int:
        return self._known.setdefault(text, len(self._known))

    def _find(self, text: str) -> int:
        return self._known.get(text, NEVER)
