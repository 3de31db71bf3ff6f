"""The content of a stream as a file, a pickle and bytes hold it; and the stream of such content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from adjudge.errors import InputError, OptionError, AdjudgeError, listed, shown
from adjudge.io import stream_file
from adjudge.io.bounds import Bounds
from adjudge.models.base import MODELS, make

if TYPE_CHECKING:
    from adjudge.online.stream import Online

FACTS: Final = ("abstentions", "changes", "tasks_seen", "evicted")  # whole numbers of a snapshot that are not arrays
Content = tuple[dict[str, Any], dict[str, NDArray[Any]]]  # settings and other facts, and arrays


def content_of(online: Online, where: object) -> Content:
    """Return what a file of a stream holds; `where` it is to go, for messages."""
    arrays = online.state.snapshot()
    (task, worker), measured = arrays.pop("numbers"), arrays.pop("measured")
    facts: dict[str, Any] = {name: arrays.pop(name) for name in FACTS}
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


def stream_of(cls: type[Online], bounds: Bounds, content: Content, *, repair: bool = False) -> tuple[Online, int]:
    """Return the stream of some content, after it was checked, and how many ids of tasks were dropped."""
    meta, arrays = content
    online = _empty(cls, bounds, meta)
    arrays, dropped = stream_file.checked(bounds, meta, arrays, repair=repair)
    try:
        online.state.restore(
            **arrays,
            **{name: meta[name] for name in FACTS if name in meta},
            measured=_moment(meta),
            task_numbers=meta["numbers"]["task"],
            worker_numbers=meta["numbers"]["worker"],
        )
    except ValueError as error:
        raise InputError(f"{bounds.source} is not valid: {error}") from error
    return online, dropped


def _moment(meta: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return when and how far the last renewal measured; None where nothing was, or an older version saved the file."""
    found = meta.get("measured")
    return None if found is None else tuple(found[name] for name in stream_file.MOMENT)


def _empty(cls: type[Online], bounds: Bounds, meta: dict[str, Any]) -> Online:
    """Return an empty stream with the settings of a file, after these were checked."""
    bounds.fields("its meta", meta["numbers"], {"task": bool, "worker": bool})
    try:
        settings = {name: meta[name] for name in ("labels", "model", "seed", "duplicates", "strength")}
        online = cls(**settings, confidence=meta.get("confidence", "posterior"))
        known = MODELS[meta["model"]].options()
        strangers = [name for name in meta["options"] if name not in known]
        bounds.need(not strangers, f"its model has no option {listed(map(shown, strangers), 3)}")
        make(meta["model"], known, {"seed": meta["seed"], **meta["options"]})
    except OptionError as error:
        raise InputError(f"{bounds.source} is not valid: {error}") from error
    fits = meta["hard"] or meta["model"] not in ("fds", "auto"), not meta["hard"] or meta["model"] != "ds"
    bounds.need(all(fits), f"a stream of {meta['model']} keeps {'probabilities' if meta['hard'] else 'labels'}")
    online._options = meta["options"]
    return online
