"""The labels of a stream, by id and by code."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from adjudge.data.vocabulary import Vocabulary
from adjudge.errors import undeclared
from adjudge.kernels import reference


class LabelNames:
    """The labels of a stream, never changed: a stream that gets one more takes others in their place.

    >>> names = LabelNames(["cat", "dog", "fish"])
    >>> names.code["dog"], names.first(2).ids
    (1, ['cat', 'dog'])
    """

    def __init__(self, labels: Iterable[object]) -> None:
        self.vocabulary = Vocabulary.of(labels, "label")
        self.ids = self.vocabulary.ids()
        self.code = {text: code for code, text in enumerate(self.vocabulary.texts())}

    def __len__(self) -> int:
        return len(self.ids)

    def first(self, number: int) -> LabelNames:
        """Return the first so many."""
        return self if len(self) == number else LabelNames(self.ids[:number])

    def hashes(self) -> list[int]:
        """Return the hash of each, by which ties are settled."""
        hashes: list[int] = reference.hash_texts(*self.vocabulary.text_buffers()).tolist()
        return hashes

    def codes(self, labels: pl.Series, first_row: int) -> pl.Series:
        """Return the codes of labels as text, null where one is missing; `first_row` rows came before these."""
        unknown = [text for text in labels.drop_nulls().unique(maintain_order=True) if text not in self.code]
        if unknown:
            row = first_row + int((labels == unknown[0]).arg_true()[0]) + 1
            raise undeclared(unknown[0], self.ids, f" in row {row}")
        return labels.replace_strict(self.code, return_dtype=pl.UInt32)
