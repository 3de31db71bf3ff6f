"""The weight of votes on its way in: columns, errors, abstentions, repeated votes, folders, the command line."""

import json
import math

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.io.folder.job import EncodingPlan
from adjudge.io.folder.manifest import digest
from adjudge.io.frames import frame_of

VOTES = [
    ("t1", "ann", "a", 0.5),
    ("t1", "bob", "b", 2),
    ("t2", "ann", "a", 1.25),
    ("t2", "ann", "a", 0.5),
    ("t2", "bob", "a", 0.1),
]


def table(votes=VOTES):
    return pl.DataFrame(votes, schema=["task", "worker", "label", "sure"], orient="row", strict=False)


def plain(votes):
    """(task, worker, label, weight) of every vote, sorted."""
    return sorted(frame_of(votes).rows())


def rounded(votes):
    return sorted((t, w, c, round(x * 2**40) / 2**40) for t, w, c, x in votes)


def test_every_kind_of_source(tmp_path):
    frame = table()
    frame.write_csv(tmp_path / "votes.csv")
    frame.write_parquet(tmp_path / "votes.parquet")
    sources = [
        frame,
        frame.to_pandas(),
        frame.to_arrow(),
        frame.to_dict(as_series=False),
        tmp_path / "votes.csv",
        tmp_path / "votes.parquet",
        iter(frame.iter_slices(2)),
        frame.lazy(),
        frame.to_dicts(),
        frame.to_numpy(structured=True),
    ]
    for source in sources:
        votes = adj.read(source, weight="sure")
        assert plain(votes) == rounded(VOTES)
        assert votes.understood.columns == {"task": "task", "worker": "worker", "label": "label", "weight": "sure"}
    votes = adj.read(VOTES, weight="weight")
    assert plain(votes) == rounded(VOTES)
    assert str(votes.understood) == "tuples with weights; 5 votes, 1 repeated vote"


def test_other_shapes(tmp_path):
    lines = np.array([[1, 7, 0, 0.5], [1, 8, 1, 2.0], [2, 7, 0, 0.25]])
    assert plain(adj.read(lines, weight="weight")) == [(1, 7, 0, 0.5), (1, 8, 1, 2.0), (2, 7, 0, 0.25)]
    path = tmp_path / "votes.csv"
    path.write_text("t1,ann,a,0.5\nt1,bob,b,2\n")
    want = [("t1", "ann", "a", 0.5), ("t1", "bob", "b", 2.0)]
    assert plain(adj.read(path, header=False, weight="4")) == want
    assert plain(adj.read(path, header=False, task="1", worker="2", label="3", weight="4")) == want
    path.write_text("task,label,n,sure\nt1,a,2,0.5\nt1,b,1,2\n")
    counted = adj.read(path, count="n", weight="sure")
    assert plain(counted) == [("t1", "everybody", "a", 0.5)] * 2 + [("t1", "everybody", "b", 2.0)]
    assert adj.aggregate(path, count="n", weight="sure", model="mv").labels.select("label", "weight").rows() == [("b", 3.0)]
    with pytest.raises(adj.OptionError, match="wide=True and weight=… do not go together"):
        adj.read(np.zeros((3, 3)), wide=True, weight="w")
    with pytest.raises(adj.OptionError, match="weight is 2: name the column of weights"):
        adj.read(VOTES, weight=2)
    with pytest.raises(adj.InputError, match=r"give tuples \(task, worker, label, weight\)"):
        adj.read([vote[:3] for vote in VOTES], weight="weight")


