"""The page for readers of the literature: every registered model side by side, in assumptions, parameters, cost and accuracy.

    ADJUDGE_DATA=… python benchmarks/literature.py [FOLDER]

measures accuracy on every set with truth (accuracy.csv) and cost on one simulated crowd (cost.csv), and writes README.md next to
them; FOLDER is docs/literature unless given. Accuracy is the mean over ten seeds where ties, restarts or the order of tasks draw,
else that of one.
It takes some minutes on two cores.
"""

import os
import statistics
import sys
import time
import warnings
from pathlib import Path

import polars as pl
from literature_facts import FACTS, PAPERS

import adjudge as adj
from adjudge.io.write import write_aside
from adjudge.models.base import MODELS

FOLDER = Path(__file__).parents[1] / "docs" / "literature"
SEEDS = 10
CROWD = {"tasks": 20_000, "workers": 1_000, "labels": 2, "votes_per_task": 5, "seed": 1}
COMMON = ("seed", "ties")  # options of all models
DRAWN = ("la",)  # whose seed also orders the tasks
ORDERED = {"adult2": ["G", "P", "R", "X"], "trec2010": ["-2", "0", "1", "2"]}  # where -2, a broken link, is the least relevant
TEXT = """# For readers of the literature

This page compares every model of adjudge for readers of the literature, in the words of [concepts](../concepts.md). `make
literature` measures the figures and writes this page, from [accuracy.csv](accuracy.csv) and [cost.csv](cost.csv); [choosing a
model](../choosing-a-model.md) gives advice instead.

## What each model assumes

{assumptions}

## What it costs

Measured on one simulated crowd ({votes} votes, {workers} workers, 2 labels), in memory, without honest confidence: the fastest of
several fits. *Per pass* is the median time of its iterations per vote (of the whole fit, for models without iterations). *Whole
fit* is the time from encoded votes to labels, as a multiple of that of majority vote in the same run.

{costs}

## How often it is right

Share of right labels on public sets with truth, in percent. Where ties, restarts or the order of tasks draw, it is the mean
over {seeds} seeds.
*Mean* is over the sets that the model can be fitted to; *against mv* is the mean difference from majority vote on the same
sets and tasks, in points.
{notes}

{accuracies}

## Papers

{papers}
"""


def sets(folder):
    """(name, votes, truth) of every set with truth whose tasks have one correct label."""
    for path in sorted(folder.glob("*/truth.csv")):
        votes, truth = path.with_name("votes.csv"), pl.read_csv(path, infer_schema=False)
        if votes.exists() and len(truth) and "_ml" not in path.parent.name:
            yield path.parent.name, adj.read(votes, labels=ORDERED.get(path.parent.name)), truth


def accuracy(model, votes, truth, seed):
    """(the share of right labels, the result, tasks judged); a model that needs gold is given a fifth of the truth."""
    gold = truth.gather_every(5) if MODELS[model].needs_gold else None
    judged = truth if gold is None else truth.join(gold, on="task", how="anti")
    result = adj.aggregate(votes, model, seed=seed, gold=gold, confidence="posterior")
    both = result.labels_frame().select(pl.col("task").cast(pl.String), given=pl.col("label").cast(pl.String))
    right = both.join(judged, on="task").select((pl.col("given") == pl.col("label")).mean()).item()
    return right, result, judged


def judged(name, votes, truth):
    """Lines of accuracy of every model on one set."""
    beside = {}  # majority vote's accuracy, by the number of tasks judged
    for model in MODELS:
        if MODELS[model].is_ordered and name not in ORDERED and votes.n_labels > 2:
            continue
        try:
            right, result, tasks = accuracy(model, votes, truth, 0)
        except adj.AdjudgeError as error:  # too many labels
            print(f"  {model}: {error}", file=sys.stderr)
            continue
        draws = result.labels_frame()["tie"].any() or "restarts" in MODELS[model].options() or model in DRAWN
        rest = [accuracy(model, votes, truth, seed)[0] for seed in range(1, SEEDS)] if draws else []
        if len(tasks) not in beside:
            beside[len(tasks)] = statistics.mean(accuracy("mv", votes, tasks, seed)[0] for seed in range(SEEDS))
        line = {"set": name, "model": model, "accuracy": statistics.mean([right, *rest]), "seeds": 1 + len(rest)}
        yield {**line, "mv": beside[len(tasks)], "tasks": len(tasks)}


