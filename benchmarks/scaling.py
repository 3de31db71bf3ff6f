"""The passes on 1 to 16 threads, compared with the machine's memory bandwidth for the same threads.

It needs NumPy and the compiled core, nothing else, so that it also runs on a machine without a network:
`python benchmarks/scaling.py` measures; with `--page` it writes the picture and the table of
benchmarks/measured/race from these figures.
"""

import argparse
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from measure import interleaved, machine
from passes import Crowd

HERE = Path(__file__).parent
THREADS = (1, 2, 4, 8, 12, 16)
READING = "reading the votes once"


def reader(arrays, threads):
    """A callable that reads every array once, split over the threads."""
    pool = ThreadPoolExecutor(threads)
    parts = [[a[len(a) * i // threads : len(a) * (i + 1) // threads] for a in arrays] for i in range(threads)]
    return lambda: list(pool.map(lambda part: [np.bitwise_or.reduce(a) for a in part], parts))


def majority(crowd):
    """A callable: majority vote, counted."""
    from adjudge.kernels import cpu

    k = len(crowd.label_hash)
    row_label = np.tile(np.arange(k, dtype=np.int32), len(crowd.counts) // k)
    labels, counts, classes = crowd.labels.copy(), crowd.counts.copy(), crowd.class_counts.copy()

    def run():
        counts[:] = 0
        classes[:] = 0
        cpu.majority(
            crowd.task_ptr, crowd.row, row_label, crowd.task_key, crowd.label_hash, soft=False, tie_weights=None,
            threads=crowd.threads, labels=labels, counts=counts, class_counts=classes,
        )  # fmt: skip

    return run


def measured(votes, workers, threads, repeats):
    """{threads: {pass: seconds}}."""
    crowd, found = Crowd(votes, workers=workers, threads=max(threads)), {}
    for n in threads:
        crowd.threads = n
        found[n] = interleaved(
            {
                READING: reader([crowd.task_ptr, crowd.row], n),
                "majority vote": majority(crowd),
                "hard": lambda: crowd.hard(True),
                "hard, with likelihood": lambda: crowd.hard(True, likelihood=True),
                "hard, full recount": lambda: crowd.hard(False),
                "soft": crowd.soft,
            },
            repeats,
        )
    return found


def draw(found, path):
    """Draws times faster than one thread over threads, as SVG."""
    import polars as pl

    from adjudge.report.charts import alt, apply_theme, save_svg

    panels = []
    for one in found["crowds"]:
        times = {int(n): passes for n, passes in one["seconds"].items()}
        shown = ("hard", "hard, full recount", "soft", "majority vote", READING)
        rows = [(name, n, times[1][name] / passes[name]) for n, passes in times.items() for name in shown]
        points = pl.DataFrame(rows, ["curve", "threads", "faster"], orient="row")
        ticks = sorted(times)
        x = alt.X("threads:Q").title("threads").scale(type="log", base=2, nice=False, padding=10).axis(values=ticks)
        y = alt.Y("faster:Q").title("times faster than one thread").scale(type="log", base=2, nice=False, padding=10)
        y = y.axis(values=ticks)
        colours = ["#0072b2", "#d55e00", "#00835f", "#b0559b", "#4a515c"]
        named = alt.Color("curve:N").title(None).scale(domain=list(shown), range=colours).legend(orient="top", columns=2)
        shape = alt.Shape("curve:N").title(None).scale(domain=list(shown)).legend(orient="top", columns=2)
        base = alt.Chart(points).encode(x, y, named)
        ideal = alt.Chart(pl.DataFrame({"threads": ticks, "faster": ticks})).mark_line(strokeDash=[4, 4], color="#9aa1ab")
        title = f"{one['votes'] / 1e6:g} million votes, {one['workers']:,} workers"
        lines = ideal.encode(x, y) + base.mark_line() + base.mark_point(opacity=1).encode(shape)
        panels.append(lines.properties(width=320, height=280, title=title))
    save_svg(apply_theme(alt.hconcat(*panels)), path)


def table(found):
    """The figures as Markdown."""
    lines = [f"{found['machine']}; `python benchmarks/scaling.py`. Milliseconds (times faster than one thread):"]
    for one in found["crowds"]:
        times = {int(n): passes for n, passes in one["seconds"].items()}
        lines += [
            "",
            f"| {one['votes'] / 1e6:g} million votes, {one['workers']:,} workers | " + " | ".join(f"{n}" for n in times) + " |",
        ]
        lines += ["| --- " * (len(times) + 1) + "|"]
        for name in times[1]:
            figures = (f"{1e3 * passes[name]:.1f} ({times[1][name] / passes[name]:.1f})" for passes in times.values())
            lines.append(f"| {name} | " + " | ".join(figures) + " |")
    return "\n".join(lines)


def write_page(found):
    """Write the picture of threads, and their table on the page of the race."""
    sys.path.append(str(HERE / "race"))
    from pages import PAGE, replaced

    draw(found, PAGE.with_name("threads.svg"))
    PAGE.write_text(replaced(PAGE.read_text(), "threads", table(found)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--votes", type=float, default=40.0, help="millions of votes")
    parser.add_argument("--workers", type=int, nargs="+", default=[20_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, default=HERE / "race" / "threads.json", help="where the figures go, or are")
    parser.add_argument("--page", action="store_true", help="write the page from the figures that are there")
    given = parser.parse_args()
    if given.page:
        write_page(json.loads(given.json.read_text()))
        return
    threads = [n for n in THREADS if n <= (os.cpu_count() or 1)]
    print(machine(), flush=True)
    found = {"machine": machine(), "crowds": []}
    for workers in given.workers:
        votes = int(given.votes * 1e6)
        one = {"votes": votes, "workers": workers, "seconds": measured(votes, workers, threads, given.repeats)}
        found["crowds"].append(one)
        print(f"\n{votes / 1e6:g} million votes, {workers:,} workers: milliseconds (times faster than one thread)")
        for name in one["seconds"][1]:
            times = [one["seconds"][n][name] for n in threads]
            print(f"  {name:24}", *(f"{1e3 * t:9.2f} ({times[0] / t:5.2f})" for t in times), flush=True)
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
