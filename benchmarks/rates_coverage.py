"""How often the intervals of `adj.rates` hold the true share: simulated crowds, and random groups of public sets.

    ADJUDGE_DATA=… python benchmarks/rates_coverage.py [FOLDER] [SEEDS]

writes rates.csv into FOLDER (benchmarks/measured without it) and the table of docs/rates.md from it. Public sets are added where
ADJUDGE_DATA names their folder. Nothing here is timed.
"""

import os
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl

import adjudge as adj
from adjudge.io.write import write_aside

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "rates.md"
SETS = ("rte", "sp", "snow_temp", "labelme", "llmbar_natural", "zencrowd_in", "adult2", "trec2010", "bm")
FIRST = 80_000  # the first seed: none of these crowds was looked at while the method was made
SEEDS = 4
DRAWS = 8  # ways to cut a public set into groups
SIZE, GOLD = 100, 20  # tasks of a group, and known labels of them
MIXES = {2: ([0.5, 0.5], [0.8, 0.2], [0.95, 0.05]), 3: ([1 / 3] * 3, [0.6, 0.3, 0.1]), 5: ([0.2] * 5,)}
PAIRS = ((0.8, 0.5), (0.9, 0.7), (0.6, 0.5))  # shares of the first label under two systems
PART = re.compile(r"(<!-- coverage -->\n).*?(<!-- end -->)", re.S)
KINDS = {
    "simulated": "simulated crowds, one rate in all groups",
    "two systems": "simulated crowds, two systems with different rates",
    "difference": "their difference",
    "paired": "their difference, the same hard and easy items in both",
}


