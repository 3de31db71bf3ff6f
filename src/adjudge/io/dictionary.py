"""Ids to codes, in order of first appearance: by the compiled core, or by polars if it was not built."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final, Literal, NamedTuple, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import Kind, Vocabulary
from adjudge.errors import InputError
from adjudge.io.ids import vocabulary
from adjudge.kernels.cpu import compiled

ROLES: Final = ("task", "worker", "label")
MISSING: Final = np.uint32(0xFFFFFFFF)  # the code of a label that is not there
KINDS: Final[Mapping[pl.DataType, Kind]] = {pl.String(): "string", pl.Int64(): "integer", pl.Boolean(): "boolean"}
FEW: Final = 1 << 15  # votes that one thread encodes before others have begun


Codes = NDArray[np.uint32]


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


class Dictionary:
    """Gives every distinct id of a column a code in order of first appearance, batch by batch; missing ids get MISSING.

    With `core` the codes come from its hash tables; without it, by polars joins: the definition, and the fallback. A
    dictionary serves one thread at a time.

    >>> d = Dictionary("worker")
    >>> d.encode(pl.Series(["b", "a", "b"])).tolist(), d.encode(pl.Series(["c", "a"])).tolist()
    ([0, 1, 0], [2, 1])
    >>> d.vocabulary().ids()
    ['b', 'a', 'c']
    """

    def __init__(self, role: str, core: ModuleType | Literal["auto"] | None = "auto") -> None:
        self.role = role
        self.kind: Kind | None = None
        self._core: Any = compiled() if core == "auto" else core
        self._table: Any = None  # of the core, or a frame of ids and codes
        self._new: list[pl.Series] = []  # the distinct ids, in chunks
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def encode(self, ids: pl.Series) -> Codes:
        """Return the code of every id of a prepared series, [n]."""
        if ids.null_count() == len(ids):
            return np.full(len(ids), MISSING)
        kind = KINDS.get(ids.dtype, "string")  # categories are texts
        if self.kind is not None:
            require_same(self.role, self.kind, kind)
        self.kind = kind
        codes = self._joined_codes(ids) if self._core is None else self._compiled_codes(ids)
        self._remember(ids, codes)
        return codes

    def ids(self, begin: int = 0) -> pl.Series:
        """Return the distinct ids with codes from `begin` on, in code order."""
        whole = pl.concat(self._new) if self._new else pl.Series([], dtype=pl.String)
        self._new = [whole]
        return whole[begin:]

    def vocabulary(self) -> Vocabulary:
        """Return the distinct ids, in code order."""
        return vocabulary(self.ids())

    def _compiled_codes(self, ids: pl.Series) -> Codes:
        if self._table is None:
            self._table = self._core.TextDictionary() if self.kind == "string" else self._core.IntDictionary()
        out = self._core.Codes()
        stream = self._core.Stream(ids.to_frame("id").__arrow_c_stream__())
        try:
            while (batch := stream.next()) is not None:
                self._core.encode(batch, [0], [self._table], [out], 1)
        except ValueError as error:  # more ids than codes
            raise InputError(f"too many {self.role}s: {error}") from error
        codes: Codes = out.finish()
        return codes

    def _joined_codes(self, ids: pl.Series) -> Codes:
        batch = (ids.cast(pl.String) if self.kind == "string" else ids).to_frame("id")
        new = batch.drop_nulls().unique(maintain_order=True)
        if self._table is None:
            self._table = new.with_row_index("code")
        else:
            new = new.join(self._table, on="id", how="anti", maintain_order="left")
            self._table = self._table.extend(new.with_row_index("code", offset=len(self._table)))
        coded = batch.join(self._table, on="id", how="left", maintain_order="left")["code"]
        return coded.fill_null(int(MISSING)).to_numpy().astype(np.uint32, copy=False)

    def _remember(self, ids: pl.Series, codes: Codes) -> None:
        """Keep the ids that are new: those with codes from the old size on."""
        where = np.flatnonzero((codes >= self._size) & (codes != MISSING))
        if not len(where):
            return
        new, first = np.unique(codes[where], return_index=True)
        ids = ids.gather(where[first])
        self._new.append(ids.cast(pl.String) if self.kind == "string" else ids)
        self._size = int(new[-1]) + 1


class PolarsCoder:
    """The definition, and the fallback: a dictionary per role, without the compiled core."""

    takes_categories = False

    def __init__(self) -> None:
        self._dictionaries = {role: Dictionary(role, core=None) for role in ROLES}
        self._codes: dict[str, list[Codes]] = {role: [] for role in ROLES}

    def add(self, batch: pl.DataFrame) -> None:
        """Take a batch of prepared columns; only labels may be missing."""
        for role in ROLES:
            self._codes[role].append(self._dictionaries[role].encode(batch[role]))

    def finish(self) -> Coded:
        """Return everything added; it is called once."""
        codes = {role: np.concatenate(parts) if parts else np.zeros(0, np.uint32) for role, parts in self._codes.items()}
        ids = {role: dictionary.vocabulary() for role, dictionary in self._dictionaries.items()}
        return Coded(codes, ids)


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
        stream = self._core.Stream(batch[list(ROLES)].__arrow_c_stream__())
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
        columns, threads = list(range(len(ROLES))), threads_for(len(batch), self._threads)
        try:
            while (part := stream.next()) is not None:
                self._core.encode(part, columns, tables, [self._codes[role] for role in ROLES], threads)
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


def threads_for(votes: int, threads: int) -> int:
    """Return on how many threads so many votes are encoded: on all, unless one is done before others have begun."""
    return 1 if votes < FEW else threads


def require_same(role: str, before: Kind, now: Kind) -> None:
    """Raise when two parts of a source have ids of different kinds."""
    if before != now:
        raise InputError(f"the {role} ids are of kind {before} in one part of the source and {now} in another: use one type")
