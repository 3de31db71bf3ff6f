"""The table of coverage in docs/rates.md is that of its csv file, and keeps what is promised."""

import importlib.util
from pathlib import Path

import numpy as np
import polars as pl

import adjudge as adj

ROOT = Path(__file__).parents[3]
MEASURED = pl.read_csv(ROOT / "benchmarks" / "measured" / "rates.csv")


def script():
    """benchmarks/rates_coverage.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("rates_coverage", ROOT / "benchmarks" / "rates_coverage.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_table_of_the_csv_file():
    bench, page = script(), (ROOT / "docs" / "rates.md").read_text()
    assert f"<!-- coverage -->\n{bench.table(MEASURED)}<!-- end -->" in page
    other = MEASURED.with_columns(pl.col("population") + 0.01)
    assert bench.table(other) not in page


def test_what_was_promised_is_kept():
    asked = MEASURED.filter("sample")
    for gold in (0, 20):
        assert asked.filter(kind="simulated", gold=gold)["population"].is_between(0.85, 0.95).all()
        assert asked.filter(kind="two systems", gold=gold)["population"].is_between(0.85, 0.95).all()
    real = asked.filter(kind="real")
    assert real["set"].n_unique() == 9
    assert real.filter(gold=0)["population"].mean() >= 0.75
    assert real.filter(gold=20)["population"].mean() >= 0.85
    assert real.filter(gold=20)["population"].min() >= 0.85, "on every set"


def test_the_prose_is_true():
    these = MEASURED.filter(~pl.col("sample"))
    held = {(kind, gold): these.filter(kind=kind, gold=gold)["own"].mean() for kind in ("simulated", "real") for gold in (0, 20)}
    page = " ".join((ROOT / "docs" / "rates.md").read_text().split())
    assert f"{held['simulated', 0]:.0%} of simulated intervals" in page
    assert f"only {held['real', 0]:.0%} on the public sets" in page
    assert f"it is {held['simulated', 20]:.0%} and {held['real', 20]:.0%}" in page
    assert MEASURED.filter(set="bm", gold=0)["population"].max() == 0, "no interval held"


def test_a_group_is_counted_by_hand():
    bench = script()
    votes = [(f"t{n}", f"w{w}", "x" if n < 6 else "y") for n in range(10) for w in range(3)]
    truth = {f"t{n}": "x" if n < 6 else "y" for n in range(10)}
    groups = dict.fromkeys(truth, "g")
    found = adj.rates(votes, by=groups)
    shares = pl.DataFrame({"label": ["x", "y"], "true": [0.99, 0.4]})
    assert bench.held(found, shares, groups, truth).select("population", "own").rows() == [(False, True), (True, True)]
    rng = np.random.default_rng(0)
    cut = bench.groups_of(list(truth), rng, 4)
    assert sorted(cut.values()) == ["g0"] * 4 + ["g1"] * 4
    assert len(bench.known_of(cut, truth, rng, 2)) == 4
