"""The numbers of the online state: shares in whole units, scores in logarithms."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from quorate.kernels import honest_online_reference as honest
from quorate.kernels import reference
from quorate.kernels.honest_online_reference import TOGETHER
from quorate.kernels.online_tables import Change, Texts, pack, unpack

ONE: Final = 1 << 32  # units
NEVER: Final = -math.inf
NONE: Final = 0xFFFFFFFF  # the code of a label that is not there
Units = tuple[int, ...]  # [K]
# What is known by code or by text. Values are never changed in place, keys are never removed, and new ones come at the
# end: the order of a table is that of the codes. "fitted": 1 where a label is that of the last fit, 2 where it was tied.
# A task that is forgotten is "gone": its code is never used again, and it gets another where it comes back.
# "gold" has the labels that are known for certain, by the text of tasks, seen or not; "held" has them by task. -1: none.
BY_TASK: Final = ("task text", "votes", "share", "label", "fitted", "held", "key", "gone")
TABLES: Final = ("task", *BY_TASK, "gold", "worker", "worker text", "row", "pair", "fact")
SHARED: Final = ("count", "total", "pooled")  # what shares add up to: by row, by worker, and by given label
LABELLED: Final = ("labelled count", "labelled total", "labelled pooled")  # what labels do, where shares are soft
P = ParamSpec("P")
R = TypeVar("R")


def to_units(probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return probabilities, [n, K], as units that sum to one exactly; the largest absorbs the rounding error."""
    units = np.rint(probabilities * ONE).astype(np.int64)
    largest = probabilities.argmax(axis=1)
    units[np.arange(len(units)), largest] += ONE - units.sum(axis=1)
    return units


def share_of(probabilities: list[float]) -> Units:
    """Return what `to_units` does, for one task."""
    units = [round(p * float(ONE)) for p in probabilities]
    units[probabilities.index(max(probabilities))] += ONE - sum(units)
    return tuple(units)


def limit(prior: list[float], lines: list[list[float]]) -> list[float]:
    """Return the scores of a task that every label excludes, in the limit of smoothing to 0, [K].

    The labels with the fewest impossible votes keep the finite part of their score; a prior of 0 excludes a label.
    """
    misses, finite = [], []
    for c, start in enumerate(prior):
        score, impossible = start, 0
        for line in lines:
            impossible += line[c] == NEVER
            score += 0.0 if line[c] == NEVER else line[c]
        misses.append(math.inf if start == NEVER else impossible)
        finite.append(score)
    fewest = min(misses)
    return [score if missed == fewest else NEVER for score, missed in zip(finite, misses, strict=True)]


def log(x: float) -> float:
    """Return the logarithm, minus infinity for 0."""
    return math.log(x) if x > 0.0 else NEVER


def shifted(line: Units, share: Units, sign: int) -> Units:
    """Return a line of counts after a share was put in (1) or taken out (-1)."""
    return tuple(a + sign * b for a, b in zip(line, share, strict=True))


def _alone(method: Callable[Concatenate[Online, P], R]) -> Callable[Concatenate[Online, P], R]:
    """Return a method that runs exclusively, after completing any change that an exception interrupted."""

    @functools.wraps(method)
    def run(self: Online, *given: P.args, **options: P.kwargs) -> R:
        # One line, so that not even a tracer that raises at a line can come between the call and the release.
        with self._lock: return method(self, *given, **options)  # noqa: E701  # fmt: skip

    return cast("Callable[Concatenate[Online, P], R]", run)


