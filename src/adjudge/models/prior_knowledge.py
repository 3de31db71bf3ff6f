"""What callers know beforehand, checked and put into codes: workers' histories, class priors, saved models."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import polars as pl

from adjudge.data.fit import ClassPrior, Knowledge, Others
from adjudge.data.options import MOST_VOTES, Number
from adjudge.data.vocabulary import Id, Vocabulary, text_of
from adjudge.data.votes import WorkerRows
from adjudge.errors import InputError, OptionError, itemize, quote
from adjudge.io.encode import narrow_ids, sort_order
from adjudge.io.frames import kind_of, match_ids, prepare_ids, require_present, vocabulary
from adjudge.io.sources import Source, read_frame
from adjudge.models import knowledge
from adjudge.models.knowledge import Learned

# By label, in label order, or the same for all.
Priors: TypeAlias = Mapping[str, float] | Mapping[int, float] | Mapping[Id, float] | Iterable[float] | Literal["uniform"]
PRIOR_SUM_TOLERANCE = 1e-6  # class priors sum to one within this


@runtime_checkable
class HasLearned(Protocol):
    """A fit: a result, or a model that was saved."""

    def learned(self) -> Learned:
        """Return what it has learned."""
        ...


def as_learned(source: object, what: str) -> Learned:
    """Return what a result, a loaded model or a saved file has learned."""
    if isinstance(source, Learned):
        return source
    if isinstance(source, HasLearned):
        return source.learned()
    if isinstance(source, str | os.PathLike):
        from adjudge.results.saved import read_model  # most fits start from none

        return read_model(Path(source))
    raise InputError(f"{what} is {quote(source)}: give a result, a loaded model, or the path of a saved one")


def opened(source: Any, what: str) -> Any:
    """Return a fit (a result, a loaded model, a saved file) as its learned parameters, and anything else unchanged."""
    return as_learned(source, what) if isinstance(source, HasLearned) or _is_saved(source) else source


def _is_saved(source: object) -> bool:
    """Return whether a source names the file of a saved fit."""
    if not isinstance(source, str | os.PathLike):
        return False
    from adjudge.io import container  # most fits start from none

    return container.is_container(Path(source))


def require_same_voters(source: Any, groups: Mapping[str, str], what: str) -> None:
    """Raise if a history or warm start is about other voters: about members where groups vote, or the other way round.

    `source` is as `opened` returns it, `groups` has worker to group, as texts.
    """
    theirs = source.groups if isinstance(source, Learned) else {}
    for worker, group in theirs.items():
        if groups.get(worker) != group:
            raise OptionError(
                f"the {what} was fitted with worker {quote(worker)} in group {quote(group)}: give the same groups to this fit"
            )
    known = () if not groups or source is None else as_knowledge(source).workers.texts()
    for worker in known:
        if groups.get(worker, worker) != worker:
            raise OptionError(
                f"the {what} knows worker {quote(worker)}, who votes in group {quote(groups[worker])}: a group needs that of a "
                "fit with groups"
            )


def as_knowledge(source: Source | Knowledge | Learned | HasLearned) -> Knowledge:
    """Return a history: as it is, of a fit, of a saved model, or a table with the columns worker, true, given and count."""
    if isinstance(source, Knowledge):
        return source
    if isinstance(source, Learned | HasLearned) or _is_saved(source):
        return as_learned(source, "history").knowledge
    frame, _ = read_frame(source, dict.fromkeys(("worker", "true", "given", "count")))
    columns = {name: prepare_ids(frame[name], name) for name in ("worker", "true", "given")}
    kind = frame["count"].dtype
    if not (kind.is_numeric() or kind in (pl.String, pl.Null)):
        raise InputError(f"the count column of the history holds {kind}: give numbers")
    count = frame["count"].cast(pl.Float64, strict=False)
    bad = (count.is_null() | ~count.is_between(0, MOST_VOTES)).fill_null(True).arg_true()
    if len(bad):
        raise InputError(
            f"count in row {bad[0] + 1} of the history is {quote(frame['count'][bad[0]])}: give a number from 0 to {MOST_VOTES:g}"
        )
    for name, ids in columns.items():
        require_present(ids, name, why=" of the history")
    labels = _sort(narrow_ids(vocabulary(pl.concat([columns[n].cast(pl.String) for n in ("true", "given")]).unique())))
    workers = _sort(vocabulary(columns["worker"].unique()))
    codes = {n: _codes(columns[n], workers if n == "worker" else labels) for n in columns}
    k = max(len(labels), 1)
    rows, row = np.unique(codes["worker"] * k + codes["given"], return_inverse=True)
    counts = np.zeros((len(rows), len(labels)))
    np.add.at(counts, (row, codes["true"]), count.to_numpy())
    row_worker, row_label = np.divmod(rows, k)
    return Knowledge(
        worker_ptr=np.searchsorted(row_worker, np.arange(len(workers) + 1)).astype(np.int64),
        row_label=row_label.astype(np.int32),
        workers=workers,
        labels=labels,
        counts=counts,
        class_counts=np.zeros(len(labels)),
    )


def pseudo_votes(known: Knowledge, panel: WorkerRows) -> Others:
    """Return the history of the workers at hand, in their codes."""
    past = knowledge.over(known, panel.labels)
    worker = match_ids(past.workers, panel.workers)[past.row_worker()]
    mine = worker >= 0
    return Others(worker[mine], past.row_label[mine].astype(np.int64), past.counts[mine])


def class_prior(priors: Priors, weight: float | None, labels: Vocabulary) -> ClassPrior:
    """Return class priors that a caller gives: by label, in label order, as a frame, or "uniform"."""
    if weight is not None:
        Number(least=0, most=MOST_VOTES).check("priors_weight", weight)
        weight = float(weight)
    k = len(labels)
    if isinstance(priors, str):
        if priors != "uniform":
            raise OptionError(f"priors is {quote(priors)}: give a probability for every label, or 'uniform'")
        return ClassPrior(np.full(k, 1.0 / max(k, 1)), weight)
    given = _by_label(priors, labels)
    names = labels.texts()
    strangers = [name for name in given if name not in names]
    if strangers:
        raise OptionError(
            f"priors name the label {quote(strangers[0])}, which is not among the labels: {itemize(labels.ids()) or '(none)'}"
        )
    missing = [name for name in names if name not in given]
    if missing:
        raise OptionError(f"priors say nothing of the label {quote(missing[0])}: give one for each of {itemize(labels.ids())}")
    values = np.array([given[name] for name in names], np.float64)
    least_word = "above 0" if weight is None else "from 0 on"  # fixed at 0 a label could never be chosen
    within = (values >= 0) & (values <= 1 + PRIOR_SUM_TOLERANCE)  # NaN is not
    if not within.all() or (weight is None and (values == 0).any()):
        raise OptionError(f"priors are {itemize(given.items())}: give probabilities {least_word}")
    if not math.isclose(float(values.sum()), 1.0, abs_tol=PRIOR_SUM_TOLERANCE):
        raise OptionError(
            f"priors sum to {values.sum():.6g}, not to 1: give probabilities, and how many tasks they are worth as priors_weight"
        )
    return ClassPrior(values / values.sum(), weight)


def _by_label(priors: Any, labels: Vocabulary) -> dict[str, float]:
    if isinstance(priors, Mapping):
        return _pairs(priors, priors.values())
    if kind_of(priors) is not None:
        frame, _ = read_frame(priors, {"label": None, "prior": "prior"})
        return _pairs(prepare_ids(frame["label"], "label"), frame["prior"])
    index = getattr(priors, "index", None)
    if isinstance(index, Iterable) and type(index).__name__ != "RangeIndex":  # a series of pandas, named by label
        return _pairs(index, priors)
    if not isinstance(priors, Iterable):
        raise OptionError(f"priors is {quote(priors)}: give a probability for every label")
    values = [_number(value) for value in priors]
    if len(values) != len(labels):
        raise OptionError(f"priors has {len(values)} numbers: give one for each of the labels {itemize(labels.ids())}")
    return dict(zip(labels.texts(), values, strict=True))


def _pairs(labels: Iterable[object], values: Iterable[object]) -> dict[str, float]:
    out: dict[str, float] = {}
    for label, value in zip(map(text_of, labels), values, strict=True):
        if label in out:
            raise OptionError(f"priors name the label {quote(label)} twice: give one probability for each")
        out[label] = _number(value)
    return out


def _number(value: object) -> float:
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            return float(value)
        except OverflowError:
            pass
    raise OptionError(f"priors hold {quote(value)}: give numbers")


def _sort(ids: Vocabulary) -> Vocabulary:
    return ids.take(sort_order(ids))


def _codes(ids: pl.Series, among: Vocabulary) -> Any:
    distinct = ids.unique(maintain_order=True)
    place = match_ids(vocabulary(distinct), among)
    table = pl.DataFrame({"id": distinct, "code": place})
    return ids.to_frame("id").join(table, on="id", how="left", maintain_order="left")["code"].to_numpy()
