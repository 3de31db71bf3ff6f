"""How long it takes to begin: imports, --help, and a small file from the command line."""

import os
import sys
from pathlib import Path

from measure import processes, python

QUORATE = [sys.executable, "-m", "quorate"]


def run(folder):
    """Rows of (what, figure, bar)."""
    commands = {
        "numpy": python("import numpy"),
        "quorate": python("import numpy, quorate"),
        "polars": python("import polars"),
        "help": [*QUORATE, "--help"],
    }
    votes = Path(os.environ.get("QUORATE_DATA", "")) / "sp" / "votes.csv"
    if votes.exists():
        commands["sp"] = [*QUORATE, "aggregate", votes, "-o", folder / "sp.csv", "--quiet"]
    seconds = {name: s for name, (s, _) in processes(commands, 15).items()}
    yield "import numpy and quorate / import numpy", seconds["quorate"] / seconds["numpy"], "under 2x"
    yield "quorate --help, seconds", seconds["help"], "under 0.5 s"
    if "sp" in seconds:
        yield "27 thousand votes (sp), command line / import polars", seconds["sp"] / seconds["polars"], "at most 2x"
