"""The session of engines whose counts are in this process: the state of a fit, over a store in memory or on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import WIDE_TABLE, FitOutcome, Others, Parameters, Pieces, Statistics, TableLines
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Gold, RowWeights, Votes, WorkerRows, piece
from adjudge.data.wide import Cells, WideTable, mean_table
from adjudge.engines.base import Checkpoint, FitEstimate, GladPasses, PassSums, Recipe, WholeVotes, WorkerBlock
from adjudge.engines.cells import CellCounts
from adjudge.engines.passes import RowFunction, RowInputs, VotePass
from adjudge.engines.shard import PassRules, Shard, Tally, is_hard
from adjudge.errors import OptionError, quote
from adjudge.kernels import cpu, reference
from adjudge.kernels.reference import ANSWER_UNIT, Sums

Floats = NDArray[np.float64]
T = TypeVar("T")
DecidedBy = Literal["scores", "weights", "votes"]  # EM, weighted majority, majority
MAJORITY_LABELS: Final = np.zeros(0, np.int32)  # placeholder for the labels of majority vote, if they were counted
VOTE_SHARES: Final = np.zeros(0, np.int32)  # placeholder for the same, if vote shares were counted


def digest(value: object) -> str:
    """Return a digest of nested settings, arrays and ids, the same in every process.

    >>> digest({"tol": 1e-4, "start": np.zeros(2)}) == digest({"start": np.zeros(2), "tol": 0.0001})
    True
    """
    whole = blake2b(digest_size=16)
    _feed(whole, value)
    return whole.hexdigest()


def _feed(whole: Any, value: object) -> None:
    whole.update(f"<{type(value).__name__}>".encode())
    if isinstance(value, np.ndarray):
        whole.update(f"{value.dtype.str}{value.shape}".encode())
        whole.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Vocabulary):
        _feed(whole, (value.kind, *value.text_buffers()))
    elif is_dataclass(value):
        for one in fields(value):
            _feed(whole, (one.name, getattr(value, one.name)))
    elif isinstance(value, Mapping):
        for key in sorted(value, key=repr):
            _feed(whole, (key, value[key]))
    elif isinstance(value, list | tuple):
        for item in value:
            _feed(whole, item)
    else:
        whole.update(repr(value).encode())
    whole.update(b"</>")


class WorkerState:
    """The counts of the last pass and the table that an M-step made of them, of all workers at once, in this process.

    Passes work on the rows of the votes, models on (worker, given label) pairs. These are the same unless votes have weights:
    then counts are pooled on the way to a model, and lines are spread over the rows on the way back (`RowWeights`).

    Subclasses run the passes. They leave the counts in `_tally`, and record whether these are counts of the current hard
    labels, which the next hard pass may then update in place.
    """

    def __init__(self, panel: Votes, rules: PassRules, history: Callable[[WorkerRows], Others] | None) -> None:
        self._rules = rules
        weights = self._weights = None if panel.row_weight is None else RowWeights.of(panel)
        pairs = panel if weights is None else weights.panel
        past = None if history is None else history(pairs)
        threads = 0 if rules.kernels is reference else rules.threads
        self._block = WorkerBlock(pairs, partial(_row_votes, panel, weights), past, rules.confusion_table, weights, threads)
        self._tally: Tally | None = None
        self._is_current = False  # whether the tally is that of the tasks' labels, which are hard
        self._recounted: NDArray[np.int32] | None = None  # these labels, if they were given
        self._lines: TableLines | None = None
        self._params: Parameters | None = None  # of pairs
        self._spread: tuple[Parameters, Parameters] | None = None  # those of pairs, and the same by row
        self._kept: Tally | None = None  # see `remember`
        self._aside: Parameters | None = None  # see `set_aside`
        self._bound: tuple[Recipe, Any] | None = None  # the recipe of the last M-step, and that M-step over these workers

    def _tie_weights(self) -> Floats | None:
        """Return the number of votes of each label, [K], if the larger prior wins a tie; otherwise None."""
        if not self._rules.by_prior:
            return None
        block = self._block
        return np.bincount(block.panel.row_label, block.row_votes(), minlength=block.panel.n_labels).astype(np.float64)

    def m_step(self, recipe: Recipe, priors: Floats) -> None:
        """Make the table from the counts of the last pass."""
        counts = _for_recipe(recipe, self._counts if not recipe.anchor else self._anchor(recipe.anchor))
        if self._bound is None or self._bound[0] is not recipe:
            self._bound = recipe, recipe.on(self._block)
        self._lines = self._params = self._spread = None  # the table before makes room for the one to come
        self._lines = self._bound[1](counts, recipe.shared(priors, lambda function: function(self._block, counts)))
        self._params = Parameters.of(priors, self._lines)

    def remember(self) -> None:
        """Keep the counts of the last pass, to start from again, and as the anchor of M-steps."""
        assert not self._is_current  # or the next pass would change them in place
        self._kept = self._counted

    def recall(self) -> PassSums:
        """Take the counts that were kept as those of the last pass, and return its sums."""
        assert self._kept is not None
        self._tally, self._is_current, self._recounted = self._kept, False, None
        return PassSums(self._tally[1])

    def set_aside(self) -> None:
        """Keep the current table and priors, to be averaged with others."""
        self._aside = self._current

    def blend(self) -> None:
        """Take the mean of the table and log priors that were set aside and of the current ones."""
        one, two = self._aside, self._current
        assert one is not None
        tables, threads = (one.table, two.table), self._block.threads
        is_compiled = threads and not any(isinstance(table, WideTable) for table in tables)
        table = cpu.blend_counts(*tables, 0.5, 0.5, threads, out=tables[0]) if is_compiled else mean_table(*tables)
        self._params = replace(two, table=table, priors=np.sqrt(one.priors * two.priors))
        self._lines, self._aside, self._kept = None, None, None

    def _anchor(self, share: float) -> Any:
        """Return the counts of an M-step that keeps a share of those remembered, [rows, K]."""
        assert self._kept is not None
        kept, counted = self._on_host(self._kept[0]), self._on_host(self._counted[0])
        if isinstance(kept, Cells) and isinstance(counted, Cells):
            return cpu.merge_cells(kept, counted, share, 1.0 - share, self._rules.threads)
        kept, counted = np.asarray(kept), np.asarray(counted)
        if self._block.threads:
            blend = cpu.Blend(kept, counted, share, self._block.threads)
            is_plain = self._weights is None and self._block.history is None and self._block.panel.n_labels < WIDE_TABLE
            return blend if is_plain else self._pool(np.asarray(blend))
        return self._pool(share * kept + (1.0 - share) * counted)

    def adopt(self, parameters: Callable[[WorkerRows], Parameters], priors: Floats) -> None:
        """Take parameters that were learned elsewhere."""
        self._params, self._lines = parameters(self._block.panel), None

    def gather(self, function: Callable[[WorkerBlock, Any], T], *, gold: bool = True) -> T:
        """Return what a function says of all workers and their counts; without `gold`, those on other tasks alone."""
        return function(self._block, self._counts if gold else self._open_counts())

    def _open_counts(self) -> Any:
        """Return the counts of the votes on tasks without gold, [pairs, K]."""
        return self._counts

    def fingerprint(self) -> bytes:
        """Return a fingerprint of the counts: equal counts give equal bytes."""
        return blake2b(self._counted[0].tobytes(), digest_size=16).digest()

    def estimate(self, shown: Recipe | None = None) -> FitEstimate:
        """Return the fit's knowledge of workers: under the current table, or from the last counts by another recipe."""
        counts, class_counts = self._counts, self._counted[1]
        params, columns = self._params, {} if self._lines is None else self._lines.columns
        if shown is not None:
            priors = shown.class_priors(class_counts).priors
            params = Parameters.of(priors, shown.on(self._block)(_for_recipe(shown, counts, "shows_cells"), None))
        assert params is not None
        return FitEstimate(params, Statistics(counts, class_counts), columns)

    @property
    def _counted(self) -> Tally:
        assert self._tally is not None  # a pass came before
        return self._tally

    @property
    def _counts(self) -> Any:
        """The counts of the last pass as models see them, [pairs, K]."""
        return self._pool(self._on_host(self._counted[0]))

    def _on_host(self, counts: Any) -> Any:
        """Return counts by row as an array of this process: a session that counts elsewhere copies them."""
        return counts

    def _pool(self, by_row: Any) -> Any:
        """Return the sums by pair of something by row: weighted, if votes have weights."""
        return by_row if self._weights is None else self._weights.pooled(by_row)

    @property
    def _current(self) -> Parameters:
        """The parameters of the last M-step, by pair."""
        assert self._params is not None  # an M-step came before
        return self._params

    @property
    def _scored_by(self) -> Parameters:
        """The parameters of the last M-step, by row: what passes score votes by."""
        return self._by_row(self._current)

    def _by_row(self, params: Parameters) -> Parameters:
        """Return parameters of pairs by row."""
        if self._weights is None:
            return params
        if self._spread is None or self._spread[0] is not params:
            self._spread = params, replace(params, table=self._weights.lines(params.table))
        return self._spread[1]

    def _count_into(self, *, hard: bool) -> tuple[Tally, bool]:
        """Return the tally for the next pass, and whether it is the current one, to which only changes are added."""
        delta = hard and self._is_current and not isinstance(self._counted[0], Cells)
        self._is_current, self._recounted = False, None  # a pass that is interrupted leaves the counts in between
        return (self._counted if delta else self._rules.empty(hard=hard)), delta

    def _counted_now(self, tally: Tally, *, hard: bool) -> PassSums:
        """Store the tally of a complete pass, and return its class counts."""
        self._tally, self._is_current, self._recounted = self._rules.counted(tally), hard, None
        return PassSums(self._tally[1])

    def _pass_sums(self, tally: Tally, sums: Sums, *, hard: bool) -> PassSums:
        """Store the tally of a complete E-step, and return its sums."""
        self._counted_now(tally, hard=hard)
        classification = float("nan")
        is_likelihood = self._bound is None or self._bound[0].is_likelihood  # else nothing asks for C2
        if hard and is_likelihood and not isinstance(tally[0], Cells):
            classification = self._rules.classification(tally, self._scored_by)
        penalty = 0.0 if self._lines is None else self._lines.penalty
        return PassSums(self._counted[1], sums.log_likelihood, classification, sums.changed, sums.impossible, penalty)


