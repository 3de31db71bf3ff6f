import numpy as np
import polars as pl
import pytest

from adjudge.data.vocabulary import Vocabulary
from adjudge.errors import InputError
from adjudge.io.workers import read_costs

WORKERS = Vocabulary.of(["ann", "bob"])


def test_costs_of_every_kind(tmp_path):
    wanted = [2.0, 0.5]
    frame = pl.DataFrame({"annotator": ["bob", "ann", "eve"], "price": [0.5, 2.0, 7.0]})
    frame.write_csv(tmp_path / "costs.csv")
    for given in (
        {"ann": 2, "bob": np.float64(0.5)},
        frame,
        frame.to_pandas(),
        tmp_path / "costs.csv",
        str(tmp_path / "costs.csv"),
    ):
        assert read_costs(given, WORKERS).tolist() == wanted
    assert read_costs(3, WORKERS).tolist() == read_costs(np.int64(3), WORKERS).tolist() == [3, 3]
    assert read_costs({7: 1.5, 8: 2}, Vocabulary.of([7, 8])).tolist() == [1.5, 2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ann": 1}, "cost has no price for 1 of 2 workers: bob"),
        ({"ann": 1, "bob": "x"}, "the cost of worker 'bob' is 'x': give a number of at least 0"),
        ({"ann": 1, "bob": None}, "the cost of worker 'bob' is None"),
        ({"ann": 1, "bob": float("nan")}, "the cost of worker 'bob' is nan"),
        (-1, "cost is -1"),
        (float("inf"), "cost is inf"),
        ({"worker": ["ann", "bob", "ann"], "cost": [1, 2, 3]}, "cost gives worker 'ann' two prices"),
        ({"worker": ["ann", None], "cost": [1, 2]}, "worker is missing in row 2 of the costs"),
        ({"worker": ["ann", "bob"], "cost": ["1", "cheap"]}, "the cost of worker 'bob' is 'cheap'"),
        ({"worker": ["ann"], "size": [1]}, "no column looks like the cost"),
    ],
)
def test_bad_costs_are_named(given, message):
    with pytest.raises(InputError, match=message):
        read_costs(given, WORKERS)
