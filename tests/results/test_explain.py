"""Explanations add up to the reported figures, and name the votes that decide a label."""

import json
import math
import pickle
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjudge as adj
from adjudge.data.vocabulary import text_of
from adjudge.io.folder.encoded import EncodedVotes
from adjudge.models.base import DEFAULT_COMPARED_MODELS
from adjudge.models.honest import HonestProbabilities
from adjudge.results.explain import explain_many
from strategies import crowds

EXPLAINED = [*DEFAULT_COMPARED_MODELS, "wawa", "zbs", "catd", "la", "zc", "lfc", "ibcc", "mace", "mmsr"]
CROWD = adj.simulate(tasks=60, workers=8, labels=3, votes_per_task=(1, 6), spammers=0.2, seed=8)
NOTHING = {"task": [], "worker": [], "label": []}
pytestmark = pytest.mark.filterwarnings("ignore::adjudge.NotConverged")  # of tiny crowds


def require_true(result, why, *, by="confidence"):
    """Every figure of an explanation is the reported one, and its bars add up to the log-odds."""
    frame = result.probabilities_frame() if by == "confidence" else pl.DataFrame(result.posterior)
    line = frame.row(by_predicate=pl.col("task").cast(pl.String) == text_of(why.task))[1:]
    told = result.labels_frame().row(by_predicate=pl.col("task").cast(pl.String) == text_of(why.task), named=True)
    assert list(why.probabilities.values()) == pytest.approx(list(line), abs=1e-9)
    assert (why.label, why.tie, len(why.evidence)) == (told["label"], told["tie"], told["votes"])
    if by == "confidence":
        assert why.confidence == pytest.approx(told["confidence"], abs=1e-12)
    changes = [bar.change for bar in why.bars()]
    assert sum(changes) == pytest.approx(why.log_odds, abs=1e-9, rel=1e-12)
    assert list(why.bars())[-1].end == pytest.approx(why.log_odds, abs=1e-9)
    assert math.isfinite(why.log_odds)
    if why.runner_up is None or why.known:
        assert why.certain
        assert why.confidence == pytest.approx(1.0)
        return
    own, other = why.probabilities[why.label], why.probabilities[why.runner_up]
    assert other == max(p for label, p in why.probabilities.items() if label != why.label)
    if other > 1e-290:
        assert why.log_odds == pytest.approx(math.log(own) - math.log(other), abs=1e-8)
        assert not why.certain
    else:
        assert why.log_odds >= 30 - 1e-9  # cut, or so large that the probability is 0 in floating point


@pytest.mark.parametrize("confidence", ["honest", "posterior"])
@pytest.mark.parametrize("model", EXPLAINED)
@settings(max_examples=5, deadline=None)
@given(crowds())
def test_bars_add_up_to_what_is_reported(model, confidence, votes):
    result = adj.aggregate(votes, model=model, confidence=confidence)
    for by in ("confidence", "model"):
        for why in explain_many(result, np.arange(result.votes.n_tasks), by=by):
            require_true(result, why, by=by)


def changed(votes, task, worker, label):
    """The votes of a task, one of which is removed (no label), or another."""
    own = [vote for vote in votes if vote[0] == task]
    at = next(n for n, vote in enumerate(own) if vote[1] == worker)
    return own[:at] + ([] if label is None else [(task, worker, label)]) + own[at + 1 :]


@pytest.mark.parametrize("model", EXPLAINED)
@settings(max_examples=5, deadline=None)
@given(crowds(max_tasks=6, max_workers=4), st.integers(0, 3))
def test_votes_that_a_label_hangs_on_flip_it_in_predict(model, votes, seed):
    votes = list({vote[:2]: vote for vote in votes}.values())  # one vote per worker and task
    result = adj.aggregate(votes, model=model, seed=seed)
    for why in explain_many(result, np.arange(result.votes.n_tasks)):
        as_learned = result.predict([vote for vote in votes if vote[0] == why.task]).labels["label"][0]
        for vote in why.evidence:
            if vote.label != why.runner_up and why.runner_up is not None:
                new = result.predict(changed(votes, why.task, vote.worker, why.runner_up)).labels["label"][0]
                assert vote.flips_if_changed == (as_learned == why.label != new)
            if len(why.evidence) > 1 and why.runner_up is not None:
                new = result.predict(changed(votes, why.task, vote.worker, None)).labels["label"][0]
                assert vote.flips_if_removed == (as_learned == why.label != new)


