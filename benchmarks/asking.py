"""Whether `ask_next` asks well: accuracy by votes asked, on real votes that are revealed one after the other.

    QUORATE_DATA=… python benchmarks/asking.py [SEEDS]

writes the tables of docs/asking-next.md. Every task starts with one of its votes. A vote that is asked for is a random one of
the task's that are not revealed yet; a batch of them is asked for, then everything is fitted again. Nothing here is timed.
"""

import os
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl

import quorate as qr
from quorate.io.write import write_aside

SETS = {"rte": "RTE", "sp": "SP"}
SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.75)  # of all votes
ROUNDS = 20  # to half of all votes
HALF = 0.5
PAGE = Path(__file__).parents[1] / "docs" / "asking-next.md"
TABLE = re.compile(r"(<!-- asking -->\n).*?(\n<!-- /asking -->)", re.DOTALL)


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
        """The fit of what is revealed."""
        rows = np.concatenate([np.arange(at, at + n) for at, n in zip(self.start, self.shown, strict=True)])
        return qr.aggregate(self.votes[rows.tolist()])

    def accuracy(self):
        return float(qr.evaluate(self.fit(), self.truth).accuracy)

    def reveal(self, tasks):
        self.shown += np.bincount(tasks, minlength=len(self.shown))

    def at_random(self, number):
        """The tasks of votes drawn from those that are not revealed."""
        hidden = np.repeat(np.arange(len(self.size)), self.size - self.shown)
        return self.random.permutation(hidden)[:number]

    def by_gain(self, number):
        """The tasks that `ask_next` names first among those with a vote that is not revealed, and what it expects of them."""
        ranked = self.fit().ask_next(len(self.size))
        order = np.array([self.index[task] for task in ranked["task"].cast(pl.String)])
        open_ones = self.shown[order] < self.size[order]
        return order[open_ones][:number], float(ranked["expected_gain"].to_numpy()[open_ones][:number].sum())


def curve(folder, name, seed, *, by_gain):
    """Accuracy at the shares, and what was expected and gained up to half of the votes, in right labels."""
    crowd = Crowd(folder, name, seed)
    every, tasks = len(crowd.votes), len(crowd.size)
    batch = max(int(HALF * every - tasks) // ROUNDS, 1)
    found, expected = [], 0.0
    for share in SHARES:
        while (left := round(share * every) - int(crowd.shown.sum())) > 0:
            if by_gain:
                asked, gain = crowd.by_gain(min(batch, left))
                expected += gain if share <= HALF else 0.0
                crowd.reveal(asked)
            else:
                crowd.reveal(crowd.at_random(left))
        found.append(crowd.accuracy())
    return found, expected


def measured(folder, name, seeds):
    """The curves of both ways in the mean of the seeds, the accuracy of all votes, and expected and real gain."""
    drawn = np.mean([curve(folder, name, seed, by_gain=False)[0] for seed in range(seeds)], axis=0)
    asked = [curve(folder, name, seed, by_gain=True) for seed in range(seeds)]
    begin, every = [], []
    for seed in range(seeds):
        crowd = Crowd(folder, name, seed)
        begin.append(crowd.accuracy())
        crowd.shown = crowd.size
        every.append(crowd.accuracy())
    half = SHARES.index(HALF)
    gained = np.mean([one[0][half] for one in asked]) - np.mean(begin)
    return {
        "random": drawn,
        "asked": np.mean([one[0] for one in asked], axis=0),
        "all": float(np.mean(every)),
        "start": float(np.mean(begin)),
        "expected": float(np.mean([one[1] for one in asked])),
        "gained": float(gained * len(crowd.size)),
        "tasks": len(crowd.size),
        "votes": len(crowd.votes),
    }


def table(found):
    """The curves as a table of Markdown, and what they close of the gap."""
    heads = [f"{share:.0%}" for share in SHARES]
    lines = ["| set | asking | " + " | ".join(heads) + " | all votes |", "|---" * (len(heads) + 3) + "|"]
    for name, one in found.items():
        for way, text in (("random", "at random"), ("asked", "`ask_next`")):
            cells = " | ".join(f"{value:.4f}".lstrip("0") for value in one[way])
            lines.append(f"| {SETS[name]} | {text} | {cells} | {one['all']:.4f} |".replace(" 0.", " ."))
    half, sentences = SHARES.index(HALF), []
    for name, one in found.items():
        gap = one["all"] - one["random"][half]
        closed = (one["asked"][half] - one["random"][half]) / gap
        sentences.append(
            f"{SETS[name]} ({one['votes']:,} votes on {one['tasks']:,} tasks; one vote per task gives {one['start']:.4f}): "
            f"at half of the votes `ask_next` closes {closed:.0%} of the gap of {100 * gap:.1f} points. "
            f"It expected {one['expected']:.0f} more right labels by then, and got {one['gained']:.0f}."
        )
    return "\n".join(lines) + "\n\n" + "\n".join(f"- {one}" for one in sentences)


def main():
    warnings.simplefilter("ignore")
    folder, seeds = Path(os.environ.get("QUORATE_DATA", "data")), int(next(iter(sys.argv[1:]), "10"))
    text = table({name: measured(folder, name, seeds) for name in SETS})
    print(text)
    page = TABLE.sub(lambda at: at[1] + text + at[2], PAGE.read_text())
    write_aside(PAGE, lambda aside: aside.write_text(page))


if __name__ == "__main__":
    main()
