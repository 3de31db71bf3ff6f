"""Blocks and parts that write to each other, without Spark between them: the same sums as one table's."""

from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjudge as adj
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import WorkerRows
from adjudge.engines.registry import resolve
from adjudge.engines.shard import Units, class_totals
from adjudge.models.dawid_skene import ConfusionPrior, ConfusionRecipe, lent, moments, population
from adjudge.spark.blocks import (
    BlockPanel,
    Receive,
    RoutedPacking,
    RoutedPart,
    RowRequest,
    at_block,
    from_block,
    from_part,
    number_rows,
    start_part,
    step_part,
)
from adjudge.spark.executor import FitSettings, TaskSums

LABELS = ["a", "b", "c"]


RECIPE = ConfusionRecipe(adj.FastDawidSkene(smoothing=0.1), ConfusionPrior(0.1))


class Mailbox:
    """Delivers mail between parts and blocks of votes, as Spark would."""

    def __init__(self, votes, n_parts, n_blocks):
        nobody = Vocabulary.of_texts([])
        panel = WorkerRows(
            worker_ptr=np.zeros(1, np.int64), row_label=np.zeros(0, np.int32), workers=nobody, labels=Vocabulary.of(LABELS)
        )
        packing = RoutedPacking(panel, "all", False, n_blocks)
        frame = pl.DataFrame(votes, schema=["task", "worker", "label"], orient="row")
        self.settings = FitSettings(np.zeros(0, np.int32), panel.labels, 0, "hash", False, None, Units.of(len(votes)))
        self.parts, requests = {}, {block: [] for block in range(n_blocks)}
        for part in range(n_parts):
            mine = frame.filter(pl.col("task").hash(1) % n_parts == part)
            line = packing._pack_votes(iter([mine]))
            slices = np.frombuffer(line["slices"], np.int64)
            self.parts[part] = RoutedPart(line["part"], slices)
            rows = pl.read_ipc(line["requests"])
            for block in range(n_blocks):
                requests[block].append(RowRequest(part, rows[int(slices[block]) : int(slices[block + 1])]))
        self.named = {block: number_rows(reversed(some), panel.labels) for block, some in requests.items()}
        self.states = {}

    def run(self, work, receive):
        to_parts = {part: [(part, wide)] for part, wide in self.parts.items()}
        for block, state in self.states.items():
            for part, mail in from_block([(block, self.named[block].block), (block, state)]):
                to_parts[part].append((part, mail))
        to_blocks = {block: [(block, named.block)] for block, named in self.named.items()}
        for block, state in self.states.items():
            to_blocks[block].append((block, state))
        for items in to_parts.values():
            for block, mail in from_part(self.settings, work, reversed(items)):
                to_blocks[block].append((block, mail))
        self.states = dict(one for items in to_blocks.values() for one in at_block(receive, reversed(items)))
        return [state.summary for state in self.states.values()]

    def counts(self):
        """By worker and given label, [K]."""
        found = {}
        for block, state in self.states.items():
            own, workers = self.named[block].block, self.named[block].workers.ids()
            for row, line in enumerate(state.counts.tolist()):
                found[workers[own.row_worker()[row]], LABELS[own.row_label[row]]] = line
        return found


VOTES = st.lists(
    st.tuples(st.sampled_from("pqrstu"), st.sampled_from(["w", "x", "ÿ", "zz"]), st.sampled_from(LABELS)), min_size=1
)


