"""Answers of the drop-in: crowd-kit 1.4.2's own figures (with pandas 2.2) where both compute the same, else our models'."""

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal, assert_series_equal

import adjudge as adj
from adjudge.crowdkit import (
    GLAD,
    KOS,
    MACE,
    MMSR,
    BinaryRelevance,
    BradleyTerry,
    DawidSkene,
    GoldMajorityVote,
    MajorityVote,
    NoisyBradleyTerry,
    OneCoinDawidSkene,
    Wawa,
    ZeroBasedSkill,
)

VOTES = pd.DataFrame(
    [
        ("t2", "w1", "b"),
        ("t2", "w2", "a"),
        ("t1", "w1", "b"),
        ("t1", "w3", "c"),
        ("t1", "w2", "b"),
        ("t3", "w3", "a"),
        ("t0", "w3", "c"),
        ("t0", "w1", "a"),
    ],
    columns=["task", "worker", "label"],
)
LABELS = pd.Index(["a", "b", "c"], name="label")
SHUFFLED = VOTES.sample(frac=1, random_state=3)
TASKS = ["t0", "t1", "t2", "t3"]


def by_task(values, name="label"):
    index = pd.Index(TASKS, name="task", dtype=VOTES["task"].dtype)
    return pd.DataFrame(values, index=index, columns=LABELS.rename(name).astype(VOTES["task"].dtype))


def labels(*values):
    return pd.Series(values, pd.Index(TASKS, name="task"), name="agg_label")


@pytest.mark.parametrize("votes", [VOTES, SHUFFLED])
def test_majority_vote(votes):
    found = MajorityVote().fit(votes)
    shares = [[0.5, 0, 0.5], [0, 2 / 3, 1 / 3], [0.5, 0.5, 0], [1, 0, 0]]
    assert_frame_equal(found.probas_, by_task(shares))
    assert_series_equal(found.labels_, labels("a", "b", "a", "a"))
    assert_series_equal(found.skills_, pd.Series([2 / 3, 1, 1 / 3], pd.Index(["w1", "w2", "w3"], name="worker"), name="skill"))


def test_majority_vote_by_skill():
    skills = pd.Series({"w1": 0.5, "w2": 0.25, "w3": 2.0, "other": 1.0})
    found = MajorityVote().fit_predict_proba(VOTES, skills)
    assert_frame_equal(found, by_task([[0.2, 0, 0.8], [0, 3 / 11, 8 / 11], [1 / 3, 2 / 3, 0], [1, 0, 0]]))
    some = skills.iloc[:2]
    with pytest.raises(ValueError, match="missing in 3 assignments"):
        MajorityVote().fit(VOTES, some)
    with pytest.raises(ValueError, match="1 tasks have no workers"):
        MajorityVote(on_missing_skill="ignore").fit(VOTES, some)
    with pytest.raises(ValueError, match="must be specified"):
        MajorityVote(on_missing_skill="value").fit(VOTES, some)
    with pytest.raises(ValueError, match="is not"):
        MajorityVote(default_skill=1.0).fit(VOTES, some)
    with pytest.raises(ValueError, match="'bad'"):
        MajorityVote(on_missing_skill="bad").fit(VOTES, some)
    known = MajorityVote(on_missing_skill="value", default_skill=0.1).fit_predict_proba(VOTES, some)
    assert_frame_equal(known, by_task([[5 / 6, 0, 1 / 6], [0, 15 / 17, 2 / 17], [1 / 3, 2 / 3, 0], [1, 0, 0]]))
    ignored = MajorityVote(on_missing_skill="ignore").fit(VOTES[VOTES["task"] != "t3"], some)
    assert list(ignored.skills_.index) == ["w1", "w2"]


