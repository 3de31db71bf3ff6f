"""From file to labels: whole runs of the command line against a bare read of the same file by polars."""

import compileall
import sys
from pathlib import Path

from measure import process, processes, python

import adjudge

ADJUDGE = [sys.executable, "-m", "adjudge", "aggregate", "--model", "fds", "--confidence", "posterior"]
SIMULATE = [sys.executable, "-m", "adjudge", "simulate"]
MAKE = """
import sys, polars as pl, adjudge as adj
frame = adj.simulate(tasks=2_000_000, workers=20_000, labels=4, votes_per_task=5, seed=2).votes
frame = frame.sample(fraction=1.0, shuffle=True, seed=1)
frame.write_csv(sys.argv[1])
frame.with_columns(pl.all().str.slice(1).cast(pl.Int64)).write_parquet(sys.argv[2])
"""


def ten_million(folder):
    """{what: (seconds, peak MB)} of whole processes on ten million votes, which are made first."""
    compileall.compile_dir(Path(adjudge.__file__).parent, quiet=1)  # an installed package has its bytecode
    csv, parquet = folder / "votes.csv", folder / "votes.parquet"
    process([*python(MAKE), csv, parquet])  # elsewhere: a child's peak memory begins with its parent's
    return processes(
        {
            "csv": [*ADJUDGE, csv, "-o", folder / "a.csv", "--quiet"],
            "parquet": [*ADJUDGE, parquet, "-o", folder / "b.parquet", "--quiet"],
            "bare csv": python(f"import polars; polars.read_csv({str(csv)!r})"),
            "bare parquet": python(f"import polars; polars.read_parquet({str(parquet)!r})"),
            "import polars": python("import polars"),
            "import all": python("import adjudge.models.aggregation, adjudge.io.write, typer"),
        },
        5,
    )


def run(folder):
    """Rows of (what, figure, bar)."""
    csv, runs = folder / "votes.csv", ten_million(folder)
    for form, bar in (("csv", "at most 4.5x"), ("parquet", "at most 5x")):
        seconds, peak = runs[form]
        bare = runs[f"bare {form}"][0]
        work = (seconds - runs["import all"][0]) / (bare - runs["import polars"][0])
        yield f"10 million votes, {form}: adjudge aggregate / python -c polars.read_{form}", seconds / bare, bar
        yield f"10 million votes, {form}: the same without the imports on either side", work, bar
        yield f"10 million votes, {form}: peak MB", peak, "at most 1200"
    process([*SIMULATE, "--tasks", 500_000, "--workers", 5_000, "--votes-per-task", "3-4", "--seed", 3, "-o", folder])
    runs = processes({"user": [*ADJUDGE, csv, "-o", folder / "a.csv", "--quiet"]}, 3)
    yield "1.8 million votes on 500 thousand tasks, csv to labels, seconds (the paper's script: 16,200)", runs["user"][0], ""
    yield "the same, peak MB (the paper's script: 35,000)", runs["user"][1], ""
