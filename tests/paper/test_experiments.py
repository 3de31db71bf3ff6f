"""The experiments: what they measure, on real votes and on made-up ones."""

import math

import polars as pl
import pytest

import adjudge as adj
from adjudge.paper import experiments, grid, published, tables
from adjudge.paper import report as verdict
from adjudge.paper.grid import CellFolder, GridPlan, Spot


@pytest.mark.parametrize("name", verdict.EXACT_SETS)
def test_ds_and_hybrid_meet_figure_1_at_every_number_of_annotators(name, data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(grid, "methods", lambda _: ["ds", "hybrid"])
    found = grid.run_grid(grid.load(data_dir, name), GridPlan(trials=2), CellFolder(tmp_path))
    judged = verdict.judge(found, "first")
    assert set(judged["verdict"]) <= {"exact", "known"}
    known = {
        (s, m, k) for s, m, k in judged.filter(pl.col("verdict") == "known").select("set", "method", "annotators").iter_rows()
    }
    assert known == {place for place in verdict.EXPLAINED_DEVIATIONS if place[0] == name}


def test_tables_1_and_2_on_real_votes(data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(grid, "methods", lambda _: list(published.EM_METHODS))
    found = grid.run_grid(grid.load(data_dir, "bm"), GridPlan(trials=2), CellFolder(tmp_path))
    second = {row["method"]: row for row in tables.table2(found).to_dicts()}
    assert all(abs(row["nll difference"]) < 0.01 for row in second.values())
    first = {row["speed-up"]: row for row in tables.table1(found).to_dicts()}
    assert first["hybrid over ds"]["iterations ours"] == pytest.approx(2.03, abs=0.01)
    assert first["fds over iwmv"]["iterations ours"] is None


def spot(accuracy, iterations=(2,)):
    return Spot(list(accuracy), list(iterations), [0.1], [1.0])


def test_verdicts():
    paper = published.point("accuracy", "bm", "ds", 5)
    found = {
        ("bm", "ds", 5): spot([paper], [19]),
        ("bm", "hybrid", 5): spot([0.709], [10]),
        ("adult2", "ds", 3): spot([0.7049], [37]),
        ("sp", "fds", 2): spot([0.80, 0.80]),
        ("sp", "mv", 2): spot([0.70, 0.9]),
        ("sp", "glad", 3): spot([0.5]),
        ("rte", "fds", 9): spot([0.5]),
    }
    judged = verdict.judge(found, "first")
    assert judged["verdict"].to_list() == ["exact", "off", "known", "off", "near", "off", "off"]
    reasons = judged["reason"].to_list()
    assert "another order" in reasons[3]
    assert "ties" in reasons[3]
    assert "stopped early" in reasons[5]
    assert reasons[6] == "ties drawn once in the paper"
    assert verdict.judge(found, "random")["strict"].sum() == 0
    assert verdict.summary(judged)["off"].sum() == 4


def test_cells_of_a_table_as_people_read_them():
    frame = pl.DataFrame(
        {"strict": [True, False], "steps difference": [3, -1], "seconds": [0.01234, None], "nll": [float("nan"), 1.0]}
    )
    assert tables.markdown(frame).splitlines()[2:] == ["| yes | +3 | 0.0123 | – |", "|  | -1 | – | 1.00 |"]


def test_a_point_that_the_paper_has_not_is_not_judged():
    assert verdict.judge({("labelme", "glad", 2): spot([0.5])}, "first").is_empty()


def test_random_subsets_spread(crowd_data, tmp_path):
    found = grid.run_grid(grid.load(crowd_data, "bm"), GridPlan("random", 2), CellFolder(tmp_path))
    assert len(set(found["bm", "mv", 2].accuracy)) > 1
    assert found["bm", "mv", 2].spread > 0
    assert found["bm", "mv", 2].nll == []


def test_likelihoods_switches_and_gaps(crowd_data, tmp_path):
    questions, cells = grid.load(crowd_data, "bm"), CellFolder(tmp_path)
    found = experiments.likelihoods(questions, cells)
    assert list(dict.fromkeys(found["method"])) == ["ds", "fds", "hybrid"]
    ds = found.filter(pl.col("method") == "ds")["nll"].to_list()
    assert ds == sorted(ds, reverse=True)
    switches = experiments.switches(questions, cells)
    assert switches["annotators"].to_list() == [2, 3, 4, 5]
    assert (switches["soft"] > 0).all()
    assert (switches["soft"] < switches["iterations"]).all(), "a Hybrid begins soft and ends hard"
    assert switches["share"].to_list() == pytest.approx((switches["soft"] / switches["iterations"]).to_list())
    gaps = experiments.gaps(questions, cells)
    gap = gaps.filter(pl.col("method") == "ds")["gap"].to_list()
    clear = [one for one in gap if one > 1e-6 * gap[0]]
    assert len(clear) > 5
    assert clear == sorted(clear, reverse=True)
    rates = experiments.rates(gaps)
    assert rates["method"].to_list() == ["ds"]  # the hard fit is at its limit too soon to have a rate
    assert 0 < rates["rate"].item() < 1


def test_the_rate_of_a_straight_line_and_of_nothing():
    assert experiments.rate([0.9**n for n in range(50)]) == 0.9
    assert math.isnan(experiments.rate([1.0]))


def test_tables_3_and_4(crowd_data, tmp_path):
    cells = CellFolder(tmp_path)
    questions = grid.load(crowd_data, "sp")
    online = experiments.stream_questions(questions, cells)
    assert len(online) == 12
    last = online.filter(pl.col("annotators") == 5)
    assert dict(last.select("method", "accuracy").iter_rows()) == {
        m: learned_in_halves(crowd_data / "sp", m) for m in ("ds", "fds", "hybrid")
    }
    third = tables.table3(online)
    assert third["method"].to_list() == ["ds", "fds", "hybrid"]
    assert third["accuracy paper"].to_list() == [0.9094, 0.906, 0.9064]
    fourth = tables.table4(grid.run_grid(questions, GridPlan(trials=1), cells), online)
    assert fourth["method"].to_list() == [m for m in ("fds", "online fds", "online ds", "online hybrid") for _ in range(4)]
    assert fourth["accuracy paper"].null_count() == 8


def learned_in_halves(folder, model):
    """The accuracy of a stream that begins with a fit of half the tasks, over all votes of a set, by hand."""
    votes, truth = (pl.read_csv(folder / f"{name}.csv", infer_schema=False) for name in ("votes", "truth"))
    tasks = votes["task"].unique(maintain_order=True)
    begun = votes["task"].is_in(tasks[: len(tasks) // 2].to_list())
    online = adj.Online.from_result(adj.aggregate(votes.filter(begun), model=model))
    online.learn_many(votes.filter(~begun))
    found, true = dict(online.labels().select("task", "label").iter_rows()), dict(truth.iter_rows())
    return sum(found[task] == true[task] for task in true) / len(true)


@pytest.fixture
def affect(tmp_path):
    """A data folder with a made-up multi-label set, of which all workers know all but three of the twelve tasks."""
    folder = tmp_path / "affect" / "snow_affect_ml50"
    folder.mkdir(parents=True)
    lines = [f"{t},w{w},{'joy|fear' if t % 4 else 'joy'}" for t in range(12) for w in range(7)]
    folder.joinpath("votes.csv").write_text("\n".join(["task,worker,label", *lines]) + "\n")
    folder.joinpath("truth.csv").write_text("\n".join(["task,label", *(f"{t},joy|fear" for t in range(12))]) + "\n")
    return folder.parent


def test_table_5(affect, tmp_path):
    found = experiments.choose_options(affect, CellFolder(tmp_path / "c"))
    assert found["accuracy"].to_list() == pytest.approx([21 / 24] * 3)  # of 12 tasks with two options each
    table = tables.table5(found)
    assert table["accuracy ours"].to_list() == pytest.approx(found["accuracy"].to_list())
    assert table["iterations paper"].to_list() == [29.6, 2, 5.8]
