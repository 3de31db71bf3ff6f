"""Histories, class priors and the population prior: in force in every M-step, as Bayes' rule says."""

import itertools
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.models.base import MODELS, make
from adjudge.models.dawid_skene import population
from fitting import aggregate

CROWD = adj.simulate(tasks=300, workers=15, labels=3, votes_per_task=3, skill=0.65, seed=4)
LABELS = ["l0", "l1", "l2"]
GOLD = CROWD.truth.head(40)


def history(times=1.0, workers=15, seed=0):
    rng = np.random.default_rng(seed)
    rows = [(f"w{w}", t, g, times * float(rng.integers(0, 9))) for w in range(workers) for t in LABELS for g in LABELS]
    return pl.DataFrame(rows, schema=["worker", "true", "given", "count"], orient="row")


def counts_of(frame, worker):
    mine = frame.filter(pl.col("worker") == worker)
    table = np.zeros((3, 3))
    for true, given_, number in mine.select("true", "given", "count").iter_rows():
        table[LABELS.index(true), LABELS.index(given_)] += number
    return table


@pytest.mark.parametrize("times", [1.0, 1e6 / 500])
@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_conjugacy(times, engine):
    """With all truth known the confusion is (history + votes) / their sum, at a million votes of history, too."""
    past = history(times)
    result = adj.aggregate(CROWD.votes, model="ds", gold=CROWD.truth, history=past, engine=engine)
    both = CROWD.votes.join(CROWD.truth, on="task", suffix="_true").rename({"label": "given", "label_true": "true"})
    now = both.group_by("worker", "true", "given").len("count").with_columns(pl.col("count").cast(pl.Float64))
    for worker in ("w0", "w9"):
        every = counts_of(past, worker) + counts_of(now, worker)
        assert result.confusion_matrix(worker) == pytest.approx(every / every.sum(axis=1, keepdims=True), rel=1e-12)


@pytest.mark.parametrize("model", ["ds", "fds", "hybrid", "one-coin", "iwmv"])
def test_history_is_the_same_as_gold_tasks_of_one_vote_each(model):
    """Every vote of a history is one on a task whose label is known; class priors are given, as such tasks would move them."""
    past = history()
    options = {} if model == "iwmv" else {"priors": [0.3, 0.3, 0.4], "stop": "labels"}
    options["confidence"] = "posterior"  # honest confidence counts the tasks of a gold label, which a history has none of
    if model == "hybrid":
        options["switch"] = 1.0  # as soon as it can: shares of the labels are not those with the history's tasks among them
    told = aggregate(CROWD.votes, model=model, history=past, **options)
    extra = [
        (f"h{n}", w, g, t) for n, (w, t, g) in enumerate((w, t, g) for w, t, g, c in past.iter_rows() for _ in range(int(c)))
    ]
    frame = pl.DataFrame(extra, schema=["task", "worker", "label", "true"], orient="row")
    votes = pl.concat([CROWD.votes, frame.drop("true")])
    gold = frame.select("task", label="true")
    if model in ("ds", "hybrid", "one-coin", "fds"):
        shown = aggregate(votes, model=model, gold=gold, **options)
        mine = shown.labels.filter(~pl.col("gold"))
        assert mine["label"].to_list() == told.labels["label"].to_list()
        np.testing.assert_allclose(mine["confidence"].to_numpy(), told.labels["confidence"].to_numpy(), atol=1e-6)
        assert shown.iterations == told.iterations
    else:
        shown = adj.aggregate(votes, model=model, gold=gold)
        assert shown.labels.filter(~pl.col("gold"))["label"].to_list() == told.labels["label"].to_list()
        assert shown.workers["weight"].to_list() == pytest.approx(told.workers["weight"].to_list())


