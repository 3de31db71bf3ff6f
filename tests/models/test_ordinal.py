"""Ordinal grades: the naive version, biased judges, the order of labels, columns, what it takes, and bad input."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
import oracle_ordinal as oracle

SMALL = ("low", "mid", "high")
WORDS = [("t1", "ann", "low"), ("t1", "bob", "mid"), ("t2", "ann", "high"), ("t2", "bob", "high"), ("t3", "ann", "mid")]


def graded(seed, tasks=150, judges=7, k=5, per_task=None, spread=0.8):
    """Return votes of judges with bias and noise of their own on grades 1 to k, the truth, and the biases."""
    rng = np.random.default_rng(seed)
    bias, noise, truth = rng.normal(0, spread, judges), rng.uniform(0.4, 0.9, judges), rng.integers(1, k + 1, tasks)
    votes = []
    for task in range(tasks):
        for judge in range(judges) if per_task is None else rng.choice(judges, per_task, replace=False):
            seen = truth[task] + bias[judge] + noise[judge] * rng.normal()
            votes.append((task, f"j{judge}", int(np.clip(np.rint(seen), 1, k))))
    return votes, dict(enumerate(truth.tolist())), bias


def figures(result):
    return {row["task"]: row for row in result.labels.to_dicts()}


@pytest.mark.filterwarnings("ignore::adjudge.NotConverged")
@pytest.mark.parametrize(("seed", "k", "engine"), [(1, 3, "cpu"), (2, 5, "reference"), (3, 2, "cpu")])
def test_it_equals_the_naive_version(seed, k, engine):
    votes, _, _ = graded(seed, tasks=12, judges=4, k=k)
    naive, judges = oracle.fit(votes, sorted({grade for _, _, grade in votes}), iterations=4)
    result = adj.Ordinal(max_iter=4, tol=0).fit(votes, engine=engine, confidence="posterior")
    for line in result.posterior.to_dicts():
        task = line.pop("task")
        assert line == pytest.approx({str(grade): p for grade, p in naive[task].items()}, abs=1e-6)
    for line in result.workers.to_dicts():
        g, h, b = judges[line["worker"]]
        assert (line["bias"], line["stretch"]) == pytest.approx((b / g, h / g), abs=1e-4)
        assert line["scale"] == pytest.approx(np.pi / np.sqrt(3) / g, abs=1e-4)
    means = {task: sum(grade * p for grade, p in known.items()) for task, known in naive.items()}
    assert {task: line["mean"] for task, line in figures(result).items()} == pytest.approx(means, abs=1e-5)


def test_biased_judges_are_seen_through():
    """Better than the rounded mean, the standardised mean and the models of labels without order; and biases come back."""
    gained = {}
    for seed in range(4):
        votes, truth, bias = graded(seed, tasks=300)
        frame = pl.DataFrame(votes, schema=["task", "worker", "label"], orient="row")
        result = adj.aggregate(frame, model="ordinal")
        ours = adj.evaluate(result, truth).accuracy
        spread = (pl.col("label") - pl.col("label").mean()) / pl.col("label").std()
        whole = pl.col("z").mean() * frame["label"].std() + frame["label"].mean()
        rivals = {
            "mean": frame.group_by("task").agg(label=pl.col("label").mean().round().cast(pl.Int64)),
            "standardised": frame.with_columns(z=spread.over("worker"))
            .group_by("task")
            .agg(label=whole.round().clip(1, 5).cast(pl.Int64)),
            **{model: adj.aggregate(frame, model=model) for model in ("mv", "fds")},
        }
        for name, labels in rivals.items():
            gained.setdefault(name, []).append(ours - adj.evaluate(labels, truth).accuracy)
        workers = result.workers.sort("worker")
        assert np.corrcoef(workers["bias"].to_numpy(), bias)[0, 1] > 0.97
        assert workers["scale"].is_between(0.3, 1.3).all()
    assert min(map(min, gained.values())) >= 0
    for name, least in {"standardised": 0.04, "mean": 0.08, "fds": 0.08, "mv": 0.15}.items():
        assert np.mean(gained[name]) > least, gained


def test_a_judge_with_the_scale_upside_down_is_turned_round():
    votes, truth, _ = graded(4, judges=6, spread=0.1)
    votes += [(task, "odd", 6 - grade) for task, grade in truth.items()]
    result = adj.aggregate(votes, model="ordinal")
    assert result.workers.filter(worker="odd")["stretch"].item() < -0.5
    assert adj.evaluate(result, truth).accuracy > 0.95


def test_the_order_can_come_in_many_ways(tmp_path):
    declared = adj.aggregate(WORDS, model="ordinal", labels=SMALL)
    ordered = pl.DataFrame(WORDS, schema={"task": pl.String, "worker": pl.String, "label": pl.Enum(SMALL)}, orient="row")
    others = {
        "order": adj.Ordinal(order=SMALL).fit(WORDS),
        "an iterator": adj.Ordinal(order=iter(SMALL)).fit(WORDS),
        "more grades": adj.Ordinal(order=["none", *SMALL]).fit(WORDS),
        "read": adj.Ordinal().fit(adj.read(WORDS, labels=SMALL)),
        "a type": adj.aggregate(ordered, model="ordinal"),
        "disk": adj.aggregate(WORDS, model="ordinal", labels=iter(SMALL), engine="disk"),
        "exclude": adj.aggregate([*WORDS, ("t1", "eve", "low")], model="ordinal", labels=SMALL, exclude=["eve"]),
    }
    wanted = declared.labels.sort("task")
    for how, result in others.items():
        found = result.labels.sort("task")
        assert found["label"].cast(pl.String).to_list() == wanted["label"].to_list(), how
        first = 1.0 if how == "more grades" else 0.0  # places count from the lowest of the order
        assert (found["mean"] - first).to_list() == pytest.approx(wanted["mean"].to_list()), how
        assert result.settings["order"][-3:] == SMALL, how
    reverse = adj.Ordinal(order=SMALL[::-1]).fit(WORDS)
    assert reverse.labels["label"].to_list() == declared.labels["label"].to_list()
    assert reverse.workers["bias"].to_list() == pytest.approx((-declared.workers["bias"]).to_list())


def test_numbers_order_themselves_however_they_are_written_or_declared():
    votes, _, _ = graded(5, tasks=40, k=12)
    first = adj.aggregate(votes, model="ordinal")
    texts = adj.aggregate([(task, judge, str(grade)) for task, judge, grade in votes], model="ordinal")
    assert texts.labels["label"].cast(pl.Int64).to_list() == first.labels["label"].to_list()
    assert texts.labels["mean"].to_list() == pytest.approx(first.labels["mean"].to_list())
    shuffled = adj.aggregate(votes, model="ordinal", labels=[7, 12, *range(1, 7), 9, 8, 10, 11])
    assert shuffled.labels.select("label", "median").equals(first.labels.select("label", "median"))
    halves = adj.aggregate([(task, judge, str(grade / 2)) for task, judge, grade in votes], model="ordinal")
    assert halves.labels["median"].to_list() == (first.labels["median"] / 2).to_list()


def test_mean_and_median_are_those_of_the_posterior():
    votes, _, _ = graded(6, tasks=60, per_task=3)
    result = adj.aggregate(votes, model="ordinal", engine="reference")
    chances = result.posterior.drop("task").to_numpy()
    assert result.labels["mean"].to_numpy() == pytest.approx(chances @ np.arange(1, 6))
    medians = [int(np.argmax(np.cumsum(line) >= 0.5)) + 1 for line in chances]
    assert result.labels["median"].to_list() == medians
    assert result.labels["label"].to_list() == (chances.argmax(axis=1) + 1).tolist()


def test_gold_priors_history_weights_and_warm_starts_are_taken():
    votes, truth, _ = graded(7, tasks=80, per_task=3)
    plain = adj.aggregate(votes, model="ordinal")
    gold = {task: grade for task, grade in truth.items() if task < 40}
    taught = adj.aggregate(votes, model="ordinal", gold=gold)
    known = figures(taught)
    assert all(known[task]["label"] == known[task]["mean"] == grade for task, grade in gold.items())
    rest = {task: grade for task, grade in truth.items() if task >= 40}
    assert adj.evaluate(taught, rest).accuracy >= adj.evaluate(plain, rest).accuracy
    high = adj.aggregate(votes, model="ordinal", priors={5: 0.96, 1: 0.01, 2: 0.01, 3: 0.01, 4: 0.01})
    assert high.labels["mean"].mean() > plain.labels["mean"].mean()
    past = adj.aggregate([(f"old{task}", judge, grade) for task, judge, grade in graded(7, tasks=200)[0]], model="ordinal")
    helped = adj.aggregate(votes, model="ordinal", history=past)
    assert adj.evaluate(helped, truth).accuracy >= adj.evaluate(plain, truth).accuracy
    assert helped.iterations < plain.iterations
    assert all(after.objective >= before.objective - 1e-9 * abs(before.objective)
               for before, after in zip(helped.fit.trace, helped.fit.trace[1:], strict=False))  # fmt: skip
    again = adj.aggregate(votes, model="ordinal", warm_start=plain)
    assert again.labels["label"].to_list() == plain.labels["label"].to_list()
    doubled = adj.aggregate([(*vote, 2.0) for vote in votes], model="ordinal", weight="weight")
    twice = adj.aggregate([*votes, *votes], model="ordinal")
    assert doubled.labels["mean"].to_list() == pytest.approx(twice.labels["mean"].to_list(), abs=1e-6)


def test_what_was_learned_predicts_is_saved_and_merged(tmp_path):
    votes, truth, _ = graded(8, tasks=120)
    result = adj.aggregate(votes, model="ordinal", confidence="posterior")
    result.save(tmp_path / "model")
    loaded = adj.load(tmp_path / "model")
    again = loaded.predict(votes)
    assert again.labels.equals(result.labels)
    assert result.confusion_matrix("j0").sum(axis=1) == pytest.approx(np.ones(5))
    # A judge who never gave a 1 gives one now: it says that the task is low, or bad judges would lift it.
    few = [vote for vote in votes if vote[1] != "j0" or vote[2] > 2]
    unseen = adj.aggregate(few, model="ordinal").predict([("new", "j0", 1), ("new", "stranger", 1)])
    assert unseen.labels["label"].item() == 1
    assert unseen.labels["median"].item() == 1.0
    halves = [adj.aggregate([vote for vote in votes if vote[0] % 2 == part], model="ordinal") for part in (0, 1)]
    for part, half in enumerate(halves):
        half.save(tmp_path / f"half{part}")
    both = adj.merge(*(adj.load(tmp_path / f"half{part}") for part in (0, 1)))
    assert adj.evaluate(both.predict(votes), truth).accuracy == pytest.approx(adj.evaluate(result, truth).accuracy, abs=0.03)
    words = adj.aggregate(WORDS, model="ordinal", labels=SMALL)
    words.save(tmp_path / "words")
    assert adj.load(tmp_path / "words").predict(WORDS).labels["mean"].to_list() == pytest.approx(words.labels["mean"].to_list())


def test_ties_of_a_mirrored_scale_stay_ties():
    """What is above for one judge is below for another: the middle grade, or both sides alike."""
    votes = [("t", "ann", 1), ("t", "bob", 2), ("u", "ann", 2), ("u", "bob", 1), ("v", "ann", 1), ("v", "bob", 2)]
    votes += [("w", "ann", 2), ("w", "bob", 1)]
    for engine in ("cpu", "reference"):
        assert adj.aggregate(votes, model="ordinal", engine=engine).labels["tie"].all()
    votes = [(task, judge, grade) for task in "tuv" for judge, grade in (("ann", 1), ("bob", 3))]
    assert adj.aggregate(votes, model="ordinal").labels["tie"].all()


def test_small_and_odd_crowds_have_an_answer():
    alone = adj.aggregate([(task, "ann", grade) for task, grade in enumerate([1, 5, 3, 3])], model="ordinal")
    assert alone.labels["label"].to_list() == [1, 5, 3, 3]
    same = adj.aggregate([(task, judge, 4) for task in range(3) for judge in "ab"], model="ordinal")
    assert same.labels.select("label", "mean", "median").rows() == [(4, 4.0, 4.0)] * 3
    assert np.isfinite(same.workers.select("bias", "scale", "stretch").to_numpy()).all()
    one = adj.aggregate([("t", "ann", "fine")], model="ordinal")
    assert one.labels.select("label", "mean").rows() == [("fine", 1.0)]
    empty = adj.aggregate({"task": [], "worker": [], "label": []}, model="ordinal")
    assert len(empty.labels) == 0


@pytest.mark.parametrize(("options", "message"), [
    ({"order": "low"}, "order is 'low': give all labels from the lowest"),
    ({"order": []}, r"order is \[\]: give all labels"),
    ({"order": 3}, "order is 3: give all labels"),
    ({"order": ["low", None]}, "order is .*None.*: give all labels"),
    ({"order": ["low", "mid", "low"]}, "order has 'low' twice"),
    ({"order": ["low", "mid"]}, "label 'high' is not in the order, which is low, mid: add it"),
    ({"order": {"low", "mid", "high"}}, r"order is \{.*: give all labels"),
    ({"order": ["low", float("nan")]}, r"order is \['low', nan\]: give all labels"),
    ({}, r"the labels high, low, mid have no order that shows: give labels=… \(--labels\) .* or adj.Ordinal\(order="),
    ({"tol": -1.0}, "tol is -1.0: give a number of at least 0"),
])  # fmt: skip
def test_bad_orders_are_one_clear_line(options, message):
    with pytest.raises(adj.OptionError, match=message) as error:
        adj.Ordinal(**options).fit(WORDS)
    assert "\n" not in str(error.value)


def test_a_forged_order_is_not_loaded(tmp_path):
    from adjudge.results import saved

    result = adj.aggregate(WORDS, model="ordinal", labels=SMALL)
    meta, arrays = saved.model_contents(result.learned())
    for order in (["low", "mid"], "low", [1, [2]], 7):
        with pytest.raises(adj.InputError, match="is not valid: (order|label)"):
            saved.check_model(tmp_path, {**meta, "settings": {**meta["settings"], "order": order}}, arrays)
