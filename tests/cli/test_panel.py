import json

import polars as pl
import pytest

import adjudge as adj


@pytest.fixture
def judges(tmp_path):
    crowd = adj.simulate(tasks=80, workers=6, votes_per_task=6, seed=1)
    crowd.votes.write_csv(tmp_path / "votes.csv")
    crowd.truth.write_csv(tmp_path / "truth.csv")
    pl.DataFrame({"worker": [f"w{n}" for n in range(6)], "cost": [1.0 + n for n in range(6)]}).write_csv(tmp_path / "costs.csv")
    return tmp_path


def test_the_answer_and_the_tables(run, judges):
    done = run("panel", judges / "votes.csv", "--truth", judges / "truth.csv", "--subsets", 5)
    assert (done.code, done.err) == (0, "")
    wanted = adj.panel(judges / "votes.csv", truth=judges / "truth.csv", subsets=5)
    lines = done.out.splitlines()
    assert lines[0].startswith("read ")
    assert lines[1] == wanted.sentences()[0]
    assert "panels of random judges" in done.out
    assert "what a judge adds, in points of accuracy" in done.out
    assert "chosen panels, measured on tasks that the choice has not seen" in done.out
    assert "cost per task" not in done.out
    assert (
        run("panel", judges / "votes.csv", "--subsets", 5, "--quiet").out
        == f"{adj.panel(judges / 'votes.csv', subsets=5).enough}\n"
    )


def test_files_and_json(run, judges):
    out = {name: judges / f"{name}.csv" for name in ("curve", "judges", "panels")}
    files = [part for name, path in out.items() for part in (f"--{name}", path)]
    done = run(
        "panel",
        judges / "votes.csv",
        "--cost",
        judges / "costs.csv",
        "--budget",
        6,
        "--sizes",
        "1,3",
        "--subsets",
        4,
        *files,
        "--json",
    )
    assert done.code == 0
    document = json.loads(done.out)
    assert document["best"]["cost"] <= 6
    assert document["budget"] == 6
    assert document["understood"]["votes"] == 480
    frames = {name: pl.read_csv(path) for name, path in out.items()}
    assert frames["curve"]["size"].to_list() == [1, 3, 6]
    assert frames["judges"].columns[:3] == ["worker", "votes", "adds"]
    assert json.loads(frames["panels"]["workers"][-1]) == document["panels"][-1]["workers"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sizes", "1,x"], "--sizes is '1,x': give whole numbers joined by commas, like 1,3,5"),
        (["--sizes", "9"], "sizes is 9: give a whole number of at least 1 and at most 6"),
        (["--budget", "1"], "budget is 1.0, but no cost is known: say what a vote costs with cost=… (--cost)"),
        (["--cost", "missing.csv"], "missing.csv"),
        (["--cost", "-1"], "cost is -1.0: give a number of at least 0"),
        (["--by", "people"], "unknown by 'people'"),
        (["--subsets", "0"], "subsets is 0"),
    ],
)
def test_bad_input_is_one_line(run, judges, arguments, message):
    done = run("panel", judges / "votes.csv", "--judges", judges / "out.csv", *arguments)
    assert done.code == 1
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not (judges / "out.csv").exists()


def test_it_does_not_write_over_what_it_reads(run, judges):
    done = run("panel", judges / "votes.csv", "--cost", judges / "costs.csv", "--judges", judges / "costs.csv")
    assert done.code == 1
    assert "the costs" in done.err


def test_costs_can_be_typed_by_worker(run, judges):
    typed = ",".join(f"w{n}={1.0 + n}" for n in range(6))
    same = [
        run("panel", judges / "votes.csv", "--subsets", 2, "--json", "--cost", cost).out for cost in (typed, judges / "costs.csv")
    ]
    assert same[0] == same[1]
    done = run("panel", judges / "votes.csv", "--cost", "much")
    assert (done.code, done.err.strip()) == (
        1,
        "adjudge: --cost is 'much': give a number, worker=number joined by commas, or a table worker, cost",
    )
