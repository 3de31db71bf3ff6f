"""What a result offers from the layers above it: plots, by their signatures, and a loader of names.

Reports and plots import results, so results load them by name when a user asks for one.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from adjudge.io.sources import Source

Theme: TypeAlias = Literal["light", "dark", "none"]


class Picture(Protocol):
    """A picture; `adjudge.report.picture.Picture` describes it."""

    @property
    def sentence(self) -> str:
        """What it shows."""
        ...

    def svg(self) -> str:
        """Return it as an SVG document."""
        ...

    def altair(self) -> Any:
        """Return it as a chart of Altair, which is an extra."""
        ...

    def save(self, path: str | Path, **options: Any) -> None:
        """Write it to the file `path`; `options` are those of Altair, unless the file is an .svg."""
        ...


def load(home: str) -> Any:
    """Return the object that `home` names as "module:name".

    >>> load("adjudge.results.overview:BRIEF_LIST_LENGTH")
    3
    """
    module, name = home.split(":")
    return getattr(import_module(module), name)


class ResultPlots(Protocol):
    """The pictures of one result; `adjudge.report.plots.Plots` describes and draws them."""

    def workers(self, *, theme: Theme = "light") -> Picture:
        """Return votes against accuracy, a dot per worker."""
        ...

    def confusion(self, worker: object = None, *, theme: Theme = "light") -> Picture:
        """Return what one `worker`, or the crowd, confuses with what."""
        ...

    def tasks(self, *, theme: Theme = "light") -> Picture:
        """Return how confidence is spread, and the least certain tasks."""
        ...

    def agreement(self, *, theme: Theme = "light") -> Picture:
        """Return agreement beyond chance of every two workers."""
        ...

    def reliability(self, truth: Source, *, theme: Theme = "light") -> Picture:
        """Return right labels against confidence, given the `truth`."""
        ...

    def trace(self, *, theme: Theme = "light") -> Picture:
        """Return the labels changed in each iteration."""
        ...

    def shares(self, *, theme: Theme = "light") -> Picture:
        """Return how often labels are given, and chosen."""
        ...

    def explain(self, task: object, *, theme: Theme = "light") -> Picture:
        """Return why a `task` has its label."""
        ...
