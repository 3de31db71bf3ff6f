"""What a result offers for promises: its methods, which load what they need when they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from adjudge.io.sources import Source
    from adjudge.results.promise.accuracy import AccuracyInterval
    from adjudge.results.promise.certify import Promise
    from adjudge.results.promise.draws import Draw
    from adjudge.results.result import Result


class Promises:
    """The methods of a result that need labels of your own: draw them, certify with them, measure with them."""

    latest_draw: Draw | None = None  # that `draw_gold` made, for `certify`
    latest_promise: Promise | None = None  # that `certify` made, for a report

    def draw_gold(self, n: int, *, error: float = 0.05, seed: int = 0, floor: float | None = None, looks: int = 1) -> Draw:
        """Draw tasks at random for a person to answer, before any answer is seen: what `certify` needs.

        Parameters
        ----------
        n : int
            Number of tasks; `gold_needed` plans it.
        error : float, default 0.05
            Error rate to be promised. Tasks come from where honest confidence expects at most twice as many errors.
        seed : int, default 0
            Of the draw. Another seed draws other tasks; decide for one before you look.
        floor : float, optional
            Confidence from which tasks are drawn, in place of that rule; 0 draws from all tasks.
        looks : int, default 1
            How often you plan to call `certify` with other answers or another error rate: the looks share the risk.

        Returns
        -------
        Draw
            The drawn tasks.

        Notes
        -----
        `draw["task"]` has the tasks, `draw.write("gold.csv")` a table to fill in, and the record of the draw next to it.
        Tasks whose label was given as gold of the fit are not drawn.

        Examples
        --------
        >>> import adjudge as adj
        >>> result = adj.aggregate(adj.simulate(tasks=2000, workers=20, seed=1).votes)
        >>> result.draw_gold(100, seed=7)
        Draw(100 of 1834 tasks, seed 7, floor 0.676, 0 looks)

        """
        from adjudge.results.promise.draws import draw_gold

        result = cast("Result", self)
        draw = draw_gold(result, n, error=error, seed=seed, floor=floor, looks=looks)
        vars(self)["latest_draw"] = draw
        return draw

    def certify(self, gold: Source, draw: Draw | None = None, error: float = 0.05, risk: float = 0.1, looks: int = 1) -> Promise:
        """Certify that at most `error` of the labels above some confidence are wrong: a sentence that you can sign.

        It holds with probability 1 - `risk` over the random draw, however bad the confidence is. docs/promises.md has the
        conditions.

        Parameters
        ----------
        gold : source
            Task -> label of the drawn tasks, or the export of the tool in which they were answered. A task without an answer
            counts as wrong.
        draw : Draw, optional
            By default the latest draw of this result.
        error, risk : float
            The share of wrong labels that is promised, and the probability that the promise fails. Fix them beforehand.
        looks : int, default 1
            Looks at the answers that share the risk. Each is recorded in the draw; one that would exceed the risk is refused.

        Returns
        -------
        Promise
            The certified sentence; its `threshold` is None if nothing can be certified.

        Notes
        -----
        `threshold` is None if nothing can be certified.

        Examples
        --------
        >>> import adjudge as adj
        >>> crowd = adj.simulate(tasks=2000, workers=20, votes_per_task=5, skill=0.85, seed=1)
        >>> result = adj.aggregate(crowd.votes)
        >>> draw = result.draw_gold(100, seed=7)
        >>> answers = crowd.truth.filter(crowd.truth["task"].is_in(draw["task"].implode()))
        >>> promise = result.certify(answers, error=0.05, risk=0.1)
        >>> promise.accepted, promise.gold, promise.wrong
        (1946, 98, 1)
        >>> print(promise)
        Of the 1,946 labels with a confidence of at least ...

        """
        from adjudge.results.promise.certify import certify

        promise = certify(cast("Result", self), gold, draw, error=error, risk=risk, looks=looks)
        vars(self)["latest_promise"] = promise
        return promise

    def gold_needed(self, share: float = 0.5, error: float = 0.05, risk: float = 0.1) -> int | None:
        """Plan how many gold tasks are likely (80%) to certify the surest `share` of the labels; None if 3,000 are too few.

        The plan believes honest confidence, and is rough: real errors may be half as many or twice as many. It assumes that the
        gold is drawn from these labels, as `draw_gold` does with `floor` at the confidence of the last of them.

        Parameters
        ----------
        share : float, default 0.5
            Share of the labels to be accepted, the surest first.
        error, risk : float
            As for `certify`.

        Returns
        -------
        int or None
            The number of tasks; None if 3,000 are too few.

        Examples
        --------
        >>> import adjudge as adj
        >>> result = adj.aggregate(adj.simulate(tasks=2000, workers=20, votes_per_task=5, skill=0.85, seed=1).votes)
        >>> result.gold_needed(share=0.5, error=0.05)
        800

        """
        from adjudge.results.promise.accuracy import plan_gold

        return plan_gold(cast("Result", self), share=share, error=error, risk=risk)

    def accuracy_interval(self, gold: Source, level: float = 0.9, *, draw: Draw | None = None) -> AccuracyInterval:
        """Return an interval of the share of right labels, from gold that was drawn at random.

        Below 100 gold tasks it is Wilson's interval for draws from a finite population. From there on honest doubt predicts
        errors, which makes it narrower.

        Parameters
        ----------
        gold : source
            As for `certify`: labels of tasks drawn at random from all tasks, which no fit has learned from.
        level : float, default 0.9
            Level of the interval.
        draw : Draw, optional
            A draw above a floor: the interval is then about the tasks above it.

        Returns
        -------
        AccuracyInterval
            An interval of the share of right labels, from gold that was drawn at random.

        Examples
        --------
        >>> import adjudge as adj
        >>> crowd = adj.simulate(tasks=2000, workers=20, votes_per_task=5, skill=0.85, seed=1)
        >>> result = adj.aggregate(crowd.votes)
        >>> draw = result.draw_gold(150, floor=0)
        >>> answers = crowd.truth.filter(crowd.truth["task"].is_in(draw["task"].implode()))
        >>> low, high = result.accuracy_interval(answers)
        >>> round(low, 2), round(high, 2)
        (0.97, 1.0)

        """
        from adjudge.results.promise.accuracy import accuracy_interval

        return accuracy_interval(cast("Result", self), gold, level=level, draw=draw)
