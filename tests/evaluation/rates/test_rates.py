"""`adj.rates` as people call it: groups from any source, gold, differences, and errors on bad input."""

import json

import numpy as np
import polars as pl
import pytest

import adjudge as adj

NAMES = ["bad", "good"]
NEW = adj.simulate(tasks=200, workers=9, labels=2, label_names=NAMES, label_weights=[2, 8], skill=0.85, seed=1)
OLD = adj.simulate(tasks=200, workers=9, labels=2, label_names=NAMES, label_weights=[5, 5], confusions=NEW.confusions, seed=2)
VOTES = pl.concat(
    one.votes.select(pl.format(f"{name} {{}}", "task").alias("task"), "worker", "label", system=pl.lit(name), prompt="task")
    for name, one in (("new", NEW), ("old", OLD))
)
TRUTH = {f"{name} {task}": label for name, one in (("new", NEW), ("old", OLD)) for task, label in one.truth.rows()}
SYSTEM = {task: task[:3] for task in TRUTH}
PLAIN = VOTES.select("task", "worker", "label")


def some_gold(number, *, seed=0, systems=("new", "old")):
    rng = np.random.default_rng(seed)
    chosen = [t for name in systems for t in rng.permutation([t for t in TRUTH if t[:3] == name])[:number]]
    return {str(task): TRUTH[task] for task in chosen}


@pytest.fixture(scope="module")
def found():
    return adj.rates(PLAIN, by=SYSTEM)


def test_the_frames(found):
    assert found.rates.columns == ["group", "label", "share", "low", "high", "tasks", "gold", "naive", "method"]
    assert found.rates.select("group", "label", "tasks", "gold", "method").rows() == [
        (group, label, 200, 0, "votes") for group in ("new", "old") for label in NAMES
    ]
    good = dict(found.rates.filter(label="good").select("group", pl.struct("share", "low", "high")).iter_rows())
    assert good["new"]["low"] < 0.8 < good["new"]["high"]
    assert good["old"]["low"] < 0.5 < good["old"]["high"]
    sums = found.rates.group_by("group").agg(pl.col("share", "naive").sum())
    assert sums.drop("group").to_numpy() == pytest.approx(np.ones((2, 2)))
    labels = adj.aggregate(PLAIN).labels.filter(pl.col("task").str.starts_with("new"))
    naive = found.rates.filter(group="new", label="good")["naive"].item()
    assert naive == pytest.approx((labels["label"] == "good").mean())
    assert found.gold_needed.select("group", "gold").rows() == [("new", 0), ("old", 0)]
    assert repr(found) == "Rates(2 groups, 2 labels, 400 tasks, by votes)"
    assert "by votes alone" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["rates"][0]["group"] == "new"
    assert "Rates(2 groups" in found._repr_html_()


def test_groups_are_found_wherever_they_stand(found, tmp_path):
    votes = VOTES.drop("prompt")
    votes.write_csv(tmp_path / "votes.csv")
    table = pl.DataFrame({"task": list(SYSTEM), "system": list(SYSTEM.values())})
    table.write_csv(tmp_path / "systems.csv")
    ways = [
        adj.rates(votes, by="system"),
        adj.rates(tmp_path / "votes.csv", by="system"),
        adj.rates(PLAIN, by=table),
        adj.rates(adj.read(PLAIN), by=tmp_path / "systems.csv"),
        adj.rates(PLAIN, by=str(tmp_path / "systems.csv")),
    ]
    for one in ways:
        assert one.rates.equals(found.rates)
        assert one.differences.equals(found.differences)
    pandas = adj.rates(VOTES.to_pandas(), by="system")
    assert type(pandas.rates).__module__.startswith("pandas")
    assert type(pandas.differences).__module__.startswith("pandas")
    assert adj.rates(PLAIN).rates["group"].unique().to_list() == ["all"]
    weeks = adj.rates(PLAIN, by={task: 10 if group == "new" else 9 for task, group in SYSTEM.items()})
    assert weeks.rates["group"].to_list() == [9, 9, 10, 10]


