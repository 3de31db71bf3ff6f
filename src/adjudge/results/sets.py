"""Tasks with several correct options: any model on the (task, option) questions, decoded as sets (the paper's section 6)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Unpack, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.fit import Fit, FitOutcome, Parameters
from adjudge.data.options import DEFAULTS, Confidence, ReadOptions
from adjudge.data.votes import Understood, abstention_rates
from adjudge.engines.registry import EngineChoice, resolve
from adjudge.errors import InputError, OptionError, quote
from adjudge.io import frames
from adjudge.io.frames import Frame, column, label_columns, numbers
from adjudge.io.reading import Reading
from adjudge.io.sets import SetVotes
from adjudge.io.sources import Source
from adjudge.models.honest import AccuracyLaw, accuracy_columns
from adjudge.models.knowledge import columns_as_facts
from adjudge.results.result import Result
from adjudge.results.saved import FittedModel, LearnedSets, predict_sets, write_set_model
from adjudge.results.workers import gold_frame

if TYPE_CHECKING:
    from adjudge.results.explanation import SetExplanation

YES = 1  # the code of "yes"


@dataclass(frozen=True, eq=False, repr=False)
class MultiResult:
    """The result of `aggregate(multi=True)`: the chosen set of every task, the probability of every option, the workers.

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", ["fear", "joy"]), ("t1", "bob", ["joy"]), ("t1", "eve", ["joy"]), ("t2", "ann", [])]
    >>> adj.aggregate(votes, model="mv", multi=True).labels.select("task", "label").rows()
    [('t1', ['joy']), ('t2', [])]

    """

    votes: SetVotes
    results: tuple[Result, ...]  # one for all options, or one for each
    model: str

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields: frames are made again on access."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def __repr__(self) -> str:
        v = self.votes
        return f"MultiResult({self.model}: {len(v.tasks)} tasks, {v.binary.n_workers} workers, {len(v.options)} options)"

    def _repr_html_(self) -> str:
        from adjudge.results.card import of_sets

        return of_sets(self)

    @property
    def understood(self) -> Understood | None:
        """How the votes were read: format, columns, votes (sets), abstentions, repeated votes."""
        return self.votes.understood

    @property
    def iterations(self) -> int:
        """The number of iterations; the maximum over options if each was fitted separately."""
        return max((r.iterations for r in self.results), default=0)

    @property
    def converged(self) -> bool:
        """Whether every fit met its stopping rule."""
        return all(r.converged for r in self.results)

    @property
    def log_likelihood(self) -> float:
        """The marginal log-likelihood of all yes-or-no votes."""
        return sum(r.log_likelihood for r in self.results)

    @property
    def expected_errors(self) -> float:
        """The expected number of wrong sets: the sum of 1 - confidence over the tasks.

        A set is wrong if one of its options is. Its confidence is the product over options, which assumes independent errors
        within a task; docs/several-options.md compares it with truth.
        """
        return float((1.0 - self._confidence()).sum())

    @property
    def expected_wrong_options(self) -> float:
        """The expected number of wrong answers to the (task, option) questions, independent or not."""
        return float((1.0 - self._matrix("confidence")).sum())

    @property
    def ties(self) -> int:
        """The number of tasks with an option whose yes and no scored the same."""
        return int(self._matrix("tie").any(axis=1).sum())

    @property
    def unvoted(self) -> int:
        """The number of tasks with nothing but abstentions."""
        return len(self.votes.unvoted)

    @property
    def unknown_workers(self) -> list[object]:
        """Workers unknown to the model that predicted this; they count as the average worker."""
        return self.results[0].unknown_workers

    @property
    def facts(self) -> Mapping[str, object]:
        """Measurements of the yes/no votes and choices of the fit, as in `Result.facts`; per option if options were fitted apart.

        Examples
        --------
        >>> import adjudge as adj
        >>> votes = [("t1", "ann", ["fear", "joy"]), ("t1", "bob", ["joy"]), ("t2", "ann", ["fear"]), ("t2", "bob", ["joy"])]
        >>> apart = adj.aggregate(votes, model="auto", multi=True, per_option=True, confidence="posterior")
        >>> [(option, found["chose"]) for option, found in apart.facts.items()]
        [('fear', 'careful'), ('joy', 'careful')]

        """
        if self._is_pooled:
            return self.results[0].facts
        return {option: r.facts for option, r in zip(self.votes.options.texts(), self.results, strict=True)}

    @cached_property
    def labels(self) -> Frame:
        """Task, label (the chosen set), confidence (that the whole set is right), votes, tie (of any option)."""
        return self._native(self.labels_frame())

    @cached_property
    def probabilities(self) -> Frame:
        """Task and one column per option: the probability that it is correct."""
        return self._native(self.probabilities_frame())

    @cached_property
    def posterior(self) -> Frame:
        """Task and one column per option: the model's own posterior, which decides sets; see `probabilities`."""
        return self._native(self._by_option([pl.DataFrame(r.posterior)["yes"].to_numpy() for r in self.results]))

    @cached_property
    def workers(self) -> Frame:
        """Worker, votes (sets), and the columns of `Result.workers` for the answers to the (task, option) questions.

        `accuracy` and `agreement` are shares of right answers and of answers equal to the chosen sets, `information` is in bits
        per answer; `abstained` is the share of missing sets. The answers of one set may be right or wrong together, so they count
        as one in the interval, in `below_chance`, and in the proof of copying.
        """
        return self._native(self.workers_frame())

    @cached_property
    def priors(self) -> Frame:
        """Option, prior (the share of tasks that have it), low and high: its 90% interval, which does not depend on the model."""
        return self._native(self.priors_frame())

    def confusion(self, worker: object, option: object = None) -> Frame:
        """Return the 2 x 2 confusion of a worker: rows are true (no, yes), columns are given.

        Parameters
        ----------
        worker : object
            Id of the worker.
        option : object, optional
            The option, if each was fitted separately.

        """
        if self._is_pooled:
            return self.results[0].confusion(worker)
        return self.results[self.learned_sets().option(option)].confusion(worker)

    def learned_sets(self) -> LearnedSets:
        """Return what was learned about workers and options, as `save` writes it."""
        parts, columns = (r.learned() for r in self.results), columns_as_facts(self.understood)
        return LearnedSets(self.votes.options, tuple(replace(part, facts={**part.facts, **columns}) for part in parts))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learned about workers and options to a file that `adj.load` reads.

        Parameters
        ----------
        path : str or path
            The file; it is written completely or not at all. It contains neither votes nor the sets of tasks.

        """
        write_set_model(Path(path), self.learned_sets())

    def predict(
        self,
        votes: SetVotes | Source,
        *,
        engine: EngineChoice = DEFAULTS.engine,
        confidence: Confidence | None = None,
        **reading: Unpack[ReadOptions],
    ) -> MultiResult:
        """Label the sets of other tasks with the knowledge of this fit; nothing is learned from their votes.

        Parameters
        ----------
        votes : SetVotes or source
            Sets of the options here, in anything that `adj.aggregate(multi=True)` accepts.
        engine : str or engine, default "auto"
            The engine to run on, as for `adj.aggregate`.
        confidence : "honest" or "posterior", optional
            "honest" (if the fit was) or "posterior"; by default that of the fit.
        **reading
            The options of `adj.read`.

        Returns
        -------
        MultiResult
            Sets of the other tasks.

        Examples
        --------
        >>> import adjudge as adj
        >>> votes = [("t1", "ann", ["fear", "joy"]), ("t1", "bob", ["joy"]), ("t2", "ann", ["fear"]), ("t2", "bob", ["fear"])]
        >>> new = [("new", "ann", ["joy"]), ("new", "bob", ["joy"]), ("new", "zoe", [])]
        >>> found = adj.aggregate(votes, multi=True).predict(new)
        >>> found.labels["label"].to_list(), found.unknown_workers
        ([['joy']], ['zoe'])

        """
        return predict_sets(self.learned_sets(), votes, engine, confidence, Reading.of(reading))

    def join(self, frame: Source, *, task: str | None = None, prefix: str = "consensus") -> Frame:
        """Add the set of each row's task to your own frame.

        Parameters
        ----------
        frame, task, prefix : as for `Result.join`
            The frame, and how to join it.

        """
        from adjudge.io.write_back import join

        return join(self.labels_frame(), frame, self.understood, task=task, prefix=prefix)

    def explain(
        self, task: object, *, settled: float = 0.95, by: Literal["confidence", "model"] = "confidence"
    ) -> SetExplanation:
        """Explain the set of a task: the yes or no of every option.

        Parameters
        ----------
        task, settled, by : as for `Result.explain`
            The task, and how to explain it.

        Returns
        -------
        SetExplanation
            One explanation per option.

        Examples
        --------
        >>> import adjudge as adj
        >>> votes = [("t1", "ann", ["fear", "joy"]), ("t1", "bob", ["joy"]), ("t2", "ann", ["fear"]), ("t2", "bob", ["fear"])]
        >>> adj.aggregate(votes, multi=True).explain("t1").options["joy"].label
        'yes'

        """
        from adjudge.results.explain import explain_set

        return explain_set(self, task, settled=settled, by=by)

    def ask_next(self, n: int | None = None, *, cost: float | None = None, budget: float | None = None) -> Frame:
        """List the tasks on which one more vote is worth most, as `Result.ask_next` does.

        A vote answers the questions of all options, so its gain is their sum: expected_gain is in correct options.

        Parameters
        ----------
        n : int, optional
            Maximum number of tasks; by default all with a gain.
        cost, budget : float, optional
            Price of a vote, and maximum total price.

        Returns
        -------
        Frame
            Columns as for `Result.ask_next`.

        Examples
        --------
        >>> import adjudge as adj
        >>> votes = [("t1", "ann", ["fear"]), ("t1", "bob", ["joy"]), ("t2", "ann", ["fear"]), ("t2", "bob", ["fear"])]
        >>> adj.aggregate(votes, multi=True).ask_next(1)["task"].to_list()
        ['t1']

        """
        from adjudge.results.ask_next import ask_next_sets

        return self._native(ask_next_sets(self, n, cost=cost, budget=budget))

    def write(self, path: str | os.PathLike[str], source: Source, *, format: str = "auto") -> None:  # noqa: A002
        """Write the sets in the format of the file that the votes came from.

        Parameters
        ----------
        path, source, format : as for `Result.write`
            The new file, the source, and the format.

        """
        from adjudge.io.formats.export import Consensus
        from adjudge.io.write_back import write_back

        options, table = self.votes.options.texts(), self.probabilities_frame().drop("task")
        scores = [dict(zip(options, line, strict=True)) for line in table.iter_rows()]
        write_back(Consensus(self.labels_frame(), self.model, self.understood, scores), source, path, format)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        truth: Source | None = None,
        truth_task: str | None = None,
        truth_label: str | None = None,
        title: str | None = None,
    ) -> None:
        """Write an HTML report in a single file.

        Parameters
        ----------
        path, truth, truth_task, truth_label, title : as for `Result.report`
            The file, known sets, and the heading.

        """
        from adjudge.results.plotting import load  # few callers write a report

        load("adjudge.report.page:write")(self, path, truth=truth, truth_task=truth_task, truth_label=truth_label, title=title)

    def labels_frame(self) -> pl.DataFrame:
        """Return `labels` as a polars frame, regardless of the caller's frame library."""
        names = self.votes.options.texts()
        chosen, tie = self._matrix("labels") == YES, self._matrix("tie")
        sets = pl.Series([[names[o] for o in np.flatnonzero(line)] for line in chosen], dtype=pl.List(pl.String))
        voted = pl.DataFrame(
            {
                "task": column(self.votes.tasks),
                "label": sets,
                "confidence": self._confidence(),
                "votes": self.votes.per_task,
                "tie": tie.any(axis=1),
                **self._gold(),
            }
        )
        if not len(self.votes.unvoted):
            return voted
        ids = self.votes.unvoted.cast(voted.schema["task"])
        left = pl.DataFrame({"task": ids}).with_columns(votes=pl.lit(0, pl.Int64), tie=False)
        return pl.concat([voted, left], how="diagonal")

    def gold_tasks(self) -> pl.Series:
        """Return the tasks whose set was given, as a column."""
        given = self._gold().get("gold")
        return column(self.votes.tasks, np.zeros(0, np.int64) if given is None else np.flatnonzero(given))

    def first_sets(self, limit: int) -> list[tuple[list[int], float]]:
        """Return the chosen options, as codes, and the confidence of the first tasks.

        Parameters
        ----------
        limit : int
            Maximum number of tasks.

        """
        chosen, confidence = self._matrix("labels")[:limit] == YES, self._matrix("confidence")[:limit].prod(axis=1)
        return [(np.flatnonzero(line).tolist(), float(sure)) for line, sure in zip(chosen, confidence, strict=True)]

    def probabilities_frame(self) -> pl.DataFrame:
        """Return `probabilities` as a polars frame, regardless of the caller's frame library."""
        return self._by_option([r.probabilities_frame()["yes"].to_numpy() for r in self.results])

    def workers_frame(self) -> pl.DataFrame:
        """Return `workers` as a polars frame, regardless of the caller's frame library."""
        frame = self.over_questions.workers_frame()
        if not self._is_pooled:
            frame = frame.with_columns(**self._accuracy())
        sets = frame["votes"].to_numpy() // max(len(self.votes.options), 1)
        rates = abstention_rates(sets, self.votes.abstentions, self.votes.abstained)
        abstained = pl.lit(None, pl.Float64) if rates is None else numbers(rates)
        return frame.with_columns(votes=numbers(sets), abstained=abstained)

    def priors_frame(self) -> pl.DataFrame:
        """Return `priors` as a polars frame, regardless of the caller's frame library."""
        from adjudge.results.workers import assess

        chosen, gold = self._matrix("labels"), self._gold().get("gold")
        low, high = [], []
        for option in range(len(self.votes.options)):
            votes = self.votes.of_option(option)
            found = assess(votes, np.ascontiguousarray(chosen[:, option]), gold).priors
            low.append(float(found.low[YES]))
            high.append(float(found.high[YES]))
        prior = self.option_priors()
        bounds = {"low": np.minimum(low, prior), "high": np.maximum(high, prior)}
        return pl.DataFrame({"option": column(self.votes.options), "prior": prior, **bounds})

    def option_priors(self) -> NDArray[np.float64]:
        """Return the share of tasks that have each option, [K]: p_c of its own fit, or else of the sets that one fit chose."""
        if not self._is_pooled:
            return np.array([float(r.fit.params.priors[YES]) for r in self.results])
        chosen: NDArray[np.float64] = (self._matrix("labels") == YES).sum(axis=0) / max(len(self.votes.tasks), 1)
        return chosen

    @property
    def _is_pooled(self) -> bool:
        """Whether one fit has judged the questions of all options."""
        return len(self.results) == 1

    @cached_property
    def over_questions(self) -> Result:
        """The result over all (task, option) questions that workers are judged by: what was fitted, or one made of the parts."""
        per_set = max(len(self.votes.options), 1)
        if self._is_pooled:
            return replace(self.results[0], per_set=per_set)
        votes, first = self.votes.binary, self.results[0]
        outcome = FitOutcome(
            labels=np.ascontiguousarray(self._matrix("labels").ravel(), np.int32),
            confidence=self._matrix("confidence").ravel(),
            tie=self._matrix("tie").ravel(),
            right_votes=np.zeros(votes.n_rows),  # see `_accuracy`
            log_likelihood=self.log_likelihood,
        )
        gold = self._gold().get("gold")
        known = None if gold is None else gold_frame(votes, outcome.labels, np.repeat(gold, per_set))
        seed, ties = (cast(Any, first.settings.get(name, getattr(DEFAULTS, name))) for name in ("seed", "ties"))
        session = resolve(DEFAULTS.engine).load(votes, seed=seed, ties=ties, gold=known)
        params = Parameters(np.full(2, 0.5), np.zeros((votes.n_rows, 2)), np.zeros((votes.n_workers, 2)))
        told = {name: values for name, values in first.fit.worker_columns.items() if name == "known"}  # the same in all parts
        fit = Fit(outcome, params, first.fit.statistics, worker_columns=told)
        return Result(votes, fit, session, self.model, first.settings, per_set=per_set)

    def _accuracy(self) -> dict[str, NDArray[np.float64]]:
        """Return the accuracy of every worker over options that were fitted apart, and its interval where it is honest."""
        answers = np.sum([r.votes.by_worker(r.votes.votes_per_row()) for r in self.results], axis=0)
        judged = [r.fit.honest for r in self.results]
        if any(one is None for one in judged):
            right = np.sum([r.votes.by_worker(r.right_votes) for r in self.results], axis=0)
            return {"accuracy": right / answers}
        sums = [r.votes.by_worker(one.answer_sums().T) for r, one in zip(self.results, judged, strict=True)]
        mean, doubt = (np.sum(sums, axis=0) / answers[:, None]).T
        laws = [one.honest.accuracy_law for one in judged]
        law = AccuracyLaw(*np.mean([(one.inflation, one.mean_worker) for one in laws], axis=0).tolist())
        return accuracy_columns(*law(mean, doubt, answers / len(self.results)))

    def _gold(self) -> dict[str, NDArray[np.bool_]]:
        parts = [r.fit.task_columns["gold"] for r in self.results if "gold" in r.fit.task_columns]
        if not parts:
            return {}
        shape = len(self.votes.tasks), len(self.votes.options)
        marked: NDArray[np.bool_] = parts[0].reshape(shape) if len(parts) == 1 else np.stack(parts, axis=1)
        return {"gold": marked[:, 0]}  # a gold set covers every option

    def _confidence(self) -> NDArray[np.float64]:
        """Return the probability that the whole set is right, [tasks]."""
        out: NDArray[np.float64] = self._matrix("confidence").prod(axis=1)
        return out

    def _matrix(self, name: str) -> NDArray[Any]:
        """Return a figure of the outcome by task and option, [tasks, K]."""
        parts = [getattr(r.fit.outcome, name) for r in self.results]
        shape = len(self.votes.tasks), len(self.votes.options)
        return parts[0].reshape(shape) if len(parts) == 1 else np.stack(parts, axis=1)

    def _by_option(self, yes: list[NDArray[np.float64]]) -> pl.DataFrame:
        """Return a frame of task and a column per option, from the figures of each fit, [tasks] or [tasks x options]."""
        shape = len(self.votes.tasks), len(self.votes.options)
        matrix = yes[0].reshape(shape) if len(yes) == 1 else np.stack(yes, axis=1)
        names = label_columns(self.votes.options.texts(), "task")
        return pl.DataFrame({"task": column(self.votes.tasks), **{n: matrix[:, o] for o, n in enumerate(names)}})

    def _native(self, frame: pl.DataFrame) -> Frame:
        return frames.to_native(frame, self.votes.frame_kind)