def test_skills_in_turn():
    for model in (Wawa(), ZeroBasedSkill(n_iter=1)):
        model.fit(VOTES)
        assert not hasattr(model, "labels_")
        expected = by_task([[2 / 3, 0, 1 / 3], [0, 5 / 6, 1 / 6], [0.6, 0.4, 0], [1, 0, 0]])
        assert_frame_equal(model.predict_proba(VOTES), expected)
        assert model.predict(VOTES) is model.labels_
    assert set(ZeroBasedSkill(n_iter=0).fit(VOTES).skills_.round(7)) == {0.3333433}
    slow = ZeroBasedSkill(3, lr_init=0.3, lr_steps_to_reduce=2).fit(VOTES).skills_
    assert slow["w2"] == pytest.approx(1 - (2 / 3 - 1e-5) * 0.7 * 0.85 * 0.85)
    repeated = Wawa().fit(pd.concat([VOTES, VOTES.iloc[:1]])).skills_  # a vote that is repeated counts once for the skill
    assert repeated["w1"] in (pytest.approx(2 / 3), 1.0)


def test_gold_majority_vote():
    found = GoldMajorityVote().fit(VOTES, pd.Series({"t2": "b", "t1": "b", "other": "a"}))
    assert found.skills_.to_dict() == {"w1": 1.0, "w2": 0.5, "w3": 0.0}
    assert found.predict(VOTES).to_list()[:3] == ["a", "b", "b"]
    assert found.labels_.isna().to_list() == [False, False, False, True]  # nothing is known of the only worker
    with pytest.raises(ValueError, match="missing in 5 assignments"):
        GoldMajorityVote().fit_predict(VOTES, pd.Series({"t3": "a"}))


@pytest.mark.parametrize("votes", [VOTES, SHUFFLED])
def test_dawid_skene(votes):
    found = DawidSkene(n_iter=1).fit(votes)
    expected = [[0.4, 0, 0.6], [0, 2 / 3, 1 / 3], [2 / 3, 1 / 3, 0], [1, 0, 0]]
    assert_frame_equal(found.probas_, by_task(expected), atol=1e-9)
    assert_series_equal(found.labels_, labels("c", "b", "a", "a"))
    assert found.priors_.to_dict() == pytest.approx({"a": 0.51666667, "b": 0.25, "c": 0.23333333})
    assert found.errors_.index.names == ["worker", "label"]
    assert found.errors_.loc[("w1", "b")].to_list() == pytest.approx([0.625, 1.0, 0.35714286])
    assert found.errors_.loc[("w3", "a"), "c"] == pytest.approx(0, abs=1e-9)


def test_dawid_skene_without_iterations():
    found = DawidSkene(n_iter=0).fit(VOTES)
    assert_frame_equal(found.probas_, MajorityVote().fit_predict_proba(VOTES))
    assert found.errors_.loc[("w2", "b"), "a"] == pytest.approx(1e-10 / 0.5)
    assert found.loss_history_ == []


def test_dawid_skene_with_gold():
    found = DawidSkene(n_iter=1).fit(VOTES, pd.Series({"t1": "other", "t2": "b", "unknown": "a"}))
    assert list(found.probas_.columns) == ["a", "b", "c", "other"]
    assert found.labels_["t1"] == "other"
    assert found.probas_.loc["t2"].to_list() == [0.0, 1.0, 0.0, 0.0]
    assert DawidSkene(n_iter=0).fit(VOTES, pd.Series({"t2": "b"})).probas_.loc["t2"].to_list() == [0.0, 1.0, 0.0]


