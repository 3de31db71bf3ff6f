"""Votes that come one at a time, late, changed or taken back: labels and workers kept up to date, saved and loaded."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypedDict, cast, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.data import options
from quorate.data.options import DEFAULTS, Choice, EngineName, Number, Rules, StreamedModel
from quorate.data.vocabulary import Id, Vocabulary, text_of
from quorate.data.votes import Votes
from quorate.engines.base import Engine
from quorate.errors import (
    InputError,
    OptionError,
    QuorateError,
    RepairedStream,
    listed,
    shown,
    undeclared,
    warn_abstentions,
)
from quorate.io import container, stream_file
from quorate.io.bounds import Bounds
from quorate.io.dictionary import Coded
from quorate.io.encode import votes_of
from quorate.io.ids import column, label_columns, narrowed, prepared, require_present
from quorate.io.sources import Source, open_table
from quorate.kernels import online_reference, reference
from quorate.kernels.cpu import compiled
from quorate.kernels.online_reference import ONE, to_units
from quorate.models.base import MODELS, make
from quorate.results.result import Result
from quorate.results.temperature import posterior_of

VERSION: Final = 1
STREAMED: Final = get_args(StreamedModel)
Kept: TypeAlias = Literal["last", "all"]  # of a worker's votes on a task
RULES: Final[Rules] = {
    "model": Choice(STREAMED),
    "duplicates": Choice(get_args(Kept)),
    "seed": Number(whole=True),
    "strength": Number(least=0, most=1e12),
}


class OnlineSettings(TypedDict):
    """What a stream was made with."""

    labels: list[Id]
    model: StreamedModel
    seed: int
    duplicates: Kept
    strength: float


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
    `refit`.

    - `labels`: all labels that votes may have.
    - `model`: "fds", "ds" or "hybrid".
    - `seed`: decides between labels that score the same.
    - `duplicates`: a worker's second vote on a task replaces the first ("last"), or is added ("all").
    - `strength`: votes of the mean worker lent to every worker, so that newcomers start like the population; 0 is the paper.

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

    Any number of threads may use a stream at once: each call is whole, reads run side by side, a change runs alone. An
    exception at any moment (Ctrl-C, no memory) leaves the stream as it was before the call or as it is after it.
    """

    def __init__(
        self,
        *,
        labels: Iterable[object],
        model: StreamedModel = "fds",
        seed: int = DEFAULTS.seed,
        duplicates: Kept = "last",
        strength: float = 1.0,
    ) -> None:
        options.check({"model": model, "duplicates": duplicates, "seed": seed, "strength": strength}, RULES)
        self._labels = Vocabulary.of(labels, "label")
        if not len(self._labels):
            raise InputError("labels is empty: name the labels that votes may have")
        self._label_ids = self._labels.ids()
        self._label_code = {text: code for code, text in enumerate(self._labels.texts())}
        self._model, self._seed, self._duplicates, self._strength = model, seed, duplicates, strength
        self._options: dict[str, Any] = {}  # of the batch model, for refit
        # Everything that changes is in here, and changes by one call.
        core = compiled()
        self._state: Any = (online_reference if core is None else core).Online(
            reference.hash_texts(*self._labels.text_buffers()).tolist(),
            seed=int(seed) % 2**64,
            hard=model == "fds",
            strength=float(strength),
            replace=duplicates == "last",
        )

    @classmethod
    def from_result(cls, result: Result, *, strength: float = 1.0, duplicates: Kept | None = None) -> Online:
        """Return a stream that continues from a batch fit, with its votes and its way with repeated ones.

        `result` is a fit of ds, fds or hybrid; `strength` and `duplicates` are as for `Online`.

        >>> import quorate as qr
        >>> crowd = qr.simulate(tasks=50, workers=8, seed=1)
        >>> online = qr.Online.from_result(qr.aggregate(crowd.votes))
        >>> online.learn("t3", "w99", "l1")
        >>> len(online)
        50
        """
        if not isinstance(result, Result):
            raise InputError(f"cannot continue from {shown(result)}: give the result of a batch fit with one label per vote")
        if result.model not in STREAMED:
            raise InputError(f"a fit of {result.model!r} cannot continue as a stream: use one of {listed(STREAMED)}")
        if result.grouping is not None:
            raise InputError("a fit with groups cannot continue as a stream, where workers vote one by one: fit without groups")
        votes = result.votes
        rule = duplicates or ("all" if votes.duplicates == "all" else "last")
        seed = result.settings["seed"]
        assert isinstance(seed, int)
        model = cast(StreamedModel, result.model)
        online = cls(labels=votes.labels.ids(), model=model, seed=seed, duplicates=rule, strength=strength)
        online._options = {k: v for k, v in result.settings.items() if k != "seed"}
        online._state.restore(
            *(np.ascontiguousarray(part) for part in (*votes.tasks.text_buffers(), *votes.workers.text_buffers())),
            votes.row_worker().astype(np.uint32),
            votes.row_label.astype(np.uint32),
            np.ascontiguousarray(votes.task_ptr),
            np.ascontiguousarray(votes.row),
            **online._shares(result, np.ones(votes.n_tasks, np.bool_)),
            task_numbers=votes.tasks.kind == "integer",
            worker_numbers=votes.workers.kind == "integer",
        )
        return online

    def __len__(self) -> int:
        tasks: int = self._state.tasks
        return tasks

    def __repr__(self) -> str:
        return f"Online({self._model}: {self._state.tasks} tasks, {self._state.workers} workers, {len(self._labels)} labels)"

    @property
    def settings(self) -> OnlineSettings:
        """What the stream was made with: labels, model, seed, duplicates, strength."""
        return {
            "labels": self._labels.ids(),
            "model": self._model,
            "seed": self._seed,
            "duplicates": self._duplicates,
            "strength": self._strength,
        }

    def learn(self, task: object, worker: object, label: object) -> None:
        """Take one vote: the `label` that a `worker` gave a `task`."""
        code = self._label_code.get(label if type(label) is str else text_of(label))
        if code is None:
            raise undeclared(label, self._label_ids)
        if type(task) is str and type(worker) is str and task.isascii() and worker.isascii():
            self._state.learn(task, worker, code, False, False)
        else:
            texts = _text(task, "task"), _text(worker, "worker")
            self._state.learn(*texts, code, not isinstance(task, str), not isinstance(worker, str))

    def learn_many(
        self, votes: Votes | Source, *, task: str | None = None, worker: str | None = None, label: str | None = None
    ) -> None:
        """Take many votes, in order: the same as `learn` for each; a bad one leaves everything as it was.

        `votes` is anything that `qr.read` takes; `task`, `worker` and `label` name its columns, as there.
        """
        given = open_table(votes, {"task": task, "worker": worker, "label": label})
        batches, rows, numbers = [], 0, {"task": False, "worker": False}
        for batch in given.batches:
            batches.append(self._checked(batch, rows, numbers))
            rows += len(batch)
        if not batches:
            return
        kept = pl.concat(batches).filter(pl.col("label").is_not_null())
        labels = np.ascontiguousarray(kept["label"].to_numpy(), np.uint32)
        self._state.learn_many(kept.select("task", "worker"), labels, numbers["task"], numbers["worker"])
        warn_abstentions(rows - len(kept), rows)

    def retract(self, task: object, worker: object) -> int:
        """Take all votes of a `worker` on a `task` back, and return how many there were."""
        number: int = self._state.retract(_known_text(task), _known_text(worker))
        if not number:
            raise InputError(f"worker {shown(worker)} has no vote on task {shown(task)} to retract")
        return number

    def predict(self, task: object) -> Prediction:
        """Return what the E-step under today's parameters says of a `task`."""
        posterior = np.zeros(len(self._label_ids))
        found = self._state.predict(_known_text(task), posterior)
        if found is None:
            raise InputError(f"task {shown(task)} was never seen: it has no votes")
        label, tie, votes = found
        probabilities = dict(zip(self._label_ids, posterior.tolist(), strict=True))
        if not votes:  # all were taken back: what is left is the share of each label
            return Prediction(None, probabilities, float(posterior.max()), 0, tie=False)
        return Prediction(self._label_ids[label], probabilities, float(posterior[label]), votes, tie)

    def labels(self) -> pl.DataFrame:
        """Return task, label, confidence, votes, tie of every task under today's parameters."""
        texts, numbers, labels, confidence, tie, votes = self._state.task_table()
        frame = pl.DataFrame(
            {
                "task": column(_ids(texts, numbers)),
                "label": column(self._labels, labels),
                "confidence": confidence,
                "votes": votes,
                "tie": tie,
            }
        )
        return frame.with_columns(pl.when(pl.col("votes") > 0).then("confidence"))

    def workers(self) -> pl.DataFrame:
        """Return worker, votes, accuracy (expected share of right votes) of every worker with votes."""
        texts, numbers, votes, right = self._state.worker_table()
        accuracy = right / ONE
        frame = pl.DataFrame({"worker": column(_ids(texts, numbers)), "votes": votes, "accuracy": accuracy})
        return frame.filter(pl.col("votes") > 0).with_columns(pl.col("accuracy") / pl.col("votes"))

    def confusion(self, worker: object) -> pl.DataFrame:
        """Return today's pi of a `worker`: a row per true label, a column per given label."""
        matrix = np.zeros((len(self._labels), len(self._labels)))
        if not self._state.confusion(_known_text(worker), matrix):
            raise InputError(f"worker {shown(worker)} has no votes here")
        columns = {name: matrix[:, code] for code, name in enumerate(label_columns(self._labels.texts(), "true"))}
        return pl.DataFrame({"true": column(self._labels), **columns})

    def refit(
        self, *, warm: bool = False, engine: EngineName | str | Engine = DEFAULTS.engine, threads: int | None = None
    ) -> Result:
        """Return a batch fit of the votes kept, and continue from it; `warm` starts from the current labels.

        `engine` and `threads` say where it runs, as for `qr.aggregate`.

        Other threads may read and learn meanwhile. A task that has got or lost votes since `refit` was called is then
        settled as by a vote, under the parameters of the fit.
        """
        now = self._state.snapshot()
        task_ptr, row, shares = now["task_ptr"], now["row"], now["shares"]
        votes_of_task = np.diff(task_ptr)
        has = votes_of_task > 0
        coded = Coded(
            {
                "task": np.repeat(np.arange(len(has), dtype=np.uint32), votes_of_task),
                "worker": now["row_worker"][row],
                "label": now["row_label"][row],
            },
            {
                "task": _ids((now["task_offsets"], now["task_texts"]), now["numbers"][0]),
                "worker": _ids((now["worker_offsets"], now["worker_texts"]), now["numbers"][1]),
                "label": self._labels,
            },
        )
        votes = votes_of(coded, self._labels)
        model = make(self._model, MODELS[self._model].options(), {"seed": self._seed, **self._options})
        start = None
        if warm:
            start = (shares if shares.ndim == 1 else shares.argmax(axis=1)).astype(np.int32)[has]
        result = model.fit(votes, engine=engine, threads=threads, start=start)
        self._state.adopt(task_ptr, row, **self._shares(result, has))
        return result

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file at `path`, whole or not at all; the same events give the same bytes."""
        container.save(Path(path), "online", VERSION, *self._content(path))

    def __reduce__(self) -> tuple[Any, ...]:  # pickled as it is saved, and checked as it is loaded
        return _unpickled, self._content("a pickle")

    def _content(self, where: object) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what a file of this stream holds: settings, and arrays."""
        arrays = self._state.snapshot()
        task, worker = arrays.pop("numbers")
        if len(arrays["task_offsets"]) != len(arrays["task_ptr"]):  # what could not be loaded is not written
            raise QuorateError(f"cannot save to {where}: the stream has ids of tasks without votes; please report this")
        hard = arrays["shares"].ndim == 1
        meta = {**self.settings, "options": self._options, "numbers": {"task": task, "worker": worker}, "hard": hard}
        return meta, arrays

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, labels: Iterable[object] | None = None, repair: bool = False) -> Online:
        """Return the stream that was saved at `path`; `labels`, where given, must be its labels.

        An interrupted `learn` of version 0.1.0 could leave ids of tasks in the file that have no votes and no place. Such a
        file is an error; with `repair` these ids are dropped, and a `RepairedStream` warning says how many.
        """
        path = Path(path)
        meta, arrays = container.load(path, "online", VERSION, stream_file.META)
        bounds = Bounds(path)
        online = cls._made(bounds, meta)
        if labels is not None and [text_of(i) for i in labels] != [text_of(i) for i in meta["labels"]]:
            raise InputError(f"{path} has the labels {listed(meta['labels'])}, not those given")
        dropped = online._fill(bounds, meta, arrays, repair=repair)
        if dropped:
            warnings.warn(f"{path}: dropped the ids of {dropped} tasks that have no votes", RepairedStream, stacklevel=2)
        return online

    def _fill(self, bounds: Bounds, meta: dict[str, Any], arrays: dict[str, NDArray[Any]], *, repair: bool = False) -> int:
        """Take the arrays of a file after they were checked, and return how many ids of tasks were dropped."""
        arrays, dropped = stream_file.checked(bounds, meta, arrays, repair=repair)
        shares = arrays.pop("shares")
        try:
            self._state.restore(
                **arrays,
                **{"winners" if meta["hard"] else "units": shares},
                task_numbers=meta["numbers"]["task"],
                worker_numbers=meta["numbers"]["worker"],
            )
        except ValueError as error:
            raise InputError(f"{bounds.source} is not valid: {error}") from error
        return dropped

    @classmethod
    def _made(cls, bounds: Bounds, meta: dict[str, Any]) -> Online:
        """Return an empty stream with the settings of a file, after these were checked."""
        bounds.fields("its meta", meta["numbers"], {"task": bool, "worker": bool})
        try:
            online = cls(**{name: meta[name] for name in ("labels", "model", "seed", "duplicates", "strength")})
            known = MODELS[meta["model"]].options()
            strangers = [name for name in meta["options"] if name not in known]
            bounds.need(not strangers, f"its model has no option {listed(map(shown, strangers), 3)}")
            make(meta["model"], known, {"seed": meta["seed"], **meta["options"]})
        except OptionError as error:
            raise InputError(f"{bounds.source} is not valid: {error}") from error
        fits = meta["hard"] or meta["model"] != "fds", not meta["hard"] or meta["model"] != "ds"
        bounds.need(all(fits), f"a stream of {meta['model']} keeps {'probabilities' if meta['hard'] else 'labels'}")
        online._options = meta["options"]
        return online

    def _shares(self, result: Result, has: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """Return the labels (or posteriors) of a fit as the shares of the tasks that have votes."""
        if self._model != "ds":  # a hybrid fit ends hard
            winners = np.full(len(has), -1, np.int32)
            winners[has] = result.fit.outcome.labels
            return {"winners": winners}
        units = np.zeros((len(has), len(self._labels)), np.int64)
        units[has] = to_units(posterior_of(result.fit, result.session))
        return {"units": units}

    def _checked(self, batch: pl.DataFrame, first_row: int, numbers: dict[str, bool]) -> pl.DataFrame:
        """Return a batch with ids as text and labels as codes; raise before anything is learned."""
        columns = {role: prepared(batch[role], role, first_row) for role in ("task", "worker", "label")}
        for role in ("task", "worker"):
            require_present(columns[role], role, first_row)
            numbers[role] |= columns[role].dtype == pl.Int64
        labels = columns["label"].cast(pl.String)
        unknown = [t for t in labels.drop_nulls().unique(maintain_order=True) if t not in self._label_code]
        if unknown:
            row = first_row + int((labels == unknown[0]).arg_true()[0]) + 1
            raise undeclared(unknown[0], self._label_ids, f" in row {row}")
        coded = labels.replace_strict(self._label_code, return_dtype=pl.UInt32)
        return pl.DataFrame(
            {"task": columns["task"].cast(pl.String), "worker": columns["worker"].cast(pl.String), "label": coded}
        )


def _unpickled(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Online:
    bounds = Bounds("a pickled stream")
    online = Online._made(bounds, meta)
    online._fill(bounds, meta, dict(arrays))
    return online


def _text(value: object, role: str) -> str:
    """Return the text of an id that may be new."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, str | int | np.integer):
        raise InputError(f"{role} is {shown(value)}: give text or a whole number")
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{role} is {shown(value)}: not valid text ({error.reason})") from error
    return text


def _known_text(value: object) -> str:
    """Return the text of an id that is looked up."""
    text = value if type(value) is str else text_of(value)
    return text if text.isascii() else _text(text, "an id")


def _ids(texts: tuple[NDArray[np.int64], NDArray[np.uint8]], numbers: bool) -> Vocabulary:
    """Return ids as they came: as numbers, where they did and all of them are."""
    offsets, data = texts
    ids = Vocabulary("string", data, offsets)
    return narrowed(ids) if numbers else ids
