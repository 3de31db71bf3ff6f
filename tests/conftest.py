import os
from pathlib import Path

import polars as pl
import pytest
from hypothesis import settings

settings.register_profile("quorate", deadline=None, max_examples=60, derandomize=True, print_blob=True)
settings.load_profile("quorate")

SETS = ["adult2", "anesthesia", "bm", "labelme", "llmbar_natural", "rte", "snow_temp", "sp", "trec2010", "zencrowd_in"]


@pytest.fixture(scope="session")
def data_dir():
    """The folder of real votes; tests that need it skip without it."""
    folder = os.environ.get("QUORATE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("QUORATE_DATA names no folder of real votes")
    return Path(folder)


@pytest.fixture(scope="session")
def paper_votes(data_dir):
    """paper_votes(name, k): the first k votes of every question of the paper, and the truth."""

    def load(name, k):
        votes = pl.read_csv(data_dir / name / "votes.csv", infer_schema=False)
        truth = pl.read_csv(data_dir / name / "truth.csv", infer_schema=False)
        enough = votes.group_by("task").len().filter(pl.col("len") >= k).join(truth, on="task", how="semi")
        kept = votes.join(enough, on="task", how="semi", maintain_order="left")
        return kept.filter(pl.int_range(pl.len()).over("task") < k), truth

    return load


@pytest.fixture(params=SETS)
def real_votes(request, data_dir):
    """Each set of real votes, as a path."""
    return data_dir / request.param / "votes.csv"
