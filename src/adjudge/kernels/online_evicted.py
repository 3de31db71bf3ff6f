"""Tasks of a stream that leave memory and come back, in plain Python: what they were, and what is left of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.kernels.online_steps import BASE, Steps
from adjudge.kernels.online_tables import Change
from adjudge.kernels.online_units import ONE, Units, shifted

# (worker, label) of its votes, in order; label, -1 without votes; probabilities in units, soft; whether the label is that of
# the last fit; gold, or -1; number
Record = tuple[Sequence[tuple[str, int]], int, Units | None, int, int, int]
MOST: Final = 1 << 62  # units in a base: half of what a count of the compiled state holds


def is_record(given: object) -> bool:
    """Return whether something has the form of a record."""
    if not isinstance(given, tuple) or len(given) != len(Record.__args__):  # type: ignore[attr-defined]
        return False
    votes, label, units, fitted, gold, number = given
    whole = (label, fitted, gold, number, *(units or ()))
    pairs = isinstance(votes, list | tuple) and all(isinstance(vote, tuple) and len(vote) == 2 for vote in votes)
    return pairs and all(type(x) is int for x in whole) and all(type(w) is str and type(c) is int for w, c in votes)


def _need(fine: object, what: str) -> None:
    if not fine:
        raise ValueError(what)


class Evicting(Steps):
    """The steps of eviction: the share of a task moves from its own tables into a base, and back."""

    def _shift_base(self, change: Change, rows: list[int], label: int, units: Units, sign: int) -> None:
        """Add the share of a task to the base, or take it out; `units` are [K]."""
        if not rows:
            return
        hard, one = change.get("fact", "hard"), self._one_hot(label)
        parts = (("base count", "base classes", one if hard else units), ("base labelled", "base labelled classes", one))
        for table, classes, share in parts[: 1 if hard else 2]:
            for row in rows:
                change.put(table, row, shifted(self._base_line(change, table, row), share, sign))
            change.put("fact", classes, shifted(change.get("fact", classes), share, sign))

    def _base_line(self, state: Change, table: str, row: int) -> Units:
        line: Units | None = state.get(table, row)
        return (0,) * self._k if line is None else line

    def _labelled_base(self, state: Change) -> str:
        return "base count" if state.get("fact", "hard") else "base labelled"

    def _base_votes(self, state: Change) -> list[int]:
        """Return the votes of evicted tasks by given and true label, [K * K]."""
        out, table = [0] * self._k**2, self._labelled_base(state)
        for row, (_, given) in state.merged()["pair"].items():
            for c, units in enumerate(self._base_line(state, table, row)):
                out[given * self._k + c] += units
        return [units // ONE for units in out]

    def _leave(self, change: Change, task: int, text: str) -> Record:
        """Take a task out of memory, but not what was learned from it, and return what it was."""
        rows, hard = list(change.get("votes", task)), change.get("fact", "hard")
        label, share = change.get("label", task), change.get("share", task)
        held, number = change.get("held", task), change.get("number", task)
        pairs = [change.get("pair", row) for row in rows]
        votes = [(change.get("worker text", who), given) for who, given in pairs]
        base = sum(sum(line) for line in change.merged()["base count"].values())
        _need(len(rows) <= (MOST - base) // ONE, "more votes were evicted than counts can hold")
        record = (votes, label, None if hard else share, change.get("fitted", task), held, number)
        self._shift_base(change, rows, label, share, 1)
        nothing = {"votes": (), "share": (0,) * self._k, "label": -1, "fitted": 0, "held": -1, "gone": True}
        for name, value in nothing.items():
            change.put(name, task, value)
        if held >= 0:
            change.put("gold", text, -1)
        change.put("fact", "gone", change.get("fact", "gone") + 1)
        change.put("fact", "evicted", change.get("fact", "evicted") + 1)
        return record

    def _come_back(self, change: Change, text: str, record: Record) -> int:
        """Make an evicted task a task again; raise where it is no such record of this stream."""
        votes, label, units, fitted, held, number = record
        hard = change.get("fact", "hard")
        _need(self._find(change, text) is None, "the task is in memory")
        _need(0 <= label < self._k if votes else label == -1, "a label for every task that has votes")
        _need(-1 <= held < self._k and (held < 0 or not votes or label == held), "no such gold")
        _need(0 <= fitted <= (2 if votes else 0), "whether a fit gave the label")
        share = self._one_hot(label) if hard else self._checked_units(units, bool(votes))
        _need(hard or held < 0 or not votes or share[held] == ONE, "no such gold")
        rows = []
        for worker, given in votes:
            row = change.get("row", (change.get("worker", worker), given))
            _need(row is not None, "its votes are not among those of evicted tasks")
            rows.append(row)
        _need(change.get("fact", "evicted"), "no task was evicted")
        _need(0 <= number < change.get("fact", "tasks seen"), "it has a number that no task had")
        self._shift_base(change, rows, label, share, -1)
        lines = [self._base_line(change, table, row) for row in rows for table in BASE]
        lines += [change.get("fact", name) for name in ("base classes", "base labelled classes")]
        _need(all(cell >= 0 for line in lines for cell in line), "its votes are not among those of evicted tasks")
        change.put("fact", "evicted", change.get("fact", "evicted") - 1)
        newer = self._gold(change, text)  # given while it was away
        task = self._task(change, text)
        change.put("fact", "tasks seen", change.get("fact", "tasks seen") - 1)
        given_back = ("votes", tuple(rows)), ("share", share), ("label", label), ("fitted", fitted), ("held", held)
        for name, value in (*given_back, ("number", number)):
            change.put(name, task, value)
        if newer < 0 <= held:
            change.put("gold", text, held)
        if newer >= 0 and newer != held:
            self._take_out(change, task)
            change.put("held", task, newer)
            self._settle(change, task)
            self._changed(change, len(rows))
        return task

    def _checked_units(self, units: Units | None, has_votes: bool) -> Units:
        if units is None or len(units) > self._k:
            raise ValueError("its probabilities are missing")
        fine = all(share >= 0 for share in units) and sum(units) == (ONE if has_votes else 0)
        _need(fine, "its probabilities sum to one")
        return (*units, *(0,) * (self._k - len(units)))

    def _start_base(self, change: Change, hard: bool, evicted: int, arrays: dict[str, NDArray[Any] | None]) -> None:
        """Take the base of a saved stream: its arrays by name."""
        counts, classes = arrays["base_counts"], arrays["base_classes"]
        _need(evicted >= 0 and (evicted > 0) == (counts is not None), "what evicted tasks add up to")
        if counts is None:
            return
        labelled, by_label = arrays["base_labelled"], arrays["base_labelled_classes"]
        _need((labelled is None) == hard, "what evicted tasks add up to")
        change.put("fact", "evicted", evicted)
        whole = (counts, classes) if labelled is None else (labelled, by_label)
        for name, lines, line in (("count", counts, classes), ("labelled", *whole)):
            assert line is not None
            cells, tasks = [int(x) for x in lines.ravel().tolist()], [int(x) for x in line.tolist()]
            _need(min(cells, default=0) >= 0 and sum(cells) <= MOST, "what evicted tasks add up to is from 0 on")
            _need(min(tasks) >= 0 and sum(tasks) <= sum(cells), "evicted tasks are counted from 0 on")
            _need(sum(tasks) % ONE == 0 and sum(tasks) <= evicted * ONE, "evicted tasks have at least one vote each")
            _need(name == "count" or not any(x % ONE for x in (*cells, *tasks)), "the labels of evicted tasks are whole")
            for row, cells_of_row in enumerate(lines.tolist()):
                change.put(f"base {name}", row, tuple(cells_of_row))
            change.put("fact", "base classes" if name == "count" else "base labelled classes", tuple(tasks))
        _need((counts.sum(axis=1) == whole[0].sum(axis=1)).all(), "evicted tasks have as many votes by label as by probability")
        _need(classes is not None and whole[1] is not None and classes.sum() == whole[1].sum(), "every evicted task has a label")
        named = list(change.get("fact", "named"))
        for row, cells_of_row in enumerate(whole[0].tolist()):
            named[change.get("pair", row)[1]] += sum(cells_of_row) // ONE
        change.put("fact", "named", tuple(named))

    def _start_numbers(self, change: Change, order: NDArray[np.int64], tasks_seen: int) -> None:
        """Take the numbers of the tasks of a saved stream, [tasks]."""
        numbers = order.tolist()
        _need(all(a <= b for a, b in zip([0, *numbers], numbers, strict=False)), "the numbers of tasks never fall")
        _need(not numbers or numbers[-1] < tasks_seen, "a task has a number that comes later")
        for task, number in enumerate(numbers):
            change.put("number", task, number)
        change.put("fact", "tasks seen", tasks_seen)