def test_decimals_with_a_comma(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("task;worker;label;sure\nt1;ann;a; 0,5\nt1;bob;b;12,25\nt1;eve;b;,75\nt1;tom;b;3\n")
    assert [vote[3] for vote in plain(adj.read(path, weight="sure"))] == [0.5, 12.25, 0.75, 3.0]
    path.write_text("task;worker;label;sure\nt1;ann;a;0,500\nt1;bob;b;1,000\n")  # one, or a thousand?
    with pytest.raises(adj.InputError, match="weight in row 2 is '1,000': give a number"):
        adj.read(path, weight="sure")


def test_rows_are_sorted_by_worker_label_and_weight():
    votes = adj.read(table(), weight="sure")
    assert votes.row_worker().tolist() == [0, 0, 1, 1]
    assert votes.row_label.tolist() == [0, 0, 0, 1]
    assert votes.row_weight.tolist() == [0.5, 1.25, round(0.1 * 2**40) / 2**40, 2.0]
    assert "weighted" in repr(votes)
    shuffled = adj.read(table().reverse(), weight="sure")
    assert shuffled.row_weight.tolist() == votes.row_weight.tolist()


@pytest.mark.parametrize(
    ("weight", "shown"),
    [(-0.5, "-0.5"), (math.nan, "nan"), (math.inf, "inf"), (2e6, "2000000.0"), (None, "None"), ("much", "'much'"), ("", "''")],
)
def test_a_weight_that_is_none_is_named(weight, shown, tmp_path):
    rows = [("t1", "ann", "a", 1), ("t1", "bob", "b", weight)]
    for read in (lambda: adj.read(rows, weight="weight"), lambda: adj.encode(rows, tmp_path / "out", weight="weight")):
        with pytest.raises(adj.InputError, match="weight in row 2 is") as caught:
            read()
        assert shown in str(caught.value) or isinstance(weight, str)
        assert "give a number from 0 (an abstention) to 1e+06" in str(caught.value)


def test_a_column_of_no_numbers_is_refused():
    with pytest.raises(adj.InputError, match="the weight column holds Boolean: give numbers"):
        adj.read(table().with_columns(sure=pl.Series([True] * 5)), weight="sure")
    with pytest.raises(adj.InputError, match="there is no column 'conf' for the weight"):
        adj.read(table(), weight="conf")
    with pytest.raises(adj.OptionError, match="already been read"):
        adj.aggregate(adj.read(table()), weight="sure")


def test_weight_0_is_an_abstention_and_missing_labels_need_no_weight(tmp_path):
    rows = [*VOTES, ("t3", "ann", "a", 0), ("t1", "eve", None, None), ("t1", "eve", "zzz", 0.0)]
    for read in (lambda: adj.read(rows, weight="weight"), lambda: adj.encode(rows, tmp_path / "out", weight="weight")):
        with pytest.warns(adj.MissingLabels, match="3 of 8 votes have no label, or the weight 0"):
            votes = read()
        assert votes.abstentions == 3
        assert votes.unvoted.ids() == ["t3"]
        assert votes.workers.ids() == ["ann", "bob"]
        assert plain(votes) == rounded(VOTES)


@pytest.mark.parametrize(("duplicates", "kept"), [("last", 0.5), ("first", 1.25)])
def test_of_repeated_votes_one_keeps_its_weight(duplicates, kept, tmp_path):
    want = [vote for vote in VOTES if vote[:2] != ("t2", "ann")] + [("t2", "ann", "a", kept)]
    assert plain(adj.read(table(), weight="sure", duplicates=duplicates)) == rounded(want)
    assert plain(adj.encode(table(), tmp_path / "out", weight="sure", duplicates=duplicates)) == rounded(want)


def test_declared_labels_and_labels_of_a_model_keep_weights():
    votes = adj.read(table(), weight="sure", labels=["c", "b", "a"])
    assert plain(votes) == rounded(VOTES)
    model = adj.aggregate(adj.simulate(tasks=20, workers=4, seed=1).votes, model="fds")
    new = [("n1", "w1", "l2", 0.5), ("n1", "w2", "l0", 2.0)]
    assert plain(model.predict(new, weight="weight").votes) == rounded(new)


def random_table(n=3000, seed=1):
    draw = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "task": draw.integers(0, 400, n),
            "worker": draw.integers(0, 30, n),
            "label": draw.integers(0, 4, n),
            "sure": draw.choice([0.25, 0.5, 1.0, 1.7], n),
        }
    )


