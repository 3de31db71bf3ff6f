"""`make bench`: every figure that the project promises, measured in one run; results as JSON and Markdown."""

import json
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from measure import machine

SECTIONS = ("start", "small", "passes", "files", "exports", "disk", "online", "spark", "peers", "methods")
HERE = Path(__file__).parent


def main(names):
    if len(names) == 2 and names[0] == "--section":
        section(names[1])
        return
    found = {"machine": machine(), "sections": {}}
    for name in names or SECTIONS:
        print(f"\n{name}", flush=True)
        # A process for each section: a child's peak memory begins with its parent's.
        done = subprocess.run([sys.executable, __file__, "--section", name], check=True, stdout=subprocess.PIPE, text=True)
        found["sections"][name] = json.loads(done.stdout)
    if not names:
        (HERE / "results.json").write_text(json.dumps(found, indent=1) + "\n")
        (HERE / "RESULTS.md").write_text(markdown(found))


def section(name):
    """Runs one section; talks on stderr, and leaves its rows on stdout."""
    began, rows = time.perf_counter(), []
    with tempfile.TemporaryDirectory(prefix="adjudge-bench-") as folder:
        for what, figure, bar in import_module(name).run(Path(folder)):
            print(f"  {what:95} {figure:10.3g}  {bar}", file=sys.stderr, flush=True)
            rows.append({"what": what, "figure": figure, "bar": bar})
    print(f"  ({time.perf_counter() - began:.0f} s)", file=sys.stderr, flush=True)
    print(json.dumps(rows))


def markdown(found):
    lines = ["# Results", "", f"Measured by `make bench` in one run on: {found['machine']}.", ""]
    for name, rows in found["sections"].items():
        lines += [f"## {name}", "", "| what | measured | bar |", "|---|---|---|"]
        lines += [f"| {r['what']} | {r['figure']:.3g} | {r['bar']} |" for r in rows] + [""]
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
