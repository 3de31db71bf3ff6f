"""How far labels and confidence can be trusted: every model on every set with truth, and on simulated crowds.

    QUORATE_DATA=… python benchmarks/trust.py [FOLDER]

writes trust.csv and README.md into FOLDER (docs/trust/models without it). Figures are means over seeds, which decide ties.
Nothing here is timed.
"""

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl

import quorate as qr
from quorate.io.write import write_aside
from quorate.models.base import MODELS

SEEDS = range(10)
BINS = 10
SIMULATED = {
    "simulated, independent errors": {"tasks": 2000, "workers": 40, "labels": 3, "votes_per_task": 5},
    "simulated, shared errors": {"tasks": 2000, "workers": 40, "labels": 3, "votes_per_task": 5, "shared_error": 0.3},
}


def sets(folder):
    """(name, votes, truth) of every set with truth, and of the simulated crowds."""
    for path in sorted(folder.glob("*/truth.csv")):
        votes = path.with_name("votes.csv")
        truth = pl.read_csv(path, infer_schema=False)
        if votes.exists() and len(truth) and "_ml" not in path.parent.name:  # those have several correct options
            yield path.parent.name, qr.read(votes), truth
    for name, settings in SIMULATED.items():
        crowd = qr.simulate(**settings, seed=1)
        yield name, qr.read(crowd.votes), crowd.truth


def judged(result, truth):
    """Whether each label is right, its confidence, and the probability of the true label, on the tasks with truth."""
    columns = result.probabilities.columns[1:]
    found = result.labels.join(result.probabilities, on="task").with_columns(pl.col("task").cast(pl.String))
    both = found.join(truth.select("task", true=pl.col("label").cast(pl.String)), on="task", how="inner")
    both = both.filter(pl.col("label").is_not_null())
    right = (both["label"].cast(pl.String) == both["true"]).to_numpy()
    code = {name: at for at, name in enumerate(columns)}
    at = np.array([code.get(name, -1) for name in both["true"]], np.int64)
    probabilities = both.select(columns).to_numpy()
    of_truth = np.where(at >= 0, probabilities[np.arange(len(at)), at], 0.0)
    return right, both["confidence"].to_numpy(), of_truth


def figures(right, confidence, of_truth):
    """Accuracy, expected calibration error, log loss, rank of errors, expected and real wrong labels."""
    which = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [abs(right[which == b].mean() - confidence[which == b].mean()) * (which == b).mean() for b in set(which)]
    return {
        "accuracy": right.mean(),
        "ece": sum(gaps),
        "log_loss": -np.log(np.maximum(of_truth, 1e-12)).mean(),
        "auc": ranked(right, confidence),
        "expected_wrong": (1 - confidence).sum(),
        "wrong": (~right).sum(),
    }


def ranked(right, confidence):
    """The probability that a right label has more confidence than a wrong one; ties count half."""
    rank = pl.Series(confidence).rank("average").to_numpy()
    n, m = right.sum(), (~right).sum()
    return float("nan") if not n or not m else (rank[right].sum() - n * (n + 1) / 2) / (n * m)


def measured(votes, truth, model, confidence):
    rows = []
    for seed in SEEDS:
        result = qr.aggregate(votes, model=model, seed=seed, confidence=confidence)
        rows.append(figures(*judged(result, truth)))
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def main():
    folder = os.environ.get("QUORATE_DATA")
    if not folder:
        sys.exit("QUORATE_DATA names no folder of sets with truth")
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "trust" / "models"
    out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    rows = []
    for name, votes, truth in sets(Path(folder)):
        for model in MODELS:
            for confidence in ("posterior", "honest"):
                rows.append({"set": name, "model": model, "confidence": confidence, **measured(votes, truth, model, confidence)})
        print(name, flush=True)
    frame = pl.DataFrame(rows)
    baseline = frame.filter(model="mv", confidence="posterior").select("set", mv="accuracy")
    frame = frame.join(baseline, on="set").with_columns(against_mv=pl.col("accuracy") - pl.col("mv")).drop("mv")
    write_aside(out / "trust.csv", frame.write_csv)
    write_aside(out / "README.md", lambda aside: aside.write_text(page(frame)))


def page(frame):
    """The table of means over the real sets, and the simulated ones beside it."""
    real = frame.filter(~pl.col("set").str.starts_with("simulated"))
    count = real["set"].n_unique()
    lines = [
        "# Every model, judged by truth",
        "",
        f"Means over {count} public sets of votes with truth, and over ten seeds, which decide ties (`make trust`). *Worst* is",
        "the set on which the model loses most to majority vote. *Wrong labels* are those expected by confidence over the",
        "real ones, summed; *in range* counts the sets on which that ratio is between 0.6 and 1.6. All figures:",
        "[trust.csv](trust.csv).",
        "",
        "| model | confidence | accuracy | worst against mv | ECE | log loss | AUC | wrong labels, expected / real | in range |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for model in MODELS:
        for confidence in ("posterior", "honest"):
            part = real.filter(model=model, confidence=confidence)
            mean = part.mean().row(0, named=True)
            total = part["expected_wrong"].sum() / part["wrong"].sum()
            within = int((part["expected_wrong"] / part["wrong"]).is_between(0.6, 1.6).sum())
            lines.append(
                f"| {model} | {confidence} | {mean['accuracy']:.4f} | {100 * part['against_mv'].min():+.1f} | {mean['ece']:.3f} "
                f"| {mean['log_loss']:.2f} | {mean['auc']:.2f} | {total:.2f} | {within} of {count} |"
            )
    lines += ["", "## Simulated crowds", "", "| crowd | model | confidence | accuracy | ECE | wrong labels, expected / real |"]
    lines.append("|---|---|---|---|---|---|")
    for row in frame.filter(pl.col("set").str.starts_with("simulated")).iter_rows(named=True):
        crowd = row["set"].removeprefix("simulated, ")
        wrong = f"{row['expected_wrong']:.0f} / {row['wrong']:.0f}"
        lines.append(f"| {crowd} | {row['model']} | {row['confidence']} | {row['accuracy']:.4f} | {row['ece']:.3f} | {wrong} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
