"""How long it takes to begin: imports, --help, and a small file from the command line."""

import compileall
import os
import sys
from pathlib import Path

from measure import processes, python

import adjudge

ADJUDGE = [sys.executable, "-m", "adjudge"]
FOUR_VOTES = "task,worker,label\nt1,ann,cat\nt1,bob,dog\nt2,ann,cat\nt2,bob,cat\n"


def run(folder):
    """Rows of (what, figure, bar)."""
    compileall.compile_dir(Path(adjudge.__file__).parent, quiet=1)  # an installed package has its bytecode
    four = folder / "four.csv"
    four.write_text(FOUR_VOTES)
    commands = {
        "numpy": python("import numpy"),
        "adjudge": python("import numpy, adjudge"),
        "polars": python("import polars"),
        "help": [*ADJUDGE, "--help"],
        "four": [*ADJUDGE, "aggregate", four, "-o", folder / "labels.csv", "--quiet"],
    }
    votes = Path(os.environ.get("ADJUDGE_DATA", "")) / "sp" / "votes.csv"
    if votes.exists():
        commands["sp"] = [*ADJUDGE, "aggregate", votes, "-o", folder / "sp.csv", "--quiet"]
    seconds = {name: s for name, (s, _) in processes(commands, 25).items()}
    yield "import numpy and adjudge / import numpy", seconds["adjudge"] / seconds["numpy"], "under 2x"
    yield "adjudge --help, seconds", seconds["help"], "under 0.5 s"
    yield "4 votes, command line / import polars", seconds["four"] / seconds["polars"], "at most 1.5x"
    if "sp" in seconds:
        yield "27 thousand votes (sp), command line / import polars", seconds["sp"] / seconds["polars"], "at most 2x"
