"""Which questions, which votes, and the paper's own figures."""

import json
import statistics

import polars as pl
import pytest

import adjudge as adj
from adjudge.paper import grid as protocol
from adjudge.paper import published
from adjudge.paper.grid import CellFolder


@pytest.mark.parametrize("name", published.PAPER_SET_NAMES)
def test_the_questions_are_counted_as_in_table_1(name, data_dir):
    questions = protocol.load(data_dir, name)
    assert len(questions) == published.questions(name)
    for rule in protocol.SUBSET_NAMES:
        counts = questions.subset(2, rule).group_by("task").len()["len"]
        assert (len(counts), set(counts)) == (len(questions), {2})


def test_first_votes_are_the_first_and_random_ones_are_drawn_anew(crowd_data):
    questions = protocol.load(crowd_data, "bm")
    first = [part.head(2) for part in questions.votes.partition_by("task", maintain_order=True)]
    assert questions.subset(2).sort("task", maintain_order=True).equals(pl.concat(first).sort("task", maintain_order=True))
    drawn = [questions.subset(2, "random", seed) for seed in (0, 0, 1)]
    assert drawn[0].equals(drawn[1])
    assert not drawn[0].equals(drawn[2])
    ranked = questions.votes.with_columns(n=pl.int_range(pl.len()).over("task")).join(drawn[0], on=["task", "worker"], how="semi")
    places = ranked.group_by("task").agg("n")["n"].to_list()
    assert len({tuple(p) for p in places}) > 1, "every question draws for itself"


def test_published_curves_have_a_point_per_annotator():
    for measure in ("accuracy", "seconds", "iterations"):
        for name in published.PAPER_SET_NAMES:
            for model in published.METHODS:
                curve = published.curve(measure, name, model)
                assert curve is None or len(curve) == published.annotators(name)
    assert published.curve("seconds", "bm", "mv") is None
    assert published.point("iterations", "rte", "glad", 10) == 2
    assert published.is_binary("sp")
    assert not published.is_binary("labelme")


@pytest.mark.parametrize("name", published.PAPER_SET_NAMES)
def test_table_1_averages_the_curves_from_two_annotators_on(name):
    for key, slow, fast in published.SPEEDUPS:
        for place, measure in enumerate(("seconds", "iterations")):
            pairs = zip(published.curve(measure, name, slow)[1:], published.curve(measure, name, fast)[1:], strict=True)
            printed = published.figures()["table1"][published.PAPER_SET_NAMES[name]][key][place]
            assert statistics.fmean(a / b for a, b in pairs) == pytest.approx(printed, abs=0.0101)


def test_missing_and_unknown_sets_are_named(crowd_data):
    with pytest.raises(adj.InputError, match=r"lacks rte: adjudge datasets get rte -o .*data"):
        protocol.load(crowd_data, "rte")
    with pytest.raises(adj.OptionError, match="unknown data set 'labelmee': did you mean 'labelme'"):
        protocol.choose(["labelmee"])


def test_a_set_without_questions_and_one_without_columns(crowd_data):
    path = crowd_data / "bm" / "truth.csv"
    path.write_text("task,label\nnowhere,x\n")
    with pytest.raises(adj.InputError, match="no task has truth and at least 5 votes"):
        protocol.load(crowd_data, "bm")
    path.write_text("a,b\n1,2\n")
    with pytest.raises(adj.InputError, match=r"cannot read .*truth.csv: .*columns task, label are expected"):
        protocol.load(crowd_data, "bm")


def test_cells_are_computed_once_unless_conditions_change_or_files_break(tmp_path):
    told, runs = [], []
    cells = CellFolder(tmp_path / "c", told.append)

    def compute():
        runs.append(1)
        return {"n": len(runs)}

    assert [cells.get("a", {"x": 1}, compute)["n"] for _ in range(2)] == [1, 1]
    assert cells.get("a", {"x": 2}, compute) == {"n": 2}
    (tmp_path / "c" / "a.json").write_text('{"half": ')
    assert cells.get("a", {"x": 2}, compute) == {"n": 3}
    assert json.loads((tmp_path / "c" / "a.json").read_text())["conditions"] == {"x": 2}
    assert told == ["a"] * 4
