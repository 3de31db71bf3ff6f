"""What a fit takes on devices, and how its votes are divided."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.gpu import plan
from adjudge.gpu.plan import FitSize, bytes_of, plan_shards


def size_of(lengths, rows=20, labels=3, workers=9):
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return FitSize(int(ptr[-1]), len(lengths), rows, labels, workers), ptr


def names(n):
    return [f"device {i}" for i in range(n)]


@given(
    lengths=st.lists(st.integers(1, 9) | st.just(40), min_size=1, max_size=60),
    devices=st.integers(1, 4),
    room=st.integers(0, 4000),
    labels=st.integers(1, 5),
)
def test_every_task_is_in_one_shard_that_fits(lengths, devices, room, labels):
    size, ptr = size_of(lengths, labels=labels)
    have = size.tables() + room
    try:
        found = plan_shards(size, ptr, names(devices), [have] * devices)
    except adj.AdjudgeError as error:
        said = str(error)
        most = (
            size.per_label() * len(lengths)
            + 2 * (plan.DEVICE_BYTES_PER_VOTE * max(lengths) + 2 * plan.DEVICE_BYTES_PER_TASK)
            + size.per_work()
            + size.per_out()
        )
        assert room <= most
        assert "of device memory" in said
        return
    assert [task for cut in found.cuts for task in range(cut.start, cut.stop)] == list(range(len(lengths)))
    assert list(found.shard_device) == sorted(found.shard_device)
    for index in range(devices):
        cuts = [cut for cut, at in zip(found.cuts, found.shard_device, strict=True) if at == index]
        if not cuts:
            continue
        tasks = sum(cut.stop - cut.start for cut in cuts)
        most_tasks = max(cut.stop - cut.start for cut in cuts)
        most_votes = max(int(ptr[cut.stop] - ptr[cut.start]) for cut in cuts)  # perhaps of another shard
        out = size.per_out() * most_tasks
        if found.streamed:
            held = (
                2 * (plan.DEVICE_BYTES_PER_VOTE * most_votes + plan.DEVICE_BYTES_PER_TASK * (most_tasks + 1))
                + size.per_work() * most_tasks
            )
        else:
            held = (
                sum(bytes_of(ptr, cut) for cut in cuts) - plan.DEVICE_BYTES_PER_TASK * (len(cuts) - 1) + size.per_work() * tasks
            )
        assert size.tables() + size.per_label() * tasks + held + out <= have


def test_votes_are_dealt_out_evenly():
    size, ptr = size_of([5] * 1000)
    found = plan_shards(size, ptr, names(4), [1 << 30] * 4)
    assert not found.streamed
    assert [cut.stop - cut.start for cut in found.cuts] == [250] * 4
    assert found.shard_device == (0, 1, 2, 3)


def test_fewer_tasks_than_devices():
    size, ptr = size_of([3, 3])
    assert plan_shards(size, ptr, names(4), [1 << 30] * 4).cuts == (slice(0, 1), slice(1, 2))


def test_a_shard_has_as_many_votes_as_its_positions_have_bits_for(monkeypatch):
    monkeypatch.setattr(plan, "MAX_SHARD_VOTES", 10)
    size, ptr = size_of([4] * 9)
    found = plan_shards(size, ptr, names(1), [1 << 30])
    assert [int(ptr[cut.stop] - ptr[cut.start]) for cut in found.cuts] == [8, 8, 8, 8, 4]
    assert not found.streamed


def test_what_passes_write_bounds_shards(monkeypatch):
    size, ptr = size_of([4] * 90)
    monkeypatch.setattr(plan, "MAX_OUT", 40 * size.per_out())
    assert [cut.stop - cut.start for cut in plan_shards(size, ptr, names(1), [1 << 30]).cuts] == [40, 40, 10]


def test_a_billion_votes_stay_on_a_large_device(monkeypatch):
    """A hundredth of everything."""
    tasks, each = 2_000_000, 5
    ptr = np.arange(0, (tasks + 1) * each, each, dtype=np.int64)
    size = FitSize(tasks * each, tasks, 800, 4, 200)
    monkeypatch.setattr(plan, "MAX_OUT", plan.MAX_OUT // 100)
    monkeypatch.setattr(plan, "MAX_STREAMED_VOTES", plan.MAX_STREAMED_VOTES // 100)
    monkeypatch.setattr(plan, "MIN_STREAMED_VOTES", plan.MIN_STREAMED_VOTES // 100)
    found = plan_shards(size, ptr, names(1), [plan.usable((139 << 30) // 100, None)])
    assert not found.streamed
    assert len(found.cuts) <= 3
    streamed = plan_shards(size, ptr, names(1), [(4 << 30) // 100])
    assert streamed.streamed
    most = max(int(ptr[cut.stop] - ptr[cut.start]) for cut in streamed.cuts)
    assert most <= plan.MAX_STREAMED_VOTES


def test_long_tasks_first_and_short_ones_after():
    """The buffers have room for the votes of the first shards and the tasks of the last ones."""
    size, ptr = size_of([1000] * 100 + [1] * 10_000)
    room = 400_000
    found = plan_shards(size, ptr, names(1), [size.tables() + size.per_label() * size.tasks + room])
    assert found.streamed
    most_votes = max(int(ptr[cut.stop] - ptr[cut.start]) for cut in found.cuts)
    most_tasks = max(cut.stop - cut.start for cut in found.cuts)
    assert (
        2 * plan.DEVICE_BYTES_PER_VOTE * most_votes
        + (2 * plan.DEVICE_BYTES_PER_TASK + size.per_work() + size.per_out()) * most_tasks
        <= room
    )


def test_shards_of_many_votes_are_not_tiny(monkeypatch):
    monkeypatch.setattr(plan, "MIN_STREAMED_VOTES", 1000)
    size, ptr = size_of([5] * 1000)
    fixed = size.tables() + size.per_label() * size.tasks
    with pytest.raises(adj.AdjudgeError, match="of device memory") as error:
        plan_shards(size, ptr, names(1), [fixed + 5000])
    assert "\n" not in str(error.value)
    found = plan_shards(size, ptr, names(1), [fixed + plan._least_streamed(size, ptr, slice(0, 1000)) + 200])
    assert found.streamed
    assert max(int(ptr[cut.stop] - ptr[cut.start]) for cut in found.cuts) >= 1000


def test_votes_on_gold_tasks_stay_on_the_device():
    size, _ = size_of([5] * 100)
    assert replace(size, gold_votes=50).tables() == size.tables() + 50 * plan.DEVICE_BYTES_PER_GOLD_VOTE


def test_votes_that_are_on_a_device_are_planned_too():
    size, _ = size_of([5] * 1000)
    need = size.tables() + (size.per_label() + size.per_work() + plan.DEVICE_BYTES_PER_OUTCOME) * 1000
    assert plan.plan_in_place(size, "a card", need).cuts == (slice(0, 1000),)
    with pytest.raises(adj.AdjudgeError, match="are allowed on a card: allow more, choose engine='cpu'"):
        plan.plan_in_place(size, "a card", need - 1, allowed=True)


@pytest.mark.parametrize("allowed", [True, False])
def test_too_little_is_reported_with_the_estimate_and_the_remedy(allowed):
    size, ptr = size_of([5] * 100, rows=1_000_000, labels=50)
    have, remedy = ("are allowed", "allow more, choose") if allowed else ("are free", "choose")
    expected = rf"needs about 3\.\d GiB of device memory \(1000000 rows x 50 labels, 100 tasks\), but 1\.0 GiB {have} on a card: {remedy}"
    with pytest.raises(adj.AdjudgeError, match=expected):
        plan_shards(size, ptr, ["a card"], [1 << 30], allowed=allowed)


def test_a_task_that_fits_no_buffer_is_reported():
    size, ptr = size_of([5, 100_000])
    with pytest.raises(adj.AdjudgeError, match="of device memory"):
        plan_shards(size, ptr, names(1), [size.tables() + 400_000])