def cost(model, votes, gold):
    """The line of cost of one model: nanoseconds per vote and pass, iterations, and seconds, of the fastest of several fits."""
    best, passes, spent, n = float("inf"), [], 0.0, 0
    while n < 5 or spent < 0.5:
        began = time.perf_counter()
        needed = gold if MODELS[model].needs_gold else None
        result = adj.aggregate(votes, model, confidence="posterior", gold=needed)
        took = time.perf_counter() - began
        if took < best:
            best, passes = took, [row.seconds for row in result.fit.trace] or [took]
        n, spent = n + 1, spent + took
        if spent > 6:
            break
    return {
        "model": model,
        "ns_per_vote": 1e9 * statistics.median(passes) / len(votes),
        "iterations": result.iterations,
        "fit_seconds": best,
        "votes": len(votes),
        "workers": votes.n_workers,
    }


def costs():
    """Lines of cost of every model on one crowd."""
    crowd = adj.simulate(**CROWD)
    labels = [f"l{n}" for n in range(CROWD["labels"])]  # in this order, for models of grades
    votes, gold = adj.read(crowd.votes, labels=labels), crowd.truth.gather_every(5)
    for model in MODELS:
        print(f"  {model}", file=sys.stderr, flush=True)
        yield cost(model, votes, gold)


def table(head, rows):
    """Lines of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def link(model):
    """The model's name, with a link to its page where it has one of its own."""
    pages = {"mv": "majority-vote", "ds": "dawid-skene", "fds": "dawid-skene", "hybrid": "dawid-skene"}
    page = f"models/{pages.get(model, model)}.md"
    return f"[`{model}`](../{page})" if (FOLDER.parent / page).exists() else f"`{model}`"


def assumptions(models):
    numbers = {key: n for n, key in enumerate(cited(models), 1)}
    for model in models:
        fact = FACTS[model]
        options = ", ".join(f"`{name}={value}`" for name, value in MODELS[model].options().items() if name not in COMMON)
        papers = ", ".join(f"[{numbers[key]}](#papers)" for key in fact.papers)
        yield link(model), fact.assumes, fact.per_worker, fact.per_task, options or "-", papers or "-"


def cited(models):
    """The keys of the papers of these models, in the order they are named."""
    return list(dict.fromkeys(key for model in models for key in FACTS[model].papers))


def cost_rows(lines):
    mv = lines.filter(model="mv")["fit_seconds"].item()
    for line in lines.iter_rows(named=True):
        ratio = line["fit_seconds"] / mv
        yield link(line["model"]), f"{line['ns_per_vote']:.1f} ns", line["iterations"], f"{ratio:.1f}"


def accuracy_rows(lines, names):
    for model in MODELS:
        some = lines.filter(model=model)
        cells = dict(some.select("set", "accuracy").iter_rows())
        shown = [f"{100 * cells[name]:.1f}" if name in cells else "" for name in names]
        apart = 100 * (some["accuracy"] - some["mv"]).mean()
        yield link(model), *shown, f"{100 * some['accuracy'].mean():.1f}", "" if model == "mv" else f"{apart:+.1f}"


def page(folder):
    """The page, from the figures in a folder."""
    right, spent = pl.read_csv(folder / "accuracy.csv"), pl.read_csv(folder / "cost.csv")
    models, names = spent["model"].to_list(), sorted(set(right["set"]))
    of_gold = [model for model in models if MODELS[model].needs_gold]
    of_grades = [model for model in models if MODELS[model].is_ordered]
    notes = [f"`{model}` learns from a fifth of the truth and is judged on the rest." for model in of_gold]
    notes += [f"`{model}` is for sets whose labels have an order, or are two." for model in of_grades]
    return TEXT.format(
        assumptions=table(["model", "assumes", "per worker", "per task", "options", "papers"], assumptions(models)),
        votes=f"{spent['votes'][0]:,}",
        workers=f"{spent['workers'][0]:,}",
        costs=table(["model", "per pass and vote", "iterations", "whole fit / mv"], cost_rows(spent)),
        seeds=SEEDS,
        notes="\n".join(notes),
        accuracies=table(["model", *names, "mean", "against mv"], accuracy_rows(right, names)),
        papers="\n".join(f"{n}. {PAPERS[key]}" for n, key in enumerate(cited(models), 1)),
    ).replace(" \n", "\n")


def main():
    source = os.environ.get("ADJUDGE_DATA")
    if not source:
        sys.exit("ADJUDGE_DATA names no folder of sets with truth")
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    print("cost", file=sys.stderr, flush=True)
    spent = list(costs())
    right = []
    for name, votes, truth in sets(Path(source)):
        began = time.perf_counter()
        right += judged(name, votes, truth)
        print(f"{name} ({time.perf_counter() - began:.0f} s)", file=sys.stderr, flush=True)
    for what, rows in (("accuracy", right), ("cost", spent)):
        write_aside(out / f"{what}.csv", pl.DataFrame(rows).write_csv)
    write_aside(out / "README.md", lambda aside: aside.write_text(page(out)))


if __name__ == "__main__":
    main()
