"""What `result.plot` offers: the plots know results, so that results know them by their signatures alone."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

from adjudge.io.sources import Source

Chart: TypeAlias = Any  # a chart of Altair, which is optional, so that its types are not named
Theme: TypeAlias = Literal["light", "dark", "none"]


class Plots(Protocol):
    """The pictures of one result; `adjudge.report.plots.Plots` describes and draws them."""

    def workers(self, *, theme: Theme = "light") -> Chart:
        """Return votes against accuracy, a dot per worker."""
        ...

    def confusion(self, worker: object = None, *, theme: Theme = "light") -> Chart:
        """Return what one `worker`, or the crowd, confuses with what."""
        ...

    def tasks(self, *, theme: Theme = "light") -> Chart:
        """Return how confidence is spread, and the least certain tasks."""
        ...

    def agreement(self, *, theme: Theme = "light") -> Chart:
        """Return agreement beyond chance of every two workers."""
        ...

    def reliability(self, truth: Source, *, theme: Theme = "light") -> Chart:
        """Return right labels against confidence, given the `truth`."""
        ...

    def trace(self, *, theme: Theme = "light") -> Chart:
        """Return the labels changed in each iteration."""
        ...

    def shares(self, *, theme: Theme = "light") -> Chart:
        """Return how often labels are given, and chosen."""
        ...

    def explain(self, task: object, *, theme: Theme = "light") -> Chart:
        """Return why a `task` has its label."""
        ...
