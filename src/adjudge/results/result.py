"""A fit decoded for people: frames of labels, probabilities, workers and confusions, in the caller's own kind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.fit import Fit, Knowledge, TraceRow
from adjudge.data.vocabulary import Vocabulary, text_of
from adjudge.data.votes import Understood, Votes, pairs_of, piece, weight_sums
from adjudge.engines.base import Session
from adjudge.engines.memory import require_probabilities
from adjudge.errors import NOT_PICKLED, AdjudgeError, InputError, quote
from adjudge.io.frames import Frame, column, label_columns, numbers, to_native
from adjudge.io.sources import Source
from adjudge.io.workers import GroupedVotes
from adjudge.io.write import check_files
from adjudge.models.knowledge import Learned, columns_as_facts, learned_from
from adjudge.models.temperature import posterior_pieces, probability_pieces
from adjudge.results.methods import ResultMethods

if TYPE_CHECKING:
    from adjudge.results.plotting import Plots
    from adjudge.results.workers import JudgedWorkers

Refit = Callable[..., "Result"]  # from votes, gold= and history=
RESULT_CHUNK_TASKS = 1 << 20  # tasks per block, so that copies stay small
MAX_CONFUSION_CELLS = 20_000_000  # of all workers together


@dataclass(frozen=True, eq=False, repr=False)
class Result(ResultMethods):
    """The result of `fit` and `aggregate`. Frames are made on first access and cached.

    Examples
    --------
    >>> import adjudge as adj
    >>> result = adj.aggregate([(1, "ann", "cat"), (1, "bob", "cat"), (1, "eve", "dog"), (2, "ann", "dog")], model="mv")
    >>> result
    Result(mv: 2 tasks, 3 workers, 2 labels from 4 votes)
    >>> result.labels.rows()
    [(1, 'cat', 0.525, 3, False), (2, 'dog', 0.55, 1, False)]

    """

    votes: Votes
    fit: Fit
    session: Session
    model: str  # its name
    settings: Mapping[str, object]
    scoring: str = "confusion"  # how votes are scored: see adjudge.models.knowledge
    history: Knowledge | None = None  # what was known about the workers beforehand
    gold_given: int = 0  # gold tasks, with votes or without
    used: Learned | None = None  # the model that predicted this, if it was not fitted
    grouping: GroupedVotes | None = None  # who votes in which group, if workers are grouped; `votes` are those that counted
    refit: Refit | None = None  # fits other votes the same way: verdicts compare fits without some workers
    per_set: int = 1  # votes that answer one set, and may be right or wrong together: they count as one

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields: frames are made again on access."""
        if self.is_on_disk:
            raise AdjudgeError(NOT_PICKLED)
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def __copy__(self) -> Self:
        return replace(self)  # nothing here ever changes

    def __repr__(self) -> str:
        v = self.votes
        passes = f", {self.iterations} iterations" if self.iterations else ""
        workers = f"{v.n_workers} workers"
        if self.grouping is not None:
            workers = self.grouping.described()
        return f"Result({self.model}: {v.n_tasks} tasks, {workers}, {v.n_labels} labels from {len(v)} votes{passes})"

    def _repr_html_(self) -> str:
        from adjudge.results.card import of_result

        return of_result(self)

    @cached_property
    def labels(self) -> Frame:
        """Task, label, confidence (probability that the label is right), votes, tie, and further columns of the model.

        `votes` are those that counted: a group of workers counts once. If votes have weights, `weight` is their sum. Tasks with
        nothing but abstentions come last, without a label.
        """
        return to_native(self.labels_frame(), self.votes.frame_kind)

    @cached_property
    def probabilities(self) -> Frame:
        """Task and one column per label: the probability that it is the true one (for mv the vote share)."""
        return to_native(self.probabilities_frame(), self.votes.frame_kind)

    @cached_property
    def posterior(self) -> Frame:
        """Task and one column per label: the model's own posterior, which decides labels; see `probabilities`."""
        require_probabilities(self.votes)
        return to_native(_join_frames(self.probability_batches(posterior=True)), self.votes.frame_kind)

    @property
    def facts(self) -> Mapping[str, object]:
        """Measurements of the votes and choices of the fit, by name; see docs/models/auto.md.

        `shared_error` (correlation of their errors), `skill_spread` (how much they differ), `effective_votes` (independent votes
        per task after allowing for both), `trust_in_skill`, and for "auto" `chose` and `why`; all are missing if neither model
        nor confidence needed them. With groups: `groups` and `ties_within` (votes that groups did not cast because their members
        tied). With workers left out: `excluded_workers` and `excluded_votes`.
        """
        return dict(self.fit.facts)

    @property
    def understood(self) -> Understood | None:
        """How the votes were read: format, columns, votes, abstentions, repeated votes; None for your own arrays.

        Examples
        --------
        >>> import adjudge as adj
        >>> print(adj.aggregate({"item": [1, 1], "judge": ["a", "b"], "score": [5, 5]}).understood)
        dict of columns: task=item, worker=judge, label=score; 2 votes

        """
        return self.votes.understood

    @cached_property
    def workers(self) -> Frame:
        """Worker, votes, accuracy (expected share of right votes), agreement (share of votes equal to the label), abstained.

        If votes have weights, shares are weighted; verdicts count each answer once. `abstained` is the share of the tasks shown
        to the worker that got no label (refusals included), if reading counted them. A worker who only abstained has no row.
        If workers voted more than once on a task, `self_consistency` is the share of pairs of such votes that agree.

        Columns that do not depend on the model: accuracy_low and accuracy_high (90% interval), information (bits per vote),
        evidence (total bits), below_chance (standard errors), verdict, answers_like and why (see docs/workers.md). A model may
        add columns of its own (glad: ability).
        """
        return self._native(self.workers_frame())

    @cached_property
    def groups(self) -> Frame:
        """Group, members, votes (one per task), ties_within (tasks on which members tied), accuracy, its interval, agreement.

        An empty frame if workers vote alone. `workers` lists the members one by one, with the group of each.
        """
        from adjudge.results.groups import groups_frame

        return self._native(groups_frame(self))

    @cached_property
    def priors(self) -> Frame:
        """Label, prior (p_c, the expected share of tasks with it), low and high: its 90% interval, for any model."""
        known = {"label": column(self.votes.labels), "prior": self.fit.params.priors}
        return self._native(pl.DataFrame({**known, **(self.judged.assessment.priors._asdict() if self.is_here else {})}))

    @cached_property
    def plot(self) -> Plots:
        """Pictures of the result, which notebooks show as SVG: `result.plot.workers()`; see docs/plots.md.

        `workers`, `confusion`, `tasks`, `agreement`, `reliability`, `trace`, `shares`, `explain`.
        """
        from adjudge.results.plotting import Plots

        return Plots(self)

    @cached_property
    def trace(self) -> Frame:
        """One row per iteration: phase, change of the priors (glad: of the objective), likelihoods, labels changed, seconds."""
        schema = dict.fromkeys(TraceRow.__dataclass_fields__, pl.Float64) | {
            "iteration": pl.Int64,
            "phase": pl.String,
            "labels_changed": pl.Int64,
        }
        return self._native(pl.DataFrame([asdict(row) for row in self.fit.trace], schema=schema))

    @property
    def iterations(self) -> int:
        """The number of iterations, each an M-step and an E-step; 0 for majority vote."""
        return self.fit.iterations

    @property
    def iterations_before(self) -> int:
        """The iterations of the earlier fit that a warm start continued, which are about those it saved; 0 for a cold start."""
        return self.fit.trace[0].iteration - 1 if self.fit.trace else 0

    @property
    def converged(self) -> bool:
        """Whether the stopping rule was met before the iterations ran out."""
        return self.fit.converged

    @property
    def log_likelihood(self) -> float:
        """The marginal log-likelihood at the end, for hard models too; NaN for majority vote."""
        return self.fit.outcome.log_likelihood

    @property
    def expected_errors(self) -> float:
        """The expected number of wrong labels if confidence holds: the sum of 1 - confidence over the tasks."""
        return sum(float((1.0 - piece(self.fit.outcome.confidence, cut)).sum()) for cut in self._cuts())

    @property
    def ties(self) -> int:
        """The number of tasks whose label was chosen among tied ones."""
        return sum(int(piece(self.fit.outcome.tie, cut).sum()) for cut in self._cuts())

    @property
    def unvoted(self) -> int:
        """The number of tasks with nothing but abstentions."""
        return len(self.votes.unvoted)

    def confusion(self, worker: object) -> Frame:
        """Return the confusion (pi) of a worker: a row per true label, a column per given label.

        Parameters
        ----------
        worker : object
            Id of the worker.

        Returns
        -------
        frame
            Column `true`, and one column per given label; a row of zeros if the worker never met the true label.

        Raises
        ------
        InputError
            If the worker has no votes, or votes as part of a group.

        Examples
        --------
        >>> import adjudge as adj
        >>> result = adj.aggregate([(1, "ann", "cat"), (1, "bob", "cat"), (1, "eve", "dog"), (2, "ann", "dog")], model="mv")
        >>> result.confusion("eve").rows()
        [('cat', 0.0, 1.0), ('dog', 0.0, 0.0)]

        """
        return self._native(confusion_frame(self.votes.labels, self.confusion_matrix(worker)))

    @property
    def confusions(self) -> Frame:
        """The confusions of all workers: worker, true, given, share; one row per worker, true label and given label.

        Examples
        --------
        >>> import adjudge as adj
        >>> result = adj.aggregate([(1, "ann", "cat"), (1, "bob", "cat"), (2, "ann", "dog")], model="mv")
        >>> result.confusions.filter(worker="bob").rows()
        [('bob', 'cat', 'cat', 1.0), ('bob', 'cat', 'dog', 0.0), ('bob', 'dog', 'cat', 0.0), ('bob', 'dog', 'dog', 0.0)]

        """
        return self._native(self.confusions_frame())

    def confusions_frame(self) -> pl.DataFrame:
        """Return `confusions` as a polars frame."""
        names, labels = self.votes.workers, self.votes.labels
        n, k = len(names), len(labels)
        if n * k * k > MAX_CONFUSION_CELLS:
            raise InputError(f"the confusions of {n} workers have {n * k * k} cells: ask for one with confusion(worker)")
        shares = [self.confusion_matrix(worker).ravel() for worker in names.ids()]
        return pl.DataFrame(
            {
                "worker": column(names, np.repeat(np.arange(n), k * k)),
                "true": column(labels, np.tile(np.repeat(np.arange(k), k), n)),
                "given": column(labels, np.tile(np.arange(k), n * k)),
                "share": np.concatenate([np.zeros(0), *shares]),
            }
        )

    def confusion_matrix(self, worker: object) -> NDArray[np.float64]:
        """Return `confusion` as an array.

        Parameters
        ----------
        worker : object
            Id of the worker.

        Returns
        -------
        array of float64
            Shape (K true, K given); zeros where the worker never met the true label.

        """
        code = int(self.votes.workers.codes([worker])[0])
        if code < 0:
            group = None if self.grouping is None else self.grouping.mapping.get(text_of(worker))
            if group is not None:
                raise InputError(f"worker {quote(worker)} votes in group {quote(group)}: ask for the confusion of the group")
            raise InputError(f"worker {quote(worker)} has no votes here; there are {self.votes.n_workers} workers")
        known = self.learned() if self.scoring in ("careful", "ordinal") else self.used
        if known is not None:
            return known.confusion(int(known.knowledge.workers.codes([worker])[0]))
        return self.fit.params.confusion(pairs_of(self.votes), code)

    @property
    def is_on_disk(self) -> bool:
        """Whether votes and outcome are on disk; `label_batches` and `probability_batches` then yield several parts."""
        return isinstance(self.fit.outcome.labels, np.memmap)

    @property
    def strength(self) -> float:
        """Pseudo-votes of the average worker that every worker got, given or estimated; 0 is the paper."""
        return self.fit.strength

    @property
    def temperature(self) -> float:
        """Temperature T of the calibration, which raises posteriors to the power 1/T; 1 unless calibrated."""
        return self.fit.temperature

    @property
    def gold_without_votes(self) -> int:
        """The number of gold tasks without votes, which are ignored."""
        used = self.fit.task_columns.get("gold")
        return self.gold_given - (0 if used is None else int(used.sum()))

    @property
    def unknown_workers(self) -> list[object]:
        """Workers unknown to the model that predicted this; they count as the average worker."""
        known = self.fit.worker_columns.get("known")
        return [] if known is None else list(column(self.votes.workers, np.flatnonzero(~known)))

    def learned(self) -> Learned:
        """Return what was learned about workers and labels, as `save` writes it."""
        if self.used is not None:
            return self.used
        v = self.votes
        facts = {
            "votes": len(v),
            "tasks": v.n_tasks,
            "log_likelihood": None if np.isnan(self.log_likelihood) else self.log_likelihood,
            **self.fit.facts,
            **columns_as_facts(self.understood),
            "confidence": "posterior" if self.fit.honest is None else "honest",
        }
        found = learned_from(
            pairs_of(v),
            self.fit,
            model=self.model,
            settings=self.settings,
            scoring=self.scoring,
            history=self.history,
            facts=facts,
        )
        return found if self.grouping is None else replace(found, groups=self.grouping.mapping)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learned about workers and labels to a file that `adj.load` reads.

        Parameters
        ----------
        path : str or path
            The file; it is written completely or not at all. It contains neither votes nor the labels of tasks.

        """
        from adjudge.results.saved import write_model

        check_files({"the model": path}, {"the votes": getattr(self.votes, "folder", None)})  # encoded votes know their folder
        write_model(Path(path), self.learned())

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        truth: Result | Source | None = None,
        truth_task: str | None = None,
        truth_label: str | None = None,
        title: str | None = None,
        comparison: object = None,
    ) -> None:
        """Write an HTML report: labels in doubt, workers, what they confuse, and who answers alike; see docs/report.md.

        The report is a single HTML file that needs no network and opens in any browser.

        Parameters
        ----------
        path : str or path
            The file; it is written completely or not at all.
        truth : Result or source, optional
            Known labels, as for `adj.evaluate`, for figures of accuracy; they are never learned from.
        truth_task, truth_label : str, optional
            Columns of the truth, if they do not have usual names.
        title : str, optional
            Heading of the page.
        comparison : object, optional
            What `adj.compare` returned for the same votes and truth; by default a few models are fitted for the page.

        Examples
        --------
        >>> import adjudge as adj
        >>> import tempfile, pathlib
        >>> crowd = adj.simulate(tasks=100, workers=8, seed=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = pathlib.Path(folder, "report.html")
        ...     adj.aggregate(crowd.votes).report(page, truth=crowd.truth)
        ...     print("Can I trust these labels?" in page.read_text())
        True

        """
        from adjudge.results.plotting import load  # few callers write a report

        columns = {"truth_task": truth_task, "truth_label": truth_label}
        load("adjudge.report.page:write")(self, path, truth=truth, title=title, comparison=comparison, **columns)

    def labels_frame(self) -> pl.DataFrame:
        """Return `labels` as a polars frame, regardless of the caller's frame library."""
        return _join_frames(self.label_batches())

    def probabilities_frame(self) -> pl.DataFrame:
        """Return `probabilities` as a polars frame; raise before allocating if memory is insufficient."""
        require_probabilities(self.votes)
        return _join_frames(self.probability_batches())

    def label_batches(self) -> Iterator[pl.DataFrame]:
        """Yield `labels` as polars frames: a single one, unless the votes are on disk."""
        outcome, votes, told = self.fit.outcome, self.votes, self.fit.task_columns
        frame = None
        # Both kinds of parts are cut alike.
        weights = None if votes.row_weight is None else (weight_sums(votes, ptr, row) for _, ptr, row in votes.parts())
        for cut, tasks, sizes in votes.task_parts():
            frame = pl.DataFrame(
                {
                    "task": column(tasks),
                    "label": column(votes.labels, piece(outcome.labels, cut)),
                    "confidence": numbers(piece(outcome.confidence, cut)),
                    "votes": numbers(sizes),
                    **({} if weights is None else {"weight": numbers(next(weights))}),
                    "tie": numbers(piece(outcome.tie, cut)),
                    **{name: numbers(piece(values, cut)) for name, values in told.items()},
                }
            )
            yield frame
        if frame is None or not len(votes.unvoted):
            return
        nothing = {name: pl.lit(None, kind) for name, kind in frame.schema.items()}  # columns of the model are null here
        nothing |= {"task": pl.col("task"), "votes": pl.lit(0, pl.Int64), "tie": pl.lit(False)}
        for start in range(0, len(votes.unvoted), RESULT_CHUNK_TASKS):
            ids = column(votes.unvoted.take(np.arange(start, min(start + RESULT_CHUNK_TASKS, len(votes.unvoted)))))
            yield pl.DataFrame({"task": ids}).select(**nothing)

    def probability_batches(self, *, posterior: bool = False) -> Iterator[pl.DataFrame]:
        """Yield `probabilities` as polars frames: a single one, unless the votes are on disk.

        Parameters
        ----------
        posterior : bool, default False
            Whether to yield the model's own posterior instead.

        """
        names = label_columns(self.votes.labels.texts(), "task")
        pieces = (posterior_pieces if posterior else probability_pieces)(self.fit, self.session)
        rest = np.zeros((0, len(names)))
        for _, tasks, _ in self.votes.task_parts():
            held, there = [rest], len(rest)
            while there < len(tasks):
                held.append(next(pieces)[1])
                there += len(held[-1])
            rest = np.concatenate(held) if len(held[0]) or len(held) > 2 else held[-1]
            matrix, rest = rest[: len(tasks)], rest[len(tasks) :]
            yield pl.DataFrame({"task": column(tasks), **{name: matrix[:, code] for code, name in enumerate(names)}})
        next(pieces, None)  # lets them close what they have opened

    def workers_frame(self, *, trust: bool = True) -> pl.DataFrame:
        """Return `workers` as a polars frame.

        Parameters
        ----------
        trust : bool, default True
            False skips the columns that need a pass of their own.

        """
        frame = self.judged.frame(trust=trust)
        if not trust or self.grouping is not None or self.fit.stack is None or self.judged.honest is None:
            return frame
        from adjudge.results.evidence import stack_accuracy

        shares = np.concatenate([part for _, part in probability_pieces(self.fit, self.session)])
        law, given = self.judged.honest.honest.accuracy_law, (shares, self.fit.outcome.labels, self.per_set)
        return frame.with_columns(pl.Series(name, part) for name, part in stack_accuracy(self.votes, *given, law).items())

    @cached_property
    def judged(self) -> JudgedWorkers:
        """The verdicts and intervals behind the columns of `workers`."""
        from adjudge.results.workers import JudgedWorkers  # labels alone need no verdicts

        return JudgedWorkers(self)

    @cached_property
    def right_votes(self) -> NDArray[np.float64]:
        """The expected number of right votes in each row, [rows]; takes a pass unless the fit has counted them."""
        right = self.fit.outcome.right_votes
        return right() if callable(right) else right

    def agreeing_votes(self) -> NDArray[np.int64]:
        """Return the votes of each row (a worker and a given label) that equal the label of their task, [rows]."""
        from adjudge.results.workers import agreeing_votes

        return agreeing_votes(self)

    def _cuts(self) -> list[slice]:
        """Return slices of tasks to process at a time: one slice if they are in memory."""
        n, size = self.votes.n_tasks, RESULT_CHUNK_TASKS if self.is_on_disk else max(self.votes.n_tasks, 1)
        return [slice(start, start + size) for start in range(0, n, size)]

    @property
    def is_here(self) -> bool:
        """Whether votes and labels are in memory, as intervals and verdicts require."""
        return type(self.votes) is Votes and len(self.fit.outcome.labels) == self.votes.n_tasks

    def _native(self, frame: pl.DataFrame) -> Frame:
        return to_native(frame, self.votes.frame_kind)


def confusion_frame(labels: Vocabulary, matrix: NDArray[np.float64]) -> pl.DataFrame:
    """Return a confusion, [K true, K given], as a frame: a row per true label, a column per given label."""
    columns = {name: matrix[:, given] for given, name in enumerate(label_columns(labels.texts(), "true"))}
    return pl.DataFrame({"true": column(labels), **columns})


def _join_frames(frames: Iterator[pl.DataFrame]) -> pl.DataFrame:
    every = list(frames)
    return every[0] if len(every) == 1 else pl.concat(every)