def test_the_only_vote_is_decisive():
    (vote,) = adj.aggregate([(1, "ann", "x"), (2, "bob", "y"), (2, "ann", "y")]).explain(1).evidence
    assert vote.flips_if_removed
    assert vote.is_decisive


@pytest.mark.parametrize("confidence", ["honest", "posterior"])
@pytest.mark.parametrize("model", ["fds", "iwmv", "mv", "auto", "one-coin"])
def test_weights_are_part_of_what_votes_say(model, confidence):
    weight = np.random.default_rng(1).choice([0.5, 1.0, 2.0], len(CROWD.votes))
    result = adj.aggregate(CROWD.votes.with_columns(w=weight), weight="w", model=model, confidence=confidence)
    for why in explain_many(result, np.arange(result.votes.n_tasks)):
        require_true(result, why)
    given = {(task, worker): w for (task, worker, _), w in zip(CROWD.votes.rows(), weight.tolist(), strict=True)}
    assert all(vote.weight == given[why.task, vote.worker] for vote in why.evidence)


@pytest.mark.parametrize("model", ["fds", "mv", "glad", "auto"])
def test_gold_is_known(model):
    gold = {"t3": "l0", "t4": "l2"}
    result = adj.aggregate(CROWD.votes, model=model, gold=gold)
    why = result.explain("t3")
    assert (why.known, why.label, why.confidence, why.more_votes) == (True, "l0", 1.0, 0)
    assert not any(vote.contribution or vote.is_decisive for vote in why.evidence)
    assert "is known (gold)" in str(why)
    for other in explain_many(result, np.arange(result.votes.n_tasks)):
        require_true(result, other)


def test_history_predictions_and_loaded_models(tmp_path):
    first, rest = CROWD.votes[:100], CROWD.votes[100:]
    learned = adj.aggregate(first, model="ds")
    learned.save(tmp_path / "crowd.adjudge")
    for result in (
        adj.aggregate(rest, model="fds", history=learned),
        learned.predict(rest),
        adj.load(tmp_path / "crowd.adjudge").predict(rest),
        adj.load(tmp_path / "crowd.adjudge").predict(rest, confidence="posterior"),
        pickle.loads(pickle.dumps(learned)),
    ):
        for why in explain_many(result, np.arange(result.votes.n_tasks)):
            require_true(result, why)