@pytest.mark.parametrize("model", ["ds", "fds", "hybrid", "one-coin"])
@given(
    seed=st.integers(0, 30),
    strength=st.sampled_from([0.0, 0.3, 5.0, "auto"]),
    smoothing=st.sampled_from([0.0, 0.2]),
    weight=st.sampled_from([None, 0.0, 7.0]),
    past=st.booleans(),
)
def test_the_penalised_likelihood_never_falls(model, seed, strength, smoothing, weight, past):
    crowd = adj.simulate(tasks=40, workers=6, labels=3, votes_per_task=3, skill=0.5, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        trace = adj.aggregate(crowd.votes, model=make(model, {"strength": strength, "smoothing": smoothing, "tol": 0.0, "max_iter": 25}), labels=LABELS, priors=[0.2, 0.3, 0.5], priors_weight=weight, history=history(0.5, 4, seed) if past else None).fit.trace  # fmt: skip
    for before, after in itertools.pairwise(trace):
        if before.phase == after.phase:
            assert after.objective >= before.objective - 1e-9 * max(1.0, abs(before.objective))


def test_the_population_pulls_workers_with_few_votes_most():
    votes = pl.concat([CROWD.votes, pl.DataFrame([("t0", "new", "l1")], schema=CROWD.votes.columns, orient="row")])
    plain, pulled = (adj.aggregate(votes, model=adj.FastDawidSkene(strength=s)) for s in (0.0, 10.0))
    assert np.isin(plain.confusion_matrix("new"), [0.0, 1.0]).all(), "one vote, and a veto"
    matrix = pulled.confusion_matrix("new")
    assert ((matrix > 0) & (matrix < 1)).all()
    assert np.allclose(matrix.sum(axis=1), 1.0)
    moved = [np.abs(pulled.confusion_matrix(w) - plain.confusion_matrix(w)).max() for w in ("new", "w3")]
    assert moved[0] > moved[1]
    assert pulled.strength == 10.0
    assert plain.strength == 0.0


@pytest.mark.parametrize("strength", [2.0, 10.0, 50.0])
def test_the_estimated_strength_is_that_of_the_population(strength):
    rng = np.random.default_rng(5)
    mean = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    confusions = np.stack([[rng.dirichlet(strength * m) for m in mean] for _ in range(400)])
    crowd = adj.simulate(tasks=4000, votes_per_task=6, confusions=confusions, seed=1)
    votes = adj.read(crowd.votes, labels=LABELS)
    from adjudge.engines.registry import resolve
    from adjudge.io.answers import read_gold

    session = resolve("auto").load(votes, seed=0, ties="hash", gold=read_gold(crowd.truth, votes.labels))
    session.start(hard=True)
    assert population(session.gather, "auto").strength == pytest.approx(strength, rel=0.15)


def test_workers_who_are_all_alike_are_lent_the_most():
    one = np.array([[0.7, 0.3], [0.2, 0.8]])
    crowd = adj.simulate(tasks=2000, votes_per_task=7, confusions=np.stack([one] * 30), seed=2)
    assert adj.aggregate(crowd.votes, model=adj.FastDawidSkene(strength="auto")).strength > 100


@pytest.mark.parametrize("model", ["ds", "fds", "hybrid", "one-coin", "glad"])
def test_class_priors_fixed_and_as_pseudo_tasks(model):
    fixed = adj.aggregate(CROWD.votes, model=model, priors={"l1": 0.2, "l0": 0.5, "l2": 0.3})
    assert fixed.priors["prior"].to_list() == [0.5, 0.2, 0.3]
    assert fixed.predict(CROWD.votes).priors["prior"].to_list() == [0.5, 0.2, 0.3]
    heavy = adj.aggregate(CROWD.votes, model=model, priors=[0.5, 0.2, 0.3], priors_weight=1e9)
    assert heavy.priors["prior"].to_list() == pytest.approx([0.5, 0.2, 0.3], abs=1e-6)
    if model != "glad":
        nothing = adj.aggregate(CROWD.votes, model=model, priors=[0.5, 0.2, 0.3], priors_weight=0)
        estimated = {"class_priors": "estimated"} if model == "one-coin" else {}  # the others know no other way
        assert nothing.labels.equals(MODELS[model](**estimated).fit(CROWD.votes).labels)
    skewed = adj.aggregate(CROWD.votes, model=model, priors=[0.998, 0.001, 0.001])
    assert (skewed.labels["label"] == "l0").sum() > (fixed.labels["label"] == "l0").sum()


@pytest.mark.parametrize("model", ["ds", "fds", "hybrid", "one-coin"])
def test_a_fit_with_fixed_priors_goes_on_until_the_labels_have_settled(model):
    """Priors that are given do not move, and so cannot tell when a fit is done: the shares of the labels do."""
    fixed = adj.aggregate(CROWD.votes, model=model, priors=[0.4, 0.3, 0.3])
    heavy = adj.aggregate(CROWD.votes, model=make(model, {"stop": "labels"}), priors=[0.4, 0.3, 0.3], priors_weight=1e9)
    assert fixed.iterations > 3
    assert fixed.fit.trace[-1].change < 1e-4 <= fixed.fit.trace[-2].change
    assert fixed.log_likelihood >= heavy.log_likelihood - 1.0


def test_priors_of_a_result_can_be_given_to_the_next():
    first = adj.aggregate(CROWD.votes, model="ds")
    again = adj.aggregate(CROWD.votes, model="ds", priors=first.priors)
    assert again.priors["prior"].to_list() == pytest.approx(first.priors["prior"].to_list())
    uniform = adj.aggregate(CROWD.votes, priors="uniform")
    assert uniform.priors["prior"].to_list() == pytest.approx([1 / 3] * 3)


def test_priors_with_names_are_matched_by_name():
    shares = {"l2": 0.5, "l0": 0.2, "l1": 0.3}
    named = pd.Series(shares)
    forms = [
        shares,
        named,
        named.rename_axis("label").reset_index(name="prior"),
        pd.Series([0.2, 0.3, 0.5]),
        np.array([0.2, 0.3, 0.5]),
    ]
    for form in forms:
        assert adj.aggregate(CROWD.votes, priors=form).priors["prior"].to_list() == pytest.approx([0.2, 0.3, 0.5])


def test_numbers_of_any_kind_are_numbers(tmp_path):
    expected = adj.aggregate(CROWD.votes, model=adj.OneCoin(smoothing=1.0, strength=0.25), seed=3)
    result = adj.aggregate(CROWD.votes, model=adj.OneCoin(smoothing=np.int32(1), strength=Fraction(1, 4)), seed=np.int64(3))
    result.save(tmp_path / "m")
    assert result.settings == expected.settings == adj.load(tmp_path / "m").content.settings
    assert result.labels.equals(expected.labels)


@pytest.mark.parametrize("votes", [[("t", "a", 2), ("u", "a", 10), ("u", "b", 2)], [("t", "a", True), ("t", "b", True)]])
def test_labels_stay_of_the_kind_they_are(votes):
    other = False if votes[0][2] is True else 7
    table = [("a", other, other, 3), ("a", votes[0][2], votes[0][2], 3), ("b", votes[1][2], votes[1][2], 1)]
    history = pl.DataFrame(table, schema=["worker", "true", "given", "count"], orient="row")
    result = adj.aggregate(votes, history=history)
    assert result.priors["label"].to_list() == sorted({other, votes[0][2], votes[1][2]})
    assert type(result.labels["label"][0]) is type(votes[0][2])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"priors": [0.5, 0.5, 0.5]}, "priors sum to 1.5, not to 1"),
        ({"priors": {"l0": 1.0}}, "say nothing of the label 'l1'"),
        ({"priors": {"l0": 0.5, "l1": 0.2, "l2": 0.2, "x": 0.1}}, "name the label 'x'"),
        ({"priors": [1.0, 0.0, 0.0]}, "above 0"),
        ({"priors": [1.2, -0.1, -0.1]}, "above 0"),
        ({"priors": "flat"}, "or 'uniform'"),
        ({"priors": [0.5, 0.5]}, "has 2 numbers"),
        ({"priors": pl.DataFrame({"label": ["l0", "l0"], "prior": [0.5, 0.5]})}, "name the label 'l0' twice"),
        ({"priors": 3}, "give a probability for every label"),
        ({"priors": [0.2, 0.3, 0.5], "priors_weight": -1}, "priors_weight is -1"),
        ({"priors_weight": 3.0}, "without priors"),
        ({"model": "fds", "strength": -1.0}, "strength is -1.0: give a number of at least 0 and at most 1e+12, or 'auto'"),
        ({"model": "fds", "strength": "much"}, "strength is 'much'"),
        (
            {"history": pl.DataFrame({"worker": ["w0"], "true": ["cat"], "given": ["dog"], "count": [3]})},
            "the history has the labels cat, dog",
        ),
        ({"history": pl.DataFrame({"worker": ["w0"], "true": ["l0"], "given": ["l1"], "count": [-3]})}, "count in row 1"),
        ({"history": pl.DataFrame({"worker": ["w0"], "true": ["l0"], "given": ["l1"]})}, "no column looks like the count"),
        ({"history": adj.read(CROWD.votes)}, "the votes: no column looks like the true"),
        ({"history": 3}, "cannot read from 3"),
        ({"model": "mv", "history": history()}, "model 'mv' cannot use history"),
        ({"model": "glad", "history": history()}, "model 'glad' cannot use history"),
        ({"model": "iwmv", "priors": "uniform"}, "model 'iwmv' cannot use priors"),
        ({"calibrate": True}, "give gold="),
        ({"calibrate": {"t1": "l0"}}, "at least 10 known labels"),
        ({"calibrate": GOLD, "gold": GOLD}, "at least 10 known labels of tasks with votes that are not gold; there are 0"),
        ({"multi": True, "calibrate": GOLD}, "calibrate works only for tasks with one label"),
        ({"multi": True, "history": history()}, "history works only for tasks with one label"),
    ],
)
def test_bad_input(options, words):
    with pytest.raises(adj.AdjudgeError) as caught:
        aggregate(CROWD.votes, **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("confidence", "gain"), [("posterior", 0.9), ("honest", 0.95)])
