"""Our own path against its floor: every bar of the race in one run, as ratios of medians of five (4 minutes on two cores).

    ADJUDGE_DATA=… python benchmarks/race/stages.py [NAME…]

prints the table; `make race` has it in its page. NAMEs are those of `PARTS`.
"""

import gc
import os
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # the other benchmarks, whose measurements are reused

import numpy as np
import polars as pl
from measure import interleaved

import adjudge as adj
from adjudge.engines.registry import resolve

REPEATS = 5
PASSES = 15  # of a few milliseconds each
NEAR = 1e-6  # of the final log-likelihood
END = 2_000  # iterations after which Dawid-Skene has ended
SETS = ("trec2010", "adult2", "labelme", "sp")
LIMIT = 120.0  # seconds of one fit of the peer
SMALL_CALLS = 40


def row(what, wanted, measured, unit="x"):
    """Return one line of the table."""
    return {"what": what, "wanted": wanted, "measured": measured, "unit": unit}


def passes(folder):
    """Passes over 20 million votes, in floors."""
    import passes as benchmark

    bars = {
        20_000: {"hard, delta recount": "2.8", "hard, full recount": "6", "soft": "8"},
        1_000_000: {"hard, delta recount": "13", "hard, full recount": "30", "soft": "40"},
    }
    for workers, wanted in bars.items():
        found = benchmark.multiples(benchmark.Crowd(20_000_000, workers=workers), REPEATS)
        gc.collect()
        for name, bar in wanted.items():
            per_vote = f"{found[name] * 1e9 / 20e6:.2f} ns per vote"
            what = f"{name}, 20M votes, 4 labels, {workers:,} workers / floor ({per_vote})"
            yield row(what, f"at most {bar}x", found[name] / found["floor"])


def fits(folder):
    """Whole fits of 10 million encoded votes, in floors per iteration; their starts; the cost of a trace."""
    import passes as benchmark

    simulated = adj.simulate(tasks=2_000_000, workers=20_000, labels=4, votes_per_task=5, seed=1).votes
    votes = adj.read(simulated.select(pl.all().str.slice(1).cast(pl.Int64)))
    del simulated
    session = resolve("cpu").load(votes, seed=0, ties="hash")
    params = adj.aggregate(votes, model="fds", confidence="posterior").fit.params
    results = {}

    def fit(name, **options):
        def run():
            results[name] = adj.aggregate(votes, **options)

        return run

    def hard_pass():
        session.adopt(lambda _: params, params.priors)
        session.e_step(hard=True, likelihood=False)

    took = interleaved(
        {
            "floor": benchmark.floor([votes.task_ptr, votes.row]),
            "start": lambda: session.start(hard=True),
            "first": hard_pass,  # a full recount after the start; the next pass counts changes
            "hard": hard_pass,
            "fds": fit("fds", model="fds", confidence="posterior"),
            "light": fit("light", model="fds", confidence="posterior", trace="light"),
            "ds": fit("ds", model="ds", confidence="posterior"),
            "auto": fit("auto"),
        },
        REPEATS,
    )
    for name, title, bar in (
        ("fds", "whole `fds` fit", "at most 10x"),
        ("ds", "whole `ds` fit", ""),
        ("auto", "whole `auto` fit, honest confidence", ""),
    ):
        ratio = took[name] / results[name].iterations / took["floor"]
        what = f"{title} from 10M encoded votes ({took[name] * 1e3:.0f} ms), per iteration / floor"
        yield row(what, bar, ratio)
    yield row('`trace="full"` / `"light"`, whole `fds` fit', "at most 1.3x", took["fds"] / took["light"])
    yield row("majority start / a hard pass, 10M votes", "at most 2x", took["start"] / took["hard"])


def files(folder):
    """From ten million votes in a file to labels in a file, against a bare read."""
    import files as benchmark

    runs = benchmark.ten_million(folder)
    took = {name: seconds for name, (seconds, _) in runs.items()}
    csv, bare = took["csv"], took["bare csv"]
    yield row("10M votes, CSV, shuffled string ids, to labels / bare `polars.read_csv`", "at most 2.0x", csv / bare)
    ratio = (took["parquet"] - took["import all"]) / (took["bare parquet"] - took["import polars"])
    what = "10M votes, Parquet, integer ids, to labels / bare `polars.read_parquet`, imports out of both"
    yield row(what, "at most 3x", ratio)


def accelerated(folder):
    """Passes of Dawid-Skene until its likelihood is near the final one, accelerated / plain."""
    source = os.environ.get("ADJUDGE_DATA")
    what = "DS accelerated: passes to within 1e-6 of the final likelihood / plain"
    if "accelerate" not in adj.DawidSkene.options() or not source:
        yield row(what, "at most 0.33x", "no such option" if source else "ADJUDGE_DATA names no folder")
        return
    for name in SETS:
        votes = adj.read(Path(source) / name / "votes.csv")
        plain, fast = _climb(votes), _climb(votes, accelerate=True)
        final = max(value for _, value in plain)
        needed = [next((n for n, value in climb if value >= final - NEAR * abs(final)), None) for climb in (plain, fast)]
        measured = "not reached" if needed[1] is None else needed[1] / needed[0]
        yield row(f"{what}, {name} ({needed[1]} / {needed[0]})", "at most 0.33x", measured)