def _for_recipe(recipe: Recipe, counts: Any, ability: str = "takes_cells") -> Any:
    """Return counts as a recipe takes them: cells only where it can make lines of them, for passes or (`shows_cells`) people."""
    return np.asarray(counts) if isinstance(counts, Cells) and not getattr(recipe, ability, False) else counts


class VoteStore:
    """Storage of a session's votes and of the current label of every task; without checkpoints, it ends with the process."""

    keeps_decided: bool = True  # whether the labels that `decide` leaves in shards stay the current ones
    rules: PassRules  # what all shards share
    votes: Votes
    gold: NDArray[np.int32] | None  # given labels, [tasks], below 0 if there is none; None if no gold was given
    cells: CellCounts | None = None  # counts the votes, where only cells with votes are stored
    in_memory: list[tuple[slice, Any]]  # the tasks and the shard of each; stores elsewhere override `relabel`

    def relabel(self, what: str, act: Callable[[slice, Any], T]) -> list[T]:
        """Run an action on each shard (and its tasks) and return its results; the labels it leaves become the current ones."""
        return [act(cut, shard) for cut, shard in self.in_memory]

    def scan(self, what: str, act: Callable[[slice, Any], T]) -> list[T]:
        """Return what an act says of each shard, whose labels stay as they are."""
        return self.relabel(what, act)

    def decide(self, what: str, act: Callable[..., T]) -> tuple[list[T], tuple[NDArray[Any], ...]]:
        """Return what an act(tasks, shard, confidence OUT, tie OUT) says of each shard, and labels, confidence, tie of all."""
        n = self.votes.n_tasks
        labels, confidence, tie = np.empty(n, np.int32), np.empty(n), np.empty(n, np.bool_)

        def decide_shard(cut: slice, shard: Any) -> T:
            said = act(cut, shard, confidence[cut], tie[cut])
            labels[cut] = shard.labels
            return said

        return self.relabel(what, decide_shard), (labels, confidence, tie)

    def figures(self, what: str, act: Callable[[Any, Floats], None]) -> Pieces:
        """Return the figures that an action writes for each shard, [tasks, K]: at once, or in chunks."""
        out = np.empty((self.votes.n_tasks, self.votes.n_labels))
        self.relabel(what, lambda cut, shard: act(shard, out[cut]))
        return out

    def keep(self, pieces: Iterable[Floats]) -> Floats:
        """Return the chunks, [some tasks] each, as one array, [tasks]."""
        return np.concatenate([np.zeros(0), *pieces])

    def glad(self) -> GladPasses:
        """Return the passes of GLAD over these votes."""
        raise NotImplementedError

    def whole(self) -> WholeVotes:
        """Return all votes, for a method with its own passes; only used if they are in memory."""
        raise NotImplementedError

    def identify(self, settings: Mapping[str, Any]) -> None:
        """Take the settings that identify this fit, if it can be resumed."""

    def restore(self) -> tuple[Checkpoint, Tally] | None:
        """Restore the labels of this fit, and return its checkpoint and counts; None if it was not interrupted."""
        return None

    def count_cells(self, *, gold: bool = True) -> Tally | None:
        """Return the counts of the current labels, of gold tasks only with `gold`; None where passes count them."""
        if self.cells is None:
            return None
        labels = np.concatenate([np.zeros(0, np.int32), *self.scan("count", lambda _, shard: shard.labels)])
        if not gold and self.gold is not None:
            labels[self.gold >= 0] = -1
        return self.cells.of(labels)

    def checkpoint(self, point: Checkpoint, tally: Tally) -> None:
        """Store a checkpoint, if the fit can be resumed."""