def test_a_temperature_is_fitted_on_either_confidence(confidence, gain):
    crowd = adj.simulate(tasks=3000, workers=60, labels=3, votes_per_task=4, skill=0.6, seed=3)
    gold, rest = crowd.truth.head(600), crowd.truth.tail(2400)
    how = {"model": "fds", "confidence": confidence}
    plain = aggregate(crowd.votes, **how, gold=gold)
    mended = aggregate(crowd.votes, **how, gold=gold, calibrate=True)
    apart = aggregate(crowd.votes, **how, calibrate=gold)
    # A posterior is too sure; honest confidence is not sure enough here, where errors are independent.
    assert mended.temperature > 1.5 if confidence == "posterior" else mended.temperature < 0.8
    assert mended.labels["label"].equals(plain.labels["label"])
    assert (mended.labels.filter("gold")["confidence"] == 1.0).all()
    losses = [adj.evaluate(r, rest).log_loss for r in (plain, mended)]
    assert losses[1] < gain * losses[0]
    assert adj.evaluate(apart, rest).log_loss < losses[0]
    assert "gold" not in apart.labels.columns, "nothing was learned from these"
    probabilities = mended.probabilities.drop("task").to_numpy()
    assert np.allclose(probabilities.sum(axis=1), 1.0)
    assert np.allclose(probabilities.max(axis=1), mended.labels["confidence"].to_numpy())


