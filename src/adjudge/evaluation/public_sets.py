"""Public data sets in Python: list them, download them, and load one as votes and truth."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from adjudge.data.votes import Votes
from adjudge.errors import InputError, choice_error
from adjudge.evaluation.datasets import SETS, get
from adjudge.evaluation.inputs import read_truth
from adjudge.io.read import read


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A public set: its votes, and the truth of some tasks."""

    name: str
    about: str
    votes: Votes
    truth: Mapping[str, str]  # task -> label

    def __repr__(self) -> str:
        return f"Dataset({self.name}, {len(self.votes)} votes, truth of {len(self.truth)} tasks)"


class PublicSets:
    """Public sets of crowd votes, pinned and checked to the byte: `adj.datasets.list()`, `.load("rte")`, `.download("rte")`.

    >>> import adjudge as adj
    >>> adj.datasets.list()["name"].to_list()[:3]
    ['adult2', 'bm', 'trec2010']
    """

    def list(self) -> pl.DataFrame:
        """Return name, about, votes, in_paper and megabytes of every set."""
        rows = [(one.name, one.about, one.votes, one.in_paper, round(one.size / 1e6, 1)) for one in SETS.values()]
        return pl.DataFrame(rows, schema=["name", "about", "votes", "in_paper", "megabytes"], orient="row")

    def folder(self, folder: str | Path | None = None) -> Path:
        """Return the folder in which sets are stored.

        Parameters
        ----------
        folder : str or path, optional
            Returned if given; by default the folder in ADJUDGE_DATA, or ./data.

        """
        return Path(folder or os.environ.get("ADJUDGE_DATA") or "data")

    def download(self, name: str, folder: str | Path | None = None) -> Path:
        """Download a set, check every byte, convert it, and return its folder with votes.csv and truth.csv.

        Parameters
        ----------
        name : str
            A name of `list()`.
        folder : str or Path, optional
            Where sets are kept; by default ADJUDGE_DATA, or ./data.

        Returns
        -------
        Path
            The folder of the set.

        """
        if name not in SETS:
            raise choice_error("data set", name, SETS)
        kept = self.folder(folder)
        get(SETS[name], kept)
        return kept / name

    def load(self, name: str, folder: str | Path | None = None) -> Dataset:
        """Return a set that was downloaded before, as votes and truth.

        Parameters ---------- name : str A name of `list()`. folder : str or Path, optional Where sets are kept; by default
        ADJUDGE_DATA, or ./data.

        Returns ------- Dataset The votes, and the truth by task.

        Parameters
        ----------
        name, folder : as for `download`
            The set and where it is stored.

        Returns
        -------
        Dataset
            The votes, and the true labels by task.

        Raises
        ------
        InputError
            If the set was not downloaded.

        """
        if name not in SETS:
            raise choice_error("data set", name, SETS)
        home = self.folder(folder) / name
        if not (home / "votes.csv").is_file():
            raise InputError(f"{home} has no votes.csv: call adj.datasets.download({name!r}), or adjudge datasets get {name}")
        truth = dict(read_truth(home / "truth.csv", None, None).select("task", "label").rows())
        return Dataset(name, SETS[name].about, read(home / "votes.csv"), truth)


datasets: Final = PublicSets()
