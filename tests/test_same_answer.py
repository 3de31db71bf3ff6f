"""The same votes give the same answer in any order and form: on generated and on real votes."""

import warnings

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.engines.local import LocalEngine
from fitting import aggregate
from strategies import crowds

MODELS = ("mv", "fds", "ds", "hybrid", "one-coin")  # exact counts: equal to the last task


def labels(votes, model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        frame = aggregate(votes, model=model, **options).labels
    return {str(t): str(c) for t, c in frame.select("task", "label").iter_rows()}


@pytest.mark.parametrize("model", MODELS)
@given(data=st.data(), votes=crowds())
def test_generated(model, data, votes):
    first = labels(votes, model)
    shuffled = data.draw(st.permutations(votes))
    assert first == labels(shuffled, model)
    assert first == labels([(t, f"{w[::-1]}x", c) for t, w, c in votes], model)
    declared = data.draw(st.permutations(sorted({c for *_, c in votes})))
    assert first == labels(shuffled, model, labels=declared)
    numbers = [tuple(int(x[1:]) for x in vote) for vote in votes]
    assert labels(numbers, model) == labels([tuple(map(str, vote)) for vote in numbers], model)


@pytest.mark.parametrize("model", MODELS)
def test_real(real_votes, model):
    frame = pl.read_csv(real_votes, infer_schema=False)
    first = labels(frame, model)
    assert first == labels(frame.sample(fraction=1.0, shuffle=True, seed=4), model)
    assert first == labels(frame.with_columns(worker="_" + pl.col("worker").str.reverse()), model)
    assert first == labels(frame, model, labels=sorted(set(frame["label"]), reverse=True))
    assert first == labels(frame, model, engine=LocalEngine(shard_votes=1000))


ODD = ["a b", '"', "a,b", "line\nbreak", "tab\t", "😀", "x" * 10_000, "", " ", "é", "\x1f"]


@pytest.mark.parametrize("model", MODELS)
def test_odd_ids_come_back_as_they_went_in(model, tmp_path):
    votes = [(t, w, c) for t in ODD for w, c in zip(ODD, ODD[::-1], strict=True)]
    result = adj.aggregate(votes, model=model)
    assert result.labels["task"].to_list() == ODD
    assert sorted(result.workers["worker"]) == sorted(ODD)
    frame = pl.DataFrame(votes, schema=["task", "worker", "label"], orient="row")
    frame = frame.filter(pl.all_horizontal(pl.all() != ""))  # in a CSV an empty cell is a missing value
    frame.write_csv(tmp_path / "votes.csv")
    assert labels(frame, model) == labels(tmp_path / "votes.csv", model)


def test_every_ascii_character_in_use_still_decodes():
    ids = [chr(c) for c in range(1, 128)]
    assert adj.aggregate([(t, "w", "x") for t in ids], model="mv").labels["task"].to_list() == ids
