"""Models side by side on several sets of votes: the table that researchers print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Unpack

import numpy as np
import polars as pl

from adjudge.data.options import DEFAULTS, ModelName, ReadOptions
from adjudge.errors import AdjudgeError, InputError, OptionError, quote
from adjudge.evaluation.compare.compare import Comparison, compare
from adjudge.evaluation.compare.fits import Progress
from adjudge.evaluation.intervals import Floats
from adjudge.io.sources import Source
from adjudge.models.base import Model

OWN_COLUMNS: Final = ("model", "mean", "rank", "best")


@dataclass(frozen=True, eq=False, repr=False)
class SetsComparison:
    """The accuracy of models on several sets. `table` has a line per model, `print` shows it.

    Examples
    --------
    >>> import adjudge as adj
    >>> crowds = {f"crowd {n}": adj.simulate(tasks=100, workers=8, seed=n) for n in range(2)}
    >>> sets = {name: (crowd.votes, crowd.truth) for name, crowd in crowds.items()}
    >>> found = adj.compare_sets(sets, models=["mv", "fds"])
    >>> found
    SetsComparison(2 models, 2 sets)
    >>> found.table.columns
    ['model', 'crowd 0', 'crowd 1', 'mean', 'rank', 'best']

    """

    comparisons: Mapping[str, Comparison]  # by set
    models: tuple[str, ...]

    def __repr__(self) -> str:
        return f"SetsComparison({len(self.models)} models, {len(self.comparisons)} sets)"

    def __str__(self) -> str:
        columns, rows = self.overview()
        widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
        lines = [columns, *rows]
        return "\n".join("  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines)

    @property
    def accuracy(self) -> Floats:
        """The accuracy of every model on every set, [models, sets]; NaN if it could not run."""
        out = np.full((len(self.models), len(self.comparisons)), np.nan)
        for place, comparison in enumerate(self.comparisons.values()):
            for name, value in comparison.models_frame().select("model", "accuracy").rows():
                out[self.models.index(name), place] = np.nan if value is None else value
        return out

    @property
    def table(self) -> pl.DataFrame:
        """A line per model: its accuracy on each set, the mean, the mean rank, and on how many sets it is best (ties count).

        Means are over sets on which every model ran. The highest mean comes first.
        """
        accuracy = self.accuracy
        complete = ~np.isnan(accuracy).any(axis=0)
        known = accuracy[:, complete]
        above = (known[None] > known[:, None]).sum(axis=1)
        tied = (known[None] == known[:, None]).sum(axis=1)
        rank = 1.0 + above + (tied - 1) / 2.0
        has_any = bool(complete.any())
        frame = pl.DataFrame(
            {
                "model": list(self.models),
                **{name: pl.Series(accuracy[:, place]).fill_nan(None) for place, name in enumerate(self.comparisons)},
                "mean": known.mean(axis=1) if has_any else [None] * len(self.models),
                "rank": rank.mean(axis=1) if has_any else [None] * len(self.models),
                "best": (above == 0).sum(axis=1) if has_any else [0] * len(self.models),
            }
        )
        return frame.sort("mean", descending=True, nulls_last=True, maintain_order=True)

    def overview(self) -> tuple[list[str], list[list[str]]]:
        """Return the columns and rows of the table for people: percent, and a star at the best of each set."""
        frame = self.table
        best = {name: frame[name].max() for name in self.comparisons}

        def cell(name: str, value: Any) -> str:
            if value is None:
                return "–"
            if name in self.comparisons or name == "mean":
                return f"{100 * value:.1f}" + ("*" if name in best and value == best[name] else "")
            return f"{value:.1f}" if name == "rank" else str(value)

        rows = [[cell(name, row[name]) for name in frame.columns] for row in frame.iter_rows(named=True)]
        return frame.columns, rows

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain Python values, ready for JSON."""
        return {"table": self.table.to_dicts(), "sets": {name: one.summary() for name, one in self.comparisons.items()}}


def compare_sets(
    sets: Mapping[str, tuple[Source, Source]],
    *,
    models: Iterable[ModelName | Model | Any] | Literal["all"] | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = DEFAULTS.seed,
    threads: int | None = None,
    progress: Progress | None = None,
    **reading: Unpack[ReadOptions],
) -> SetsComparison:
    """Compare models on several sets of votes with truth.

    Parameters
    ----------
    sets : dict name -> (votes, truth)
        The sets, as `adj.compare` takes votes and truth.
    models : list or "all", optional
        As for `adj.compare`.
    resamples : int
        Bootstraps over the tasks of each set; 0 draws none.
    level : float
        The level of intervals.
    seed : int
        Decides ties and resamples.
    threads : int, optional
        How many to use; all cores by default.
    progress : callable, optional
        Called as progress(model, fits done, fits to do) after every fit of a set.
    **reading
        The options of `adj.read`, for all sets.

    Returns
    -------
    SetsComparison
        The accuracies by set, their means and ranks, and the comparison on each set.

    """
    if not sets:
        raise OptionError("sets is empty: give a dict name -> (votes, truth)")
    taken = next((name for name in sets if name in OWN_COLUMNS), None)
    if taken is not None:
        raise OptionError(f"a set is called {quote(taken)}, as a column of the table is: call it something else")
    chosen = models if models is None or isinstance(models, str) else list(models)
    done: dict[str, Comparison] = {}
    for name, (votes, truth) in sets.items():
        settings: Any = {"resamples": resamples, "level": level, "seed": seed, "threads": threads, "progress": progress}
        try:
            done[name] = compare(votes, truth=truth, models=chosen, **settings, **reading)
        except AdjudgeError as error:
            raise InputError(f"set {quote(name)}: {error}") from error
    order: dict[str, None] = {}
    for comparison in done.values():
        order |= dict.fromkeys(comparison.models_frame()["model"].to_list())
    return SetsComparison(done, tuple(order))
