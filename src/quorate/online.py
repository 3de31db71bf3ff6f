"""Votes that come one at a time, late, changed or taken back: labels and workers kept up to date."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate import settings
from quorate.errors import InputError, MissingLabels, listed, shown
from quorate.io import container
from quorate.io.coder import Coded
from quorate.io.dictionary import NEVER, Dictionary
from quorate.io.encode import votes_of
from quorate.io.ids import column, label_columns, narrowed, prepared
from quorate.io.sources import Source, open_table
from quorate.kernels import cpu, online_reference, reference
from quorate.kernels.core import compiled
from quorate.kernels.online_reference import to_units
from quorate.models.registry import MODELS, make
from quorate.result import Result
from quorate.settings import Choice, Number, Rules
from quorate.tempering import posterior_of
from quorate.vocabulary import Id, Vocabulary, text_of
from quorate.votes import Votes

VERSION: Final = 1
STREAMED: Final = ("ds", "fds", "hybrid")
RULES: Final[Rules] = {
    "model": Choice(STREAMED),
    "duplicates": Choice(("last", "all")),
    "seed": Number(whole=True),
    "strength": Number(least=0),
}


@dataclass(frozen=True)
class Prediction:
    """What is known of one task today."""

    label: Id | None  # None when all votes were taken back
    probabilities: Mapping[Id, float]
    confidence: float  # the probability of the label
    votes: int
    tie: bool


class Online:
    """Labels that follow a stream of votes (the paper's section 5), for ds, fds and hybrid.

    Each vote settles its own task: majority vote, M-step, E-step, M-step; other tasks are left as they are until
    `refit`. A worker's second vote on a task replaces the first (`duplicates="last"`; `"all"` adds it). `strength`
    votes of the mean worker are lent to every worker, so that newcomers start like the population; 0 is the paper.

    >>> import quorate as qr
    >>> online = qr.Online(labels=["cat", "dog"])
    >>> for worker, label in (("ann", "cat"), ("bob", "cat"), ("eve", "dog")):
    ...     online.learn("t1", worker, label)
    >>> online.predict("t1").label, online.predict("t1").votes
    ('cat', 3)
    >>> online.retract("t1", "eve")
    1
    >>> online.predict("t1").votes
    2
    """

    def __init__(
        self, *, labels: Iterable[object], model: str = "fds", seed: int = 0, duplicates: str = "last", strength: float = 1.0
    ) -> None:
        settings.check({"model": model, "duplicates": duplicates, "seed": seed, "strength": strength}, RULES)
        self._labels = Vocabulary.of(labels, "label")
        if not len(self._labels):
            raise InputError("labels is empty: name the labels that votes may have")
        self._label_code = {text: code for code, text in enumerate(self._labels.texts())}
        self._model, self._seed, self._duplicates, self._strength = model, seed, duplicates, strength
        self._options: dict[str, Any] = {}  # of the batch model, for refit
        self._tasks, self._workers = Dictionary(), Dictionary()
        self._numbers = {"task": False, "worker": False}  # whether ids came as numbers, and go back as such
        self._state = self._new_state(hard=model == "fds")

    @classmethod
    def from_result(cls, result: Result, *, strength: float = 1.0, duplicates: str | None = None) -> Online:
        """Returns a stream that goes on from a batch fit, with its votes and its way with repeated ones.

        >>> import quorate as qr
        >>> crowd = qr.simulate(tasks=50, workers=8, seed=1)
        >>> online = qr.Online.from_result(qr.aggregate(crowd.votes))
        >>> online.learn("t3", "w99", "l1")
        >>> len(online)
        50
        """
        if not isinstance(result, Result):
            raise InputError(f"cannot go on from {shown(result)}: give the result of a batch fit with one label per vote")
        if result.model not in STREAMED:
            raise InputError(f"a fit of {result.model!r} cannot go on as a stream: use one of {listed(STREAMED)}")
        votes = result.votes
        rule = duplicates or ("all" if votes.duplicates == "all" else "last")
        seed = result.settings["seed"]
        assert isinstance(seed, int)
        online = cls(labels=votes.labels.ids(), model=result.model, seed=seed, duplicates=rule, strength=strength)
        online._options = {k: v for k, v in result.settings.items() if k != "seed"}
        online._numbers = {"task": votes.tasks.kind == "integer", "worker": votes.workers.kind == "integer"}
        online._tasks.encode(column(votes.tasks).cast(pl.String))
        online._workers.encode(column(votes.workers).cast(pl.String))
        online._adopt(
            result,
            votes.row_worker().astype(np.uint32),
            votes.row_label.astype(np.uint32),
            votes.task_ptr,
            votes.row,
            np.ones(votes.n_tasks, np.bool_),
        )
        return online

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        return f"Online({self._model}: {len(self._tasks)} tasks, {len(self._workers)} workers, {len(self._labels)} labels)"

    @property
    def settings(self) -> dict[str, Any]:
        """What the stream was made with: labels, model, seed, duplicates, strength."""
        return {
            "labels": self._labels.ids(),
            "model": self._model,
            "seed": self._seed,
            "duplicates": self._duplicates,
            "strength": self._strength,
        }

    def learn(self, task: object, worker: object, label: object) -> None:
        """Takes one vote."""
        code = self._label_code.get(label if type(label) is str else text_of(label))
        if code is None:
            raise InputError(f"label {shown(label)} is not among the declared labels: {listed(self._labels.ids())}")
        if type(task) is not str or not task.isascii():
            task = self._text(task, "task")
        if type(worker) is not str or not worker.isascii():
            worker = self._text(worker, "worker")
        place = self._tasks.code(task)
        if place == self._state.tasks:
            self._state.add_tasks(self._keys(place))
        self._state.learn(place, self._workers.code(worker), code, self._duplicates == "last")

    def learn_many(
        self, votes: Votes | Source, *, task: str | None = None, worker: str | None = None, label: str | None = None
    ) -> None:
        """Takes many votes, in order: the same as `learn` for each; a bad one leaves everything as it was."""
        given = open_table(votes, {"task": task, "worker": worker, "label": label})
        batches, numbers, rows = [], dict(self._numbers), 0
        for batch in given.batches:
            batches.append(self._checked(batch, rows, numbers))
            rows += len(batch)
        self._numbers = numbers
        kept = [b.filter(pl.col("label").is_not_null()) for b in batches]
        missing = sum(map(len, batches)) - sum(map(len, kept))
        for batch in kept:
            places = self._tasks.encode(batch["task"])
            if len(self._tasks) > self._state.tasks:
                self._state.add_tasks(self._keys(self._state.tasks))
            labels = batch["label"].to_numpy().astype(np.uint32)
            self._state.learn_many(places, self._workers.encode(batch["worker"]), labels, self._duplicates == "last")
        if missing:
            warnings.warn(f"{missing} votes have no label: dropped as abstentions", MissingLabels, stacklevel=2)

    def retract(self, task: object, worker: object) -> int:
        """Takes all votes of a worker on a task back, and returns how many there were."""
        place, who = self._tasks.find(text_of(task)), self._workers.find(text_of(worker))
        number: int = self._state.retract(place, who) if NEVER not in (place, who) else 0
        if not number:
            raise InputError(f"worker {shown(worker)} has no vote on task {shown(task)} to take back")
        return number

    def predict(self, task: object) -> Prediction:
        """Returns what the E-step under today's parameters says of a task."""
        place = self._tasks.find(text_of(task))
        if place == NEVER:
            raise InputError(f"task {shown(task)} was never seen: it has no votes to judge by")
        posterior = np.zeros(len(self._labels))
        label, tie, votes = self._state.predict(place, posterior)
        ids = self._labels.ids()
        probabilities = dict(zip(ids, posterior.tolist(), strict=True))
        if not votes:  # all were taken back: what is left is the share of each label
            return Prediction(None, probabilities, float(posterior.max()), 0, tie=False)
        return Prediction(ids[label], probabilities, float(posterior[label]), votes, tie)

    def labels(self) -> pl.DataFrame:
        """Returns task, label, confidence, votes, tie of every task under today's parameters."""
        n = self._state.tasks
        labels, confidence, tie, votes = np.zeros(n, np.int32), np.zeros(n), np.zeros(n, np.bool_), np.zeros(n, np.int64)
        self._state.predict_all(labels, confidence, tie, votes)
        frame = pl.DataFrame(
            {
                "task": column(self._ids("task")),
                "label": column(self._labels, labels),
                "confidence": confidence,
                "votes": votes,
                "tie": tie,
            }
        )
        return frame.with_columns(pl.when(pl.col("votes") > 0).then("confidence"))

    def workers(self) -> pl.DataFrame:
        """Returns worker, votes, accuracy (expected share of right votes) of every worker with votes."""
        row_worker, row_label = self._rows()
        _, row, _ = self._votes()
        counts = np.zeros(len(row_worker) * len(self._labels), np.int64)
        self._state.counts(counts)
        right = counts.reshape(-1, len(self._labels))[np.arange(len(row_worker)), row_label] / online_reference.ONE
        n = len(self._workers)
        votes = np.bincount(row_worker[row], minlength=n)
        accuracy = np.bincount(row_worker, weights=right, minlength=n)
        frame = pl.DataFrame({"worker": column(self._ids("worker")), "votes": votes, "accuracy": accuracy})
        return frame.filter(pl.col("votes") > 0).with_columns(pl.col("accuracy") / pl.col("votes"))

    def confusion(self, worker: object) -> pl.DataFrame:
        """Returns today's pi of a worker: a row per true label, a column per given label."""
        who = self._workers.find(text_of(worker))
        if who == NEVER or who >= self._state.workers:
            raise InputError(f"worker {shown(worker)} has no votes here")
        matrix = np.zeros((len(self._labels), len(self._labels)))
        self._state.confusion(who, matrix)
        columns = {name: matrix[:, code] for code, name in enumerate(label_columns(self._labels.texts(), "true"))}
        return pl.DataFrame({"true": column(self._labels), **columns})

    def refit(self, *, warm: bool = False, engine: str = "auto", threads: int | None = None) -> Result:
        """Returns a batch fit of the kept votes, and goes on from it; `warm` starts from the current labels."""
        task_ptr, row, shares = self._votes()
        row_worker, row_label = self._rows()
        has = np.diff(task_ptr) > 0
        coded = Coded(
            {
                "task": np.repeat(np.arange(len(has), dtype=np.uint32), np.diff(task_ptr)),
                "worker": row_worker[row],
                "label": row_label[row],
            },
            {"task": self._ids("task"), "worker": self._ids("worker"), "label": self._labels},
        )
        votes = votes_of(coded, self._labels)
        model = make(self._model, MODELS[self._model].options(), {"seed": self._seed, **self._options})
        start = shares.argmax(axis=1).astype(np.int32)[has] if warm else None
        result = model.fit(votes, engine=engine, threads=threads, start=start)
        self._adopt(result, row_worker, row_label, task_ptr, row, has)
        return result

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything to one file, whole or not at all; the same events give the same bytes."""
        task_ptr, row, shares = self._votes()
        row_worker, row_label = self._rows()
        tasks, workers = self._tasks.vocabulary(), self._workers.vocabulary()
        meta = {**self.settings, "options": self._options, "numbers": self._numbers, "hard": self._hard}
        arrays = {
            "task_offsets": tasks.offsets,
            "task_texts": tasks.values,
            "worker_offsets": workers.offsets,
            "worker_texts": workers.values,
            "row_worker": row_worker,
            "row_label": row_label,
            "task_ptr": task_ptr,
            "row": row,
            "shares": np.where(np.diff(task_ptr) > 0, shares.argmax(axis=1), -1).astype(np.int32) if self._hard else shares,
        }
        container.save(Path(path), "online", VERSION, meta, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, labels: Iterable[object] | None = None) -> Online:
        """Returns the stream that was saved; `labels`, where given, must be its labels."""
        meta, arrays = container.load(Path(path), "online", VERSION)
        if labels is not None and [text_of(i) for i in labels] != [text_of(i) for i in meta["labels"]]:
            raise InputError(f"{path} is over the labels {listed(meta['labels'])}, not over those given")
        online = cls(
            labels=meta["labels"],
            model=meta["model"],
            seed=meta["seed"],
            duplicates=meta["duplicates"],
            strength=meta["strength"],
        )
        online._options, online._numbers = meta["options"], meta["numbers"]
        for role, dictionary in (("task", online._tasks), ("worker", online._workers)):
            ids = Vocabulary("string", arrays[f"{role}_texts"].copy(), arrays[f"{role}_offsets"].copy())
            dictionary.encode(column(ids))
        shares = arrays["shares"]
        if meta["hard"]:
            winners, shares = shares, np.zeros((len(shares), len(meta["labels"])), np.int64)
            shares[np.arange(len(winners)), winners] = np.where(winners >= 0, online_reference.ONE, 0)
        online._state = online._new_state(hard=meta["hard"])
        online._state.restore(
            online._keys(0), arrays["row_worker"], arrays["row_label"], arrays["task_ptr"], arrays["row"], shares
        )
        return online

    def _new_state(self, *, hard: bool) -> Any:
        self._hard = hard
        core = compiled()
        hashes = reference.hash_texts(*self._labels.text_buffers()).tolist()
        return (online_reference if core is None else core).Online(hashes, hard, float(self._strength))

    def _keys(self, begin: int) -> NDArray[np.uint64]:
        """Returns what settles the ties of tasks from code `begin` on."""
        kernels: Any = reference if compiled() is None else cpu
        keys: NDArray[np.uint64] = kernels.tie_keys(kernels.hash_texts(*self._tasks.vocabulary(begin).text_buffers()), self._seed)
        return keys

    def _adopt(
        self,
        result: Result,
        row_worker: NDArray[np.uint32],
        row_label: NDArray[np.uint32],
        task_ptr: NDArray[np.int64],
        row: NDArray[np.uint32],
        has: NDArray[np.bool_],
    ) -> None:
        """Takes the labels (or posteriors) of a fit as the shares of the tasks that have votes."""
        hard = self._model != "ds"  # a hybrid fit ends hard
        shares = np.zeros((len(has), len(self._labels)), np.int64)
        if hard:
            shares[np.flatnonzero(has), result.fit.outcome.labels] = online_reference.ONE
        else:
            shares[has] = to_units(posterior_of(result.fit, result.session))
        self._state = self._new_state(hard=hard)
        self._state.restore(self._keys(0), row_worker, row_label, task_ptr, row, shares)

    def _votes(self) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.int64]]:
        """Returns (task_ptr, row, shares) of the votes kept, as rows by task in the order they came."""
        n = self._state.tasks
        task_ptr, row = np.zeros(n + 1, np.int64), np.zeros(self._state.n_votes(), np.uint32)
        shares = np.zeros((n, len(self._labels)), np.int64)
        self._state.export_votes(task_ptr, row, shares)
        return task_ptr, row, shares

    def _rows(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        worker, label = np.zeros(self._state.rows, np.uint32), np.zeros(self._state.rows, np.uint32)
        self._state.export_rows(worker, label)
        return worker, label

    def _ids(self, role: str) -> Vocabulary:
        ids = (self._tasks if role == "task" else self._workers).vocabulary()
        return narrowed(ids) if self._numbers[role] else ids

    def _text(self, value: object, role: str) -> str:
        if isinstance(value, bool | np.bool_) or not isinstance(value, str | int | np.integer):
            raise InputError(f"{role} is {shown(value)}: give text or a whole number")
        known = self._tasks if role == "task" else self._workers
        try:
            str(value).encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{role} is {shown(value)}: not valid text ({error.reason})") from error
        if isinstance(value, int | np.integer) and not len(known):
            self._numbers[role] = True
        return str(value)

    def _checked(self, batch: pl.DataFrame, first_row: int, numbers: dict[str, bool]) -> pl.DataFrame:
        """Returns a batch with ids as text and labels as codes; raises before anything is learned."""
        columns = {role: prepared(batch[role], role, first_row) for role in ("task", "worker", "label")}
        for role in ("task", "worker"):
            if columns[role].null_count():
                raise InputError(f"{role} is missing in row {first_row + int(columns[role].is_null().arg_true()[0]) + 1}")
            if columns[role].dtype == pl.Int64 and not len(self._tasks if role == "task" else self._workers):
                numbers[role] = True
        labels = columns["label"].cast(pl.String)
        unknown = [t for t in labels.drop_nulls().unique(maintain_order=True) if t not in self._label_code]
        if unknown:
            row = first_row + int((labels == unknown[0]).arg_true()[0]) + 1
            raise InputError(
                f"label {shown(unknown[0])} in row {row} is not among the declared labels: {listed(self._labels.ids())}"
            )
        coded = labels.replace_strict(self._label_code, return_dtype=pl.UInt32)
        return pl.DataFrame(
            {"task": columns["task"].cast(pl.String), "worker": columns["worker"].cast(pl.String), "label": coded}
        )
