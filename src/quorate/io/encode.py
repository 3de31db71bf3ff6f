"""Encoding: columns of ids become codes, codes become `Votes`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.errors import InputError, MissingLabels, OptionError, listed, shown
from quorate.io.assemble import assemble
from quorate.io.dictionary import Dictionary
from quorate.io.ids import narrowed, prepared, vocabulary
from quorate.vocabulary import Vocabulary
from quorate.votes import FrameKind, Votes

DUPLICATES = ("all", "last", "first", "error")


class Encoder:
    """Takes votes batch by batch, in the caller's order, and makes `Votes` of them.

    `narrow` says that the source is text (CSV), where a column of whole numbers is meant as such.
    """

    def __init__(self, *, labels: Iterable[object] | None = None, duplicates: str = "all", narrow: bool = False) -> None:
        if duplicates not in DUPLICATES:
            raise OptionError(f"duplicates is {shown(duplicates)}: choose one of {listed(DUPLICATES)}")
        if isinstance(labels, str):
            raise OptionError(f"labels is {shown(labels)}: give a list of labels")
        self._declared = None if labels is None else Vocabulary.of(labels, "label")
        self._duplicates = duplicates
        self._narrow = narrow
        self._rows = 0
        self._dictionaries = {role: Dictionary(role) for role in ("task", "worker", "label")}
        self._codes: dict[str, list[NDArray[np.uint32]]] = {role: [] for role in self._dictionaries}
        self._abstained: list[NDArray[np.uint32]] = []  # task codes of votes without a label

    def add(self, batch: pl.DataFrame) -> None:
        """Takes a batch with the columns task, worker and label."""
        columns = {role: prepared(batch[role], role, self._rows) for role in self._dictionaries}
        for role in ("task", "worker"):
            missing = columns[role].is_null().arg_true()
            if len(missing):
                raise InputError(f"{role} is missing in row {self._rows + int(missing[0]) + 1}: every vote needs a {role}")
        task = self._dictionaries["task"].encode(columns["task"])
        given = columns["label"].is_not_null()
        if given.all():
            keep: NDArray[np.bool_] | None = None
        else:
            keep = given.to_numpy()
            self._abstained.append(task[~keep])
            task = task[keep]
            columns = {role: column.filter(given) for role, column in columns.items()}
        if self._declared is not None:
            self._check_declared(columns["label"], keep)
        self._codes["task"].append(task)
        for role in ("worker", "label"):
            if len(columns[role]):
                self._codes[role].append(self._dictionaries[role].encode(columns[role]))
        self._rows += len(batch)

    def finish(self, frame_kind: FrameKind = "polars") -> Votes:
        """Returns all votes taken so far; warns when some had no label."""
        abstentions = sum(map(len, self._abstained))
        if abstentions:
            warnings.warn(
                f"{abstentions} of {self._rows} votes have no label: dropped as abstentions", MissingLabels, stacklevel=3
            )
        codes = {role: _joined(parts) for role, parts in self._codes.items()}
        ids = {role: d.ids() for role, d in self._dictionaries.items()}
        if self._narrow:
            ids = {role: narrowed(series) for role, series in ids.items()}
        vocabularies = {role: vocabulary(series) for role, series in ids.items()}
        # Workers and labels are sorted, so that rows mean the same whatever the order of the votes.
        order = {role: ids[role].arg_sort().to_numpy() for role in ("worker", "label")}
        if self._declared is not None:
            rank = self._declared.codes(ids["label"])
            labels, vocabularies["label"] = rank.astype(np.int64)[codes["label"]], self._declared
        else:
            labels = _rank(order["label"])[codes["label"]]
            vocabularies["label"] = vocabularies["label"].take(order["label"])
        return assemble(
            codes["task"],
            _rank(order["worker"])[codes["worker"]],
            labels,
            tasks=vocabularies["task"],
            workers=vocabularies["worker"].take(order["worker"]),
            labels=vocabularies["label"],
            duplicates=self._duplicates,
            abstentions=abstentions,
            frame_kind=frame_kind,
        )

    def _check_declared(self, labels: pl.Series, keep: NDArray[np.bool_] | None) -> None:
        assert self._declared is not None
        distinct = labels.unique(maintain_order=True)
        codes = self._declared.codes(distinct)
        if (codes < 0).any():
            value = distinct[int(np.argmax(codes < 0))]
            place = int((labels == value).arg_true()[0])
            row = place if keep is None else int(np.flatnonzero(keep)[place])
            raise InputError(
                f"label {shown(value)} in row {self._rows + row + 1} is not among the declared labels: "
                f"{listed(self._declared.ids())}"
            )


def _joined(parts: list[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    return np.concatenate(parts) if parts else np.zeros(0, np.uint32)


def _rank(order: NDArray[np.integer]) -> NDArray[np.int64]:
    """Returns the place of each code in this order, [n]."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank
