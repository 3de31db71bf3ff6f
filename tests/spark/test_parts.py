"""What executors compute, without Spark: however tasks fall into parts, their sums are those of all votes together."""

import tempfile
import uuid
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.data.exact import decode_coarse
from adjudge.data.fit import Parameters
from adjudge.engines.passes import Answers, Confidence, PairSums, Probabilities
from adjudge.engines.registry import engine_named
from adjudge.engines.shard import Units, class_totals
from adjudge.errors import AdjudgeError
from adjudge.io.answers import gold_codes, read_gold
from adjudge.kernels import reference
from adjudge.models.dawid_skene import ConfusionRecipe
from adjudge.models.honest import _judge, measure
from adjudge.spark import executor as spark_pass
from adjudge.spark import stored
from adjudge.spark.executor import (
    DecisionPass,
    EStepTables,
    FitSettings,
    HonestTables,
    TableChange,
    TableSource,
    TaskSums,
    count_gold,
    count_majority,
    count_step,
    sum_parts,
    sum_votes,
)
from adjudge.spark.layout import PART_DTYPES, SOURCE_CHANGED, Packing, TaskPart, lines
from strategies import crowds


@dataclass
class Broadcast:
    """What a broadcast is to an executor."""

    value: Any


class Parts:
    """Votes in parts, as executors hold them, compared with a local session."""

    def __init__(self, votes, pieces, ties="hash", gold=None):
        self.votes = votes
        codes = None if gold is None else gold_codes(gold, votes.tasks)
        self.lines = list(lines(votes, pieces, codes))
        tie_weights = np.bincount(votes.row_label, votes.votes_per_row(), minlength=votes.n_labels) if ties == "prior" else None
        self.settings = Broadcast(
            FitSettings(votes.row_label, votes.labels, 0, ties, gold is not None, tie_weights, Units.of(len(votes)))
        )
        self.session = engine_named("cpu", 1).load(votes, seed=0, ties=ties, gold=gold)

    def sum(self, work):
        return sum_parts(self.settings.value, work, (TaskPart.unpack(one["part"]) for one in self.lines))

    def dense(self, counted, kind, tally=None):
        n, k = self.votes.n_rows, self.votes.n_labels
        return counted.add_to(tally or (np.zeros((n, k), kind), np.zeros(k if kind is np.int64 else (2, k), kind)))


class StoredParts(Parts):
    """The same votes in files: the first part by itself, and all others together."""

    def sum(self, work):
        numbers = []
        for number, some in enumerate((self.lines[:1], self.lines[1:])):
            numbers += stored.store(self.settings, "fit", (), number, (one["part"] for one in some))
        (found,) = stored.run(self.settings, "fit", work, iter(numbers))
        assert (numbers, found.missing) == ([0, 1], ())
        return found.counts


@st.composite
def pieces(draw, tasks):
    """Slices that together are all tasks, some of them empty."""
    places = sorted(draw(st.lists(st.integers(0, tasks), max_size=4)))
    return [slice(a, b) for a, b in zip([0, *places], [*places, tasks], strict=True)]


@pytest.mark.parametrize("kernels", ["compiled", "reference"])
@given(data=st.data(), votes=crowds(), ties=st.sampled_from(["hash", "prior"]), with_gold=st.booleans())
def test_parts_sum_to_the_whole(kernels, data, votes, ties, with_gold):
    votes = adj.read(votes)
    gold = read_gold({votes.tasks[0]: votes.labels[0]}, votes.labels) if with_gold else None
    kind = data.draw(st.sampled_from([Parts, StoredParts]))
    parts = kind(votes, data.draw(pieces(votes.n_tasks)), ties, gold)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("SPARK_LOCAL_DIRS", folder)
        if kernels == "reference":
            patch.setattr(spark_pass, "fastest", lambda: reference)
            patch.setattr(spark_pass, "REFERENCE_VOTES", 3)
            patch.setattr(spark_pass, "DECISION_CELLS", 9)
        _compare(parts)


