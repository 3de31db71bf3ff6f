"""`result.plot`: every picture of a result as an Altair chart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adjudge.data.options import check
from adjudge.io.sources import Source
from adjudge.report.palette import Mode
from adjudge.report.theme import MODES, RULES, Chart, Theme, themed
from adjudge.results.result import Result

if TYPE_CHECKING:
    from adjudge.report.charts.comparison import Compared
    from adjudge.report.charts.panel import Studied
    from adjudge.report.charts.ranking import Ranked
    from adjudge.report.charts.rates import Rated
    from adjudge.results import plotting
    from adjudge.results.explanation import Explanation


@dataclass(frozen=True, eq=False, repr=False)
class Plots:
    """The pictures of one result. Each method returns a chart of Altair, under a sentence that says what it shows.

    A notebook shows a chart by itself; `chart.save("picture.svg")` writes it, as `.png`, `.html` or `.json` too. Every method
    takes `theme`: "light", "dark", or "none", which leaves the look to Altair's own themes, so that charts can be combined.

    >>> import adjudge as adj
    >>> result = adj.aggregate(adj.simulate(tasks=300, workers=8, seed=1).votes)
    >>> chart = result.plot.workers()
    >>> chart.title.text
    ['None of 8 workers guesses, copies or works against the others.']
    """

    result: Result

    def __repr__(self) -> str:
        names = [name for name in vars(type(self)) if not name.startswith("_") and name != "result"]
        return f"plots of {self.result!r}: {', '.join(names)}"

    def workers(self, *, theme: Theme = "light") -> Chart:
        """Return votes against accuracy, a dot per worker: its 90% interval as a line, its verdict by shape and colour.

        Thousands of workers become cells in the shade of their number, under dots for those to look at.

        - `theme`: "light", "dark" or "none".
        """
        from adjudge.report.charts.workers import workers as draw
        from adjudge.report.views.workers import workers as view

        return _drawn(theme, lambda mode: draw(view(self.result), mode))

    def confusion(self, worker: object = None, *, theme: Theme = "light") -> Chart:
        """Return what is confused with what: rows are the labels chosen, columns the labels given.

        Beyond 20 labels it lists the worst pairs.

        - `worker`: the id of one worker; all together by default.
        - `theme`: "light", "dark" or "none".
        """
        from adjudge.report.charts.confusion import confusion as draw
        from adjudge.report.views.confusion import confusion as view

        return _drawn(theme, lambda mode: draw(view(self.result, worker), mode))

    def tasks(self, *, theme: Theme = "light") -> Chart:
        """Return how confidence is spread over the tasks, and the least certain tasks by name.

        - `theme`: "light", "dark" or "none".
        """
        from adjudge.report.charts.tasks import tasks as draw
        from adjudge.report.views.tasks import tasks as view

        return _drawn(theme, lambda mode: draw(view(self.result), mode))

    def agreement(self, *, theme: Theme = "light") -> Chart:
        """Return agreement beyond chance of every two workers, those who answer alike side by side, rings outlined.

        - `theme`: "light", "dark" or "none".
        """
        from adjudge.report.charts.agreement import agreement as draw
        from adjudge.report.views.agreement import agreement as view

        return _drawn(theme, lambda mode: draw(view(self.result), mode))

    def reliability(self, truth: Source, *, theme: Theme = "light") -> Chart:
        """Return whether confidence is true: the share of right labels against the confidence that was promised.

        - `truth`: a table of tasks and their true labels, as `adj.evaluate` takes it.
        - `theme`: "light", "dark" or "none".
        """
        from adjudge.evaluation.truth import evaluate
        from adjudge.report.charts.curves import reliability as draw
        from adjudge.report.views.reliability import reliability as view

        return _drawn(theme, lambda mode: draw(view(evaluate(self.result, truth)), mode))

    def trace(self, *, theme: Theme = "light") -> Chart:
        """Return the labels changed in each iteration.

        - `theme`: "light", "dark" or "none".
        """
        from adjudge.report.charts.curves import trace as draw
        from adjudge.report.views.trace import trace as view

        return _drawn(theme, lambda mode: draw(view(self.result), mode))

    def shares(self, *, theme: Theme = "light") -> Chart:
        """Return how often each label is given, and how often it is chosen.

        - `theme`: "light", "dark" or "none".
        """
        from adjudge.report.charts.shares import shares as draw
        from adjudge.report.views.shares import shares as view

        return _drawn(theme, lambda mode: draw(view(self.result), mode))

    def explain(self, task: object, *, theme: Theme = "light") -> Chart:
        """Return why a task has its label: what every vote adds to the log-odds, as a waterfall.

        - `task`: its id, as for `result.explain`.
        - `theme`: "light", "dark" or "none".
        """
        return explanation(self.result.explain(task), theme=theme)


def explanation(why: Explanation, *, theme: Theme = "light") -> Chart:
    """Return why a task has its label, as a waterfall of the log-odds.

    - `why`: what `result.explain` returns.
    - `theme`: "light", "dark" or "none".
    """
    from adjudge.report.charts.waterfall import waterfall as draw

    return _drawn(theme, lambda mode: draw(why, mode))


def comparison(found: Compared, *, theme: Theme = "light") -> Chart:
    """Return the accuracy of models with intervals; majority vote is the rule to beat.

    - `found`: what `adj.compare` returns.
    - `theme`: "light", "dark" or "none".
    """
    from adjudge.report.charts.comparison import comparison as draw

    return _drawn(theme, lambda mode: draw(found, mode))


def panel(study: Studied, *, theme: Theme = "light") -> Chart:
    """Return accuracy and effective votes by the size of a panel, with its cost.

    - `study`: what `adj.panel` returns.
    - `theme`: "light", "dark" or "none".
    """
    from adjudge.report.charts.panel import panel as draw

    return _drawn(theme, lambda mode: draw(study, mode))


def rates(found: Rated, *, label: object = None, theme: Theme = "light") -> Chart:
    """Return the shares of labels in groups, with intervals.

    - `found`: what `adj.rates` returns.
    - `label`: the label whose share is shown; by default every label, or the last of two.
    - `theme`: "light", "dark" or "none".
    """
    from adjudge.report.charts.rates import rates as draw

    return _drawn(theme, lambda mode: draw(found, label, mode))


def ranking(found: Ranked, *, theme: Theme = "light") -> Chart:
    """Return the strengths of items with their intervals, the strongest first.

    - `found`: what `adj.rank` returns.
    - `theme`: "light", "dark" or "none".
    """
    from adjudge.report.charts.ranking import ranking as draw

    return _drawn(theme, lambda mode: draw(found, mode))


if TYPE_CHECKING:  # what results promise is what is here
    _offered: Callable[[Result], plotting.Plots] = Plots


def _drawn(theme: Theme, draw: Callable[[Mode], Any]) -> Chart:
    """Return what `draw` makes in the colours of a look, with the rest of that look."""
    check({"theme": theme}, RULES)
    return themed(draw(MODES[theme]), theme)