def groups_of(tasks, rng, size):
    """{task: group} of some tasks, cut at random into groups of a size; what is left over is in none."""
    order = rng.permutation(np.array(tasks, object))
    return {task: f"g{n // size}" for n, task in enumerate(order[: len(order) // size * size])}


def known_of(groups, truth, rng, number):
    """The true labels of `number` random tasks of every group."""
    by_group = {}
    for task, group in groups.items():
        by_group.setdefault(group, []).append(task)
    chosen = [task for tasks in by_group.values() for task in rng.permutation(np.array(tasks, object))[:number]]
    return {task: truth[task] for task in chosen}


def held(found, shares, groups, truth):
    """(share of lines that hold the share of the population, that of their own tasks, half width, methods) of found rates."""
    own = pl.DataFrame({"task": list(groups), "group": list(groups.values()), "label": [truth[task] for task in groups]})
    counted = own.group_by("group", "label").len().join(own.group_by("group").len("all"), on="group")
    counted = counted.select("group", "label", own=pl.col("len") / pl.col("all"))
    lines = found.rates.with_columns(pl.col("label").cast(pl.String), pl.col("group").cast(pl.String))
    lines = lines.join(counted, on=["group", "label"], how="left").with_columns(pl.col("own").fill_null(0.0))
    lines = lines.join(shares, on=["group", "label"] if "group" in shares.columns else ["label"])
    near = 1e-9
    inside = [pl.col(name).is_between(pl.col("low") - near, pl.col("high") + near) for name in ("true", "own")]
    return lines.select(population=inside[0], own=inside[1], half=(pl.col("high") - pl.col("low")) / 2, method="method")


def line(kind, name, gold, sample, parts):
    """A line of the table, from the estimates of many groups."""
    every = pl.concat(parts)
    methods = every["method"].value_counts(sort=True)
    told = " ".join(f"{method} {count / len(every):.0%}" for method, count in methods.rows())
    means = every.select(pl.col("population", "own").mean().round(3), pl.col("half").mean().round(3)).row(0)
    names = ("kind", "set", "gold", "sample", "lines", "population", "own", "half_width", "methods")
    return dict(zip(names, (kind, name, gold, sample, len(every), *means, told), strict=True))


def simulated(seeds):
    """Lines of crowds without shared errors, groups of 100 tasks."""
    found = {(gold, sample): [] for gold in (0, GOLD) for sample in (True, False)}
    rng = np.random.default_rng([FIRST, seeds])
    for seed in range(seeds):
        for labels, mixes in MIXES.items():
            for mix in mixes:
                for votes in (3, 5, 10):
                    for skill in (0.7, 0.85):
                        number = FIRST + int(rng.integers(1 << 30))
                        asked = {"tasks": 500, "workers": 40, "labels": labels, "votes_per_task": votes}
                        crowd = adj.simulate(**asked, label_weights=mix, skill=skill, seed=number)
                        for (gold, sample), parts in found.items():
                            parts.append(_one(crowd, mix, gold, sample, seed))
    return [line("simulated", KINDS["simulated"], gold, sample, parts) for (gold, sample), parts in found.items()]


def _one(crowd, mix, gold, sample, seed):
    truth, rng = dict(crowd.truth.iter_rows()), np.random.default_rng([seed, 1])
    groups = groups_of(list(truth), rng, SIZE)
    known = known_of(groups, truth, rng, gold) if gold else None
    shares = pl.DataFrame({"label": list(crowd.label_names), "true": mix})
    found = adj.rates(crowd.votes, by=groups, gold=known, sample=sample, labels=crowd.label_names)
    return held(found, shares, groups, truth)


def two_systems(seeds):
    """Lines of two systems judged by the same judges, and of their difference; with items that are hard for both, paired."""
    parts = {(kind, gold): [] for kind in ("two systems", "difference", "paired") for gold in (0, GOLD)}
    for seed in range(seeds):
        for one, other in PAIRS:
            for votes in (3, 5, 9):
                for skill in (0.7, 0.8, 0.9):
                    for gold in (0, GOLD):
                        for item in (False, True):
                            rated, apart = _two(one, other, votes, skill, gold, item, FIRST + seed)
                            parts["paired" if item else "difference", gold].append(apart)
                            if not item:
                                parts["two systems", gold].append(rated)
    return [line(kind, KINDS[kind], gold, True, found) for (kind, gold), found in parts.items()]


def _two(one, other, votes, skill, gold, item, seed):
    """What is found of two systems with these shares of the first label; of the same items where `item`."""
    rng = np.random.default_rng([seed, 2, votes, int(100 * skill), int(100 * one), gold, int(item)])  # all draws are apart
    judges = adj.simulate(tasks=1, workers=12, labels=2, skill=skill, seed=int(rng.integers(1 << 30))).confusions
    luck = rng.random(2 * SIZE)
    rows, truth, items = [], {}, {}
    for system, share in (("A", one), ("B", other)):
        own = luck if item else rng.random(2 * SIZE)  # items: what is good under one system is likelier good under the other
        for n in range(2 * SIZE):
            task, true = f"{system}{n}", int(own[n] >= share)
            truth[task], items[task] = f"l{true}", n
            for judge in rng.permutation(12)[:votes]:
                rows.append((task, f"w{judge}", f"l{int(rng.random() < judges[judge, true, 1])}"))
    groups = {task: task[0] for task in truth}
    known = known_of(groups, truth, rng, gold) if gold else None
    found = adj.rates(rows, by=groups, gold=known, cluster=items if item else "", labels=["l0", "l1"])
    true = [("A", "l0", one), ("A", "l1", 1 - one), ("B", "l0", other), ("B", "l1", 1 - other)]
    shares = pl.DataFrame(true, schema=["group", "label", "true"], orient="row")
    rated = held(found, shares, groups, truth)
    lines, method = found.differences, found.rates["method"][0]
    value = pl.when(pl.col("label") == "l0").then(one - other).otherwise(other - one)
    inside = value.is_between(pl.col("low") - 1e-9, pl.col("high") + 1e-9)
    apart = lines.select(population=inside, own=inside, half=(pl.col("high") - pl.col("low")) / 2, method=pl.lit(method))
    return rated, apart


def real(folder):
    """Lines of random groups of public sets."""
    out = []
    for name in SETS:
        votes = adj.read(folder / name / "votes.csv")
        truth = pl.read_csv(folder / name / "truth.csv", infer_schema=False)
        tasks = set(votes.tasks.texts())
        truth = {task: label for task, label in truth.iter_rows() if task in tasks and label is not None}
        every = pl.Series(list(truth.values()))
        shares = pl.DataFrame({"label": votes.labels.texts()}).with_columns(
            true=pl.Series([(every == label).mean() for label in votes.labels.texts()])
        )
        size = min(SIZE, len(truth) // 2)
        for gold in (0, GOLD):
            for sample in (True, False):
                parts = []
                for draw in range(DRAWS):
                    rng = np.random.default_rng([draw, 3])
                    groups = groups_of(list(truth), rng, size)
                    known = known_of(groups, truth, rng, gold) if gold else None
                    parts.append(held(adj.rates(votes, by=groups, gold=known, sample=sample), shares, groups, truth))
                out.append(line("real", name, gold, sample, parts))
    return out


def table(frame):
    """The table of docs/rates.md, from the csv file."""
    names = ("groups of 100 tasks", "by votes", "half width", "with 20 gold", "half width", "methods with gold")
    head = f"| {' | '.join(names)} |\n{'|---' * len(names)}|"
    kept = frame.filter("sample")
    lines = []
    for kind, name in kept.select("kind", "set").unique(maintain_order=True).rows():
        none, some = (kept.filter(kind=kind, set=name, gold=gold).row(0, named=True) for gold in (0, GOLD))
        cells = [f"{one[key]:.3f}" for one in (none, some) for key in ("population", "half_width")]
        lines.append(f"| {name} | {' | '.join(cells)} | {some['methods']} |")
    sets = kept.filter(kind="real").group_by("gold").agg(pl.col("population", "half_width").mean()).sort("gold")
    if len(sets):
        cells = " | ".join(f"{row[1]:.3f} | {row[2]:.3f}" for row in sets.rows())
        lines.append(f"| **mean of the public sets** | {cells} | |")
    return "\n".join([head, *lines]) + "\n"


def main():
    """Measure, write the csv file and the table."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "benchmarks" / "measured"
    seeds = int(sys.argv[2]) if len(sys.argv) > 2 else SEEDS
    warnings.simplefilter("ignore")
    found = simulated(seeds) + two_systems(3 * seeds)
    if os.environ.get("ADJUDGE_DATA"):
        found += real(Path(os.environ["ADJUDGE_DATA"]))
    frame = pl.DataFrame(found)
    write_aside(folder / "rates.csv", frame.write_csv)
    print(table(frame))
    if len(sys.argv) == 1 and PAGE.exists():
        PAGE.write_text(PART.sub(lambda m: m[1] + table(frame) + m[2], PAGE.read_text()))


if __name__ == "__main__":
    main()
