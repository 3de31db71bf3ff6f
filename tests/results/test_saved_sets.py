"""What a fit of sets has learned: saved, loaded, and carried over to new votes."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.io import container
from adjudge.io.reading import Reading
from adjudge.io.sets import read_sets
from adjudge.models.base import MODELS

OPTIONS = ["a", "b", "c"]


def crowd(seed, tasks=40, workers=8, first=0):
    """Votes for sets by workers of different skill."""
    draw = np.random.default_rng(seed)
    truth, skill = draw.random((tasks, 3)) < 0.4, draw.uniform(0.6, 0.97, workers)
    votes = []
    for task in range(tasks):
        for worker in draw.permutation(workers)[:4]:
            said = np.where(draw.random(3) < skill[worker], truth[task], ~truth[task])
            votes.append((f"t{first + task}", f"w{worker}", [o for o, yes in zip(OPTIONS, said, strict=True) if yes]))
    return votes


VOTES, NEW = crowd(1), crowd(2, tasks=20, workers=10, first=100)


@pytest.mark.parametrize("per_option", [False, True])
@pytest.mark.parametrize("model", [name for name, model in MODELS.items() if not (model.is_ordered or model.needs_gold)])
def test_save_load_predict_bit_for_bit(model, per_option, tmp_path):
    result = adj.aggregate(VOTES, model, multi=True, per_option=per_option)
    result.save(tmp_path / "a")
    loaded = adj.load(tmp_path / "a")
    assert isinstance(loaded, adj.FittedSets)
    loaded.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    here, there = result.predict(NEW), loaded.predict(NEW)
    for frame in ("labels", "probabilities", "workers"):
        assert getattr(here, frame).equals(getattr(there, frame))
    assert here.unknown_workers == there.unknown_workers == ["w8", "w9"]
    assert there.workers.filter(~pl.col("known"))["worker"].to_list() == ["w8", "w9"]
    again = loaded.predict(VOTES)
    # Some rebuild tables from the final labels, take tasks for ones of mean difficulty, or know more of tasks than of workers.
    if model not in ("auto", "glad") and not (per_option and model in ("ibcc", "ebcc", "kos")):
        assert again.labels["label"].equals(result.labels["label"]), "the same votes have the same sets"
    there.save(tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == (tmp_path / "a").read_bytes(), "a prediction keeps the model that made it"


@pytest.mark.parametrize("per_option", [False, True])
def test_predictions_are_those_of_the_questions_posed_by_hand(per_option):
    result = adj.aggregate(VOTES, "fds", multi=True, per_option=per_option, labels=OPTIONS)
    yes = result.predict(NEW).probabilities
    for place, option in enumerate(OPTIONS):
        asked = OPTIONS if not per_option else [option]
        fitted = [(f"{t}|{o}", w, "yes" if o in chosen else "no") for t, w, chosen in VOTES for o in asked]
        new = [(f"{t}|{option}", w, "yes" if option in chosen else "no") for t, w, chosen in NEW]
        found = adj.aggregate(fitted, "fds", labels=["no", "yes"]).predict(adj.read(new, labels=["no", "yes"]))
        expected = dict(found.probabilities.select("task", "yes").iter_rows())
        assert dict(zip(yes["task"], yes[option], strict=True)) == pytest.approx(
            {task: expected[f"{task}|{option}"] for task in yes["task"]}
        ), place


def test_confidence_of_predictions(tmp_path):
    for confidence in ("posterior", "honest"):
        adj.aggregate(VOTES, "ds", multi=True, confidence=confidence).save(tmp_path / confidence)
    honest, plain = adj.load(tmp_path / "honest"), adj.load(tmp_path / "posterior")
    sure = plain.predict(NEW).labels
    assert honest.predict(NEW, confidence="posterior").labels.equals(sure)
    assert honest.predict(NEW).expected_errors > plain.predict(NEW).expected_errors
    with pytest.raises(adj.OptionError, match="fitted with posterior confidence"):
        plain.predict(NEW, confidence="honest")


def test_what_a_loaded_model_tells(tmp_path):
    for per_option in (False, True):
        result = adj.aggregate(VOTES, "ds", multi=True, per_option=per_option, confidence="posterior")
        result.save(tmp_path / "m")
        model = adj.load(tmp_path / "m")
        assert repr(model) == "FittedSets(ds: 8 workers, 3 options)"
        assert (model.model, model.options, model.iterations) == ("ds", OPTIONS, result.iterations)
        both = model.workers.join(result.workers, on="worker", suffix="_fitted")
        assert both["votes"].to_list() == pytest.approx(both["votes_fitted"].to_list())
        assert both["accuracy"].to_list() == pytest.approx(both["accuracy_fitted"].to_list(), abs=1e-3)
        assert model.confusion("w1", "b").equals(result.confusion("w1", "b"))
        assert model.priors["option"].to_list() == OPTIONS
        assert (model.priors["prior"].n_unique() == 1) != per_option
    with pytest.raises(adj.InputError, match="each option was fitted apart: name one of a, b, c, not 'z'"):
        model.confusion("w1", "z")


def test_votes_that_are_not_of_the_model(tmp_path):
    result = adj.aggregate(VOTES, "mv", multi=True)
    with pytest.raises(adj.InputError, match="'z' is not among the declared labels: a, b, c"):
        result.predict([("t", "w1", ["z"])])
    with pytest.raises(adj.InputError, match="the model has the options a, b, c, the votes have a"):
        result.predict(read_sets([("t", "w1", ["a"])]))
    assert result.predict(read_sets([("t", "w1", ["a"])], Reading(labels=tuple(OPTIONS)))).labels["label"].to_list() == [["a"]]
    text = result.predict({"item": ["t"], "judge": ["w1"], "answer": ["a; c"]}, label="answer", set_separator=";")
    assert text.labels["label"].to_list() == [["a", "c"]]


def test_only_predict_uses_a_model_of_sets(tmp_path):
    adj.aggregate(VOTES, "ds", multi=True).save(tmp_path / "m")
    single = [("t", "w1", "yes"), ("t", "w2", "no")]
    for given in (tmp_path / "m", adj.load(tmp_path / "m")):
        for option in ("history", "warm_start"):
            with pytest.raises(adj.AdjudgeError, match="of sets \\(multi=True\\), which only predict can use"):
                adj.aggregate(single, "ds", **{option: given})
        with pytest.raises(adj.AdjudgeError, match="which only predict can use"):
            adj.merge(given, given)


def forged(path, change):
    """Write a file whose meta and arrays were changed, with a right checksum."""
    meta, arrays = container.load(path, "sets", 1)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(meta, arrays)
    container.save(path, "sets", 1, meta, arrays)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda meta, arrays: meta.pop("options"), "its meta has no 'options'"),
        (lambda meta, arrays: meta.update(options=["a", "a", "b"]), "option 'a'|'a' twice"),
        (lambda meta, arrays: meta.update(options=["a", "b"]), "3 models of 2 options"),
        (lambda meta, arrays: meta.update(models=[]), "nothing uses|no model"),
        (lambda meta, arrays: meta["models"].__setitem__(1, 7), "model 1 is 7, not an object"),
        (lambda meta, arrays: meta["models"][2].pop("scoring"), "its model 2 has no 'scoring'"),
        (lambda meta, arrays: meta["models"][0].update(labels=["yes", "no"]), "over the labels 'yes', 'no'"),
        (lambda meta, arrays: meta["models"][0].update(groups={"w1": "g"}), "has groups"),
        (lambda meta, arrays: arrays.pop("1.table"), "the array table is missing"),
        (lambda meta, arrays: arrays.update({"3.table": np.zeros(1)}), "an array '3.table' that nothing uses"),
        (lambda meta, arrays: arrays["2.row_label"].__setitem__(0, 9), "row_label holds 9"),
        (lambda meta, arrays: arrays["0.priors"].__setitem__(0, 5.0), "priors has 5.0"),
    ],
)
def test_forged_files_are_refused(change, words, tmp_path):
    adj.aggregate(VOTES, "ds", multi=True, per_option=True).save(tmp_path / "m")
    forged(tmp_path / "m", change)
    with pytest.raises(adj.InputError, match=words) as said:
        adj.load(tmp_path / "m")
    assert "\n" not in str(said.value)
    assert str(tmp_path / "m") in str(said.value)


def test_damaged_and_foreign_files(tmp_path):
    adj.aggregate(VOTES, "mv", multi=True).save(tmp_path / "m")
    whole = (tmp_path / "m").read_bytes()
    (tmp_path / "m").write_bytes(whole[:-40] + b"x" + whole[-39:])
    with pytest.raises(adj.InputError, match="damaged"):
        adj.load(tmp_path / "m")
    (tmp_path / "m").write_bytes(whole[:8] + (1 << 60).to_bytes(8, "little") + whole[16:])
    with pytest.raises(adj.InputError, match="damaged"):
        adj.load(tmp_path / "m")
    with pytest.raises(adj.InputError, match="cannot read"):
        adj.load(tmp_path / "none")
    with pytest.raises(adj.InputError, match="content is 7"):
        adj.FittedSets(7)


def test_sets_of_nothing(tmp_path):
    """Only empty sets, and no option declared: there is nothing to learn, and nothing breaks."""
    result = adj.aggregate([("t", "w", []), ("t", "v", [])], "mv", multi=True)
    for action in (lambda: result.save(tmp_path / "m"), lambda: result.predict([("u", "w", [])])):
        with pytest.raises(adj.InputError, match="no vote names an option, so nothing was learned of any"):
            action()
    assert not (tmp_path / "m").exists()
    assert (result.expected_errors, result.expected_wrong_options, result.ties) == (0.0, 0.0, 0)
    assert result.priors.is_empty()
    assert result.workers.is_empty()
