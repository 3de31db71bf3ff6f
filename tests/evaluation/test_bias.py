"""`adj.bias`: effects that were put in are found, those that were not are not, and truth that goes with a column is not taken for bias."""

import json

import numpy as np
import polars as pl
import pytest

import adjudge as adj

JUDGES = [f"j{number}" for number in range(6)]


def jury(seed, *, tasks=400, effect=0.0, confounded=0.0, columns=1):
    """Votes of six judges, of whom j0 says "pass" more often where x is 1; truth may go with x, too. Also truth and x by task."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, tasks)
    passes = rng.random(tasks) < 0.55 + confounded * (x - 0.5)
    rows, truth = [], {}
    for number in range(tasks):
        truth[f"t{number}"] = "pass" if passes[number] else "fail"
        for judge in JUDGES:
            chance = 0.85 if passes[number] else 0.2
            chance += effect * (x[number] - 0.5) * (judge == "j0")
            rows.append((f"t{number}", judge, "pass" if rng.random() < chance else "fail"))
    return rows, truth, {f"t{number}": "long" if x[number] else "short" for number in range(tasks)}


def test_an_effect_is_found_with_its_size_and_its_judge():
    rows, truth, length = jury(1, effect=0.25, tasks=800)
    found = adj.bias(rows, by={"length": length})
    (row,) = found.effects.filter("shown").iter_rows(named=True)
    sign = 1 if row["value"].startswith("long") else -1
    assert (row["worker"], row["column"], row["votes"]) == ("j0", "length", 800)
    assert sorted([sign * row["low"], sign * row["high"]])[0] < 0.25 < sorted([sign * row["low"], sign * row["high"]])[1]
    assert str(found).startswith("j0 gives pass ")
    by_gold = adj.bias(rows, by={"length": length}, gold=truth)
    assert by_gold.measured_by == "gold"
    assert by_gold.effects.filter("shown")["worker"].to_list() == ["j0"]
    assert "shows only against known labels" not in str(by_gold)
    fails = adj.bias(rows, by={"length": length}, good="fail").effects.row(0, named=True)
    assert fails["effect"] == pytest.approx(-row["effect"], abs=1e-6)


@pytest.mark.parametrize("confounded", [0.0, 0.4])
def test_intervals_hold_without_an_effect(confounded):
    """Truth may go with the column without an effect on judges."""
    inside, shown = [], 0
    for seed in range(25):
        rows, _, length = jury(100 + seed, confounded=confounded)
        found = adj.bias(rows, by={"length": length})
        inside += (found.effects["low"] * found.effects["high"] < 0).to_list()
        shown += found.effects["shown"].any()
    assert 0.82 < np.mean(inside) < 0.97
    assert shown <= 7


def test_columns_of_numbers_and_of_words():
    rows, _, length = jury(3, effect=0.3)
    words = {task: ["de", "en", "fr"][int(task[1:]) % 3] for task in length}
    number = {task: (200.0 if kind == "long" else 50.0) + int(task[1:]) % 5 for task, kind in length.items()}
    found = adj.bias(rows, by={"length": number, "language": words})
    assert len(found.effects) == 6 * 3
    assert (
        set(found.effects["value"]) == {"per 75", *(f"{word} rather than de" for word in ("en", "fr"))}
        or found.effects["value"].str.contains("rather than").sum() == 12
    )
    first = found.effects.row(0, named=True)
    assert (first["worker"], first["column"]) == ("j0", "length")
    assert first["effect"] == pytest.approx(0.15, abs=0.06), "half the step between short and long is one standard deviation"
    frame = pl.DataFrame(rows, schema=["task", "worker", "label"], orient="row").with_columns(
        length=pl.col("task").replace_strict(number), prompt=pl.col("task").str.slice(1).cast(pl.Int64) // 4
    )
    by_column = adj.bias(frame, by="length")
    assert by_column.clusters == ("prompt", 100)
    assert json.loads(json.dumps(by_column.to_dict(), allow_nan=False))["measured_by"] == "other judges"


def test_the_command(adjudge, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows, _, length = jury(4, effect=0.3)
    pl.DataFrame(rows, schema=["task", "worker", "label"], orient="row").write_csv("votes.csv")
    pl.DataFrame({"task": list(length), "length": list(length.values())}).write_csv("answers.csv")
    code, out, err = adjudge("bias", "votes.csv", "--by", "length", "--table", "answers.csv", "-o", "effects.csv")
    assert (code, err) == (0, "")
    wanted = adj.bias("votes.csv", by={"length": length})
    assert wanted.sentences()[0] in out.replace("\n", " ")
    assert pl.read_csv("effects.csv")["worker"].to_list() == wanted.effects["worker"].to_list()
    code, out, err = adjudge("bias", "votes.csv", "--by", "size", "--table", "answers.csv", "-o", "other.csv")
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert "there is no column 'size' for --by" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": []}, "by names no column"),
        ({"by": 3}, "by is 3: name columns"),
        ({"by": {"length": {"t1": "a"}}}, "which does not vary enough"),
        ({"by": {"id": {f"t{n}": f"v{n // 10}" for n in range(400)}}}, "has 40 values"),
        ({"by": "length"}, "a column, and these votes have none"),
        ({"by": {"x": {"t1": 1}}, "good": "great"}, "good is 'great', which no vote has"),
        ({"by": {"x": {"q": 1}}}, "none of the 1 tasks"),
        ({"by": {"x": {"t1": 1}}, "level": 2}, "level is 2"),
    ],
)
def test_bad_input(options, message):
    rows, _, _ = jury(0)
    with pytest.raises(adj.AdjudgeError) as error:
        adj.bias(rows, **options)
    assert message in str(error.value)


def test_too_few_votes_or_judges():
    with pytest.raises(adj.AdjudgeError, match="give gold, or three judges"):
        adj.bias([("t1", "a", "x"), ("t2", "b", "y")], by={"x": {"t1": 1}})
