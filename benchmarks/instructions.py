"""Instructions per vote of every kernel, compared with the recorded ones: regressions show on any machine, even a busy one.

`python benchmarks/instructions.py` compares with `instructions.json` and ends with 1 if a kernel takes more than 1.10 times
what was recorded; with `--record` it records. Counts are those of valgrind's callgrind, which has no AVX-512: kernels for it
are not watched. They depend on the compiler, whose version is recorded with them. Encoding has one version for all sets: where
its counts differ between them, that is memory growing at another size, so it is a guard and no cost per vote.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from instructions_driver import SETS, VOTES

HERE = Path(__file__).parent
RECORDED = HERE / "instructions.json"
MAX_INSTRUCTION_RATIO = 1.10  # times the recorded count
MARKS = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_ZERO_STATS; }
void end(const char* name) { CALLGRIND_DUMP_STATS_AT(name); }
"""


def counted(folder):
    """{kernel: {set: instructions per vote}}, from one run under callgrind."""
    marks, source = folder / "marks.so", folder / "marks.c"
    source.write_text(MARKS)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", marks, source], check=True)
    command = ["valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={folder}/counts", sys.executable]
    subprocess.run(
        [*command, HERE / "instructions_driver.py", marks], check=True, cwd=folder, env={**os.environ, "PYTHONHASHSEED": "0"}
    )
    whole = {}
    for path in folder.glob("counts.*"):
        text = path.read_text()
        marked = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M)
        total = re.search(r"^(?:summary|totals): (\d+)", text, re.M)
        if marked and total:
            name, kind, votes = marked[1].split("|")
            whole[name, kind, int(votes)] = int(total[1])
    out = {}
    for name, kind, votes in whole:
        if votes == VOTES:
            more = whole[name, kind, 2 * VOTES] - whole[name, kind, VOTES]
            out.setdefault(name, {})[kind] = round(more / VOTES, 2)
    return out


def compiler():
    """The compiler that these counts are of, as far as the path tells."""
    return subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def compared(recorded, now):
    """Print a table, and return the kernels that take too many instructions, or are no longer counted."""
    print(f"{'kernel':24}{'set':10}{'recorded':>10}{'now':>10}{'ratio':>8}")
    worse = []
    for name in sorted(recorded.keys() | now.keys()):
        for kind in SETS:
            before, after = recorded.get(name, {}).get(kind), now.get(name, {}).get(kind)
            if before is None and after is None:
                continue
            ratio = after / before if before and after else float("nan")
            shown = ["-" if one is None else f"{one:.2f}" for one in (before, after)]
            print(f"{name:24}{kind:10}{shown[0]:>10}{shown[1]:>10}{ratio:>8.2f}{'  <-' if ratio > MAX_INSTRUCTION_RATIO else ''}")
            if ratio > MAX_INSTRUCTION_RATIO or (before is not None and after is None):
                worse.append(f"{name} ({kind})")
    return worse


def main():
    """Count, and compare or record."""
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is missing: install it (apt-get install valgrind), then run this again")
    with tempfile.TemporaryDirectory() as folder:
        now = counted(Path(folder))
    if not now:
        sys.exit("nothing was counted: valgrind wrote no counts")
    if "--record" in sys.argv[1:]:
        RECORDED.write_text(json.dumps({"compiler": compiler(), "per_vote": now}, indent=1, sort_keys=True) + "\n")
        print(f"recorded {len(now)} kernels in {RECORDED.name}")
        return
    recorded = json.loads(RECORDED.read_text())
    if recorded["compiler"] != compiler():
        print(f"recorded with {recorded['compiler']}, this is {compiler()}: ratios may be the compiler's", file=sys.stderr)
    worse = compared(recorded["per_vote"], now)
    if worse:
        sys.exit(f"more than {MAX_INSTRUCTION_RATIO:.2f} times the recorded instructions, or not counted: {', '.join(worse)}")


if __name__ == "__main__":
    main()
