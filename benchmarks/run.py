"""`make bench`: every figure that the project promises, measured in one run; results as JSON and Markdown."""

import json
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from measure import machine

SECTIONS = ("start", "passes", "files", "peers")
HERE = Path(__file__).parent


def main(names):
    found = {"machine": machine(), "sections": {}}
    for name in names or SECTIONS:
        began = time.perf_counter()
        print(f"\n{name}", flush=True)
        with tempfile.TemporaryDirectory(prefix="quorate-bench-") as folder:
            rows = []
            for what, figure, bar in import_module(name).run(Path(folder)):
                print(f"  {what:95} {figure:10.3g}  {bar}", flush=True)
                rows.append({"what": what, "figure": figure, "bar": bar})
        found["sections"][name] = rows
        print(f"  ({time.perf_counter() - began:.0f} s)", flush=True)
    if not names:
        (HERE / "results.json").write_text(json.dumps(found, indent=1) + "\n")
        (HERE / "RESULTS.md").write_text(markdown(found))


def markdown(found):
    lines = ["# Results", "", f"Measured by `make bench` in one run on: {found['machine']}.", ""]
    for name, rows in found["sections"].items():
        lines += [f"## {name}", "", "| what | measured | bar |", "|---|---|---|"]
        lines += [f"| {r['what']} | {r['figure']:.3g} | {r['bar']} |" for r in rows] + [""]
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
