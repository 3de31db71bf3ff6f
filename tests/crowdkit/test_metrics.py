"""Figures of votes, helpers and the entropy filter, against crowd-kit 1.4.2."""

import numpy as np
import pandas as pd
import pytest
from adjudge.crowdkit.metrics.data import alpha_krippendorff, consistency, uncertainty
from adjudge.crowdkit.metrics.workers import accuracy_on_aggregates
from adjudge.crowdkit.postprocessing import entropy_threshold
from pandas.testing import assert_frame_equal

from adjudge.crowdkit import GLAD, DawidSkene, MajorityVote, Wawa
from adjudge.crowdkit.aggregation import utils

VOTES = pd.DataFrame({"task": ["t2", "t2", "t1", "t1", "t1", "t3", "t0", "t0"], "worker": [*"12132331"], "label": [*"babcbaca"]})
SKILLS = pd.Series({"1": 0.5, "2": 0.25, "3": 2.0})


def test_consistency():
    assert consistency(VOTES) == pytest.approx(0.75)
    assert consistency(VOTES, aggregator=Wawa()) == pytest.approx(0.75)
    by = consistency(VOTES, by_task=True)
    assert by.index.name == "task"
    assert by.to_dict() == pytest.approx({"t0": 2 / 3, "t1": 1.0, "t2": 1.0, "t3": 1 / 3})
    assert consistency(VOTES, SKILLS) == pytest.approx(-0.15454545)
    assert np.isnan(consistency(VOTES.iloc[:0]))
    with pytest.raises(AssertionError, match="GLAD has no skills"):
        consistency(VOTES, aggregator=GLAD(1))
    for error in (KeyError, AssertionError):
        with pytest.raises(error, match="worker"):
            consistency(VOTES[["task", "label"]])


def test_uncertainty():
    assert uncertainty(VOTES) == pytest.approx(0.5057021323536759)
    assert uncertainty(VOTES, aggregator=MajorityVote()) == pytest.approx(uncertainty(VOTES, aggregator=Wawa()))
    by_task = uncertainty(VOTES, SKILLS, aggregate=False)
    assert by_task["t1"] == pytest.approx(0.456334, abs=1e-6)
    assert by_task["t0"] == -np.inf
    by_worker = uncertainty(VOTES, SKILLS, compute_by="worker", aggregate=False)
    assert by_worker["1"] == pytest.approx(1.077556, abs=1e-6)
    assert by_worker.index.name == "worker"
    assert np.isnan(uncertainty(VOTES.iloc[:0]))
    with pytest.raises(KeyError, match="other"):
        uncertainty(VOTES, compute_by="other")
    with pytest.raises(AssertionError, match="lacks 1 workers, such as '3'"):
        uncertainty(VOTES, SKILLS.iloc[:2])
    with pytest.raises(AssertionError, match="has no skills"):
        uncertainty(VOTES, aggregator=DawidSkene(1))


def test_alpha():
    assert alpha_krippendorff(VOTES) == pytest.approx(-0.125)
    numbers = VOTES.assign(label=VOTES["label"].map({"a": 0, "b": 1, "c": 2}))
    assert alpha_krippendorff(numbers, lambda one, two: (one - two) ** 2) == pytest.approx(-0.2857142857)
    assert alpha_krippendorff(VOTES[VOTES["label"] == "b"]) == 1.0
    assert alpha_krippendorff(VOTES[VOTES["task"] == "t3"]) == 1.0
    with pytest.raises(ValueError, match="no data"):
        alpha_krippendorff(VOTES.iloc[:0])


