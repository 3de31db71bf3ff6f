"""Batch fits of a stream's votes, and its content in files, pickles and bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.options import DEFAULTS, STREAMED_DEFAULTS, Confidence, Kept, StreamedModel
from adjudge.data.vocabulary import text_of
from adjudge.data.votes import FrameKind, Votes, require_unweighted
from adjudge.engines.registry import EngineChoice
from adjudge.errors import AdjudgeError, InputError, OptionError, itemize, quote
from adjudge.io import container, stream_file
from adjudge.io.container import Bounds
from adjudge.io.stream_file import LabelNames, state_arrays, stream_gold, stream_history, stream_votes
from adjudge.kernels.online_honest import to_units
from adjudge.models.base import MODELS
from adjudge.models.temperature import posterior_of
from adjudge.online.reading import RULES, STREAMED
from adjudge.results.result import Result

if TYPE_CHECKING:
    from adjudge.online.stream import Online


class Refit:
    """A batch fit of the votes that a stream had at one moment; `Online.begin_refit` makes one.

    It is a copy: it can run in any thread without touching the stream, and the stream may change meanwhile. What evicted tasks
    taught about workers is part of the fit, as their history.

    Parameters
    ----------
    now : dict
        Snapshot of the state.
    names : LabelNames
        The labels.
    model, options : as for `Online`
        The batch model, and its options with the seed.
    confidence : {"honest", "posterior"}
        Confidence of the result.
    frame_kind : FrameKind
        Frame library of the result.
    warm : bool
        Whether to start from the current labels.

    """

    def __init__(
        self,
        now: Mapping[str, Any],  # a snapshot of the state
        names: LabelNames,
        *,
        model: StreamedModel,
        options: Mapping[str, Any],  # of the batch model, its seed among them
        confidence: Confidence,
        frame_kind: FrameKind,
        warm: bool,
    ) -> None:
        self._now, self._labels = now, names.first(now["n_labels"]).vocabulary
        self.model, self._options, self._confidence = model, options, confidence
        self._frame_kind, self._warm = frame_kind, warm
        self._result: Result | None = None

    def __repr__(self) -> str:
        return f"Refit({self.model}: {len(self._now['task_ptr']) - 1} tasks, {'not run' if self._result is None else 'run'})"

    @property
    def votes(self) -> Votes:
        """The votes that are fitted."""
        return stream_votes(self._now, self._labels, self._frame_kind)

    @property
    def result(self) -> Result | None:
        """The fit, None before it was run."""
        return self._result

    def run(self, *, engine: EngineChoice = DEFAULTS.engine) -> Result:
        """Return the fit; it is the same for any number of threads.

        Parameters
        ----------
        engine : str or engine, default "auto"
            The engine to run on, as for `adj.aggregate`.

        Returns
        -------
        Result
            The fit; it is the same for any number of threads.

        """
        now = self._now
        start = now["labels"][self._has_votes()] if self._warm else None
        gold: Any = stream_gold(now) if len(now["gold_labels"]) else None
        model = MODELS[self.model](**self._options)
        known = {"start": start, "gold": gold, "history": stream_history(now, self._labels)}
        self._result = model.fit(self.votes, engine=engine, confidence=self._confidence, **known)
        return self._result

    def adopt_into(self, state: Any) -> Result:
        """Put the labels of the fit into a state, running the fit first if needed.

        Parameters
        ----------
        state : object
            State of the stream.

        Returns
        -------
        Result
            The fit.

        """
        result, now = self._result or self.run(), self._now
        fitted = (now[name] for name in ("task_offsets", "task_texts", "task_ptr", "row"))
        state.adopt(*fitted, **shares(result, self._has_votes(), self.model), gold=now["task_gold"])
        return result

    def _has_votes(self) -> NDArray[np.bool_]:
        has: NDArray[np.bool_] = np.diff(self._now["task_ptr"]) > 0
        return has


class WholeStream:
    """The methods of a stream that take all of it: batch fits, files and bytes."""

    @classmethod
    def from_result(
        cls,
        result: Result,
        *,
        strength: float = STREAMED_DEFAULTS.strength,
        duplicates: Kept | None = None,
        confidence: Confidence | None = None,
    ) -> Online:
        """Continue from a batch fit, with its votes, its gold and its treatment of repeated votes.

        Parameters
        ----------
        result : Result
            A fit of auto, ds, fds or hybrid.
        strength : float, optional
            As for `Online`.
        duplicates : "all" or "last", optional
            As for `Online`; by default as in the fit.
        confidence : "honest" or "posterior", optional
            Replaces the confidence of the fit.

        Returns
        -------
        Online
            The stream.

        Raises
        ------
        InputError
            If the fit is of another model, has groups, or has weighted votes.

        Examples
        --------
        >>> import adjudge as adj
        >>> crowd = adj.simulate(tasks=50, workers=8, seed=1)
        >>> online = adj.Online.from_result(adj.aggregate(crowd.votes))
        >>> online.learn("t3", "w99", "l1")
        >>> len(online)
        50

        """
        if not isinstance(result, Result):
            raise InputError(f"cannot continue from {quote(result)}: give the result of a batch fit with one label per vote")
        if result.model not in STREAMED:
            raise InputError(f"a fit of {result.model!r} cannot continue as a stream: use one of {itemize(STREAMED)}")
        if result.grouping is not None:
            raise InputError("a fit with groups cannot continue as a stream, where workers vote one by one: fit without groups")
        require_unweighted(result.votes, "a stream", "fit without weight")
        votes = result.votes
        rule: Any = duplicates or ("all" if votes.duplicates == "all" else "last")
        seed = result.settings["seed"]
        assert isinstance(seed, int)
        model = cast(StreamedModel, result.model)
        shows = confidence or ("honest" if "holds" in result.fit.facts else "posterior")
        made = {"model": model, "seed": seed, "duplicates": rule, "strength": strength, "confidence": shows}
        online = cast("type[Online]", cls)(labels=votes.labels.ids(), **made)
        online._options = {k: v for k, v in result.settings.items() if k != "seed"}
        online._frame_kind = votes.frame_kind
        voted = np.arange(votes.n_tasks + len(votes.unvoted)) < votes.n_tasks  # others have nothing but abstentions
        online._state.restore(
            **state_arrays(votes, getattr(result.session, "gold_labels", None)),
            **shares(result, voted, model),
            abstentions=int(votes.abstentions),
            task_numbers=votes.tasks.kind == "integer",
            worker_numbers=votes.workers.kind == "integer",
        )
        return online

    def refit(self, *, warm: bool = False, engine: EngineChoice = DEFAULTS.engine) -> Result:
        """Fit the votes in memory in batch, and continue from the fit.

        Other threads may read and learn meanwhile. A task that gained or lost votes since `refit` was called is then settled as
        by a vote, under the parameters of the fit.

        Parameters
        ----------
        warm : bool, default False
            Whether to start from the current labels.
        engine : str or engine, optional
            The engine to run on, as for `adj.aggregate`.

        Returns
        -------
        Result
            The fit.

        """
        refit = self.begin_refit(warm=warm)
        refit.run(engine=engine)
        return self.finish_refit(refit)

    def begin_refit(self, *, warm: bool = False) -> Refit:
        """Return a batch fit of the votes that there are now, to be run and then finished: `refit` in three steps.

        Parameters
        ----------
        warm : bool, default False
            Start from the current labels.

        Returns
        -------
        Refit
            A batch fit of the votes that there are now, to be run and then finished: `refit` in three steps.

        Notes
        -----
        The fit is run where and when the caller likes, and the stream changes only when it is finished. A service runs it
        while votes arrive, and gets the same stream again if it repeats the steps at the same moments.

        Examples
        --------
        >>> import adjudge as adj
        >>> online = adj.Online(labels=["cat", "dog"])
        >>> online.learn_many([("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t2", "ann", "dog")])
        >>> refit = online.begin_refit()
        >>> online.learn("t2", "bob", "dog")           # meanwhile; in another thread, refit.run(engine=adj.Cpu(threads=2))
        >>> online.finish_refit(refit).labels["votes"].to_list(), online.predict("t2").votes
        ([2, 1], 2)

        """
        online = cast("Online", self)
        return Refit(
            online._state.snapshot(),
            online._names,
            model=online._model,
            options={"seed": online._seed, **online._options},
            confidence=online._confidence,
            frame_kind=online._frame_kind,
            warm=warm,
        )

    def finish_refit(self, refit: Refit) -> Result:
        """Continue from a refit that this stream, or a copy of it, has begun.

        A task that gained or lost votes since the refit began is settled as by a vote, under the parameters of the fit.

        Parameters
        ----------
        refit : Refit
            What `begin_refit` returned; it is run now if it was not run before.

        Returns
        -------
        Result
            The fit.

        Raises
        ------
        InputError
            If the refit is not one of this stream.

        """
        online = cast("Online", self)
        if not isinstance(refit, Refit) or refit.model != online._model:
            raise InputError(f"cannot finish {quote(refit)}: give a refit that this stream has begun")
        return refit.adopt_into(online._state)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole stream to one file; the same events give the same bytes.

        A loaded stream gives the same answers as the saved one from then on, bit for bit. The last measurement of honest
        confidence is part of the file, so `renew`, and a read that renews, count as events.

        Parameters
        ----------
        path : str or path
            The file; it is written completely or not at all.

        """
        container.save(Path(path), "online", stream_file.VERSION, *content_of(cast("Online", self), path))

    def to_bytes(self) -> bytes:
        """Return what `save` writes, as bytes.

        Examples
        --------
        >>> import adjudge as adj
        >>> online = adj.Online(labels=["cat", "dog"])
        >>> online.learn("t1", "ann", "cat")
        >>> adj.Online.from_bytes(online.to_bytes()).predict("t1").label
        'cat'

        """
        return b"".join(container.pack("online", stream_file.VERSION, *content_of(cast("Online", self), "bytes")))

    @classmethod
    def from_bytes(cls, data: bytes) -> Online:
        """Return the stream that `to_bytes` turned into bytes; they are checked as a file is.

        Parameters
        ----------
        data : bytes
            What `to_bytes` returned.

        Returns
        -------
        Online
            The stream.

        Raises
        ------
        InputError
            If the bytes are damaged.

        """
        meta, arrays = container.unpack("a stream in bytes", bytes(data), "online", stream_file.VERSION, stream_file.META)
        return stream_of(cast("type[Online]", cls), Bounds("a stream in bytes"), (meta, arrays))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        labels: Iterable[object] | None = None,
        confidence: Confidence | None = None,
    ) -> Online:
        """Return the stream that `save` wrote.

        Parameters
        ----------
        path : str or path
            The file.
        labels : iterable of object, optional
            Labels the stream must have, as a check.
        confidence : "honest" or "posterior", optional
            Replaces the confidence of the stream.

        Returns
        -------
        Online
            The stream.

        Raises
        ------
        InputError
            If the file is damaged, or has other labels.

        """
        path = Path(path)
        if confidence is not None:
            RULES["confidence"].check("confidence", confidence)
        meta, arrays = container.load(path, "online", stream_file.VERSION, stream_file.META)
        online = stream_of(cast("type[Online]", cls), Bounds(path), (meta, arrays))
        if labels is not None and [text_of(i) for i in labels] != [text_of(i) for i in meta["labels"]]:
            raise InputError(f"{path} has the labels {itemize(meta['labels'])}, not those given")
        if confidence is not None:
            online._confidence = confidence
        return online


