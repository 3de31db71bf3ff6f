"""Frames written in every format: what is read again is what was written, also in batches."""

import json
from pathlib import Path

import polars as pl
import pytest

import adjudge as adj
from adjudge.io.frames import frame_of
from adjudge.io.write import WRITERS, write_batches, write_frame

FRAME = pl.DataFrame(
    {
        "task": ["t1", "t2", 'a "quoted"\nline', "ü"],
        "label": [["x"], [], ["x", "y"], None],
        "confidence": [0.5, 1.0, None, float("nan")],
        "tie": [True, False, False, False],
    }
)
RECORDS = [
    {"task": "t1", "label": ["x"], "confidence": 0.5, "tie": True},
    {"task": "t2", "label": [], "confidence": 1.0, "tie": False},
    {"task": 'a "quoted"\nline', "label": ["x", "y"], "confidence": None, "tie": False},
    {"task": "ü", "label": None, "confidence": None, "tie": False},
]


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_format_is_written_at_once_and_in_batches(suffix, tmp_path):
    votes = pl.DataFrame({"task": ["t1", "t1", "t2"], "worker": ["a", "b", "a"], "label": ["x", "y", "x"]})
    write_frame(votes, tmp_path / f"once{suffix}")
    write_batches(votes.iter_slices(2), tmp_path / f"batches{suffix}")
    for name in ("once", "batches"):
        assert frame_of(adj.read(tmp_path / f"{name}{suffix}")).equals(votes)


@pytest.mark.parametrize("cut", [None, 1, 3])
def test_json_is_one_array_of_records(cut, tmp_path, monkeypatch):
    monkeypatch.setattr("adjudge.io.write.WRITE_CHUNK_LINES", 2)
    path = tmp_path / "labels.json"
    path.write_text("old")
    if cut is None:
        write_frame(FRAME, path)
    else:
        write_batches(FRAME.iter_slices(cut), path)
    assert json.loads(path.read_text(encoding="utf-8")) == RECORDS
    assert [entry.name for entry in tmp_path.iterdir()] == ["labels.json"]


def test_nothing_is_an_empty_array(tmp_path):
    write_frame(FRAME.clear(), tmp_path / "a.json")
    write_batches([FRAME.clear()], tmp_path / "b.json")
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads((tmp_path / "b.json").read_text()) == []


def test_a_failure_leaves_the_old_file(tmp_path):
    def batches():
        yield FRAME
        raise adj.InputError("no more")

    path = tmp_path / "labels.json"
    path.write_text("old")
    with pytest.raises(Exception, match="no more"):
        write_batches(batches(), path)
    assert path.read_text() == "old"
    assert [entry.name for entry in Path(tmp_path).iterdir()] == ["labels.json"]
