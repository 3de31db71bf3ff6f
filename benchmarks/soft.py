"""Do soft labels foresee votes? Cross-entropy of unseen votes, on the sets in ADJUDGE_DATA with eight votes per task or more.

    python benchmarks/soft.py

Of every task some votes are seen and the others hidden, drawn at random. Printed is the mean of minus the logarithm of the
probability of a hidden vote's answer, in nats: for raw shares, shares with one pseudo-vote spread over all labels, and soft
labels. Raw shares give answers that nobody gave the probability 1e-6.
"""

import os
import warnings
from pathlib import Path

import numpy as np

import adjudge as adj
from adjudge.results.soft import CountLines, fit_law

MIN_VOTES = 8
SEEN = (3, 5)
REPEATS = 3


def hide(votes, seen, seed):
    """Return the counts of seen and of hidden votes, [tasks, labels] each, of tasks with enough votes."""
    rng, k = np.random.default_rng(seed), votes.n_labels
    size = np.diff(votes.task_ptr)
    task, label = np.repeat(np.arange(votes.n_tasks), size), votes.row_label[votes.row]
    order = np.lexsort((rng.random(len(task)), task))
    place = np.empty(len(task), np.int64)
    place[order] = np.arange(len(task)) - np.repeat(np.cumsum(size) - size, size)
    halves = [np.bincount(task[part] * k + label[part], minlength=votes.n_tasks * k) for part in (place < seen, place >= seen)]
    return [half.reshape(-1, k)[size >= MIN_VOTES].astype(float) for half in halves]


def cross_entropies(seen, hidden):
    """Return the mean cross-entropy of hidden votes under raw shares, one pseudo-vote, and soft labels."""
    lines, line = CountLines.of(seen)
    law, member = fit_law(lines)
    soft = law.answers(lines, member)[0][line]
    total, k = seen.sum(axis=1, keepdims=True), seen.shape[1]
    guesses = np.maximum(seen / total, 1e-6), (seen + 1 / k) / (total + 1), soft
    return [float(-(hidden * np.log(guess)).sum() / hidden.sum()) for guess in guesses]


def measure(path):
    """Return [seen, 3] cross-entropies of one set; None if it has too few votes per task."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        votes = adj.read(path)
    if (np.diff(votes.task_ptr) >= MIN_VOTES).sum() < 20:
        return None
    runs = [[cross_entropies(*hide(votes, seen, seed)) for seen in SEEN] for seed in range(REPEATS)]
    return np.mean(runs, axis=0)


def main():
    """Print a line per set and the means."""
    root = Path(os.environ.get("ADJUDGE_DATA", "data"))
    found = {}
    for path in sorted(root.glob("*/votes.csv")):
        try:
            figures = measure(path)
        except adj.AdjudgeError:
            continue  # sets of options
        if figures is not None:
            found[path.parent.name] = figures
    print(f"{'set':20}" + "".join(f"  {seen} seen: raw  pseudo    soft" for seen in SEEN))
    for name, figures in [*found.items(), ("mean", np.mean(list(found.values()), axis=0))]:
        print(f"{name:20}" + "".join("   " + "".join(f"{value:8.3f}" for value in row) for row in figures))


if __name__ == "__main__":
    main()