def _climb(votes, **options):
    """[(passes so far, log-likelihood)] after each iteration."""
    out = []
    with _counted_passes() as passes:
        model = adj.DawidSkene(tol=0.0, max_iter=END, **options)
        model.fit(votes, confidence="posterior", progress=lambda line: out.append((passes(), line.log_likelihood)))
    return out


@contextmanager
def _counted_passes():
    """Count E-steps: an accelerated iteration may take several."""
    from adjudge.engines.local import LocalEngine

    counts, load = [0], LocalEngine.load

    def counting(self, *args, **options):
        session = load(self, *args, **options)
        step: Callable = session.e_step

        def counted(*args, **options):
            counts[0] += 1
            return step(*args, **options)

        session.e_step = counted
        return session

    LocalEngine.load = counting
    try:
        yield lambda: counts[0]
    finally:
        LocalEngine.load = load


def disk(folder):
    """A pass on disk against reading its shards once."""
    import disk as benchmark

    found = benchmark.measured(folder, 10)
    ratio = benchmark.median(found, "passes") / benchmark.median(found, "read")
    yield row("disk, 10M votes: a pass / reading its shards once", "at most 3x", ratio)


def peer(folder):
    """crowd-kit at its best, 1 million votes: its iteration and our passes, and from frame to labels."""
    import cells
    import contestants
    import environments
    import pandas as pd
    import turns

    crowd = adj.simulate(tasks=200_000, workers=20_000, labels=4, votes_per_task=5, seed=1)
    data = folder / "peer.npz"
    cells.written(data, crowd.votes, crowd.truth)
    found = np.load(data)
    frame = pd.DataFrame({name: found[name] for name in ("task", "worker", "label")})
    python = environments.environment(".peers-crowd-kit", contestants.PACKAGES["crowd-kit"])
    child = turns.Child(python, next(x for x in contestants.PEERS if x.name == "crowd-kit DawidSkene"), data, folder / "peer")
    votes = adj.read(frame)
    session = resolve("cpu").load(votes, seed=0, ties="hash")
    params = adj.aggregate(votes, model="fds", confidence="posterior").fit.params
    session.adopt(lambda _: params, params.priors)
    ten = {"ds": adj.DawidSkene(max_iter=10, tol=0.0), "fds": adj.FastDawidSkene(max_iter=10, tol=0.0)}
    try:
        child.ready()
        theirs = {"one": lambda: child.fit(LIMIT, {"n_iter": 1}), "ten": lambda: child.fit(LIMIT, {"n_iter": 10})}
        took = interleaved(theirs, REPEATS)  # apart from ours: a pass among passes has its votes and its table in the caches
    finally:
        child.close()
    took |= interleaved(
        {
            "soft": lambda: session.e_step(hard=False),
            "first": lambda: session.e_step(hard=True, likelihood=False),  # a full recount after a soft pass
            "hard": lambda: session.e_step(hard=True, likelihood=False),
        },
        PASSES,
    )
    fits = {
        name: lambda model=model: adj.aggregate(frame, model=model, confidence="posterior").labels for name, model in ten.items()
    }
    took |= interleaved(fits, REPEATS)
    iteration = (took["ten"] - took["one"]) / 9
    named = f"crowd-kit at its best, 1M votes ({iteration * 1e3:.0f} ms an iteration)"
    yield row(f"{named}: its iteration / our soft pass", "at least 200x", iteration / took["soft"])
    yield row(f"{named}: its iteration / our hard pass", "at least 400x", iteration / took["hard"])
    for model, bar in (("ds", "at least 80x"), ("fds", "")):
        what = f"frame to labels, 10 iterations, 1M votes: crowd-kit / our `{model}` ({took[model] * 1e3:.0f} ms)"
        yield row(what, bar, took["ten"] / took[model])


def small(folder):
    """Calls on 5 thousand votes in a loop, beyond the passes."""
    import pandas as pd

    simulated = adj.simulate(tasks=1_000, workers=50, labels=4, votes_per_task=5, seed=1).votes
    frames = {"polars": simulated, "pandas": pd.DataFrame(simulated.to_dict(as_series=False))}
    for kind, frame in frames.items():
        beyond, whole = [], []
        for _ in range(SMALL_CALLS):
            began = time.perf_counter()
            result = adj.aggregate(frame, model="fds", confidence="posterior")
            result.labels  # noqa: B018
            whole.append(time.perf_counter() - began)
            beyond.append(whole[-1] - sum(line.seconds for line in result.fit.trace))
        what = f"5,000 votes from a {kind} frame to labels with `fds`: a call beyond its passes"
        yield row(what, "at most 1.5 ms", statistics.median(beyond) * 1e3, " ms")
        auto = statistics.median(_seconds(lambda frame=frame: adj.aggregate(frame).labels) for _ in range(SMALL_CALLS))
        yield row(f"the same with `auto`, honest confidence ({kind}): the whole call", "", auto * 1e3, " ms")


def _seconds(action):
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


PARTS = {one.__name__: one for one in (passes, fits, files, accelerated, disk, peer, small)}


def measured(names=()):
    """All rows; a part that fails is reported, and the others are measured."""
    rows = []
    warnings.simplefilter("ignore")
    for name in names or PARTS:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="adjudge-stages-") as folder:
            try:
                rows += PARTS[name](Path(folder))
            except Exception as error:
                traceback.print_exc()
                rows.append(row(name, "", f"failed: {type(error).__name__}"))
        gc.collect()
        print(f"stages: {name} ({time.perf_counter() - began:.0f} s)", file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    import tables

    print(tables.stages(measured(sys.argv[1:])))
