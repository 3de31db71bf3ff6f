"""Models and labels of one's own, several sets in one table, and public sets in Python."""

import json

import numpy as np
import polars as pl
import pytest

import adjudge as adj

CROWDS = {
    f"set{number}": adj.simulate(tasks=120, workers=8, labels=3, skill=0.7 + 0.1 * number, seed=number) for number in range(3)
}
SETS = {name: (crowd.votes, crowd.truth) for name, crowd in CROWDS.items()}


class First:
    """The first vote of each task."""

    name = "first vote"

    def fit(self, votes):
        labels = votes.labels.texts()
        return {
            task: labels[votes.row_label[votes.row[at]]] for task, at in zip(votes.tasks.texts(), votes.task_ptr, strict=False)
        }


def test_own_models_and_labels_are_judged_like_ours():
    votes, truth = SETS["set0"]
    mine = dict(truth.rows()) | dict(truth.with_columns(label=pl.lit("l0")).head(30).rows())
    found = adj.compare(votes, truth=truth, models=["mv", "fds", First()], own_labels={"mine": mine})
    accuracy = dict(found.models.select("model", "accuracy").rows())
    assert set(accuracy) == {"mine", "mv", "fds", "first vote"}
    assert accuracy["mine"] == pytest.approx(adj.evaluate(mine, truth).accuracy)
    assert ("mine" in found.differences["model_a"].to_list()) or ("mine" in found.differences["model_b"].to_list())
    short = dict(list(mine.items())[:100])
    refused = (
        adj.compare(votes, truth=truth, models=["mv"], own_labels={"mine": short}).models.filter(model="mine")["refused"].item()
    )
    assert "returned no label for 20 tasks" in refused
    with pytest.raises(adj.OptionError, match="own_labels has 'mv', which is a model here"):
        adj.compare(votes, truth=truth, own_labels={"mv": mine})


def test_several_sets_make_one_table():
    found = adj.compare_sets(SETS, models=["mv", "fds", "ds"], resamples=0)
    table = found.table
    for name, (votes, truth) in SETS.items():
        alone = dict(
            adj.compare(votes, truth=truth, models=["mv", "fds", "ds"], resamples=0).models.select("model", "accuracy").rows()
        )
        assert dict(table.select("model", name).rows()) == alone
    values = table.select(list(SETS)).to_numpy()
    assert table["mean"].to_numpy() == pytest.approx(values.mean(axis=1))
    assert table["rank"].sum() == pytest.approx(6.0), "ranks of three models sum to six on every set"
    assert table["best"].to_list() == (values == values.max(axis=0)).sum(axis=1).tolist()
    assert np.diff(table["mean"].to_numpy()).max() <= 0
    assert json.loads(json.dumps(found.to_dict()))["table"][0]["model"] == table["model"][0]
    assert "*" in str(found)
    with pytest.raises(adj.InputError, match="set 'set1': none of the 1 tasks of the truth has votes"):
        adj.compare_sets(SETS | {"set1": (SETS["set1"][0], {"q": "l0"})}, models=["mv"], strict=False)
    with pytest.raises(adj.OptionError, match="a set is called 'mean'"):
        adj.compare_sets({"mean": SETS["set0"]})


def test_the_command_takes_a_folder_per_set(adjudge, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, (votes, truth) in SETS.items():
        (tmp_path / name).mkdir()
        votes.write_csv(f"{name}/votes.csv")
        truth.write_csv(f"{name}/truth.csv")
        truth.write_csv(f"{name}/mine.csv")
    arguments = ["set*/votes.csv", "--truth", "{dir}/truth.csv", "--models", "mv,fds", "--resamples", 0]
    code, out, err = adjudge("compare", *arguments, "-o", "table.csv")
    assert (code, err) == (0, "")
    assert "accuracy in percent on 3 sets" in out
    wanted = adj.compare_sets(SETS, models=["mv", "fds"], resamples=0).table
    assert pl.read_csv("table.csv").equals(wanted)
    code, out, err = adjudge("compare", *arguments, "--gold", "set0/truth.csv")
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    own = ["--own-labels", "mine=set0/mine.csv", "--models", "mv", "--quiet"]
    assert adjudge("compare", "set0/votes.csv", "--truth", "set0/truth.csv", *own)[:2] == (0, "mine\n")
    code, _, err = adjudge("compare", "set0/votes.csv", "--own-labels", "mine")
    assert (code, "give NAME=FILE" in err) == (1, True)


def test_public_sets_are_loaded_from_their_folder(tmp_path, monkeypatch):
    crowd = CROWDS["set0"]
    (tmp_path / "rte").mkdir()
    crowd.votes.write_csv(tmp_path / "rte" / "votes.csv")
    crowd.truth.write_csv(tmp_path / "rte" / "truth.csv")
    monkeypatch.setenv("ADJUDGE_DATA", str(tmp_path))
    loaded = adj.datasets.load("rte")
    assert repr(loaded) == f"Dataset(rte, {len(crowd.votes)} votes, truth of 120 tasks)"
    assert loaded.truth == dict(crowd.truth.rows())
    assert "rte" in adj.datasets.list()["name"].to_list()
    with pytest.raises(adj.InputError, match=r"has no votes.csv: call adj.datasets.download\('bm'\)"):
        adj.datasets.load("bm")
    with pytest.raises(adj.OptionError, match="data set"):
        adj.datasets.load("nothing")


def test_all_confusions_are_one_frame():
    result = adj.aggregate(SETS["set0"][0])
    every = result.confusions
    assert len(every) == 8 * 9
    for worker in ("w0", "w5"):
        assert every.filter(worker=worker)["share"].to_numpy().reshape(3, 3) == pytest.approx(result.confusion_matrix(worker))
