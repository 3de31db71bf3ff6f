"""What users know beforehand, on the command line: gold, history, priors, strength, saved models, predict."""

import json

import polars as pl
import pytest

import adjudge as adj


@pytest.fixture
def crowd(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = adj.simulate(tasks=150, workers=12, labels=3, votes_per_task=3, skill=0.6, seed=2)
    made.votes.write_csv("votes.csv")
    made.truth.head(40).write_csv("gold.csv")
    made.truth.write_csv("truth.csv")
    return made


def test_gold_history_priors_strength_and_calibration_reach_the_library(crowd, run, tmp_path):
    assert run("aggregate", "votes.csv", "--save", "m.adjudge", "-o", "a.csv", "--quiet").code == 0
    done = run(
        *(
            "aggregate",
            "votes.csv",
            "--model",
            "ds",
            "--gold",
            "gold.csv",
            "--history",
            "m.adjudge",
            "--priors",
            "l0=0.2,l1=0.3,l2=0.5",
        ),
        *(
            "--priors-weight",
            "10",
            "--strength",
            "auto",
            "--calibrate",
            "--confidence",
            "posterior",
            "-o",
            "b.csv",
            "--truth",
            "truth.csv",
            "--json",
        ),
    )
    facts = json.loads(done.out)
    expected = adj.aggregate(
        "votes.csv",
        model=adj.DawidSkene(strength="auto"),
        gold="gold.csv",
        history="m.adjudge",
        priors=[0.2, 0.3, 0.5],
        priors_weight=10,
        calibrate=True,
        confidence="posterior",
    )
    assert expected.temperature != 1.0
    assert facts["gold"] == 40
    assert facts["strength"] == expected.strength
    assert facts["temperature"] == expected.temperature
    assert facts["evaluation"]["gold"] == 40
    assert pl.read_csv("b.csv").equals(expected.labels)


def test_predict_takes_the_confidence_of_the_model_or_another(crowd, run, tmp_path):
    run("aggregate", "votes.csv", "--model", "ds", "--confidence", "honest", "--save", "m.adjudge", "-o", "a.csv", "--quiet")
    model = adj.load("m.adjudge")
    for arguments, chosen in (([], None), (["--confidence", "honest"], "honest"), (["--confidence", "posterior"], "posterior")):
        assert run("predict", "votes.csv", "--using", "m.adjudge", "-o", "p.csv", "--quiet", *arguments) == (0, "", "")
        assert pl.read_csv("p.csv").equals(model.predict("votes.csv", confidence=chosen).labels)


def test_predict_refuses_honest_confidence_of_a_posterior_fit(crowd, run):
    run("aggregate", "votes.csv", "--confidence", "posterior", "--save", "m.adjudge", "-o", "a.csv", "--quiet")
    arguments = ["predict", "votes.csv", "--using", "m.adjudge", "-o", "p.csv", "--quiet"]
    assert run(*arguments) == (0, "", "")
    refused = run(*arguments, "--confidence", "honest")
    assert (refused.code, len(refused.err.splitlines())) == (1, 1)
    assert "the model was fitted with posterior confidence: fit it again" in refused.err


def test_predict_names_unknown_workers(crowd, run, tmp_path):
    run("aggregate", "votes.csv", "--model", "fds", "--confidence", "posterior", "--save", "m.adjudge", "-o", "a.csv", "--quiet")
    pl.DataFrame({"task": ["n", "n"], "worker": ["w1", "zoe"], "label": ["l1", "l1"]}).write_csv("new.csv")
    done = run("predict", "new.csv", "--using", "m.adjudge", "--workers", "w.csv", "--probabilities", "p.csv")
    assert done.code == 0
    assert done.out.splitlines()[1].startswith("n,l1,")
    assert "1 workers are unknown, and treated as the mean worker: zoe" in done.err
    assert pl.read_csv("w.csv")["known"].to_list() == [True, False]
    assert pl.read_csv("p.csv").columns == ["task", "l0", "l1", "l2"]
    quiet = run("predict", "votes.csv", "--using", "m.adjudge", "-o", "again.csv", "--quiet")
    assert (quiet.out, quiet.err) == ("", "")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "a.csv").read_bytes()


@pytest.mark.parametrize(("model", "most"), [("fds", 2), ("auto", 4)])  # two for each version of auto
def test_warm_start_tells_what_went_before(crowd, run, model, most):
    run("aggregate", "votes.csv", "--model", model, "--save", "m.adjudge", "-o", "a.csv", "--quiet")
    warm = run("aggregate", "votes.csv", "--model", model, "--warm-start", "m.adjudge", "-o", "b.csv", "--json")
    facts = json.loads(warm.out)
    assert facts["iterations_before"] == adj.aggregate("votes.csv", model=model).iterations
    assert facts["iterations"] <= most


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gold", "bad.csv"], "gold gives task 't0' the label 'purple'"),
        (["--priors", "l0=0.5,l1=0.1,l2=0.1"], "priors sum to 0.7, not to 1"),
        (["--priors", "l0=much"], "give label=probability joined by commas"),
        (["--model", "fds", "--strength", "-2"], "strength is -2.0: give a number of at least 0 and at most 1e+12, or 'auto'"),
        (["--history", "truth.csv"], "no column looks like the worker"),
        (["--warm-start", "truth.csv"], "truth.csv is not a file that adjudge saved"),
        (["--warm-start", "none"], "cannot read none"),
        (["--save", "no/where"], "the folder no does not exist"),
        (["--save", "out.csv"], "two outputs have the same path"),
        (["--calibrate"], "give gold="),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(crowd, run, tmp_path, arguments, words):
    (tmp_path / "bad.csv").write_text("task,label\nt0,purple\n")
    done = run("aggregate", "votes.csv", "-o", "out.csv", *arguments)
    assert done.code == 1
    assert words in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (tmp_path / "out.csv").exists()


def test_predict_writes_each_output_to_its_own_file(crowd, run, tmp_path):
    run("aggregate", "votes.csv", "--save", "m.adjudge", "-o", "a.csv", "--quiet")
    done = run("predict", "votes.csv", "--using", "m.adjudge", "-o", "out.csv", "--workers", "./out.csv")
    assert (done.code, "two outputs have the same path" in done.err) == (1, True)
    assert not (tmp_path / "out.csv").exists()
