"""The tables of trust in docs equal their csv files, and the prose around them agrees."""

import importlib.util
import sys
from pathlib import Path

import polars as pl
import pytest

import adjudge as adj

ROOT = Path(__file__).parents[1]
MODELS = ROOT / "benchmarks" / "measured" / "models"
PAGE = ROOT / "docs" / "can-you-trust-it.md"


def load(name):
    """Load a module of benchmarks/, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tables = load("trust_tables")


@pytest.fixture(scope="module")
def trust():
    """The bench itself, which imports its tables as a neighbour."""
    sys.modules["trust_tables"] = tables
    yield load("trust")
    del sys.modules["trust_tables"]


def test_the_page_has_the_tables_of_the_csv_files():
    page = PAGE.read_text()
    assert tables.PART.findall(page)
    assert {name for _, name, _ in tables.PART.findall(page)} == set(tables.PARTS)
    assert tables.filled(page, MODELS) == page
    assert tables.readme(MODELS) == (MODELS / "README.md").read_text()


def test_a_page_with_other_figures_is_found(tmp_path):
    for path in MODELS.glob("*.csv"):
        frame = pl.read_csv(path)
        if path.stem == "trust":
            frame = frame.with_columns(pl.col("accuracy", "against_mv") + 0.01)
        frame.write_csv(tmp_path / path.name)
    page = PAGE.read_text()
    assert tables.filled(page, tmp_path) != page
    assert tables.readme(tmp_path) != (MODELS / "README.md").read_text()


def test_the_prose_is_true():
    found = pl.read_csv(MODELS / "trust.csv")
    real = found.filter(~tables.is_simulated())
    assert real["set"].n_unique() == 9  # "nine public sets"
    honest = real.filter(model="auto", confidence="honest").with_columns(ratio=pl.col("expected_wrong") / pl.col("wrong"))
    assert honest.filter(~pl.col("ratio").is_between(0.6, 1.6))["set"].to_list() == ["bm"]  # "one set in nine breaks it"
    assert honest.filter(set="bm")["ratio"].item() < 0.4  # "a third of the wrong labels at best"
    assert real.filter(set="bm", model="auto")["accuracy"].is_between(0.65, 0.75).all()  # "seven cases of ten"
    apart = found.filter(set="simulated, independent errors", confidence="honest", model="auto")
    assert (apart["expected_wrong"] / apart["wrong"]).is_between(2.5, 4).all()  # "three to four times"
    harmed = real.filter((pl.col("against_mv") < -0.01) & (pl.col("against_mv") < -2 * pl.col("error")))
    assert set(harmed["model"]) == {"one-coin", "glad", "iwmv"}
    assert set(harmed["set"]) == {"trec2010"}


def test_what_was_promised_is_kept():
    found = pl.read_csv(MODELS / "trust.csv").filter(~tables.is_simulated())
    auto, fds = (tables.overall(tables.of(found, (model, "honest"))) for model in ("auto", "fds"))
    assert auto["accuracy"] >= fds["accuracy"]
    assert auto["worst"] >= -1.5
    assert auto["harmed"] == 0
    assert auto["ece"] <= 0.11
    assert auto["in_range"] / auto["sets"] >= 0.6
    inside, *_ = tables.covered(tables.of(pl.read_csv(MODELS / "workers.csv").filter(~tables.is_simulated()), tables.DEFAULT))
    assert inside >= 0.75
    toys = pl.read_csv(MODELS / "toys.csv").filter(confidence="honest")
    assert toys["highest"].to_list() == pytest.approx([0.5] * len(toys))
    assert (toys["ties"] == toys["tasks"]).all()


def test_paired_errors_by_hand(trust):
    right, baseline = pl.Series([1.0, 1.0, 0.0, 0.5]).to_numpy(), pl.Series([1.0, 0.0, 0.0, 0.0]).to_numpy()
    found = trust.against(right, baseline)
    assert found["against_mv"] == pytest.approx(1.5 / 4)
    variance = sum((x - 0.375) ** 2 for x in (0, 1, 0, 0.5)) / 3
    assert found["error"] == pytest.approx((variance / 4) ** 0.5)


def test_confidence_ranks_errors_by_hand(trust):
    right = pl.Series([True, True, False, False]).to_numpy()
    assert trust.ranked(right, pl.Series([0.9, 0.6, 0.6, 0.5]).to_numpy()) == pytest.approx(3.5 / 4)
    found = trust.figures(right, pl.Series([0.95, 0.85, 0.65, 0.55]).to_numpy(), pl.Series([0.95, 0.85, 0.2, 0.1]).to_numpy())
    assert found["ece"] == pytest.approx((0.05 + 0.15 + 0.65 + 0.55) / 4)
    assert (found["expected_wrong"], found["wrong"]) == (pytest.approx(1.0), 2)


def test_what_truth_says_of_workers(trust):
    tasks = [f"t{n}" for n in range(40)]
    truth = pl.DataFrame({"task": tasks, "true": ["a", "b"] * 20})
    answers = {
        "good": ["a", "b"] * 20,
        "always a": ["a"] * 40,
        "contrary": ["b", "a"] * 20,
        "few": ["a", "b"] * 5,
        "weak 1": ["a", "a", "a", "b", "b", "b", "b", "b"] * 5,
        "weak 2": ["b", "b", "a", "b", "a", "b", "b", "b"] * 5,
    }
    rows = [(task, worker, label) for worker, said in answers.items() for task, label in zip(tasks, said, strict=False)]
    votes = pl.DataFrame(rows, schema=["task", "worker", "label"], orient="row")

    class Result:
        labels = pl.DataFrame({"task": tasks, "label": ["a", "b", "b", "b"] * 10})

    found = {row["worker"]: row for row in trust.real_workers(votes, truth, Result).iter_rows(named=True)}
    assert "few" not in found
    assert (found["good"]["right"], found["good"]["expert"]) == (1.0, True)
    assert found["good"]["z"] > trust.SURE
    assert found["contrary"]["z"] < -trust.SURE
    assert found["always a"]["z"] == pytest.approx(0.0)  # half are right, as chance has it


def test_a_crowd_is_measured(trust, monkeypatch):
    monkeypatch.setattr(trust, "SEEDS", range(2))
    crowd = adj.simulate(tasks=200, workers=12, votes_per_task=5, seed=3)
    truth = crowd.truth.rename({"label": "true"})
    right, means = trust.measured(crowd.votes, truth, "ds")
    assert len(right) == 200
    assert means["honest"]["accuracy"] == means["posterior"]["accuracy"] == pytest.approx(right.mean())
    result = adj.aggregate(crowd.votes, model="ds", confidence="posterior")  # no tie: both seeds agree
    assert means["posterior"]["expected_wrong"] == pytest.approx(result.expected_errors)
    assert means["honest"]["expected_wrong"] > means["posterior"]["expected_wrong"]
    intervals, words = trust.workers(crowd.votes, truth, "auto", "honest")
    assert sum(row["workers"] for row in intervals) == sum(row["judged"] for row in words) == 12
    assert sum(row["inside"] for row in intervals) >= 9
    assert {row["verdict"] for row in words} <= {"informative", "unclear", "spammer"}


def test_verdicts_are_the_five_words():
    words = pl.read_csv(MODELS / "verdicts.csv")["verdict"].unique()
    assert set(words) <= {"informative", "unclear", "spammer", "adversary", "copy"}