def shares(result: Result, has: NDArray[np.bool_], model: StreamedModel) -> dict[str, NDArray[Any]]:
    """Return the labels (and posteriors) of a fit as a state takes them; `has` says which tasks have votes, [tasks]."""
    winners = np.full(len(has), -1, np.int32)
    winners[has] = result.fit.outcome.labels
    out: dict[str, NDArray[Any]] = {"winners": winners}
    if model == "ds":  # a hybrid fit ends hard
        out["units"] = np.zeros((len(has), result.votes.n_labels), np.int64)
        out["units"][has] = to_units(posterior_of(result.fit, result.session))
    elif model == "auto":  # between fits the stream is one of fds, whose parameters are not those of auto
        out["fitted"] = np.zeros(len(has), np.uint8)
        out["fitted"][has] = 1 + np.asarray(result.fit.outcome.tie, np.uint8)
    return out


Content = tuple[dict[str, Any], dict[str, NDArray[Any]]]  # settings and other facts, and arrays


def content_of(online: Online, where: object) -> Content:
    """Return what a file of a stream holds; `where` it is to go, for messages."""
    arrays = online.state.snapshot()
    (task, worker), measured = arrays.pop("numbers"), arrays.pop("measured")
    facts: dict[str, Any] = {name: arrays.pop(name) for name in stream_file.COUNTS}
    facts["measured"] = None if measured is None else dict(zip(stream_file.MOMENT, measured, strict=True))
    labels = online._names.first(arrays.pop("n_labels")).ids
    del arrays["task_gold"]
    if len(arrays["task_offsets"]) != len(arrays["task_ptr"]):  # what could not be loaded is not written
        raise AdjudgeError(f"cannot save to {where}: the stream has ids of tasks without votes; please report this")
    hard = arrays["shares"].ndim == 1
    if hard:
        del arrays["labels"]
    if online._model != "auto":
        del arrays["fitted"]
    numbers = {"task": task, "worker": worker}
    settings = {**online.settings, "labels": list(labels), "options": online._options}
    return {**settings, "numbers": numbers, "hard": hard, **facts}, arrays