def test_accuracy_on_aggregates():
    assert accuracy_on_aggregates(VOTES) == 0.625
    assert accuracy_on_aggregates(VOTES, by="worker").to_dict() == pytest.approx({"1": 2 / 3, "2": 1.0, "3": 1 / 3})
    given = pd.Series({"t1": "b", "t2": "a"})
    assert accuracy_on_aggregates(VOTES, aggregates=given) == pytest.approx(0.6)
    assert accuracy_on_aggregates(VOTES, DawidSkene(2), by="worker").to_dict() == pytest.approx(
        {"1": 1 / 3, "2": 1.0, "3": 2 / 3}
    )
    with pytest.raises(AssertionError, match="not None"):
        accuracy_on_aggregates(VOTES, aggregator=None)


def test_entropy_threshold():
    kept = entropy_threshold(VOTES, min_answers=1)
    assert kept["worker"].to_list() == ["2", "2"]
    assert_frame_equal(kept, VOTES[VOTES["worker"] == "2"])
    assert set(entropy_threshold(VOTES, min_answers=3)["worker"]) == {"2"}
    assert_frame_equal(entropy_threshold(VOTES, min_answers=10), VOTES)  # crowd-kit has an IndexError
    assert len(entropy_threshold(VOTES, percentile=100)) == 0


def test_accuracy():
    truth = pd.Series({"t1": "b", "t2": "a"})
    assert utils.get_accuracy(VOTES, truth) == pytest.approx(0.6)
    by = utils.get_accuracy(VOTES, truth, by="worker")
    assert by.index.name == "worker"
    assert by.to_dict() == {"1": 0.5, "2": 1.0, "3": 0.0}
    assert utils.get_accuracy(VOTES.assign(weight=range(8)), truth, by="worker")["1"] == 1.0
    assert utils.get_accuracy(pd.concat([VOTES, VOTES]), truth) == pytest.approx(0.6)
    assert np.isnan(utils.get_accuracy(VOTES, truth.iloc[:0]))
    assert utils.get_accuracy(VOTES, truth, by="true_label").to_dict() == pytest.approx({"a": 0.5, "b": 2 / 3})
    several = pd.Series(["b", "c", "a"], index=["t1", "t1", "t2"])  # both labels of t1 are right
    assert utils.get_accuracy(VOTES, several) == pytest.approx(0.8)


def test_helpers():
    shares = pd.DataFrame({"b": [0.5, 0.1], "a": [0.5, 0.9]}, index=pd.Index(["t1", "t2"], name="task"))
    assert utils.get_most_probable_labels(shares).to_dict() == {"t1": "b", "t2": "a"}
    assert len(utils.get_most_probable_labels(pd.DataFrame())) == 0
    assert_frame_equal(utils.normalize_rows(3 * shares), shares)
    managed = utils.manage_data(VOTES.assign(extra=1), pd.Series({"t1": 2.0, "t2": 3.0}))
    assert list(managed.columns) == ["task", "worker", "label", "weight", "skill"]
    assert managed["weight"].iloc[0] == 3.0
    assert np.isnan(managed["weight"].iloc[-1])
    assert managed["skill"].to_list() == [1] * 8
    truth = pd.DataFrame({"task": ["t1", "t2"], "label": ["a", "b"]})
    assert utils.evaluate(truth, truth.assign(label=["a", "c"]), utils.evaluate_equal) == 0.5
    assert utils.evaluate(truth.assign(label=[["a"], ["b"]]), truth) == 1.0
    with pytest.raises(AssertionError, match="expected 2, got 1"):
        utils.evaluate(truth, truth.iloc[:1])
    again = utils.clone_aggregator(DawidSkene(7).fit(VOTES))
    assert again.n_iter == 7
    assert not hasattr(again, "labels_")


def test_named_series():
    attr = pytest.importorskip("attr")

    @attr.s
    class WithAttrs:
        skills_ = utils.named_series_attrib("skill")

    class Plain:
        skills_ = utils.named_series_attrib("skill")

    for instance in (WithAttrs(), Plain()):
        assert not hasattr(instance, "skills_")
        instance.skills_ = pd.Series([0.5], name="other")
        assert instance.skills_.name == "skill"
