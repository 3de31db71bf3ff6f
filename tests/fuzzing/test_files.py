"""A few of the cases that `files.run` tries without end."""

import importlib.util
import random
from pathlib import Path

import polars as pl
import pytest

import adjudge as adj
from adjudge.io.records import whole_batches

spec = importlib.util.spec_from_file_location("fuzzing_files", Path(__file__).with_name("files.py"))
files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(files)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the server ends with Python
def test_damaged_files_are_read_or_refused():
    for seed in range(40):
        files.run(seed)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_arrow_file_that_makes_polars_panic_is_refused(tmp_path):
    """Its batches end without an error: the file once read as one without votes."""
    data = bytearray(files._bases()["arrow"])
    draw = random.Random(1794927572317)
    assert draw.choice(files.KINDS) == "arrow"
    for _ in range(draw.choice((0, 1, 1, 2, 5, 20))):
        files._change(data, draw)
    path = tmp_path / "votes.arrow"
    path.write_bytes(data)
    assert files._ask(path)["outcome"] == "refused"
    with pytest.raises(adj.InputError, match="cannot read the polars frame"):
        adj.read(pl.scan_ipc(path))
    with pytest.raises(pl.exceptions.ComputeError, match="damaged"):
        list(whole_batches(pl.scan_ipc(path)))
