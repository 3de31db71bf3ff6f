"""What was learned: saved, loaded, merged, carried over to new votes, gone on from."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.io import container
from adjudge.models.base import MODELS
from fitting import aggregate

CROWD = adj.simulate(tasks=300, workers=15, labels=3, votes_per_task=3, skill=0.65, seed=4)


@pytest.mark.parametrize("model", [name for name, model in MODELS.items() if model.most_labels is None])
def test_save_load_predict_bit_for_bit(model, tmp_path):
    gold = CROWD.truth.head(50) if MODELS[model].needs_gold else None
    result = adj.aggregate(CROWD.votes, model=model, labels=["l0", "l1", "l2"], gold=gold)  # grades need an order
    new = adj.simulate(tasks=80, workers=20, labels=3, votes_per_task=3, seed=9).votes
    result.save(tmp_path / "a")
    loaded = adj.load(tmp_path / "a")
    loaded.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    here, there = result.predict(new), loaded.predict(new)
    assert here.labels.equals(there.labels)
    assert here.probabilities.equals(there.probabilities)
    assert here.unknown_workers == there.unknown_workers == [f"w{n}" for n in sorted(range(15, 20), key=lambda n: f"w{n}")]
    for worker in ("w0", "w14"):
        assert np.array_equal(
            loaded.confusion_matrix(worker), result.learned().confusion(int(result.votes.workers.codes([worker])[0]))
        )


@pytest.mark.parametrize(
    ("model", "beliefs"),
    [
        *((model, "none") for model in ("mv", "ds", "fds", "hybrid", "one-coin", "iwmv")),
        *((model, "pseudo-votes") for model in ("ds", "fds", "hybrid", "one-coin")),
        *((model, "history") for model in ("ds", "fds", "hybrid", "one-coin", "iwmv")),
    ],
)
def test_predicting_the_same_votes_gives_the_same_labels(model, beliefs):
    options = {}
    if beliefs == "pseudo-votes":
        options = {"smoothing": 0.2, "strength": 3.0}
    elif beliefs == "history":
        options = {"history": adj.aggregate(adj.simulate(tasks=100, workers=20, labels=3, seed=3).votes)}
    plain = {"model": model, "confidence": "posterior"}
    result = aggregate(CROWD.votes, **plain, **options)
    if options:
        assert not result.probabilities.equals(aggregate(CROWD.votes, **plain).probabilities), "nothing is believed"
    again = result.predict(CROWD.votes)
    assert again.labels.equals(result.labels)
    assert again.unknown_workers == []
    honest = aggregate(CROWD.votes, model=model, confidence="honest", **options).predict(CROWD.votes)
    assert honest.labels["label"].equals(result.labels["label"]), "confidence decides no label"


@pytest.mark.parametrize("model", ["auto", "mv", "ds", "iwmv", "glad"])
def test_predictions_have_the_confidence_that_the_fit_had(model, tmp_path):
    """Posterior that was chosen stays posterior, in silence (a warning is an error here); honest is honest."""
    new = adj.simulate(tasks=80, workers=20, labels=3, votes_per_task=3, seed=9).votes
    found = {}
    for confidence in ("posterior", "honest"):
        result = adj.aggregate(CROWD.votes, model=model, confidence=confidence)
        result.save(tmp_path / confidence)
        found[confidence] = adj.load(tmp_path / confidence).predict(new)
        assert found[confidence].labels.equals(result.predict(new).labels)
    plain, honest = found["posterior"], found["honest"]
    assert plain.labels["label"].equals(honest.labels["label"])
    assert np.abs((plain.labels["confidence"] - honest.labels["confidence"]).to_numpy()).max() > 0.01
    chosen = adj.load(tmp_path / "honest").predict(new, confidence="posterior")
    assert chosen.labels.equals(plain.labels)
    assert chosen.probabilities.equals(plain.probabilities)
    assert adj.load(tmp_path / "honest").predict(new, confidence="honest").labels.equals(honest.labels)
    with pytest.raises(adj.OptionError, match="fitted with posterior confidence"):
        adj.load(tmp_path / "posterior").predict(new, confidence="honest")
    with pytest.raises(adj.OptionError, match="unknown confidence 'high'"):
        adj.load(tmp_path / "honest").predict(new, confidence="high")


def test_a_temperature_is_of_the_confidence_that_it_was_fitted_on():
    gold = CROWD.truth.head(60)
    new = adj.simulate(tasks=80, workers=15, labels=3, votes_per_task=3, seed=9).votes
    cold = adj.aggregate(CROWD.votes, model="fds", confidence="honest", gold=gold, calibrate=True)
    plain = adj.aggregate(CROWD.votes, model="fds", confidence="honest", gold=gold)
    assert cold.temperature != 1.0
    assert not cold.predict(new).labels.equals(plain.predict(new).labels)
    assert cold.predict(new, confidence="posterior").labels.equals(plain.predict(new, confidence="posterior").labels)


@pytest.mark.parametrize("model", ["auto", "fds"])
def test_a_merged_model_is_honest_where_both_are(model):
    days = [adj.simulate(tasks=n, workers=10, labels=3, votes_per_task=4, seed=n).votes for n in (100, 300)]
    honest, plain = ([adj.aggregate(v, model=model, confidence=c) for v in days] for c in ("honest", "posterior"))
    both = adj.merge(*honest).learned().facts
    for name in ("shared_error", "holds"):
        ends = [one.facts[name] for one in honest]
        assert both[name] == pytest.approx(0.25 * ends[0] + 0.75 * ends[1], abs=1e-12)
    new = [("n", "w1", "l2"), ("n", "w2", "l2"), ("n", "w3", "l0")]
    sure = [adj.merge(*models).predict(new).labels["confidence"][0] for models in (honest, plain, (honest[0], plain[1]))]
    assert sure[1] == pytest.approx(sure[2])  # posterior was chosen for one of them
    assert sure[0] < sure[1]


def test_unknown_workers_are_like_the_population():
    result = adj.aggregate(CROWD.votes, model="ds", confidence="posterior")
    found = result.predict([("n", "stranger", "l1"), ("n", "w1", "l1")])
    assert found.unknown_workers == ["stranger"]
    assert found.workers.sort("worker")["known"].to_list() == [False, True]
    counts = np.zeros((3, 3))
    posterior = dict(zip(result.probabilities["task"], result.probabilities.drop("task").to_numpy(), strict=True))
    for task, label in CROWD.votes.select("task", "label").iter_rows():
        counts[:, int(label[1])] += posterior[task]
    # The parameters in force are one M-step behind the last posterior.
    assert found.confusion_matrix("stranger") == pytest.approx(counts / counts.sum(axis=1, keepdims=True), abs=1e-9)
    assert np.array_equal(adj.FittedModel(result.learned()).confusion_matrix(), found.confusion_matrix("stranger"))


def test_votes_over_fewer_labels_are_fine_and_over_others_are_not():
    model = adj.FittedModel(adj.aggregate(CROWD.votes).learned())
    assert model.predict([("n", "w1", "l2"), ("n", "w2", "l2")]).labels["label"].to_list() == ["l2"]
    with pytest.raises(adj.InputError, match="the model has the labels l0, l1, l2, the votes have l2, purple"):
        model.predict([("n", "w1", "l2"), ("n", "w2", "purple")])


@given(cut=st.integers(1, 299), seed=st.integers(0, 5))
def test_merged_knowledge_is_the_sum(cut, seed):
    tasks = CROWD.truth["task"].sample(fraction=1.0, shuffle=True, seed=seed)
    first, second = (CROWD.votes.filter(pl.col("task").is_in(part.to_list())) for part in (tasks[:cut], tasks[cut:]))
    labels = ["l0", "l1", "l2"]
    parts = [adj.aggregate(v, model="fds", labels=labels, gold=CROWD.truth) for v in (first, second)]
    whole = adj.aggregate(CROWD.votes, model="fds", gold=CROWD.truth)
    merged = adj.merge(*parts)
    assert merged.workers.select("worker", "votes").equals(adj.FittedModel(whole.learned()).workers.select("worker", "votes"))
    for worker in ("w0", "w8"):
        assert merged.confusion_matrix(worker) == pytest.approx(whole.confusion_matrix(worker))
    assert merged.priors["prior"].to_list() == pytest.approx(whole.priors["prior"].to_list())


def test_merging_takes_files_results_and_models_and_any_order_of_labels(tmp_path):
    first = adj.aggregate(CROWD.votes, labels=["l2", "l0", "l1"])
    second = adj.aggregate(adj.simulate(tasks=50, workers=25, labels=3, seed=1).votes)
    first.save(tmp_path / "first")
    merged = adj.merge(tmp_path / "first", second, adj.FittedModel(second.learned()))
    assert merged.workers["votes"].sum() == pytest.approx(900 + 250 + 250)
    assert merged.workers["worker"].to_list() == sorted(f"w{n}" for n in range(25))
    with pytest.raises(adj.InputError, match="other labels"):
        adj.merge(first, adj.aggregate([("t", "w", "cat"), ("u", "w", "dog")]))
    with pytest.raises(adj.InputError, match="cannot be merged"):
        adj.merge(first, adj.aggregate(CROWD.votes, model="iwmv"))


def test_history_of_a_result_of_a_file_and_of_a_table_are_the_same(tmp_path):
    past = adj.aggregate(adj.simulate(tasks=100, workers=20, labels=3, seed=3).votes, model="fds")
    past.save(tmp_path / "past")
    known = past.learned().knowledge
    rows = [
        (known.workers[int(w)], known.labels[t], known.labels[int(g)], float(known.counts[r, t]))
        for r, (w, g) in enumerate(zip(known.row_worker(), known.row_label, strict=True))
        for t in range(3)
    ]
    table = pl.DataFrame(rows, schema=["worker", "true", "given", "count"], orient="row")
    table.write_csv(tmp_path / "table.csv")
    forms = [past, tmp_path / "past", str(tmp_path / "past"), adj.load(tmp_path / "past"), table, tmp_path / "table.csv"]
    results = [adj.aggregate(CROWD.votes, model="ds", history=form) for form in forms]
    for other in results[1:]:
        assert other.labels.equals(results[0].labels)
    chained = results[0].learned().knowledge
    assert chained.counts.sum() == pytest.approx(900 + 500), "what was known before is known still"
    assert len(chained.workers) == 20


@pytest.mark.parametrize("model", ["ds", "fds", "hybrid", "one-coin", "iwmv"])
def test_warm_start_with_the_same_votes_is_over_at_once(model, tmp_path):
    cold = adj.aggregate(CROWD.votes, model=model)
    cold.save(tmp_path / "m")
    for form in (cold, tmp_path / "m", adj.load(tmp_path / "m")):
        warm = adj.aggregate(CROWD.votes, model=model, warm_start=form)
        assert warm.iterations <= max(2, cold.iterations // 3)
        assert (warm.labels["label"] == cold.labels["label"]).mean() > 0.99
        assert warm.iterations_before == cold.iterations
        assert warm.trace["iteration"][0] == cold.iterations + 1


@pytest.mark.parametrize("name", ["trec2010", "sp"])
def test_warm_start_after_new_votes(data_dir, name):
    votes = pl.read_csv(data_dir / name / "votes.csv", infer_schema=False)
    saved, likelihood = [], []
    for seed in range(3):
        shuffled = votes.sample(fraction=1.0, shuffle=True, seed=seed)
        before = adj.aggregate(shuffled.head(int(0.99 * len(votes))), model="fds")
        cold, warm = (adj.aggregate(shuffled, model="fds", warm_start=known) for known in (None, before))
        saved.append(warm.iterations / cold.iterations)
        likelihood.append((warm.log_likelihood - cold.log_likelihood) / abs(cold.log_likelihood))
    assert np.median(saved) <= 0.34
    assert np.median(likelihood) >= -1e-5


def test_warm_start_lets_new_votes_speak():
    """A worker who had never said l1 says it now: what was never seen is not forbidden for good."""
    votes = [(f"t{n}", w, "l0") for n in range(20) for w in "abc"] + [(f"u{n}", w, "l1") for n in range(20) for w in "de"]
    later = [*votes, *((f"u{n}", "a", "l1") for n in range(20))]
    result = adj.aggregate(later, model="ds", warm_start=adj.aggregate(votes, model="ds"))
    assert result.confusion_matrix("a") == pytest.approx(np.eye(2), abs=1e-6)


def test_bad_files(tmp_path):
    result = adj.aggregate(CROWD.votes, model="fds")
    path = tmp_path / "model"
    result.save(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "damaged").write_bytes(data)
    (tmp_path / "cut").write_bytes(path.read_bytes()[:-10])
    (tmp_path / "foreign").write_text("task,worker,label\n")
    adj.Online.from_result(result).save(tmp_path / "online")
    container.save(tmp_path / "newer", "model", 99, {}, {})
    words = {
        "damaged": "damaged",
        "cut": "damaged",
        "foreign": "not a file that adjudge saved",
        "online": r"holds 'online', not 'model': adj\.Online\.load reads it",
        "newer": "newer adjudge",
        "missing": "cannot read",
    }
    for name, word in words.items():
        with pytest.raises(adj.AdjudgeError, match=word):
            adj.load(tmp_path / name)
    with pytest.raises(adj.InputError, match="warm_start is 7"):
        adj.aggregate(CROWD.votes, warm_start=7)
    with pytest.raises(adj.OptionError, match="cannot start 'iwmv'"):
        adj.aggregate(CROWD.votes, model="iwmv", warm_start=path)
    with pytest.raises(adj.InputError, match="the saved model has the labels"):
        adj.aggregate([("t", "w", "cat")], warm_start=path)
    with pytest.raises(adj.InputError, match="folder .* does not exist"):
        result.save(tmp_path / "no" / "where")


def test_integer_workers_and_labels_stay_integers(tmp_path):
    votes = [(t, w, (t + w) % 2) for t in range(30) for w in range(5)]
    adj.aggregate(votes).save(tmp_path / "m")
    model = adj.load(tmp_path / "m")
    assert model.workers["worker"].to_list() == list(range(5))
    found = model.predict([(7, 3, 1), (7, 99, 0)])
    assert found.labels["label"].dtype == pl.Int64
    assert found.unknown_workers == [99]
    assert model.predict([("7", "3", "1")]).unknown_workers == []


def test_merged_ids_stay_integers_where_they_can():
    numbers, texts = adj.aggregate([(1, 1, "a"), (1, 10, "b"), (2, 2, "b")]), adj.aggregate([("1", "2", "b"), ("1", "1", "a")])
    assert adj.merge(numbers, texts).workers["worker"].to_list() == [1, 2, 10]
    assert adj.merge(texts, numbers).workers["worker"].to_list() == ["1", "10", "2"]


def test_one_coin_of_a_history_with_more_labels_predicts_what_it_fitted():
    rows = [("w1", "l0", "l0", 3), ("z", "l1", "l1", 1), ("z", "l2", "l2", 1), ("z", "only before", "only before", 5)]
    history = pl.DataFrame(rows, schema=["worker", "true", "given", "count"], orient="row")
    result = adj.aggregate(CROWD.votes, model="one-coin", history=history, confidence="posterior")
    assert result.predict(CROWD.votes).probabilities.equals(result.probabilities)


@pytest.mark.parametrize("options", [{}, {"smoothing": 0.5}, {"strength": 5.0}])
def test_one_coin_merged_with_nothing_stays_as_it_is(options):
    """Pseudo-votes hold for merged coins as for fitted ones, and confusions are shares."""
    result = aggregate(CROWD.votes, model="one-coin", **options)
    nothing = adj.aggregate([], model="one-coin", labels=["l0", "l1", "l2"])
    merged = adj.merge(result, nothing)
    again = adj.aggregate(CROWD.votes, model=adj.OneCoin(max_iter=1, tol=10, **options), warm_start=result)
    assert merged.content.skill == pytest.approx(again.fit.skill, abs=1e-9)
    for worker in ("w0", "w8"):
        assert result.confusion_matrix(worker).sum(axis=1) == pytest.approx(1.0)


def test_the_columns_of_the_votes_are_remembered(tmp_path):
    """A saved model reads tables by the columns that its own votes had; the caller, and tables without them, decide otherwise."""
    votes = {"q": [1, 1, 2, 2], "who": ["a", "b", "a", "b"], "says": ["x", "x", "y", "x"]}
    adj.aggregate(votes, task="q", worker="who", label="says", model="mv").save(tmp_path / "crowd.adjudge")
    model = adj.load(tmp_path / "crowd.adjudge")
    new = {"task": ["t"] * 2, "q": [7, 7], "who": ["a", "b"], "says": ["y", "y"], "label": ["n", "n"]}
    assert model.predict(new).labels.rows()[0][:2] == (7, "y")
    assert model.predict(new, task="task").labels.rows()[0][:2] == ("t", "y")
    assert model.predict([("u", "a", "x")]).labels["task"].to_list() == ["u"]
    usual = {"task": ["t"], "worker": ["a"], "label": ["x"]}
    assert model.predict(usual).labels["task"].to_list() == ["t"]
    sets = {"q": [1, 1], "who": ["a", "b"], "says": [["x"], ["x", "y"]]}
    adj.aggregate(sets, task="q", worker="who", label="says", model="mv", multi=True).save(tmp_path / "sets.adjudge")
    assert adj.load(tmp_path / "sets.adjudge").predict(sets | {"task": [5, 5]}).labels["task"].to_list() == [1]
