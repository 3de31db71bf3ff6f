"""Several correct options: the expansion, its sources, its figures."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.io.reading import Reading
from adjudge.io.sets import read_sets
from fitting import aggregate

OPTIONS = ["a", "b", "c"]
SETS = st.lists(
    st.tuples(
        st.integers(0, 5).map("t{}".format), st.integers(0, 3).map("w{}".format), st.sets(st.sampled_from(OPTIONS)).map(sorted)
    ),
    min_size=1,
    max_size=30,
)


@pytest.mark.parametrize("model", ["mv", "ds", "fds", "hybrid", "iwmv"])
@given(votes=SETS)
def test_the_expansion_is_the_same_problem_posed_by_hand(model, votes):
    by_hand = [(f"{t}|{o}", w, "yes" if o in chosen else "no") for t, w, chosen in votes for o in OPTIONS]
    options = {"confidence": "posterior"} | ({"tol": 1e-2} if model in ("ds", "hybrid") else {})
    expected = aggregate(by_hand, model=model, labels=["no", "yes"], **options)
    result = aggregate(votes, model=model, multi=True, labels=OPTIONS, **options)
    labels = dict(expected.labels.select("task", "label").iter_rows())
    for task, chosen in result.labels.select("task", "label").iter_rows():
        assert chosen == [o for o in OPTIONS if labels[f"{task}|{o}"] == "yes"]
    yes = dict(expected.probabilities.select("task", "yes").iter_rows())
    for row in result.probabilities.to_dicts():
        task = row.pop("task")
        assert row == pytest.approx({o: yes[f"{task}|{o}"] for o in OPTIONS})
    accuracy = dict(expected.workers_frame(trust=False).select("worker", "accuracy").iter_rows())
    assert dict(result.workers.select("worker", "accuracy").iter_rows()) == pytest.approx(accuracy)
    assert result.iterations == expected.iterations


@given(votes=SETS)
def test_each_option_apart_is_a_fit_of_its_own(votes):
    result = adj.aggregate(votes, model="fds", multi=True, per_option=True, labels=OPTIONS)
    for place, option in enumerate(OPTIONS):
        alone = [(f"{t}|{option}", w, "yes" if option in chosen else "no") for t, w, chosen in votes]
        expected = dict(adj.aggregate(alone, model="fds", labels=["no", "yes"]).labels.select("task", "label").iter_rows())
        for task, chosen in result.labels.select("task", "label").iter_rows():
            assert (option in chosen) == (expected[f"{task}|{option}"] == "yes"), place


def of_sets(seed, tasks=60, workers=8):
    """Sets of three options: on the last one all workers look alike, since they err on the same tasks."""
    crowd = adj.simulate(tasks=tasks, workers=workers, labels=3, votes_per_task=5, skill=0.4, seed=seed)
    code = dict(crowd.truth.iter_rows())
    hard = {task for n, task in enumerate(code) if n % 3 == 0}
    draw = np.random.default_rng(seed)
    return [
        (
            t,
            w,
            [label for label in ("l0", "l1") if label == given or label == code[t]]
            + ["l2"] * (draw.random() < (0.5 if t in hard else 0.03)),
        )
        for t, w, given in crowd.votes.iter_rows()
    ]


@pytest.mark.parametrize("confidence", ["posterior", "honest"])
def test_facts_of_every_fit(confidence):
    """Pooled, the facts are those of the one fit; apart, each option has its own, of votes posed by hand."""
    votes, options = of_sets(4), ["l0", "l1", "l2"]
    given = {"model": "auto", "confidence": confidence}
    by_hand = {o: [(f"{t}|{o}", w, "yes" if o in chosen else "no") for t, w, chosen in votes] for o in options}
    pooled = aggregate(votes, multi=True, labels=options, **given)
    expected = aggregate([v for lines in by_hand.values() for v in lines], labels=["no", "yes"], **given)
    assert pooled.facts == pytest.approx(dict(expected.facts))
    assert ("holds" in pooled.facts) == (confidence == "honest")
    apart = aggregate(votes, multi=True, per_option=True, labels=options, **given)
    assert list(apart.facts) == options
    for option, lines in by_hand.items():
        alone = aggregate(lines, labels=["no", "yes"], **given)
        assert apart.facts[option] == pytest.approx(dict(alone.facts))
        assert apart.facts[option]["why"]
    assert {found["chose"] for found in apart.facts.values()} == {"careful", "majority"}
    if confidence == "honest":
        honest = dict(expected.workers.select("worker", "accuracy").iter_rows())
        assert dict(pooled.workers.select("worker", "accuracy").iter_rows()) == pytest.approx(honest)


def by_hand(votes, options):
    return [(f"{t}|{o}", w, "yes" if o in chosen else "no") for t, w, chosen in votes for o in options]


@pytest.mark.parametrize("confidence", ["posterior", "honest"])
@pytest.mark.parametrize("per_option", [False, True])
def test_workers_have_intervals_and_verdicts(confidence, per_option):
    """Of the answers to the questions posed by hand; the answers of one set count as one, so that intervals are wider."""
    votes, options = of_sets(4), ["l0", "l1", "l2"]
    plain = {"model": "fds", "confidence": confidence, "smoothing": 0.1}
    result = aggregate(votes, multi=True, per_option=per_option, labels=options, **plain)
    alone = aggregate(by_hand(votes, options), labels=["no", "yes"], **plain)
    ours, theirs = result.workers, alone.workers
    assert ours.columns == theirs.columns
    assert ours["votes"].to_list() == (theirs["votes"] // 3).to_list()
    for row in ours.iter_rows(named=True):
        assert row["accuracy_low"] <= row["accuracy"] <= row["accuracy_high"] or confidence == "posterior"
        assert row["accuracy_low"] < row["accuracy_high"]
        assert "answers" in row["why"]
    assert set(ours["verdict"]) == {"informative"}
    width, narrow = ((f["accuracy_high"] - f["accuracy_low"]).mean() for f in (ours, theirs))
    assert width > 1.2 * narrow
    if not per_option:
        assert ours["accuracy"].to_list() == pytest.approx(theirs["accuracy"].to_list())
        assert ours["evidence"].to_list() == pytest.approx(theirs["evidence"].to_list())
        assert ours["below_chance"].to_list() == pytest.approx((theirs["below_chance"] / 3**0.5).to_list())


def crowd_of_sets(seed, together, tasks=150, workers=16, options=4):
    """Votes, and the accuracy of every worker; a set is right as a whole or drawn at random, or else each answer is."""
    draw = np.random.default_rng(seed)
    truth, skill = draw.random((tasks, options)) < 0.3, draw.uniform(0.4, 0.95, workers)
    votes = []
    for task in range(tasks):
        for worker in draw.permutation(workers)[:5]:
            knows = draw.random(1 if together else options) < skill[worker]
            said = np.where(knows, truth[task], draw.random(options) < 0.3)
            votes.append((f"t{task}", f"w{worker}", [f"o{n}" for n in np.flatnonzero(said)]))
    return votes, {f"w{n}": s + (1 - s) * 0.58 for n, s in enumerate(skill)}


@pytest.mark.parametrize("confidence", ["posterior", "honest"])
@pytest.mark.parametrize("together", [False, True])
def test_intervals_hold_where_the_answers_of_a_set_are_right_together(confidence, together):
    inside, workers = 0, 0
    for seed in range(4):
        votes, accuracy = crowd_of_sets(seed, together)
        frame = adj.aggregate(votes, multi=True, confidence=confidence).workers
        inside += sum(row["accuracy_low"] <= accuracy[row["worker"]] <= row["accuracy_high"] for row in frame.to_dicts())
        workers += len(frame)
        assert "copy" not in set(frame["verdict"]), "nobody copies here"
    assert inside >= 0.9 * workers


@pytest.mark.parametrize("per_option", [False, True])
def test_who_does_not_look_and_who_copies(per_option):
    votes, _ = crowd_of_sets(3, together=True)
    draw = np.random.default_rng(3)
    tasks = sorted({task for task, _, _ in votes})
    mine = [task for task in tasks if draw.random() < 0.4]
    said = {task: [o for o in ("o0", "o1", "o2", "o3") if draw.random() < 0.3] for task in mine}
    votes += [(task, "lazy", []) for task in mine] + [(task, twin, said[task]) for twin in ("twin1", "twin2") for task in mine]
    found = adj.aggregate(votes, multi=True, per_option=per_option).workers
    word, like = (dict(found.select("worker", name).iter_rows()) for name in ("verdict", "answers_like"))
    assert word["lazy"] == "spammer"
    assert (word["twin1"], word["twin2"], like["twin1"]) == ("copy", "copy", "twin2")
    assert {word[f"w{n}"] for n in range(16)} <= {"informative", "unclear"}


@pytest.mark.parametrize("per_option", [False, True])
def test_expected_errors_are_those_of_the_confidence(per_option):
    result = adj.aggregate(of_sets(4), multi=True, per_option=per_option)
    yes = result.probabilities.drop("task").to_numpy()
    sure = np.where(yes > 0.5, yes, 1 - yes)
    assert result.expected_wrong_options == pytest.approx((1 - sure).sum())
    assert result.expected_errors == pytest.approx((1 - result.labels["confidence"]).sum())
    assert result.expected_errors == pytest.approx((1 - sure.prod(axis=1)).sum())
    assert result.expected_errors <= result.expected_wrong_options
    assert result.ties == result.labels["tie"].sum()


@pytest.mark.parametrize("per_option", [False, True])
def test_priors_of_options_have_intervals(per_option):
    votes, _ = crowd_of_sets(5, together=False)
    result = adj.aggregate(votes, "ds", multi=True, per_option=per_option)
    priors = result.priors
    assert priors.columns == ["option", "prior", "low", "high"]
    for option, prior, low, high in priors.iter_rows():
        assert low <= prior <= high, option
        assert low < 0.3 < high, "this is the share that was drawn"
        assert high - low < 0.3


def test_posteriors_decide_sets():
    result = adj.aggregate(of_sets(4), "ds", multi=True)
    yes = result.posterior.drop("task").to_numpy()
    assert [sorted(s) for s in result.labels["label"]] == [[f"l{n}" for n in np.flatnonzero(row > 0.5)] for row in yes]
    assert not result.posterior.equals(result.probabilities)


def test_the_rate_of_missing_sets_of_every_worker():
    rows = [
        ("t", "ann", ["x"]),
        ("t", "bob", None),
        ("u", "bob", ["y"]),
        ("u", "zed", None),
        ("v", "zed", None),
        ("u", "ann", []),
    ]
    with pytest.warns(adj.MissingLabels):
        result = adj.aggregate(rows, "mv", multi=True)
    assert result.workers.select("worker", "votes", "abstained").rows() == [("ann", 2, 0.0), ("bob", 1, 0.5)]
    assert (result.votes.abstentions, result.unvoted) == (3, 1)


ROWS = [("t1", "ann", ["x", "y"]), ("t1", "bob", ["y"]), ("t1", "eve", ["y"]), ("t2", "ann", []), ("t2", "bob", [])]


def sources(folder):
    frame = pl.DataFrame(ROWS, schema=["task", "worker", "label"], orient="row")
    text = frame.with_columns(pl.col("label").list.join("|"))
    text.write_csv(folder / "v.csv")
    frame.write_ndjson(folder / "v.jsonl")
    frame.write_parquet(folder / "v.parquet")
    return {
        "tuples of lists": ROWS,
        "polars lists": frame,
        "pyarrow lists": frame.to_arrow(),
        "pandas lists": pd.DataFrame(ROWS, columns=["task", "worker", "label"]),
        "joined text": text,
        "json text": frame.with_columns(label=pl.Series([json.dumps(c) for *_, c in ROWS])),
        "csv": folder / "v.csv",
        "jsonl": folder / "v.jsonl",
        "parquet": folder / "v.parquet",
    }


def test_every_source(tmp_path):
    for name, source in sources(tmp_path).items():
        result = adj.aggregate(source, model="mv", multi=True)
        frame = pl.DataFrame(result.labels)
        assert [sorted(s) for s in frame["label"].to_list()] == [["y"], []], name
        assert frame["votes"].to_list() == [3, 2], name


def test_frames_come_back_in_the_callers_kind(tmp_path):
    frame = sources(tmp_path)["pandas lists"]
    assert isinstance(adj.aggregate(frame, model="mv", multi=True).labels, pd.DataFrame)


def test_a_missing_value_is_an_abstention_and_an_empty_set_a_vote():
    with pytest.warns(adj.MissingLabels, match="2 of 3 votes"):
        result = adj.aggregate([("t", "w", None), ("t", "v", []), ("u", "v", None)], model="mv", multi=True, labels=["x"])
    assert result.labels.select("task", "label", "votes").rows() == [("t", [], 1), ("u", None, 0)]


def test_duplicates_and_confusions():
    votes = [("t", "w", ["x"]), ("t", "w", ["y"]), ("t", "v", ["y"])]
    assert read_sets(votes).n_votes == 3
    assert read_sets(votes, Reading(duplicates="last")).n_votes == 2
    result = adj.aggregate(votes, model="fds", multi=True, per_option=True)
    assert result.confusion("v", "y").columns == ["true", "no", "yes"]
    pooled = adj.aggregate(votes, model="fds", multi=True)
    assert pooled.confusion("v").drop("true").sum_horizontal().to_list() == pytest.approx([1, 1])
    assert repr(pooled) == "MultiResult(fds: 1 tasks, 2 workers, 2 options)"
    assert pooled.converged
    assert pooled.log_likelihood < 0


def test_figures_by_hand():
    labels = [("a", ["x", "y"]), ("b", []), ("c", ["x"]), ("d", ["y"])]
    truth = [("a", ["x", "y"]), ("b", []), ("c", ["y"]), ("e", ["x"])]
    e = adj.evaluate(labels, truth, multi=True)
    assert (e.tasks, e.without_truth, e.without_label) == (3, 1, 1)
    assert e.exact_accuracy == e.accuracy == pytest.approx(2 / 3)
    assert e.option_accuracy == pytest.approx(4 / 6)
    assert e.jaccard == pytest.approx((1 + 1 + 0) / 3)
    assert e.micro_f1 == pytest.approx(2 * 2 / (3 + 3))
    assert e.macro_f1 == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert "option accuracy" in repr(e)
    with pytest.raises(adj.InputError, match="give task 'a' more than one set"):
        adj.evaluate([("a", ["x"]), ("a", ["y"])], truth, multi=True)


@pytest.mark.parametrize(("name", "most"), [("snow_affect_ml50", 0.908), ("snow_affect_ml25", 0.805)])
def test_real_sets(data_dir, name, most):
    """The paper's measure on the sets at hand; the best of the models reaches this."""
    votes, truth = data_dir / name / "votes.csv", data_dir / name / "truth.csv"
    found = {
        m: adj.evaluate(adj.aggregate(votes, model=m, multi=True), truth).option_accuracy for m in ("mv", "ds", "fds", "hybrid")
    }
    assert max(found.values()) == pytest.approx(most, abs=0.001)
    assert found["fds"] > found["ds"], "as in the paper's Table 5"


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ([("t", "w", 1)], "the label column holds Int64, not sets"),
        ([("t", "w", "[1, ")], "label in row 1 is .*: not a JSON list"),
        ([("t", None, "a")], "worker is missing in row 1"),
        (pl.DataFrame({"task": [1], "worker": [1], "label": [[1.5]]}), "adj.scores .* merges numbers"),
    ],
)
def test_what_holds_no_sets(votes, message):
    with pytest.raises(adj.InputError, match=message):
        adj.aggregate(votes, multi=True)


def test_options_that_make_no_sense():
    with pytest.raises(adj.InputError, match="label 'y' is not among the declared labels: x"):
        adj.aggregate([("t", "w", ["y"])], multi=True, labels=["x"])
    with pytest.raises(adj.OptionError, match="per_option works only with multi=True"):
        adj.aggregate([("t", "w", "y")], per_option=True)
