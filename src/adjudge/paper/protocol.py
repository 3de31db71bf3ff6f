"""The paper's protocol: which questions, which votes of each, and which methods."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from adjudge.data.votes import Votes
from adjudge.errors import InputError, SuspiciousVotes, unknown
from adjudge.io.read import read
from adjudge.paper import published

SUBSETS: Final = ("first", "random")


@dataclass(frozen=True, eq=False)
class Questions:
    """A set's questions of the paper: those with truth and at least as many votes as Table 1 gives annotators."""

    name: str
    annotators: int
    votes: pl.DataFrame  # task, worker, label: every vote of these questions, in file order
    truth: pl.DataFrame  # task, label
    fingerprint: str  # of the files they came from

    def __len__(self) -> int:
        return self.votes["task"].n_unique()

    def subset(self, k: int, rule: str = "first", seed: int = 0) -> pl.DataFrame:
        """Return k votes of each question: the first in file order, or drawn at random (the same for every method)."""
        if rule == "random":
            drawn = pl.Series("drawn", np.random.default_rng(seed).random(len(self.votes)))
            return self.votes.with_columns(drawn).filter(pl.col("drawn").rank("ordinal").over("task") <= k).drop("drawn")
        return self.votes.filter(pl.int_range(pl.len()).over("task") < k)

    def read(self, k: int, rule: str = "first", seed: int = 0) -> Votes:
        """Return `subset` as votes; one vote per question is what the protocol asks for, and no sign of misreading."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuspiciousVotes)
            return read(self.subset(k, rule, seed))


def methods(name: str) -> list[str]:
    """Return the paper's methods that run on a set and that this version has.

    >>> "glad" in methods("adult2")
    False
    """
    return [m for m in published.METHODS if m != "glad" or published.is_binary(name)]


def choose(sets: Iterable[str] | None) -> list[str]:
    """Return the names of the sets to run, in the paper's order; raises on a name that is not one.

    >>> choose(["sp", "bm"])
    ['bm', 'sp']
    """
    wanted = list(sets or published.SETS)
    for name in wanted:
        if name not in published.SETS:
            raise unknown("data set", name, published.SETS)
    return [name for name in published.SETS if name in wanted]


def require(folder: Path, names: Iterable[str]) -> None:
    """Raise when a set is not in the folder, with the command that fetches what is missing."""
    missing = [n for n in names if not all((folder / n / file).is_file() for file in ("votes.csv", "truth.csv"))]
    if missing:
        raise InputError(f"{folder} lacks {', '.join(missing)}: adjudge datasets get {' '.join(missing)} -o {folder}")


def load(folder: Path, name: str) -> Questions:
    """Return the paper's questions of a set."""
    require(folder, [name])
    votes, truth = (_read(folder / name / file, columns) for file, columns in FILES.items())
    k = published.annotators(name)
    enough = votes.group_by("task").len().filter(pl.col("len") >= k).join(truth, on="task", how="semi")
    kept = votes.join(enough, on="task", how="semi", maintain_order="left")
    if kept.is_empty():
        raise InputError(f"{folder / name}: no task has truth and at least {k} votes, as the paper's questions have")
    digest = hashlib.sha256()
    for file in FILES:
        digest.update((folder / name / file).read_bytes())
    return Questions(name, k, kept, truth, digest.hexdigest())


FILES: Final = {"votes.csv": ["task", "worker", "label"], "truth.csv": ["task", "label"]}


def _read(path: Path, columns: list[str]) -> pl.DataFrame:
    try:
        return pl.read_csv(path, infer_schema=False).select(columns)
    except (OSError, pl.exceptions.PolarsError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"cannot read {path}: {first} (columns {', '.join(columns)} are expected)") from error
