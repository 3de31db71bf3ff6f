"""The steps of a stream in plain Python: tasks are settled, leave memory and come back, and workers are judged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.kernels import online_honest as honest
from adjudge.kernels import reference
from adjudge.kernels.online_honest import SHARE_UNITS, PendingChange, Units, shift

# What is known by code or by text. Values are never changed in place, keys are never removed, and new ones come at the
# end: the order of a table is that of the codes. "fitted": 1 if a label is that of the last fit, 2 if it was tied.
# A task that is forgotten is "gone": its code is never used again, and it gets another where it comes back.
# "gold" has the labels that are known for certain, by the text of tasks, seen or not; "held" has them by task. -1: none.
# "number" is the place of a task among all that there were: the order of every list.
BY_TASK: Final = ("task text", "votes", "share", "label", "fitted", "held", "key", "gone", "number")
LOOKUP_TABLES: Final = ("task", *BY_TASK, "gold", "worker", "worker text", "row", "pair", "fact")
SHARE_TABLES: Final = ("count", "total", "pooled")  # what shares add up to: by row, by worker, and by given label
LABEL_TABLES: Final = ("labelled count", "labelled total", "labelled pooled")  # what labels do, where shares are soft
BASE_TABLES: Final = ("base count", "base labelled")  # the part of evicted tasks in the counts by row; a row may be missing
MIN_SAMPLED_VOTES: Final = 1024  # from so many on, most votes leave the label of their task as it is …
LOOKS_PER_DOUBLING: Final = 64  # … and about so many settle it until it has twice as many
WIDE_FACTS: Final = ("classes", "everybody", "labelled classes", "named", "base classes", "base labelled classes")  # [K] each


class StreamSteps:
    """The tables of a stream, and what each step of a change puts into them.

    The methods take a `PendingChange`: they read the state before it with all that the change has put so far.
    """

    def __init__(self, label_hash: Sequence[int], *, seed: int, hard: bool, strength: float) -> None:
        self._seed, self._strength = seed, strength
        zeros = (0,) * len(label_hash)
        self._tables: dict[str, dict[Any, Any]] = {
            name: {} for name in (*LOOKUP_TABLES, *SHARE_TABLES, *LABEL_TABLES, *BASE_TABLES)
        }
        for name in ("pooled", "labelled pooled"):
            self._tables[name] = dict.fromkeys(range(len(label_hash)), zeros)
        self._tables["fact"] = {
            "label hash": np.array(label_hash, np.uint64),  # [K]
            "hard": hard,
            "classes": zeros,  # the counts by class
            "everybody": zeros,  # the counts of all votes
            "settled": 0,  # tasks that have a share
            "labelled classes": zeros,  # tasks by label, where shares are soft
            "named": zeros,  # votes by label, of evicted tasks, too
            "base classes": zeros,  # what evicted tasks add up to, and by label, where shares are soft
            "base labelled classes": zeros,
            "evicted": 0,  # tasks that have left and are not back
            "tasks seen": 0,  # the number of the next one
            "changes": 0,  # votes learned and retracted; a fit counts as very many
            "abstentions": 0,
            "gone": 0,  # tasks
            "measured": None,
            "task numbers": False,
            "worker numbers": False,
        }

    @property
    def _k(self) -> int:
        return len(self._label_hash)

    @property
    def _label_hash(self) -> NDArray[np.uint64]:
        hashes: NDArray[np.uint64] = self._tables["fact"]["label hash"]
        return hashes

    def _widen(self, change: PendingChange, label_hash: int) -> None:
        """Add a label, after all others."""
        for name in (*SHARE_TABLES, *LABEL_TABLES, *BASE_TABLES, "share"):
            for key, line in change.merge()[name].items():
                change.put(name, key, (*line, 0))
        for name in WIDE_FACTS:
            change.put("fact", name, (*change.get("fact", name), 0))
        for name in ("pooled", "labelled pooled"):
            change.put(name, self._k, (0,) * (self._k + 1))
        change.put("fact", "label hash", np.append(self._label_hash, np.uint64(label_hash)))
        measured: honest.Measured | None = change.get("fact", "measured")
        if measured is not None:  # nobody has given the label: it was not part of the measurement
            change.put("fact", "measured", honest.widen(measured))

    def _find(self, state: PendingChange, text: str) -> int | None:
        """Return the code of a task, None if there is no such task."""
        place: int | None = state.get("task", text)
        return None if place is None or state.get("gone", place) else place

    def _gold(self, state: PendingChange, text: str) -> int:
        """Return the label that a task has for certain, seen or not; -1 if there is none."""
        label: int | None = state.get("gold", text)
        return -1 if label is None else label

    def _certain(self, label: int) -> list[float]:
        return [float(c == label) for c in range(self._k)]

    def _live(self, state: PendingChange) -> int:
        """Return how many tasks there are."""
        gone: int = state.get("fact", "gone")
        return state.size("votes") - gone

    def _alive(self, state: PendingChange) -> dict[str, dict[Any, Any]]:
        """Return the tables of the tasks that there are, in the order of their numbers."""
        whole, kept = state.merge(), self._in_order(state)
        return {**whole, **{name: {task: whole[name][task] for task in kept} for name in BY_TASK}}

    def _in_order(self, state: PendingChange) -> list[int]:
        """Return the codes of the tasks that there are, in the order of their numbers."""
        tasks = [task for task in range(state.size("votes")) if not state.get("gone", task)]
        return sorted(tasks, key=lambda task: int(state.get("number", task)))

    def _task(self, change: PendingChange, text: str) -> int:
        place = self._find(change, text)
        if place is None:
            place = change.next_code("task", text)
            data = np.frombuffer(text.encode(), np.uint8)
            hashed = reference.hash_texts(np.array([0, len(data)], np.int64), data)
            change.put_task(place, votes=(), share=(0,) * self._k, label=-1, fitted=0, held=self._gold(change, text), gone=False)
            change.put_task(place, key=reference.tie_keys(hashed, self._seed), number=change.get("fact", "tasks seen"))
            change.add("tasks seen", 1)
        return place

    def _row(self, change: PendingChange, worker: int, label: int) -> int:
        for who in range(change.size("total"), worker + 1):
            for name in ("total", "labelled total"):
                change.put(name, who, (0,) * self._k)
        row: int | None = change.get("row", (worker, label))
        if row is None:
            row = change.size("pair")
            change.put("row", (worker, label), row)
            change.put("pair", row, (worker, label))
            for name in ("count", "labelled count"):
                change.put(name, row, (0,) * self._k)
        return row

    def _drop(self, change: PendingChange, task: int, worker: int) -> None:
        rows = change.get("votes", task)
        self._name(change, [row for row in rows if change.get("pair", row)[0] == worker], -1)
        change.put("votes", task, tuple(row for row in rows if change.get("pair", row)[0] != worker))

    def _name(self, change: PendingChange, rows: list[int], sign: int) -> None:
        """Count votes by their label."""
        named = list(change.get("fact", "named"))
        for row in rows:
            named[change.get("pair", row)[1]] += sign
        change.put("fact", "named", tuple(named))

    def _take_out(self, change: PendingChange, task: int) -> None:
        """Take the part of a task out of all counts, before its votes change."""
        self._put(change, task, -1)
        self._put_label(change, task, -1)

    def _put(self, change: PendingChange, task: int, sign: int) -> None:
        """Add the share of a task to all counts, or take it out."""
        rows, share = change.get("votes", task), change.get("share", task)
        if not rows:
            return
        change.shift("fact", "classes", share, sign)
        change.add("settled", sign)
        for row in rows:
            change.count(SHARE_TABLES, row, share, sign)
            change.shift("fact", "everybody", share, sign)

    def _put_label(self, change: PendingChange, task: int, sign: int) -> None:
        """Add the label of a task to the counts of labels, or take it out; where shares are hard, they are these counts."""
        rows, label = change.get("votes", task), change.get("label", task)
        if not rows or label < 0 or change.get("fact", "hard"):
            return
        share = self._one_hot(label)
        for row in rows:
            change.count(LABEL_TABLES, row, share, sign)
        change.shift("fact", "labelled classes", share, sign)

    def _settles_next(self, change: PendingChange, task: int) -> bool:
        """Return whether the next vote on a task settles it: large tasks settle on a fraction of their votes."""
        votes, every = len(change.get("votes", task)), 1
        if votes < MIN_SAMPLED_VOTES:
            return True
        while every * 2 * LOOKS_PER_DOUBLING <= votes:
            every *= 2
        return int(reference.mix(np.array([change.get("fact", "changes")], np.uint64))[0]) % every == 0

    def _settle(self, change: PendingChange, task: int) -> None:
        """Update one task by the paper's step: majority vote, M-step, E-step for this task, M-step."""
        rows = change.get("votes", task)
        change.put("fitted", task, 0)
        if not rows:
            change.put_task(task, share=(0,) * self._k, label=-1)
            return
        held = change.get("held", task)
        if held >= 0:
            change.put("share", task, self._one_hot(held))
            self._put(change, task, 1)
            change.put("label", task, held)
            self._put_label(change, task, 1)
            return
        ballots = [0.0] * self._k
        for row in rows:
            ballots[change.get("pair", row)[1]] += 1.0
        hard = change.get("fact", "hard")
        start = self._one_hot(self._pick(change, task, ballots)[0]) if hard else honest.share_of([b / len(rows) for b in ballots])
        change.put("share", task, start)
        self._put(change, task, 1)
        label, _, posterior = self._predict(change, task)
        self._put(change, task, -1)
        change.put("share", task, self._one_hot(label) if hard else honest.share_of(posterior))
        self._put(change, task, 1)
        change.put("label", task, label)
        self._put_label(change, task, 1)

    def _adopt(
        self,
        change: PendingChange,
        places: Sequence[int | None],  # [tasks] where each is in the arrays
        task_ptr: NDArray[np.int64],
        row: NDArray[np.uint32],
        winners: NDArray[np.int32],
        units: NDArray[np.int64] | None,
        fitted: NDArray[np.uint8] | None,
        gold: NDArray[np.int32] | None,
    ) -> None:
        zeros = (0,) * self._k
        self._begin_with_base(change, units is None)
        change.add("changes", honest.FIT)
        cuts, rows, changed = task_ptr.tolist(), row.tolist(), []
        for task in self._in_order(change):
            at, votes, held = places[task], change.get("votes", task), change.get("held", task)
            if (
                at is None
                or tuple(rows[cuts[at] : cuts[at + 1]]) != votes
                or (gold is not None and gold[at] != held)
                or (held >= 0 and votes and winners[at] != held)
            ):
                changed.append(task)
                change.put_task(task, share=zeros, label=-1)
                continue
            label = int(winners[at]) if votes else -1
            share = self._one_hot(label) if units is None else (*units[at].tolist(), *zeros[units.shape[1] :])
            change.put_task(task, share=share, label=label, fitted=0 if fitted is None or not votes else int(fitted[at]))
            self._put(change, task, 1)
            self._put_label(change, task, 1)
        for task in changed:
            self._settle(change, task)

    def _begin_with_base(self, change: PendingChange, hard: bool) -> None:
        """Set all counts to what evicted tasks add up to; a fit that ends hard leaves them their labels alone."""
        was_hard, zeros = change.get("fact", "hard"), (0,) * self._k
        if was_hard and not hard and change.get("fact", "evicted"):
            raise ValueError("tasks that were evicted have labels, and no probabilities")
        rows = range(change.size("pair"))
        if hard and not was_hard:
            for row in rows:
                change.put("base count", row, change.get("base labelled", row) or zeros)
            change.put("fact", "base classes", change.get("fact", "base labelled classes"))
        if hard:
            for row in rows:
                change.put("base labelled", row, zeros)
            change.put("fact", "base labelled classes", zeros)
        change.put("fact", "hard", hard)
        for base, names, classes in zip(BASE_TABLES, (SHARE_TABLES, LABEL_TABLES), ("classes", "labelled classes"), strict=True):
            for name, size in zip(names, (len(rows), change.size("total"), self._k), strict=True):
                for key in range(size):
                    change.put(name, key, zeros)
            everybody = zeros
            for row in rows:
                line = change.get(base, row) or zeros
                change.count(names, row, line)
                everybody = shift(everybody, line, 1)
            change.put("fact", classes, change.get("fact", f"base {classes}"))
            if base == "base count":
                change.put("fact", "everybody", everybody)
        change.put("fact", "settled", sum(change.get("fact", "base classes")) // SHARE_UNITS)

    def _names(self, state: PendingChange) -> tuple[str, str, str]:
        """Return the sums of the tasks' labels as tables: by row, by worker, by given label."""
        return SHARE_TABLES if state.get("fact", "hard") else LABEL_TABLES

    def _classes(self, state: PendingChange) -> str:
        return "classes" if state.get("fact", "hard") else "labelled classes"

    def _due(self, state: PendingChange, kind: int, ahead: int = 0) -> int:
        changes = state.get("fact", "changes") + ahead
        return honest.due(state.get("fact", "measured"), kind, changes, state.get("fact", "named"))

    def _answer(self, state: PendingChange, task: int, kind: int) -> tuple[int, bool, list[float]]:
        """Return (label, tie, probabilities) of one task under this confidence."""
        held = state.get("held", task)
        if held >= 0:
            return held, False, self._certain(held)
        label, tie, posterior = self._predict(state, task)
        if not state.get("votes", task):
            return label, False, posterior
        fitted = state.get("fitted", task)
        if fitted:
            label, tie = state.get("label", task), fitted > 1
        if kind == honest.POSTERIOR:
            return label, tie, posterior
        near, probabilities = honest.last_step(self._honest(state, task), label)
        return label, tie or near, probabilities

    def _honest(self, state: PendingChange, task: int) -> list[float]:
        """Return the honest probabilities of a task with votes, before the last step of the rule."""
        count, total, _ = self._names(state)
        ballots = []
        for row in state.get("votes", task):
            worker, given = state.get("pair", row)
            ballots.append(honest.RuleVote(given, state.get(count, row), state.get(total, worker)))
        return honest.before_last_step(ballots, state.get("label", task), state.get("fact", "measured"), SHARE_UNITS)

    def _predict(self, state: PendingChange, task: int) -> tuple[int, bool, list[float]]:
        """Return (label, tie, posterior) of the E-step of one task."""
        settled, classes = state.get("fact", "settled"), state.get("fact", "classes")
        whole = float(settled) * float(SHARE_UNITS)
        prior = [honest.log(float(c) / whole) for c in classes] if settled > 0 else [-math.log(float(self._k))] * self._k
        scores = list(prior)
        for line in self._lines(state, task, honest.TOGETHER):
            scores = [score + x for score, x in zip(scores, line, strict=True)]
        if all(score == honest.LOG_ZERO for score in scores):
            scores = honest.limit(prior, self._lines(state, task, 1))
        label, tie = self._pick(state, task, scores)
        best = max(scores)
        same = best - reference.SAME_SCORE_TOLERANCE * max(1.0, abs(best))
        posterior = [1.0 if score >= same else math.exp(score - best) for score in scores]  # such scores are one score
        total = 0.0
        for p in posterior:  # in this order: sum() may add more exactly
            total += p
        return label, tie, [p / total for p in posterior]

    def _lines(self, state: PendingChange, task: int, each: int) -> list[list[float]]:
        """Return log pi of a task's votes, [lines, K]; each line is the sum of `each` votes, the last of fewer."""
        k, rows, extra = self._k, state.get("votes", task), self._strength * float(SHARE_UNITS)
        pooled = [state.get("pooled", given) for given in range(k)]
        lent = [extra / float(total) if total > 0 else None for total in state.get("fact", "everybody")]
        lines = []
        for first in range(0, len(rows), each):
            product = [1.0] * k
            for row in rows[first : first + each]:
                worker, given = state.get("pair", row)
                seen, own, mean = state.get("count", row), state.get("total", worker), pooled[given]
                for c, share in enumerate(lent):
                    part = float(seen[c]) + (extra / k if share is None else share * float(mean[c]))
                    product[c] *= part / (float(own[c]) + extra) if part > 0.0 else 0.0
            lines.append([honest.log(p) for p in product])
        return lines

    def _pick(self, state: PendingChange, task: int, scores: list[float]) -> tuple[int, bool]:
        winner, tie = reference.pick(np.array([scores]), state.get("key", task), self._label_hash)
        return int(winner[0]), bool(tie[0])

    def _one_hot(self, label: int) -> Units:
        return tuple(SHARE_UNITS if c == label else 0 for c in range(self._k))


# (worker, label) of its votes, in order; label, -1 without votes; probabilities in units, soft; whether the label is that of
# the last fit; gold, or -1; number
Record = tuple[Sequence[tuple[str, int]], int, Units | None, int, int, int]
MAX_UNITS: Final = 1 << 62  # units in a base: half the range of a count of the compiled state


def is_record(given: object) -> bool:
    """Return whether something has the form of a record."""
    if not isinstance(given, tuple) or len(given) != len(Record.__args__):  # type: ignore[attr-defined]
        return False
    votes, label, units, fitted, gold, number = given
    whole = (label, fitted, gold, number, *(units or ()))
    pairs = isinstance(votes, list | tuple) and all(isinstance(vote, tuple) and len(vote) == 2 for vote in votes)
    return pairs and all(type(x) is int for x in whole) and all(type(w) is str and type(c) is int for w, c in votes)


def _require(fine: object, what: str) -> None:
    if not fine:
        raise ValueError(what)


class Evicting(StreamSteps):
    """The steps of eviction: the share of a task moves from its own tables into a base, and back."""

    def _shift_base(self, change: PendingChange, rows: list[int], label: int, units: Units, sign: int) -> None:
        """Add the share of a task to the base, or take it out; `units` are [K]."""
        if not rows:
            return
        hard, one = change.get("fact", "hard"), self._one_hot(label)
        parts = (("base count", "base classes", one if hard else units), ("base labelled", "base labelled classes", one))
        for table, classes, share in parts[: 1 if hard else 2]:
            for row in rows:
                change.put(table, row, shift(self._base_line(change, table, row), share, sign))
            change.shift("fact", classes, share, sign)

    def _base_line(self, state: PendingChange, table: str, row: int) -> Units:
        line: Units | None = state.get(table, row)
        return (0,) * self._k if line is None else line

    def _table_of_labels(self, state: PendingChange) -> str:
        return "base count" if state.get("fact", "hard") else "base labelled"

    def _base_votes(self, state: PendingChange) -> list[int]:
        """Return the votes of evicted tasks by given and true label, [K * K]."""
        out, table = [0] * self._k**2, self._table_of_labels(state)
        for row, (_, given) in state.merge()["pair"].items():
            for c, units in enumerate(self._base_line(state, table, row)):
                out[given * self._k + c] += units
        return [units // SHARE_UNITS for units in out]

    def _leave(self, change: PendingChange, task: int, text: str) -> Record:
        """Take a task out of memory, but not what was learned from it, and return what it was."""
        rows, hard = list(change.get("votes", task)), change.get("fact", "hard")
        label, share = change.get("label", task), change.get("share", task)
        held, number = change.get("held", task), change.get("number", task)
        pairs = [change.get("pair", row) for row in rows]
        votes = [(change.get("worker text", who), given) for who, given in pairs]
        base = sum(sum(line) for line in change.merge()["base count"].values())
        _require(len(rows) <= (MAX_UNITS - base) // SHARE_UNITS, "more votes were evicted than counts can hold")
        record = (votes, label, None if hard else share, change.get("fitted", task), held, number)
        self._shift_base(change, rows, label, share, 1)
        change.put_task(task, votes=(), share=(0,) * self._k, label=-1, fitted=0, held=-1, gone=True)
        if held >= 0:
            change.put("gold", text, -1)
        change.add("gone", 1)
        change.add("evicted", 1)
        return record

    def _come_back(self, change: PendingChange, text: str, record: Record) -> int:
        """Make an evicted task a task again; raise if it is no such record of this stream."""
        votes, label, units, fitted, held, number = record
        hard = change.get("fact", "hard")
        _require(self._find(change, text) is None, "the task is in memory")
        _require(0 <= label < self._k if votes else label == -1, "a label for every task that has votes")
        _require(-1 <= held < self._k and (held < 0 or not votes or label == held), "no such gold")
        _require(0 <= fitted <= (2 if votes else 0), "whether a fit gave the label")
        share = self._one_hot(label) if hard else self._check_units(units, bool(votes))
        _require(hard or held < 0 or not votes or share[held] == SHARE_UNITS, "no such gold")
        rows = []
        for worker, given in votes:
            row = change.get("row", (change.get("worker", worker), given))
            _require(row is not None, "its votes are not among those of evicted tasks")
            rows.append(row)
        _require(change.get("fact", "evicted"), "no task was evicted")
        _require(0 <= number < change.get("fact", "tasks seen"), "it has a number that no task had")
        self._shift_base(change, rows, label, share, -1)
        lines = [self._base_line(change, table, row) for row in rows for table in BASE_TABLES]
        lines += [change.get("fact", name) for name in ("base classes", "base labelled classes")]
        _require(all(cell >= 0 for line in lines for cell in line), "its votes are not among those of evicted tasks")
        change.add("evicted", -1)
        newer = self._gold(change, text)  # given while it was away
        task = self._task(change, text)
        change.add("tasks seen", -1)
        change.put_task(task, votes=tuple(rows), share=share, label=label, fitted=fitted, held=held, number=number)
        if newer < 0 <= held:
            change.put("gold", text, held)
        if newer >= 0 and newer != held:
            self._take_out(change, task)
            change.put("held", task, newer)
            self._settle(change, task)
            change.add("changes", len(rows))
        return task

    def _check_units(self, units: Units | None, has_votes: bool) -> Units:
        if units is None or len(units) > self._k:
            raise ValueError("its probabilities are missing")
        fine = all(share >= 0 for share in units) and sum(units) == (SHARE_UNITS if has_votes else 0)
        _require(fine, "its probabilities sum to one")
        return (*units, *(0,) * (self._k - len(units)))

    def _start_base(self, change: PendingChange, hard: bool, evicted: int, arrays: dict[str, NDArray[Any] | None]) -> None:
        """Take the base of a saved stream: its arrays by name."""
        counts, classes = arrays["base_counts"], arrays["base_classes"]
        _require(evicted >= 0 and (evicted > 0) == (counts is not None), "what evicted tasks add up to")
        if counts is None:
            return
        labelled, by_label = arrays["base_labelled"], arrays["base_labelled_classes"]
        _require((labelled is None) == hard, "what evicted tasks add up to")
        change.put("fact", "evicted", evicted)
        whole = (counts, classes) if labelled is None else (labelled, by_label)
        for name, lines, line in (("count", counts, classes), ("labelled", *whole)):
            assert line is not None
            cells, tasks = [int(x) for x in lines.ravel().tolist()], [int(x) for x in line.tolist()]
            _require(min(cells, default=0) >= 0 and sum(cells) <= MAX_UNITS, "what evicted tasks add up to is from 0 on")
            _require(min(tasks) >= 0 and sum(tasks) <= sum(cells), "evicted tasks are counted from 0 on")
            _require(
                sum(tasks) % SHARE_UNITS == 0 and sum(tasks) <= evicted * SHARE_UNITS, "evicted tasks have at least one vote each"
            )
            _require(
                name == "count" or not any(x % SHARE_UNITS for x in (*cells, *tasks)), "the labels of evicted tasks are whole"
            )
            for row, cells_of_row in enumerate(lines.tolist()):
                change.put(f"base {name}", row, tuple(cells_of_row))
            change.put("fact", "base classes" if name == "count" else "base labelled classes", tuple(tasks))
        _require(
            (counts.sum(axis=1) == whole[0].sum(axis=1)).all(), "evicted tasks have as many votes by label as by probability"
        )
        _require(
            classes is not None and whole[1] is not None and classes.sum() == whole[1].sum(), "every evicted task has a label"
        )
        named = list(change.get("fact", "named"))
        for row, cells_of_row in enumerate(whole[0].tolist()):
            named[change.get("pair", row)[1]] += sum(cells_of_row) // SHARE_UNITS
        change.put("fact", "named", tuple(named))

    def _start_numbers(self, change: PendingChange, order: NDArray[np.int64], tasks_seen: int) -> None:
        """Take the numbers of the tasks of a saved stream, [tasks]."""
        numbers = order.tolist()
        _require(all(a <= b for a, b in zip([0, *numbers], numbers, strict=False)), "the numbers of tasks never fall")
        _require(not numbers or numbers[-1] < tasks_seen, "a task has a number that comes later")
        for task, number in enumerate(numbers):
            change.put("number", task, number)
        change.put("fact", "tasks seen", tasks_seen)


Floats = NDArray[np.float64]


class Judging(Evicting):
    """The steps of judging workers; see `Online::crowd` and `Online::judge` in the core."""

    def _crowd(self, state: PendingChange, whole: Mapping[str, Mapping[Any, Any]], kind: int) -> tuple[Any, ...]:
        """Return sums over a sample of the tasks (`whole`), and the last measurement; probabilities are in units."""
        k = self._k
        votes, right, doubt = (np.zeros((k, k), np.int64) for _ in range(3))
        open_sizes = [len(rows) for task, rows in whole["votes"].items() if whole["held"][task] < 0]
        cast, pairs = sum(open_sizes), sum(size * (size - 1) for size in open_sizes)
        every = max(1, sum(map(len, whole["votes"].values())) * k // honest.SAMPLED_CELLS)
        for task, rows in whole["votes"].items():
            if not rows or int(reference.mix(np.array([whole["number"][task]], np.uint64))[0]) % every:
                continue
            held, label = whole["held"][task], whole["label"][task]
            if held >= 0:
                likely = self._certain(held)
            else:
                likely = self._predict(state, task)[2] if kind == honest.POSTERIOR else self._honest(state, task)
            for row in rows:
                given = whole["pair"][row][1]
                votes[given, label] += 1
                right[given, label] += honest.answer_units(likely[given])
                doubt[given, label] += honest.answer_units(1.0 - likely[label])
        measured: honest.Measured | None = None if kind == honest.POSTERIOR else state.get("fact", "measured")
        if measured is None:
            return votes, right, doubt, cast, pairs, 0.0, np.zeros(0), np.zeros(0)
        mean = np.array([measured.lent[c][c] / measured.lent_total for c in range(k)])
        return votes, right, doubt, cast, pairs, measured.shared_error, np.array(measured.log_prior, np.float64), mean

    def _judge(self, state: PendingChange, workers: Sequence[str], right: Floats, doubt: Floats) -> tuple[Any, Any, Any]:
        """Return votes of workers, and sums of what arrays, [K given, K label], say of each, [workers] each."""
        count, _, _ = self._names(state)
        votes, sums = np.zeros(len(workers), np.int64), np.zeros((2, len(workers)))
        for at, worker in enumerate(workers):
            who = state.get("worker", worker)
            for given in range(self._k) if who is not None else ():
                row = state.get("row", (who, given))
                for label, units in enumerate(() if row is None else state.get(count, row)):
                    number = units // SHARE_UNITS
                    votes[at] += number
                    for out, cells in zip(sums, (right, doubt), strict=True):
                        out[at] += float(number) * cells[given, label]
        return votes, sums[0], sums[1]

    def _worker_table(self, change: PendingChange, kind: int) -> tuple[honest.Texts, bool, Any, Any, Any]:
        """Return ids, whether they came as numbers, votes, expected right votes and doubts in units, of every worker."""
        state = change.merge()
        votes, right, doubt = (np.zeros(len(state["worker"]), np.int64) for _ in range(3))
        for task, rows in state["votes"].items():
            held, before = state["held"][task], None
            if rows and kind != honest.POSTERIOR:
                before = self._honest(change, task) if held < 0 else self._certain(held)
            for row in rows:
                who, given = state["pair"][row]
                votes[who] += 1
                if before is not None:
                    right[who] += honest.answer_units(before[given])
                    doubt[who] += honest.answer_units(1.0 - before[state["label"][task]])
        if kind != honest.POSTERIOR:
            return honest.pack(state["worker"]), state["fact"]["worker numbers"], votes, right, doubt
        for row, (who, given) in state["pair"].items():
            right[who] += state["count"][row][given] - self._base_line(change, "base count", row)[given]
        return honest.pack(state["worker"]), state["fact"]["worker numbers"], votes, right, doubt