def table_source(params, before):
    """The tables of a pass as executors get them: as a change of those before, if there are any."""
    tables = EStepTables(params.priors, params.table, params.uses_prior)
    if before is None or before.change is not None:
        return TableSource(uuid.uuid4().hex, Broadcast(tables))
    rows = np.flatnonzero((before.base.value.table != tables.table).any(axis=1))
    change = TableChange(rows, tables.table[rows], params.priors, params.uses_prior)
    source = TableSource(uuid.uuid4().hex, before.base, Broadcast(change))
    assert np.array_equal(source.value.table, tables.table)
    return source


def counts_of(session):
    return session.gather(lambda _, counts: counts.copy())


def _compare(parts):
    votes, session = parts.votes, parts.session
    sums, recipe = session.start(hard=True), ConfusionRecipe(adj.DawidSkene())
    tally = parts.dense(parts.sum(partial(count_majority, hard=True)), np.int64)
    assert np.array_equal(tally[0], counts_of(session))
    before, is_hard = "votes", True
    for hard in (True, True, False, False, True):
        session.m_step(recipe, recipe.class_priors(sums.class_counts)[0])
        params = session.estimate().params
        now = table_source(params, None if before == "votes" else before)
        sums = session.e_step(hard=hard)
        counted = parts.sum(partial(count_step, before=before, scores=now, hard=hard, delta=False, likelihood=True))
        ends = TaskSums(*counted.sums)
        assert (ends.changed, ends.impossible) == (sums.changed, sums.impossible)
        assert np.isclose(ends.log_likelihood, sums.log_likelihood, rtol=1e-12)
        counts, classes = parts.dense(counted, np.int64 if hard else np.float64)
        near = 0 if hard else 1e-11  # soft shares are counted in units, and few votes in one process without rounding
        if not hard:
            unit = parts.settings.value.units.unit
            counts, classes = decode_coarse(counts, unit), class_totals(classes, unit)
        np.testing.assert_allclose(counts, counts_of(session), rtol=0, atol=near)
        np.testing.assert_allclose(classes, sums.class_counts, rtol=0, atol=near)
        if hard and is_hard:  # old counts plus changes are the new counts
            delta = parts.sum(partial(count_step, before=before, scores=now, hard=True, delta=True, likelihood=False))
            assert np.array_equal(parts.dense(delta, np.int64, tally)[0], counts)
            assert len(delta.rows) == 0 or ends.changed
        before, tally, is_hard = now, (counts, classes), hard

    outcome = session.finish()
    decision = DecisionPass("scores", before)
    _decide(parts, decision, outcome, session.posterior())
    told = np.zeros((votes.n_rows, 2))
    counted = parts.sum(decision)
    told[counted.rows] = counted.lines
    np.testing.assert_allclose(told[:, 0], outcome.right_votes(), atol=1e-11)
    session.recount(outcome.labels)
    assert np.array_equal(told[:, 1], counts_of(session)[np.arange(votes.n_rows), votes.row_label])
    assert np.array_equal(parts.dense(parts.sum(replace(decision, hard=True)), np.int64)[0], counts_of(session))
    _judge_honestly(parts, decision, outcome)

    decision = DecisionPass("votes")
    outcome = session.majority()
    _decide(parts, decision, outcome, session.posterior())
    assert np.array_equal(parts.dense(parts.sum(decision), np.int64)[0], counts_of(session))

    table = np.zeros((votes.n_rows, votes.n_labels))
    table[np.arange(votes.n_rows), votes.row_label] = np.linspace(-1, 2, votes.n_rows)
    params = Parameters(params.priors, table, np.zeros((0, votes.n_labels)), uses_prior=False)
    decision = DecisionPass("weights", Broadcast(EStepTables(params.priors, table, False)))
    session.adopt(lambda _: params, params.priors)
    outcome = session.weighted_majority()
    _decide(parts, decision, outcome, session.posterior())
    assert np.array_equal(parts.dense(parts.sum(decision), np.int64)[0], counts_of(session))


