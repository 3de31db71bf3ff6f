"""Finished pieces of work, kept as files: an interrupted run goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quorate.io.write import write_aside

Figures = dict[str, Any]  # what JSON can hold


@dataclass(frozen=True)
class Cells:
    """A folder of finished cells, a small JSON file each.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cells = Cells(Path(folder))
    ...     [cells.get("a", {"seed": 1}, lambda: {"found": n})["found"] for n in range(3)]
    [0, 0, 0]
    """

    folder: Path
    done: Callable[[str], object] = lambda _: None  # told the name of each cell that is there

    def get(self, name: str, conditions: Mapping[str, object], compute: Callable[[], Figures]) -> Figures:
        """Returns the cell of this name; computed only if it is not there, or was computed under other conditions."""
        stamp = hashlib.sha256(json.dumps(conditions, sort_keys=True).encode()).hexdigest()
        path = self.folder / f"{name}.json"
        found = _kept(path, stamp)
        if found is None:
            found = compute()
            self.folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"conditions": dict(conditions), "stamp": stamp, "figures": found})
            write_aside(path, lambda aside: aside.write_text(text, encoding="utf-8"))
        self.done(name)
        return found


def _kept(path: Path, stamp: str) -> Figures | None:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return dict(kept["figures"]) if kept["stamp"] == stamp else None
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not there, or not ours: computed anew