@pytest.mark.parametrize("confidence", ["honest", "posterior"])
def test_calibration_is_a_step(confidence):
    truth = dict(CROWD.truth.rows())
    known = dict(list(truth.items())[: len(truth) * 3 // 4])
    result = adj.aggregate(CROWD.votes, model="fds", calibrate=known, confidence=confidence)
    assert result.temperature != 1.0
    found = explain_many(result, np.arange(result.votes.n_tasks))
    for why in found:
        require_true(result, why)
    assert any(step.name == "calibration" for why in found for step in why.steps)


def test_groups_and_their_members():
    votes = [*CROWD.votes.rows(), ("t0", "a", "l0"), ("t0", "b", "l0"), ("t0", "c", "l1"), ("t1", "a", "l0"), ("t1", "b", "l2")]
    result = adj.aggregate(votes, groups=dict.fromkeys("abc", "team"))
    why = result.explain("t0")
    require_true(result, why)
    (team,) = [vote for vote in why.evidence if vote.worker == "team"]
    assert (team.label, sorted(team.members)) == ("l0", [("a", "l0"), ("b", "l0"), ("c", "l1")])
    assert why.votes.filter(pl.col("worker") == "team")["members"].item() == "a l0, b l0, c l1"
    tied = result.explain("t1")
    assert sorted(tied.not_cast) == [("a", "l0"), ("b", "l2")]
    assert "did not count" in str(tied)
    assert tied.to_dict()["not_cast"] == [one._asdict() for one in tied.not_cast]


@pytest.mark.parametrize("model", ["auto", "ds", "glad", "mv", "iwmv"])
def test_on_disk_only_the_votes_of_the_task_are_read(model, tmp_path, monkeypatch):
    folder = adj.encode(CROWD.votes, tmp_path / "votes")
    result = adj.aggregate(folder, engine="disk", model=model)
    here = adj.aggregate(CROWD.votes, model=model)

    def refuse(*_):
        raise AssertionError("all votes are read")

    monkeypatch.setattr(EncodedVotes, "parts", refuse)
    monkeypatch.setattr(EncodedVotes, "task_parts", refuse)
    monkeypatch.setattr(type(result.session._store), "_walk", refuse)
    assert result.votes.is_stored
    for task in ("t3", "t40"):
        why, same = result.explain(task), here.explain(task)
        assert {v.worker: v.contribution for v in why.evidence} == pytest.approx(
            {v.worker: v.contribution for v in same.evidence}, abs=1e-6
        )
        assert [why.label, why.runner_up, why.more_votes] == [same.label, same.runner_up, same.more_votes]
        assert [v.is_decisive for v in why.evidence] == [v.is_decisive for v in same.evidence]
    monkeypatch.undo()
    require_true(result, why)


def test_many_tasks_share_one_preparation(monkeypatch):
    result, calls, real = adj.aggregate(CROWD.votes), [], HonestProbabilities.vote_lines
    monkeypatch.setattr(HonestProbabilities, "vote_lines", lambda self: calls.append(1) or real(self))
    monkeypatch.setattr("adjudge.results.explain.EXPLAIN_CHUNK_CELLS", 16)  # many batches
    codes = np.array([5, 0, 31, 5])
    found = explain_many(result, codes)
    assert len(calls) == 1
    assert [why.task for why in found] == ["t5", "t0", "t31", "t5"]
    assert [str(why) for why in found] == [str(result.explain(why.task)) for why in found]


def test_accuracy_is_that_of_the_workers():
    for confidence in ("honest", "posterior"):
        result = adj.aggregate(CROWD.votes, model="fds", confidence=confidence)
        accuracy = dict(result.workers.select("worker", "accuracy").rows())
        why = result.explain("t7")
        assert {v.worker: v.accuracy for v in why.evidence} == pytest.approx({v.worker: accuracy[v.worker] for v in why.evidence})


@pytest.mark.parametrize("confidence", ["honest", "posterior"])
@pytest.mark.parametrize("model", EXPLAINED)
def test_more_votes_settle_a_label(model, confidence):
    result = adj.aggregate(adj.simulate(tasks=80, workers=9, labels=2, votes_per_task=5, seed=3).votes, model=model)
    result = adj.aggregate(result.votes, model=model, confidence=confidence)
    asked = [explain_many(result, np.arange(80), settled=settled) for settled in (0.7, 0.9, 0.99)]
    for least, middle, most in zip(*asked, strict=True):
        counts = [math.inf if one.more_votes is None else one.more_votes for one in (least, middle, most)]
        assert counts == sorted(counts)
        for one in (least, middle, most):
            assert (one.more_votes == 0) == (one.confidence >= one.settled)
    if model in ("auto", "fds", "ds"):
        assert any(one.more_votes not in (0, None) for one in asked[1])


def test_the_votes_that_settle_a_label_do_settle_it():
    crowd = adj.simulate(tasks=300, workers=20, labels=2, votes_per_task=5, seed=3, skill=0.99, skill_spread=0.001)
    few = pl.concat([crowd.votes, pl.DataFrame({"task": ["new"], "worker": ["w1"], "label": ["l0"]})])
    result = adj.aggregate(few, model="fds")
    more = result.explain("new").more_votes
    assert more
    own = [("new", "w1", "l0")]
    confidence = [
        result.predict(own + [("new", f"x{n}", "l0") for n in range(m)]).labels["confidence"][0] for m in range(more + 1)
    ]
    assert confidence[more] >= 0.95 > confidence[0]
    assert confidence[max(more - 2, 0)] < 0.95


def test_what_can_be_asked_for_is_checked():
    result = adj.aggregate(CROWD.votes)
    with pytest.raises(adj.OptionError, match="settled is 2"):
        result.explain("t1", settled=2)
    with pytest.raises(adj.OptionError, match="unknown by 'votes'"):
        result.explain("t1", by="votes")


def test_an_unknown_task_is_an_error_that_names_others():
    with pytest.raises(adj.InputError, match=r"task 't5x' has no votes here: did you mean .*t5"):
        adj.aggregate(CROWD.votes).explain("t5x")
    with pytest.raises(adj.InputError, match="nothing but abstentions"), pytest.warns(adj.MissingLabels):
        adj.aggregate([(1, "a", "x"), (1, "b", "y"), (2, "a", None)]).explain(2)
    with pytest.raises(adj.InputError, match="task 9 has no votes here"):
        adj.aggregate([(1, "a", "x"), (1, "b", "y")]).explain(9)
    with pytest.raises(adj.InputError, match="task 9 has no votes here"):
        adj.aggregate(NOTHING, model="mv").explain(9)


def test_many_tasks_are_searched_by_their_beginning(monkeypatch):
    monkeypatch.setattr("adjudge.results.explain.MAX_SIMILAR_CANDIDATES", 10)
    with pytest.raises(adj.InputError, match="did you mean .*t5"):
        adj.aggregate(CROWD.votes).explain("t5x")


def test_ids_meet_as_text():
    result = adj.aggregate([(7, 1, 0), (7, 2, 0), (8, 1, 1), (8, 2, 1)])
    assert result.explain("7").task == result.explain(7).task == 7


def test_as_data():
    result = adj.aggregate(CROWD.votes.to_pandas())
    why = result.explain("t1")
    assert type(why.votes).__module__.startswith("pandas")
    assert list(why.votes.columns) == [
        "worker",
        "label",
        "weight",
        "contribution",
        "accuracy",
        "flips_if_removed",
        "flips_if_changed",
    ]
    told = json.loads(json.dumps(why.to_dict(), allow_nan=False))
    assert [vote["worker"] for vote in told["votes"]] == why.votes["worker"].to_list()
    assert sum(p["probability"] for p in told["probabilities"]) == pytest.approx(1.0)
    assert why.bars_frame()["end"][-1] == pytest.approx(told["log_odds"])
    assert repr(why).startswith("Explanation('t1': ")


def test_as_text():
    text = str(adj.aggregate(CROWD.votes).explain("t1"))
    first, second, *_ = text.splitlines()
    assert first.startswith("task t1: l")
    assert second.startswith("decided by auto from ")
    assert "│" in text
    assert "█" in text
    assert text.splitlines()[-1].startswith("in all")


def test_ids_cannot_steer_a_terminal():
    votes = [("t\x1b[31m", "w\x07" + "x" * 99, "l\n1"), ("t\x1b[31m", "v", "l2"), ("t2", "v", "l\n1")]
    text = str(adj.aggregate(votes).explain("t\x1b[31m"))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert len(text.splitlines()) <= 12
    assert max(map(len, text.splitlines())) < 130


def test_crowded_tasks_stay_on_one_screen():
    votes = [("t", f"w{n}", "ab"[n % 3 == 0]) for n in range(200)] + [("u", f"w{n}", "b") for n in range(50)]
    why = adj.aggregate(votes).explain("t")
    lines = str(why).splitlines()
    assert len(lines) < 40
    assert any("176 more votes" in line for line in lines)


def test_one_label_has_no_runner_up():
    why = adj.aggregate([(1, "a", "x"), (1, "b", "x")]).explain(1)
    assert why.runner_up is None
    assert why.confidence == 1.0
    assert "said x" in str(why)


@pytest.mark.parametrize("per_option", [False, True])
def test_sets_are_explained_by_option(per_option):
    votes = [
        ("t1", "ann", ["fear", "joy"]),
        ("t1", "bob", ["joy"]),
        ("t1", "eve", ["joy"]),
        ("t2", "ann", ["fear"]),
        ("t2", "bob", []),
    ]
    result = adj.aggregate(votes, multi=True, per_option=per_option)
    why = result.explain("t1")
    told = result.labels.row(0, named=True)
    assert why.chosen == told["label"]
    assert why.confidence == pytest.approx(told["confidence"])
    assert {name: one.probabilities["yes"] for name, one in why.options.items()} == pytest.approx(
        {name: result.probabilities[name][0] for name in ("fear", "joy")}
    )
    assert [one.confidence for one in why.options.values()] == sorted(one.confidence for one in why.options.values())
    assert why.votes.columns[:2] == ["option", "worker"]
    assert len(why.votes) == 6
    assert json.dumps(why.to_dict(), allow_nan=False)
    assert str(why).startswith("task t1: joy")
    with pytest.raises(adj.InputError, match="did you mean"):
        result.explain("t")


def test_votes_elsewhere_are_reported():
    result = replace(adj.aggregate(CROWD.votes), session=object())
    for ask in (lambda: result.explain("t1"), lambda: result.ask_next(1)):
        with pytest.raises(adj.OptionError, match="stay on executors"):
            ask()
