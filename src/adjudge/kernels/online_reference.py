"""The state of a stream in plain Python: what the compiled one does, in the same order, to the same bits."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.kernels import online_honest as honest
from adjudge.kernels.online_honest import MISSING_LABEL, SHARE_UNITS, PendingChange, Texts, pack, unpack
from adjudge.kernels.online_steps import MIN_SAMPLED_VOTES, Floats, Judging, Record, is_record

P = ParamSpec("P")
R = TypeVar("R")
Told = tuple[int, bool, int, bool, list[float]]  # label, tie, votes, gold, probabilities: the answer on a task


def _run_exclusively(method: Callable[Concatenate[Online, P], R]) -> Callable[Concatenate[Online, P], R]:
    """Return a method that runs exclusively, after completing any change that an exception interrupted."""

    @functools.wraps(method)
    def run(self: Online, *given: P.args, **options: P.kwargs) -> R:
        # One line, so that not even a tracer that raises at a line can come between the call and the release.
        with self._lock: return method(self, *given, **options)  # noqa: E701  # fmt: skip

    return cast("Callable[Concatenate[Online, P], R]", run)


def _figure(what: str, read: Callable[[Online, PendingChange], int]) -> property:
    """Return a property that reads a number of the state."""
    return property(_run_exclusively(lambda online: read(online, online._begin())), doc=what)


class Online(Judging):
    """Counts kept vote by vote; the same methods as the compiled `Online`.

    A change is prepared separately, becomes part of the state by one assignment (`_pending`), and is then copied into the
    tables. Copying twice is harmless, so an exception at any moment leaves the state before the change or after it.
    """

    def __init__(self, label_hash: Sequence[int], *, seed: int, hard: bool, strength: float, replace: bool) -> None:
        super().__init__(label_hash, seed=seed, hard=hard, strength=strength)
        self._replace = replace
        self._lock = threading.RLock()
        self._pending: dict[str, dict[Any, Any]] | None = None

    tasks = _figure("The number of tasks.", lambda self, state: self._live(state))
    labels = _figure("The number of labels.", lambda self, _: self._k)
    workers = _figure("The number of workers.", lambda _, state: state.size("worker"))
    abstentions = _figure("The number of votes without a label.", lambda _, state: state.get("fact", "abstentions"))
    evicted = _figure(
        "The number of tasks that were evicted and did not come back.", lambda _, state: state.get("fact", "evicted")
    )

    @_run_exclusively
    def learn(self, task: str, worker: str, label: int, task_numbers: bool, worker_numbers: bool) -> None:
        """Learn one vote; the first id decides whether ids are returned as numbers."""
        self._learn([task], [worker], [label], task_numbers, worker_numbers)

    @_run_exclusively
    def abstain(self, task: str, worker: str, task_numbers: bool, worker_numbers: bool) -> None:
        """Count a vote without a label: its task and its worker are known from then on."""
        self._learn([task], [worker], [MISSING_LABEL], task_numbers, worker_numbers)

    @_run_exclusively
    def learn_many(self, frame: Any, labels: NDArray[np.uint32], task_numbers: bool, worker_numbers: bool) -> None:
        """Learn votes in order, all or none: the columns `task` and `worker` of a frame, and codes of labels; NONE abstains."""
        self._learn(frame["task"].to_list(), frame["worker"].to_list(), labels.tolist(), task_numbers, worker_numbers)

    @_run_exclusively
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
            change.add("changes", theirs)
            self._commit(change)
        return theirs

    @_run_exclusively
    def add_label(self, label_hash: int) -> None:
        """Add a label, after all others."""
        change = self._begin()
        self._widen(change, label_hash)
        self._commit(change)

    @_run_exclusively
    def set_gold(self, task: str, label: int) -> bool:
        """Fix the label of a task, seen or not, or free it (-1); return False where there is nothing to free."""
        change = self._begin()
        if not -1 <= label < self._k:
            raise IndexError("no such label")
        if label < 0 and self._gold(change, task) < 0:
            return False
        change.put("gold", task, label)
        place = self._find(change, task)
        if place is not None:
            self._take_out(change, place)
            change.put("held", place, label)
            self._settle(change, place)
            change.add("changes", len(change.get("votes", place)))
        self._commit(change)
        return True

    @_run_exclusively
    def forget(self, task: str) -> int:
        """Take a task and all its votes back, and return how many there were; -1 if there is no such task."""
        change = self._begin()
        place = self._find(change, task)
        if place is None:
            return -1
        rows = change.get("votes", place)
        self._take_out(change, place)
        self._name(change, rows, -1)
        change.put("votes", place, ())
        self._settle(change, place)
        change.add("changes", len(rows))
        if self._gold(change, task) >= 0:
            change.put("gold", task, -1)
        change.put_task(place, held=-1, gone=True)
        change.add("gone", 1)
        self._commit(change)
        return len(rows)

    @_run_exclusively
    def evict(self, task: str) -> Record | None:
        """Take a task out of memory, but not what was learned from it, and return what it was; None for an unknown one."""
        change = self._begin()
        place = self._find(change, task)
        if place is None:
            return None
        record = self._leave(change, place, task)
        self._commit(change)
        return record

    @_run_exclusively
    def bring_back(self, task: str, record: Record) -> None:
        """Put back what `evict` returned: all is then as it would be without; ValueError where it is no such record."""
        change = self._begin()
        if not is_record(record):
            raise ValueError("not the record of an evicted task")
        self._come_back(change, task, record)
        self._commit(change)

    @_run_exclusively
    def predict(self, task: str, kind: int) -> Told | bool | None:
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

    @_run_exclusively
    def vote(self, task: str, worker: str, label: int, kind: int) -> Told | bool:
        """Learn one vote, and return what `predict` then does; False: a renewal is due; True: its task keeps its label."""
        state = self._begin()
        place = self._find(state, task)
        is_light = place is not None and not self._settles_next(state, place)
        self._learn([task], [worker], [label], False, False, is_light=is_light)
        if is_light:
            return True
        told = self.predict(task, kind)
        assert told is not None
        return told

    @_run_exclusively
    def vote_many(
        self, tasks: list[str], workers: list[str], labels: list[int], again: list[bool] | None, kind: int, cells: int
    ) -> tuple[list[int], list[int], list[int], list[int], list[float]]:
        """Learn votes in order, but those that are there already unless `again`; see `vote_many` of the core."""
        was, columns, likely = list[int](), [list[int](), list[int](), list[int]()], list[float]()
        for at, (task, worker, label) in enumerate(zip(tasks, workers, labels, strict=True)):
            if self.votes_on(task) >= MIN_SAMPLED_VOTES or sum(columns[1]) * self._k > cells:
                break
            was.append(self.voted(task, worker))
            told: Told | bool = (-1, False, self.votes_on(task), False, [0.0] * self._k)
            if was[-1] != label or (again is not None and again[at]):
                told = self.vote(task, worker, label, kind)
            if isinstance(told, bool):
                break
            for column, figure in zip(columns, (told[0], told[2], told[1] + 2 * told[3]), strict=True):
                column.append(figure)
            likely += told[4]
        return was, columns[0], columns[1], columns[2], likely

    @_run_exclusively
    def predict_many(self, tasks: list[str], kind: int) -> tuple[Any, Any, Any, Any, Any] | bool:
        """Return what `predict` does of many tasks, as arrays: label, tie, votes, gold, [n] each, and probabilities, [n, K].

        An unknown task has the label -1, -1 votes, and zeros for probabilities.
        """
        if self._due(self._begin(), kind):
            return False
        unknown = (-1, False, -1, False, [0.0] * self._k)
        found = [self.predict(task, kind) or unknown for task in tasks]
        label, tie, votes, gold, likely = zip(*found, strict=True) if found else [()] * 5
        probabilities = np.array(likely, np.float64).reshape(-1, self._k)
        flags = (np.array(column, np.bool_) for column in (tie, gold))
        return np.array(label, np.int32), next(flags), np.array(votes, np.int64), next(flags), probabilities

    @_run_exclusively
    def voted(self, task: str, worker: str) -> int:
        """Return the label of the last vote of a worker on a task, -1 if there is none."""
        state = self._begin()
        place, who = self._find(state, task), state.get("worker", worker)
        theirs = [] if place is None else [state.get("pair", row) for row in state.get("votes", place)]
        return next((label for voter, label in reversed(theirs) if voter == who), -1)

    @_run_exclusively
    def votes_of(self, task: str) -> list[tuple[str, int]] | None:
        """Return (worker, label) of the votes on a task, in order; None for an unknown one."""
        state = self._begin()
        place = self._find(state, task)
        if place is None:
            return None
        pairs = (state.get("pair", row) for row in state.get("votes", place))
        return [(state.get("worker text", who), label) for who, label in pairs]

    @_run_exclusively
    def votes_on(self, task: str) -> int:
        """Return how many votes there are on a task."""
        return len(self.votes_of(task) or ())

    @_run_exclusively
    def tasks_of(self, worker: str) -> list[tuple[str, int]]:
        """Return (task, label) of the votes of a worker on the tasks in memory, in the order of the tasks."""
        state = self._begin()
        who, whole = state.get("worker", worker), self._alive(state)
        pairs = ((task, whole["pair"][row]) for task, rows in whole["votes"].items() for row in rows)
        return [(whole["task text"][task], label) for task, (voter, label) in pairs if voter == who]

    @_run_exclusively
    def due(self, kind: int, ahead: int = 0) -> int:
        """Return what to renew for readers of this confidence, now or within some more votes."""
        return self._due(self._begin(), kind, ahead)

    @_run_exclusively
    def measure(self, sums: bool) -> tuple[Any, list[int], list[int], list[int], int, int]:
        """Return (sums over pairs of votes, votes by given and true label, those not summed, tasks by label, votes, changes).

        The sums leave out tasks with gold and those that were evicted; the votes are those in memory.
        """
        state = self._begin()
        _, _, pooled = self._names(state)
        given = [units // SHARE_UNITS for label in range(self._k) for units in state.get(pooled, label)]
        classes = [units // SHARE_UNITS for units in state.get("fact", self._classes(state))]
        pairs, left_out, open_votes = None, self._base_votes(state), list(state.get("fact", "named"))
        for place, number in enumerate(left_out):
            open_votes[place // self._k] -= number
        in_memory = sum(open_votes)
        if sums and in_memory:
            tasks = []
            for task in self._in_order(state):
                votes = [state.get("pair", row) for row in state.get("votes", task)]
                held = state.get("held", task)
                if held >= 0:
                    for _, label in votes:
                        left_out[label * self._k + held] += 1
                        open_votes[label] -= 1
                    continue
                ballots = [0.0] * self._k
                for _, label in votes:
                    ballots[label] += 1.0
                tasks.append((votes, self._pick(state, task, ballots)[0], state.get("label", task)))
            agreeing = sum(given[:: self._k + 1]) - sum(left_out[:: self._k + 1])
            pairs = honest.stream_pair_sums(tasks, tuple(open_votes), agreeing)
        if sums and pairs is None:
            pairs = (0.0,) * 5
        return pairs, given, left_out, classes, in_memory, state.get("fact", "changes")

    @_run_exclusively
    def measured(self) -> tuple[float, float, int, int]:
        """Return (shared_error, holds, votes, changes) of the last renewal."""
        found: honest.Measured = self._begin().get("fact", "measured")
        return found.shared_error, found.holds, found.votes, found.changes

    @_run_exclusively
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
    ) -> bool:
        """Keep what a renewal measured; `lent` is [K given, K true], `log_prior` and `uniform` are [K].

        False says that a label was added since it was measured.
        """
        change, moment = self._begin(), (lent_total, shared_error, holds, votes, changes)
        if len(uniform) != self._k:
            return False
        change.put("fact", "measured", honest.keep_measured(moment, lent, log_prior, uniform, SHARE_UNITS))
        self._commit(change)
        return True

    @_run_exclusively
    def confusion(self, worker: str) -> NDArray[np.float64] | None:
        """Return the current pi of a worker, [K true, K given]; None for one without votes."""
        state = self._begin()
        who = state.get("worker", worker)
        total = None if who is None else state.get("total", who)
        if total is None:
            return None
        out = np.zeros((self._k, self._k))
        pooled = [state.get("pooled", given) for given in range(self._k)]
        for c in range(self._k):
            whole, everybody = total[c] / SHARE_UNITS + self._strength, state.get("fact", "everybody")[c]
            for given in range(self._k):
                row = state.get("row", (who, given))
                seen = 0.0 if row is None else state.get("count", row)[c] / SHARE_UNITS
                mean = float(pooled[given][c]) / float(everybody) if everybody > 0 else 1.0 / self._k
                lent = self._strength * mean if self._strength > 0 else 0.0
                out[c, given] = (seen + lent) / whole if whole > 0 else 0.0
        return out

    @_run_exclusively
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
            "n_labels": self._k,
            "labels": labels,
            "fitted": np.array(list(state["fitted"].values()), np.uint8),
            "task_gold": np.array(list(state["held"].values()), np.int32),
            "gold_offsets": gold_offsets,
            "gold_texts": gold_texts,
            "gold_labels": np.array([state["gold"][task] for task in golds], np.int32),
            "order": np.array(list(state["number"].values()), np.int64),
            **self._snapshot_of_base(state),
            "abstentions": state["fact"]["abstentions"],
            "numbers": (state["fact"]["task numbers"], state["fact"]["worker numbers"]),
        }

    def _snapshot_of_base(self, state: dict[str, dict[Any, Any]]) -> dict[str, Any]:
        """Return a snapshot's part on evicted tasks and on the last measurement."""
        facts, out = state["fact"], {}
        for name, classes in (("base count", "base classes"), ("base labelled", "base labelled classes")):
            if facts["evicted"] and (name == "base count" or not facts["hard"]):
                lines = [state[name].get(row, (0,) * self._k) for row in state["pair"]]
                key = "base_counts" if name == "base count" else "base_labelled"
                out[key] = np.array(lines, np.int64).reshape(-1, self._k)
                out[classes.replace(" ", "_")] = np.array(facts[classes], np.int64)
        measured: honest.Measured | None = facts["measured"]
        moment = None
        if measured is not None:
            moment = (measured.lent_total, measured.shared_error, measured.holds, measured.votes, measured.changes)
            for key, numbers in (("lent", measured.lent), ("log_prior", measured.log_prior), ("uniform", measured.uniform)):
                out[key] = np.array(numbers, np.float64)
        seen = {"tasks_seen": facts["tasks seen"], "evicted": facts["evicted"], "changes": facts["changes"]}
        return {**out, "measured": moment, **seen}

    @_run_exclusively
    def task_table(self, kind: int) -> tuple[Texts, bool, Any, Any, Any, Any, Any] | bool:
        """Return (ids, whether they came as numbers, label, confidence, tie, votes, whether it is gold) of every task.

        The label is -1 without votes and gold. The last is None without any gold.
        """
        state = self._begin()
        if self._due(state, kind):
            return False
        whole = self._alive(state)
        answers = [self._answer(state, task, kind) for task in whole["votes"]]
        votes = np.array([len(rows) for rows in whole["votes"].values()], np.int64)
        label = np.array([winner for winner, _, _ in answers], np.int32)
        confidence = np.array([posterior[winner] for winner, _, posterior in answers], np.float64)
        tie = np.array([is_tied for _, is_tied, _ in answers], np.bool_)
        gold = np.array(list(whole["held"].values()), np.int32) >= 0
        label[(votes == 0) & ~gold] = -1
        has_gold = any(known >= 0 for known in whole["gold"].values())
        texts = pack(whole["task text"].values())
        return texts, whole["fact"]["task numbers"], label, confidence, tie, votes, gold if has_gold else None

    @_run_exclusively
    def crowd(self, kind: int) -> tuple[Any, ...] | bool:
        """Return the inputs of workers' accuracies other than their own counts: see `CrowdSums` in models/honest.py."""
        state = self._begin()
        return False if self._due(state, kind) else self._crowd(state, self._alive(state), kind)

    @_run_exclusively
    def judge(self, workers: Sequence[str], right: Floats, doubt: Floats) -> tuple[Any, Any, Any] | None:
        """Return votes of workers, and sums of what arrays, [K given, K label], say of each, [workers] each.

        None says that a label was added meanwhile.
        """
        return self._judge(self._begin(), workers, right, doubt) if len(right) == self._k else None

    @_run_exclusively
    def worker_table(self, kind: int) -> tuple[Texts, bool, Any, Any, Any] | bool:
        """Return (ids, whether they came as numbers, votes, expected right votes and doubts in units) of every worker."""
        change = self._begin()
        return False if self._due(change, kind) else self._worker_table(change, kind)

    @_run_exclusively
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
        order: NDArray[np.int64] | None = None,
        tasks_seen: int = 0,
        evicted: int = 0,
        base_counts: NDArray[np.int64] | None = None,
        base_classes: NDArray[np.int64] | None = None,
        base_labelled: NDArray[np.int64] | None = None,
        base_labelled_classes: NDArray[np.int64] | None = None,
        changes: int = -1,
        measured: tuple[float, float, float, int, int] | None = None,
        lent: NDArray[np.float64] | None = None,
        log_prior: NDArray[np.float64] | None = None,
        uniform: NDArray[np.float64] | None = None,
    ) -> None:
        """Take a snapshot into an empty state: labels and marks of the last fit, [tasks], and soft shares, [tasks, K].

        `order` has the number of each task, [tasks], `base_counts`, [rows, K], and `base_classes`, [K], what evicted ones add
        up to, `base_labelled` and `base_labelled_classes` the same of labels where shares are soft. `measured` has lent_total,
        shared_error, holds, votes and changes of the last renewal, `lent`, [K given, K true], `log_prior` and `uniform`, [K]
        each, the rest of it.
        """
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
            if rows and held >= 0 and (winners[task] != held or (units is not None and units[task, held] != SHARE_UNITS)):
                raise ValueError("a task with gold has another label")
        base = {"base_counts": base_counts, "base_classes": base_classes}
        by_label = {"base_labelled": base_labelled, "base_labelled_classes": base_labelled_classes}
        self._start_base(change, units is None, evicted, {**base, **by_label})
        if order is not None:
            self._start_numbers(change, order, tasks_seen)
        self._adopt(change, places, task_ptr, row, winners, units, fitted, None)
        if changes >= 0:
            change.put("fact", "changes", changes)
        if measured is not None:
            change.put("fact", "measured", honest.keep_measured(measured, lent, log_prior, uniform, 1))
        change.put("fact", "abstentions", abstentions)
        change.put("fact", "task numbers", task_numbers)
        change.put("fact", "worker numbers", worker_numbers)
        self._commit(change)

    @_run_exclusively
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

    @_run_exclusively
    def counts(self) -> tuple[list[int], list[int]]:
        """Return the counts by row, [rows * K], and by class, [K], in units."""
        state = self._begin().merge()
        return [units for line in state["count"].values() for units in line], list(state["fact"]["classes"])

    def _begin(self) -> PendingChange:
        """Return an empty change, after completing an interrupted one."""
        self._complete()
        return PendingChange(self._tables)

    def _commit(self, change: PendingChange) -> None:
        self._pending = change.parts
        self._complete()

    def _complete(self) -> None:
        pending = self._pending
        if pending is not None:
            for name, part in pending.items():
                self._tables[name].update(part)
            self._pending = None

    def _learn(
        self,
        tasks: list[Any],
        workers: list[Any],
        labels: list[int],
        task_numbers: bool,
        worker_numbers: bool,
        *,
        is_light: bool = False,  # the tasks keep their labels and shares
    ) -> None:
        change = self._begin()
        for role, are in (("task", task_numbers), ("worker", worker_numbers)):
            known = self._live(change) + change.get("fact", "evicted") if role == "task" else change.size(role)
            if tasks and not known:
                change.put("fact", f"{role} numbers", are)
        rows = []
        for task, worker, label in zip(tasks, workers, labels, strict=True):
            if task is None or worker is None:
                raise ValueError("a task or a worker is missing")
            if label >= self._k and label != MISSING_LABEL:
                raise IndexError("no such label")
            place, who = self._task(change, task), change.code("worker", worker)
            if label == MISSING_LABEL:
                change.add("abstentions", 1)
            else:
                rows.append((place, self._row(change, who, label)))
        for place, row in rows:
            self._take_out(change, place)
            if self._replace:
                self._drop(change, place, change.get("pair", row)[0])
            change.put("votes", place, (*change.get("votes", place), row))
            self._name(change, [row], 1)
            if is_light:
                self._put(change, place, 1)
                self._put_label(change, place, 1)
            else:
                self._settle(change, place)
            change.add("changes", 1)
        self._commit(change)
