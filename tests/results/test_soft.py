"""Soft labels: equal to a naive fit, exact verdicts, and silent where nothing tells."""

import math

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.kernels.special import beta_above
from adjudge.results.soft import CountLines, fit_law, soft_labels


def crowd(tasks=400, votes=6, k=3, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, k, tasks)
    own = rng.standard_gamma(np.where(np.eye(k)[kind] > 0, 6.0, 0.6))
    own /= own.sum(axis=1, keepdims=True)
    return np.array([rng.multinomial(votes, p) for p in own]).astype(float), own


def log_likelihood(row, kind):
    return sum(math.lgamma(n + a) - math.lgamma(a) for n, a in zip(row, kind, strict=True)) - (
        math.lgamma(sum(row) + sum(kind)) - math.lgamma(sum(kind))
    )


def psi(x):
    return (math.lgamma(x + 1e-5) - math.lgamma(x - 1e-5)) / 2e-5


def naive_mixture(rows, times, kinds, member):
    """EM of a mixture of Dirichlet-multinomials, a row at a time."""
    for _ in range(60):
        weight = np.log((times @ member + 1) / (times.sum() + len(kinds)))
        score = np.array([[log_likelihood(row, kind) for kind in kinds] for row in rows]) + weight
        total = np.logaddexp.reduce(score, axis=1)
        new, likelihood = np.exp(score - total[:, None]), float(times @ total)
        moved, member, before = np.abs(new - member).max(), new, kinds.copy()
        for g, a in enumerate(before):
            mine, size = times * member[:, g], a.sum()
            up = [
                sum(w * (psi(row[c] + a[c]) - psi(a[c])) for w, row in zip(mine, rows, strict=True))
                + psi(a[c] + 2 * a[c] / size)
                - psi(a[c])
                for c in range(len(a))
            ]
            down = (
                sum(w * (psi(row.sum() + size) - psi(size)) for w, row in zip(mine, rows, strict=True))
                + psi(size + 2)
                - psi(size)
            )
            kinds[g] = np.clip(a * np.array(up) / down, 1e-3, 200)
        if moved < 1e-3 and np.abs(kinds - before).max() < 1e-2 * before.max():
            break
    return kinds, member, likelihood


def naive_soft(counts):
    """Distribution, ambiguity and doubt of every task, by the definition."""
    rows, back, times = np.unique(counts, axis=0, return_inverse=True, return_counts=True)
    k, size = rows.shape[1], rows.sum(axis=1)
    base = (times @ rows + 1) / (times @ size + k)
    one = naive_mixture(rows, times, 2 * base[None], np.ones((len(rows), 1)))
    member = (rows == rows.max(axis=1, keepdims=True)).astype(float)
    member /= member.sum(axis=1, keepdims=True)
    mean = (times[:, None] * member).T @ ((rows + 1 / k) / (size + 1)[:, None]) + 0.5 * np.eye(k) + 0.5 * base
    kinds = naive_mixture(rows, times, 3 * mean / mean.sum(axis=1, keepdims=True), member)
    trust = np.clip((kinds[2] - one[2]) / (k * k - 1), 0, 1)
    weights = np.concatenate([trust * kinds[1], (1 - trust) * one[1]], axis=1)
    share, ambiguity = np.zeros(rows.shape), np.zeros(len(rows))
    for g, a in enumerate(np.concatenate([kinds[0], one[0]])):
        for r, row in enumerate(rows):
            b = row + a
            share[r] += weights[r, g] * b / b.sum()
            ambiguity[r] += weights[r, g] * (psi(b.sum() + 1) - sum(x / b.sum() * psi(x + 1) for x in b))
    doubt = -(share * np.log(share)).sum(axis=1) - ambiguity
    return share[back.ravel()], ambiguity[back.ravel()], np.maximum(doubt, 0)[back.ravel()]


@pytest.mark.parametrize(("k", "votes", "tasks"), [(2, 5, 300), (3, 4, 200), (4, 3, 150)])
def test_equal_to_the_naive_fit(k, votes, tasks):
    counts, _ = crowd(tasks, votes, k)
    lines, line = CountLines.of(counts)
    law, member = fit_law(lines)
    for found, wanted in zip(law.answers(lines, member), naive_soft(counts), strict=True):
        np.testing.assert_allclose(found[line], wanted, atol=1e-6)


def test_lines_are_those_of_numpy():
    counts, _ = crowd()
    for given in (counts, counts / 3):  # weights are fractions
        lines, line = CountLines.of(given)
        wanted, back, times = np.unique(given, axis=0, return_inverse=True, return_counts=True)
        np.testing.assert_array_equal(lines.count, wanted)
        np.testing.assert_array_equal(line, back.ravel())
        np.testing.assert_array_equal(lines.times, times)


def test_verdicts_are_exact():
    """The probability that the top answer has less than two thirds, by draws."""
    counts, _ = crowd(k=4)
    lines, _ = CountLines.of(counts)
    law, member = fit_law(lines)
    found = law.probability_ambiguous(lines, member)
    rng, drawn = np.random.default_rng(0), np.zeros(len(found))
    for kind, weight in zip(law.kinds, member.T, strict=True):
        x = rng.standard_gamma(np.repeat((lines.count + kind)[:, None, :], 4000, axis=1))
        drawn += weight * (x.max(axis=2) < 2 / 3 * x.sum(axis=2)).mean(axis=1)
    np.testing.assert_allclose(found, drawn, atol=0.04)


