"""How far labels, confidence and workers can be trusted: every model on every set with truth, and on simulated crowds.

    ADJUDGE_DATA=… python benchmarks/trust.py [FOLDER]

writes labels (trust.csv), intervals (workers.csv), verdicts (verdicts.csv), a toy (toys.csv) and README.md into FOLDER. Without
FOLDER that is benchmarks/measured/models, and the tables of docs/can-you-trust-it.md are written, too.
Figures of labels are means over
seeds, which decide ties; workers are those of the first seed. Nothing here is timed; it takes about three minutes on two cores.
"""

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import trust_tables

import adjudge as adj
from adjudge.io.write import write_aside
from adjudge.models.base import DEFAULT_COMPARED_MODELS as MODELS  # those that are compared by default

DOCS = Path(__file__).parents[1] / "docs"
SEEDS = range(10)
BINS = 10
CONFIDENCES = ("posterior", "honest")
MIN_VOTES = 20  # with truth, of workers whose real accuracy is compared with anything
CLASSES = {"20 to 49": 20, "50 to 99": 50, "100 to 299": 100, "300 or more": 300}  # the least votes of each class
SURE = 2.33  # standard errors beyond chance from which a worker is called able, or below chance
SIMULATED = {
    "simulated, independent errors": {"tasks": 2000, "workers": 40, "labels": 3, "votes_per_task": 5},
    "simulated, shared errors": {"tasks": 2000, "workers": 40, "labels": 3, "votes_per_task": 5, "shared_error": 0.3},
}


def sets(folder):
    """(name, votes as a frame of texts, truth) of every set with truth, and of the simulated crowds."""
    for path in sorted(folder.glob("*/truth.csv")):
        votes = path.with_name("votes.csv")
        truth = pl.read_csv(path, infer_schema=False)
        if votes.exists() and len(truth) and "_ml" not in path.parent.name:  # those have several correct options
            yield path.parent.name, pl.read_csv(votes, infer_schema=False), truth.rename({"label": "true"})
    for name, settings in SIMULATED.items():
        crowd = adj.simulate(**settings, seed=1)
        yield name, crowd.votes, crowd.truth.rename({"label": "true"})


def judged(result, truth):
    """The tasks with truth, in order: whether the label is right; by confidence, that of the label and of the true label."""
    labels = result.labels.join(truth, on="task", how="inner").filter(pl.col("label").is_not_null()).sort("task")
    right = (labels["label"] == labels["true"]).to_numpy()
    out = {}
    for confidence, frame in (("posterior", result.posterior), ("honest", result.probabilities)):
        both = labels.select("task").join(frame, on="task", maintain_order="left").drop("task")
        code = {name: at for at, name in enumerate(both.columns)}
        probabilities, each = both.to_numpy(), np.arange(len(labels))
        given = np.array([code[name] for name in labels["label"]], np.int64)
        at = np.array([code.get(name, -1) for name in labels["true"]], np.int64)
        out[confidence] = probabilities[each, given], np.where(at >= 0, probabilities[each, at], 0.0)
    return right, out


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


def measured(votes, truth, model):
    """How often each label is right over the seeds, [tasks with truth], and the mean figures by confidence."""
    rows, rights = {confidence: [] for confidence in CONFIDENCES}, []
    for seed in SEEDS:
        right, found = judged(adj.aggregate(votes, model=model, seed=seed, confidence="honest"), truth)
        rights.append(right)
        for confidence in CONFIDENCES:
            rows[confidence].append(figures(right, *found[confidence]))
    means = {c: {name: float(np.mean([row[name] for row in some])) for name in some[0]} for c, some in rows.items()}
    return np.mean(rights, axis=0), means


def against(right, baseline):
    """The difference in accuracy and its paired standard error, from how often each label is right, [tasks] each."""
    apart = right - baseline
    return {"against_mv": apart.mean(), "error": apart.std(ddof=1) / np.sqrt(len(apart))}


