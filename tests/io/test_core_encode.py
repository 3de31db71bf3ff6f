"""The compiled encoder against a plain definition, on every layout that a producer of Arrow data may hand over."""

import gc
import itertools
import random
import sys
import uuid

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from adjudge.io.encode import assemble, assemble_in_core
from adjudge.io.read import count_repeats_reference
from adjudge.kernels.cpu import compiled

core = compiled()
pytestmark = pytest.mark.skipif(core is None, reason="no compiled core")
NONE = 0xFFFFFFFF


def first_appearance(values):
    """(codes, distinct values) by the definition."""
    known = {}
    return [NONE if v is None else known.setdefault(v, len(known)) for v in values], list(known)


def encode(parts, dictionary, threads=1):
    """Codes of one column handed over in parts, its ids, and the (count, place) of missing ones."""
    codes, missing = core.Codes(), []
    for part in parts:
        stream = core.Stream(part.__arrow_c_stream__())
        while (batch := stream.next()) is not None:
            before = len(codes)
            [(count, first)] = core.encode(batch, [0], [dictionary], [codes], threads)
            missing.append((count, None if first < 0 else before + first))
    ids = dictionary.finish()
    if isinstance(ids, tuple):
        offsets, whole = ids[0], ids[1].tobytes()
        ids = [whole[a:b].decode() for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
    else:
        ids = ids.tolist()
    return codes.finish().tolist(), ids, missing


TEXTS = {
    "short": lambda rng, n: ["".join(rng.choices("ab", k=rng.randint(0, 3))) for _ in range(n)],
    "nul": lambda rng, n: ["".join(rng.choices("a\0", k=rng.randint(0, 13))) for _ in range(n)],
    "edge": lambda rng, n: [
        "".join(rng.choices("ab", k=rng.choice([7, 8, 10, 11, 12, 13, 15, 16, 17, 31, 33]))) for _ in range(n)
    ],
    "unicode": lambda rng, n: ["".join(rng.choices("aß漢😀é", k=rng.randint(0, 9))) for _ in range(n)],
    "uuid": lambda rng, n: [str(uuid.UUID(int=rng.choice([rng.getrandbits(128), rng.randint(0, 9)]))) for _ in range(n)],
    "equal": lambda rng, n: ["same" * 10] * n,
    "huge": lambda rng, n: rng.choices(["y" * 10_000, "y" * 9_999 + "z", "z" + "y" * 9_999, "y"], k=n),
    "runs": lambda rng, n: [f"run{i // 7}" for i in range(n)],
    "numbered": lambda rng, n: [f"t{rng.randint(0, 10 ** rng.randint(1, 9))}" for _ in range(n)],
    "numbers": lambda rng, n: [str(rng.randint(-3, 10 ** rng.randint(1, 9))) for _ in range(n)],
    "padded numbers": lambda rng, n: [f"w{rng.randint(0, 200):0{rng.randint(1, 4)}}" for _ in range(n)],
    "two words": lambda rng, n: [f"{rng.choice('aab')}{rng.randint(0, 300)}" for _ in range(n)],
    "not digits": lambda rng, n: [f"t{rng.choice(['1', '/', ':', '1/', '2:', 'é', '', '00', '01'])}" for _ in range(n)],
    "longest word": lambda rng, n: [f"workers {rng.randint(0, 2000)}" for _ in range(n)],
    "distinct": lambda rng, n: [f"id{i:07}x" for i in range(n)],
}


class StructSlice:
    """A table whose struct carries the offset, not its columns."""

    def __init__(self, array, start, n):
        self._chunks = pa.chunked_array([pa.StructArray.from_arrays([array], ["x"])[start : start + n]])

    def __arrow_c_stream__(self):
        return self._chunks.__arrow_c_stream__()


def layouts(values):
    """(name, parts) of one text column as every producer lays it out."""
    views, half = pl.Series(values, dtype=pl.String), len(values) // 2
    padded = pl.Series(["pad", *values, None, "pad"], dtype=pl.String)
    yield "polars", [views]
    yield "polars chunks", [pl.concat([views[:half], views[half:]], rechunk=False)]
    yield "polars batches", [views[:half], views[half:]]
    yield "polars slice", [padded[1 : 1 + len(values)]]
    yield "polars categorical", [views.cast(pl.Categorical)]
    for kind in (pa.utf8(), pa.large_utf8(), pa.string_view()):
        array, odd = pa.array(values, kind), pa.array(["pad"] * 5 + values + [None, "pad"], kind)
        yield f"{kind} chunks", [pa.chunked_array([array[:half], array[half:]], kind)]
        yield f"{kind} slice", [pa.chunked_array([odd[5 : 5 + len(values)]])]
        yield f"{kind} table", [pa.table({"x": odd}).slice(5, len(values))]
        yield f"{kind} struct slice", [StructSlice(odd, 5, len(values))]
    indices = pa.array(values, pa.utf8()).dictionary_encode()
    moved = [None if i is None else i + 2 for i in indices.indices.to_pylist()]
    unused = pa.concat_arrays([pa.array(["unused", None]), indices.dictionary])
    yield (
        "dictionary with unused values",
        [pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(moved, pa.int16()), unused)])],
    )


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("n", [0, 1, 64, 65, 2000])
@pytest.mark.parametrize("kind", TEXTS)
def test_texts(kind, n, nulls):
    rng = random.Random(n)
    values = TEXTS[kind](rng, n)
    if nulls:
        values = [None if rng.random() < 0.3 else v for v in values]
    want, ids = first_appearance(values)
    for name, parts in layouts(values):
        got, got_ids, missing = encode(parts, core.TextDictionary())
        assert (got, got_ids) == (want, ids), name
        assert sum(count for count, _ in missing) == want.count(NONE), name
        places = [place for _, place in missing if place is not None]
        assert min(places, default=-1) == (want.index(NONE) if NONE in want else -1), name