def test_beta_is_that_of_scipy():
    special = pytest.importorskip("scipy.special")
    rng = np.random.default_rng(0)
    a, b = rng.gamma(0.5, 8, 2000) + 1e-3, rng.gamma(0.5, 8, 2000) + 1e-3
    for x in (0.01, 0.5, 2 / 3, 0.999):
        np.testing.assert_allclose(beta_above(x, a, b), special.betaincc(a, b, x), atol=1e-12)


def test_closer_to_the_crowd_than_shares():
    counts, own = crowd(600, 5)
    lines, line = CountLines.of(counts)
    law, member = fit_law(lines)
    share, ambiguity, _ = (part[line] for part in law.answers(lines, member))
    assert -(own * np.log(share)).sum() < -(own * np.log((counts + 1 / 3) / 6)).sum()
    entropy = -(own * np.log(np.maximum(own, 1e-12))).sum(axis=1)
    assert abs(ambiguity.mean() - entropy.mean()) < 0.05
    word = law.probability_ambiguous(lines, member)[line]
    assert (own.max(axis=1)[word <= 0.2] >= 2 / 3).mean() > 0.8


def frame_of(counts):
    rows = [
        (f"t{task}", f"w{place}", f"l{label}")
        for task, row in enumerate(counts.astype(int))
        for place, label in enumerate(np.repeat(np.arange(len(row)), row))
    ]
    return pl.DataFrame(rows, schema=["task", "worker", "label"], orient="row")


def test_the_frame_of_a_result():
    counts, _ = crowd(500, 9)
    result = adj.aggregate(frame_of(counts), model="mv")
    soft = result.soft()
    assert soft.columns == ["task", "l0", "l1", "l2", "ambiguity", "doubt", "verdict"]
    assert soft["task"].to_list() == result.labels["task"].to_list()
    np.testing.assert_allclose(soft.select("l0", "l1", "l2").sum_horizontal(), 1.0, atol=1e-9)
    assert set(soft["verdict"]) == {"ambiguous", "settled", "ask more"}
    found = soft_labels(result)
    assert found.verdict_counts == dict(soft["verdict"].value_counts().iter_rows())
    assert found.reliability > 0.3
    lines, line = CountLines.of(counts)
    law, member = fit_law(lines)
    np.testing.assert_allclose(soft["ambiguity"], law.answers(lines, member)[1][line], atol=1e-12)
    shuffled = adj.aggregate(frame_of(counts).sample(fraction=1, shuffle=True, seed=1), model="mv").soft()
    both = soft.join(shuffled, on="task")
    np.testing.assert_allclose(both["l0"], both["l0_right"], atol=1e-9)
    pandas = adj.aggregate(frame_of(counts).to_pandas(), model="mv").soft()
    assert type(pandas).__module__.startswith("pandas")


def test_ambiguity_that_is_not_reliable_is_not_shown():
    rng = np.random.default_rng(0)
    counts = np.array([rng.multinomial(4, [0.5, 0.3, 0.2]) for _ in range(400)]).astype(float)  # tasks are all alike
    found = soft_labels(adj.aggregate(frame_of(counts), model="mv"))
    assert found.reliability < 0.3
    frame = found.frame()
    assert frame.select(pl.col("ambiguity", "doubt", "verdict").is_null().all()).row(0) == (True, True, True)
    assert frame["l0"].null_count() == 0
    assert "not shown" in found.sentences()[0]
    few = soft_labels(adj.aggregate([("t", "a", "x"), ("u", "b", "y")], model="mv"))
    assert math.isnan(few.reliability)
    assert few.frame()["verdict"].null_count() == 2


def test_labels_called_like_columns_weights_and_one_label():
    odd = adj.aggregate([(n, w, ["task", "doubt"][(n + w) % 2]) for n in range(30) for w in range(6)], model="mv").soft()
    assert odd.columns == ["task", "label doubt", "label task", "ambiguity", "doubt", "verdict"]
    weighted = adj.aggregate(
        [(n, w, "ab"[w % 2], 0.5 + w) for n in range(30) for w in range(4)], model="mv", weight="how sure"
    ).soft()
    assert weighted["b"].min() > 0.5
    one = adj.aggregate([(n, w, "a") for n in range(30) for w in range(3)], model="mv").soft()
    assert one["a"].to_list() == [1.0] * 30
    with pytest.raises(adj.InputError, match="at most 100 labels"):
        adj.aggregate([(n, 1, n) for n in range(101)], model="mv").soft()


def test_the_report_has_a_section(tmp_path):
    rng = np.random.default_rng(0)
    counts = np.array([rng.multinomial(25, [0.5, 0.5] if task % 2 else [0.95, 0.05]) for task in range(200)])
    adj.aggregate(frame_of(counts)).report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Which tasks divide the crowd, and which only need more votes?" in page
    assert "The most ambiguous tasks" in page
