"""Votes that do not fit in memory: from Parquet to labels in bounded memory, and passes that cost the same at any size.

`python benchmarks/disk.py --votes 2 20 200 --data DIR --plot benchmarks/measured/scale-disk`
measures at other sizes (millions of votes;
the files are made in DIR where they are absent) and draws the figure.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from measure import machine

SMALL = (1, 10)  # millions of votes: what `make bench` measures
VOTES_PER_TASK, LABELS, MEMORY = 5, 4, "2GB"
READ = 1 << 24  # bytes read at once
COLOURS = ["#0072b2", "#d55e00", "#00835f", "#4a515c"]  # of the figure

CHILD = """
import json, sys, time, warnings
from pathlib import Path
from adjudge.engines.registry import resolve
from adjudge.io.write import write_batches
import adjudge as adj
warnings.simplefilter("ignore")

source, output, memory, read_at_once = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
def tick():
    return time.perf_counter(), time.process_time()
def spent(a, b):
    return {"wall": b[0] - a[0], "cpu": b[1] - a[1]}
began = tick()
place = resolve(adj.Disk(memory=memory))
votes = place.read(source)
encoded = tick()
after = []
paper = {"model": adj.FastDawidSkene(tol=0, max_iter=7), "confidence": "posterior", "trace": "light"}
result = adj.aggregate(votes, engine=place, progress=lambda _: after.append(tick()), **paper)
fitted = tick()
write_batches(result.label_batches(), output)
written = tick()
peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
reads, buffer = [], bytearray(read_at_once)
for _ in range(3):
    start = tick()
    for name in ("row", "task_ptr", "task_hash"):
        with (votes.folder / f"{name}.npy").open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    reads.append(spent(start, tick()))
print(json.dumps({
    "votes": len(votes), "tasks": votes.n_tasks, "workers": votes.n_workers, "shards": len(votes.shards),
    "bytes": sum(p.stat().st_size for p in votes.folder.iterdir()),
    "encode": spent(began, encoded), "fit": spent(encoded, fitted), "write": spent(fitted, written),
    "all": spent(began, written), "passes": [spent(a, b) for a, b in zip(after, after[1:])], "read": reads, "peak": peak,
}))
"""


def run(folder, sizes=SMALL):
    """Yields (what, figure, bar) of a run at each size."""
    found = [measured(folder, millions) for millions in sizes]
    for one in found:
        name = f"{one['votes'] / 1e6:g} million votes, Parquet to labels, --memory {MEMORY}"
        yield f"{name}: peak resident MB", one["peak"], "at most 2000"
        yield f"{name}: million votes per second, in total", one["votes"] / one["all"]["wall"] / 1e6, ""
        yield f"{name}: a pass, as a multiple of reading its shards once", median(one, "passes") / median(one, "read"), ""
    least, most = found[0], found[-1]
    which = f"at {most['votes'] / 1e6:g} million votes, as a multiple of that at {least['votes'] / 1e6:g}"
    for kind, name, bar in (("cpu", "processor time", "at most 1.5"), ("wall", "time", "")):
        ratio = (median(most, "passes", kind) / most["votes"]) / (median(least, "passes", kind) / least["votes"])
        yield f"{name} of a pass per vote {which}", ratio, bar


def median(one, what, kind="cpu"):
    """The median seconds of the passes that go by delta (or of the reads): of the processors, which others do not disturb."""
    return statistics.median(some[kind] for some in one[what])


def measured(folder, millions, workers=None):
    """What one size takes, in a process of its own."""
    source = made(folder, millions, workers)
    output = folder / f"labels-{millions:g}.parquet"
    done = subprocess.run(
        [sys.executable, "-c", CHILD, source, output, MEMORY, str(READ)], stdout=subprocess.PIPE, check=True, text=True
    )
    output.unlink()
    return json.loads(done.stdout.splitlines()[-1])


def made(folder, millions, workers=None):
    """The votes of this size, simulated unless they are there: 2000 by each worker, or by so many workers."""
    tasks = int(millions * 1e6) // VOTES_PER_TASK
    place = folder / (f"{millions:g}m" if workers is None else f"{millions:g}m-{workers}")
    if not (place / "votes.parquet").exists():
        subprocess.run(
            [
                *(sys.executable, "-m", "adjudge", "simulate", "-o", place, "--tasks", str(tasks)),
                *("--workers", str(workers or max(tasks // 400, 10)), "--labels", str(LABELS), "--format", "parquet", "--quiet"),
            ],
            check=True,
        )
    return place / "votes.parquet"


def draw(found, path):
    """Draws time and memory over the number of votes, as SVG."""
    import polars as pl

    from adjudge.report.charts import alt, apply_theme, save_svg

    time = {
        "Parquet to labels": [one["all"]["cpu"] for one in found],
        "of which encoding": [one["encode"]["cpu"] for one in found],
        "one pass": [median(one, "passes") for one in found],
        "reading the shards once": [median(one, "read") for one in found],
    }
    memory = {
        "encoded votes on disk": [one["bytes"] / 1e6 for one in found],
        "peak memory": [one["peak"] for one in found],
        "--memory 2GB": [2000 for _ in found],
    }
    panels = []
    for title, curves in (("processor seconds (two cores)", time), ("MB", memory)):
        rows = [(name, one["votes"], y) for name, values in curves.items() for one, y in zip(found, values, strict=True)]
        points = pl.DataFrame(rows, ["curve", "votes", "y"], orient="row")
        x = alt.X("votes:Q").title("votes").scale(type="log", nice=False, padding=10)
        x = x.axis(values=sorted({one["votes"] for one in found}), format="~s")
        y = alt.Y("y:Q").title(title).scale(type="log", nice=False, padding=10)
        y = y.axis(values=[10.0**power for power in range(-6, 7)], format="~g")
        named = alt.Color("curve:N").title(None).scale(domain=list(curves), range=COLOURS[: len(curves)])
        named = named.legend(orient="top", columns=2)
        shape = alt.Shape("curve:N").title(None).scale(domain=list(curves)).legend(orient="top", columns=2)
        base = alt.Chart(points).encode(x, y, named)
        panels.append((base.mark_line() + base.mark_point(opacity=1).encode(shape)).properties(width=340, height=260))
    both = alt.hconcat(*panels).resolve_scale(color="independent", shape="independent")
    save_svg(apply_theme(both), path.with_suffix(".svg"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--votes", type=float, nargs="+", default=list(SMALL), help="millions of votes")
    parser.add_argument("--workers", type=int, help="how many workers cast them (default: one for every 2000 votes)")
    parser.add_argument("--data", type=Path, required=True, help="folder for the votes; those that are there are used")
    parser.add_argument("--plot", type=Path, help="where the figure goes, without suffix")
    parser.add_argument("--json", type=Path, help="where the figures go")
    given = parser.parse_args()
    given.data.mkdir(exist_ok=True)
    print(machine())
    found = []
    for millions in given.votes:
        found.append(measured(given.data, millions, given.workers))
        print(json.dumps(found[-1]), flush=True)
    if given.json:
        given.json.write_text(json.dumps({"machine": machine(), "runs": found}, indent=1) + "\n")
    if given.plot:
        draw(found, given.plot)


if __name__ == "__main__":
    main()