def test_a_folder_holds_what_is_read(tmp_path):
    frame = random_table()
    frame.write_csv(tmp_path / "votes.csv")
    near = adj.read(tmp_path / "votes.csv", weight="sure")
    for plan in (None, EncodingPlan(bits=2, partition_votes=200, held_votes=500, shard_votes=700)):
        far = adj.encode(tmp_path / "votes.csv", tmp_path / "folder", weight="sure", plan=plan)
        for name in ("worker_ptr", "row_label", "row_weight"):
            assert np.array_equal(getattr(far, name), getattr(near, name)), name
        assert plain(far) == plain(near)
        assert adj.read(tmp_path / "folder").row_weight.tolist() == near.row_weight.tolist()
    again = adj.encode(near, tmp_path / "again")
    assert plain(again) == plain(near)
    ones = adj.encode(frame.with_columns(sure=1), tmp_path / "ones", weight="sure")
    assert ones.row_weight is None


def test_encoding_is_resumed_with_its_weights(tmp_path):
    random_table().write_csv(tmp_path / "votes.csv")
    plan = EncodingPlan(bits=2, partition_votes=200, held_votes=500, shard_votes=700)
    seen = []

    def stop(what, done, _):
        seen.append(what)
        if what == "sorting votes":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        adj.encode(tmp_path / "votes.csv", tmp_path / "out", weight="sure", plan=plan, progress=stop)
    with pytest.raises(adj.InputError, match="other files or options"):
        adj.encode(tmp_path / "votes.csv", tmp_path / "out", plan=plan, resume=True)
    resumed = adj.encode(tmp_path / "votes.csv", tmp_path / "out", weight="sure", resume=True)
    assert plain(resumed) == plain(adj.read(tmp_path / "votes.csv", weight="sure"))
    assert "sorting votes" in seen


def broken(folder, **changes):
    """Replace the weights of an encoded folder, with checksums that match."""
    import zlib

    manifest = json.loads((folder / "manifest.json").read_text())
    raw = bytearray((folder / "row_weight.npy").read_bytes())
    weights = np.frombuffer(raw[-8 * manifest["files"]["row_weight"]["length"] :], np.float64).copy()
    for at, value in changes.items():
        weights[int(at[1:])] = value
    raw[-weights.nbytes :] = weights.tobytes()
    (folder / "row_weight.npy").write_bytes(raw)
    manifest["files"]["row_weight"]["crc32"] = zlib.crc32(weights.tobytes())
    manifest.pop("sha256")
    (folder / "manifest.json").write_text(json.dumps({**manifest, "sha256": digest(manifest)}))


@pytest.mark.parametrize(
    ("value", "message"),
    [(math.nan, "holds nan"), (-1.0, "holds -1.0"), (0.0, "holds 0.0"), (1e9, "at most 1e"), (1e-9, "must be sorted by weight")],
)
def test_weights_of_a_folder_are_checked(value, message, tmp_path):
    adj.encode(random_table(), tmp_path / "out", weight="sure")
    broken(tmp_path / "out", _1=value)
    with pytest.raises(adj.InputError, match=message):
        adj.read(tmp_path / "out")


def test_a_damaged_weight_is_found(tmp_path):
    adj.encode(random_table(), tmp_path / "out", weight="sure")
    path = tmp_path / "out" / "row_weight.npy"
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)
    with pytest.raises(adj.InputError, match="checksum does not match"):
        adj.read(tmp_path / "out")


def test_arrays_of_a_caller_are_checked():
    votes = adj.read(table(), weight="sure")
    fields = {name: getattr(votes, name) for name in ("task_ptr", "row", "worker_ptr", "row_label", "tasks", "workers", "labels")}
    fields["unvoted"] = votes.unvoted
    made = adj.Votes(**fields, row_weight=votes.row_weight)
    assert plain(made) == plain(votes)
    weights = votes.row_weight
    for wrong, message in (
        (weights[:-1], "has the shape"),
        (weights[[1, 0, 2, 3]], "must be sorted by weight, and distinct"),
        (weights[[0, 0, 2, 3]], "must be sorted by weight, and distinct"),
        (weights * 0, "holds 0.0 at index 0: give numbers above 0"),
        (weights.astype(np.float32), "give a NumPy array of float64"),
    ):
        with pytest.raises(adj.InputError, match=message):
            adj.Votes(**fields, row_weight=wrong)
    with pytest.raises(adj.InputError, match="sorted and distinct"):
        adj.Votes(**fields)