def test_dawid_skene_with_known_errors():
    pairs = pd.MultiIndex.from_product([["w1", "w2", "w3"], ["a", "b", "c"]], names=["worker", "label"])
    counts = pd.DataFrame(np.arange(27).reshape(9, 3) % 7.0, index=pairs, columns=["a", "b", "c"])
    errors = counts / counts.groupby("worker").transform("sum")
    before = errors.copy()
    assigned = DawidSkene(n_iter=0, initial_error_strategy="assign").fit(VOTES, initial_error=errors)
    assert assigned.errors_.loc["w1", "b"].to_list() == pytest.approx([3 / 9, 4 / 5, 5 / 8])
    added = DawidSkene(n_iter=0, initial_error_strategy="addition").fit(VOTES, initial_error=counts.iloc[:3])
    assert added.errors_.loc[("w1", "b"), "a"] == pytest.approx((3 + 0.5) / (9 + 1))  # half of t2 and of t0 are a
    assert_frame_equal(errors, before)
    with pytest.raises(ValueError, match="lacks 2 workers"):
        DawidSkene(initial_error_strategy="assign").fit(VOTES, initial_error=errors.iloc[:3])
    with pytest.raises(ValueError, match=r"should be 1\.0"):
        DawidSkene(initial_error_strategy="assign").fit(VOTES, initial_error=counts)
    with pytest.raises(ValueError, match="'both'"):
        DawidSkene(initial_error_strategy="both").fit(VOTES, initial_error=errors)


@pytest.mark.parametrize("strategy", ["assign", "addition"])
def test_known_errors_decide_the_first_posterior(strategy):
    pairs = pd.MultiIndex.from_product([["w1", "w2", "w3"], ["a", "b", "c"]], names=["worker", "label"])
    known = pd.DataFrame(np.tile([[0.1, 0.2, 0.7], [0.6, 0.1, 0.2], [0.3, 0.7, 0.1]], (3, 1)), pairs, ["a", "b", "c"])
    start, first = (DawidSkene(n, initial_error_strategy=strategy).fit(VOTES, initial_error=known) for n in (0, 1))
    for task, given in VOTES.groupby("task"):
        expected = start.priors_ * start.errors_.loc[list(zip(given["worker"], given["label"], strict=True))].prod()
        assert first.probas_.loc[task].to_list() == pytest.approx((expected / expected.sum()).to_list(), abs=1e-5)
    more = DawidSkene(n_iter=3, tol=0, initial_error_strategy=strategy).fit(VOTES, initial_error=known)
    assert len(more.loss_history_) == 2


def test_one_coin():
    found = OneCoinDawidSkene(n_iter=1).fit(SHUFFLED)
    assert isinstance(found, DawidSkene)
    assert found.skills_.to_dict() == pytest.approx({"w1": 0.50659412, "w2": 0.61883209, "w3": 0.42052179})
    assert found.probas_.loc["t2"].to_list() == pytest.approx([0.598930, 0.311943, 0.089127], abs=1e-6)
    assert found.errors_.loc[("w2", "a")].to_list() == pytest.approx([0.618832, 0.190584, 0.190584], abs=1e-6)


def test_glad():
    found = GLAD(n_iter=2).fit(VOTES)
    assert found.alphas_.to_dict() == pytest.approx({"w1": 0.49831442, "w2": 0.72178122, "w3": -0.15953136}, abs=0.05)
    assert found.betas_.to_dict() == pytest.approx(
        {"t2": 0.4850846, "t1": 1.46519072, "t3": 0.9137295, "t0": 0.87021431}, abs=0.05
    )
    assert_series_equal(found.labels_, labels("a", "b", "a", "a"))
    assert found.probas_.columns.name == "variable"
    known = GLAD(1, labels_priors=pd.Series({"a": 0.5, "b": 0.3, "c": 0.2})).fit(SHUFFLED)
    assert known.priors_.to_dict() == {"a": 0.5, "b": 0.3, "c": 0.2}
    with pytest.raises(ValueError, match="lacks 1 of 3 labels"):
        GLAD(labels_priors=pd.Series({"a": 0.5, "b": 0.5})).fit(VOTES)
    with pytest.raises(NotImplementedError, match="alphas_priors_mean cannot be set"):
        GLAD(alphas_priors_mean=pd.Series({"w1": 2.0})).fit(VOTES)


