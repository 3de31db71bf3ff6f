"""A model of sets that was saved: it predicts the sets of other votes, and tells of its workers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Unpack

import polars as pl

from adjudge.data.options import DEFAULTS, SET_SEPARATOR, Confidence, Duplicates, EngineName
from adjudge.engines.base import Engine
from adjudge.errors import InputError, OptionError, shown
from adjudge.io.ids import column
from adjudge.io.read import Shaping
from adjudge.io.sets import SetVotes
from adjudge.io.sources import Source
from adjudge.results import sets_file
from adjudge.results.saved import FittedModel
from adjudge.results.sets import MultiResult, predicted_sets
from adjudge.results.sets_file import LearnedSets


@dataclass(frozen=True, eq=False, repr=False)
class FittedSets:
    """What `adjudge.load` returns for a fit of sets (`multi=True`): all that it has learned of workers and options.

    >>> import adjudge as adj, tempfile, pathlib
    >>> votes = [("t1", "ann", ["fear", "joy"]), ("t1", "bob", ["joy"]), ("t2", "ann", ["fear"]), ("t2", "bob", ["fear"])]
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "moods.adjudge"
    >>> adj.aggregate(votes, model="mv", multi=True).save(path)
    >>> model = adj.load(path)
    >>> model
    FittedSets(mv: 2 workers, 2 options)
    >>> model.predict([("new", "ann", ["joy"]), ("new", "bob", ["joy"])]).labels["label"].to_list()
    [['joy']]
    """

    content: LearnedSets

    def __post_init__(self) -> None:
        if not isinstance(self.content, LearnedSets):
            raise InputError(f"content is {shown(self.content)}: adjudge.load makes fitted models of files")

    def __repr__(self) -> str:
        workers = self.content.parts[0].knowledge.n_workers
        return f"FittedSets({self.model}: {workers} workers, {len(self.content.options)} options)"

    @property
    def model(self) -> str:
        """The name of the model that was fitted."""
        return self.content.model

    @property
    def options(self) -> list[object]:
        """The options, in their order."""
        return list(self.content.options.ids())

    @property
    def iterations(self) -> int:
        """The iterations that led here; the most of any option where each was fitted apart."""
        return max(part.iterations for part in self.content.parts)

    @property
    def workers(self) -> pl.DataFrame:
        """Worker, votes (sets, expected) and accuracy (expected share of right answers to the (task, option) questions)."""
        frame = pl.concat([FittedModel(part).workers for part in self.content.parts])
        weighted = (pl.col("accuracy") * pl.col("votes")).sum() / pl.col("votes").sum()
        every = frame.group_by("worker", maintain_order=True).agg(pl.col("votes").sum(), accuracy=weighted)
        return every.with_columns(pl.col("votes") / max(len(self.content.options), 1))

    @property
    def priors(self) -> pl.DataFrame:
        """Option and prior: the share of tasks that have it; the same for all options unless each was fitted apart."""
        parts, options = self.content.parts, self.content.options
        yes = [float(parts[n if len(parts) > 1 else 0].priors[1]) for n in range(len(options))]
        return pl.DataFrame({"option": column(options), "prior": pl.Series(yes, dtype=pl.Float64)})

    def confusion(self, worker: object = None, option: object = None) -> pl.DataFrame:
        """Return the 2 x 2 confusion of a `worker`, or of the population (for one `option` where each was fitted apart)."""
        parts = self.content.parts
        if len(parts) == 1:
            return FittedModel(parts[0]).confusion(worker)
        return FittedModel(parts[self.content.option(option)]).confusion(worker)

    def predict(
        self,
        votes: SetVotes | Source,
        *,
        engine: EngineName | str | Engine = DEFAULTS.engine,
        threads: int | None = None,
        task: str | None = None,
        worker: str | None = None,
        label: str | None = None,
        duplicates: Duplicates = DEFAULTS.duplicates,
        set_separator: str = SET_SEPARATOR,
        confidence: Confidence | None = None,
        **shaping: Unpack[Shaping],
    ) -> MultiResult:
        """Return the sets of votes under what was learned; unknown workers are taken for the mean one, and named.

        - `votes`: sets of the model's options, in anything that `adj.aggregate(multi=True)` takes; `task`, `worker`, `label`,
          `duplicates`, `set_separator` and `shaping` (`wide`, `format`, …) are as there.
        - `engine`, `threads`: where it runs, and on how many threads, as for `adj.aggregate`.
        - `confidence`: "honest" (of a fit that was) or "posterior"; that of the fit by default.
        """
        return predicted_sets(
            self.content,
            votes,
            engine,
            threads,
            confidence,
            task=task,
            worker=worker,
            label=label,
            duplicates=duplicates,
            set_separator=set_separator,
            **shaping,
        )

    def learned(self) -> NoReturn:
        """Raise: what was learned of sets is no history or start of another fit, and cannot be merged."""
        raise OptionError("this model is of sets (multi=True), which only predict can use: give one of tasks with one label")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file at `path`, whole or not at all; the same model gives the same bytes."""
        sets_file.save(Path(path), self.content)
