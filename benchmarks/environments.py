"""Environments of the peers: one per library, next to this file, created on first use, apart from the project's own."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
MADE = "made.txt"  # what was installed: an environment without it was interrupted


class UnavailableError(Exception):
    """A library that cannot be installed here."""


def environment(name, packages):
    """The Python of the environment `benchmarks/NAME`, with these packages installed."""
    folder = HERE / name
    python, made = folder / "bin" / "python", folder / MADE
    wanted = "\n".join(packages)
    if made.exists() and made.read_text() == wanted:
        return python
    print(f"making an environment for {packages[0]} (once)", file=sys.stderr, flush=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True, text=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True, capture_output=True, text=True)
    except (subprocess.CalledProcessError, OSError) as error:
        lines = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        why = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "no reason was given")
        raise UnavailableError(why.removeprefix("ERROR: ")) from error
    made.write_text(wanted)
    return python