def test_a_column_may_be_called_like_a_folder_or_have_a_dot(found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "system").mkdir()
    assert adj.rates(VOTES, by="system").rates.equals(found.rates)
    assert adj.rates(VOTES.rename({"system": "model.version"}), by="model.version").rates.equals(found.rates)
    with pytest.raises(adj.InputError, match="cannot read systems.csv"):
        adj.rates(VOTES, by="systems.csv")


def test_differences_and_pairs(found):
    [one] = found.differences.filter(label="good").rows(named=True)
    shares = dict(found.rates.filter(label="good").select("group", "share").iter_rows())
    assert (one["group"], one["other"], one["pairs"]) == ("new", "old", 0)
    assert one["difference"] == pytest.approx(shares["new"] - shares["old"])
    assert one["low"] < 0.3 < one["high"]
    assert one["low"] > 0
    assert one["p_value"] < 0.01
    for paired in (
        adj.rates(VOTES, by="system", cluster="prompt"),
        adj.rates(VOTES, by=VOTES.unique("task").select("task", group="system", prompt="prompt"), cluster="prompt"),
    ):
        assert set(paired.differences["pairs"]) == {200}
    three = {task: "abc"[n % 3] for n, task in enumerate(TRUTH)}
    every, against = adj.rates(PLAIN, by=three), adj.rates(PLAIN, by=three, baseline="b")
    assert every.differences.filter(label="bad").select("group", "other").rows() == [("a", "b"), ("a", "c"), ("b", "c")]
    assert against.differences.filter(label="bad").select("group", "other").rows() == [("a", "b"), ("c", "b")]
    assert not len(adj.rates(PLAIN).differences)
    many = adj.rates(PLAIN, by={task: n % 100 for n, task in enumerate(TRUTH)})
    assert not len(many.differences)
    assert "100 groups are too many" in str(many)


def test_gold_corrects_and_is_not_learned(found):
    gold = some_gold(40)
    corrected = adj.rates(PLAIN, by=SYSTEM, gold=gold)
    assert set(corrected.rates["method"]) == {"ppi"}
    assert corrected.rates["naive"].equals(found.rates["naive"]), "the fit has not seen the gold"
    assert set(corrected.rates["gold"]) == {40}
    wrong = {task: "good" if label == "bad" else "bad" for task, label in gold.items()}
    turned = adj.rates(PLAIN, by=SYSTEM, gold=wrong)
    assert turned.rates.filter(label="good", group="new")["share"].item() < 0.4
    every = adj.rates(PLAIN, by=SYSTEM, gold=TRUTH, sample=False).rates.filter(group="old", label="good").row(0, named=True)
    real = np.mean([label == "good" for task, label in TRUTH.items() if task[:3] == "old"])
    assert (every["share"], every["low"], every["high"], every["method"]) == (pytest.approx(real),) * 3 + ("gold",)
    one_only = adj.rates(PLAIN, by=SYSTEM, gold=some_gold(60, systems=("new",)))
    assert one_only.rates["method"].to_list() == ["ppi"] * 2 + ["rogan-gladen"] * 2
    assert "err alike in every group" in str(one_only)


def test_too_little_gold_is_reported_and_not_used(found):
    few = adj.rates(PLAIN, by=SYSTEM, gold=some_gold(4, systems=("old",)))
    assert few.rates.drop("gold").equals(found.rates.drop("gold"))
    assert few.facts["few_gold"] == ["old"]
    assert "fewer than 10 known labels, which are too few to correct by: old" in str(few)