def _judge_honestly(parts, decision, outcome):
    """Pairs of votes, votes on gold, and honest figures under the labels of a decision are the session's."""
    votes, session = parts.votes, parts.session
    open_counts = session.gather(lambda _, counts: counts.copy(), gold=False)
    gold = parts.dense(parts.sum(count_gold), np.int64)[0]
    assert np.array_equal(counts_of(session) - gold, open_counts)
    values = np.random.default_rng(0).normal(size=(2, 2, votes.n_rows))
    pairs = parts.sum(partial(sum_votes, source=decision.source, job=PairSums(), inputs=Broadcast({"values": values}))).sums
    np.testing.assert_allclose(pairs, session.run(PairSums(), lambda *_: values), atol=1e-9)

    dependence, _ = measure(session)
    classes = session.recount(outcome.labels).class_counts
    found = _judge(session, dependence, votes.given_labels() | (classes > 0), classes.astype(np.float64))
    judged = Broadcast(HonestTables(*session.gather(found.lines), found.rule))
    confidence, tie = session.run(Confidence(found.rule, outcome.tie), found.lines)
    honestly = replace(outcome, confidence=confidence, tie=tie)
    _decide(parts, replace(decision, honest=judged), honestly, session.run(Probabilities(found.rule), found.lines))
    answers = np.zeros((votes.n_rows, 2), np.int64)
    inputs = Broadcast(judged.value.inputs)
    counted = parts.sum(partial(sum_votes, source=decision.source, job=Answers(found.rule), inputs=inputs))
    answers[counted.rows] = counted.lines
    np.testing.assert_allclose(answers.T * reference.ANSWER_UNIT, session.run(Answers(found.rule), found.lines), atol=1e-9)


def _decide(parts, decision, outcome, posterior):
    """Decisions about tasks equal those of the session."""
    votes, here = parts.votes, [(TaskPart.unpack(one["part"]), one["ids"]) for one in parts.lines]
    labels = pl.concat([frame for part in here for frame in decision.labels(parts.settings.value, *part)]).sort("task")
    order = np.argsort(votes.tasks.texts())
    assert labels["task"].to_list() == [votes.tasks[int(n)] for n in order]
    assert labels["label"].to_list() == [votes.labels[int(c)] for c in outcome.labels[order]]
    assert labels["tie"].to_list() == outcome.tie[order].tolist()
    assert labels["votes"].to_list() == np.diff(votes.task_ptr)[order].tolist()
    np.testing.assert_allclose(labels["confidence"], outcome.confidence[order], atol=1e-12)
    names = votes.labels.texts()
    found = [frame for part in here for frame in decision.probabilities(parts.settings.value, *part, names)]
    np.testing.assert_allclose(pl.concat(found).sort("task").select(names).to_numpy(), posterior[order], atol=1e-12)
    ends = TaskSums(*parts.sum(decision).sums)
    assert ends.ties == outcome.tie.sum()
    assert np.isclose(ends.confidence, outcome.confidence.sum())
    assert np.isclose(ends.log_likelihood, outcome.log_likelihood, rtol=1e-12, equal_nan=True)


@given(data=st.data(), votes=crowds())
def test_a_partition_made_again_is_the_same_to_the_last_byte(data, votes):
    panel = adj.read(votes)
    shuffled = data.draw(st.permutations(votes))
    schema = ["task", "worker", "label"]
    batches = [pl.DataFrame(votes, schema=schema, orient="row")]
    again = [pl.DataFrame(shuffled[n : n + 3], schema=schema, orient="row") for n in range(0, len(votes), 3)]
    (first,), (second,) = (list(Packing(panel, "all", False)(iter(b))) for b in (batches, again))
    assert pl.DataFrame(first).rows() == pl.DataFrame(second).rows()
    assert pl.DataFrame(first).schema == PART_DTYPES


