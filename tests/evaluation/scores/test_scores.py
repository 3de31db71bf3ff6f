"""Numeric scores: equal to the oracle, indifferent to units and order, honest where nothing tells."""

import importlib
import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import adjudge as adj
import oracle_scores
from adjudge.evaluation.scores import fit as fitting
from adjudge.kernels import cpu, scores_reference

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def panel(seed=0, items=200, judges=15, per_item=5):
    rng = np.random.default_rng(seed)
    truth, bias, slope = rng.normal(5, 2, items), rng.normal(0, 1, judges), rng.normal(1, 0.2, judges)
    noise = np.exp(rng.normal(np.log(1.5), 0.4, judges))
    item = np.repeat(np.arange(items), per_item)
    judge = np.concatenate([rng.permutation(judges)[:per_item] for _ in range(items)])
    y = 5 + bias[judge] + slope[judge] * (truth[item] - 5) + rng.normal(size=len(item)) * noise[judge]
    return item, judge, y, truth


def frame(item, judge, y):
    return pl.DataFrame({"task": item, "worker": judge, "score": y})


def cases():
    item, judge, y, _ = panel()
    rng = np.random.default_rng(1)
    yield "plain", (item, judge, y)
    yield "grades", (item, judge, np.clip(y.round(), 1, 10))
    yield "gross errors", (item, judge, np.where(rng.random(len(y)) < 0.02, 1000.0, y))
    yield "far from zero", (item, judge, 1e4 * y + 3e6)
    yield "odd judges", (item, judge, np.where(judge == 0, 7.0, np.where(judge == 1, 10 - y, y)))


@pytest.mark.parametrize("kernels", [scores_reference, cpu.compiled()], ids=["reference", "compiled"])
@pytest.mark.parametrize(("item", "judge", "y"), [case for _, case in cases()], ids=[name for name, _ in cases()])
def test_equal_to_the_oracle(item, judge, y, kernels):
    wanted = oracle_scores.fit(item, judge, y)
    table = adj.scores(frame(item, judge, y)).table
    found = fitting.fit(table.arrays, judge.max() + 1, kernels=kernels)
    size = np.abs(wanted["score"]).max()
    assert found.passes == wanted["passes"]
    for name in ("score", "variance", "clipped", "spread"):
        np.testing.assert_allclose(getattr(found, name), wanted[name], rtol=1e-8, atol=1e-8 * size)
    for name in ("bias", "slope", "noise", "constant"):
        np.testing.assert_allclose(getattr(found.judges, name), wanted[name], rtol=1e-8, atol=1e-8 * size)
    np.testing.assert_allclose(found.agreement, wanted["agreement"], atol=1e-8)


def test_groups_are_one_voice():
    item, judge, y, _ = panel()
    team = judge.max() + 1
    wanted = oracle_scores.fit(item, judge, y, np.where(np.arange(team) < 6, 0, np.arange(team)))
    found = adj.scores(frame(item, judge, y), groups=dict.fromkeys(range(6), "team"))
    np.testing.assert_allclose(found.score, wanted["score"], atol=1e-8)
    np.testing.assert_allclose(found.variance, wanted["variance"], atol=1e-8)
    assert (found.variance >= adj.scores(frame(item, judge, y)).variance - 1e-12).all()


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    rng = np.random.default_rng(0)
    item, judge = np.repeat(np.arange(40_000), 5), rng.integers(0, 60, 200_000)
    y = rng.normal(size=40_000)[item] + rng.normal(size=200_000)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(fitting, "cores", lambda threads=threads: threads)
        found.append(adj.scores(frame(item, judge, y)))
    assert all((one.score == found[0].score).all() and one.facts == found[0].facts for one in found)


def test_neither_units_nor_order_of_rows_matter():
    item, judge, y, _ = panel()
    plain = adj.scores(frame(item, judge, y))
    moved = adj.scores(frame(item, judge, 10 * y + 3))
    np.testing.assert_allclose(moved.score, 10 * plain.score + 3, atol=1e-8)
    np.testing.assert_allclose(moved.judges["slope"], plain.judges["slope"], atol=1e-8)
    np.testing.assert_allclose(moved.judges["agreement"], plain.judges["agreement"], atol=1e-8)
    shuffled = adj.scores(frame(item, judge, y).sample(fraction=1, shuffle=True, seed=1))
    both = plain.items.join(shuffled.items, on="task")
    np.testing.assert_allclose(both["score"], both["score_right"], atol=1e-8)
    np.testing.assert_allclose(shuffled.judges["bias"], plain.judges["bias"], atol=1e-8)


