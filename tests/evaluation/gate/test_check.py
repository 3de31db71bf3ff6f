"""`adj.check`: figures against their own functions, verdicts by hand-made intervals, and missing labels."""

import json
import math

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.evaluation.gate.figures import Figure, Missing, judge, plan_by_size
from adjudge.evaluation.gate.requirements import Requirement, parse_requirement
from adjudge.evaluation.intervals import Estimate, clustered_share, design_effect, wilson

CROWD = adj.simulate(tasks=400, workers=9, labels=2, label_names=["bad", "good"], votes_per_task=5, skill=0.85, seed=3)
TRUTH = dict(CROWD.truth.rows())
KNOWN = dict(list(TRUTH.items())[:150])


def only(require, **options):
    (finding,) = adj.check(CROWD.votes, require, **options).findings
    return finding


def test_accuracy_is_that_of_the_labels_with_wilsons_interval():
    labels = dict(adj.aggregate(CROWD.votes).labels.select("task", "label").rows())
    right = sum(labels[task] == label for task, label in KNOWN.items())
    finding = only("accuracy>=0.5", gold=KNOWN)
    found = finding.figure.estimate
    assert float(found) == pytest.approx(right / 150)
    assert (found.low, found.high) == pytest.approx(wilson(right / 150, 150, 1.6448536))
    assert finding.verdict == "holds"


def test_figures_are_those_of_their_functions():
    rated = adj.rates(CROWD.votes, gold=KNOWN).rates.filter(label="good").row(0, named=True)
    rate = only("rate(good)>=0.5", gold=KNOWN).figure.estimate
    assert (float(rate), rate.low, rate.high) == pytest.approx((rated["share"], rated["low"], rated["high"]))
    agreed = adj.agreement(CROWD.votes, truth=KNOWN, level=0.9)
    for name in ("alpha", "effective_votes"):
        found, wanted = only(f"{name}>=0", gold=KNOWN).figure.estimate, getattr(agreed, name)
        assert (float(found), found.low, found.high) == (float(wanted), wanted.low, wanted.high)
    assert float(only("votes_per_task>=5").figure.estimate) == 5.0
    assert only("tasks<=399").verdict == "fails"


def test_without_known_labels_nothing_that_needs_them_holds():
    finding = only("accuracy>=0.5")
    assert (finding.verdict, finding.missing.what) == ("inconclusive", "known labels of random tasks")
    assert finding.missing.more >= 50
    upper = only("effective_votes>=1")
    assert (upper.verdict, upper.missing.more, upper.figure.is_upper) == ("inconclusive", 50, True)
    assert only("effective_votes>=99").verdict == "fails"
    assert only("effective_votes<=99").verdict == "holds"


@pytest.mark.parametrize(
    ("relation", "low", "high", "verdict"),
    [
        (">=", 0.8, 0.9, "holds"),
        (">=", 0.79, 0.9, "inconclusive"),
        (">=", 0.7, 0.79, "fails"),
        ("<=", 0.7, 0.8, "holds"),
        ("<=", 0.7, 0.81, "inconclusive"),
        ("<=", 0.81, 0.9, "fails"),
        (">=", math.nan, math.nan, "inconclusive"),
    ],
)
def test_the_whole_interval_decides(relation, low, high, verdict):
    need = Requirement("accuracy", "", relation, 0.8)
    figure = Figure(Estimate((low + high) / 2, low, high), "", Missing("tasks", None))
    assert judge(need, figure) == verdict
    bound = Figure(figure.estimate, "", figure.missing, is_upper=True)
    unproved = "holds" if relation == ">=" else "fails"
    assert judge(need, bound) == ("inconclusive" if verdict == unproved else verdict)


def test_the_labels_that_are_asked_for_decide():
    rng = np.random.default_rng(0)
    threshold, decided = 0.8, 0
    tasks = rng.permutation(list(TRUTH))
    for number in range(10):
        some = {str(task): TRUTH[str(task)] for task in tasks[20 * number : 20 * number + 20]}
        finding = only(f"accuracy>={threshold}", gold=some)
        if finding.verdict != "inconclusive" or finding.missing.more is None:
            decided += 1
            continue
        checked = adj.check(CROWD.votes, f"accuracy>={threshold}", gold=some)
        assert len(checked.to_label) == min(finding.missing.more, 380)
        assert not set(checked.to_label) & set(some)
        more = some | {task: TRUTH[task] for task in checked.to_label}
        decided += only(f"accuracy>={threshold}", gold=more).verdict != "inconclusive"
    assert decided >= 6
    assert plan_by_size("tasks", 100, Estimate(0.5, 0.4, 0.6))(parse_requirement("alpha>=0.45"), 0.45).more == 300


def test_tasks_to_label_do_not_depend_on_the_order_of_votes():
    shuffled = CROWD.votes.sample(fraction=1.0, shuffle=True, seed=1)
    assert adj.check(shuffled, "accuracy>=0.9").to_label == adj.check(CROWD.votes, "accuracy>=0.9").to_label