def test_mace():
    ordered = VOTES.replace({"label": {"b": "a", "a": "b"}})  # labels and workers appear in sorted order
    found = MACE(n_restarts=1, n_iter=1).fit(ordered)
    assert found.spamming_[0].tolist() == pytest.approx([0.48603524, 0.38333549])
    assert found.thetas_[0].tolist() == pytest.approx([0.33758321, 0.32592709, 0.30477822])
    assert found.probas_.loc["t2"].to_list() == pytest.approx([0.42700465, 0.44500824, 0.12798711], abs=1e-6)
    assert found.theta_priors_.tolist() == [[0.5, 0.5]] * 3
    start = MACE(n_restarts=3, n_iter=0).fit(ordered)
    assert start.spamming_[0].tolist() == pytest.approx([0.46797183, 0.53202817])
    assert MACE(method="em").fit_predict(ordered).notna().all()
    drawn = MACE(2, 5, random_state=np.random.RandomState(0)).fit(ordered)
    assert drawn.probas_.sum(axis=1).to_list() == pytest.approx([1.0] * 4)


def test_mace_does_not_depend_on_names():
    numbers = SHUFFLED.apply(lambda column: pd.factorize(column)[0])
    one, two = MACE(n_restarts=1).fit(numbers), MACE(n_restarts=1).fit(SHUFFLED)
    assert one.thetas_.ravel().tolist() == pytest.approx(two.thetas_.ravel().tolist())
    assert one.probas_.to_numpy().max(axis=1).tolist() == pytest.approx(
        two.probas_.loc[SHUFFLED["task"].unique()].to_numpy().max(axis=1).tolist()
    )


def test_kos():
    random = np.random.RandomState(5)
    votes = pd.DataFrame(
        {"task": random.randint(0, 6, 30), "worker": random.randint(0, 5, 30), "label": random.choice(["b", "a"], 30)}
    )
    votes = votes.drop_duplicates(["task", "worker"])
    expected = adj.KOS(max_iter=3).fit(votes).labels
    assert KOS(n_iter=3).fit_predict(votes).to_dict() == dict(zip(expected["task"], expected["label"], strict=True))
    assert KOS(n_iter=10_000).fit_predict(votes).notna().all()
    with pytest.raises(ValueError, match="there are 3 labels"):
        KOS().fit(VOTES)
    with pytest.raises(ValueError, match="there are 1 labels"):
        KOS().fit(VOTES[VOTES["label"] == "a"])


def test_mmsr():
    random = np.random.RandomState(1)
    truth = random.randint(0, 3, 40)
    rows = [(t, w, truth[t] if random.rand() < 0.9 - 0.1 * w else random.randint(3)) for t in range(40) for w in range(5)]
    votes = pd.DataFrame(rows, columns=["task", "worker", "label"])
    found = MMSR(n_iter=2).fit(votes)
    assert found.skills_.to_list() == pytest.approx([2.83166308, 2.43640199, 1.97275888, 1.88200203, 1.36049736], abs=0.02)
    assert found.loss_history_ == pytest.approx([1.03491672, 0.03841554], rel=1e-6)
    assert found.predict_score(votes).sum(axis=1).to_list() == pytest.approx([1.0] * 40)
    assert found.predict(votes) is found.labels_
    assert (found.labels_ == truth).mean() > 0.9
    assert MMSR().fit_predict(votes[votes["label"] == 1]).unique().tolist() == [1]


@pytest.mark.filterwarnings("ignore::adjudge.errors.NotConverged")
def test_adapters_return_the_posteriors_of_our_models():
    votes = adj.simulate(tasks=60, workers=8, labels=3, votes_per_task=4, seed=3).votes.to_pandas()
    pairs = [
        (DawidSkene(20, tol=1e-4), adj.DawidSkene(max_iter=20, smoothing=1e-10)),
        (OneCoinDawidSkene(20, tol=1e-4), adj.OneCoin(max_iter=20, class_priors="estimated", smoothing=1e-10)),
        (GLAD(5, tol=0), adj.GLAD(max_iter=5, tol=0.0)),
    ]
    for theirs, ours in pairs:
        expected = ours.fit(votes, confidence="posterior").posterior.set_index("task").sort_index()
        found = theirs.fit_predict_proba(votes)
        assert list(map(str, found.columns)) == list(expected.columns)
        np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(), atol=1e-6)


