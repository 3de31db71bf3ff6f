"""Encoded folders: the same votes as `read`, for any partitions."""

import subprocess
import sys
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.data.memory import MIN_MEMORY_BYTES, parse_memory
from adjudge.io.files import votes_in
from adjudge.io.folder import encoded, job, spill
from adjudge.io.folder.encoded import EncodedVotes, encode
from adjudge.io.folder.job import EncodingPlan
from encoded_content import content, files
from strategies import crowds

SMALL = EncodingPlan(bits=2, partition_votes=50, held_votes=70, shard_votes=40)


@given(votes=crowds(max_tasks=30), data=st.data())
def test_any_partitions_and_any_order_give_the_same_bytes(votes, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    first = encode(votes, folder / "a", plan=EncodingPlan(bits=0))
    assert content(first) == content(adj.read(votes))
    bits, size = data.draw(st.integers(0, 5)), data.draw(st.integers(1, 20))
    plan = EncodingPlan(bits=bits, partition_votes=size, held_votes=data.draw(st.integers(1, 50)))
    encode(data.draw(st.permutations(votes)), folder / "b", plan=plan)
    assert files(folder / "a") == files(folder / "b")


@given(votes=crowds(max_tasks=30), data=st.data())
def test_repeated_votes_count_as_read_counts_them(votes, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    rule = data.draw(st.sampled_from(["last", "first"]))
    got = content(encode(votes, folder / "a", duplicates=rule, plan=SMALL))
    want = content(adj.read(votes, duplicates=rule))
    assert got[0] == want[0]
    assert {row: n for row, n in got[1].items() if n} == want[1]  # rows of votes that do not count stay, empty
    assert got[2:] == want[2:]


def test_repeated_votes_can_be_refused(tmp_path):
    votes = [("t", "w", "x"), ("u", "w", "x"), ("t", "w", "y")]
    with pytest.raises(adj.InputError, match="worker 'w' voted more than once on task 't'"):
        encode(votes, tmp_path / "a", duplicates="error")
    assert list(tmp_path.iterdir()) == []
    assert len(encode(votes[:2], tmp_path / "a", duplicates="error")) == 2


def test_shards_are_cut_alike_and_hold_whole_tasks(tmp_path):
    votes = adj.simulate(tasks=300, workers=12, votes_per_task=(1, 9), seed=2).votes
    one = encode(votes, tmp_path / "one", plan=EncodingPlan(bits=0, shard_votes=40))
    many = encode(votes.sample(fraction=1.0, shuffle=True, seed=1), tmp_path / "many", plan=SMALL)
    assert files(tmp_path / "one") == files(tmp_path / "many")
    assert sum(span.votes for span in one.shards) == len(votes)
    assert max(span.votes for span in many.shards) <= 40
    for (tasks, ptr, row), (same, ids, sizes) in zip(many.parts(), many.task_parts(), strict=True):
        assert tasks == same
        assert np.array_equal(ptr, many.task_ptr[tasks.start : tasks.stop + 1] - many.task_ptr[tasks.start])
        assert np.array_equal(row, many.row[many.task_ptr[tasks.start] : many.task_ptr[tasks.stop]])
        assert ids.ids() == many.tasks.ids()[tasks]
        assert np.array_equal(sizes, np.diff(ptr))
    assert (np.diff(many.task_hash.astype(object)) > 0).all()


def test_one_task_with_all_votes(tmp_path):
    votes = pl.DataFrame({"task": "t", "worker": np.arange(500) % 20, "label": np.arange(500) % 3})
    got = encode(votes, tmp_path / "a", plan=SMALL)
    assert content(got) == content(adj.read(votes))
    assert [span.votes for span in got.shards] == [500]


def test_a_heavy_task_among_others(tmp_path):
    votes = adj.simulate(tasks=200, workers=20, seed=1).votes
    heavy = votes.with_columns(task=pl.lit("t7"))
    whole = pl.concat([votes, heavy])
    assert content(encode(whole, tmp_path / "a", plan=SMALL)) == content(adj.read(whole))


def test_equal_hashes_are_distinguished_by_their_text(tmp_path, monkeypatch):
    def coarse(ids):
        return np.array([len(text) % 2 for text in ids.texts()], np.uint64) << np.uint64(63)

    for module in (spill, job, encoded):
        monkeypatch.setattr(module, "hash_ids", coarse)
    votes = adj.simulate(tasks=150, workers=9, seed=3).votes
    a = encode(votes, tmp_path / "a", plan=EncodingPlan(bits=0, partition_votes=30))
    b = encode(votes.reverse(), tmp_path / "b", plan=EncodingPlan(bits=3))
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert content(b) == content(adj.read(votes))
    assert a.tasks.codes(["t3", "t149", "none"]).tolist() == [a.tasks.ids().index("t3"), a.tasks.ids().index("t149"), -1]


def test_ids_are_found_by_hash(tmp_path):
    votes = encode(adj.simulate(tasks=400, workers=9, seed=3).votes, tmp_path / "a")
    wanted = ["t0", "t399", "t400", "", "t17"]
    ids = votes.tasks.ids()
    assert votes.tasks.codes(wanted).tolist() == [ids.index(w) if w in ids else -1 for w in wanted]


def csv(tmp_path, *lines):
    path = tmp_path / "votes.csv"
    path.write_text("task,worker,label\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    "lines",
    [
        ["7,1,0", "8,2,1", "9,1,0"],
        ["7,1,0", "007,2,1", "9,1,0"],
        ["7,1,0", "x,2,1", "9,01,0"],
        ["7,1,0", "8,,1"],
        ["7,1,0", "8,2,", "9,1,", "x,1,"],
        [f"{t},{w},{t % 3}" for t in range(200) for w in range(3)],
        [f"{t},{w},{t % 3}" for t in range(200) for w in range(3)] + ["0200,1,1"],
    ],
    ids=["whole", "zero in front", "text worker", "no worker", "abstentions", "many", "many but one"],
)
def test_text_files_are_taken_as_read_takes_them(tmp_path, lines):
    path = csv(tmp_path, *lines)

    def outcome(call):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                return content(call()), [str(w.message) for w in caught]
            except adj.InputError as error:
                return str(error)

    assert outcome(lambda: encode(path, tmp_path / "out", plan=SMALL)) == outcome(lambda: adj.read(path))


@pytest.mark.parametrize("kind", ["integer", "boolean", "categorical", "float", "text"])
def test_every_type_of_id(tmp_path, kind):
    frame = adj.simulate(tasks=60, workers=8, labels=2, seed=5).votes
    number = frame.with_columns(pl.all().str.slice(1).cast(pl.Int64))
    frame = {
        "integer": number,
        "boolean": number.with_columns(pl.col("task") > 30, pl.col("label") > 0),
        "categorical": frame.with_columns(pl.all().cast(pl.Categorical)),
        "float": number.cast(pl.Float64),
        "text": frame,
    }[kind]
    assert content(encode(frame, tmp_path / "a", plan=SMALL)) == content(adj.read(frame))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet", "arrow", "csv.gz"])
def test_every_format_and_several_files(tmp_path, suffix):
    votes = adj.simulate(tasks=90, workers=8, seed=5).votes
    halves = [votes[:200], votes[200:]]
    for n, half in enumerate(halves):
        path = tmp_path / f"votes{n}.{suffix}"
        if suffix == "csv.gz":
            import gzip

            path.write_bytes(gzip.compress(half.write_csv().encode()))
        elif suffix == "arrow":
            half.write_ipc(path)
        else:
            getattr(half, {"csv": "write_csv", "tsv": "write_csv", "jsonl": "write_ndjson", "parquet": "write_parquet"}[suffix])(
                path, **({"separator": "\t"} if suffix == "tsv" else {})
            )
    got = encode(str(tmp_path / f"votes*.{suffix}"), tmp_path / "out", plan=SMALL)
    assert content(got) == content(adj.read(votes))
    assert votes_in([tmp_path / f"votes{n}.{suffix}" for n in (0, 1)]) >= (0 if suffix == "csv.gz" else 100)


def test_declared_labels(tmp_path):
    votes = [("t", "a", "x"), ("u", "b", "y")]
    assert encode(votes, tmp_path / "a", labels=["z", "y", "x"]).labels.ids() == ["z", "y", "x"]
    assert content(encode(votes, tmp_path / "a", labels=["z", "y", "x"])) == content(adj.read(votes, labels=["z", "y", "x"]))
    with pytest.raises(adj.InputError, match="label 'y' in row 2 is not among the declared labels: x"):
        encode(votes, tmp_path / "b", labels=["x"])


def test_bad_votes_leave_nothing_behind(tmp_path):
    for votes, words in {
        (("t", "a", "x"), (None, "b", "y")): "task is missing in row 2",
        (("t", None, "x"),): "worker is missing in row 1",
    }.items():
        with pytest.raises(adj.InputError, match=words):
            encode(list(votes), tmp_path / "a")
    for n, frame in enumerate(
        [
            pl.DataFrame({"task": ["1"], "worker": ["w"], "label": ["x"]}),
            pl.DataFrame({"task": [1], "worker": ["w"], "label": ["x"]}),
        ]
    ):
        frame.write_parquet(tmp_path / f"{n}.parquet")
    with pytest.raises(adj.InputError, match="the task ids are of kind string in one part of the source and integer in another"):
        encode(str(tmp_path / "*.parquet"), tmp_path / "a")
    with pytest.raises(adj.InputError, match="cannot read"):
        encode(tmp_path / "none.csv", tmp_path / "a")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0.parquet", "1.parquet"]


def test_no_votes_at_all(tmp_path):
    empty = {"task": [], "worker": [], "label": []}
    votes = encode(empty, tmp_path / "a")
    assert content(votes) == content(adj.read(empty))
    assert adj.aggregate(tmp_path / "a").labels.is_empty()


def test_the_folder_is_votes_for_everything(tmp_path):
    crowd = adj.simulate(tasks=200, workers=12, seed=2)
    encode(crowd.votes, tmp_path / "a", plan=SMALL)
    assert isinstance(adj.read(tmp_path / "a"), EncodedVotes)
    here = adj.aggregate(str(tmp_path / "a"), engine="reference").labels.sort("task")
    assert here.equals(adj.aggregate(crowd.votes, engine="reference").labels.sort("task"))
    with pytest.raises(adj.OptionError, match="already been read"):
        adj.read(tmp_path / "a", duplicates="last")


def test_arrays_are_plain_npy(tmp_path):
    votes = encode([("t", "a", "x"), ("u", "b", "y")], tmp_path / "a")
    assert np.array_equal(np.load(tmp_path / "a" / "row.npy", mmap_mode="r"), votes.row)
    assert np.load(tmp_path / "a" / "task_ptr.npy").tolist() == [0, 1, 2]
    assert np.load(tmp_path / "a" / "unvoted.npy").tolist() == []


# Broken off and taken up again.


def test_amounts_of_memory():
    assert parse_memory("2GB") == 2 * 10**9
    assert parse_memory("1 GiB") == parse_memory(2**30) == 2**30
    assert parse_memory(None) >= MIN_MEMORY_BYTES
    for bad in ("much", "-1GB", "2 GB RAM", True):
        with pytest.raises(adj.OptionError, match="give a size like '2GB'"):
            parse_memory(bad)
    with pytest.raises(adj.OptionError, match="memory is '10MB': give at least"):
        parse_memory("10MB")
    assert EncodingPlan.of(MIN_MEMORY_BYTES, 10**9).partition_votes == 1 << 16
    assert EncodingPlan.of(2 * 10**9, 200_000_000).bits == 7
    assert EncodingPlan.of(2 * 10**9, 10).bits == 0


def test_without_the_compiled_core_the_bytes_are_the_same(tmp_path):
    votes = adj.simulate(tasks=300, workers=15, labels=4, repeats=0.1, seed=8).votes
    votes.with_columns(label=pl.when(pl.col("task") == "t5").then(None).otherwise("label")).write_csv(tmp_path / "v.csv")
    with pytest.warns(adj.MissingLabels):
        encode(tmp_path / "v.csv", tmp_path / "fast", duplicates="last")
    code = (
        "import sys, warnings; sys.modules['adjudge._core'] = None; warnings.simplefilter('ignore')\n"
        "import adjudge as adj; adj.encode(sys.argv[1], sys.argv[2], duplicates='last')"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "v.csv", tmp_path / "slow"], check=True, timeout=120)
    assert files(tmp_path / "fast") == files(tmp_path / "slow")
