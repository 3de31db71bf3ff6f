"""A model that was saved: it predicts, tells of its workers, starts new fits, and adds to another."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.options import DEFAULTS, Confidence, Duplicates, EngineName
from adjudge.data.vocabulary import text_of
from adjudge.data.votes import Votes
from adjudge.engines.base import Engine
from adjudge.errors import InputError, shown
from adjudge.io import container
from adjudge.io.ids import column, label_columns
from adjudge.io.read import Shaping
from adjudge.io.sources import Source
from adjudge.results import knowledge, model_file
from adjudge.results.knowledge import Learned
from adjudge.results.known import HasLearned, as_learned
from adjudge.results.predicted import predicted
from adjudge.results.result import Result

if TYPE_CHECKING:
    from adjudge.results.saved_sets import FittedSets

Fitted: TypeAlias = HasLearned | str | os.PathLike[str]  # a result, a loaded model, or the path of a saved one


@dataclass(frozen=True, eq=False, repr=False)
class FittedModel:
    """What `adjudge.load` returns: all that a fit has learned of workers and labels.

    >>> import adjudge as adj, tempfile, pathlib
    >>> crowd = adj.simulate(tasks=200, workers=10, seed=1)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "crowd.adjudge"
    >>> adj.aggregate(crowd.votes).save(path)
    >>> model = adj.load(path)
    >>> model
    FittedModel(auto: 10 workers, 3 labels, learned from 1000 votes on 200 tasks)
    >>> model.predict([("new", "w1", "l2"), ("new", "w2", "l2"), ("new", "w3", "l0")]).labels["label"].to_list()
    ['l2']
    """

    content: Learned

    def __post_init__(self) -> None:
        if not isinstance(self.content, Learned):
            raise InputError(
                f"content is {shown(self.content)}: adjudge.load makes fitted models of files, result.learned() of fits"
            )

    def __repr__(self) -> str:
        known, facts = self.content.knowledge, self.content.facts
        source = f", learned from {facts['votes']} votes on {facts['tasks']} tasks" if {"votes", "tasks"} <= facts.keys() else ""
        return f"FittedModel({self.content.model}: {known.n_workers} workers, {known.n_labels} labels{source})"

    @property
    def model(self) -> str:
        """The name of the model that was fitted."""
        return self.content.model

    @property
    def iterations(self) -> int:
        """The iterations that led here, those of the fits it went on from included."""
        return self.content.iterations

    @property
    def workers(self) -> pl.DataFrame:
        """Worker, votes (expected, with those of a history) and accuracy (expected share of right ones)."""
        known = self.content.knowledge
        votes = known.by_worker(known.counts.sum(axis=1)) if known.n_rows else np.zeros(known.n_workers)
        right = known.counts[np.arange(known.n_rows), known.row_label]
        right = known.by_worker(right) if known.n_rows else np.zeros(known.n_workers)
        return pl.DataFrame(
            {"worker": column(known.workers), "votes": votes, "accuracy": right / np.where(votes > 0, votes, 1.0)}
        )

    @property
    def priors(self) -> pl.DataFrame:
        """Label and prior, p_c."""
        return pl.DataFrame({"label": column(self.content.knowledge.labels), "prior": self.content.priors})

    @property
    def groups(self) -> pl.DataFrame:
        """Worker and group, of the workers who vote in groups; `predict` lets each group vote once per task."""
        pairs = self.content.groups
        schema = {"worker": pl.String, "group": pl.String}
        return pl.DataFrame({"worker": list(pairs), "group": list(pairs.values())}, schema=schema)

    def confusion(self, worker: object = None) -> pl.DataFrame:
        """Return pi_cl of one `worker`, or of the population: a row per true label, a column per given label."""
        labels = self.content.knowledge.labels
        matrix = self.confusion_matrix(worker)
        columns = {name: matrix[:, given] for given, name in enumerate(label_columns(labels.texts(), "true"))}
        return pl.DataFrame({"true": column(labels), **columns})

    def confusion_matrix(self, worker: object = None) -> NDArray[np.float64]:
        """Return pi_cl of one `worker`, or of the population, [K true, K given]."""
        if worker is None:
            return self.content.confusion(-1)
        code = int(self.content.knowledge.workers.codes([worker])[0])
        if code < 0:
            group = self.content.groups.get(text_of(worker))
            if group is not None:
                raise InputError(f"worker {shown(worker)} votes in group {shown(group)}: ask for the confusion of the group")
            raise InputError(f"worker {shown(worker)} is not known; there are {self.content.knowledge.n_workers} workers")
        return self.content.confusion(code)

    def predict(
        self,
        votes: Votes | Source,
        *,
        engine: EngineName | str | Engine = DEFAULTS.engine,
        threads: int | None = None,
        task: str | None = None,
        worker: str | None = None,
        label: str | None = None,
        duplicates: Duplicates = DEFAULTS.duplicates,
        confidence: Confidence | None = None,
        **shaping: Unpack[Shaping],
    ) -> Result:
        """Return the labels of votes under what was learned; unknown workers are taken for the mean one, and named.

        - `votes`: anything that `adj.read` takes, or a Spark frame, which gives a result of Spark frames; `task`, `worker`,
          `label`, `duplicates` and `shaping` (`wide`, `weight`, `format`, …) are as there.
        - `engine`, `threads`: where it runs, and on how many threads, as for `adj.aggregate`.
        - `confidence`: "honest" (of a fit that was) or "posterior"; that of the fit by default. A model that 0.1.0 saved
          knows the posterior alone, and warns (`PosteriorConfidence`).
        """
        reading = {"task": task, "worker": worker, "label": label, "duplicates": duplicates}
        return predicted(self.content, votes, engine, threads, confidence, **reading, **shaping)

    def learned(self) -> Learned:
        """Return what was learned, in codes."""
        return self.content

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file at `path`, whole or not at all; the same model gives the same bytes."""
        model_file.save(Path(path), self.content)


def load(path: str | os.PathLike[str]) -> FittedModel | FittedSets:
    """Return the model that `result.save` or `adjudge aggregate --save` wrote to `path`: of sets for a fit with `multi=True`.

    `FittedModel` and `FittedSets` have examples.
    """
    if container.kind_of(Path(path)) != "sets":
        return FittedModel(model_file.load(Path(path)))
    from adjudge.results import sets_file
    from adjudge.results.saved_sets import FittedSets

    return FittedSets(sets_file.load(Path(path)))


def merge(first: Fitted, second: Fitted, *more: Fitted) -> FittedModel:
    """Return a model that knows what all of these know.

    `first`, `second` and `more` are results, loaded models or files of saved ones, over the same labels.

    >>> import adjudge as adj
    >>> monday, tuesday = (adj.aggregate(adj.simulate(tasks=100, workers=8, seed=s).votes) for s in (1, 2))
    >>> adj.merge(monday, tuesday)
    FittedModel(auto: 8 workers, 3 labels, learned from 1000 votes on 200 tasks)
    """
    whole = as_learned(first, "the first model")
    for other in (second, *more):
        whole = knowledge.merged(whole, as_learned(other, "a model to merge"))
    return FittedModel(whole)