def test_several_labels():
    votes = VOTES.assign(label=[["b", "a"], ["b"], ["b"], ["a", "c"], ["a"], [], ["c"], ["c", "a"]])
    found = BinaryRelevance()
    assert found.fit_predict(votes) is found.labels_
    assert found.labels_.to_dict() == {"t0": ["c"], "t1": ["a"], "t2": ["b"], "t3": []}
    assert found.labels_.name == "agg_label"
    assert list(found.aggregators_) == ["a", "b", "c"]
    assert found.aggregators_["a"].labels_.to_dict() == {"t0": 0, "t1": 1, "t2": 0, "t3": 0}
    assert BinaryRelevance(DawidSkene(3)).fit_predict(votes).to_dict() == found.labels_.to_dict()
    with pytest.raises(AssertionError, match="classification aggregator"):
        BinaryRelevance("x")


def games(*rows):
    return pd.DataFrame(rows, columns=["worker", "left", "right", "label"])


GAMES = games(*[row.split() for row in ("1 a b a", "1 b c b", "2 a c c", "2 a b b", "3 b c c", "3 c a a", "1 a b a")])


def test_bradley_terry_finds_its_maximum():
    scores = BradleyTerry(100).fit_predict(GAMES)
    assert scores.name == "agg_score"
    assert scores.sum() == pytest.approx(1.0)
    wins, met = {"a": 3, "b": 2, "c": 2}, {("a", "b"): 3, ("b", "c"): 2, ("a", "c"): 2}
    for item, won in wins.items():  # expected wins equal actual wins
        pairs = [(n, other) for pair, n in met.items() if item in pair for other in pair if other != item]
        assert sum(n * scores[item] / (scores[item] + scores[other]) for n, other in pairs) == pytest.approx(won)
    assert BradleyTerry(0).fit_predict(GAMES).to_dict() == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    assert BradleyTerry(10).fit_predict(GAMES.iloc[:0]).to_dict() == {}
    one_way = BradleyTerry(100).fit_predict(games(("1", "a", "b", "a"), ("1", "b", "c", "b"), ("1", "a", "a", "a")))
    assert one_way.round(3).to_dict() == {"a": 1.0, "b": 0.0, "c": 0.0}
    with pytest.raises(ValueError, match="'x' at index 0 is neither left, 'a', nor right, 'b'"):
        BradleyTerry(10).fit(games(("1", "a", "b", "x")))


def test_noisy_bradley_terry_tells_good_judges_from_bad():
    random, rows = np.random.RandomState(0), []
    for worker in ("expert", "guesser", "lefty"):
        for _ in range(300):
            left, right = random.choice(4, 2, replace=False)
            chance = {"expert": 1 / (1 + np.exp(2.0 * (right - left))), "guesser": 0.5, "lefty": 0.9}[worker]
            rows.append((worker, left, right, left if random.rand() < chance else right))
    found = NoisyBradleyTerry().fit(games(*rows))
    assert found.scores_.index.name == "label"
    assert found.scores_.is_monotonic_increasing
    assert found.scores_.between(0, 1).all()
    assert found.skills_["expert"] > 0.6 > 0.3 > found.skills_["guesser"]
    assert found.biases_["lefty"] > 0.8 > 0.6 > found.biases_["expert"] > 0.4
    assert NoisyBradleyTerry().fit_predict(games(("1", "a", "b", "a")))["a"] > 0.5
    assert NoisyBradleyTerry(regularization_ratio=0).fit_predict(GAMES).between(0, 1).all()
    assert NoisyBradleyTerry().fit_predict(GAMES.iloc[:0]).to_dict() == {}


def test_a_factor_that_runs_away_ends_before_it_is_no_number():
    votes = pd.DataFrame({"task": [1, 1, 1, 2, 2], "worker": [*"abcac"], "label": [*"xxyyy"]})
    model = MMSR()
    assert model.fit_predict(votes).to_dict()[1] == "x"
    assert np.isfinite(model.skills_).all()
