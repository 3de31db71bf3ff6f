"""Names of workers, outside of log and state: so that one can be erased."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Names by number, and numbers by name. Numbers count from 1, and are never given twice."""

    def __init__(self, rows: Iterable[tuple[int, str | None]] = ()) -> None:
        self.numbers: dict[str, int] = {}  # by name
        self._names: dict[int, str | None] = {}
        self._last = 0
        self.learn(rows)

    def __len__(self) -> int:
        return len(self._names)

    def number(self, name: str) -> int | None:
        """Return the number of a worker, None for an unknown one."""
        return self.numbers.get(name)

    def name(self, number: int) -> str | None:
        """Return the name of a worker, None for an erased one."""
        return self._names.get(number)

    def after(self, number: int, limit: int) -> list[int]:
        """Return the numbers of up to `limit` workers after one."""
        return [n for n in range(number + 1, min(self._last, number + limit) + 1) if n in self._names]

    @property
    def last(self) -> int:
        """The number of the last worker."""
        return self._last

    def learn(self, rows: Iterable[tuple[int, str | None]]) -> None:
        """Take in workers that another process has added."""
        for number, name in rows:
            self._names[number] = name
            if name is not None:
                self.numbers[name] = number
            self._last = max(self._last, number)

    def add(self, name: str) -> int:
        """Return the number of a new worker."""
        self._last = number = self._last + 1
        self.numbers[name] = number
        self._names[number] = name
        return number

    def erase(self, number: int) -> None:
        """Forget the name of a worker."""
        name = self._names.get(number)
        if name is not None:
            del self.numbers[name]
            self._names[number] = None