def test_what_is_left_out_is_counted():
    by = {task: group for task, group in SYSTEM.items() if not task.endswith("7")} | {"unseen": "next"}
    with pytest.warns(adj.SuspiciousVotes, match="of the gold have no votes"):
        some = adj.rates(PLAIN, by=by, gold={"x": "good", "y": "bad", "new t0": "good"})
    assert some.facts["without_group"] == 40
    assert some.facts["empty_groups"] == ["next"]
    assert some.facts["gold_unused"] == 2
    said = str(some)
    assert "40 of 400 tasks are in no group, and left out" in said
    assert "1 group without votes left out: next" in said
    assert "2 known labels are of tasks without votes" in said


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (PLAIN, {"by": "sistem"}, "there is no column 'sistem' for the group; the columns are: task, worker, label"),
        (adj.read(PLAIN), {"by": "system"}, "by is 'system', which is not a file and so must be a column, but these votes"),
        (iter(PLAIN.rows()), {"by": "system"}, "can be read only once"),
        (PLAIN.rows(), {"by": "system"}, "by is 'system', a column, and these votes have none: give a dict task -> group"),
        (PLAIN, {"by": "missing.csv"}, "missing.csv"),
        (PLAIN, {"by": {"a": "x"}}, "none of the 1 tasks of the groups has votes: they have tasks like 'a'"),
        (PLAIN, {"by": {"new t0": None}}, "the groups name no task"),
        (
            pl.concat([VOTES, VOTES.head(1).with_columns(system=pl.lit("old"), worker=pl.lit("w99"))]),
            {"by": "system"},
            "give task 'new t0' more than one group",
        ),
        (PLAIN, {"by": pl.DataFrame({"task": ["new t0"], "a": [1], "b": [2]})}, "call one of them 'group'"),
        (PLAIN, {"by": pl.DataFrame({"task": ["new t0"]})}, "by has no column except the task"),
        (PLAIN, {"by": SYSTEM, "baseline": "v9"}, "baseline is 'v9', which is not a group with votes: choose one of new, old"),
        (PLAIN, {"gold": {"new t0": "ugly"}}, "label 'ugly', which is not among the labels: bad, good"),
        (PLAIN, {"gold": {"zzz": "bad"}}, "none of the 1 tasks of the gold has votes"),
        (PLAIN, {"level": 1.0}, "level is 1.0: give a number of at least 0.5 and at most 0.999"),
        (PLAIN, {"sample": "yes"}, "sample is 'yes': give True or False"),
        (PLAIN, {"seed": -1}, "seed is -1"),
        (PLAIN, {"cluster": {"q": 1}}, "none of the 1 tasks of the clusters has votes"),
        (PLAIN.clear(), {}, "there are no votes"),
    ],
)
@pytest.mark.filterwarnings("ignore::adjudge.SuspiciousVotes")
def test_bad_input_is_one_line(source, options, message):
    with pytest.raises(adj.AdjudgeError) as caught:
        adj.rates(source, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", ["mv", "iwmv", "ds", adj.FastDawidSkene(smoothing=1.0)])
def test_any_model(model):
    share = adj.rates(PLAIN, by=SYSTEM, model=model).rates.filter(label="good")
    assert [low < true < high for low, high, true in zip(share["low"], share["high"], (0.8, 0.5), strict=True)] == [True] * 2


@pytest.mark.parametrize("known", [0, 40, 300])
@pytest.mark.parametrize("sample", [True, False])
def test_the_shares_of_a_group_sum_to_one(known, sample):
    crowd = adj.simulate(tasks=300, workers=9, labels=4, label_weights=[90, 5, 3, 2], skill=0.6, votes_per_task=3, seed=4)
    groups = {task: "even" if int(task[1:]) % 2 == 0 else "odd" for task, _ in crowd.truth.rows()}
    found = adj.rates(crowd.votes, by=groups, gold=dict(crowd.truth.rows()[:known]), sample=sample).rates
    assert found.group_by("group").agg(pl.col("share").sum())["share"].to_list() == pytest.approx([1.0, 1.0], abs=1e-8)
    assert found.select((pl.col("low") <= pl.col("share")) & (pl.col("share") <= pl.col("high"))).to_series().all()


def test_no_interval_is_one_of_all():
    assert adj.rates(PLAIN, level=0.999).sentences()[0].startswith("99.9% intervals")


def test_small_and_odd_groups():
    one = adj.rates([("a", "w", "x"), ("a", "v", "x"), ("b", "w", "y"), ("b", "v", "x")], by={"a": "g", "b": "h"})
    assert one.rates["share"].is_between(0, 1).all()
    assert (one.rates["low"] <= one.rates["share"]).all()
    assert (one.rates["share"] <= one.rates["high"]).all()
    assert (one.rates["high"] - one.rates["low"]).min() > 0.3, "one task tells little"
    declared = adj.rates(PLAIN, labels=["bad", "good", "ugly"]).rates.filter(label="ugly").row(0, named=True)
    assert declared["share"] == declared["low"] == 0.0
    assert 0 < declared["high"] < 0.05
    alone = adj.rates([(n, "w", "x") for n in range(9)])
    assert alone.rates.select("label", "share").rows() == [("x", 1.0)]
    assert alone.rates["low"].item() < 0.95


def test_a_group_that_is_known_and_one_that_is_not():
    known = dict.fromkeys([task for task, label in TRUTH.items() if label == "good"][:15], "good")  # no table of both labels
    groups = {task: "known" if task in known else "open" for task in TRUTH}
    found = adj.rates(PLAIN, by=groups, gold=known, sample=False)
    assert dict(found.rates.select("group", "method").iter_rows()) == {"known": "gold", "open": "votes"}
    assert found.differences.filter(label="good")["low"].item() > 0


def test_the_picture_shows_every_group(found):
    shown = found.plot().svg()
    assert "True share of good per group" in shown
    assert ">new<" in shown
    assert ">old<" in shown
    assert "share of bad" in found.plot(label="bad", theme="dark").svg()
    with pytest.raises(adj.OptionError, match="label is 'ugly': choose one of bad, good"):
        found.plot(label="ugly")


def test_about_nine_in_ten_intervals_hold_the_rate_that_made_the_labels():
    held = []
    for seed in range(24):
        share = (0.5, 0.7, 0.85)[seed % 3]
        crowd = adj.simulate(
            tasks=500, workers=12, labels=2, votes_per_task=5, skill=0.75, label_weights=[1 - share, share], seed=seed
        )
        found = adj.rates(crowd.votes, by={task: int(task[1:]) % 5 for task in crowd.truth["task"]})
        held += [low <= share <= high for low, high in found.rates.filter(label="l1").select("low", "high").iter_rows()]
    assert 0.85 <= np.mean(held) <= 0.985  # 120 intervals, few of them independent: benchmarks/rates_coverage.py has many more


def test_a_column_of_prompts_is_used_and_reported():
    by_itself = adj.rates(VOTES, by="system")
    assert by_itself.facts["clusters"] == 200
    assert "Tasks with the same prompt depend on each other" in str(by_itself)
    assert by_itself.differences.equals(adj.rates(PLAIN, by=SYSTEM, cluster={t: t[4:] for t in SYSTEM}).differences)
    apart = adj.rates(VOTES, by="system", cluster="")
    assert apart.facts["clusters"] is None
    assert apart.differences.equals(adj.rates(PLAIN, by=SYSTEM).differences)
    judge_prompt = VOTES.with_columns(prompt="worker")  # of the judge: a task has several, and is in no cluster
    assert adj.rates(judge_prompt, by="system").facts["clusters"] is None


def test_tasks_of_one_cluster_count_less():
    groups = adj.rates(PLAIN, cluster={task: int(task[5:]) // 4 for task in TRUTH})
    plain = adj.rates(PLAIN)
    width, alone = ((one.rates["high"] - one.rates["low"]).mean() for one in (groups, plain))
    assert width / alone == pytest.approx(1.0, abs=0.25), "clusters at random cost next to nothing"
    alike = {task: f"{TRUTH[task]} {int(task[5:]) // 10}" for task in TRUTH}  # tasks of one cluster have one true label
    gold = {task: TRUTH[task] for task in TRUTH}
    one, other = adj.rates(PLAIN, cluster=alike, gold=gold), adj.rates(PLAIN, gold=gold)
    assert (one.rates["high"] - one.rates["low"]).min() > 2.0 * (other.rates["high"] - other.rates["low"]).max()
    with pytest.raises(adj.InputError, match="too few to tell how tasks of one depend on each other: 5 are needed"):
        adj.rates(PLAIN, cluster=SYSTEM)
