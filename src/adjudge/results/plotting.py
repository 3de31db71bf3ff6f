"""`result.plot`, and the pictures of studies: every picture that a user can request, in a theme.

Views of `adjudge.report` import results, so results load them by name when a user requests a picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TypeAlias, get_args

from adjudge.data.options import Choice, Rules, check
from adjudge.io.sources import Source

if TYPE_CHECKING:
    from adjudge.results.result import Result

Theme: TypeAlias = Literal["light", "dark", "none"]
RULES: Final[Rules] = {"theme": Choice(get_args(Theme))}


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

    def with_theme(self, theme: Theme) -> Self:
        """Return it in a `theme`."""
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


@dataclass(frozen=True, eq=False, repr=False)
class Plots:
    """The pictures of a result, each with a sentence that states its message.

    A notebook shows a picture as SVG, without a network; `picture.save("workers.svg")` writes it. `picture.altair()` is the
    same picture as a chart of Altair, which you can change; it needs the extra `report`, and so do .png, .pdf and .html.
    Every method takes `theme`: "light", "dark", or "none", which has no background and leaves the style to Altair's own themes.

    Examples
    --------
    >>> import adjudge as adj
    >>> result = adj.aggregate(adj.simulate(tasks=300, workers=8, seed=1).votes)
    >>> result.plot.workers()
    Picture('None of 8 workers guesses, works against the others, or answers like another more often than the labels explain.')

    """

    result: Result

    def __repr__(self) -> str:
        names = [name for name in vars(type(self)) if not name.startswith("_") and name != "result"]
        return f"plots of {self.result!r}: {', '.join(names)}"

    def workers(self, *, theme: Theme = "light") -> Picture:
        """Draw votes against accuracy: a dot per worker, its 90% interval as a line, its verdict as shape and colour.

        Thousands of workers become cells shaded by their number, with dots for those to look at.

        Parameters
        ----------
        theme : Theme, default "light"
            "light", "dark" or "none".

        Returns
        -------
        Picture
            The picture.

        """
        return draw("workers:workers", self.result, theme=theme)

    def confusion(self, worker: object = None, *, theme: Theme = "light") -> Picture:
        """Draw which labels are confused: rows are the labels chosen, columns the labels given.

        Beyond 20 labels it lists the worst pairs.

        Parameters
        ----------
        worker : object, optional
            Id of a worker; by default all workers together.
        theme : Theme, default "light"
            "light", "dark" or "none".

        Returns
        -------
        Picture
            The picture.

        """
        return draw("votes:confusion", self.result, worker, theme=theme)

    def tasks(self, *, theme: Theme = "light") -> Picture:
        """Draw the distribution of confidence, and the least certain tasks by name.

        Parameters
        ----------
        theme : Theme, default "light"
            "light", "dark" or "none".

        Returns
        -------
        Picture
            The picture.

        """
        return draw("labels:tasks", self.result, theme=theme)

    def agreement(self, *, theme: Theme = "light") -> Picture:
        """Draw agreement beyond chance of every pair of workers; those who answer alike are neighbours, and rings outlined.

        Parameters
        ----------
        theme : Theme, default "light"
            "light", "dark" or "none".

        Returns
        -------
        Picture
            The picture.

        """
        return draw("votes:agreement", self.result, theme=theme)

    def reliability(self, truth: Source, *, theme: Theme = "light") -> Picture:
        """Draw the share of right labels against confidence, which shows whether confidence holds.

        Parameters
        ----------
        truth : source
            A table of tasks and their true labels, as `adj.evaluate` takes it.
        theme : Theme, default "light"
            "light", "dark" or "none".

        Returns
        -------
        Picture
            The picture.

        """
        check({"theme": theme}, RULES)
        return draw("labels:reliability", load("adjudge.evaluation.evaluate:evaluate")(self.result, truth), theme=theme)

    def trace(self, *, theme: Theme = "light") -> Picture:
        """Draw the number of labels changed in each iteration.

        Parameters
        ----------
        theme : Theme, default "light"
            "light", "dark" or "none".

        Returns
        -------
        Picture
            The picture.

        """
        return draw("labels:trace", self.result, theme=theme)

    def shares(self, *, theme: Theme = "light") -> Picture:
        """Draw how often each label is given, and how often it is chosen.

        Parameters
        ----------
        theme : Theme, default "light"
            "light", "dark" or "none".

        Returns
        -------
        Picture
            The picture.

        """
        return draw("labels:shares", self.result, theme=theme)

    def explain(self, task: object, *, theme: Theme = "light") -> Picture:
        """Draw why a task has its label: how much each vote adds to the log-odds, as a waterfall.

        Parameters
        ----------
        task : object
            Its id, as for `result.explain`.
        theme : Theme, default "light"
            "light", "dark" or "none".

        Returns
        -------
        Picture
            The picture.

        """
        return self.result.explain(task).plot(theme=theme)


def draw(view: str, *of: Any, theme: Theme = "light") -> Picture:
    """Return the picture of something.

    - `view`: module and function of the view, as "studies:comparison"; it returns the picture, or a view that has one.
    - `of`: what is drawn, and the view's own options.
    - `theme`: "light", "dark" or "none".
    """
    check({"theme": theme}, RULES)
    drawn = load(f"adjudge.report.views.{view}")(*of)
    picture: Picture = drawn.picture() if hasattr(drawn, "picture") else drawn
    return picture.with_theme(theme)
