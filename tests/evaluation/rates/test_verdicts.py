"""Verdicts on pairs of groups, and what would decide: labels and tasks."""

import json

import numpy as np
import pytest

import adjudge as adj


def crowd(rate_a, rate_b, *, prompts=300, judges=6, seed=0, names=("fail", "pass")):
    """Votes of judges who err apart on the answers of two systems to the same prompts; truth, system and prompt by task."""
    rng = np.random.default_rng(seed)
    difficulty, rows, truth = rng.normal(size=prompts), [], {}
    for system, rate in (("A", rate_a), ("B", rate_b)):
        latent = np.sqrt(0.5) * difficulty + np.sqrt(0.5) * rng.normal(size=prompts)
        passes = latent < np.quantile(rng.normal(size=100_000), rate)
        for number in range(prompts):
            task = f"{system}{number}"
            truth[task] = names[int(passes[number])]
            right = rng.random(judges) < 0.85
            rows += [(task, f"j{judge}", names[int(passes[number] == right[judge])]) for judge in range(judges)]
    return rows, truth, {task: task[0] for task in truth}, {task: task[1:] for task in truth}


@pytest.fixture(scope="module")
def apart():
    rows, truth, system, prompt = crowd(0.5, 0.75)
    return adj.rates(rows, by=system, cluster=prompt), truth


def test_a_clear_difference_is_reported(apart):
    (verdict,) = apart[0].verdicts
    row = apart[0].differences.filter(label="pass").row(0, named=True)
    assert (verdict.better, verdict.other, verdict.label, verdict.is_shown) == ("B", "A", "pass", True)
    assert (verdict.difference, verdict.low, verdict.high) == pytest.approx((-row["difference"], -row["high"], -row["low"]))
    first, second = str(apart[0]).splitlines()[:2]
    points = [f"{100 * part:+.1f}" for part in (verdict.difference, verdict.low, verdict.high)]
    assert first == f"B is better than A at the 90% level: {points[0]} points of pass, {points[1]} to {points[2]}"
    assert "no votes show whether they share errors or favour one of them; 50 known labels" in second
    assert json.loads(json.dumps(apart[0].to_dict()))["verdicts"][0]["sentence"] == first


def test_what_is_not_shown_says_what_would_decide():
    rows, truth, system, prompt = crowd(0.63, 0.63, seed=5)
    found = adj.rates(rows, by=system, cluster=prompt)
    (verdict,) = found.verdicts
    assert not verdict.is_shown
    assert verdict.sentence().startswith(f"not shown that {verdict.better} is better than {verdict.other} at the 90% level: +")
    assert verdict.sentence().endswith(("more tasks are needed", "more known labels of each would decide"))
    known = adj.rates(rows, by=system, cluster=prompt, gold=truth)
    assert "no votes show" not in str(known), "with known labels nothing is assumed"


def test_bad_labels_and_names_without_meaning():
    rows, _, system, prompt = crowd(0.5, 0.75, names=("wrong", "odd"))
    options = {"by": system, "cluster": prompt}
    (verdict,) = adj.rates(rows, **options, good="wrong").verdicts
    assert verdict.sentence().startswith("A is better than B at the 90% level: +")
    (verdict,) = adj.rates([(t, w, {"wrong": "x", "odd": "y"}[label]) for t, w, label in rows], **options).verdicts
    assert verdict.sentence().startswith("B is above A at the 90% level: +")
    (verdict,) = adj.rates([(t, w, {"wrong": "a", "odd": "fail"}[label]) for t, w, label in rows], **options).verdicts
    assert verdict.sentence().startswith("A is better than B at the 90% level: -")
    with pytest.raises(adj.InputError, match="good is 'great', which no vote has: the labels are odd, wrong"):
        adj.rates(rows, **options, good="great")


def test_many_pairs_are_corrected():
    rows, _, _, prompt = crowd(0.5, 0.5)
    many = adj.rates(rows, by={task: int(task[1:]) % 6 for task in prompt}, cluster="")
    alone = many.differences.filter(label="pass")["p_value"].to_numpy()
    assert len(alone) == 15
    adjusted = [verdict.p_adjusted for verdict in many.verdicts]
    assert (np.array(adjusted) >= alone - 1e-12).all()
    assert sum(verdict.is_shown for verdict in many.verdicts) <= (alone < 0.1).sum()


def test_more_tasks_show_smaller_differences(apart):
    needed = apart[0].tasks_needed(0.05).filter(label="pass").row(0, named=True)
    less = apart[0].tasks_needed(0.025).filter(label="pass").row(0, named=True)
    assert needed["tasks"] == 300
    assert less["needed"] == pytest.approx(4 * needed["needed"], rel=0.01)
    error = (apart[0].differences.filter(label="pass")["high"] - apart[0].differences.filter(label="pass")["low"]).item() / 2
    assert needed["needed"] == pytest.approx(300 * ((1.645 + 0.842) / 1.645 * error / 0.05) ** 2, rel=0.02)
    with pytest.raises(adj.OptionError, match="difference is 0"):
        apart[0].tasks_needed(0)


def test_labels_that_decide_do():
    decided = 0
    for seed in range(8):
        rows, truth, system, prompt = crowd(0.55, 0.68, seed=40 + seed)
        rng = np.random.default_rng(seed)
        order = {name: rng.permutation([task for task in truth if task[0] == name]) for name in "AB"}
        some = {str(task): truth[str(task)] for tasks in order.values() for task in tasks[:12]}
        (verdict,) = adj.rates(rows, by=system, cluster=prompt, gold=some).verdicts
        if verdict.is_shown or verdict.more is None:
            decided += 1
            continue
        more = {str(task): truth[str(task)] for tasks in order.values() for task in tasks[: 12 + verdict.more]}
        decided += adj.rates(rows, by=system, cluster=prompt, gold=more).verdicts[0].is_shown
    assert decided >= 4
