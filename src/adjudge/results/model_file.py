"""What a fit has learned: taken out of it, added to that of another, saved to one file and loaded again.

The file is a checksummed container (`adjudge.io.container`) of kind "model"; docs/saved-models.md names its parts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from adjudge.data import options
from adjudge.data.counts import Knowledge
from adjudge.data.options import Choice, Number, Rules
from adjudge.data.vocabulary import Vocabulary, text_of
from adjudge.errors import InputError, OptionError, AdjudgeError, listed, shown
from adjudge.io import container
from adjudge.io.bounds import LARGEST, Array, Bounds, Types
from adjudge.io.ids import column
from adjudge.results.honest import DEPENDENCE
from adjudge.results.knowledge import Learned, Scoring
from adjudge.results.temperature import COLDEST, HOTTEST

KIND: Final = "model"
VERSION: Final = 1
GROUPED: Final = 2  # the version of files with groups: a reader that knows none would take their members for strangers
Floats = NDArray[np.float64]
CLOSE: Final = 1e-6  # probabilities may be this far beyond what they should be
# What a file of version 1 holds; docs/saved-models.md tells what each part is.
META: Final[Types] = {
    "model": str,
    "settings": dict,
    "scoring": str,
    "labels": list,
    "worker_kind": str,
    "iterations": int,
    "temperature": (float, int),
    "facts": dict,
}
ARRAYS: Final = {
    "worker_ids": Array(None, ("ids",)),
    "worker_offsets": Array("<i8", ("offsets",)),
    "worker_ptr": Array("<i8", ("workers+1",)),
    "row_label": Array("<i4", ("rows",)),
    "counts": Array("<f8", ("rows", "labels")),
    "class_counts": Array("<f8", ("labels",)),
    "table": Array("<f8", ("rows", "labels")),
    "denominators": Array("<f8", ("workers", "labels")),
    "shared": Array("<f8", ("labels", "labels")),
    "priors": Array("<f8", ("labels",)),
    "skill": Array("<f8", ("workers",), optional=True),
}
ID_ARRAYS: Final = {
    "string": {"worker_ids": Array("|u1", ("bytes",)), "worker_offsets": Array("<i8", ("workers+1",))},
    "integer": {"worker_ids": Array("<i8", ("workers",)), "worker_offsets": Array("<i8", (0,))},
    "boolean": {"worker_ids": Array("|b1", ("workers",)), "worker_offsets": Array("<i8", (0,))},
}
SETTINGS: Final[Rules] = {"seed": Number(whole=True), "ties": Choice(("hash", "prior"))}


def save(path: Path, learned: Learned) -> None:
    """Write what was learned to one file, whole or not at all; the same content gives the same bytes."""
    meta, arrays = contents(learned)
    container.save(path, KIND, GROUPED if learned.groups else VERSION, meta, arrays)


def contents(learned: Learned) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the meta and the arrays of the file of what was learned."""
    known = learned.knowledge
    arrays: dict[str, NDArray[Any]] = {
        "worker_ids": known.workers.values,
        "worker_offsets": known.workers.offsets,
        "worker_ptr": known.worker_ptr,
        "row_label": known.row_label,
        "counts": known.counts,
        "class_counts": known.class_counts,
        "table": learned.table,
        "denominators": learned.denominators,
        "shared": learned.shared,
        "priors": learned.priors,
    }
    if learned.skill is not None:
        arrays["skill"] = learned.skill
    meta: dict[str, Any] = {
        "model": learned.model,
        "settings": dict(learned.settings),
        "scoring": learned.scoring,
        "labels": known.labels.ids(),
        "worker_kind": known.workers.kind,
        "iterations": learned.iterations,
        "temperature": learned.temperature,
        "facts": dict(learned.facts),
    }
    if learned.groups:
        meta["groups"] = dict(learned.groups)
    return meta, arrays


def load(path: Path) -> Learned:
    """Return what was saved; a damaged, forged or foreign file is an error."""
    if container.kind_of(path) == "sets":
        raise InputError(f"{path} is a model of sets (multi=True), which only predict can use: give one of tasks with one label")
    return checked(path, *container.load(path, KIND, GROUPED, META, ARRAYS))


