"""The steps of a stream in plain Python: a task's old share is taken out of the counts, the task settled, its new one put in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.kernels import honest_online_reference as honest
from adjudge.kernels import reference
from adjudge.kernels.honest_online_reference import TOGETHER
from adjudge.kernels.online_tables import Change
from adjudge.kernels.online_units import NEVER, ONE, Units, limit, log, share_of, shifted

# What is known by code or by text. Values are never changed in place, keys are never removed, and new ones come at the
# end: the order of a table is that of the codes. "fitted": 1 where a label is that of the last fit, 2 where it was tied.
# A task that is forgotten is "gone": its code is never used again, and it gets another where it comes back.
# "gold" has the labels that are known for certain, by the text of tasks, seen or not; "held" has them by task. -1: none.
# "number" is the place of a task among all that there were: the order of every list.
BY_TASK: Final = ("task text", "votes", "share", "label", "fitted", "held", "key", "gone", "number")
TABLES: Final = ("task", *BY_TASK, "gold", "worker", "worker text", "row", "pair", "fact")
SHARED: Final = ("count", "total", "pooled")  # what shares add up to: by row, by worker, and by given label
LABELLED: Final = ("labelled count", "labelled total", "labelled pooled")  # what labels do, where shares are soft
BASE: Final = ("base count", "base labelled")  # the part of evicted tasks in the counts by row; a row may be missing
MANY_VOTES: Final = 1024  # from so many on, most votes leave the label of their task as it is …
LOOKS_PER_DOUBLING: Final = 64  # … and about so many settle it until it has twice as many
WIDE_FACTS: Final = ("classes", "everybody", "labelled classes", "named", "base classes", "base labelled classes")  # [K] each


class Steps:
    """The tables of a stream, and what each step of a change puts into them.

    The methods take a `Change`: they read the state before it with all that the change has put so far.
    """

    def __init__(self, label_hash: Sequence[int], *, seed: int, hard: bool, strength: float) -> None:
        self._seed, self._strength = seed, strength
        zeros = (0,) * len(label_hash)
        self._tables: dict[str, dict[Any, Any]] = {name: {} for name in (*TABLES, *SHARED, *LABELLED, *BASE)}
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

    def _widen(self, change: Change, label_hash: int) -> None:
        """Add a label, after all others."""
        for name in (*SHARED, *LABELLED, *BASE, "share"):
            for key, line in change.merged()[name].items():
                change.put(name, key, (*line, 0))
        for name in WIDE_FACTS:
            change.put("fact", name, (*change.get("fact", name), 0))
        for name in ("pooled", "labelled pooled"):
            change.put(name, self._k, (0,) * (self._k + 1))
        change.put("fact", "label hash", np.append(self._label_hash, np.uint64(label_hash)))
        measured: honest.Measured | None = change.get("fact", "measured")
        if measured is not None:  # nobody has given the label: it has no part in what was measured
            change.put("fact", "measured", honest.widened(measured))

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
        """Return the tables of the tasks that there are, in the order of their numbers."""
        whole, kept = state.merged(), self._in_order(state)
        return {**whole, **{name: {task: whole[name][task] for task in kept} for name in BY_TASK}}

    def _in_order(self, state: Change) -> list[int]:
        """Return the codes of the tasks that there are, in the order of their numbers."""
        there = [task for task in range(state.size("votes")) if not state.get("gone", task)]
        return sorted(there, key=lambda task: int(state.get("number", task)))

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
            change.put("number", place, change.get("fact", "tasks seen"))
            change.put("fact", "tasks seen", change.get("fact", "tasks seen") + 1)
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

    def _settles_next(self, change: Change, task: int) -> bool:
        """Return whether the next vote on a task settles it: of one with many votes, one in so many does."""
        votes, every = len(change.get("votes", task)), 1
        if votes < MANY_VOTES:
            return True
        while every * 2 * LOOKS_PER_DOUBLING <= votes:
            every *= 2
        return int(reference.mix(np.array([change.get("fact", "changes")], np.uint64))[0]) % every == 0

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
        self._begin_with_base(change, units is None)
        self._changed(change, honest.FIT)
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
                change.put("share", task, zeros)
                change.put("label", task, -1)
                continue
            label = int(winners[at]) if votes else -1
            share = self._one_hot(label) if units is None else (*units[at].tolist(), *zeros[units.shape[1] :])
            change.put("share", task, share)
            change.put("label", task, label)
            change.put("fitted", task, 0 if fitted is None or not votes else int(fitted[at]))
            self._put(change, task, 1)
            self._put_label(change, task, 1)
        for task in changed:
            self._settle(change, task)

    def _begin_with_base(self, change: Change, hard: bool) -> None:
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
        for base, names, classes in zip(BASE, (SHARED, LABELLED), ("classes", "labelled classes"), strict=True):
            count, total, pooled = names
            for name, size in zip(names, (len(rows), change.size("total"), self._k), strict=True):
                for key in range(size):
                    change.put(name, key, zeros)
            everybody = zeros
            for row in rows:
                worker, given = change.get("pair", row)
                line = change.get(base, row) or zeros
                for name, key in ((count, row), (total, worker), (pooled, given)):
                    change.put(name, key, shifted(change.get(name, key), line, 1))
                everybody = shifted(everybody, line, 1)
            change.put("fact", classes, change.get("fact", f"base {classes}"))
            if base == "base count":
                change.put("fact", "everybody", everybody)
        change.put("fact", "settled", sum(change.get("fact", "base classes")) // ONE)

    def _names(self, state: Change) -> tuple[str, str, str]:
        """Return the tables of what the labels of tasks add up to: by row, by worker, by given label."""
        return SHARED if state.get("fact", "hard") else LABELLED

    def _classes(self, state: Change) -> str:
        return "classes" if state.get("fact", "hard") else "labelled classes"

    def _due(self, state: Change, kind: int, ahead: int = 0) -> int:
        changes = state.get("fact", "changes") + ahead
        return honest.due(state.get("fact", "measured"), kind, changes, state.get("fact", "named"))

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
        same = best - reference.SAME * max(1.0, abs(best))
        posterior = [1.0 if score >= same else math.exp(score - best) for score in scores]  # such scores are one score
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