class Online:
    """Counts kept vote by vote; the same methods as the compiled `Online`.

    A change is prepared separately, becomes part of the state by one assignment (`_pending`), and is then copied into the
    tables. Copying twice is harmless, so an exception at any moment leaves the state before the change or after it.
    """

    def __init__(self, label_hash: Sequence[int], *, seed: int, hard: bool, strength: float, replace: bool) -> None:
        self._k = len(label_hash)
        self._label_hash = np.array(label_hash, np.uint64)
        self._seed, self._strength, self._replace = seed, strength, replace
        self._lock = threading.RLock()
        zeros = (0,) * self._k
        self._tables: dict[str, dict[Any, Any]] = {name: {} for name in (*TABLES, *SHARED, *LABELLED)}
        for name in ("pooled", "labelled pooled"):
            self._tables[name] = dict.fromkeys(range(self._k), zeros)
        self._tables["fact"] = {
            "hard": hard,
            "classes": zeros,  # the counts by class
            "everybody": zeros,  # the counts of all votes
            "settled": 0,  # tasks that have a share
            "labelled classes": zeros,  # tasks by label, where shares are soft
            "named": zeros,  # votes by label
            "changes": 0,  # votes learned and retracted; a fit counts as very many
            "abstentions": 0,
            "gone": 0,  # tasks
            "measured": None,
            "task numbers": False,
            "worker numbers": False,
        }
        self._pending: dict[str, dict[Any, Any]] | None = None

    @property
    @_alone
    def tasks(self) -> int:
        """The number of tasks."""
        return self._live(self._begin())

    @property
    @_alone
    def abstentions(self) -> int:
        """The number of votes without a label."""
        found: int = self._begin().get("fact", "abstentions")
        return found

    @property
    @_alone
    def workers(self) -> int:
        """The number of workers."""
        return self._begin().size("worker")

    @_alone
    def learn(self, task: str, worker: str, label: int, task_numbers: bool, worker_numbers: bool) -> None:
        """Learn one vote; the first id decides whether ids are returned as numbers."""
        self._learn([task], [worker], [label], task_numbers, worker_numbers)

    @_alone
    def abstain(self, task: str, worker: str, task_numbers: bool, worker_numbers: bool) -> None:
        """Count a vote without a label: its task and its worker are known from then on."""
        self._learn([task], [worker], [NONE], task_numbers, worker_numbers)

    @_alone
    def learn_many(self, frame: Any, labels: NDArray[np.uint32], task_numbers: bool, worker_numbers: bool) -> None:
        """Learn votes in order, all or none: the columns `task` and `worker` of a frame, and codes of labels; NONE abstains."""
        self._learn(frame["task"].to_list(), frame["worker"].to_list(), labels.tolist(), task_numbers, worker_numbers)

    @_alone
    def retract(self, task: str, worker: str) -> int:
        """Retract all votes of a worker on a task, and return their number."""
        change = self._begin()
        place, who = self._find(change, task), change.get("worker", worker)
        if place is None or who is None:
            return 0
        theirs: int = sum(change.get("pair", row)[0] == who for row in change.get("votes", place))
        if theirs:
            self._take_out(change, place)
            self._drop(change, place, who)
            self._settle(change, place)
            self._changed(change, theirs)
            self._commit(change)
        return theirs

    @_alone
    def set_gold(self, task: str, label: int) -> bool:
        """Fix the label of a task, seen or not, or free it (-1); return False where there is nothing to free."""
        if not -1 <= label < self._k:
            raise ValueError("no such label")
        change = self._begin()
        if label < 0 and self._gold(change, task) < 0:
            return False
        change.put("gold", task, label)
        place = self._find(change, task)
        if place is not None:
            self._take_out(change, place)
            change.put("held", place, label)
            self._settle(change, place)
            self._changed(change, len(change.get("votes", place)))
        self._commit(change)
        return True

    @_alone
    def forget(self, task: str) -> int:
        """Take a task and all its votes back, and return how many there were; -1 where there is no such task."""
        change = self._begin()
        place = self._find(change, task)
        if place is None:
            return -1
        rows = change.get("votes", place)
        self._take_out(change, place)
        self._name(change, rows, -1)
        change.put("votes", place, ())
        self._settle(change, place)
        self._changed(change, len(rows))
        if self._gold(change, task) >= 0:
            change.put("gold", task, -1)
        change.put("held", place, -1)
        change.put("gone", place, True)
        change.put("fact", "gone", change.get("fact", "gone") + 1)
        self._commit(change)
        return len(rows)

    @_alone
    def predict(self, task: str, kind: int) -> tuple[int, bool, int, bool, list[float]] | bool | None:
        """Return (label, tie, votes, whether it is gold, probabilities [K]) of a task, None for an unknown one.

        False says that a renewal is due. The label is -1 without votes. `kind` is that of the confidence: see
        `honest_online_reference`.
        """
        state = self._begin()
        place, gold = self._find(state, task), self._gold(state, task)
        if place is None:
            return None if gold < 0 else (gold, False, 0, True, self._certain(gold))
        if self._due(state, kind):
            return False
        label, tie, probabilities = self._answer(state, place, kind)
        votes = len(state.get("votes", place))
        return label if votes or gold >= 0 else -1, tie, votes, gold >= 0, probabilities

    @_alone
    def due(self, kind: int) -> int:
        """Return what must be renewed for readers of such confidence."""
        return self._due(self._begin(), kind)

    @_alone
    def measure(self, sums: bool) -> tuple[Any, list[int], list[int], list[int], int, int]:
        """Return (sums over pairs of votes, votes by given and true label, those on gold, tasks by label, votes, changes)."""
        state = self._begin()
        _, _, pooled = self._names(state)
        given = [units // ONE for label in range(self._k) for units in state.get(pooled, label)]
        classes = [units // ONE for units in state.get("fact", self._classes(state))]
        pairs, named, on_gold = None, state.get("fact", "named"), [0] * self._k**2
        if sums:
            tasks, open_votes = [], list(named)
            for task in range(state.size("votes")):
                votes = [state.get("pair", row) for row in state.get("votes", task)]
                held = state.get("held", task)
                if held >= 0:
                    for _, label in votes:
                        on_gold[label * self._k + held] += 1
                        open_votes[label] -= 1
                    continue
                ballots = [0.0] * self._k
                for _, label in votes:
                    ballots[label] += 1.0
                tasks.append((votes, self._pick(state, task, ballots)[0], state.get("label", task)))
            agreeing = sum(given[:: self._k + 1]) - sum(on_gold[:: self._k + 1])
            pairs = honest.pair_sums(tasks, tuple(open_votes), agreeing)
        return pairs, given, on_gold, classes, sum(named), state.get("fact", "changes")

    @_alone
    def measured(self) -> tuple[float, float, int, int]:
        """Return (shared_error, holds, votes, changes) of the last renewal."""
        found: honest.Measured = self._begin().get("fact", "measured")
        return found.shared_error, found.holds, found.votes, found.changes

    @_alone
    def install(
        self,
        lent: NDArray[np.float64],
        lent_total: float,
        log_prior: NDArray[np.float64],
        uniform: NDArray[np.float64],
        shared_error: float,
        holds: float,
        votes: int,
        changes: int,
    ) -> None:
        """Keep what a renewal measured; `lent` is [K given, K true], `log_prior` and `uniform` are [K]."""
        change, rule = self._begin(), (log_prior, uniform, shared_error, holds)
        change.put("fact", "measured", honest.measured_of(lent, lent_total, rule, votes, changes, ONE))
        self._commit(change)

    @_alone
    def confusion(self, worker: str, out: NDArray[np.float64]) -> bool:
        """Return whether a worker has rows, and fill in the worker's current pi. OUT [K true, K given]."""
        state = self._begin()
        who = state.get("worker", worker)
        total = None if who is None else state.get("total", who)
        if total is None:
            return False
        pooled = [state.get("pooled", given) for given in range(self._k)]
        for c in range(self._k):
            whole, everybody = total[c] / ONE + self._strength, state.get("fact", "everybody")[c]
            for given in range(self._k):
                row = state.get("row", (who, given))
                seen = 0.0 if row is None else state.get("count", row)[c] / ONE
                mean = float(pooled[given][c]) / float(everybody) if everybody > 0 else 1.0 / self._k
                lent = self._strength * mean if self._strength > 0 else 0.0
                out[c, given] = (seen + lent) / whole if whole > 0 else 0.0
        return True

    @_alone
    def snapshot(self) -> dict[str, Any]:
        """Return a consistent snapshot as the arrays of a saved stream, and which ids came as numbers."""
        state = self._alive(self._begin())
        votes, pairs = list(state["votes"].values()), np.array(list(state["pair"].values()), np.uint32).reshape(-1, 2)
        task_ptr = np.zeros(len(votes) + 1, np.int64)
        np.cumsum([len(rows) for rows in votes], out=task_ptr[1:])
        shares = np.array(list(state["share"].values()), np.int64).reshape(-1, self._k)
        labels = np.array(list(state["label"].values()), np.int32)
        golds = sorted((task for task, label in state["gold"].items() if label >= 0), key=str.encode)
        gold_offsets, gold_texts = pack(golds)
        (task_offsets, task_texts), (worker_offsets, worker_texts) = pack(state["task text"].values()), pack(state["worker"])
        return {
            "task_offsets": task_offsets,
            "task_texts": task_texts,
            "worker_offsets": worker_offsets,
            "worker_texts": worker_texts,
            "row_worker": pairs[:, 0].copy(),
            "row_label": pairs[:, 1].copy(),
            "task_ptr": task_ptr,
            "row": np.array([row for rows in votes for row in rows], np.uint32),
            "shares": labels if state["fact"]["hard"] else shares,
            "labels": labels,
            "fitted": np.array(list(state["fitted"].values()), np.uint8),
            "task_gold": np.array(list(state["held"].values()), np.int32),
            "gold_offsets": gold_offsets,
            "gold_texts": gold_texts,
            "gold_labels": np.array([state["gold"][task] for task in golds], np.int32),
            "abstentions": state["fact"]["abstentions"],
            "numbers": (state["fact"]["task numbers"], state["fact"]["worker numbers"]),
        }

    @_alone
    def task_table(self, kind: int) -> tuple[Texts, bool, Any, Any, Any, Any, Any] | bool:
        """Return (ids, whether they came as numbers, label, confidence, tie, votes, whether it is gold) of every task.

        The label is -1 without votes and gold. The last is None where there is no gold at all.
        """
        state = self._begin()
        if self._due(state, kind):
            return False
        whole = self._alive(state)
        found = [self._answer(state, task, kind) for task in whole["votes"]]
        votes = np.array([len(rows) for rows in whole["votes"].values()], np.int64)
        label = np.array([f[0] for f in found], np.int32)
        confidence = np.array([posterior[winner] for winner, _, posterior in found], np.float64)
        tie = np.array([f[1] for f in found], np.bool_)
        gold = np.array(list(whole["held"].values()), np.int32) >= 0
        label[(votes == 0) & ~gold] = -1
        there = any(known >= 0 for known in whole["gold"].values())
        texts = pack(whole["task text"].values())
        return texts, whole["fact"]["task numbers"], label, confidence, tie, votes, gold if there else None

    @_alone
    def worker_table(self, kind: int) -> tuple[Texts, bool, Any, Any] | bool:
        """Return (ids, whether they came as numbers, votes, expected right votes in units) of every worker."""
        change = self._begin()
        if self._due(change, kind):
            return False
        state = change.merged()
        votes, right = (np.zeros(len(state["worker"]), np.int64) for _ in range(2))
        for task, rows in state["votes"].items():
            held, before = state["held"][task], None
            if rows and kind != honest.POSTERIOR:
                before = self._honest(change, task) if held < 0 else self._certain(held)
            for row in rows:
                who, given = state["pair"][row]
                votes[who] += 1
                right[who] += 0 if before is None else honest.answer_units(before[given])
        if kind != honest.POSTERIOR:
            return pack(state["worker"]), state["fact"]["worker numbers"], votes, right
        for row, (who, given) in state["pair"].items():
            right[who] += state["count"][row][given]
        return pack(state["worker"]), state["fact"]["worker numbers"], votes, right

    @_alone
    def restore(
        self,
        task_offsets: NDArray[np.int64],
        task_texts: NDArray[np.uint8],
        worker_offsets: NDArray[np.int64],
        worker_texts: NDArray[np.uint8],
        row_worker: NDArray[np.uint32],
        row_label: NDArray[np.uint32],
        task_ptr: NDArray[np.int64],
        row: NDArray[np.uint32],
        gold_offsets: NDArray[np.int64],
        gold_texts: NDArray[np.uint8],
        gold_labels: NDArray[np.int32],
        *,
        winners: NDArray[np.int32],
        units: NDArray[np.int64] | None = None,
        fitted: NDArray[np.uint8] | None = None,
        abstentions: int = 0,
        task_numbers: bool,
        worker_numbers: bool,
    ) -> None:
        """Take a snapshot into an empty state: labels and marks of the last fit, [tasks], and soft shares, [tasks, K]."""
        change = self._begin()
        for text, label in zip(unpack(gold_offsets, gold_texts), gold_labels.tolist(), strict=True):
            change.put("gold", text, label)
        if change.size("gold") != len(gold_labels):
            raise ValueError("two of its gold labels are of the same task")
        for text in unpack(task_offsets, task_texts):
            self._task(change, text)
        for text in unpack(worker_offsets, worker_texts):
            change.code("worker", text)
        for who, label in zip(row_worker.tolist(), row_label.tolist(), strict=True):
            self._row(change, who, label)
        for name, size in (("task", len(task_ptr) - 1), ("worker", len(worker_offsets) - 1)):
            if change.size(name) != size:
                raise ValueError(f"two of its {name}s have the same name")
        if change.size("pair") != len(row_worker):
            raise ValueError("a (worker, label) pair has two rows")
        places = list(range(change.size("task")))
        for task in places:
            rows = row[task_ptr[task] : task_ptr[task + 1]].tolist()
            change.put("votes", task, tuple(rows))
            self._name(change, rows, 1)
            held = change.get("held", task)
            if rows and held >= 0 and (winners[task] != held or (units is not None and units[task, held] != ONE)):
                raise ValueError("a task with gold has another label")
        self._adopt(change, places, task_ptr, row, winners, units, fitted, None)
        change.put("fact", "abstentions", abstentions)
        change.put("fact", "task numbers", task_numbers)
        change.put("fact", "worker numbers", worker_numbers)
        self._commit(change)

    @_alone
    def adopt(
        self,
        task_offsets: NDArray[np.int64],
        task_texts: NDArray[np.uint8],
        task_ptr: NDArray[np.int64],
        row: NDArray[np.uint32],
        *,
        winners: NDArray[np.int32],
        units: NDArray[np.int64] | None = None,
        fitted: NDArray[np.uint8] | None = None,
        gold: NDArray[np.int32] | None = None,
    ) -> None:
        """Replace all labels and shares by those of a fit; a task whose votes or gold have changed since is settled again."""
        change = self._begin()
        places: list[int | None] = [None] * change.size("votes")
        for fitted_at, text in enumerate(unpack(task_offsets, task_texts)):
            task = self._find(change, text)
            if task is not None:
                places[task] = fitted_at
        self._adopt(change, places, task_ptr, row, winners, units, fitted, gold)
        self._commit(change)

    @_alone
    def counts(self) -> tuple[list[int], list[int]]:
        """Return the counts by row, [rows * K], and by class, [K], in units."""
        state = self._begin().merged()
        return [units for line in state["count"].values() for units in line], list(state["fact"]["classes"])

    def _begin(self) -> Change:
        """Return an empty change, after completing an interrupted one."""
        self._complete()
        return Change(self._tables)

    def _commit(self, change: Change) -> None:
        self._pending = change.parts
        self._complete()

    def _complete(self) -> None:
        pending = self._pending
        if pending is not None:
            for name, part in pending.items():
                self._tables[name].update(part)
            self._pending = None

    def _learn(self, tasks: list[Any], workers: list[Any], labels: list[int], task_numbers: bool, worker_numbers: bool) -> None:
        change = self._begin()
        for role, are in (("task", task_numbers), ("worker", worker_numbers)):
            if tasks and not (self._live(change) if role == "task" else change.size(role)):
                change.put("fact", f"{role} numbers", are)
        rows = []
        for task, worker, label in zip(tasks, workers, labels, strict=True):
            if task is None or worker is None:
                raise ValueError("a task or a worker is missing")
            place, who = self._task(change, task), change.code("worker", worker)
            if label == NONE:
                change.put("fact", "abstentions", change.get("fact", "abstentions") + 1)
            else:
                rows.append((place, self._row(change, who, label)))
        for place, row in rows:
            self._take_out(change, place)
            if self._replace:
                self._drop(change, place, change.get("pair", row)[0])
            change.put("votes", place, (*change.get("votes", place), row))
            self._name(change, [row], 1)
            self._settle(change, place)
            self._changed(change, 1)
        self._commit(change)

    def _find(self, state: Change, text: str) -> int | None:
        """Return the code of a task, None where there is no such task."""
        place: int | None = state.get("task", text)
        return None if place is None or state.get("gone", place) else place

    def _gold(self, state: Change, text: str) -> int:
        """Return the label that a task has for certain, seen or not; -1 where there is none."""
        label: int | None = state.get("gold", text)
        return -1 if label is None else label

    def _certain(self, label: int) -> list[float]:
        return [float(c == label) for c in range(self._k)]

    def _live(self, state: Change) -> int:
        """Return how many tasks there are."""
        gone: int = state.get("fact", "gone")
        return state.size("votes") - gone

    def _alive(self, state: Change) -> dict[str, dict[Any, Any]]:
        """Return the tables without the tasks that were forgotten."""
        whole = state.merged()
        if not state.get("fact", "gone"):
            return whole
        kept = [task for task, gone in whole["gone"].items() if not gone]
        return {**whole, **{name: {task: whole[name][task] for task in kept} for name in BY_TASK}}

    def _task(self, change: Change, text: str) -> int:
        found = self._find(change, text)
        place = change.next_code("task", text) if found is None else found
        if found is None:
            data = np.frombuffer(text.encode(), np.uint8)
            hashed = reference.hash_texts(np.array([0, len(data)], np.int64), data)
            change.put("votes", place, ())
            change.put("share", place, (0,) * self._k)
            change.put("label", place, -1)
            change.put("fitted", place, 0)
            change.put("held", place, self._gold(change, text))
            change.put("key", place, reference.tie_keys(hashed, self._seed))
            change.put("gone", place, False)
        return place

    def _row(self, change: Change, worker: int, label: int) -> int:
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

    def _drop(self, change: Change, task: int, worker: int) -> None:
        rows = change.get("votes", task)
        self._name(change, [row for row in rows if change.get("pair", row)[0] == worker], -1)
        change.put("votes", task, tuple(row for row in rows if change.get("pair", row)[0] != worker))

    def _name(self, change: Change, rows: list[int], sign: int) -> None:
        """Count votes by their label."""
        named = list(change.get("fact", "named"))
        for row in rows:
            named[change.get("pair", row)[1]] += sign
        change.put("fact", "named", tuple(named))

    def _changed(self, change: Change, number: int) -> None:
        change.put("fact", "changes", change.get("fact", "changes") + number)

    def _take_out(self, change: Change, task: int) -> None:
        """Take the part of a task out of all counts, before its votes change."""
        self._put(change, task, -1)
        self._put_label(change, task, -1)

    def _put(self, change: Change, task: int, sign: int) -> None:
        """Add the share of a task to all counts, or take it out."""
        rows, share = change.get("votes", task), change.get("share", task)
        if not rows:
            return
        change.put("fact", "classes", shifted(change.get("fact", "classes"), share, sign))
        change.put("fact", "settled", change.get("fact", "settled") + sign)
        for row in rows:
            worker, label = change.get("pair", row)
            for name, key in (("count", row), ("total", worker), ("pooled", label), ("fact", "everybody")):
                change.put(name, key, shifted(change.get(name, key), share, sign))

    def _put_label(self, change: Change, task: int, sign: int) -> None:
        """Add the label of a task to the counts of labels, or take it out; where shares are hard, they are these counts."""
        rows, label = change.get("votes", task), change.get("label", task)
        if not rows or label < 0 or change.get("fact", "hard"):
            return
        count, total, pooled = LABELLED
        share = self._one_hot(label)
        for row in rows:
            worker, given = change.get("pair", row)
            for name, key in ((count, row), (total, worker), (pooled, given)):
                change.put(name, key, shifted(change.get(name, key), share, sign))
        change.put("fact", "labelled classes", shifted(change.get("fact", "labelled classes"), share, sign))

    def _settle(self, change: Change, task: int) -> None:
        """Update one task by the paper's step: majority vote, M-step, E-step for this task, M-step."""
        rows = change.get("votes", task)
        change.put("fitted", task, 0)
        if not rows:
            change.put("share", task, (0,) * self._k)
            change.put("label", task, -1)
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
        start = self._one_hot(self._pick(change, task, ballots)[0]) if hard else share_of([b / len(rows) for b in ballots])
        change.put("share", task, start)
        self._put(change, task, 1)
        label, _, posterior = self._predict(change, task)
        self._put(change, task, -1)
        change.put("share", task, self._one_hot(label) if hard else share_of(posterior))
        self._put(change, task, 1)
        change.put("label", task, label)
        self._put_label(change, task, 1)

    def _adopt(
        self,
        change: Change,
        places: Sequence[int | None],  # [tasks] where each is in the arrays
        task_ptr: NDArray[np.int64],
        row: NDArray[np.uint32],
        winners: NDArray[np.int32],
        units: NDArray[np.int64] | None,
        fitted: NDArray[np.uint8] | None,
        gold: NDArray[np.int32] | None,
    ) -> None:
        zeros = (0,) * self._k
        sizes = change.size("pair"), change.size("total"), self._k
        for name, size in zip((*SHARED, *LABELLED), (*sizes, *sizes), strict=True):
            for key in range(size):
                change.put(name, key, zeros)
        for fact in ("classes", "everybody", "labelled classes"):
            change.put("fact", fact, zeros)
        change.put("fact", "settled", 0)
        change.put("fact", "hard", units is None)
        self._changed(change, honest.FIT)
        cuts, rows, changed = task_ptr.tolist(), row.tolist(), []
        for task, at in enumerate(places):
            votes, held = change.get("votes", task), change.get("held", task)
            if (
                at is None
                or tuple(rows[cuts[at] : cuts[at + 1]]) != votes
                or (gold is not None and gold[at] != held)
                or (held >= 0 and votes and winners[at] != held)
            ):
                changed.append(task)
                change.put("share", task, zeros)
                change.put("label", task, -1)
                continue
            label = int(winners[at]) if votes else -1
            share = tuple(units[at].tolist()) if units is not None else self._one_hot(label)
            change.put("share", task, share)
            change.put("label", task, label)
            change.put("fitted", task, 0 if fitted is None or not votes else int(fitted[at]))
            self._put(change, task, 1)
            self._put_label(change, task, 1)
        for task in changed:
            self._settle(change, task)

    def _names(self, state: Change) -> tuple[str, str, str]:
        """Return the tables of what the labels of tasks add up to: by row, by worker, by given label."""
        return SHARED if state.get("fact", "hard") else LABELLED

    def _classes(self, state: Change) -> str:
        return "classes" if state.get("fact", "hard") else "labelled classes"

    def _due(self, state: Change, kind: int) -> int:
        return honest.due(state.get("fact", "measured"), kind, state.get("fact", "changes"), state.get("fact", "named"))

    def _answer(self, state: Change, task: int, kind: int) -> tuple[int, bool, list[float]]:
        """Return (label, tie, probabilities) of one task, as readers of such confidence are told."""
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

    def _honest(self, state: Change, task: int) -> list[float]:
        """Return the honest probabilities of a task with votes, before the last step of the rule."""
        count, total, _ = self._names(state)
        ballots = []
        for row in state.get("votes", task):
            worker, given = state.get("pair", row)
            ballots.append(honest.Ballot(given, state.get(count, row), state.get(total, worker)))
        return honest.before_last_step(ballots, state.get("label", task), state.get("fact", "measured"), ONE)

    def _predict(self, state: Change, task: int) -> tuple[int, bool, list[float]]:
        """Return (label, tie, posterior) of the E-step of one task."""
        settled, classes = state.get("fact", "settled"), state.get("fact", "classes")
        whole = float(settled) * float(ONE)
        prior = [log(float(c) / whole) for c in classes] if settled > 0 else [-math.log(float(self._k))] * self._k
        scores = list(prior)
        for line in self._lines(state, task, TOGETHER):
            scores = [score + x for score, x in zip(scores, line, strict=True)]
        if all(score == NEVER for score in scores):
            scores = limit(prior, self._lines(state, task, 1))
        label, tie = self._pick(state, task, scores)
        best = max(scores)
        posterior = [math.exp(score - best) for score in scores]
        total = 0.0
        for p in posterior:  # in this order: sum() may add more exactly
            total += p
        return label, tie, [p / total for p in posterior]

    def _lines(self, state: Change, task: int, each: int) -> list[list[float]]:
        """Return log pi of a task's votes, [lines, K]; each line is the sum of `each` votes, the last of fewer."""
        k, rows, extra = self._k, state.get("votes", task), self._strength * float(ONE)
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
            lines.append([log(p) for p in product])
        return lines

    def _pick(self, state: Change, task: int, scores: list[float]) -> tuple[int, bool]:
        winner, tie = reference.pick(np.array([scores]), state.get("key", task), self._label_hash)
        return int(winner[0]), bool(tie[0])

    def _one_hot(self, label: int) -> Units:
        return tuple(ONE if c == label else 0 for c in range(self._k))
