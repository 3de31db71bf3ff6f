"""The tasks to ask about next: worth most first, whom to ask, and what money buys."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.results import ask_next as module

CROWD = adj.simulate(tasks=120, workers=12, labels=3, votes_per_task=(1, 5), spammers=0.2, seed=4)
RESULT = adj.aggregate(CROWD.votes)
VOTED = set(CROWD.votes.select("task", "worker").rows())
PRICES = {f"w{n}": 0.1 + 0.05 * (n % 3) for n in range(12)}


def test_highest_gain_first_with_what_is_known_of_each():
    found = RESULT.ask_next(20)
    assert found.columns == ["task", "expected_gain", "label", "confidence", "votes"]
    assert found["expected_gain"].to_list() == sorted(found["expected_gain"], reverse=True)
    assert found["task"].n_unique() == len(found) == 20
    told = {row[0]: row[1:4] for row in RESULT.labels.select("task", "label", "confidence", "votes").rows()}
    assert all(told[row[0]] == row[2:] for row in found.rows())
    every = RESULT.ask_next(1000)
    assert len(every) == 120
    assert every.head(20).equals(found)
    assert (RESULT.ask_next()["expected_gain"] > 0).all()


def test_the_gain_is_no_more_than_what_is_wrong():
    every = RESULT.ask_next(1000)
    assert (every["expected_gain"] <= 1 - every["confidence"] + 1e-9).all()
    assert every["expected_gain"].sum() < RESULT.expected_errors


def test_gold_is_not_asked_about():
    gold = {"t3": "l0", "t4": "l2"}
    found = adj.aggregate(CROWD.votes, gold=gold).ask_next(1000)
    assert len(found) == 118
    assert not {"t3", "t4"} & set(found["task"])


def test_tasks_with_nothing_but_abstentions_come_first():
    votes = pl.concat(
        [CROWD.votes, pl.DataFrame({"task": ["new", "newer"], "worker": "w1", "label": [None, None]})], how="vertical_relaxed"
    )
    with pytest.warns(adj.MissingLabels):
        result = adj.aggregate(votes)
    first = result.ask_next(3)
    assert first["task"].to_list()[:2] == ["new", "newer"]
    assert first["label"].to_list()[:2] == [None, None]
    assert first["confidence"].null_count() == 2
    assert first["votes"].to_list()[:2] == [0, 0]
    assert first["expected_gain"][0] > first["expected_gain"][2] > 0
    assert result.ask_next(1, worker="any", cost=PRICES)["task"].to_list() == ["new"]


@pytest.mark.parametrize("worker", ["any", ["w1", "w5", "zoe"], "w5", {"w1", "w2"}])
def test_nobody_is_asked_twice_about_a_task(worker):
    found = RESULT.ask_next(1000, worker=worker)
    assert found.columns[:3] == ["task", "worker", "expected_gain"]
    pairs = found.select("task", "worker").rows()
    assert pairs
    assert not VOTED & set(pairs)
    assert found["task"].n_unique() == len(found)
    if worker != "any":
        assert set(found["worker"]) <= ({worker} if isinstance(worker, str) else set(worker))
    if worker == "w5":  # all others have been asked
        assert len(found) == 120 - sum(who == "w5" for _, who in VOTED)


def test_the_able_are_asked():
    accuracy = dict(RESULT.workers.select("worker", "accuracy").rows())
    named = RESULT.ask_next(60, worker="any")["worker"]
    best = sorted(accuracy, key=accuracy.get)[-4:]
    assert set(named.mode()) <= set(best)
    spammer = min(accuracy, key=accuracy.get)
    both = RESULT.ask_next(60, worker=[spammer, best[-1]])
    gains = {who: both.filter(pl.col("worker") == who)["expected_gain"].mean() for who in (spammer, best[-1])}
    assert gains[spammer] is None or gains[spammer] < gains[best[-1]]


def test_the_price_counts():
    accuracy = dict(RESULT.workers.select("worker", "accuracy").rows())
    ranked = sorted(accuracy, key=accuracy.get)
    dear, cheap = ranked[-1], ranked[-3]
    found = RESULT.ask_next(50, worker=[dear, cheap], cost={dear: 10, cheap: 0.1})
    fresh = found.filter(~pl.col("task").is_in([task for task, who in VOTED if who == cheap]))
    assert set(fresh["worker"]) == {cheap}
    worth = found["expected_gain"] / found["cost"]
    assert worth.to_list() == sorted(worth, reverse=True)
    assert found["cost"].to_list() == [{dear: 10, cheap: 0.1}[who] for who in found["worker"]]


def test_a_budget_pays_from_the_top():
    found = RESULT.ask_next(cost=0.3, budget=3.0)
    assert len(found) == 10
    assert found.drop("cost").equals(RESULT.ask_next(10))
    assert found["cost"].to_list() == [0.3] * 10
    assert len(RESULT.ask_next(4, cost=0.3, budget=3.0)) == 4
    assert len(RESULT.ask_next(cost=0.3, budget=0.2)) == 0
    named = RESULT.ask_next(cost=PRICES, budget=1.0)
    assert named["cost"].sum() <= 1.0 + 1e-9
    assert named["cost"].sum() > 0.8
    table = pl.DataFrame({"worker": list(PRICES), "cost": list(PRICES.values())})
    assert RESULT.ask_next(cost=table, budget=1.0).equals(named)
    assert len(RESULT.ask_next(cost=0, budget=0)) == len(RESULT.ask_next())


@pytest.mark.parametrize("model", ["auto", "mv", "ds", "iwmv", "glad"])
@pytest.mark.parametrize("engine", ["cpu", "disk"])
def test_the_same_on_disk_and_in_chunks(model, engine, monkeypatch):
    whole = adj.aggregate(CROWD.votes, model=model)
    before = whole.ask_next(30), whole.ask_next(30, worker="any")
    monkeypatch.setattr(module, "ASK_CHUNK_TASKS", 7)
    monkeypatch.setattr(module, "ASK_CHUNK_PAIRS", 64)
    result = adj.aggregate(CROWD.votes, model=model, engine=engine)
    for old, new in zip(before, (result.ask_next(30), result.ask_next(30, worker="any")), strict=True):
        assert new["expected_gain"].to_list() == pytest.approx(old["expected_gain"].to_list(), abs=1e-6)
        if engine == "cpu":  # on disk tasks have another order, and ties go by it
            assert new.select("task", "label").equals(old.select("task", "label"))


def test_many_workers_are_compared_by_their_best():
    crowd = adj.simulate(tasks=60, workers=200, labels=2, votes_per_task=4, seed=1)
    result = adj.aggregate(crowd.votes)
    every = result.ask_next(20, worker="any")
    assert len(every) == 20
    asked = module.TaskGains(result, result.votes.workers, None)
    assert len(asked._ablest(40)) == 40
    best = result.ask_next(20, worker=[result.votes.workers[code] for code in asked._ablest(40).tolist()])
    assert every["expected_gain"].to_list() == pytest.approx(best["expected_gain"].to_list())


def test_predictions_weights_and_posteriors():
    weighted = CROWD.votes.with_columns(w=np.random.default_rng(1).choice([0.5, 1.0, 2.0], len(CROWD.votes)))
    for result in (
        RESULT.predict(CROWD.votes[:50]),
        adj.aggregate(weighted, weight="w"),
        adj.aggregate(CROWD.votes, model="fds", confidence="posterior"),
        adj.aggregate(CROWD.votes, history=RESULT),
    ):
        found = result.ask_next(10, worker=["w1", "w2"])
        assert len(found) == 10
        assert found["expected_gain"].is_finite().all()


def test_groups_are_asked_as_such():
    result = adj.aggregate(CROWD.votes, groups={"w1": "team", "w2": "team"})
    assert len(result.ask_next(5, worker=["team", "w3"])) == 5
    with pytest.raises(adj.InputError, match="worker 'w1' votes in group 'team'"):
        result.ask_next(5, worker=["w1"])


def test_one_label_or_no_votes_leave_nothing_to_gain():
    assert adj.aggregate([(1, "a", "x"), (2, "b", "x")]).ask_next().rows() == []
    empty = adj.aggregate({"task": [], "worker": [], "label": []}, model="mv").ask_next(5)
    assert empty.columns == ["task", "expected_gain", "label", "confidence", "votes"]
    assert len(empty) == 0


def test_sets_are_asked_about_as_a_whole():
    votes = [("t1", "ann", ["fear"]), ("t1", "bob", ["joy"]), ("t2", "ann", ["fear"]), ("t2", "bob", ["fear"])]
    for per_option in (False, True):
        result = adj.aggregate(votes, multi=True, per_option=per_option)
        found = result.ask_next()
        assert found["task"].to_list()[0] == "t1"
        assert found["expected_gain"].to_list() == sorted(found["expected_gain"], reverse=True)
        assert len(result.ask_next(2, cost=1, budget=1)) == 1
    with pytest.raises(adj.OptionError, match="cost is -1"):
        result.ask_next(cost=-1)


def test_frames_are_of_the_callers_kind():
    assert type(adj.aggregate(CROWD.votes.to_pandas()).ask_next(2)).__module__.startswith("pandas")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n is 0: give a whole number of at least 1"),
        ({"n": 2.5}, "n is 2.5"),
        ({"budget": 3}, "unknown cost"),
        ({"cost": 1, "budget": -1}, "budget is -1"),
        ({"worker": []}, "worker is"),
        ({"worker": 2.5}, "worker is 2.5"),
        ({"cost": {"w1": 1.0}}, "cost has no price for 11 of 12 workers"),
        ({"cost": -1}, "cost is -1"),
    ],
)
def test_what_can_be_asked_for_is_checked(options, message):
    with pytest.raises((adj.OptionError, adj.InputError), match=message):
        RESULT.ask_next(**options)


def test_asking_beats_chance_on_real_votes(data_dir):
    """One seed and few rounds; `make asking` measures it whole."""
    votes = pl.read_csv(data_dir / "rte" / "votes.csv", infer_schema=False).sample(fraction=1.0, shuffle=True, seed=2)
    truth = pl.read_csv(data_dir / "rte" / "truth.csv", infer_schema=False)
    votes = votes.with_columns(turn=pl.int_range(pl.len()).over("task"))

    def accuracy(shown):
        return float(adj.evaluate(adj.aggregate(shown), truth).accuracy)

    turns = dict.fromkeys(votes["task"].unique(maintain_order=True), 1)
    for _ in range(8):
        shown = votes.join(pl.DataFrame({"task": list(turns), "shown": list(turns.values())}), on="task").filter(
            pl.col("turn") < pl.col("shown")
        )
        asked = [task for task in adj.aggregate(shown).ask_next(800)["task"].cast(pl.String) if turns[task] < 10][:400]
        for task in asked:
            turns[task] += 1
    known = votes.join(pl.DataFrame({"task": list(turns), "shown": list(turns.values())}), on="task").filter(
        pl.col("turn") < pl.col("shown")
    )
    assert len(known) == 4000
    at_random, every = accuracy(votes.filter(pl.col("turn") < 5)), accuracy(votes)
    assert accuracy(known) > at_random + 0.5 * (every - at_random)


def test_without_votes_there_is_nobody_to_ask_about():
    nothing = adj.aggregate(pl.DataFrame(schema=dict.fromkeys(("task", "worker", "label"), pl.String)))
    for worker in ("any", ["ann"]):
        found = nothing.ask_next(3, worker=worker)
        assert (found.columns[:2], len(found)) == (["task", "worker"], 0)


@pytest.mark.parametrize("worker", ["", [None], ["w1", ""], [float("nan")]])
def test_a_worker_without_id_cannot_be_asked(worker):
    with pytest.raises(adj.OptionError, match="missing or empty"):
        RESULT.ask_next(3, worker=worker)
