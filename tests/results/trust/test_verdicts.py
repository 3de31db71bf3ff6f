import logging
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given

import adjudge as adj
from adjudge.models.base import MODELS
from adjudge.results.workers import VERDICT_NAMES
from strategies import crowds

WORD = {"spammer": "spammer", "adversary": "adversary", "colluder": "copy"}
ADDED = ["accuracy_low", "accuracy_high", "information", "evidence", "below_chance", "verdict", "answers_like", "why"]


def judged(seeds, model="fds", **setting):
    """How often each (planted, verdict) occurs."""
    out = Counter()
    for seed in seeds:
        crowd = adj.simulate(seed=seed, **setting)
        both = adj.aggregate(crowd.votes, model=model).workers.join(crowd.workers.select("worker", "kind"), on="worker")
        out.update((WORD.get(kind, "honest"), verdict) for kind, verdict in both.select("kind", "verdict").iter_rows())
    return out


def precision_and_recall(found, word):
    right = found[word, word]
    called, there = (sum(n for pair, n in found.items() if pair[k] == word) for k in (1, 0))
    return right / max(called, 1), right / there


@pytest.mark.parametrize(
    ("planted", "word"),
    [
        ({"spammers": 0.2}, "spammer"),
        ({"adversaries": 0.2}, "adversary"),
        ({"colluders": 0.2, "ring": 4}, "copy"),
    ],
)
def test_planted_workers_are_found_at_fifty_votes(planted, word):
    workers = 20 if word == "copy" else 40
    found = judged(range(6), tasks=workers * 50 // 9, workers=workers, labels=3, votes_per_task=9, **planted)
    precision, recall = precision_and_recall(found, word)
    assert precision >= 0.95
    assert recall >= 0.95


@pytest.mark.parametrize("model", ["mv", "ds", "glad"])
def test_whatever_the_model(model):
    planted = {"spammers": 0.1, "adversaries": 0.1, "colluders": 0.1}
    found = judged(range(3), model, tasks=450, workers=40, labels=3, votes_per_task=9, **planted)
    for word in WORD.values():
        precision, recall = precision_and_recall(found, word)
        assert precision >= 0.9
        assert recall >= 0.9


@pytest.mark.parametrize(("votes", "per_task"), [(5, 3), (50, 5), (200, 9)])
def test_honest_crowds_get_no_bad_word(votes, per_task):
    found = Counter()
    for labels in (2, 3, 4):
        found += judged(range(4), tasks=40 * votes // per_task, workers=40, labels=labels, votes_per_task=per_task, skill=0.85)
    bad = sum(n for (_, verdict), n in found.items() if verdict in WORD.values())
    assert bad <= 0.005 * found.total()


def test_too_few_votes_are_unclear():
    crowd = adj.simulate(tasks=400, workers=30, labels=2, votes_per_task=5, seed=2)
    new = [("t1", "newcomer", "l0"), ("t2", "newcomer", "l1")]
    assert adj.aggregate([*crowd.votes.rows(), *new]).workers.filter(worker="newcomer")["verdict"].item() == "unclear"


def test_copies_name_each_other():
    crowd = adj.simulate(tasks=300, workers=20, labels=4, votes_per_task=7, colluders=0.4, ring=4, seed=1)
    found = adj.aggregate(crowd.votes).workers.join(crowd.workers.select("worker", "kind", leader="copies"), on="worker")
    leader = dict(found.select("worker", "leader").iter_rows())
    for worker, kind, like in found.select("worker", "kind", "answers_like").iter_rows():
        assert (like is not None) == (kind == "colluder")
        assert like is None or (like != worker and leader[like] == leader[worker])


def test_a_ring_that_outvotes_the_others_is_found():
    found = judged(range(3), tasks=220, workers=40, labels=2, votes_per_task=9, colluders=0.4, ring=16)
    precision, recall = precision_and_recall(found, "copy")
    assert precision == recall == 1.0
    experts = judged(range(3), tasks=220, workers=20, labels=2, votes_per_task=9, skill=0.96, skill_spread=0.02)
    assert not any(verdict == "copy" for _, verdict in experts)


@pytest.mark.parametrize("labels", [3, 8, 16, 64])
def test_those_who_give_all_labels_alike_are_not_adversaries(labels):
    draw, found = np.random.default_rng(labels), Counter()
    for _ in range(3):
        truth = draw.integers(0, labels, 400)
        rows = [
            (t, int(w), int(draw.integers(labels) if w < 12 or draw.random() > 0.8 else truth[t]))
            for t in range(400)
            for w in draw.choice(40, 5, replace=False)
        ]
        workers = adj.aggregate(rows).workers
        found.update(workers.filter(pl.col("worker") < 12)["verdict"])
    assert found["spammer"] >= 0.7 * found.total()


def test_nobody_is_a_witness_of_their_own_votes():
    draw = np.random.default_rng(0)
    truth = draw.integers(0, 3, 200)
    rows = [
        (t, int(w), int(truth[t] if draw.random() < 0.8 else draw.integers(3)))
        for t in range(200)
        for w in draw.choice(20, 4, replace=False)
    ]
    guesses = [(t, 20, int(draw.integers(3))) for t in range(80)]
    once, often = (adj.aggregate([*rows, *guesses * n]).workers.sort("worker") for n in (1, 5))
    assert once["verdict"][20] == often["verdict"][20] == "spammer"


@pytest.mark.parametrize("workers", [3, 10])
def test_good_workers_are_not_copies_of_each_other(workers):
    rows = [(t, w, t % 3) for t in range(100) for w in range(workers)]
    assert set(adj.aggregate(rows).workers["verdict"]) == {"informative"}


@given(crowds())
def test_the_columns_keep_what_they_promise(rows):
    result = adj.aggregate(rows, model="mv")
    workers, priors = result.workers, result.priors
    again = ["self_consistency"] if len({(task, worker) for task, worker, _ in rows}) < len(rows) else []
    assert workers.columns == ["worker", "votes", "accuracy", "agreement", "abstained", *again, *ADDED]
    assert set(workers["verdict"]) <= set(VERDICT_NAMES)
    for low, high in ((workers["accuracy_low"], workers["accuracy_high"]), (priors["low"], priors["high"])):
        assert ((low >= 0) & (low <= high) & (high <= 1)).all()
    assert (workers["information"] >= 0).all()
    assert (workers["information"] <= np.log2(max(len(priors), 1)) + 1e-9).all()
    assert workers["evidence"].is_finite().all()
    assert workers.filter(verdict="copy")["answers_like"].null_count() == 0
    assert workers["below_chance"].is_finite().all()
    assert workers["why"].is_not_null().all()


@pytest.mark.parametrize("model", [name for name, model in MODELS.items() if not model.needs_gold and model.most_labels is None])
def test_the_smallest_inputs_work(model):
    empty = {"task": [], "worker": [], "label": []}
    assert adj.aggregate(empty, model=model).workers.columns[:13] == [
        "worker",
        "votes",
        "accuracy",
        "agreement",
        "abstained",
        *ADDED,
    ]
    assert adj.aggregate(empty, model=model).priors.columns == ["label", "prior", "low", "high"]
    for rows in ([("t", "w", "x")], [("t", "w", "x"), ("u", "w", "y")], [(t, w, "x") for t in "tu" for w in "abc"]):
        labels = sorted({label for _, _, label in rows})  # grades need an order
        assert set(adj.aggregate(rows, model=model, labels=labels).workers["verdict"]) == {"unclear"}
    if MODELS[model].is_ordered:  # errors of judges of grades are not anywhere
        return
    crowd = adj.simulate(tasks=300, workers=10, labels=150, votes_per_task=4, skill=0.8, seed=13)
    posterior = adj.aggregate(crowd.votes, model=model, confidence="posterior")
    assert posterior.workers["accuracy_low"].min() > 0.6


def test_order_and_names_do_not_matter():
    crowd = adj.simulate(tasks=200, workers=20, labels=3, votes_per_task=6, spammers=0.2, colluders=0.2, seed=4)
    first = adj.aggregate(crowd.votes).workers.sort("worker")
    other = adj.aggregate(crowd.votes.sample(fraction=1.0, shuffle=True, seed=1)).workers.sort("worker")
    renamed = crowd.votes.with_columns(worker=pl.col("worker").str.reverse())
    again = adj.aggregate(renamed).workers.with_columns(pl.col("worker", "answers_like").str.reverse()).sort("worker")
    for frame in (other, again):
        assert frame["verdict"].to_list() == first["verdict"].to_list()
        for name in ("accuracy_low", "accuracy_high", "information", "evidence"):
            assert frame[name].to_list() == pytest.approx(first[name].to_list(), abs=1e-2)


def test_labels_do_not_pay(monkeypatch):
    def never(*_):
        raise AssertionError

    monkeypatch.setattr("adjudge.results.workers.assess", never)
    result = adj.aggregate([("t", "a", "x"), ("t", "b", "y")])
    assert len(result.labels) == len(result.probabilities) == 1
    sets = adj.aggregate([("t", "a", ["x"]), ("t", "b", [])], multi=True)
    assert len(sets.labels) == len(sets.probabilities) == 1
    assert sets.expected_errors < 1


def test_what_is_too_large_to_look_at_is_reported(monkeypatch, caplog):
    monkeypatch.setattr("adjudge.results.trust.copies.MAX_COPY_SEARCH_CELLS", 3)
    with caplog.at_level(logging.WARNING, "adjudge.results.trust.copies"):
        result = adj.aggregate([("t", "a", "x"), ("t", "b", "y"), ("u", "b", "y")], confidence="posterior")
        workers = result.workers
    assert "2 tasks and 2 rows x 2 labels are too many" in caplog.text
    assert workers["verdict"].to_list() == ["unclear"] * 2
    assert workers["why"].null_count() == workers["answers_like"].null_count() == 2
    assert workers["accuracy_low"].is_nan().all()
    assert result.priors["low"].is_nan().all()


def test_what_would_not_fit_in_memory_is_refused_with_the_estimate(monkeypatch, caplog):
    monkeypatch.setattr("adjudge.results.trust.copies.free_memory", lambda: 100_000)
    with caplog.at_level(logging.WARNING, "adjudge.results.trust.copies"):
        workers = adj.aggregate(adj.simulate(tasks=500, workers=10, labels=50, seed=1).votes, confidence="posterior").workers
    assert "no intervals, verdicts and copies: they need about" in caplog.text
    assert "but 0.1 MiB are free: merge rare labels, drop workers with few votes" in caplog.text
    assert workers["accuracy_low"].is_nan().all()
    assert workers["accuracy"].is_not_nan().all()


@pytest.mark.parametrize(("workers", "votes_per_task"), [(300, 4), (900, 2)])
def test_blocks_of_workers_and_tasks_change_nothing(monkeypatch, workers, votes_per_task):
    crowd = adj.simulate(tasks=900, workers=workers, labels=4, votes_per_task=votes_per_task, colluders=0.1, spammers=0.1, seed=3)
    votes = adj.read(crowd.votes)
    whole = adj.aggregate(votes)
    monkeypatch.setattr("adjudge.results.trust.posterior.MAX_SAMPLED_WORKERS", 40)  # every seventh worker, and so on
    sampled = adj.aggregate(votes).workers
    for module in ("trust.posterior", "workers"):
        monkeypatch.setattr(f"adjudge.results.{module}.CHUNK_WORKERS", 37)
    monkeypatch.setattr("adjudge.results.trust.posterior.POSTERIOR_BLOCK_CELLS", 2000)
    monkeypatch.setattr("adjudge.models.honest.CHUNK_CELLS", 100)
    parts = adj.aggregate(votes)
    numbers = [name for name, kind in sampled.schema.items() if kind.is_numeric()]
    assert parts.workers.drop(numbers).equals(sampled.drop(numbers))
    assert parts.workers.select(numbers).to_numpy() == pytest.approx(sampled.select(numbers).to_numpy(), rel=1e-12, abs=1e-12)
    assert parts.priors.equals(whole.priors)


@pytest.mark.parametrize("name", ["rte", "bm", "labelme", "snow_temp", "anesthesia"])
def test_real_crowds_have_few_bad_words(data_dir, name):
    words = Counter(adj.aggregate(data_dir / name / "votes.csv").workers["verdict"])
    assert words["copy"] == words["adversary"] == 0
    assert words["spammer"] <= 0.2 * words.total()
    assert words["informative"] > 0.5 * words.total()


def test_judges_of_one_make_are_found_to_answer_alike(data_dir):
    """LLM judges, named MODEL/prompt: judges that answer alike are prompts of the same model."""
    workers = adj.aggregate(data_dir / "llmbar_natural" / "votes.csv").workers.drop_nulls("answers_like")
    assert len(workers) > 40
    assert all(w.split("/")[0] == c.split("/")[0] for w, c in workers.select("worker", "answers_like").iter_rows())
    assert (workers["verdict"] == "copy").sum() > 10  # the others may be right together
