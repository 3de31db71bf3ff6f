"""How long it takes to begin: imports, --help, and a small file from the command line."""

import os
import sys
from pathlib import Path

from measure import processes, python

ADJUDGE = [sys.executable, "-m", "adjudge"]


def run(folder):
    """Rows of (what, figure, bar)."""
    commands = {
        "numpy": python("import numpy"),
        "adjudge": python("import numpy, adjudge"),
        "polars": python("import polars"),
        "help": [*ADJUDGE, "--help"],
    }
    votes = Path(os.environ.get("ADJUDGE_DATA", "")) / "sp" / "votes.csv"
    if votes.exists():
        commands["sp"] = [*ADJUDGE, "aggregate", votes, "-o", folder / "sp.csv", "--quiet"]
    seconds = {name: s for name, (s, _) in processes(commands, 15).items()}
    yield "import numpy and adjudge / import numpy", seconds["adjudge"] / seconds["numpy"], "under 2x"
    yield "adjudge --help, seconds", seconds["help"], "under 0.5 s"
    if "sp" in seconds:
        yield "27 thousand votes (sp), command line / import polars", seconds["sp"] / seconds["polars"], "at most 2x"
