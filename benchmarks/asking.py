"""Whether `ask_next` asks well: accuracy by votes asked, on real votes that are revealed one after the other.

    ADJUDGE_DATA=… python benchmarks/asking.py [SEEDS]

writes the tables of docs/asking-next.md. Every task starts with one of its votes. A requested vote is drawn at random from
the task's hidden votes; each batch of requests is followed by a new fit. Nothing here is timed.
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

SETS = {"rte": "RTE", "sp": "SP"}  # whose curves are shown
OTHERS = {"labelme": "LabelMe", "snow_temp": "Temporal (snow_temp)", "zencrowd_in": "ZenCrowd", "bm": "BM"}
SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.75)  # of all votes
ROUNDS = 20  # to half of all votes
HALF = 0.5
PAGE = Path(__file__).parents[1] / "docs" / "asking-next.md"


class Crowd:
    """The votes of a set, of which some are revealed."""

    def __init__(self, folder, name, seed):
        votes = pl.read_csv(folder / name / "votes.csv", infer_schema=False).select("task", "worker", "label")
        self.truth = pl.read_csv(folder / name / "truth.csv", infer_schema=False)
        self.random = np.random.default_rng(seed)
        self.votes = votes[self.random.permutation(len(votes)).tolist()].sort("task", maintain_order=True)
        sizes = self.votes.group_by("task", maintain_order=True).len()
        self.tasks, self.size = sizes["task"], sizes["len"].cast(pl.Int64).to_numpy()
        self.start = np.cumsum(self.size) - self.size
        self.shown = np.ones(len(self.size), np.int64)
        self.index = {task: at for at, task in enumerate(self.tasks)}

    def fit(self):
        """Fit the revealed votes."""
        rows = np.concatenate([np.arange(at, at + n) for at, n in zip(self.start, self.shown, strict=True)])
        return adj.aggregate(self.votes[rows.tolist()])

    def accuracy(self):
        return float(adj.evaluate(self.fit(), self.truth).accuracy)

    def reveal(self, tasks):
        self.shown += np.bincount(tasks, minlength=len(self.shown))

    def at_random(self, number):
        """The tasks of votes drawn from those that are not revealed."""
        hidden = np.repeat(np.arange(len(self.size)), self.size - self.shown)
        return self.random.permutation(hidden)[:number]

    def by_gain(self, number):
        """The first tasks of `ask_next` that have hidden votes left, and their expected gains."""
        ranked = self.fit().ask_next(len(self.size))
        order = np.array([self.index[task] for task in ranked["task"].cast(pl.String)])
        open_ones = self.shown[order] < self.size[order]
        return order[open_ones][:number], float(ranked["expected_gain"].to_numpy()[open_ones][:number].sum())

    def least_certain(self, number):
        """The least certain tasks with a vote that is not revealed."""
        order = np.array([self.index[task] for task in self.fit().labels.sort("confidence")["task"].cast(pl.String)])
        return order[self.shown[order] < self.size[order]][:number]


def curve(folder, name, seed, way, shares=SHARES):
    """Accuracy at the shares, and the expected gain up to half of the votes, in right labels."""
    crowd = Crowd(folder, name, seed)
    every, tasks = len(crowd.votes), len(crowd.size)
    batch = max(int(HALF * every - tasks) // ROUNDS, 1)
    found, expected = [], 0.0
    for share in shares:
        while (left := round(share * every) - int(crowd.shown.sum())) > 0:
            if way == "ask_next":
                asked, gain = crowd.by_gain(min(batch, left))
                expected += gain if share <= HALF else 0.0
                crowd.reveal(asked)
            else:
                crowd.reveal(crowd.at_random(left) if way == "random" else crowd.least_certain(min(batch, left)))
        found.append(crowd.accuracy())
    return found, expected


def measured(folder, name, seeds, shares):
    """The curves of all ways averaged over the seeds, the accuracy of all votes, and expected and real gain."""
    curves = {way: [curve(folder, name, seed, way, shares) for seed in range(seeds)] for way in ("random", "ask_next", "least")}
    means = {way: np.mean([found for found, _ in each], axis=0) for way, each in curves.items()}
    begin, every = [], []
    for seed in range(seeds):
        crowd = Crowd(folder, name, seed)
        begin.append(crowd.accuracy())
        crowd.shown = crowd.size
        every.append(crowd.accuracy())
    half, whole, start = shares.index(HALF), float(np.mean(every)), float(np.mean(begin))
    gap = whole - means["random"][half]
    return {
        **means,
        "all": whole,
        "start": start,
        "gap": gap,
        "closed": {way: (means[way][half] - means["random"][half]) / gap for way in ("ask_next", "least")},
        "expected": float(np.mean([expected for _, expected in curves["ask_next"]])),
        "gained": float((means["ask_next"][half] - start) * len(crowd.size)),
        "tasks": len(crowd.size),
        "votes": len(crowd.votes),
    }


def curves_table(found):
    """The curves as a table of Markdown."""
    heads = [f"{share:.0%}" for share in SHARES]
    lines = ["| set | asking | " + " | ".join(heads) + " | all votes |", "|---" * (len(heads) + 3) + "|"]
    for name, text in SETS.items():
        one = found[name]
        for way, asking in (("random", "at random"), ("ask_next", "`ask_next`")):
            cells = " | ".join(f"{value:.4f}".lstrip("0") for value in one[way])
            lines.append(f"| {text} | {asking} | {cells} | {one['all']:.4f} |".replace(" 0.", " ."))
    return "\n".join(lines)


def halfway_table(found):
    """The share of the gap closed at half of the votes, with expected and actual gains, as a Markdown table."""
    heads = ("set", "votes, tasks", "one vote per task", "gap", "`ask_next` closes", "least certain first closes")
    lines = [f"| {' | '.join(heads)} | more right labels: expected | real |"]
    lines.append("|---" * 8 + "|")
    for name, one in found.items():
        closed = [f"{one['closed'][way]:.0%}" for way in ("ask_next", "least")]
        cells = [f"{one['votes']:,}, {one['tasks']:,}", f"{one['start']:.4f}".lstrip("0"), f"{100 * one['gap']:.1f} points"]
        cells += [*closed, f"{one['expected']:.0f}", f"{one['gained']:.0f}"]
        lines.append(f"| {(SETS | OTHERS)[name]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    warnings.simplefilter("ignore")
    folder, seeds = Path(os.environ.get("ADJUDGE_DATA", "data")), int(next(iter(sys.argv[1:]), "10"))
    found = {name: measured(folder, name, seeds, SHARES if name in SETS else (HALF,)) for name in SETS | OTHERS}
    page = PAGE.read_text()
    for name, text in (("asking", curves_table(found)), ("halfway", halfway_table(found))):
        print(text)
        page = re.sub(
            rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", lambda at, text=text: at[1] + text + at[2], page, flags=re.DOTALL
        )
    write_aside(PAGE, lambda aside: aside.write_text(page))


if __name__ == "__main__":
    main()