def real_workers(votes, truth, result):
    """What truth says of every worker with enough votes: votes, right, z beyond chance, and whether better than the labels.

    Chance is what answers with the worker's own mix of labels reach that do not depend on the truth. The labels are those of
    the result on the same tasks.
    """
    labels = result.labels.select("task", fitted="label")
    both = votes.join(truth, on="task").join(labels, on="task").with_columns(right=(pl.col("label") == pl.col("true")).cast(int))
    rows = []
    for (worker,), part in both.group_by(["worker"], maintain_order=True):
        n = len(part)
        if n < MIN_VOTES:
            continue
        said, true = (dict(part[column].value_counts().iter_rows()) for column in ("label", "true"))
        chance = sum(share * true.get(label, 0) for label, share in said.items()) / n**2
        right = part["right"].mean()
        apart = (part["right"] - (part["fitted"] == part["true"]).cast(int)).to_numpy()
        error = apart.std(ddof=1) / np.sqrt(n)
        z = (right - chance) / np.sqrt(max(chance * (1 - chance) / n, 1e-12))
        rows.append((worker, n, right, z, bool(apart.mean() > 2 * error)))
    schema = {"worker": votes["worker"].dtype, "judged": int, "right": float, "z": float, "expert": bool}
    return pl.DataFrame(rows, schema=schema, orient="row")


def workers(votes, truth, model, confidence):
    """(intervals by number of votes, verdicts) of a fit, as rows."""
    result = adj.aggregate(votes, model=model, seed=SEEDS[0], confidence=confidence)
    said = result.workers
    real = said.join(real_workers(votes, truth, result), on="worker", how="left")
    known = real.filter(pl.col("judged") >= MIN_VOTES)
    low, high, right = (known[name].to_numpy() for name in ("accuracy_low", "accuracy_high", "right"))
    inside, of = (low - 1e-9 <= right) & (right <= high + 1e-9), known["judged"].to_numpy()
    intervals = []
    for (name, least), most in zip(CLASSES.items(), [*list(CLASSES.values())[1:], np.inf], strict=True):
        some = (of >= least) & (of < most)
        figures = {"workers": some.sum(), "inside": inside[some].sum(), "width": (high - low)[some].sum()}
        intervals.append({"votes": name, **figures, "off": ((low + high) / 2 - right)[some].sum()})
    verdicts = real.group_by("verdict").agg(
        named=pl.len(),
        judged=pl.col("judged").count(),
        able=(pl.col("z") > SURE).sum(),
        below_chance=(pl.col("z") < -SURE).sum(),
        experts=pl.col("expert").sum(),
    )
    return intervals, verdicts.sort("verdict").to_dicts()


def toys():
    """Two judges who always disagree, on twenty tasks: the highest confidence, and the ties, of every model."""
    votes = [(t, w, "ab"[(t + (w == "w2")) % 2]) for t in range(20) for w in ("w1", "w2")]
    for model in MODELS:
        for confidence in CONFIDENCES:
            labels = adj.aggregate(votes, model=model, confidence=confidence).labels
            figures = {"highest": labels["confidence"].max(), "ties": labels["tie"].sum(), "tasks": len(labels)}
            yield {"model": model, "confidence": confidence, **figures}


def main():
    folder = os.environ.get("ADJUDGE_DATA")
    if not folder:
        sys.exit("ADJUDGE_DATA names no folder of sets with truth")
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "measured" / "models"
    out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    labels, intervals, verdicts = [], [], []
    for name, votes, truth in sets(Path(folder)):
        found = {model: measured(votes, truth, model) for model in MODELS}
        for model, (right, means) in found.items():
            apart = against(right, found["mv"][0])
            for confidence in CONFIDENCES:
                which = {"set": name, "model": model, "confidence": confidence}
                labels.append({**which, "tasks": len(right), **apart, **means[confidence]})
                of_set, words = workers(votes, truth, model, confidence)
                intervals += [{**which, **row} for row in of_set]
                verdicts += [{**which, **row} for row in words]
        print(name, flush=True)
    tables = {"trust": labels, "workers": intervals, "verdicts": verdicts, "toys": list(toys())}
    for table, rows in tables.items():
        write_aside(out / f"{table}.csv", pl.DataFrame(rows).write_csv)
    write_aside(out / "README.md", lambda aside: aside.write_text(trust_tables.readme(out)))
    if len(sys.argv) == 1:
        page = DOCS / "can-you-trust-it.md"
        write_aside(page, lambda aside: aside.write_text(trust_tables.filled(page.read_text(), out)))


if __name__ == "__main__":
    main()