class LocalSession(WorkerState):
    """A fit over the votes of a store: each pass runs over its shards and adds their counts in order."""

    def __init__(
        self,
        store: VoteStore,
        rules: PassRules,
        *,
        gold: Gold | None = None,
        history: Callable[[WorkerRows], Others] | None = None,
    ) -> None:
        super().__init__(store.votes, rules, history)
        self.votes = store.votes
        self.gold_labels = gold  # as given: of tasks with votes or without
        self._store = store
        self._passes = 0
        self._on_gold: Tally | None = None  # votes on gold tasks
        # What the last E-step decided, until `finish` asks for it. No outcome: it would keep this session, and so itself.
        self._ended: tuple[Parameters, tuple[tuple[NDArray[Any], ...], Tally | None, float]] | None = None
        self._decided_by: DecidedBy = "scores"

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce a finished fit to the inputs of its posteriors, so that its result can be pickled."""
        return unpickled_session, (self._store, self.gold_labels, self._params, self._decided_by, self._block.history)

    @property
    def gold_given(self) -> int:
        """The number of gold tasks, with votes or without."""
        return 0 if self.gold_labels is None else len(self.gold_labels)

    def labels_to_start(self, labels: Any) -> NDArray[np.int32]:
        """Return checked initial label codes, [tasks]."""
        try:
            given = np.asarray(labels)
        except ValueError:  # lines of unlike lengths
            given = np.asarray(None)
        if given.shape == (0,) and not isinstance(labels, np.ndarray):
            given = given.astype(np.int32)  # an empty list has no type of its own
        n, k = self.votes.n_tasks, self.votes.n_labels
        right = f"give the code of a label, 0 to {k - 1}, for each of the {n} tasks, as whole numbers"
        if given.dtype.kind not in "iu" or given.shape != (n,):
            raise OptionError(f"start is {quote(labels)}: {right}")
        wrong = (given < 0) | (given >= k)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise OptionError(f"start holds {given[at]} at index {at}: {right}")
        return np.array(given, np.int32, order="C")

    def identify(self, settings: Mapping[str, Any]) -> None:
        """Take the settings that identify this fit, for a store that can be resumed."""
        self._store.identify(settings)

    def restore(self) -> Checkpoint | None:
        """Restore the state of this fit, and return its checkpoint; None if it was not interrupted."""
        found = self._store.restore()
        if found is None:
            return None
        point, tally = found
        self._tally, self._is_current, self._recounted = tally, is_hard(tally), None
        self._passes = len(point.trace)
        return point

    def checkpoint(self, point: Checkpoint) -> None:
        """Store a checkpoint with the current labels and counts, if the fit can be resumed."""
        self._store.checkpoint(point, self._counted)

    def start(self, *, hard: bool) -> PassSums:
        """Take majority vote as the current labels, by winner (hard) or by vote shares (soft), and return its sums."""
        counted = MAJORITY_LABELS if hard else VOTE_SHARES
        if self._recounted is counted and (self._is_current or not hard):  # nothing came in between
            return PassSums(self._counted[1])
        weights, tally = self._tie_weights(), None if self.is_wide else self._rules.empty(hard=hard)
        self._is_current = False  # until all shards have their new labels
        if tally is None:
            self._store.relabel("majority vote", lambda _, shard: shard.label_by_majority(weights))
            tally = self._count_cells() if hard else self._count_shares()
        else:
            self._store.relabel("majority vote", lambda _, shard: shard.start(tally, hard=hard, tie_weights=weights))
        sums = self._counted_now(tally, hard=hard)
        self._recounted = counted
        return sums

    def recount(self, labels: NDArray[np.int32]) -> PassSums:
        """Take these labels, [tasks], as the current ones, and return their sums."""
        stored = isinstance(self._tally[0], Cells) == self.is_wide if self._tally is not None else False
        if self._is_current and self._recounted is labels and stored:  # nothing came in between
            return PassSums(self._counted[1])
        tally = None if self.is_wide else self._rules.empty(hard=True)
        self._is_current = False  # until all shards have their new labels
        if tally is None:
            self._store.relabel("recount", lambda cut, shard: shard.take(piece(labels, cut)))
            tally = self._count_cells()
        else:
            self._store.relabel("recount", lambda cut, shard: shard.recount(piece(labels, cut), tally))
        sums = self._counted_now(tally, hard=True)
        self._recounted = labels
        return sums

    def e_step(self, *, hard: bool, likelihood: bool = True, last: bool = False) -> PassSums:
        """Return the sums of a pass: an E-step under the current table, and the recount; the `last` one decides, too."""
        params = self._scored_by
        tally, delta = (None, False) if self._has_parts(params) else self._count_into(hard=hard)
        self._passes += 1
        if last:
            return self._last_step(params, tally, hard=hard, delta=delta)

        def act(_: slice, shard: Shard) -> Sums:
            return shard.step(params, tally, hard=hard, delta=delta, likelihood=likelihood)

        sums = total(self._store.relabel(f"pass {self._passes} ({'hard' if hard else 'soft'})", act))
        return self._pass_sums(tally or self._count_cells(), sums, hard=hard)

    @property
    def is_wide(self) -> bool:
        """Whether only cells with votes are stored of counts, and tables may be in parts."""
        return self._store.cells is not None

    def _has_parts(self, params: Parameters) -> bool:
        """Return whether the table is in parts; a table on a device never is, and asking for it would download it."""
        return self.is_wide and isinstance(params.table, WideTable)

    def _count_cells(self, *, gold: bool = True) -> Tally:
        """Return the counts of the current labels, of which only cells with votes are stored."""
        tally = self._store.count_cells(gold=gold)
        assert tally is not None  # tables are in parts there alone
        return tally

    def _count_shares(self) -> Tally:
        assert self._store.cells is not None
        return self._store.cells.shares(self._store.gold, self._rules.units.unit)

    def _last_step(self, params: Parameters, tally: Tally | None, *, hard: bool, delta: bool) -> PassSums:
        """Return the sums of the last E-step, and keep what it decides."""
        said, decided = self._store.decide("last pass", lambda _, shard, *out: shard.finish(params, tally, *out, delta=delta))
        sums = total(said)
        out = self._pass_sums(tally or self._count_cells(), sums, hard=hard)
        self._is_current = hard and self._store.keeps_decided
        self._recounted = decided[0] if hard else None
        self._ended = self._current, (decided, None if hard or tally is None else self._counted, sums.log_likelihood)
        return out

    def finish(self, *, hard: bool = False) -> FitOutcome:
        """Return what the E-step under the current table says of every task; `hard` leaves the counts of its labels.

        Where the last E-step was known to be the last, it has decided already.
        """
        params, ended, self._decided_by = self._scored_by, self._ended, "scores"
        self._ended = None  # so that a result can free it
        if not hard and ended is not None and ended[0] is self._current:
            return self._outcome(*ended[1])
        wide = self._has_parts(params)
        tally = self._rules.empty(hard=True) if hard and not wide else None
        self._is_current = False
        sums, decided = self._store.decide("last pass", lambda _, shard, *out: shard.finish(params, tally, *out))
        tally = self._count_cells() if hard and wide else tally
        outcome = self._outcome(decided, tally, total(sums).log_likelihood)
        return outcome if tally is None else self._skip_recount(outcome, tally)

    def _right_votes(self, params: Parameters) -> Floats:
        """Return the expected number of right votes in every row under these parameters of pairs, [rows]."""
        if self._has_parts(params):
            right = np.zeros(self.votes.n_rows, np.int64)
            self._store.scan("right votes", lambda _, shard: shard.right_votes(params, right))
            return np.multiply(right, ANSWER_UNIT, dtype=np.float64)
        scored_by, tally = self._by_row(params), self._rules.empty(hard=False)
        self._store.scan("right votes", lambda _, shard: shard.count_shares(scored_by, tally))
        return self._right(self._rules.counted(tally)[0])

    def gold_tasks(self, *, votes: int) -> int:
        """Return the number of gold tasks with at least `votes` votes."""
        return sum(self._store.scan("gold", lambda _, shard: shard.gold_tasks(votes)))

    def majority(self) -> FitOutcome:
        """Return the decisions of majority vote; a vote is right when it agrees."""
        counted = self._counted if self._is_current and self._recounted is MAJORITY_LABELS else None
        tally = self._rules.empty(hard=True) if counted is None and not self.is_wide else None
        self._is_current, weights = False, self._tie_weights()
        _, decided = self._store.decide("majority vote", lambda _, shard, *out: shard.majority(tally, weights, *out))
        self._decided_by, found = "votes", counted or tally or self._count_cells()
        return self._skip_recount(self._outcome(decided, found, float("nan")), found)

    def weighted_majority(self) -> FitOutcome:
        """Return the decisions of votes weighted by the current table; a vote is right when it agrees."""
        params, tally = self._scored_by, self._rules.empty(hard=True)
        self._is_current = False
        _, decided = self._store.decide("last pass", lambda _, shard, *out: shard.weighted_majority(params, tally, *out))
        self._decided_by = "weights"
        return self._skip_recount(self._outcome(decided, tally, float("nan")), tally)

    def posterior(self) -> Pieces:
        """Return T_qc, [tasks, K], as the tasks were decided: probabilities, weight shares or vote shares."""
        if self._decided_by == "votes":
            weights = self._tie_weights()
            return self._store.figures("vote shares", lambda shard, out: shard.shares(weights, out))
        params = self._scored_by
        if self._decided_by == "weights":
            return self._store.figures("weight shares", lambda shard, out: shard.weight_shares(params, out))
        return self._store.figures("probabilities", lambda shard, out: shard.posterior(params, out))

    def scoring(self) -> tuple[DecidedBy, Parameters | None]:
        """Return how the tasks were decided, and the parameters that votes were scored by, by row; None if they were not."""
        return self._decided_by, None if self._params is None else self._scored_by

    def gold(self) -> NDArray[np.bool_] | None:
        """Return which tasks have their label from gold, [tasks]; None if no gold was given."""
        return None if self._store.gold is None else self._store.gold >= 0

    def keep(self, pieces: Iterable[Floats]) -> Floats:
        """Return the chunks, [some tasks] each, as one array, [tasks]."""
        return self._store.keep(pieces)

    def glad(self) -> GladPasses:
        """Return the passes of GLAD over these votes."""
        return self._store.glad()

    def whole(self) -> WholeVotes:
        """Return all votes, for a method with its own passes; only used if they are in memory."""
        return self._store.whole()

    def decided(self, scores: Floats, posterior: Floats) -> FitOutcome:
        """Return the decisions of a method's own scores and posterior, [tasks, K] each; the counts are those of the winners."""
        labels, confidence, tie = self.whole().decided(scores, posterior, self._tie_weights())
        self.recount(labels)
        return FitOutcome(labels, confidence, tie, self._right(self._counted[0]), float("nan"))

    def count(self, statistics: Statistics) -> None:
        """Use the statistics of GLAD's last E-step as those of the last pass."""
        self._tally, self._is_current, self._recounted = (statistics.counts, statistics.class_counts), False, None

    def run(self, job: VotePass[T], function: RowFunction) -> T:
        """Return the result of a pass over all votes; `function` makes its inputs of the workers and their counts."""
        return job.result(job.over(self._store, self._inputs(job, function)))

    def _inputs(self, job: VotePass[Any], function: RowFunction) -> RowInputs:
        """Return what the kernel of a pass reads of all rows."""
        counts = self._open_counts() if job.skips_gold else self._counts
        return job.inputs(function(self._block, counts), self._block)

    def _open_counts(self) -> Any:
        if self._store.gold is None:
            return self._counts
        if isinstance(self._counted[0], Cells):
            return self._count_cells(gold=False)[0]
        if self._on_gold is None:
            tally = self._on_gold = self._rules.empty(hard=True)
            self._store.scan("gold", lambda _, shard: shard.count_gold(tally))
        return self._pool(self._on_host(self._counted[0]) - self._on_host(self._on_gold[0]))

    def _skip_recount(self, outcome: FitOutcome, tally: Tally) -> FitOutcome:
        """Return an outcome whose labels need no recount if they are the current ones."""
        self._counted_now(tally, hard=self._store.keeps_decided)
        self._recounted = outcome.labels
        return outcome

    def _outcome(self, decided: tuple[NDArray[Any], ...], counted: Tally | None, likelihood: float) -> FitOutcome:
        """Return decisions and the right votes in complete counts; without these they are counted on first use."""
        labels, confidence, tie = decided
        right = partial(self._right_votes, self._current) if counted is None else self._right(counted[0])
        return FitOutcome(labels, confidence, tie, right, likelihood)

    def _right(self, counts: Any) -> Floats:
        """Return the right votes of each row, [rows], of counts by row, [rows, K]."""
        right: Floats = counts[np.arange(self.votes.n_rows), self.votes.row_label].astype(np.float64)
        return right


def _row_votes(votes: Votes, weights: RowWeights | None) -> NDArray[Any]:
    """Return how many votes each pair has, weighted if votes have weights, [pairs]."""
    by_row = votes.votes_per_row()
    return by_row if weights is None else weights.pooled(by_row)


def unpickled_session(
    store: Any, gold: Gold | None, params: Parameters | None, decided_by: DecidedBy, history: Others | None
) -> LocalSession:
    """Return a session that was pickled."""
    session = LocalSession(store, store.rules, gold=gold, history=None if history is None else lambda _: history)
    session._params, session._decided_by = params, decided_by
    return session


def total(sums: list[Sums]) -> Sums:
    """Return the sum of the shards' scalars, in shard order."""
    if not sums:
        return Sums(0.0, 0.0, 0, 0)
    likelihood, classification, changed, impossible = zip(*sums, strict=True)
    return Sums(sum(likelihood), sum(classification), sum(changed), sum(impossible))
