"""Methods of a result that load what they need when they are called: prediction, explanation, export, certificates."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, Unpack, cast

from adjudge.data.options import DEFAULTS, Confidence, ReadOptions
from adjudge.engines.registry import EngineChoice
from adjudge.io.frames import Frame, to_native
from adjudge.io.reading import Reading

if TYPE_CHECKING:
    from adjudge.data.votes import Votes
    from adjudge.io.sources import Source
    from adjudge.io.workers import Cost
    from adjudge.results.explanation import Explanation
    from adjudge.results.promise.accuracy import AccuracyInterval
    from adjudge.results.promise.certify import Promise
    from adjudge.results.promise.draws import Draw
    from adjudge.results.result import Result


class ResultMethods:
    """The methods of a result that load what they need when they are called."""

    latest_draw: Draw | None = None  # that `draw_gold` made, for `certify`
    latest_promise: Promise | None = None  # that `certify` made, for a report

    def draw_gold(
        self, n: int, *, error: float = 0.05, seed: int | None = None, floor: float | None = None, looks: int = 1
    ) -> Draw:
        """Draw tasks at random for a person to answer, before any answer is seen: what `certify` needs.

        Parameters
        ----------
        n : int
            Number of tasks; `gold_needed` plans it.
        error : float, default 0.05
            Error rate to be promised. Tasks come from where honest confidence expects at most twice as many errors.
        seed : int, optional
            Seed of the draw, to draw the same tasks again. By default it is random, and the record of the draw contains it.
            Draws with the same seed share their looks.
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

        Raises
        ------
        InputError
            If the gold was not drawn from these labels, or its labels are spelled unlike those of the votes.

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

        The plan relies on honest confidence, and is rough: real errors may be half as many or twice as many, so a draw can
        certify even if the plan is None. It assumes that the gold is drawn from these labels, as `draw_gold` does with `floor`
        at the confidence of the last of them.

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
        >>> draw = result.draw_gold(150, floor=0, seed=0)
        >>> answers = crowd.truth.filter(crowd.truth["task"].is_in(draw["task"].implode()))
        >>> low, high = result.accuracy_interval(answers)
        >>> round(low, 2), round(high, 2)
        (0.97, 1.0)

        """
        from adjudge.results.promise.accuracy import accuracy_interval

        return accuracy_interval(cast("Result", self), gold, level=level, draw=draw)

    def predict(
        self,
        votes: Votes | Source,
        *,
        engine: EngineChoice = DEFAULTS.engine,
        confidence: Confidence | None = None,
        **reading: Unpack[ReadOptions],
    ) -> Result:
        """Label other tasks with the knowledge of this fit; nothing is learned from their votes.

        Workers without votes here count as the average worker; `unknown_workers` lists them.

        Parameters
        ----------
        votes : Votes or source
            Anything that `adj.read` accepts, or a Spark frame, which returns a result of Spark frames.
        engine : str or engine, optional
            The engine to run on, as for `adj.aggregate`.
        confidence : "honest" or "posterior", optional
            "honest" (if the fit was) or "posterior"; by default that of the fit.
        **reading
            Options of `adj.read`.

        Returns
        -------
        Result
            Labels of the other tasks.

        Examples
        --------
        >>> import adjudge as adj
        >>> crowd = adj.simulate(tasks=200, workers=10, seed=1)
        >>> found = adj.aggregate(crowd.votes).predict([("new", "w1", "l2"), ("new", "w2", "l2"), ("new", "zoe", "l0")])
        >>> found.labels["label"].to_list(), found.unknown_workers
        (['l2'], ['zoe'])

        """
        from adjudge.results.saved import predict

        return predict(cast("Result", self).learned(), votes, engine, confidence, Reading.of(reading))

    def join(self, frame: Source, *, task: str | None = None, prefix: str = "consensus") -> Frame:
        """Add the label of each row's task to your own frame, keeping its rows, their order and its columns.

        Four columns are added: `consensus` (the label), `consensus_confidence`, `consensus_votes` and `consensus_tie`. They are
        null for tasks without votes. Ids are compared as text: 7 and "7" are the same task.

        Parameters
        ----------
        frame : source
            A pandas, polars or pyarrow frame with one or more rows per task. Or the path of a table; columns of text files stay
            text.
        task : str, optional
            The task column, or index level; by default the one that the votes were read from, or a column with a usual name.
        prefix : str, default "consensus"
            Start of the names of the new columns, if `consensus` is taken.

        Returns
        -------
        frame
            Your frame with four more columns, of the same kind; polars if a path was given.

        Examples
        --------
        >>> import adjudge as adj
        >>> import polars as pl
        >>> judged = {"example_id": [7, 7, 8], "judge": ["a", "b", "a"], "score": ["good", "good", "bad"]}
        >>> texts = pl.DataFrame({"example_id": ["8", "9", "7"], "text": ["x", "y", "z"]})
        >>> adj.aggregate(judged, model="mv").join(texts).select("example_id", "text", "consensus").rows()
        [('8', 'x', 'bad'), ('9', 'y', None), ('7', 'z', 'good')]

        """
        from adjudge.io.write_back import join

        result = cast("Result", self)
        return join(result.labels_frame(), frame, result.understood, task=task, prefix=prefix)

    def explain(self, task: object, *, settled: float = 0.95, by: Literal["confidence", "model"] = "confidence") -> Explanation:
        """Explain the label of a task: what each vote adds, who could change it, and how many votes would settle it.

        Print the explanation, or use its figures (`log_odds`, `evidence`, `steps`), its frame (`votes`) or its picture
        (`plot()`); see docs/explaining-a-label.md. `adjudge.results.explain.explain_many` explains many tasks at once.

        Parameters
        ----------
        task : object
            Id of the task; 7 and "7" are the same task.
        settled : float, default 0.95
            Confidence at which a label counts as settled, for `more_votes`.
        by : {"confidence", "model"}, default "confidence"
            "confidence" explains the reported probabilities; "model" the model's own posterior, which decides.

        Returns
        -------
        Explanation
            The explanation.

        Examples
        --------
        >>> import adjudge as adj
        >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
        >>> why = adj.aggregate(votes, model="ds").explain("t1")
        >>> why.label, why.runner_up, why.votes["worker"].to_list()
        ('cat', 'dog', ['ann', 'bob', 'eve'])

        """
        from adjudge.results.explain import explain

        return explain(cast("Result", self), task, settled=settled, by=by)

    def soft(self) -> Frame:
        """Return the distribution of the crowd's answers per task, and whether a task is ambiguous or short of votes.

        All three of the last columns are null if the two halves of the votes disagree on which tasks are ambiguous; see
        docs/soft-labels.md.

        Returns
        -------
        frame
            Columns task, one per label (its share of infinitely many votes), `ambiguity` (entropy of the task's own distribution,
            in nats), `doubt` (entropy that more votes would remove) and `verdict`: "ambiguous" (the top answer has less than two
            thirds of the crowd, with probability 0.8), "settled" (it has more) or "ask more".

        Examples
        --------
        >>> import adjudge as adj
        >>> crowd = adj.simulate(tasks=300, workers=20, labels=3, votes_per_task=8, skill=0.7, seed=1)
        >>> adj.aggregate(crowd.votes).soft().columns
        ['task', 'l0', 'l1', 'l2', 'ambiguity', 'doubt', 'verdict']

        """
        from adjudge.results.soft import soft_labels

        result = cast("Result", self)
        return to_native(soft_labels(result).frame(), result.votes.frame_kind)

    def ask_next(
        self,
        n: int | None = None,
        *,
        worker: object = None,
        cost: Cost | None = None,
        budget: float | None = None,
    ) -> Frame:
        """List the tasks on which one more vote is worth most, the largest gain per cost first.

        Each task is listed once: ask again after its vote has arrived. Gold tasks are not listed. A task with nothing but
        abstentions comes first, without a label. See docs/asking-next.md.

        Parameters
        ----------
        n : int, optional
            Maximum number of tasks; by default all with a gain.
        worker : object, optional
            Whom you can ask: "any" of those who have voted, one worker, or a list. Nobody is asked twice about a task; a worker
            without votes counts as the average worker. By default the vote is the average worker's, and the frame names no
            worker.
        cost : cost, optional
            Price of a vote: a number, a dict of worker to cost, or a table with columns worker and cost, which then also lists
            the workers you can ask.
        budget : float, optional
            Maximum total price of the votes.

        Returns
        -------
        frame
            Columns task, worker (if candidates were given), expected_gain (in correct labels), label, confidence, votes, and cost
            (if given).

        Examples
        --------
        >>> import adjudge as adj
        >>> votes = [(1, "ann", "cat"), (1, "bob", "dog"), (2, "ann", "dog"), (2, "bob", "dog"), (2, "eve", "dog")]
        >>> adj.aggregate(votes, model="mv").ask_next(1, worker=["ann", "eve"]).select("task", "worker").rows()
        [(1, 'eve')]

        """
        from adjudge.results.ask_next import ask_next

        result = cast("Result", self)
        return to_native(ask_next(result, n, worker=worker, cost=cost, budget=budget), result.votes.frame_kind)

    def write(self, path: str | os.PathLike[str], source: Source, *, format: str = "auto") -> None:  # noqa: A002
        """Write the labels in the format of the file that the votes came from; see docs/formats.md.

        A Label Studio export gets the labels as predictions, Argilla records get them as suggestions, an Inspect log becomes a
        table of its samples, and a table gets the columns of `join`. The source file is not changed.

        Parameters
        ----------
        path : str or path
            The new file; it is written completely or not at all.
        source : source
            The file, or the records, that the votes were read from.
        format : str, default "auto"
            "auto" for the format of the source, or one that fits it: "label-studio", "argilla", "argilla-flat", "inspect" or
            "table".

        Examples
        --------
        >>> import adjudge as adj
        >>> import polars as pl, tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     wide, out = (pathlib.Path(folder, name) for name in ("wide.csv", "out.csv"))
        ...     pl.DataFrame({"item": [7, 8], "ann": ["cat", "dog"], "bob": ["cat", None]}).write_csv(wide)
        ...     adj.aggregate(wide, wide=True, model="mv").write(out, wide)
        ...     print(out.read_text().splitlines()[0])
        item,ann,bob,consensus,consensus_confidence,consensus_votes,consensus_tie

        """
        from adjudge.io.formats.export import Consensus
        from adjudge.io.write_back import write_back

        result = cast("Result", self)
        write_back(Consensus(result.labels_frame(), result.model, result.understood), source, path, format)
