"""What a fit has learned: taken out of it, added to that of another, saved to one file and loaded again.

The file is a checksummed container (`quorate.io.container`) of kind "model"; docs/saved-models.md names its parts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate import settings
from quorate.errors import InputError, OptionError, QuorateError, listed, shown
from quorate.fit import Fit
from quorate.io import container
from quorate.io.bounds import LARGEST, Array, Bounds, Types
from quorate.io.ids import column, matched, sort_order, vocabulary
from quorate.kernels import reference
from quorate.knowledge import Knowledge
from quorate.settings import Choice, Number, Rules
from quorate.temperature import COLDEST, HOTTEST
from quorate.transfer import Learned, Scoring, possible_labels
from quorate.vocabulary import Vocabulary
from quorate.votes import Panel

KIND: Final = "model"
VERSION: Final = 1
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


def learned_from(
    panel: Panel, fit: Fit, *, model: str, settings: Any, scoring: str, history: Knowledge | None = None, facts: Any = None
) -> Learned:
    """Returns what a fit has learned, and what its history knew before it."""
    own = Knowledge(
        worker_ptr=panel.worker_ptr,
        row_label=panel.row_label,
        workers=panel.workers,
        labels=panel.labels,
        counts=fit.statistics.counts.astype(np.float64),
        class_counts=fit.statistics.class_counts.astype(np.float64),
    )
    prior, k = fit.params.prior, panel.n_labels
    shared = np.full((k, k), prior.smoothing) + (0.0 if prior.workers is None else prior.workers.shared)
    mine = Learned(
        model=model,
        settings=settings,
        scoring=scoring,
        knowledge=own,
        table=fit.params.table,
        denominators=fit.params.denominators(),
        shared=shared,
        priors=fit.params.priors if fit.scored_by is None else fit.scored_by,
        skill=fit.skill,
        iterations=fit.trace[-1].iteration if fit.trace else 0,
        temperature=fit.temperature,
        facts=facts or {},
    )
    return mine if history is None else _with_history(mine, history)


def _with_history(mine: Learned, history: Knowledge) -> Learned:
    """Returns what was learned, with the rows and workers that only the history knows."""
    own = mine.knowledge
    past = over(history, own.labels)
    every = added(own, past)
    place = every.row_of(matched(own.workers, every.workers)[own.row_worker()], own.row_label)
    worker = matched(own.workers, every.workers)
    denominators = every.by_worker(every.counts) + mine.shared.sum(axis=0)  # of workers whom only the history knows
    denominators[worker] = mine.denominators
    with np.errstate(divide="ignore", invalid="ignore"):
        believed = np.log(every.counts + mine.shared[every.row_label])
        table = believed - np.repeat(np.log(denominators), np.diff(every.worker_ptr), axis=0)
    table[np.isnan(table)] = -np.inf
    table[place] = mine.table
    skill = None if mine.skill is None else _counted_skill(every, mine)
    if skill is not None and mine.skill is not None:
        skill[worker] = mine.skill
    return replace(mine, knowledge=every, table=table, denominators=denominators, skill=skill)


def merged(first: Learned, second: Learned) -> Learned:
    """Returns the knowledge of both, and the parameters that follow from it."""
    if first.scoring != second.scoring:
        raise InputError(f"a model of {first.model!r} and one of {second.model!r} have nothing to add: merge the same kind")
    if set(first.knowledge.labels.texts()) != set(second.knowledge.labels.texts()):
        raise InputError(
            f"the models are over other labels ({listed(first.knowledge.labels.ids())}, and "
            f"{listed(second.knowledge.labels.ids())}): merge models over the same labels"
        )
    every = added(first.knowledge, over(second.knowledge, first.knowledge.labels))
    shared = first.shared
    table, totals = reference.confusion_table(every.counts + shared[every.row_label], every.worker_ptr, 0.0)
    denominators = every.by_worker(every.counts) + shared.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.log(totals) - np.log(denominators)
    shift[~np.isfinite(shift)] = 0.0
    table += np.repeat(shift, np.diff(every.worker_ptr), axis=0)
    numbers = {
        name: a + b
        for name in ("votes", "tasks")
        if isinstance(a := first.facts.get(name), int) and isinstance(b := second.facts.get(name), int)
    }
    return replace(
        first,
        knowledge=every,
        table=table,
        denominators=denominators,
        priors=_merged_priors(first, second, every),
        skill=None if first.skill is None else _counted_skill(every, first),
        iterations=max(first.iterations, second.iterations),
        temperature=1.0,  # how sure the merged model may be is not known
        facts=numbers,
    )


def _merged_priors(first: Learned, second: Learned, every: Knowledge) -> Floats:
    """Returns the priors of two together, [K]: what both say where they are fixed, else the shares of the labels."""
    total = float(every.class_counts.sum())
    if first.settings.get("class_priors") != "uniform":
        return every.class_counts / total if total else first.priors
    other = second.priors[matched(first.knowledge.labels, second.knowledge.labels)]
    if np.array_equal(first.priors, other):
        return first.priors
    possible = (first.priors > 0) | (other > 0)
    return possible / max(int(possible.sum()), 1)


def _counted_skill(known: Knowledge, learned: Learned) -> Floats:
    """Returns weights or accuracies from the votes that met the true label, and the pseudo-votes of every worker, [workers]."""
    there = possible_labels(known, learned.priors)
    right = known.by_worker(known.counts[np.arange(known.n_rows), known.row_label]) + np.diag(learned.shared)[there].sum()
    total = known.by_worker(known.counts.sum(axis=1)) + learned.shared[np.ix_(there, there)].sum()
    accuracy: Floats = right / np.where(total > 0, total, 1.0)
    return known.n_labels * accuracy - 1.0 if learned.scoring == "weight" else accuracy


def added(first: Knowledge, second: Knowledge) -> Knowledge:
    """Returns the sum of two over the same labels in the same order."""
    k = max(first.n_labels, 1)
    new = second.workers.take(np.flatnonzero(matched(second.workers, first.workers) < 0))
    parts = [column(v) for v in (first.workers, new) if len(v)] or [column(first.workers)]
    if len({part.dtype for part in parts}) > 1:  # numbers in one, texts in the other: an id is its text
        parts = [part.cast(pl.String) for part in parts]
    ids = vocabulary(pl.concat(parts, rechunk=True))
    order = sort_order(ids)
    workers = ids.take(order)
    cells = [
        matched(part.workers, workers)[part.row_worker()] * k + part.row_label for part in (first, second)
    ]  # (worker, given label) pairs of both
    rows, where = np.unique(np.concatenate(cells), return_inverse=True)
    counts = np.zeros((len(rows), first.n_labels))
    np.add.at(counts, where[: len(cells[0])], first.counts)
    np.add.at(counts, where[len(cells[0]) :], second.counts)
    row_worker, row_label = np.divmod(rows, k)
    return Knowledge(
        worker_ptr=np.searchsorted(row_worker, np.arange(len(workers) + 1)).astype(np.int64),
        row_label=row_label.astype(np.int32),
        workers=workers,
        labels=first.labels,
        counts=counts,
        class_counts=first.class_counts + second.class_counts,
    )


def over(known: Knowledge, labels: Vocabulary) -> Knowledge:
    """Returns knowledge over other labels that hold all of its own: what was never seen has no count."""
    place = matched(known.labels, labels)
    if len(labels) == known.n_labels and (place == np.arange(len(labels))).all():
        return replace(known, labels=labels)
    order = np.lexsort((place[known.row_label], known.row_worker()))
    counts, class_counts = np.zeros((known.n_rows, len(labels))), np.zeros(len(labels))
    counts[:, place] = known.counts[order]
    class_counts[place] = known.class_counts
    row_label = place[known.row_label][order].astype(np.int32)
    return replace(known, row_label=row_label, labels=labels, counts=counts, class_counts=class_counts)


def save(path: Path, learned: Learned) -> None:
    """Writes what was learned to one file, whole or not at all; the same content gives the same bytes."""
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
    meta = {
        "model": learned.model,
        "settings": dict(learned.settings),
        "scoring": learned.scoring,
        "labels": known.labels.ids(),
        "worker_kind": known.workers.kind,
        "iterations": learned.iterations,
        "temperature": learned.temperature,
        "facts": dict(learned.facts),
    }
    container.save(path, KIND, VERSION, meta, arrays)


def load(path: Path) -> Learned:
    """Return what was saved; a damaged, forged or foreign file is an error."""
    meta, arrays = container.load(path, KIND, VERSION, META, ARRAYS)
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
    )


def _checked_knowledge(path: Path, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Knowledge:
    """Return the workers, labels and counts of a file, after they were checked in full."""
    bounds, kind = Bounds(path), meta["worker_kind"]
    bounds.need(kind in ID_ARRAYS, f"its workers are of kind {shown(kind)}; known are {listed(ID_ARRAYS)}")
    bounds.arrays({name: arrays[name] for name in ("worker_ids", "worker_offsets")}, ID_ARRAYS[kind])
    try:
        labels = Vocabulary.of(meta["labels"], "label")
    except QuorateError as error:
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
        settings.check(meta, rules)
        settings.check({"seed": None, "ties": None, **meta["settings"]}, SETTINGS)
    except OptionError as error:
        raise InputError(f"{bounds.source} is not valid: {error}") from error
    for name in ("settings", "facts"):
        for key, value in meta[name].items():
            bounds.need(value is None or type(value) in (str, int, float, bool), f"its {name} have {key} {shown(value)}")