def test_what_is_fitted_several_times_is_read_once():
    past = pl.DataFrame([("w1", "l0", "l1", 30)], schema=["worker", "true", "given", "count"], orient="row")
    expected = adj.aggregate(CROWD.votes, gold=GOLD, history=past, calibrate=True)
    found = adj.aggregate(CROWD.votes, gold=iter(GOLD.rows()), history=iter(past.rows()), calibrate=True)
    assert found.temperature == expected.temperature
    assert found.labels.equals(expected.labels)


OUTVOTED = [
    *(("t0", "w0", "b"), ("t0", "w1", "a"), ("t0", "w2", "a")),
    *(("t1", "w0", "a"), ("t1", "w1", "a"), ("t1", "w2", "a")),
    *(("t2", "w1", "a"), ("t2", "w2", "a")),
]


@pytest.mark.parametrize("engine", ["cpu", "reference", "disk"])
@pytest.mark.parametrize("strength", [1e-6, 0.3, 1.0, 5.0, 1e6, "auto"])
@pytest.mark.parametrize("model", ["ds", "fds", "hybrid", "one-coin"])
def test_a_label_that_never_won_a_majority_takes_no_unanimous_task(model, strength, engine):
    labels = adj.aggregate(OUTVOTED, model=make(model, {"strength": strength}), engine=engine).labels
    assert dict(labels.select("task", "label").iter_rows())["t2"] == "a"


@pytest.mark.parametrize("strength", [0.3, 1.0, 1e6])
@pytest.mark.parametrize("model", ["ds", "fds", "hybrid", "auto"])
def test_a_label_that_never_won_a_majority_takes_no_unanimous_task_of_a_stream(model, strength):
    online = adj.Online(labels=["a", "b"], model=model, strength=strength)
    online.learn_many(OUTVOTED)
    for _ in range(2):
        assert online.predict("t2").label == "a"
        online.refit()


@pytest.mark.parametrize("model", ["ds", "fds", "hybrid", "one-coin"])
@given(data=st.data(), strength=st.sampled_from([0.01, 0.3, 1.0, 5.0, 100.0, "auto"]))
def test_unanimous_tasks_of_a_consistent_crowd_keep_their_labels(model, data, strength):
    """Workers agree with every majority except at most once each, with labels that never win."""
    workers, winners = data.draw(st.integers(3, 5)), data.draw(st.lists(st.sampled_from("ab"), min_size=3, max_size=8))
    table = {f"t{t}": {f"w{w}": label for w in range(workers)} for t, label in enumerate(winners)}
    for task, worker in enumerate(data.draw(st.permutations(range(workers)))[: len(winners) - 1]):
        if data.draw(st.booleans()):
            table[f"t{task}"][f"w{worker}"] = data.draw(st.sampled_from("cd"))
    for task, votes in table.items():  # some votes are missing, but the majority stands
        for worker in data.draw(st.lists(st.sampled_from(sorted(votes)), max_size=workers - 3, unique=True)):
            if votes[worker] == winners[int(task[1:])]:
                del votes[worker]
    rows = [(task, worker, label) for task, votes in table.items() for worker, label in votes.items()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        labels = adj.aggregate(rows, model=make(model, {"strength": strength}), labels=list("abcd")).labels
    found = dict(labels.select("task", "label").iter_rows())
    for task, votes in table.items():
        if len(set(votes.values())) == 1:
            assert found[task] == winners[int(task[1:])]