@settings(max_examples=40, deadline=None)
@given(VOTES, st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_passes_count_what_one_table_counts(votes, n_parts, n_blocks, hard):
    post, near = Mailbox(votes, n_parts, n_blocks), adj.read(votes, labels=LABELS)
    session = resolve("reference").load(near, seed=0, ties="hash")
    unit = None if hard else post.settings.units.unit
    sums = session.start(hard=hard)
    summaries = post.run(partial(start_part, hard), Receive(RECIPE, hard, delta=False, width=3, unit=unit))
    delta = hard  # from the first pass on: hard counts of majority vote are continued from
    for _ in range(3):
        keys = [(near.workers[int(w)], LABELS[label]) for w, label in zip(near.row_worker(), near.row_label, strict=True)]
        found = post.counts()
        assert found.keys() == set(keys)
        counts = session.gather(lambda _, counts: counts)
        assert np.allclose([found[key] for key in keys], counts, rtol=1e-12, atol=0 if hard else 1e-11)
        session.m_step(RECIPE, RECIPE.class_priors(sums.class_counts).priors)
        params = session.estimate().params
        assert np.isclose(sum(t.penalty for t in summaries), params.penalty)
        classes = np.array(sums.class_counts)
        sums = session.e_step(hard=hard)
        summaries = post.run(
            partial(step_part, params.priors, True, {"hard": hard, "delta": delta, "likelihood": True}),
            Receive(RECIPE, hard, delta, width=3, unit=unit),
        )
        ends = TaskSums(*sum(t.sums for t in summaries))
        assert np.isclose(ends.log_likelihood, sums.log_likelihood)
        assert (ends.changed, ends.impossible) == (sums.changed, sums.impossible)
        counted = sum(t.classes if hard else class_totals(t.classes, unit) for t in summaries) + (classes if delta else 0)
        assert np.allclose(counted, sums.class_counts)
        if hard:
            of_priors = (counted * np.where(counted > 0, params.log_prior, 0.0)).sum()
            assert np.isclose(sum(t.classification for t in summaries) + of_priors, sums.classification)


def test_the_order_of_parts_does_not_matter_to_a_bit():
    rng = np.random.default_rng(2)
    votes = [(f"t{rng.integers(40)}", f"w{rng.integers(9)}", LABELS[rng.integers(3)]) for _ in range(400)]
    seen = []
    for _ in range(2):
        post = Mailbox(votes, 5, 2)
        post.run(partial(start_part, False), Receive(RECIPE, False, delta=False, width=3))
        if seen:
            post.parts = dict(reversed(post.parts.items()))
        post.run(
            partial(step_part, np.full(3, 1 / 3), True, {"hard": False, "delta": False, "likelihood": True}),
            Receive(RECIPE, False, delta=False, width=3, digest=True),
        )
        seen.append(b"".join(state.counts.tobytes() + state.table.tobytes() for _, state in sorted(post.states.items())))
    assert seen[0] == seen[1]


def test_a_block_that_nobody_requests():
    named = number_rows(
        [RowRequest(0, pl.DataFrame(schema={"worker": pl.String, "label": pl.Int64, "votes": pl.Int64}))], Vocabulary.of(LABELS)
    )
    assert (named.block.n_workers, named.block.n_rows, named.block.routes) == (0, 0, {})
    nobody = BlockPanel.empty(Vocabulary.of(LABELS)).worker_block()
    assert RECIPE.on(nobody)(np.zeros((0, 3)), None).table.shape == (0, 3)
    assert RECIPE.class_priors(np.array([2.0, 2.0, 0.0]))[0].tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("strength", [2.5, "auto"])
def test_what_groups_of_workers_say_of_the_population_adds(strength):
    near = adj.read(adj.simulate(tasks=200, workers=20, labels=4, votes_per_task=5, skill=0.6, seed=3).votes)
    session = resolve("reference").load(near, seed=0, ties="hash")
    session.start(hard=True)
    counts = session.gather(lambda _, counts: counts)
    parts = []
    for first, last in ((0, 7), (7, 8), (8, 20)):
        rows = slice(near.worker_ptr[first], near.worker_ptr[last])
        group = WorkerRows(
            worker_ptr=near.worker_ptr[first : last + 1] - near.worker_ptr[first],
            row_label=near.row_label[rows],
            workers=near.workers,
            labels=near.labels,
        )
        parts.append(moments(group, counts[rows]))
    together = lent(parts[0] + parts[1] + parts[2], strength)
    whole = population(session.gather, strength)
    assert np.isclose(together.strength, whole.strength)
    assert np.allclose(together.votes, whole.votes)
    assert whole.strength > 0