def test_better_than_means_and_unmoved_by_gross_errors():
    gained = []
    for seed in range(5):
        item, judge, y, truth = panel(seed, 400, 30, 6)
        mean = np.bincount(item, y) / np.bincount(item)
        found = adj.scores(frame(item, judge, y)).score
        gained.append(np.corrcoef(found, truth)[0, 1] - np.corrcoef(mean, truth)[0, 1])
        spoilt = np.where(np.random.default_rng(seed).random(len(y)) < 0.02, 1000.0, y)
        robust = adj.scores(frame(item, judge, spoilt))
        assert np.corrcoef(robust.score, truth)[0, 1] > 0.92
        assert 0 <= robust.items["clipped"].sum() - (spoilt == 1000).sum() <= 2
        assert robust.facts["units"] == "shared"
    assert min(gained) > 0.01


def test_intervals_hold_what_they_should(monkeypatch):
    """A hidden score, and the truth with 20 gold scores, in 90% intervals; benchmarks/scores.py counts 200 panels."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    simulate = importlib.import_module("scores")
    assert Path(simulate.__file__).parent == BENCHMARKS
    found = [simulate.run(seed) for seed in range(25)]
    sys.modules.pop("scores")
    assert 0.85 < np.mean([one["hidden score"] for one in found]) < 0.93
    assert 0.86 < np.mean([one["truth, 20 gold"] for one in found]) < 0.93
    assert np.mean([one["r with 2% gross errors"] for one in found]) > 0.94
    assert all(one["r of scores"] > one["r of means"] - 0.01 for one in found)


def test_ranges_that_differ():
    item, judge, y, truth = panel()
    ranges = np.array([0.1, 1.0, 10.0])[judge % 3]
    found = adj.scores(frame(item, judge, y * ranges))
    assert found.facts["units"] == "own"
    assert "more than fivefold" in str(found)
    assert np.corrcoef(found.score, truth)[0, 1] > 0.95
    assert np.corrcoef(adj.scores(frame(item, judge, y * ranges), units="shared").score, truth)[0, 1] < 0.92
    assert adj.scores(frame(item, judge, y)).facts["units"] == "shared"


def test_gold_scores_put_items_on_their_scale():
    item, judge, y, truth = panel(items=300)
    gold = {task: 100 * float(truth[task]) for task in range(30)}
    found = adj.scores(frame(item, judge, y), gold=gold)
    assert np.abs(found.items["score"].to_numpy()[30:] - 100 * truth[30:]).mean() < 80
    assert found.facts["validity_from"] == "gold"
    assert 0.6 < found.facts["validity"] <= 1.0
    shift = adj.scores(frame(item, judge, y), gold={0: 50.0})  # too few for more than a shift
    np.testing.assert_allclose(np.diff(shift.items["score"]), np.diff(found.score), atol=1e-8)
    with pytest.raises(adj.InputError, match="more than one score"):
        adj.scores(frame(item, judge, y), gold=pl.DataFrame({"task": [1, 1], "truth": [2.0, 3.0]}))
    with pytest.raises(adj.InputError, match="none of the 1 tasks of the gold has scores"):
        adj.scores(frame(item, judge, y), gold={"nowhere": 1.5})


def test_labels_by_a_threshold_and_by_gold_labels():
    item, judge, y, truth = panel(items=300)
    found = adj.scores(frame(item, judge, y), threshold=5)
    assert (found.items["label"] == (found.items["score"] >= 5)).all()
    assert found.items["probability"].is_between(0, 1).all()
    sure = adj.scores(frame(item, judge, y), threshold=5, validity=1).items["probability"]
    assert (np.abs(sure - 0.5) >= np.abs(found.items["probability"] - 0.5) - 1e-12).all()
    gold = {task: bool(truth[task] > 5) for task in range(40)}
    by_gold = adj.scores(frame(item, judge, y), gold=gold)
    assert (by_gold.items["label"].to_numpy()[40:] == (truth[40:] > 5)).mean() > 0.8
    written = pl.DataFrame({"task": list(gold), "label": [str(label).lower() for label in gold.values()]})
    assert adj.scores(frame(item, judge, y), gold=written).items.equals(by_gold.items)


def test_degenerate_panels():
    alone = adj.scores([(n, "ann", n + 0.5) for n in range(9)])
    assert alone.items["score"].to_list() == [n + 0.5 for n in range(9)]
    assert alone.items["low"].null_count() == 9
    one = adj.scores([(1, "a", 1.0), (1, "b", 2.0), (1, "c", 3.0)])
    assert one.items["score"].item() == 2.0
    assert one.variance[0] == pytest.approx(1 / 3)
    same = adj.scores([(n, judge, 5.0) for n in range(3) for judge in "ab"])
    assert same.items["score"].to_list() == [5.0] * 3
    assert same.items["low"].null_count() == 3
    assert same.judges["constant"].all()
    item, judge, y, _ = panel()
    odd = adj.scores(frame(item, judge, np.where(judge == 0, 7.0, np.where(judge == 1, 10 - y, y))))
    assert odd.judges["constant"].to_list() == [n == 0 for n in range(15)]
    assert odd.judges["slope"][0] == 0
    assert odd.judges["reversed"].to_list() == [n == 1 for n in range(15)]
    apart = [
        (task, judge, level + task % 2 + 0.1 * judge)
        for level in (1, 6)
        for task in (level, level + 1)
        for judge in (level, 9 + level)
    ]
    with pytest.warns(adj.SuspiciousVotes, match="2 panels that share no item"):
        assert np.isfinite(adj.scores(apart).score).all()
    rng = np.random.default_rng(0)
    with pytest.warns(adj.SuspiciousVotes, match="hardly agree beyond chance"):
        adj.scores(frame(item, judge, rng.normal(size=len(item))))


def test_reading(tmp_path):
    item, judge, y, _ = panel(items=40)
    plain = adj.scores(frame(item, judge, y))
    file = tmp_path / "scores.csv"
    frame(item, judge, y).rename({"task": "item", "worker": "judge_model", "score": "rating"}).write_csv(file)
    assert str(adj.scores(file).understood) == "table (csv): task=item, worker=judge_model, score=rating; 200 votes"
    np.testing.assert_allclose(adj.scores(file).score, plain.score, atol=1e-8)
    wide = frame(item, judge, y).pivot(on="worker", index="task", values="score")
    np.testing.assert_allclose(adj.scores(wide, wide=True).score, plain.score, atol=1e-8)
    commas = frame(item, judge, y).with_columns(pl.col("score").cast(pl.String).str.replace(".", ",", literal=True))
    np.testing.assert_allclose(adj.scores(commas).score, plain.score, atol=1e-8)
    pandas = adj.scores(frame(item, judge, y).to_pandas()).items
    assert type(pandas).__module__.startswith("pandas")
    holes = [(0, "a", 1.5), (0, "b", None), (0, "c", -1), (1, "a", 2.5), (1, "b", float("nan")), (2, "b", None)]
    with pytest.warns(adj.MissingLabels, match="3 of 6 lines have no score"):
        found = adj.scores(holes)
    assert found.items["task"].to_list() == [0, 1, 2]
    assert found.items["n"].to_list() == [2, 1, 0]
    assert adj.scores([line for line in holes if line[2] is not None], abstain=-1).items["n"].to_list() == [1, 1]
    twice = [(0, "a", 1.0), (0, "a", 3.0), (0, "b", 2.0), (1, "a", 1.0)]
    assert adj.scores(twice, duplicates="last").items["n"].to_list() == [2, 1]


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ([(1, "a", 1.5), (1, "b", "x")], {}, "score in row 2 is 'x': give a number"),
        ([(1, "a", 1.5), (1, "b", float("inf"))], {}, "score in row 2 is inf"),
        ([(1, "a", True)], {}, "score in row 1 is 'True'"),
        ([], {}, "no scores found"),
        ([(1, "a", 1.5)], {"labels": [1, 2]}, "labels is for labels"),
        ([(1, "a", 1.5)], {"units": "metres"}, "unknown units 'metres'"),
        ([(1, "a", 1.5)], {"validity": 0}, "validity is 0"),
        ([(1, "a", 1.5)], {"threshold": "high"}, "threshold is 'high'"),
        ([(1, "a", 1.5)], {"groups": "answers_like"}, "compares labels"),
        (pl.DataFrame({"task": [1], "worker": [2], "score": [[1.0]]}), {}, "the score column holds List"),
    ],
)
def test_bad_input_is_named(source, options, message):
    with pytest.raises((adj.InputError, adj.OptionError), match=message):
        adj.scores(source, **options)


def test_a_saved_panel_predicts(tmp_path):
    item, judge, y, truth = panel()
    whole = frame(item, judge, y)
    found = adj.scores(whole, gold=dict(enumerate(truth[:20].tolist())), groups={0: "team", 1: "team"}, threshold=6)
    found.save(tmp_path / "panel.adjudge")
    known = adj.load(tmp_path / "panel.adjudge")
    again = known.predict(whole)
    np.testing.assert_allclose(again.items["score"], found.items["score"], atol=0.02)  # one step further
    assert again.items.columns == found.items.columns
    assert known.judges_frame().equals(found.judges)
    assert again.items.equals(found.predict(whole).items)
    with pytest.warns(adj.UnknownWorkers, match="1 judges are new"):
        assert known.predict([("new", "nobody", 5.0), ("new", "3", 5.0)]).items["n"].to_list() == [2]
    with pytest.raises(adj.InputError, match="adj.load reads it"):
        adj.Online.load(tmp_path / "panel.adjudge")
    blank = adj.scores(frame(item, judge, y * np.array([0.1, 1, 10])[judge % 3]))
    blank.save(tmp_path / "own.adjudge")
    np.testing.assert_allclose(
        adj.load(tmp_path / "own.adjudge").predict(frame(item, judge, y * np.array([0.1, 1, 10])[judge % 3])).score,
        blank.score,
        atol=0.02,
    )


def test_damaged_panels_are_refused(tmp_path):
    from adjudge.evaluation.scores import saved
    from adjudge.io import container

    item, judge, y, _ = panel()
    adj.scores(frame(item, judge, y)).save(tmp_path / "panel.adjudge")
    meta, arrays = container.load(tmp_path / "panel.adjudge", saved.PANEL_KIND, saved.VERSION)
    forged = [
        ({"spread": -1.0}, {}),
        ({"spread": float("nan")}, {}),
        ({"kind": "magic"}, {}),
        ({"clip": [3.0, 1.0]}, {}),
        ({"gold": {"start": 1.0}}, {}),
        ({"label_line": [1.0]}, {}),
        ({}, {"noise": np.zeros(15)}),
        ({}, {"bias": np.full(15, np.nan)}),
        ({}, {"worker_ids": np.zeros(15, np.int64)}),
        ({}, {"judge_mean": np.zeros(15)}),
    ]
    for changed, replaced in forged:
        container.save(tmp_path / "forged.adjudge", saved.PANEL_KIND, saved.VERSION, meta | changed, {**arrays, **replaced})
        with pytest.raises(adj.InputError, match="is not valid"):
            adj.load(tmp_path / "forged.adjudge")


def test_pictures_page_and_card(tmp_path):
    item, judge, y, _ = panel()
    found = adj.scores(frame(item, judge, np.where(judge == 1, 10 - y, y)))
    assert "turns the scale round" in found.plot.judges().sentence
    assert found.plot.items().svg().count("<use") >= 30
    assert len(found.plot.judges().altair().to_dict()) > 1
    found.report(tmp_path / "scores.html", title="Our scores")
    page = (tmp_path / "scores.html").read_text()
    assert "Our scores" in page
    assert "What does each judge do to the scale?" in page
    assert "validity of 0.5" in page
    hostile = adj.scores([("<script>", "<b>", 1.0), ("<script>", "c", 2.0), ("d", "<b>", 3.0), ("d", "c", 4.5)])
    hostile.report(tmp_path / "hostile.html")
    assert "<script>" not in (tmp_path / "hostile.html").read_text().replace("<script type", "")
    assert "validity" in found._repr_html_()
    for small in ([(1, "a", 2.0)], [(1, "a", 2.0), (1, "b", 2.0)]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            adj.scores(small).report(tmp_path / "small.html")


def test_gold_of_one_score_is_refused():
    item, judge, y, _ = panel(items=20)
    with pytest.raises(adj.InputError, match="all 10 gold scores are 5, which shows no scale"):
        adj.scores(frame(item, judge, y), gold=dict.fromkeys(range(10), 5.0))
