"""Auto and honest confidence: against the naive version, on every engine, with what callers know, and by hand."""

import warnings

import numpy as np
import polars as pl
import pytest

import adjudge as adj
import contract
from adjudge.kernels.reference import pick
from adjudge.models.base import make
from oracle_auto import auto, honest

ENGINES = ["cpu", "reference", "disk"]
CROWDS = {
    "plain": {"tasks": 60, "workers": 9, "labels": 3, "votes_per_task": 4, "seed": 1},
    "two labels": {"tasks": 80, "workers": 7, "labels": 2, "votes_per_task": 5, "skill": 0.6, "seed": 2},
    "spammers": {"tasks": 70, "workers": 12, "labels": 4, "votes_per_task": (1, 6), "spammers": 0.3, "seed": 3},
    "colluders": {"tasks": 90, "workers": 10, "labels": 3, "votes_per_task": 6, "colluders": 0.4, "seed": 4},
}


def plain(votes):
    """Votes as triples of codes, and how the package breaks ties."""
    session = adj.MajorityVote().fit(votes, engine="reference").session
    store, hashes = session._store, session._rules.label_hash
    task = np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))
    triples = list(zip(task.tolist(), votes.row_worker()[votes.row].tolist(), votes.row_label[votes.row].tolist(), strict=True))

    def choose(t, scores):
        return int(pick(np.array([scores]), store._task_key.within(slice(t, t + 1)), hashes)[0][0])

    return triples, choose


@pytest.fixture(params=CROWDS)
def votes(request):
    return adj.read(adj.simulate(**CROWDS[request.param]).votes)


def majority_of(votes):
    return dict(enumerate(adj.MajorityVote().fit(votes, engine="reference").fit.outcome.labels.tolist()))