def test_clusters_widen_intervals():
    of_truth = {task: f"{label}{int(task[1:]) // 40}" for task, label in TRUTH.items()}
    wide, plain = (only("rate(good)>=0.5", gold=TRUTH, cluster=cluster).figure for cluster in (of_truth, ""))
    assert wide.estimate.low < plain.estimate.low
    assert "clusters" in wide.basis
    right = np.repeat([True, True, False, True], 25)
    cluster = np.arange(100) // 25
    assert design_effect(right.astype(float), cluster) == pytest.approx(33.0)  # 25 alike, 99/100 and 4/3 for their numbers
    assert clustered_share(right, cluster, 0.9).low < clustered_share(right, None, 0.9).low


def test_a_baseline_is_compared_task_by_task_or_as_independent():
    worse = CROWD.votes.with_columns(label=pl.when(pl.int_range(pl.len()) % 3 == 0).then(pl.lit("bad")).otherwise("label"))
    given = {"gold": KNOWN, "baseline": CROWD.votes}
    checked = adj.check(worse, ["accuracy", "rate(good)", "alpha"], no_worse=0.01, **given)
    assert checked.findings[0].verdict == "fails"
    assert checked.exit_code == 3
    assert "are right only now" in checked.findings[0].figure.basis
    same = adj.check(CROWD.votes, ["accuracy", "alpha"], no_worse=0.1, **given)
    assert same.holds
    found, alpha = same.findings[1].figure.estimate, adj.agreement(CROWD.votes, level=0.9).alpha
    assert float(found) == 0.0
    assert found.high == pytest.approx(math.hypot(alpha.high - alpha, alpha - alpha.low))
    by_name = adj.check(CROWD.votes.with_columns(task=pl.format("x{}", "task")), "rate(good)", baseline=CROWD.votes, no_worse=0.5)
    assert by_name.verdict == "holds"


def test_everything_is_json_and_markdown_escapes_data():
    evil = CROWD.votes.with_columns(label=pl.col("label").replace("good", "<b>|`good"))
    checked = adj.check(evil, "rate(<b>|`good)>=0.1")
    assert json.loads(json.dumps(checked.to_dict(), allow_nan=False))["verdict"] == "holds"
    line = checked.markdown().splitlines()[4]
    assert "<b>" not in line
    assert line.count("|") == 5


@pytest.mark.parametrize(
    ("require", "options", "message"),
    [
        ([], {}, "require names no figure"),
        ("acuracy>=0.9", {}, "require is 'acuracy>=0.9': give a figure and its limit"),
        ("accuracy>=1.2", {}, "accuracy takes a share from 0 to 1"),
        ("accuracy>=1e", {}, "'1e' is no number"),
        ("alpha>=60%", {}, "alpha takes a number without %"),
        ("rate>=0.5", {}, "a rate names its label"),
        ("alpha(good)>=0.5", {}, "a rate names its label"),
        ("rate(fine)>=0.5", {}, "require names the label 'fine', which no vote has: the labels are bad, good"),
        ("alpha", {}, "require names alpha without a limit"),
        ("tasks", {"baseline": CROWD.votes}, "only accuracy, rate, alpha are compared"),
        ("alpha>=0", {"no_worse": 0.1}, "no_worse is given without baseline"),
        ("alpha", {"baseline": CROWD.votes, "no_worse": -1}, "no_worse is -1"),
        ("accuracy", {"baseline": CROWD.votes, "no_worse": 2}, "no_worse is 2: give a number of at least 0 and at most 1"),
        ("alpha", {"baseline": CROWD.votes, "no_worse": math.inf}, "no_worse is inf"),
        ("tasks<=1e999", {}, "'1e999' is no number that tasks can have"),
        ("alpha>=60", {}, "alpha takes a number from -1 to 1"),
        ("accuracy>=0.9", {"gold": {"q": "good"}}, "the gold has none of the 400 tasks"),
        ("alpha>=0", {"level": 2}, "level is 2"),
    ],
)
def test_bad_input(require, options, message):
    with pytest.raises(adj.AdjudgeError) as error:
        adj.check(CROWD.votes, require, **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_not_measured_is_never_shown_as_nan():
    known_before = adj.check(CROWD.votes, "accuracy", baseline=CROWD.votes, baseline_gold=KNOWN, no_worse=0.1)
    alike = adj.check([(t, w, "yes") for t in range(9) for w in "abc"], ["alpha>=0.1"])
    compared = adj.check(CROWD.votes, "alpha", baseline=[(t, w, "good") for t in range(9) for w in "abc"])
    for checked in (known_before, alike, compared):
        assert checked.verdict == "inconclusive"
        assert "nan" not in str(checked) + checked.markdown() + json.dumps(checked.to_dict(), allow_nan=False)
    assert "now not measured, before 9" in str(known_before)
    assert "too few or too alike to measure alpha" in str(alike)
    assert "too few or too alike to measure alpha" in str(compared)
