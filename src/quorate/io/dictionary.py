"""Ids to codes, in order of first appearance: by the compiled core, or by polars if it was not built."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.data.vocabulary import Kind, Vocabulary
from quorate.errors import InputError
from quorate.io.ids import vocabulary
from quorate.kernels.cpu import compiled

ROLES: Final = ("task", "worker", "label")
MISSING: Final = np.uint32(0xFFFFFFFF)  # the code of a label that is not there
KINDS: Final[Mapping[pl.DataType, Kind]] = {pl.String(): "string", pl.Int64(): "integer", pl.Boolean(): "boolean"}


class Coded(NamedTuple):
    """All votes as codes, in input order, and the ids behind them, in order of first appearance."""

    codes: dict[str, NDArray[np.uint32]]  # role -> [votes]; labels may be MISSING
    ids: dict[str, Vocabulary]


class Coder(Protocol):
    """Gives every distinct id of each role a code, in order of first appearance."""

    takes_categories: bool  # whether categorical columns are taken as they are

    def add(self, batch: pl.DataFrame) -> None:
        """Take a batch of prepared columns; only labels may be missing."""
        ...

    def finish(self) -> Coded:
        """Return everything added so far, and discard it."""
        ...


class PolarsCoder:
    """The definition, and the fallback: dictionaries as polars frames, codes by join."""

    takes_categories = False

    def __init__(self) -> None:
        self._known: dict[str, pl.DataFrame] = {}
        self._codes: dict[str, list[NDArray[np.uint32]]] = {role: [] for role in ROLES}

    def add(self, batch: pl.DataFrame) -> None:
        """Take a batch of prepared columns; only labels may be missing."""
        for role in ROLES:
            self._codes[role].append(self._encode(role, batch[role]))

    def finish(self) -> Coded:
        """Return everything added so far, and discard it."""
        codes = {role: np.concatenate(parts) if parts else np.zeros(0, np.uint32) for role, parts in self._codes.items()}
        empty = pl.DataFrame(schema={"id": pl.String})
        ids = {role: vocabulary(self._known.get(role, empty)["id"]) for role in ROLES}
        self._known, self._codes = {}, {role: [] for role in ROLES}
        return Coded(codes, ids)

    def _encode(self, role: str, ids: pl.Series) -> NDArray[np.uint32]:
        batch = ids.to_frame("id")
        fresh = batch.drop_nulls().unique(maintain_order=True)
        known = self._known.get(role)
        if known is None or (known.is_empty() and known.schema["id"] != batch.schema["id"]):
            known = fresh.with_row_index("code")
        elif not fresh.is_empty():
            require_same(role, KINDS[known.schema["id"]], KINDS[batch.schema["id"]])
            fresh = fresh.join(known, on="id", how="anti", maintain_order="left")
            known = known.extend(fresh.with_row_index("code", offset=len(known)))
        self._known[role] = known
        if known.schema["id"] != batch.schema["id"]:  # nothing but missing labels
            return np.full(len(batch), MISSING)
        coded = batch.join(known, on="id", how="left", maintain_order="left")["code"]
        return coded.fill_null(int(MISSING)).to_numpy().astype(np.uint32, copy=False)


class CompiledCoder:
    """Hash tables in the compiled core, fed straight from Arrow buffers; the columns of a batch go to threads."""

    takes_categories = True

    def __init__(self, core: ModuleType, threads: int) -> None:
        self._core = core
        self._threads = threads
        self._kinds: dict[str, Kind] = {}
        self._dictionaries: dict[str, Any] = {}
        self._codes = {role: core.Codes() for role in ROLES}

    def add(self, batch: pl.DataFrame) -> None:
        """Take a batch of prepared columns; only labels may be missing."""
        stream = self._core.Stream(batch.select(ROLES).__arrow_c_stream__())
        tables = []
        for role, kind in zip(ROLES, stream.kinds, strict=True):
            fitting = self._core.TextDictionary if kind in ("string", "null") else self._core.IntDictionary
            if kind == "null" or batch[role].null_count() == len(batch):
                tables.append(fitting())  # nothing but missing labels: of their own type, and forgotten
                continue
            require_same(role, self._kinds.setdefault(role, kind), kind)
            if role not in self._dictionaries:
                self._dictionaries[role] = fitting()
            tables.append(self._dictionaries[role])
        columns = list(range(len(ROLES)))
        try:
            while (part := stream.next()) is not None:
                self._core.encode(part, columns, tables, [self._codes[role] for role in ROLES], self._threads)
        except ValueError as error:  # more ids than codes
            raise InputError(f"too much for one table of votes: {error}") from error

    def finish(self) -> Coded:
        """Return everything added so far, and discard it."""
        codes = {role: self._codes[role].finish() for role in ROLES}
        return Coded(codes, {role: self._ids(role) for role in ROLES})

    def _ids(self, role: str) -> Vocabulary:
        found = self._dictionaries.pop(role, None)
        if found is None:
            return Vocabulary.of([])
        kind = self._kinds[role]
        if kind == "string":
            offsets, data = found.finish()
            return Vocabulary.known("string", data, offsets)
        values = found.finish()
        return Vocabulary.known(kind, values.astype(np.bool_) if kind == "boolean" else values)


def require_same(role: str, before: Kind, now: Kind) -> None:
    """Raise when two parts of a source have ids of different kinds."""
    if before != now:
        raise InputError(f"the {role} ids are of kind {before} in one part of the source and {now} in another: use one type")


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
