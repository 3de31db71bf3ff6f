"""Tables of a stream in plain Python: changes that are prepared apart from them, and ids as offsets and bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Texts = tuple[NDArray[np.int64], NDArray[np.uint8]]  # offsets [n + 1], bytes


class Change:
    """The tables after a pending change: new values are kept separately and take precedence over the tables."""

    def __init__(self, tables: dict[str, dict[Any, Any]]) -> None:
        self._tables = tables
        self._sizes = {name: len(table) for name, table in tables.items()}
        self.parts: dict[str, dict[Any, Any]] = {name: {} for name in tables}

    def get(self, name: str, key: Any) -> Any:
        """Return the value of a key, None where there is none."""
        part = self.parts[name]
        return part[key] if key in part else self._tables[name].get(key)

    def put(self, name: str, key: Any, value: Any) -> None:
        """Set the value of a key."""
        part = self.parts[name]
        self._sizes[name] += key not in part and key not in self._tables[name]
        part[key] = value

    def size(self, name: str) -> int:
        """Return how many keys a table has."""
        return self._sizes[name]

    def code(self, name: str, text: str) -> int:
        """Return the code of a text; a new one gets the next."""
        code: int | None = self.get(name, text)
        return self.next_code(name, text) if code is None else code

    def next_code(self, name: str, text: str) -> int:
        """Return a new code for a text."""
        code = self.size(f"{name} text")
        self.put(name, text, code)
        self.put(f"{name} text", code, text)
        return code

    def merged(self) -> dict[str, dict[Any, Any]]:
        """Return the tables with the change in them."""
        return {name: {**table, **self.parts[name]} if self.parts[name] else table for name, table in self._tables.items()}


def pack(ids: Iterable[str]) -> Texts:
    """Return texts as offsets, [n + 1], and bytes."""
    encoded = [text.encode() for text in ids]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(encoded), np.uint8)


def unpack(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> list[str]:
    """Return the texts that `pack` has packed."""
    whole, cuts = data.tobytes(), offsets.tolist()
    return [whole[a:b].decode() for a, b in zip(cuts, cuts[1:], strict=False)]
