"""A few of the cases that `files.run` tries without end."""

import importlib.util
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("fuzzing_files", Path(__file__).with_name("files.py"))
files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(files)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the server ends with Python
def test_damaged_files_are_read_or_refused():
    for seed in range(40):
        files.run(seed)
    files.run(1794927572317)  # an Arrow file of which polars reads no row, and says nothing