@dataclass(frozen=True, eq=False, repr=False)
class FittedSets:
    """What `adjudge.load` returns for a fit of sets (`multi=True`): all that it has learned of workers and options.

    Examples
    --------
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
            raise InputError(f"content is {quote(self.content)}: adjudge.load makes fitted models of files")

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
        """The iterations of the fit; the maximum over options if each was fitted separately."""
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
        """Option and prior: the share of tasks that have it; the same for all options unless each was fitted separately."""
        parts, options = self.content.parts, self.content.options
        yes = [float(parts[n if len(parts) > 1 else 0].priors[1]) for n in range(len(options))]
        return pl.DataFrame({"option": column(options), "prior": pl.Series(yes, dtype=pl.Float64)})

    def confusion(self, worker: object = None, option: object = None) -> pl.DataFrame:
        """Return the 2 x 2 confusion of a worker, or of the population.

        Parameters
        ----------
        worker : object, optional
            Id of the worker; by default the population.
        option : object, optional
            The option, if each was fitted separately.

        """
        parts = self.content.parts
        if len(parts) == 1:
            return FittedModel(parts[0]).confusion(worker)
        return FittedModel(parts[self.content.option(option)]).confusion(worker)

    def predict(
        self,
        votes: SetVotes | Source,
        *,
        engine: EngineChoice = DEFAULTS.engine,
        confidence: Confidence | None = None,
        **reading: Unpack[ReadOptions],
    ) -> MultiResult:
        """Label the sets of other tasks; unknown workers count as the average worker and are listed.

        Parameters
        ----------
        votes, engine, confidence, **reading : as for `MultiResult.predict`
            The votes, and how to predict.

        Returns
        -------
        MultiResult
            Sets of the other tasks.

        """
        return predict_sets(self.content, votes, engine, confidence, Reading.of(reading))

    def learned(self) -> NoReturn:
        """Raise: a model of sets cannot be a history, start another fit, or be merged."""
        raise OptionError("this is a model of sets (multi=True), which only predict can use: give a model of single labels")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file; the same model gives the same bytes.

        Parameters
        ----------
        path : str or path
            The file; it is written completely or not at all.

        """
        write_set_model(Path(path), self.content)