def stream_of(cls: type[Online], bounds: Bounds, content: Content) -> Online:
    """Check the content of a file and return its stream."""
    meta, arrays = content
    online = _empty(cls, bounds, meta)
    try:
        online.state.restore(
            **stream_file.check_content(bounds, meta, arrays),
            **{name: meta[name] for name in stream_file.COUNTS},
            measured=_moment(meta),
            task_numbers=meta["numbers"]["task"],
            worker_numbers=meta["numbers"]["worker"],
        )
    except ValueError as error:
        raise InputError(f"{bounds.source} is not valid: {error}") from error
    return online


def _moment(meta: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return time and result of the last renewal's measurement; None before the first renewal."""
    found = meta["measured"]
    return None if found is None else tuple(found[name] for name in stream_file.MOMENT)


def _empty(cls: type[Online], bounds: Bounds, meta: dict[str, Any]) -> Online:
    """Return an empty stream with the settings of a file, after these were checked."""
    bounds.fields("its meta", meta["numbers"], {"task": bool, "worker": bool})
    try:
        settings = {name: meta[name] for name in ("labels", "model", "seed", "duplicates", "strength", "confidence")}
        online = cls(**settings)
        known = MODELS[meta["model"]].options()
        strangers = [name for name in meta["options"] if name not in known]
        bounds.need(not strangers, f"its model has no option {itemize(map(quote, strangers), 3)}")
        MODELS[meta["model"]](**{"seed": meta["seed"], **meta["options"]})
    except OptionError as error:
        raise InputError(f"{bounds.source} is not valid: {error}") from error
    fits = meta["hard"] or meta["model"] not in ("fds", "auto"), not meta["hard"] or meta["model"] != "ds"
    bounds.need(all(fits), f"a stream of {meta['model']} keeps {'probabilities' if meta['hard'] else 'labels'}")
    online._options = meta["options"]
    return online
