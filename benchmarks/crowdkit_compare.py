"""The drop-in against crowd-kit: the same labels on the shared sets, and time and memory on simulated votes.

    ADJUDGE_DATA=… python benchmarks/crowdkit_compare.py [--sets [NAME…]] [--cost] [--votes 20000]

writes the tables of docs/moving-from-crowd-kit.md; without a choice both. Tasks, workers and labels are numbered in order of
their first votes: then the order of rows and that of names are one, on which some of crowd-kit's answers depend.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import peers
import trust

import adjudge as adj
from adjudge.io.write import write_aside

PAGE = Path(__file__).parents[1] / "docs" / "moving-from-crowd-kit.md"
SAME = {
    "DawidSkene": ("DawidSkene", {}),
    "DawidSkene, 20 iterations": ("DawidSkene", {"n_iter": 20, "tol": -1.0}),
    "OneCoinDawidSkene": ("OneCoinDawidSkene", {}),
    "Wawa": ("Wawa", {}),
    "MACE": ("MACE", {"n_restarts": 1}),  # all restarts of crowd-kit begin alike
    "GLAD": ("GLAD", {"n_iter": 10}),
}  # columns of the table: class and settings
COST = {
    "MajorityVote": {},
    "Wawa": {},
    "ZeroBasedSkill": {"n_iter": 10},
    "DawidSkene": {"n_iter": 10, "tol": -1.0},
    "OneCoinDawidSkene": {"n_iter": 2, "tol": -1.0},
    "GLAD": {"n_iter": 1, "tol": -1.0},
    "MACE": {"n_restarts": 1, "n_iter": 5},
    "MMSR": {"n_iter": 5},
}
RUN = """
import importlib, json, resource, sys, time, warnings
warnings.simplefilter("ignore")
import pandas as pd
module, name, settings, path = sys.argv[1:5]
votes = pd.read_parquet(path)
model = getattr(importlib.import_module(module + ".aggregation"), name)(**json.loads(settings))
model.fit_predict(votes.iloc[:50])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
labels = model.fit_predict(votes)
seconds = time.perf_counter() - began
taken = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
print(json.dumps({"seconds": seconds, "MB": taken, "labels": labels.sort_index().tolist()}))
"""


def answer(python, module, name, settings, path):
    """Seconds, memory and labels of one fit in a process of its own."""
    given = [str(python), "-c", RUN, module, name, json.dumps(settings), str(path)]
    found = subprocess.run(given, check=True, capture_output=True, text=True)
    return json.loads(found.stdout.splitlines()[-1])


def numbered(votes, path):
    """Write votes whose ids are numbers in order of their first votes."""
    frame = votes.select("task", "worker", "label").to_pandas()
    pd.DataFrame({name: pd.factorize(frame[name])[0] for name in frame}).to_parquet(path)


def both(path, name, settings):
    """The answers of crowd-kit and of the drop-in."""
    yield answer(peers.environment(), "crowdkit", name, settings, path)
    yield answer(sys.executable, "adjudge.crowdkit", name, settings, path)


def same_labels(folder, chosen):
    """Lines of a table: the share of tasks with the same label, by set and class; of the sets chosen, or of all."""
    yield f"| set | tasks | {' | '.join(SAME)} |"
    yield f"|---|---|{'---|' * len(SAME)}"
    for name, votes, _ in trust.sets(Path(os.environ.get("ADJUDGE_DATA", "data"))):
        if chosen and name not in chosen:
            continue
        path = folder / "votes.parquet"
        numbered(votes, path)
        shares, tasks = [], votes["task"].n_unique()
        for kind, settings in SAME.values():
            theirs, ours = (found["labels"] for found in both(path, kind, settings))
            differ = sum(one != two for one, two in zip(theirs, ours, strict=True))
            shares.append(f"{1 - differ / tasks:.2%}".replace("100.00%", "100%"))
        yield f"| {name} | {tasks} | {' | '.join(shares)} |"
        print(name, *shares, file=sys.stderr)


def costs(folder, votes):
    """Lines of a table: seconds and memory of a fit of simulated votes, by class."""
    path = folder / "votes.parquet"
    simulated = adj.simulate(tasks=votes // 5, workers=max(votes // 100, 10), labels=4, votes_per_task=5, seed=1).votes
    numbered(simulated, path)
    yield "| class | crowd-kit, s | here, s | ratio | crowd-kit, MB | here, MB |"
    yield "|---|---|---|---|---|---|"
    for kind, settings in COST.items():
        theirs, ours = both(path, kind, settings)
        said = ", ".join(f"{name}={value}" for name, value in settings.items() if name not in ("tol", "n_restarts"))
        ratio = theirs["seconds"] / ours["seconds"]
        cells = f"{theirs['seconds']:.2f} | {ours['seconds']:.3f} | {ratio:.0f} | {theirs['MB']:.0f} | {ours['MB']:.0f}"
        yield f"| {kind}({said}) | {cells} |"
        print(kind, cells, file=sys.stderr)


def main():
    """Write the chosen tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--votes", type=int, default=20_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as found:
        tables = {}
        if chosen.sets is not None or not chosen.cost:
            tables["sets"] = "\n".join(same_labels(Path(found), chosen.sets))
        if chosen.cost or chosen.sets is None:
            tables["cost"] = "\n".join(costs(Path(found), chosen.votes))
    text = PAGE.read_text()
    for name, table in tables.items():
        print(table)
        text = re.sub(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", lambda m, t=table: m[1] + t + m[2], text, flags=re.S)
    write_aside(PAGE, lambda aside: aside.write_text(text))


if __name__ == "__main__":
    main()
