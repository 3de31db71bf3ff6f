"""Do intervals of numeric scores hold what they should? Simulated panels, counted over many runs.

    python benchmarks/scores.py [runs]

Judges have a bias, a slope, a noise and errors that all share. Printed are: how often 90% intervals hold a score that was
hidden from the fit, and the truth with 20 gold scores; the correlation with truth, of scores and of plain means, and with 2%
gross errors; and the time that a million scores take.
"""

import sys
import time
import warnings

import numpy as np
import polars as pl

import adjudge as adj
from adjudge.evaluation.intervals import quantile

GOLD = 20
Z = quantile(0.9, np.inf)


def simulate_panel(seed, items=300, judges=24, per_item=6, shared=0.0, gross=0.0):
    """Return scores as a frame, and the truth [items]."""
    rng = np.random.default_rng(seed)
    truth, bias, slope = rng.normal(5, 2, items), rng.normal(0, 1, judges), rng.normal(1, 0.2, judges)
    noise = np.exp(rng.normal(np.log(1.5), 0.4, judges))
    common = truth + shared * rng.normal(size=items)
    item = np.repeat(np.arange(items), per_item)
    judge = np.concatenate([rng.permutation(judges)[:per_item] for _ in range(items)])
    score = 5 + bias[judge] + slope[judge] * (common[item] - 5) + rng.normal(size=len(item)) * noise[judge]
    score[rng.random(len(score)) < gross] = 1000.0
    return pl.DataFrame({"task": item, "worker": judge, "score": score}), truth


def hidden_score_cover(seed, shared=0.0):
    """Return how often the interval of a score that was hidden holds it."""
    frame, _ = simulate_panel(seed, shared=shared)
    hidden = np.random.default_rng(seed).random(len(frame)) < 0.1
    found = adj.scores(frame.filter(~hidden), validity=1.0)
    panel, out = found.panel, frame.filter(hidden)
    place = {worker: n for n, worker in enumerate(panel.workers.ids())}
    judge = np.array([place[worker] for worker in out["worker"]])
    known = {task: n for n, task in enumerate(found.table.tasks.ids())}
    item = np.array([known[task] for task in out["task"]])
    lines = panel.judges
    expected = panel.centre + lines.bias[judge] + lines.slope[judge] * (found.score[item] - panel.centre)
    spread = np.sqrt(lines.noise[judge] ** 2 + lines.slope[judge] ** 2 * found.variance[item] + lines.bias_variance[judge])
    return float(np.mean(np.abs(out["score"].to_numpy() - expected) <= Z * spread))


def run(seed):
    """Return the figures of one simulated panel."""
    frame, truth = simulate_panel(seed, shared=1.5)
    gold = dict(enumerate(truth[:GOLD].tolist()))
    items = adj.scores(frame, gold=gold).items
    inside = items.select(inside=(pl.col("low") <= truth) & (pl.col("high") >= truth))["inside"].to_numpy()
    plain = adj.scores(frame)
    spoilt, spoilt_truth = simulate_panel(seed, items=400, judges=30, gross=0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robust = adj.scores(spoilt).score
    mean = frame.group_by("task", maintain_order=True).agg(pl.col("score").mean())["score"].to_numpy()
    return {
        "hidden score": hidden_score_cover(seed),
        f"truth, {GOLD} gold": float(inside[GOLD:].mean()),
        "r of scores": float(np.corrcoef(plain.score, truth)[0, 1]),
        "r of means": float(np.corrcoef(mean, truth)[0, 1]),
        "r with 2% gross errors": float(np.corrcoef(robust, spoilt_truth)[0, 1]),
    }


def million():
    """Return the seconds that a million scores of 500 judges on 100,000 items take, the best of five."""
    rng = np.random.default_rng(0)
    item, judge = np.repeat(np.arange(100_000), 10), rng.integers(0, 500, 1_000_000)
    score = rng.normal(5, 2, 100_000)[item] + rng.normal(0, 1, 500)[judge] + 1.5 * rng.normal(size=1_000_000)
    frame = pl.DataFrame({"task": item, "worker": judge, "score": score})
    times = []
    for _ in range(5):
        start = time.perf_counter()
        adj.scores(frame)
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    """Print the figures."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    found = [run(seed) for seed in range(runs)]
    for name in found[0]:
        values = np.array([one[name] for one in found])
        low, high = np.quantile(values, [0.05, 0.95])
        print(f"{name:24} {values.mean():.3f}   (5% to 95% of runs: {low:.3f} to {high:.3f})")
    print(f"a million scores: {million():.2f} s")


if __name__ == "__main__":
    main()
