"""The stream itself: all learning, reading, refitting and saving goes through `Online`."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from adjudge.data import options
from adjudge.data.options import STREAMED_DEFAULTS, Confidence, Kept, StreamedModel
from adjudge.data.vocabulary import Id, text_of
from adjudge.data.votes import FrameKind, Votes, require_unweighted
from adjudge.errors import InputError, label_error, quote, warn_abstentions
from adjudge.io.answers import read_gold
from adjudge.io.container import Bounds
from adjudge.io.encode import MISSING_CODE
from adjudge.io.frames import Frame, column, id_text, is_missing, known_text, prepare_ids, require_present, to_native
from adjudge.io.sources import Source, open_table
from adjudge.io.stream_file import LabelNames, stream_gold
from adjudge.kernels import online_reference
from adjudge.kernels.cpu import compiled
from adjudge.online.reading import (
    CONFIDENCE_CODES,
    RULES,
    EvictedTask,
    OnlineSettings,
    Prediction,
    Renewal,
    confusion_frame,
    crowd_sums,
    prediction,
    task_frame,
    worker_frame,
)
from adjudge.online.refit import WholeStream, content_of, stream_of


class Online(WholeStream):
    """Labels that follow a stream of votes (the paper's section 5), for ds, fds, hybrid and auto.

    Each vote settles its own task: majority vote, M-step, E-step, M-step; other tasks are left as they are until
    `refit`.

    Parameters
    ----------
    labels : iterable of object
        All labels that votes may have.
    model : StreamedModel, default "fds"
        "fds", "ds", "hybrid", or "auto": fds between refits, which run auto; a task keeps the label of the last refit until it
        gets or loses a vote. `adj.aggregate` has "auto" by default, which is a rule for votes that are all there; here "fds",
        so that refits and the votes between them follow one rule.
    seed : int, default 0
        Decides between labels that score the same.
    duplicates : Kept, default "last"
        A worker's second vote on a task replaces the first ("last"), or is added ("all"). `adj.aggregate` adds by default,
        because a table may hold true repeats; in a stream the second vote is mostly a change of mind.
    strength : float, default 1.0
        Pseudo-votes of the average worker for every worker; 0 is the paper, and the default of `adj.aggregate`. Here it is 1,
        because a stream judges workers from their first vote on: newcomers start like the population.
    confidence : {"honest", "posterior"}, default "honest"
        "honest" is judged from the votes of other tasks and the errors that workers share, which are measured again when a
        tenth of the votes has changed; "posterior" is the model's own. Neither changes a label.
    gold : source, optional
        Labels of some tasks, as for `adj.aggregate`; see the method `gold`.

    Examples
    --------
    >>> import adjudge as adj
    >>> online = adj.Online(labels=["cat", "dog"])
    >>> for worker, label in (("ann", "cat"), ("bob", "cat"), ("eve", "dog")):
    ...     online.learn("t1", worker, label)
    >>> online.predict("t1").label, online.predict("t1").votes
    ('cat', 3)
    >>> online.retract("t1", "eve")
    1
    >>> online.predict("t1").votes
    2

    Any number of threads may use a stream at once: each call is whole, reads run side by side, a change runs alone. An
    exception at any moment (Ctrl-C, no memory) leaves the stream as it was before the call or as it is after it.

    """

    def __init__(
        self,
        *,
        labels: Iterable[object],
        model: StreamedModel = STREAMED_DEFAULTS.model,
        seed: int = STREAMED_DEFAULTS.seed,
        duplicates: Kept = STREAMED_DEFAULTS.duplicates,
        strength: float = STREAMED_DEFAULTS.strength,
        confidence: Confidence = STREAMED_DEFAULTS.confidence,
        gold: Source | None = None,
    ) -> None:
        model = options.resolve_model_name(model)
        given = {"model": model, "duplicates": duplicates, "seed": seed, "strength": strength, "confidence": confidence}
        options.check(given, RULES)
        self._names = names = LabelNames(labels)  # no fewer than the state has: see `_labels`
        if not len(names):
            raise InputError("labels is empty: name the labels that votes may have")
        self._model, self._seed, self._duplicates, self._strength = model, seed, duplicates, strength
        self._confidence = confidence
        self._frame_kind: FrameKind = "polars"  # of returned frames; not saved
        self._widening = threading.Lock()
        self._options: dict[str, Any] = {}  # of the batch model, for refit
        # Everything that changes is in here, and changes by one call.
        core = compiled()
        self._state: Any = (online_reference if core is None else core).Online(
            names.hashes(),
            seed=int(seed) % 2**64,
            hard=model in ("fds", "auto"),
            strength=float(strength),
            replace=duplicates == "last",
        )
        self._renewal = Renewal(self._state)
        known = None if gold is None else read_gold(gold, names.vocabulary)
        for task, code in () if known is None else zip(known.tasks.texts(), known.labels.tolist(), strict=True):
            self._state.set_gold(task, code)

    def __len__(self) -> int:
        return int(self._state.tasks)

    @property
    def abstentions(self) -> int:
        """The number of votes without a label."""
        return int(self._state.abstentions)

    @property
    def state(self) -> Any:
        """The mutable state, which a service calls vote by vote, in codes and texts.

        `adjudge.kernels.online_reference.Online` has its methods; the compiled one has the same. A reader that gets False
        calls `renew_due`, and asks again with the kind `adjudge.online.LASTING`.
        """
        return self._state

    def __repr__(self) -> str:
        return f"Online({self._model}: {self._state.tasks} tasks, {self._state.workers} workers, {self._state.labels} labels)"

    def _repr_html_(self) -> str:
        from adjudge.results.card import of_stream

        return of_stream(self)

    @property
    def settings(self) -> OnlineSettings:
        """The settings of the stream: labels, model, seed, duplicates, strength, confidence."""
        return {
            "labels": list(self._labels().ids),
            "model": self._model,
            "seed": self._seed,
            "duplicates": self._duplicates,
            "strength": self._strength,
            "confidence": self._confidence,
        }

    def _labels(self) -> LabelNames:
        """Return the labels that the state has. An `add_label` that is under way has named one more."""
        number = self._state.labels
        return self._names.first(number)  # in this order: a label is named before the state has it

    def learn(self, task: object, worker: object, label: object) -> None:
        """Learn one vote.

        A missing label (None, NaN) is an abstention: it is counted in `abstentions`, and the worker's earlier votes on the task
        stay. A task with nothing but abstentions is listed without a label.

        Parameters
        ----------
        task, worker : str or int
            Ids of the task and the worker.
        label : object
            One of the stream's labels.

        Raises
        ------
        InputError
            If the stream has no such label.

        """
        if type(label) is not str and is_missing(label):
            return self._abstain(task, worker)
        try:
            code = self._names.code[label if type(label) is str else text_of(label)]
            if type(task) is str and type(worker) is str and task.isascii() and worker.isascii():
                self._state.learn(task, worker, code, False, False)
            else:
                texts = id_text(task, "task"), id_text(worker, "worker")
                self._state.learn(*texts, code, not isinstance(task, str), not isinstance(worker, str))
        except LookupError:  # no such name, or no such label yet
            raise label_error(label, self._labels().ids) from None
        return None

    def _abstain(self, task: object, worker: object) -> None:
        texts = id_text(task, "task"), id_text(worker, "worker")
        self._state.abstain(*texts, not isinstance(task, str), not isinstance(worker, str))

    def learn_many(
        self, votes: Votes | Source, *, task: str | None = None, worker: str | None = None, label: str | None = None
    ) -> None:
        """Learn many votes in order, as `learn` does for each; a bad one leaves the stream unchanged.

        Abstentions are counted, and a `MissingLabels` warning says how many there were.

        Parameters
        ----------
        votes : Votes or source
            Anything that `adj.read` takes. After a pandas or pyarrow frame, the stream returns frames of that kind.
        task, worker, label : str, optional
            Names of the columns, as for `adj.read`.

        Raises
        ------
        InputError
            If a vote has no task, no worker, or an unknown label.

        """
        if isinstance(votes, Votes):
            require_unweighted(votes, "a stream")
        given = open_table(votes, {"task": task, "worker": worker, "label": label})
        batches, rows, numbers = [], 0, {"task": False, "worker": False}
        for batch in given.batches:
            batches.append(self._check_batch(batch, rows, numbers))
            rows += len(batch)
        if not batches:
            return
        votes = pl.concat(batches)
        labels = np.ascontiguousarray(votes["label"].fill_null(int(MISSING_CODE)).to_numpy(), np.uint32)
        try:
            self._state.learn_many(votes.select("task", "worker"), labels, numbers["task"], numbers["worker"])
        except IndexError:  # a label that is being added
            raise label_error(self._names.ids[-1], self._labels().ids) from None
        self._frame_kind = self._frame_kind if given.frame_kind == "polars" else given.frame_kind
        warn_abstentions(votes["label"].null_count(), rows)

    def retract(self, task: object, worker: object) -> int:
        """Remove all votes of a worker on a task, and return how many there were.

        Parameters
        ----------
        task, worker : object
            Ids of the task and the worker.

        Raises
        ------
        InputError
            If there is no such vote.

        """
        number: int = self._state.retract(known_text(task), known_text(worker))
        if not number:
            raise InputError(f"worker {quote(worker)} has no vote on task {quote(task)} to retract")
        return number

    def gold(self, task: object, label: object) -> None:
        """Fix the label of a task; its votes then count under it.

        The task may be one without votes. Refits keep gold, as `adj.aggregate(gold=…)` does. Gold is not a vote: it says nothing
        about workers who have not voted on the task.

        Parameters
        ----------
        task : object
            Id of the task.
        label : object
            Its true label; None removes the gold.

        Raises
        ------
        InputError
            If the stream has no such label, or the task has no gold to remove.

        Examples
        --------
        >>> import adjudge as adj
        >>> online = adj.Online(labels=["cat", "dog"])
        >>> online.learn_many([("t1", "ann", "cat"), ("t1", "bob", "cat")])
        >>> online.gold("t1", "dog")
        >>> seen = online.predict("t1")
        >>> seen.label, seen.confidence, seen.gold
        ('dog', 1.0, True)
        >>> online.gold("t1", None)
        >>> online.predict("t1").label
        'cat'

        """
        text = id_text(task, "task")
        try:
            is_done = self._state.set_gold(text, -1 if is_missing(label) else self._names.code[text_of(label)])
        except LookupError:
            raise label_error(label, self._labels().ids) from None
        if not is_done:
            raise InputError(f"task {quote(task)} has no gold to take back")

    def gold_labels(self) -> Frame:
        """Return task and label of all gold, including tasks without votes, in order of the ids as text."""
        gold = stream_gold(self._state.snapshot())
        frame = pl.DataFrame({"task": column(gold.tasks), "label": column(self._names.vocabulary, gold.labels)})
        return to_native(frame, self._frame_kind)

    def add_label(self, label: object) -> None:
        """Add a label that votes may have from now on.

        A label has no effect before its first vote. Cost: O(tasks + workers).

        Parameters
        ----------
        label : object
            The new label, of the same type as the others; it goes to the end of the list.

        Examples
        --------
        >>> import adjudge as adj
        >>> online = adj.Online(labels=["cat", "dog"])
        >>> online.add_label("fish")
        >>> online.learn("t1", "ann", "fish")
        >>> online.predict("t1").label, online.settings["labels"]
        ('fish', ['cat', 'dog', 'fish'])

        """
        with self._widening: self._widen(label)  # noqa: E701  # fmt: skip

    def _widen(self, label: object) -> None:
        before = self._labels()
        wider = LabelNames([*before.ids, label])
        hashed = wider.hashes()[-1]
        try:
            self._names = wider  # first, so that readers find a name for every label
            self._state.add_label(hashed)
        except BaseException:
            self._names = wider.first(self._state.labels)
            raise

    def forget(self, task: object) -> int:
        """Remove a task and all votes on it, and return how many there were.

        The task is no longer listed or saved, and its gold is removed; a later vote makes it a new task. Its workers stay known.

        Parameters
        ----------
        task : object
            Id of the task.

        Raises
        ------
        InputError
            If the task was never seen.

        Examples
        --------
        >>> import adjudge as adj
        >>> online = adj.Online(labels=["cat", "dog"])
        >>> online.learn_many([("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t2", "ann", "dog")])
        >>> online.forget("t1")
        2
        >>> online.labels()["task"].to_list()
        ['t2']

        """
        number: int = self._state.forget(known_text(task))
        if number < 0:
            raise InputError(f"task {quote(task)} was never seen: there is nothing to forget")
        return number

    def evict(self, task: object) -> EvictedTask:
        """Remove a task from memory without unlearning it, and return what is needed to bring it back.

        Workers are judged as before, now and in every refit. The task is no longer listed, and its gold leaves with it. An
        endless stream of tasks so fits in bounded memory and still remembers all it learned about its workers. Honest confidence
        measures the votes in memory only.

        Parameters
        ----------
        task : object
            Id of the task.

        Returns
        -------
        EvictedTask
            Its votes and settled label, for `bring_back`.

        Raises
        ------
        InputError
            If the task was never seen.

        Examples
        --------
        >>> import adjudge as adj
        >>> online = adj.Online(labels=["cat", "dog"])
        >>> online.learn_many([("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t2", "ann", "dog")])
        >>> before = online.confusion("bob")
        >>> evicted = online.evict("t1")
        >>> len(online), online.confusion("bob").equals(before)
        (1, True)
        >>> online.bring_back(evicted)
        >>> online.votes_of("t1")
        [('ann', 'cat'), ('bob', 'cat')]

        """
        text = known_text(task)
        record = self._state.evict(text)
        if record is None:
            raise InputError(f"task {quote(task)} was never seen: there is nothing to evict")
        votes, *rest = record
        return EvictedTask(text, tuple(votes), *rest)

    def bring_back(self, evicted: EvictedTask) -> None:
        """Put an evicted task back: all later answers are, bit for bit, as if it had never left.

        Gold that the task was given meanwhile stays, and labels may have been added.

        Parameters
        ----------
        evicted : EvictedTask
            What `evict` returned, on this stream or a copy of it. The task must not be in memory: if a vote on it arrived
            meanwhile, it is a new task.

        Raises
        ------
        InputError
            If the task is in memory, or belongs to another stream.

        """
        if not isinstance(evicted, EvictedTask):
            raise InputError(f"cannot bring back {quote(evicted)}: give what evict returned")
        try:
            self._state.bring_back(evicted.task, evicted.record)
        except ValueError as error:
            raise InputError(f"cannot bring back task {quote(evicted.task)}: {error}") from None

    def votes_of(self, task: object) -> list[tuple[str, Id]]:
        """Return the votes on a task in order of arrival, as (worker, label); workers are texts.

        Parameters
        ----------
        task : object
            Id of the task.

        Raises
        ------
        InputError
            If the task was never seen.

        """
        found = self._state.votes_of(known_text(task))
        if found is None:
            raise InputError(f"task {quote(task)} was never seen: it has no votes")
        ids = self._names.ids
        return [(worker, ids[code]) for worker, code in found]

    def predict(self, task: object) -> Prediction:
        """Return the label of a task under the current parameters, with its confidence.

        Parameters
        ----------
        task : object
            Id of the task.

        Returns
        -------
        Prediction
            Label, confidence, votes, tie and gold.

        Raises
        ------
        InputError
            If the task was never seen.

        """
        text = known_text(task)
        found = self._renewal.read(CONFIDENCE_CODES[self._confidence], lambda kind: self._state.predict(text, kind))
        if found is None:
            raise InputError(f"task {quote(task)} was never seen: it has no votes")
        return prediction(found, self._names.ids)

    def labels(self) -> Frame:
        """Return task, label, confidence, votes, tie of every task under today's parameters; with gold, which tasks have it.

        Tasks without votes (all were abstentions, or taken back) have no label, unless it is gold.
        """
        return to_native(self.labels_frame(), self._frame_kind)

    def labels_frame(self) -> pl.DataFrame:
        """Return `labels` as a polars frame."""
        found = self._renewal.read(CONFIDENCE_CODES[self._confidence], self._state.task_table)
        return task_frame(found, self._names)

    def workers(self) -> Frame:
        """Return worker, votes and accuracy (expected share of right votes) of every worker with votes.

        With honest confidence the accuracy is the mean honest probability of the worker's answers, as for `adj.aggregate`, and
        `accuracy_low` and `accuracy_high` are its 90% interval. A worker with fewer than five votes borrows the others from the
        average worker. With `confidence="posterior"` it is the model's own share. Verdicts need a refit: `refit().workers`.

        Examples
        --------
        >>> import adjudge as adj
        >>> online = adj.Online(labels=["cat", "dog"])
        >>> online.learn_many([("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t2", "ann", "dog")])
        >>> online.workers()["accuracy"].round(2).to_list()
        [0.86, 0.89]

        """
        kind = CONFIDENCE_CODES[self._confidence]
        found = self._renewal.read(kind, self._state.worker_table)
        law = crowd_sums(self._renewal.read(kind, self._state.crowd)).law if self._confidence == "honest" else None
        return to_native(worker_frame(found, law), self._frame_kind)

    def renew(self) -> None:
        """Renew now the measurements of honest confidence: shared errors, and the average worker.

        Right after it, confidence is that of a batch fit with the same labels. It happens by itself when a label is read
        after a refit, or after a tenth of the votes has changed. Its cost grows with the votes.

        Examples
        --------
        >>> import adjudge as adj
        >>> online = adj.Online(labels=["cat", "dog"], confidence="honest")
        >>> online.learn_many([("t1", "ann", "cat"), ("t1", "bob", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "cat")])
        >>> online.renew()
        >>> online.predict("t1").confidence, online.predict("t1").tie
        (0.5, True)

        """
        self._renewal.now()

    def expect_every_label(self) -> None:
        """Let honest confidence treat every declared label as possible, even if nobody has given it yet.

        Without it, a stream whose votes so far all have one label knows no other, and is certain, as a batch fit is. It is
        for callers who chose the labels beforehand; it is not saved.

        Examples
        --------
        >>> import adjudge as adj
        >>> online = adj.Online(labels=["cat", "dog"])
        >>> online.learn("t1", "ann", "cat")
        >>> online.expect_every_label()
        >>> 0.5 < online.predict("t1").confidence < 0.9
        True

        """
        self._renewal.every_label = True

    def renew_due(self) -> None:
        """Renew measurements that are due; only needed by callers that read `state` directly."""
        self._renewal.due()

    def confusion(self, worker: object) -> Frame:
        """Return the current confusion (pi) of a worker: a row per true label, a column per given label.

        Parameters
        ----------
        worker : object
            Id of the worker.

        Raises
        ------
        InputError
            If the worker has no votes.

        """
        matrix = self._state.confusion(known_text(worker))
        if matrix is None:
            raise InputError(f"worker {quote(worker)} has no votes here")
        return to_native(confusion_frame(matrix, self._names), self._frame_kind)

    def __reduce__(self) -> tuple[Any, ...]:  # pickled as it is saved, and checked as it is loaded
        return _unpickle, content_of(self, "a pickle")

    def _check_batch(self, batch: pl.DataFrame, first_row: int, numbers: dict[str, bool]) -> pl.DataFrame:
        """Return a batch with ids as text and labels as codes; raise before anything is learned."""
        columns = {role: prepare_ids(batch[role], role, first_row) for role in ("task", "worker", "label")}
        for role in ("task", "worker"):
            require_present(columns[role], role, first_row)
            numbers[role] |= columns[role].dtype == pl.Int64
        coded = self._names.codes(columns["label"].cast(pl.String), first_row)
        return pl.DataFrame(
            {"task": columns["task"].cast(pl.String), "worker": columns["worker"].cast(pl.String), "label": coded}
        )


def _unpickle(meta: dict[str, Any], arrays: dict[str, Any]) -> Online:
    return stream_of(Online, Bounds("a pickled stream"), (meta, dict(arrays)))
