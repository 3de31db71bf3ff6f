"""Clusters of tasks in evaluate, compare, panel and agreement: found, reported, and in every interval and test."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.evaluation.intervals import clustered_accuracy, compare_paired, design_effect, mid_p

CROWD = adj.simulate(tasks=240, workers=7, labels=2, votes_per_task=5, skill=0.8, seed=4)
TRUTH = dict(CROWD.truth.rows())
RESULT = adj.aggregate(CROWD.votes)
LABELS = dict(RESULT.labels.select("task", "label").rows())
RIGHT = {task: LABELS[task] == TRUTH[task] for task in TRUTH}
RANKED = sorted(TRUTH, key=lambda task: (RIGHT[task], task))
PROMPT = {task: f"p{number // 8}" for number, task in enumerate(RANKED)}  # wrong labels come in clusters
VOTES = CROWD.votes.with_columns(prompt=pl.col("task").replace_strict(PROMPT))


def width(estimate):
    return estimate.high - estimate.low


def test_evaluate_finds_and_reports_clusters(run_command):
    plain = adj.evaluate(LABELS, TRUTH)
    assert (plain.interval.low < plain.accuracy < plain.interval.high, plain.clusters) == (True, None)
    clustered = adj.evaluate(LABELS, TRUTH, cluster=PROMPT)
    assert width(clustered.interval) > 1.8 * width(plain.interval)
    frame = pl.DataFrame({"task": list(LABELS), "label": list(LABELS.values())})
    with_prompts = frame.with_columns(prompt=pl.col("task").replace_strict(PROMPT))
    by_column = adj.evaluate(with_prompts, TRUTH)
    assert (by_column.clusters, width(by_column.interval)) == (("prompt", 30), width(clustered.interval))
    assert adj.evaluate(with_prompts, TRUTH, cluster="").interval.low == plain.interval.low
    assert adj.evaluate(RESULT, TRUTH, cluster=PROMPT).clusters[1] == 30
    with_prompts.write_csv("labels.csv")
    CROWD.truth.write_csv("truth.csv")
    shown = run_command("evaluate", "labels.csv", "--truth", "truth.csv")
    assert "Tasks with the same prompt depend on each other" in shown
    assert "cluster" not in run_command("evaluate", "labels.csv", "--truth", "truth.csv", "--cluster", "")


@pytest.fixture
def run_command(adjudge, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code, out, err = adjudge(*arguments)
        assert code == 0, err
        return out

    return run


def test_compare_takes_clusters_in_intervals_and_tests(run_command):
    options = {"truth": TRUTH, "models": ["mv", "fds"], "resamples": 2000}
    clustered, plain = adj.compare(VOTES, **options), adj.compare(VOTES, cluster="", **options)
    assert "Tasks with the same prompt depend on each other" in str(clustered)
    assert "the same prompt" not in str(plain)
    wide, narrow = (
        one.models.select(pl.col("accuracy_high") - pl.col("accuracy_low"))["accuracy_high"] for one in (clustered, plain)
    )
    assert (wide > 1.3 * narrow).all()
    VOTES.write_csv("votes.csv")
    CROWD.truth.write_csv("truth.csv")
    shown = run_command("compare", "votes.csv", "--truth", "truth.csv", "--models", "mv,fds", "--cluster", "prompt")
    assert "the same prompt" in shown


def test_a_paired_test_of_clusters_is_right_under_the_null():
    rng, found, plain = np.random.default_rng(1), [], []
    cluster = np.arange(400) // 8
    for _ in range(300):
        tilt = rng.random(50)[cluster] < 0.5  # which of two equal models has the better luck with a cluster
        differs = rng.random(400) < 0.3
        a, b = (differs & tilt) | ~differs, (differs & ~tilt) | ~differs
        found.append(compare_paired(a, b, 0, 0.9, rng, cluster).p_value)
        plain.append(mid_p(int((a & ~b).sum()), int((b & ~a).sum())))
    assert 0.05 < np.mean(np.array(found) < 0.1) < 0.16
    assert np.mean(np.array(plain) < 0.1) > 0.3


def test_an_accuracy_of_clusters_covers():
    rng, held = np.random.default_rng(2), 0
    for _ in range(200):
        rate = np.clip(rng.normal(0.75, 0.2, 40), 0, 1)
        cluster = np.repeat(np.arange(40), 5)
        found = clustered_accuracy((rng.random(200) < rate[cluster]).astype(float), cluster, 400, 0.9, rng)
        held += found.low <= 0.741 <= found.high  # the mean of the clipped normal
    assert 0.83 < held / 200 < 0.96
    assert design_effect(np.repeat([1.0, 0.0], 100), np.arange(200)) == pytest.approx(1.0)


def test_a_panel_reports_clusters_and_allows_for_them(run_command):
    clustered, plain = (adj.panel(VOTES, truth=TRUTH, subsets=5, cluster=cluster) for cluster in (None, ""))
    assert "the same prompt" in str(clustered)
    wide, narrow = (one.sizes.row(-1, named=True) for one in (clustered, plain))
    assert wide["high"] - wide["low"] > 1.3 * (narrow["high"] - narrow["low"])
    assert wide["accuracy"] == narrow["accuracy"]
    VOTES.write_csv("votes.csv")
    assert "the same prompt" in run_command("panel", "votes.csv", "--subsets", 3)


def test_agreement_draws_clusters():
    clustered = adj.agreement(VOTES, cluster="prompt", pairs=False)
    assert clustered.clusters == 30
    assert float(clustered.alpha) == pytest.approx(float(adj.agreement(VOTES, pairs=False).alpha))
    assert width(clustered.alpha) != width(adj.agreement(VOTES, pairs=False).alpha)