@pytest.mark.parametrize("engine", ENGINES)
def test_labels_of_auto_are_those_of_the_naive_version(votes, engine):
    triples, choose = plain(votes)
    want, fell_back = auto(triples, votes.n_labels, majority_of(votes), choose)
    result = adj.aggregate(votes, model="auto", engine=engine)
    order = votes.tasks.codes(list(result.labels["task"]))
    got = votes.labels.codes(list(result.labels["label"]))
    assert dict(zip(order.tolist(), got.tolist(), strict=True)) == want
    assert result.facts["chose"] == ("majority" if fell_back else "careful")
    assert result.converged
    assert np.isnan(result.log_likelihood)
    assert set(result.trace["phase"]) <= {"A", "B"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", ["mv", "fds", "ds", "iwmv", "glad", "auto"])
def test_honest_probabilities_are_those_of_the_naive_version(votes, model, engine):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        result = adj.aggregate(votes, model=model, engine=engine, confidence="honest")
    order = votes.tasks.codes(list(result.labels["task"]))
    labels = dict(zip(order.tolist(), votes.labels.codes(list(result.labels["label"])).tolist(), strict=True))
    want, before = honest(plain(votes)[0], votes.n_labels, labels, majority_of(votes))
    got = result.probabilities.drop("task").to_numpy()
    assert got == pytest.approx(np.array([want[t] for t in order.tolist()]), abs=1e-9)
    assert result.labels["confidence"].to_numpy() == pytest.approx(np.array([max(want[t]) for t in order.tolist()]), abs=1e-9)
    near = np.array([sorted(before[t])[-2] >= max(before[t]) - 1e-9 for t in order.tolist()])
    own = adj.aggregate(votes, model=model, engine=engine, confidence="posterior") if model == "mv" else result
    assert (result.labels["tie"].to_numpy() >= near).all()
    assert result.expected_errors == pytest.approx(sum(1 - max(want[t]) for t in want))
    if model == "mv":
        assert own.labels["label"].equals(result.labels["label"])
        assert own.probabilities.equals(result.posterior)


def test_the_models_of_the_paper_are_left_as_they_are():
    crowd = adj.simulate(tasks=100, workers=8, seed=5)
    plain_fit, judged = (adj.aggregate(crowd.votes, model="fds", confidence=c) for c in ("posterior", "honest"))
    assert plain_fit.labels["label"].equals(judged.labels["label"])
    assert plain_fit.log_likelihood == judged.log_likelihood
    assert plain_fit.probabilities.equals(judged.posterior)
    assert judged.expected_errors > plain_fit.expected_errors


def test_two_judges_who_always_disagree_are_coin_flips():
    votes = [(t, w, "ab"[(t + (w == "w2")) % 2]) for t in range(20) for w in ("w1", "w2")]
    labels = adj.aggregate(votes, model="fds", confidence="honest").labels
    assert labels["confidence"].to_list() == pytest.approx([0.5] * 20)
    assert labels["tie"].all()


def test_all_answers_distinct_are_worth_nothing():
    votes = [
        (t, w, g) for t in range(12) for w, g in zip("abc", ["x", "y", "z"][t % 3 :] + ["x", "y", "z"][: t % 3], strict=True)
    ]
    assert adj.aggregate(votes, model="mv", confidence="honest").labels["confidence"].to_list() == pytest.approx([1 / 3] * 12)


def test_a_crowd_that_agrees_throughout_has_nothing_to_learn():
    votes = [(t, w, "ab"[t % 2]) for t in range(10) for w in "uvw"]
    assert (
        adj.aggregate(votes, model="auto").facts["why"] == "majority vote: workers agree throughout, so there is nothing to learn"
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_gold_is_certain_and_its_label_is_kept(engine):
    crowd = adj.simulate(tasks=80, workers=9, labels=3, seed=6)
    wrong = crowd.truth.head(12).with_columns(label=pl.lit("l0"))
    result = adj.aggregate(crowd.votes, model="auto", engine=engine, gold=wrong, confidence="honest")
    marked = result.labels.filter(pl.col("gold"))
    assert marked["label"].unique().to_list() == ["l0"]
    assert marked["confidence"].to_list() == [1.0] * 12
    assert result.labels.filter(~pl.col("gold"))["confidence"].max() < 1


def test_gold_that_shows_skill_keeps_the_guard_from_firing():
    draw = np.random.default_rng(0)
    votes = []
    for t in range(90):  # a third of the tasks is hard for all alike, and nobody is better than others
        error = 0.5 if t % 3 == 0 else 0.01
        votes += [(t, w, "ab"[(t + (draw.random() < error)) % 2]) for w in "stuvwxyz"]
    assert adj.aggregate(votes, model="auto").facts["chose"] == "majority"
    gold = {t: "ab"[t % 2] for t in range(0, 90, 4)}
    assert adj.aggregate(votes, model="auto", gold=gold).facts["chose"] == "careful"


def test_saved_predicted_merged_and_continued(tmp_path):
    crowd = adj.simulate(tasks=200, workers=12, labels=3, seed=7)
    result = adj.aggregate(crowd.votes, model="auto")
    result.save(tmp_path / "model")
    model = adj.load(tmp_path / "model")
    assert model.predict(crowd.votes).labels["label"].equals(result.labels["label"])
    assert model.confusion("w1").equals(result.confusion("w1"))
    assert result.confusion_matrix("w1").sum(axis=1) == pytest.approx(np.ones(3))
    new = [("new", "w1", "l2"), ("new", "w2", "l2"), ("new", "zoe", "l0")]
    assert model.predict(new).labels["label"].to_list() == ["l2"]
    assert adj.merge(result, model).predict(new).labels["label"].to_list() == ["l2"]
    again = adj.aggregate(crowd.votes, model="auto", warm_start=model)
    assert (again.labels["label"] == result.labels["label"]).mean() > 0.95
    assert adj.aggregate(crowd.votes, model="auto", history=model).facts["chose"] == "careful"


def test_a_label_that_nobody_names_is_not_a_label():
    crowd = adj.simulate(tasks=60, workers=8, labels=3, seed=8)
    few = adj.aggregate(crowd.votes, model="auto", confidence="honest")
    more = adj.aggregate(crowd.votes, model="auto", confidence="honest", labels=["l0", "l1", "l2", "never"])
    assert few.labels["label"].equals(more.labels["label"])
    assert few.labels["confidence"].to_numpy() == pytest.approx(more.labels["confidence"].to_numpy(), abs=1e-12)
    assert more.probabilities["never"].max() == 0


def test_the_reason_is_true_of_the_figures_next_to_it():
    seen = set()
    rng = np.random.default_rng(1)
    for spread in (0.0, 0.2, 0.4, 0.9):  # of skill, on tasks of which a third is hard for all
        skill = np.clip(0.9 + spread * rng.uniform(-1, 1, 20), 0.5, 1.0)
        right = rng.random((300, 20)) < np.where(np.arange(300)[:, None] % 3, skill, skill - 0.3)
        facts = adj.aggregate([(t, w, "ab"[int(right[t, w])]) for t in range(300) for w in range(20)], model="auto").facts
        rho, found, why = facts["shared_error"], facts["skill_spread"], facts["why"]
        assert ("differ in skill more than they err together" in why) == (facts["chose"] == "careful" and rho <= found)
        assert ("err together more than" in why) == (facts["chose"] == "majority")
        assert ("as well" in why) == (facts["chose"] == "careful" and rho > found)
        seen.add(why.split(" (")[0])
    assert len(seen) == 3


OTHERS = {"smoothing": 1.0, "strength": "auto", "tol": 1e-3, "max_iter": 5, "stop": "labels", "switch": 0.1}


@pytest.mark.parametrize("option", OTHERS)
def test_options_of_other_models_name_them(option):
    with pytest.raises(adj.OptionError, match=f"but auto has no {option}: .*model=.fds.") as found:
        make("auto", {option: OTHERS[option]})
    assert "\n" not in str(found.value)
    named = "hybrid" if option == "switch" else "fds"
    assert f'give model="{named}", which has it' in str(found.value)
    make(named, {option: OTHERS[option]})  # what is named takes it


def test_passes_are_few_by_design():
    with pytest.raises(adj.OptionError) as found:
        adj.aggregate([("t", "w", "a")], model=make("auto", {"tol": 0.01}))
    assert str(found.value) == (
        'tol is 0.01, but auto has no tol: it makes at most six passes of each version by design; give model="fds", which has it'
    )


@pytest.mark.parametrize("name", ["mv", "auto", "ds"])
def test_threads_and_shards_change_nothing(name):
    votes = adj.read(adj.simulate(tasks=3000, workers=30, labels=3, seed=9).votes)
    first, *others = (adj.aggregate(votes, model=name, engine=adj.Cpu(threads=n), confidence="honest").labels for n in (1, 2, 5))
    assert all(first.equals(other) for other in others)


def test_the_contract_knows_auto():
    assert "auto" in contract.MODELS


@pytest.mark.parametrize("engine", ENGINES)
def test_the_accuracy_of_workers_is_that_of_their_answers(votes, engine):
    result = adj.aggregate(votes, model="auto", engine=engine, confidence="honest")
    order = votes.tasks.codes(list(result.labels["task"]))
    labels = dict(zip(order.tolist(), votes.labels.codes(list(result.labels["label"])).tolist(), strict=True))
    triples = plain(votes)[0]
    _, before = honest(triples, votes.n_labels, labels, majority_of(votes))
    answers = {}
    for t, w, g in triples:
        answers.setdefault(w, []).append(before[t][g])
    found = result.workers
    at = votes.workers.codes(list(found["worker"]))
    want = np.clip([np.mean(answers[w]) for w in at.tolist()], 0.01, 0.99)
    assert found["accuracy"].to_numpy() == pytest.approx(want, abs=1e-9)
    assert (found["accuracy_low"] <= found["accuracy"]).all()
    assert (found["accuracy"] <= found["accuracy_high"]).all()


def test_workers_are_inside_their_intervals():
    inside = total = 0
    for seed in range(4):
        crowd = adj.simulate(tasks=400, workers=30, labels=3, votes_per_task=4, shared_error=0.15, seed=seed)
        right = crowd.votes.join(crowd.truth.rename({"label": "true"}), on="task").with_columns(
            ok=pl.col("label") == pl.col("true")
        )
        real = right.group_by("worker").agg(pl.col("ok").mean())
        both = adj.aggregate(crowd.votes, model="auto", confidence="honest").workers.join(real, on="worker")
        held = (both["ok"] >= both["accuracy_low"]) & (both["ok"] <= both["accuracy_high"])
        inside, total = inside + int(held.sum()), total + len(held)
    assert inside / total > 0.8


def test_gold_counts_as_right_or_wrong_for_its_workers():
    votes = [(t, w, "ab"[t % 2]) for t in range(20) for w in ("good", "fine")] + [
        (t, "bad", "ab"[(t + 1) % 2]) for t in range(20)
    ]
    gold = {t: "ab"[t % 2] for t in range(20)}
    found = adj.aggregate(votes, model="auto", confidence="honest", gold=gold).workers
    assert dict(found.select("worker", "accuracy").rows()) == {"bad": 0.01, "fine": 0.99, "good": 0.99}


@pytest.mark.parametrize("model", ["auto", "fds", "mv"])
def test_predictions_of_an_honest_fit_are_honest(model, tmp_path):
    crowd = adj.simulate(tasks=400, workers=15, labels=3, seed=11)
    known, new = crowd.votes.filter(pl.col("task") < "t3"), crowd.votes.filter(pl.col("task") >= "t3")
    fitted = adj.aggregate(known, model=model, confidence="honest")
    fitted.save(tmp_path / "model")
    found = adj.load(tmp_path / "model").predict(new)
    assert found.labels.equals(fitted.predict(new).labels)
    evaluation = adj.evaluate(found, crowd.truth)
    plain_errors = adj.aggregate(known, model=model, confidence="posterior").predict(new).expected_errors
    wrong = evaluation.tasks - evaluation.correct
    assert abs(found.expected_errors - wrong) < max(abs(plain_errors - wrong), 0.6 * wrong + 25)
    assert found.probabilities.drop("task").sum_horizontal().to_list() == pytest.approx([1.0] * len(found.labels))
    assert len(found.workers.filter(pl.col("accuracy_low") > pl.col("accuracy"))) == 0
    stranger = adj.load(tmp_path / "model").predict([("x", "nobody", "l0")])
    assert 1 / 3 < stranger.labels["confidence"][0] < 0.9


def test_no_votes_with_a_history_are_not_an_error():
    known = adj.aggregate([("t1", "ann", "x"), ("t1", "bob", "y"), ("t2", "ann", "y"), ("t2", "bob", "y")])
    nothing = adj.aggregate({"task": [], "worker": [], "label": []}, labels=["x", "y"], history=known)
    assert nothing.facts["why"] == "majority vote: there are no votes"
    assert nothing.labels.is_empty()