def test_long_texts_with_equal_ends_differ():
    values = ["a" * n + c + "b" * m for n in range(20) for c in "xy" for m in range(20)]
    assert encode([pl.Series(values)], core.TextDictionary())[:2] == first_appearance(values)


def test_many_texts_grow_the_table():
    values = [f"t{i}" for i in np.random.default_rng(0).integers(0, 100_000, 200_000)]
    assert encode([pl.Series(values)], core.TextDictionary())[:2] == first_appearance(values)


def test_numbered_texts_that_change():
    """Ids that had no room in the array, come to have some, or end to be numbered keep their codes."""
    rng = np.random.default_rng(0)
    numbered = [f"t{i}" for i in rng.integers(0, 3_000_000, 100_000)]
    others = [f"{i:x}q" for i in rng.integers(0, 30_000, 200_000)]
    for values in (numbered + numbered[::-1], numbered + others + numbered, [None] * 3 + numbered + others, others + numbered):
        series = pl.Series(values, dtype=pl.String)
        for size in (1000, 70_000, 400_000):
            parts = [series[at : at + size] for at in range(0, len(series), size)]
            assert encode(parts, core.TextDictionary())[:2] == first_appearance(values)


@pytest.mark.parametrize("kind", ["short", "long"])
def test_runs_end_where_ids_change_and_continue_between_blocks(kind):
    """A run that crosses blocks or batches keeps its code; a missing id ends it."""
    lengths = [1, 63, 64, 65, 1, 1, 130, 2, 128]
    names = [f"{'x' * (40 if kind == 'long' else 1)}{i % 4}" for i in range(len(lengths))]
    values = [name for name, n in zip(names, lengths, strict=True) for _ in range(n)]
    holes = [None if i % 70 in (0, 69) else v for i, v in enumerate(values)]
    for given in (values, holes):
        for cut in (0, 1, 64, 100):
            parts = [pl.Series(given[:cut], dtype=pl.String), pl.Series(given[cut:], dtype=pl.String)]
            assert encode(parts, core.TextDictionary())[:2] == first_appearance(given)


def test_large_columns_move_to_pages_of_their_own_and_back():
    """Codes and tables of more than some megabytes are mapped; what was written before is kept."""
    values = np.random.default_rng(1).permutation(np.repeat(np.arange(700_000), 2))
    first, rank = np.unique(values, return_index=True)[1], np.empty(700_000, np.uint32)
    rank[values[np.sort(first)]] = np.arange(700_000)
    numbers, texts = core.IntDictionary(), core.TextDictionary()
    for column, dictionary in ((pl.Series(values), numbers), (pl.Series(values).cast(pl.String), texts)):
        codes = core.Codes()
        for start in range(0, len(column), 100_000):
            stream = core.Stream(column[start : start + 100_000].to_frame("x").__arrow_c_stream__())
            core.encode(stream.next(), [0], [dictionary], [codes], 1)
        assert np.array_equal(codes.finish(), rank[values])
    assert np.array_equal(numbers.finish(), values[np.sort(first)])
    offsets, data = texts.finish()
    assert len(offsets) == 700_001
    assert data.tobytes().decode() == "".join(map(str, values[np.sort(first)].tolist()))


INTS = {
    "dense": lambda rng, n: rng.integers(0, max(n, 1), n),
    "negative": lambda rng, n: rng.integers(-n - 1, n + 1, n),
    "extremes": lambda rng, n: rng.choice(np.array([-(2**63), 2**63 - 1, 0, -1, 1]), n),
    "sparse": lambda rng, n: rng.integers(-(2**63), 2**63 - 1, n),
    "rising": lambda rng, n: np.arange(n) * 3 + 2**62,
    "falling": lambda rng, n: -np.arange(n) * 1000,
    "falling to the end": lambda rng, n: np.iinfo(np.int64).min + np.arange(n)[::-1],
    "both ways": lambda rng, n: np.arange(n) * (-1) ** np.arange(n) * 5000,
    "spreading": lambda rng, n: (rng.standard_normal(n) * 10.0 ** (np.arange(n) % 18)).astype(np.int64),
    "sparse then filled": lambda rng, n: np.concatenate([[0, 2**21], rng.permutation(2**21)[: max(n - 2, 0)]])[:n],
}