def packed(panel, rows, duplicates="all", gold=False):
    schema = {"task": pl.String, "worker": pl.String, "label": pl.String, **({"gold": pl.Int64} if gold else {})}
    (batch,) = Packing(panel, duplicates, gold)(iter([pl.DataFrame(rows, schema=schema, orient="row")]))
    return pl.DataFrame(batch).row(0, named=True)


def test_trouble_is_reported_as_data():
    panel = adj.read([("t", "a", "x"), ("u", "b", "y")])
    assert packed(panel, [("t", "new", "x")])["problem"] == SOURCE_CHANGED
    assert packed(panel, [("t", "a", "y")])["problem"] == SOURCE_CHANGED
    assert "not among the declared labels" in packed(panel, [("t", "a", "z")])["problem"]
    assert "voted more than once" in packed(panel, [("t", "a", "x"), ("t", "a", "x")], "error")["problem"]
    two = [("t", None, None, 0), ("t", None, None, 1), ("t", "a", "x", None)]
    assert packed(panel, two, gold=True)["problem"] == "the gold gives task 't' more than one label (x, y): keep one per task"
    fine = packed(panel, [*two[1:], ("v", None, None, 1), ("u", "b", None, None)], gold=True)
    assert [fine[name] for name in ("tasks", "votes", "unvoted", "gold", "problem")] == [1, 1, 1, 1, None]


def test_parts_keep_every_array():
    part = TaskPart(np.arange(4), np.arange(5, dtype=np.uint32), np.arange(3, dtype=np.uint32), np.arange(3, dtype=np.uint64),
                np.zeros(0, np.int32))  # fmt: skip
    for ours, theirs in zip(TaskPart.unpack(part.pack()), part, strict=True):
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)


@pytest.fixture
def part(tmp_path, monkeypatch):
    """A part of three tasks in the files of an executor, and the settings it was stored with."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    votes = adj.read([("t", "a", "x"), ("u", "b", "y"), ("v", "b", "y")])
    settings = Broadcast(FitSettings(votes.row_label, votes.labels, 0, "hash", False, None, Units.of(3)))
    (line,) = lines(votes, [slice(0, 3)], None)
    assert list(stored.store(settings, "fit", (), 7, [line["part"]])) == [7]
    return stored.StoredPart(tmp_path / "adjudge-fit" / "7", 2), settings


def test_labels_of_the_last_two_passes_are_kept(part):
    part, _ = part
    sources = ["votes", *(TableSource(str(n), Broadcast(None)) for n in range(3))]
    for n, source in enumerate(sources):
        assert part.recall(source) is None
        part.keep(source, [np.array([n % 2], np.int32), np.array([1, 0], np.int32)])
        assert part.recall(source).tolist() == [n % 2, 1, 0]
    assert [part.recall(source) is None for source in sources] == [True, True, False, False]
    assert part.recall(None) is part.recall(np.zeros(3)) is None
    part.keep(np.zeros(3), [])


def test_files_that_an_executor_lacks_are_reported(part):
    _, settings = part
    (found,) = stored.run(settings, "fit", partial(count_majority, hard=True), [6, 7, 8])
    assert found.missing == (6, 8)
    assert found.counts.lines.sum() == 3
    (found,) = stored.run(settings, "other", partial(count_majority, hard=True), [7])
    assert found == stored.Found(None, (7,))


def test_files_go_with_the_fit(part, tmp_path):
    _, settings = part
    assert list(stored.remove("fit", [7])) == [7]
    assert list(tmp_path.iterdir()) == []
    assert list(stored.store(settings, "one", (), 0, [])) == [0]
    assert list(stored.store(settings, "two", ("one",), 0, [])) == [0]
    assert [path.name for path in tmp_path.iterdir()] == ["adjudge-two"]


def test_files_that_were_cut_short_are_refused(part, tmp_path):
    with (tmp_path / "adjudge-fit" / "7" / "row").open("r+b") as file:
        file.truncate(4)
    with pytest.raises(AdjudgeError, match="incomplete"):
        stored.StoredPart(tmp_path / "adjudge-fit" / "7", 2)
