"""A fit decoded for people: frames of labels, probabilities, workers and confusions, in the caller's own kind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.fit import Fit, Knowledge, TraceRow
from adjudge.data.options import DEFAULTS, Confidence, ReadOptions
from adjudge.data.vocabulary import Vocabulary, text_of
from adjudge.data.votes import Understood, Votes, pairs_of, piece, weight_sums
from adjudge.engines.base import Session
from adjudge.engines.memory import require_probabilities
from adjudge.engines.registry import EngineChoice
from adjudge.errors import NOT_PICKLED, AdjudgeError, InputError, quote
from adjudge.io.frames import Frame, column, label_columns, numbers, to_native
from adjudge.io.reading import Reading
from adjudge.io.sources import Source
from adjudge.io.workers import GroupedVotes
from adjudge.io.write import check_files
from adjudge.models.knowledge import Learned, columns_as_facts, learned_from
from adjudge.models.temperature import posterior_pieces, probability_pieces
from adjudge.results.promise.methods import Promises

if TYPE_CHECKING:
    from adjudge.io.workers import Cost
    from adjudge.results.explanation import Explanation
    from adjudge.results.plotting import Plots
    from adjudge.results.workers import JudgedWorkers

Refit = Callable[..., "Result"]  # from votes, gold= and history=
RESULT_CHUNK_TASKS = 1 << 20  # tasks looked at at once, so that copies stay small
MAX_CONFUSION_CELLS = 20_000_000  # of all workers together


@dataclass(frozen=True, eq=False, repr=False)
class Result(Promises):
    """What `fit` and `aggregate` return. Frames are made when first asked for, and kept.

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
    history: Knowledge | None = None  # what was known of the workers beforehand
    gold_given: int = 0  # gold tasks, with votes or without
    used: Learned | None = None  # the model that predicted this, where it was not fitted
    grouping: GroupedVotes | None = None  # who votes in which group, where workers vote in groups; `votes` are those that counted
    refit: Refit | None = None  # fits other votes the same way: verdicts ask what a fit says without some workers
    per_set: int = 1  # votes that are the answers of one set, and may be right or wrong together: they count as one

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields: frames are made again when asked for."""
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
        """Task, label, confidence (probability that the label is right), votes, tie, and what else the model tells of a task.

        `votes` are those that counted: a group of workers counts once. Where votes have weights, `weight` is their sum. Tasks
        with nothing but abstentions come last, without label.
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
        """What was measured of the votes and what was chosen, by name; see docs/models/auto.md.

        `shared_error` (how far workers err together), `skill_spread` (how far they differ), `effective_votes` (independent
        votes per task that this leaves), `trust_in_skill`, and for "auto" `chose` and `why`; none of these where neither model
        nor confidence asked for them. With groups `groups` and `ties_within` (votes that groups did not cast, as their members
        tied), with workers left out `excluded_workers` and `excluded_votes`.
        """
        return dict(self.fit.facts)

    @property
    def understood(self) -> Understood | None:
        """What reading made of the votes: format, columns, votes, abstentions, repeated votes; None for arrays of your own.

        >>> import adjudge as adj
        >>> print(adj.aggregate({"item": [1, 1], "judge": ["a", "b"], "score": [5, 5]}).understood)
        dict of columns: task=item, worker=judge, label=score; 2 votes
        """
        return self.votes.understood

    @cached_property
    def workers(self) -> Frame:
        """Worker, votes, accuracy (expected share of right votes), agreement (share of votes equal to the label), abstained.

        Where votes have weights, shares are of these; verdicts look at the answers, each of which counts once. `abstained` is the
        share of what the worker was shown that got no label (refusals among them); null where reading did not count it. A worker
        who only abstained has no votes, and no line. Where workers voted more than once on a task, `self_consistency` is the
        share of pairs of such votes that agree.

        Then what the votes tell whatever the model: accuracy_low and accuracy_high (90% interval), information (bits a
        vote), evidence (bits in all), below_chance (standard errors), verdict, answers_like and why (see docs/workers.md);
        and what else the model tells of a worker (glad: ability).
        """
        return self._native(self.workers_frame())

    @cached_property
    def groups(self) -> Frame:
        """Group, members, votes (one per task), ties_within (tasks on which members tied), accuracy, its interval, agreement.

        An empty frame where workers vote alone. `workers` tells of the members one by one, and names the group of each.
        """
        from adjudge.results.groups import groups_frame

        return self._native(groups_frame(self))

    @cached_property
    def priors(self) -> Frame:
        """Label, prior, p_c: the share of tasks expected to have it; low and high, its 90% interval, whatever the model."""
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
        """A line per iteration: phase, change of the priors (glad: of the objective), likelihoods, labels changed, seconds."""
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
        """The iterations of the fit that this one went on from: about what a warm start has saved; 0 for a cold one."""
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
        """The expected number of wrong labels, if confidence is to be believed: the sum of 1 - confidence over the tasks."""
        return sum(float((1.0 - piece(self.fit.outcome.confidence, cut)).sum()) for cut in self._cuts())

    @property
    def ties(self) -> int:
        """The number of tasks whose label had to be picked among tied ones."""
        return sum(int(piece(self.fit.outcome.tie, cut).sum()) for cut in self._cuts())

    @property
    def unvoted(self) -> int:
        """The number of tasks with nothing but abstentions."""
        return len(self.votes.unvoted)

    def confusion(self, worker: object) -> Frame:
        """Return pi_cl of one `worker`: a row per true label, a column per given label.

        >>> import adjudge as adj
        >>> result = adj.aggregate([(1, "ann", "cat"), (1, "bob", "cat"), (1, "eve", "dog"), (2, "ann", "dog")], model="mv")
        >>> result.confusion("eve").rows()
        [('cat', 0.0, 1.0), ('dog', 0.0, 0.0)]
        """
        return self._native(confusion_frame(self.votes.labels, self.confusion_matrix(worker)))

    @property
    def confusions(self) -> Frame:
        """The confusions of all workers: worker, true, given, share; a line per worker, true label and given label.

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
        """Return pi_cl of one `worker`, [K true, K given]; zeros where the worker never met the true label."""
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
        """Whether votes and outcome lie on disk: `label_batches` and `probability_batches` then come in several parts."""
        return isinstance(self.fit.outcome.labels, np.memmap)

    @property
    def strength(self) -> float:
        """The number of the mean worker's votes that every worker was lent, given or estimated; 0 is the paper."""
        return self.fit.strength

    @property
    def temperature(self) -> float:
        """What posteriors were raised to one over, to be as sure as they are right; 1 unless calibrated."""
        return self.fit.temperature

    @property
    def gold_without_votes(self) -> int:
        """Gold tasks that nobody voted on: they teach nothing, and are ignored."""
        used = self.fit.task_columns.get("gold")
        return self.gold_given - (0 if used is None else int(used.sum()))

    @property
    def unknown_workers(self) -> list[object]:
        """The workers that the model which predicted this did not know: they were taken for the mean worker."""
        known = self.fit.worker_columns.get("known")
        return [] if known is None else list(column(self.votes.workers, np.flatnonzero(~known)))

    def learned(self) -> Learned:
        """Return what was learned of workers and labels: what `save` writes."""
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
        """Write what was learned (not the votes, nor the labels of tasks) to one file at `path`, for `adjudge.load`."""
        from adjudge.results.saved import write_model

        check_files({"the model": path}, {"the votes": getattr(self.votes, "folder", None)})  # encoded votes know their folder
        write_model(Path(path), self.learned())

    def predict(
        self,
        votes: Votes | Source,
        *,
        engine: EngineChoice = DEFAULTS.engine,
        confidence: Confidence | None = None,
        **reading: Unpack[ReadOptions],
    ) -> Result:
        """Return the labels of other tasks under what was learned here; nothing is learned from their votes.

        Workers without a vote here are taken for the mean worker, and named by `unknown_workers`.

        - `votes`: anything that `adj.read` takes, or a Spark frame, which gives a result of Spark frames.
        - `engine`: where it runs, as for `adj.aggregate`.
        - `confidence`: "honest" (of a fit that was) or "posterior"; that of the fit by default.
        - `reading`: the options of `adj.read`.

        >>> import adjudge as adj
        >>> crowd = adj.simulate(tasks=200, workers=10, seed=1)
        >>> found = adj.aggregate(crowd.votes).predict([("new", "w1", "l2"), ("new", "w2", "l2"), ("new", "zoe", "l0")])
        >>> found.labels["label"].to_list(), found.unknown_workers
        (['l2'], ['zoe'])
        """
        from adjudge.results.saved import predict

        return predict(self.learned(), votes, engine, confidence, Reading.of(reading))

    def join(self, frame: Source, *, task: str | None = None, prefix: str = "consensus") -> Frame:
        """Return your own frame with the label of each row's task beside it: its rows, their order and its columns are kept.

        Four columns are added: `consensus` (the label), `consensus_confidence`, `consensus_votes` and `consensus_tie`. They are
        missing in rows of tasks that the votes do not have. Ids meet as text: 7 and "7" are one task.

        - `frame`: of pandas, polars or pyarrow, which comes back as the same kind; one row per task or several. Or the path of a
          table, whose columns come as a polars frame, those of text files as text.
        - `task`: the column of the task, or the level of the index; by default the one it was when the votes were read, or
          else the one that usual names tell.
        - `prefix`: what the names of the new columns begin with, where `consensus` is taken.

        >>> import adjudge as adj
        >>> import polars as pl
        >>> judged = {"example_id": [7, 7, 8], "judge": ["a", "b", "a"], "score": ["good", "good", "bad"]}
        >>> texts = pl.DataFrame({"example_id": ["8", "9", "7"], "text": ["x", "y", "z"]})
        >>> adj.aggregate(judged, model="mv").join(texts).select("example_id", "text", "consensus").rows()
        [('8', 'x', 'bad'), ('9', 'y', None), ('7', 'z', 'good')]
        """
        from adjudge.io.write_back import join

        return join(self.labels_frame(), frame, self.understood, task=task, prefix=prefix)

    def explain(self, task: object, *, settled: float = 0.95, by: Literal["confidence", "model"] = "confidence") -> Explanation:
        """Return why a task has its label: what every vote adds, who could change it, how many more votes would settle it.

        Print it, take its figures (`log_odds`, `evidence`, `steps`), its frame (`votes`) or its picture (`plot()`); see
        docs/explaining-a-label.md. `adjudge.results.explain.explain_many` explains many tasks at once.

        - `task`: its id; 7 and "7" are one task.
        - `settled`: the confidence from which a label counts as settled, for `more_votes`.
        - `by`: "confidence" explains the probabilities that are reported, "model" the model's own posterior, which decides.

        >>> import adjudge as adj
        >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
        >>> why = adj.aggregate(votes, model="ds").explain("t1")
        >>> why.label, why.runner_up, why.votes["worker"].to_list()
        ('cat', 'dog', ['ann', 'bob', 'eve'])
        """
        from adjudge.results.explain import explain

        return explain(self, task, settled=settled, by=by)

    def soft(self) -> Frame:
        """Return the distribution of the crowd's answers per task, and whether a task is ambiguous or short of votes.

        A frame of task, one column per label (its share of infinitely many votes), `ambiguity` (entropy of the task's own
        distribution, in nats), `doubt` (entropy that more votes would remove) and `verdict`: "ambiguous" (the top
        answer has less than two thirds of the crowd, with a probability of .8), "settled" (it has more) or "ask more". All three
        are null where halves of the votes do not agree on which tasks are ambiguous; see docs/soft-labels.md.

        >>> import adjudge as adj
        >>> crowd = adj.simulate(tasks=300, workers=20, labels=3, votes_per_task=8, skill=0.7, seed=1)
        >>> adj.aggregate(crowd.votes).soft().columns
        ['task', 'l0', 'l1', 'l2', 'ambiguity', 'doubt', 'verdict']
        """
        from adjudge.results.soft import soft_labels

        return to_native(soft_labels(self).frame(), self.votes.frame_kind)

    def ask_next(
        self,
        n: int | None = None,
        *,
        worker: object = None,
        cost: Cost | None = None,
        budget: float | None = None,
    ) -> Frame:
        """Return the tasks where one more vote is worth most, and among candidates the worker to ask: most gain per cost first.

        A frame of task, worker (where candidates were given), expected_gain (in right labels), label, confidence, votes, and
        cost (where given). Each task comes once: ask again when its vote is in. Gold is not asked about. A task with nothing but
        abstentions comes first, without label. See docs/asking-next.md.

        - `n`: how many tasks at most; all with a gain by default.
        - `worker`: who can be asked: "any" of those who have voted, one worker, or a list. Nobody is asked twice about a task;
          one who never voted is taken for the mean worker. By default a vote is that of the mean worker, and none is named.
        - `cost`: what a vote costs: a number, a dict worker -> cost, or a table with the columns worker and cost, which is then
          over the workers who can be asked.
        - `budget`: what the votes may cost in all.

        >>> import adjudge as adj
        >>> votes = [(1, "ann", "cat"), (1, "bob", "dog"), (2, "ann", "dog"), (2, "bob", "dog"), (2, "eve", "dog")]
        >>> adj.aggregate(votes, model="mv").ask_next(1, worker=["ann", "eve"]).select("task", "worker").rows()
        [(1, 'eve')]
        """
        from adjudge.results.ask_next import ask_next

        return self._native(ask_next(self, n, worker=worker, cost=cost, budget=budget))

    def write(self, path: str | os.PathLike[str], source: Source, *, format: str = "auto") -> None:  # noqa: A002
        """Write the labels to `path` in the form of the file that the votes came from; see docs/formats.md.

        An export of Label Studio becomes its tasks with the labels as predictions, records of Argilla get them as suggestions,
        a log of Inspect becomes a table of its samples, and a table gets the columns of `join`. The file that was read is
        not changed.

        - `path`: the new file; it is written completely or not at all.
        - `source`: the file, or the records, that the votes were read from.
        - `format`: "auto" for the form of the source; or "label-studio", "argilla", "argilla-flat", "inspect" or "table", which
          must be one that the source has.

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

        write_back(Consensus(self.labels_frame(), self.model, self.understood), source, path, format)

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
        """Write one page that shows this result: labels in doubt, workers, what they confuse, who answers alike; docs/report.md.

        The page is a single HTML file. It needs no network, and opens in any browser.

        - `path`: the new file; it is written completely or not at all.
        - `truth`: known labels, as for `adj.evaluate`, which are never learned from. The page then has accuracy, too.
        - `truth_task`, `truth_label`: the columns of the truth, where their usual names do not tell.
        - `title`: what stands at the top of the page.
        - `comparison`: what `adj.compare` returned for the same votes and truth; else a few models are fitted for the page.

        >>> import adjudge as adj
        >>> import tempfile, pathlib
        >>> crowd = adj.simulate(tasks=100, workers=8, seed=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = pathlib.Path(folder, "report.html")
        ...     adj.aggregate(crowd.votes).report(page, truth=crowd.truth)
        ...     print("Can I trust these labels?" in page.read_text())
        True
        """
        from adjudge.results.plotting import load  # a report is asked for seldom

        columns = {"truth_task": truth_task, "truth_label": truth_label}
        load("adjudge.report.page:write")(self, path, truth=truth, title=title, comparison=comparison, **columns)

    def labels_frame(self) -> pl.DataFrame:
        """Return `labels` as a polars frame, whatever the caller's kind."""
        return _join_frames(self.label_batches())

    def probabilities_frame(self) -> pl.DataFrame:
        """Return `probabilities` as a polars frame, whatever the caller's kind; too little memory is foreseen and said."""
        require_probabilities(self.votes)
        return _join_frames(self.probability_batches())

    def label_batches(self) -> Iterator[pl.DataFrame]:
        """Yield `labels` as polars frames, one after the other: all at once, unless the votes lie on disk."""
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
        nothing = {name: pl.lit(None, kind) for name, kind in frame.schema.items()}  # what a model tells of tasks is null here
        nothing |= {"task": pl.col("task"), "votes": pl.lit(0, pl.Int64), "tie": pl.lit(False)}
        for start in range(0, len(votes.unvoted), RESULT_CHUNK_TASKS):
            ids = column(votes.unvoted.take(np.arange(start, min(start + RESULT_CHUNK_TASKS, len(votes.unvoted)))))
            yield pl.DataFrame({"task": ids}).select(**nothing)

    def probability_batches(self, *, posterior: bool = False) -> Iterator[pl.DataFrame]:
        """Yield `probabilities` (or the model's own `posterior`) as polars frames: at once, unless the votes are on disk."""
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
        """Return `workers` as a polars frame, whatever the caller's kind; without `trust` what costs no pass alone."""
        return self.judged.frame(trust=trust)

    @cached_property
    def judged(self) -> JudgedWorkers:
        """The workers as verdicts see them: what stands behind the columns of `workers`."""
        from adjudge.results.workers import JudgedWorkers  # labels alone need no verdicts

        return JudgedWorkers(self)

    @cached_property
    def right_votes(self) -> NDArray[np.float64]:
        """The expected number of right votes in each row, [rows]: counted in a pass of its own where no other has done so."""
        right = self.fit.outcome.right_votes
        return right() if callable(right) else right

    def agreeing_votes(self) -> NDArray[np.int64]:
        """Return the votes of each row (a worker and a given label) that equal the label of their task, [rows]."""
        from adjudge.results.workers import agreeing_votes

        return agreeing_votes(self)

    def _cuts(self) -> list[slice]:
        """Return the tasks as slices that are looked at at once: all of them, where they are in memory."""
        n, size = self.votes.n_tasks, RESULT_CHUNK_TASKS if self.is_on_disk else max(self.votes.n_tasks, 1)
        return [slice(start, start + size) for start in range(0, n, size)]

    @property
    def is_here(self) -> bool:
        """Whether votes and labels are in memory: intervals and verdicts look at all of them together."""
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
