"""Spark on this machine's cores compared with the local engine: the same labels, and the extra cost of a pass.

`python benchmarks/spark.py 20000000` measures with another number of votes than `make bench` does.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

VOTES = 5_000_000
WORKERS = 10_000


def run(folder, votes=VOTES):
    """Rows (what, figure, bar); none without Java."""
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        print("  no Java: left out", file=sys.stderr)
        return
    import polars as pl

    import adjudge as adj
    from adjudge.spark import session as spark
    from adjudge.spark import votes as spark_votes

    millions = f"{votes / 1e6:g} million votes"
    path = folder / "votes.parquet"
    adj.simulate(tasks=votes // 5, workers=WORKERS, labels=4, votes_per_task=5, seed=1).votes.write_parquet(path)
    running = spark.session(f"local[{os.cpu_count()}]")
    running.sparkContext.setLogLevel("FATAL")
    running.range(1000).selectExpr("id % 7 as k").groupBy("k").count().collect()  # Java is warm when a cluster is
    near = adj.read(path)
    seconds = {}
    for name, read in {
        "here": lambda: adj.read(path),
        "spark": lambda: spark_votes.read(running.read.parquet(str(path))),
    }.items():
        began = time.perf_counter()
        known = read()
        seconds[name] = time.perf_counter() - began
    for model in (adj.FastDawidSkene(max_iter=6), adj.DawidSkene(max_iter=6)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = adj.aggregate(known, model=model, confidence="posterior")
            theirs = adj.aggregate(near, model=model, confidence="posterior")
        both = [r.labels_frame().select("task", "label", "tie").sort("task") for r in (ours, theirs)]
        differ = both[0].join(both[1], on=["task", "label", "tie"], how="anti").height + abs(len(both[0]) - len(both[1]))
        yield f"{model.name}, {millions}: labels that are not those of one process", differ, "0"
        # The first pass of each begins with cold caches; M-steps are in the time of both.
        far, local = (statistics.median(row.seconds for row in r.fit.trace[1:]) for r in (ours, theirs))
        yield f"{model.name}, {millions}: a pass on Spark, seconds", far, ""
        yield f"{model.name}, {millions}: a pass in one process, seconds", local, ""
        yield f"{model.name}, {millions}: (a pass on Spark - 1 s) / a pass in one process", max(far - 1, 0) / local, "at most 5"
        ours.release()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wide = adj.aggregate(known, model=model, confidence="posterior", engine=adj.Spark(rows="executors"))
        found = wide.labels_frame().select("task", "label", "tie").sort("task")
        differ = found.join(both[1], on=["task", "label", "tie"], how="anti").height + abs(len(found) - len(both[1]))
        yield f"{model.name}, {millions}: labels that are not those of one process, rows on the executors", differ, "0"
        apart = statistics.median(row.seconds for row in wide.fit.trace[1:])
        yield f"{model.name}, {millions}: a pass with rows on the executors / with rows on the driver", apart / far, ""
        wide.release()
    began = time.perf_counter()
    ours = adj.aggregate(known, model="mv", confidence="posterior")
    packed = time.perf_counter() - began
    yield f"{millions}: reading workers and labels with Spark / reading all here", seconds["spark"] / seconds["here"], ""
    yield f"{millions}: laying them out on executors and majority vote, seconds", packed, ""
    began = time.perf_counter()
    ours.labels.write.parquet(str(folder / "labels.parquet"))
    yield f"{millions}: writing the labels, seconds", time.perf_counter() - began, ""
    assert pl.scan_parquet(folder / "labels.parquet" / "*.parquet").select(pl.len()).collect().item() == votes // 5
    running.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="adjudge-bench-") as scratch:
        for what, figure, bar in run(Path(scratch), int(float(sys.argv[1])) if len(sys.argv) > 1 else VOTES):
            print(f"{what:95} {figure:10.3g}  {bar}", flush=True)
