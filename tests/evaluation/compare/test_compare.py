"""The call: which models run and how, what is refused, where known labels come from."""

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import adjudge as adj
from adjudge.data.votes import Gold
from adjudge.evaluation.compare import fits
from adjudge.io.sets import read_sets
from adjudge.models.base import DEFAULT_COMPARED_MODELS


@pytest.fixture(scope="module")
def crowd():
    return adj.simulate(tasks=120, workers=9, labels=2, votes_per_task=4, seed=7)


def test_the_usual_models_take_part_by_default(crowd):
    found = adj.compare(crowd.votes, refits=0)
    assert found.models["model"].to_list() == list(DEFAULT_COMPARED_MODELS)
    assert found.labels.columns == ["task", *DEFAULT_COMPARED_MODELS]
    assert len(found.differences) == 28
    assert found.models["accuracy"].null_count() == len(DEFAULT_COMPARED_MODELS)
    assert found.models["agrees_with_mv"].min() > 0.8


def test_labels_are_those_of_aggregate(crowd):
    found = adj.compare(crowd.votes, seed=5, refits=0)
    for model in DEFAULT_COMPARED_MODELS:
        assert found.labels[model].to_list() == adj.aggregate(crowd.votes, model, seed=5).labels["label"].to_list()


def test_named_models_and_majority_vote(crowd):
    found = adj.compare(crowd.votes, models=["Fast Dawid-Skene", "fds", "IWMV"], refits=0)
    assert found.models["model"].to_list() == ["fds", "iwmv", "mv"]
    assert found.best == "mv", "the cautious one, where auto is not asked"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"models": ["best"]}, "unknown model 'best'"),
        ({"models": [3]}, "unknown model 3"),
        ({"models": "fds"}, "models is 'fds': give a list of names"),
        ({"models": []}, "models is empty"),
        ({"folds": 1}, "folds is 1: give a whole number of at least 2"),
        ({"refits": -1}, "refits is -1"),
        ({"resamples": 0.5}, "resamples is 0.5"),
        ({"level": 1.5}, "level is 1.5"),
        ({"seed": -1}, "seed is -1"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_bad_options(crowd, options, words):
    with pytest.raises(adj.OptionError, match=words):
        adj.compare(crowd.votes, **options)


def test_bad_input(crowd):
    with pytest.raises(adj.InputError, match="none of the 1 tasks of the truth has votes"):
        adj.compare(crowd.votes, truth={"no such task": "l0"})
    with pytest.raises(adj.InputError, match="the gold has one task with votes"):
        adj.compare(crowd.votes, gold=crowd.truth.head(1))
    with pytest.raises(adj.InputError, match="the truth has no task with votes beside the gold"):
        adj.compare(crowd.votes, truth=crowd.truth.head(5), gold=crowd.truth.head(9))
    with pytest.raises(adj.InputError, match="not among the labels"):
        adj.compare(crowd.votes, gold=crowd.truth.head(5).with_columns(label=pl.lit("cow")))
    with pytest.raises(adj.InputError, match="there are no votes"):
        adj.compare(crowd.votes.head(0))
    with pytest.raises(adj.InputError, match="votes with one label"):
        adj.compare(read_sets([("t", "a", "x|y")]))


def test_threads_change_nothing(crowd):
    one, three = (adj.compare(crowd.votes, gold=crowd.truth.head(30), threads=n, seed=1, refits=1) for n in (1, 3))
    assert one.models.drop("seconds").equals(three.models.drop("seconds"))
    assert one.differences.equals(three.differences)
    assert one.disagreements.equals(three.disagreements)
    assert (one.advice, one.best) == (three.advice, three.best)


@pytest.mark.parametrize(("jobs", "threads", "at_once", "each"), [(1, 4, 1, 4), (3, 4, 3, 1), (9, 4, 4, 1), (2, 5, 2, 2)])
def test_threads_are_not_oversubscribed(crowd, monkeypatch, jobs, threads, at_once, each):
    """Fits side by side, times the threads of each, never exceed the requested number."""
    pools, engines = [], []
    whole, pool = fits._fit, fits.ThreadPoolExecutor
    monkeypatch.setattr(fits, "ThreadPoolExecutor", lambda n, **how: pools.append(n) or pool(n, **how))
    monkeypatch.setattr(fits, "_fit", lambda job, engine, stop: engines.append(engine.threads) or whole(job, engine, stop))
    votes = adj.read(crowd.votes)
    fits.run([fits.FitJob("mv", adj.MajorityVote(), votes)] * jobs, threads=threads)
    assert pools == [at_once]
    assert set(engines) == {each}


def test_few_fits_at_once_where_memory_is_small(crowd, monkeypatch):
    votes = adj.read(crowd.votes)
    jobs = [fits.FitJob("fds", adj.FastDawidSkene(), votes)] * 4
    monkeypatch.setattr(fits, "free_memory", lambda: 1)
    assert fits._jobs_in_memory(jobs) == 1
    monkeypatch.setattr(fits, "free_memory", lambda: 1 << 40)
    assert fits._jobs_in_memory(jobs) > 4


def test_a_model_that_refuses_is_listed_with_its_reason(crowd):
    weighted = crowd.votes.with_columns(sure=pl.Series(np.tile([0.5, 1.0], len(crowd.votes))[: len(crowd.votes)]))
    found = adj.compare(weighted, weight="sure", truth=crowd.truth)
    rows = {row["model"]: row for row in found.models.iter_rows(named=True)}
    assert list(rows) == [*(name for name in rows if name != "glad"), "glad"], "last"
    assert "glad" in rows["glad"]["refused"]
    assert rows["glad"]["accuracy"] is None
    assert all(
        rows[name]["refused"] is None and rows[name]["accuracy"] > 0.5 for name in DEFAULT_COMPARED_MODELS if name != "glad"
    )
    assert any(sentence.startswith("glad could not run: ") for sentence in found.advice)
    assert len(found.differences) == 21


def test_a_model_without_room_does_not_stop_the_others(crowd, monkeypatch):
    whole = fits._fit

    def fit(job, engine, stop):
        if job.model.name == "auto":
            raise MemoryError
        return whole(job, engine, stop)

    monkeypatch.setattr(fits, "_fit", fit)
    found = adj.compare(crowd.votes, refits=1)
    assert found.models.filter(model="auto")["refused"].item() == "out of memory"
    assert found.best == "mv"


def test_what_is_wrong_with_adjudge_is_not_hidden(crowd, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(fits, "_fit", broken)
    with pytest.raises(ZeroDivisionError):
        adj.compare(crowd.votes)


def test_votes_without_workers_leave_majority_vote():
    votes = adj.read({"task": [1, 1, 1, 2], "label": ["a", "a", "b", "b"]}, worker="")
    found = adj.compare(votes)
    assert found.best == "mv"
    assert found.models.filter(pl.col("refused").is_null())["model"].to_list() == ["mv"]
    assert "do not say who gave them" in found.models["refused"][-1]


def test_gold_of_an_export_is_gold(crowd):
    votes = adj.read(crowd.votes)
    codes = votes.labels.codes(crowd.truth["label"].head(20).to_list()).astype(np.int32)
    tasks = votes.tasks.take(votes.tasks.codes(crowd.truth["task"].head(20).to_list()))
    export = replace(votes, found_gold=Gold(tasks, codes))
    found = adj.compare(export, models=["fds"])
    assert (found.judged_by, found.gold_tasks, found.judged_tasks) == ("gold", 20, 20)
    beside = adj.compare(export, models=["fds"], truth=crowd.truth)
    assert (beside.judged_by, beside.gold_tasks, beside.judged_tasks) == ("truth", 20, 100)
    without = adj.compare(export, models=["fds"], gold={}, refits=0)
    assert (without.judged_by, without.gold_tasks) == (None, 0)
    assert without.labels["fds"].to_list() == adj.aggregate(crowd.votes, "fds").labels["label"].to_list()


def test_progress_is_reported_for_every_fit(crowd):
    calls = []
    adj.compare(crowd.votes, gold=crowd.truth.head(20), models=["fds"], folds=4, progress=lambda *call: calls.append(call))
    assert [done for _, done, _ in calls] == list(range(1, 8)), "two fits of all votes, four folds of fds, one of mv"
    assert {total for *_, total in calls} == {7}
    assert {name for name, *_ in calls} == {"fds", "mv"}


def test_an_interrupt_ends_the_fits_that_run(crowd):
    rounds = []

    class Endless(adj.DawidSkene):
        def fit(self, votes, *, progress, **_):
            for _ in range(1000):  # not quite
                rounds.append(time.sleep(0.01))
                progress(None)

    def interrupt(name, *_):
        assert name == "mv"
        raise KeyboardInterrupt

    votes = adj.read(crowd.votes)
    jobs = [fits.FitJob("mv", adj.MajorityVote(), votes), fits.FitJob("ds", Endless(), votes)]
    with pytest.raises(KeyboardInterrupt):
        fits.run(jobs, threads=2, progress=interrupt)
    assert len(rounds) < 900


def test_frames_are_of_the_callers_kind(crowd):
    found = adj.compare(crowd.votes.to_pandas(), truth=crowd.truth, models=["mv", "ds"])
    for frame in (found.models, found.differences, found.disagreements, found.labels):
        assert isinstance(frame, pd.DataFrame)


def test_tasks_and_labels_keep_their_kind():
    votes = [(t, w, (t + w // 4) % 2) for t in range(20) for w in range(5)]
    found = adj.compare(votes, truth={str(t): str(t % 2) for t in range(20)})
    assert found.judged_tasks == 20
    assert found.labels.schema["task"] == pl.Int64
    assert found.disagreements.schema["label"] == found.labels.schema["mv"]


def test_facts_are_those_of_auto(crowd):
    assert adj.compare(crowd.votes, refits=0).facts == adj.aggregate(crowd.votes, "auto").facts


def test_models_with_settings_of_their_own_take_part(crowd):
    tuned = adj.DawidSkene(smoothing=2.0)
    found = adj.compare(crowd.votes, models=["ds", tuned, "ds", adj.FastDawidSkene()], refits=0, seed=5)
    assert found.models["model"].to_list() == ["ds", "ds (2)", "fds", "mv"]
    alone = adj.aggregate(crowd.votes, adj.DawidSkene(smoothing=2.0, seed=5))
    assert found.labels["ds (2)"].to_list() == alone.labels["label"].to_list()


def test_labels_on_a_scale_bring_ordinal_and_scores():
    rng = np.random.default_rng(0)
    quality, shift = rng.normal(0, 1.1, 200), rng.normal(0, 0.5, 8)
    grades = [
        (n, w, int(np.clip(np.rint(3 + quality[n] + shift[w] + rng.normal(0, 0.5)), 1, 5))) for n in range(200) for w in range(8)
    ]
    truth = {n: int(np.clip(np.rint(3 + q), 1, 5)) for n, q in enumerate(quality)}
    found = adj.compare(grades, truth=truth, resamples=0)
    assert set(found.models["model"]) == {*DEFAULT_COMPARED_MODELS, "ordinal", "scores"}
    right = dict(found.models.select("model", "accuracy").iter_rows())
    assert min(right["ordinal"], right["scores"]) > right["mv"] + 0.02
    rounded = adj.scores(grades).items.select(pl.col("task"), pl.col("score").round().cast(pl.Int64))
    both = found.labels.join(rounded, on="task")
    assert (both["scores"] == both["score"].clip(1, 5)).mean() > 0.99
    words = [(task, worker, "abcde"[grade - 1]) for task, worker, grade in grades]
    named = adj.compare(words, labels=list("abcde"), refits=0).models["model"].to_list()
    assert named == [*DEFAULT_COMPARED_MODELS, "ordinal"]
    assert "ordinal" not in adj.compare(words, refits=0).models["model"]
