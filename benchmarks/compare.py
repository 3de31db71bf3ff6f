"""Whether `adj.compare` names a good model: a fifth of the truth is gold, and the other tasks are the judge.

    ADJUDGE_DATA=… python benchmarks/compare.py [FILE]

writes one line per set and seed to FILE. Without FILE it writes benchmarks/measured/compare.csv and the tables of
docs/comparing-models.md. A seed draws the gold, the folds and the ties. Nothing here is timed; it takes about six minutes on two
cores.
"""

import os
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl

import adjudge as adj
from adjudge.evaluation.intervals import mid_p
from adjudge.io.write import write_aside

DOCS = Path(__file__).parents[1] / "docs"
SEEDS = range(10)
SHARE = 0.2  # of the truth that is gold
NEAR = 0.01  # of the best model in hindsight, which is near enough
LEVEL = 0.05
PART = re.compile(r"(<!-- make compare: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def sets(folder):
    """(name, votes, truth of tasks with votes) of every set with truth and one label per task."""
    for path in sorted(folder.glob("*/truth.csv")):
        source, truth = path.with_name("votes.csv"), pl.read_csv(path, infer_schema=False)
        if source.exists() and len(truth) and "_ml" not in path.parent.name:  # those have several correct options
            votes = pl.read_csv(source, infer_schema=False)
            yield path.parent.name, votes, truth.join(votes, on="task", how="semi").sort("task")


def split(truth, labels, seed):
    """(gold, rest): a random fifth of the truth, and the others; gold has labels that some vote has."""
    order = np.random.default_rng(seed).permutation(len(truth))
    number = round(SHARE * len(truth))
    gold, rest = truth[order[:number]], truth[order[number:]]
    return gold.filter(pl.col("label").is_in(labels)), rest


def behind(best, other):
    """The p-value of how far a model is behind the best one, from where each is right, [tasks]."""
    return mid_p(int((best & ~other).sum()), int((other & ~best).sum()))


def is_good(best, other):
    """Whether a model is near the best one, or not significantly behind it."""
    return bool(best.mean() - other.mean() <= NEAR + 1e-12 or behind(best, other) >= LEVEL)


def judged(votes, truth, name, seed):
    """One line: the advice with a fifth of the truth as gold, and its accuracy on the other tasks."""
    gold, rest = split(truth, votes["label"].unique().to_list(), seed)
    found = adj.compare(votes, gold=gold, seed=seed)
    both = rest.rename({"label": "true"}).join(found.labels, on="task", how="inner")
    right = {model: (both[model] == both["true"]).to_numpy() for model in found.labels.columns[1:]}
    top = max(right, key=lambda model: right[model].mean())
    promised = dict(found.models.select("model", "accuracy").iter_rows())
    return {
        "set": name,
        "seed": seed,
        "gold": len(gold),
        "tasks": len(both),
        "advised": found.best,
        "promised": promised[found.best],
        "accuracy": right[found.best].mean(),
        "best": top,
        "best_accuracy": right[top].mean(),
        "p_value": behind(right[top], right[found.best]),
        "good": is_good(right[top], right[found.best]),
        "auto_good": is_good(right[top], right["auto"]),
        "auto": right["auto"].mean(),
        "mv": right["mv"].mean(),
        "off": float(np.mean([promised[model] - right[model].mean() for model in right])),
    }


def by_set(frame):
    """The table of the sets, on average over seeds."""
    seeds = frame["seed"].n_unique()
    head = ["set", "gold", "other tasks", "advised (seeds)", "advised", "best in hindsight", "auto", "majority vote", "good"]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---|" * (len(head) - 1)]
    for (name,), part in frame.group_by(["set"], maintain_order=True):
        models = part["advised"].value_counts(sort=True).sort(["count", "advised"], descending=[True, False]).rows()
        figures = [f"{part[column].mean():.1%}" for column in ("accuracy", "best_accuracy", "auto", "mv")]
        advised = ", ".join(f"{model} {number}" for model, number in models)
        cells = [name, part["gold"][0], part["tasks"][0], advised, *figures, f"{part['good'].sum()} of {seeds}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    means = [f"{frame[column].mean():.1%}" for column in ("accuracy", "best_accuracy", "auto", "mv")]
    lines.append(f"| all | | | | {' | '.join(means)} | {frame['good'].sum()} of {len(frame)} |")
    return "\n".join(lines) + "\n"


def by_seed(frame):
    """The table of the seeds: on how many sets the advice is good, and `auto` would have been."""
    good = frame.group_by("seed").agg(pl.col("good", "auto_good").sum()).sort("seed")
    lines = ["| seed | " + " | ".join(map(str, good["seed"])) + " | mean |", "|---|" + "---|" * (len(good) + 1)]
    for what, column in (("the advice", "good"), ("always `auto`", "auto_good")):
        lines.append(f"| {what} | " + " | ".join(map(str, good[column])) + f" | {good[column].mean():.1f} |")
    return "\n".join(lines) + "\n"


PARTS = {"sets": by_set, "seeds": by_seed}


def filled(page, frame):
    """The page with its tables made from the lines."""
    return PART.sub(lambda part: part[1] + PARTS[part[2]](frame) + part[3], page)


def main():
    folder = os.environ.get("ADJUDGE_DATA")
    if not folder:
        sys.exit("ADJUDGE_DATA names no folder of sets with truth")
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "measured" / "compare.csv"
    warnings.simplefilter("ignore")
    rows = []
    for name, votes, truth in sets(Path(folder)):
        rows += [judged(votes, truth, name, seed) for seed in SEEDS]
        print(name, flush=True)
    frame = pl.DataFrame(rows)
    write_aside(out, lambda aside: frame.write_csv(aside, float_precision=6))
    if len(sys.argv) == 1:
        page = DOCS / "comparing-models.md"
        write_aside(page, lambda aside: aside.write_text(filled(page.read_text(), pl.read_csv(out))))


if __name__ == "__main__":
    main()