@pytest.mark.parametrize("n", [0, 1, 64, 5000])
@pytest.mark.parametrize("kind", INTS)
def test_integers(kind, n):
    values = INTS[kind](np.random.default_rng(n), n).astype(np.int64)
    want = first_appearance(values.tolist())
    for parts in ([pl.Series(values)], [pl.Series(values[: n // 3]), pl.Series(values[n // 3 :])]):
        assert encode(parts, core.IntDictionary())[:2] == want
    holes = [None if i % 3 == 1 else v for i, v in enumerate(values.tolist())]
    for column in (pl.Series(holes, dtype=pl.Int64), pl.Series([5, *holes], dtype=pl.Int64)[1:]):
        assert encode([column], core.IntDictionary())[:2] == first_appearance(holes)


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Boolean])
def test_widths(dtype):
    values = [True, None, False, True] * 30 if dtype == pl.Boolean else [1, 0, None, 1, 100, 0, 127]
    want, ids = first_appearance(values)
    for column in (pl.Series(values, dtype=dtype), pl.Series([None, None, None, *values], dtype=dtype)[3:]):
        assert encode([column], core.IntDictionary())[:2] == (want, [int(i) for i in ids])


def test_what_a_column_is_and_what_is_refused():
    frame = pl.DataFrame({"s": ["a"], "i": [1], "b": [True], "f": [1.0], "n": [None], "d": pl.Series([[1]])})
    stream = core.Stream(frame.__arrow_c_stream__())
    assert stream.names == list("sibfnd")
    assert stream.kinds == ["string", "integer", "boolean", "float", "null", "other"]
    batch = stream.next()
    for column, dictionary in ((0, core.IntDictionary()), (1, core.TextDictionary()), (3, core.IntDictionary())):
        codes = core.Codes()
        with pytest.raises(ValueError, match="not a column"):
            core.encode(batch, [column], [dictionary], [codes], 1)
        assert len(codes) == 0, "a refused batch leaves nothing behind"
    with pytest.raises(OverflowError, match="9223372036854775808"):
        encode([pl.Series([1, 2**63], dtype=pl.UInt64)], core.IntDictionary())


def test_streams_that_are_none_or_fail():
    with pytest.raises(ValueError, match="PyCapsule"):
        core.Stream(object())
    capsule = pl.Series(["a"]).__arrow_c_stream__()
    core.Stream(capsule)
    with pytest.raises(RuntimeError, match="read before"):
        core.Stream(capsule)

    def batches():
        yield pa.record_batch({"x": ["a"]})
        raise OSError("disk gone")

    stream = core.Stream(pa.RecordBatchReader.from_batches(pa.schema([("x", pa.utf8())]), batches()).__arrow_c_stream__())
    assert len(stream.next()) == 1
    with pytest.raises(RuntimeError, match="disk gone"):
        stream.next()


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("order", ["shuffled", "grouped", "abstained"])
@pytest.mark.parametrize(
    "shape", [(0, 1, 1, 1), (1, 1, 1, 1), (500, 30, 9, 3), (3000, 5000, 40, 5), (4000, 3, 2000, 2000), (9000, 3000, 1500, 1000)]
)
def test_assembly(shape, order, threads):
    """Compiled and NumPy assembly agree: by table and by worker, sorted or not, with gaps in the ranks."""
    n, tasks, workers, labels = shape
    g = np.random.default_rng(n + threads)
    task = first_appearance((np.sort if order == "grouped" else np.asarray)(g.integers(0, tasks, n)).tolist())
    codes = {
        "task": np.array(task[0], np.uint32),
        "worker": g.integers(0, workers, n, dtype=np.uint32),
        "label": g.integers(0, labels, n, dtype=np.uint32),
    }
    if order == "abstained":
        codes["label"][g.random(n) < 0.2] = NONE
    ranks = g.permutation(workers).astype(np.uint32), g.permutation(labels + 2)[:labels].astype(np.uint32)
    want = assemble({role: c.copy() for role, c in codes.items()}, len(task[1]), *ranks, labels + 2)
    got = assemble_in_core(core, codes, len(task[1]), *ranks, labels + 2, threads)
    assert all(map(np.array_equal, got, want))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("order", ["shuffled", "grouped", "abstained"])
@pytest.mark.parametrize(("n", "tasks", "rows"), [(0, 0, 1), (0, 3, 1), (1, 1, 1), (500, 30, 9), (9000, 3000, 70_000)])
def test_grouping(monkeypatch, n, tasks, rows, order, threads):
    """Votes by task and row, compiled and in NumPy; a task may be left without votes."""
    from adjudge.io.folder import spill as codes

    g = np.random.default_rng(n)
    task = (np.sort if order == "grouped" else np.asarray)(g.integers(0, max(tasks, 1), n)).astype(np.uint32)
    row = g.integers(0, rows, n, dtype=np.uint32)
    if order == "abstained":
        row[g.random(n) < 0.3] = NONE
    task_ptr, votes = core.group_by_task(task, got := row.copy(), tasks, threads)
    monkeypatch.setattr(codes, "compiled", lambda: None)
    want_ptr, want = codes.group(task, row, tasks)
    assert np.array_equal(task_ptr, want_ptr)
    assert np.array_equal(got[:votes], want)


@pytest.mark.parametrize("votes", range(1, 9))
def test_few_votes_are_sorted_whatever_their_order(votes):
    """All orders of up to six rows, and some of more, equal rows among them."""
    orders = list(itertools.islice(itertools.permutations([n // 2 * (n % 3 + 1) for n in range(votes)]), 720))
    row = np.array(orders, np.uint32).ravel()
    task = np.repeat(np.arange(len(orders), dtype=np.uint32), votes)
    core.group_by_task(task, row, len(orders), 2)
    assert np.array_equal(row.reshape(-1, votes), np.sort(np.array(orders), axis=1))


def test_repeats_are_counted_as_defined():
    g = np.random.default_rng(5)
    for n, tasks, rows in ((0, 0, 1), (0, 2, 1), (7, 1, 3), (3000, 400, 60), (3000, 90, 5000)):
        worker = np.sort(g.integers(0, max(rows // 3, 1), rows)).astype(np.uint32)
        ptr = np.concatenate([[0], np.sort(g.integers(0, n + 1, max(tasks - 1, 0))), [n] * min(tasks, 1)]).astype(np.int64)
        row = np.concatenate([np.sort(part) for part in np.split(g.integers(0, rows, n), ptr[1:-1])]).astype(np.uint32)
        for threads in (1, 3):
            assert core.repeats(ptr, row, worker, threads) == count_repeats_reference(ptr, row, worker)
    two = np.array([0, 2], np.int64)
    for ptr, row in ((two, [0]), (two[:1], [0]), (two, [5, 5]), (np.array([0, 3, 2], np.int64), [0, 0])):
        with pytest.raises(ValueError, match="do not fit"):
            core.repeats(ptr, np.array(row, np.uint32), np.zeros(2, np.uint32))


def test_grouping_refuses_what_does_not_fit():
    codes = np.array([0, 2], np.uint32)
    with pytest.raises(ValueError, match="beyond the tasks"):
        core.group_by_task(codes, codes.copy(), 2)
    with pytest.raises(ValueError, match="different lengths"):
        core.group_by_task(codes, codes[:1].copy(), 3)


def test_whole_numbers():
    def whole(values):
        offsets = np.cumsum([0, *(len(v.encode()) for v in values)])
        found = core.whole_numbers(offsets, np.frombuffer("".join(values).encode(), np.uint8))
        return None if found is None else found.tolist()

    assert whole(["7", "-12", "0", str(2**63 - 1), str(-(2**63))]) == [7, -12, 0, 2**63 - 1, -(2**63)]
    for bad in ("007", "-0", "-", "", "+7", " 7", "7 ", "1e3", str(2**63), "٧", "1.0", "00"):
        assert whole(["1", bad]) is None, bad


@pytest.mark.parametrize("values", [[], [""], ["a", "", "bc", "漢" * 20]])
def test_texts_come_back_without_a_leak(values):
    offsets = np.cumsum([0, *(len(v.encode()) for v in values)])
    data = np.frombuffer("".join(values).encode(), np.uint8)
    before = sys.getrefcount(offsets), sys.getrefcount(data)
    array = core.TextArray(offsets, data)
    for _ in range(3):
        assert pl.Series(array).to_list() == values
        kept = pa.array(array)
    array.__arrow_c_array__()  # never consumed
    del array
    gc.collect()
    assert kept.to_pylist() == values
    del kept
    gc.collect()
    assert (sys.getrefcount(offsets), sys.getrefcount(data)) == before


@pytest.mark.parametrize("values", [[], [""], ["a", "", "bc", "漢" * 20]])
def test_the_fallback_gives_the_same_texts(values):
    from adjudge.io.frames import decode_texts

    offsets = np.cumsum([0, *(len(v.encode()) for v in values)])
    assert decode_texts(offsets, np.frombuffer("".join(values).encode(), np.uint8)).to_list() == values