def checked(path: Path, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Learned:
    """Return what the meta and the arrays of a file say, after both were checked in full; their types have been."""
    knowledge = _checked_knowledge(path, meta, arrays)
    _check_parameters(Bounds(path), meta, arrays)
    return Learned(
        model=meta["model"],
        settings=meta["settings"],
        scoring=meta["scoring"],
        knowledge=knowledge,
        table=arrays["table"],
        denominators=arrays["denominators"],
        shared=arrays["shared"],
        priors=arrays["priors"],
        skill=arrays.get("skill"),
        iterations=meta["iterations"],
        temperature=float(meta["temperature"]),
        facts=meta["facts"],
        groups=_checked_groups(path, meta.get("groups", {})),
    )


def _checked_knowledge(path: Path, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Knowledge:
    """Return the workers, labels and counts of a file, after they were checked in full."""
    bounds, kind = Bounds(path), meta["worker_kind"]
    bounds.need(kind in ID_ARRAYS, f"its workers are of kind {shown(kind)}; known are {listed(ID_ARRAYS)}")
    bounds.arrays({name: arrays[name] for name in ("worker_ids", "worker_offsets")}, ID_ARRAYS[kind])
    try:
        labels = Vocabulary.of(meta["labels"], "label")
    except AdjudgeError as error:
        raise InputError(f"{path} is not valid: {error}") from error
    if kind == "string":
        bounds.texts("worker", arrays["worker_offsets"], arrays["worker_ids"])
    workers = Vocabulary(kind, arrays["worker_ids"], arrays["worker_offsets"])
    k, ptr, given = len(labels), arrays["worker_ptr"], arrays["row_label"]
    bounds.need(len(ptr) == len(workers) + 1, f"it has rows of {len(ptr) - 1} workers and names of {len(workers)}")
    bounds.need(len(arrays["priors"]) == k, f"it has priors of {len(arrays['priors'])} labels and names of {k}")
    bounds.need(column(workers).n_unique() == len(workers), "two of its workers have the same name")
    bounds.pointers("worker_ptr", ptr, len(given), rising=True)
    bounds.below("row_label", given, k)
    falls = given[1:] <= given[:-1]
    falls[ptr[1:-1] - 1] = False  # another worker begins
    bounds.need(not falls.any(), "the rows of a worker are not in the order of the labels")
    for name in ("counts", "class_counts", "denominators", "shared"):
        bounds.within(name, arrays[name], 0, LARGEST)
    return Knowledge(
        worker_ptr=ptr,
        row_label=given,
        workers=workers,
        labels=labels,
        counts=arrays["counts"],
        class_counts=arrays["class_counts"],
    )


def _checked_groups(path: Path, groups: object) -> dict[str, str]:
    """Return the groups of a file: worker to group, as texts."""
    bounds = Bounds(path)
    if not isinstance(groups, dict):
        bounds.fail(f"its groups are {shown(groups)}, not an object")
    for worker, group in groups.items():
        bounds.need(isinstance(group, str), f"its groups put worker {shown(worker)} into {shown(group)}, which is not text")
    return groups


def _check_order(bounds: Bounds, order: object, labels: list[Any]) -> None:
    """Raise unless this is an order of all labels of a file."""
    from adjudge.data.grades import check_order, grades_of

    try:
        grades_of([text_of(label) for label in labels], check_order(order))
    except OptionError as error:
        raise InputError(f"{bounds.source} is not valid: {error}") from error


def _check_parameters(bounds: Bounds, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raise unless the parameters and settings of a file are what a fit can end with."""
    scoring, skill = meta["scoring"], arrays.get("skill")
    bounds.need(scoring in get_args(Scoring), f"its votes are scored by {shown(scoring)}; known are {listed(get_args(Scoring))}")
    skilled = scoring in ("weight", "coin")
    bounds.need((skill is not None) == skilled, f"votes scored by {scoring} {'need the' if skilled else 'have no'} array skill")
    if skill is not None:
        bounds.within("skill", skill, 0 if scoring == "coin" else -LARGEST, 1 if scoring == "coin" else LARGEST)
    finite = np.where(np.isneginf(arrays["table"]), 0.0, arrays["table"])  # what never happens is minus infinity
    bounds.within("table", finite, -LARGEST, LARGEST if scoring == "weight" else CLOSE)
    bounds.within("priors", arrays["priors"], 0, 1 + CLOSE)
    total = float(arrays["priors"].sum())
    bounds.need(not len(arrays["priors"]) or abs(total - 1) < CLOSE, f"its priors sum to {total}, not to 1")
    rules: Rules = {"iterations": Number(least=0, whole=True), "temperature": Number(least=COLDEST, most=HOTTEST)}
    try:
        options.check(meta, rules)
        options.check({"seed": None, "ties": None, **meta["settings"]}, SETTINGS)
    except OptionError as error:
        raise InputError(f"{bounds.source} is not valid: {error}") from error
    if scoring == "careful" or "holds" in meta["facts"]:
        measured = dict(zip(DEPENDENCE, (0.0, 1.0, 1e-9), strict=True)) | ({"holds": 0.0} if "holds" in meta["facts"] else {})
        for name, least in measured.items():
            figure = meta["facts"].get(name)
            told = isinstance(figure, int | float) and not isinstance(figure, bool) and least <= figure <= LARGEST
            bounds.need(told, f"its fact {name} is {shown(figure)}, not a number from {least:g} on")
    for name in ("settings", "facts"):
        for key, value in meta[name].items():
            if name == "settings" and key == "order" and value is not None:
                _check_order(bounds, value, meta["labels"])
                continue
            bounds.need(value is None or type(value) in (str, int, float, bool), f"its {name} have {key} {shown(value)}")
