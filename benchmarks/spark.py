"""Spark on this machine's cores compared with the local engine: the same labels, and the extra cost of a pass.

`python benchmarks/spark.py 100000000` measures with another number of votes than `make bench` does.
"""

import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

VOTES = 5_000_000
WORKERS = 10_000
PASSES = 8  # at most
LARGE_VOTES = 100_000_000  # of which a pass has a bar: with fewer, most of its time is that of starting a job
MAX_WIDE_VOTES = 20_000_000  # with more, rows are not left on the executors as well


def run(folder, votes=VOTES):
    """Rows (what, figure, bar); none without Java."""
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        print("  no Java: left out", file=sys.stderr)
        return
    import adjudge as adj
    from adjudge.spark import session as spark
    from adjudge.spark import votes as spark_votes

    warnings.simplefilter("ignore", adj.NotConverged)  # passes are measured, not fits
    millions = f"{votes / 1e6:g} million votes"
    source = folder / "votes"
    source.mkdir()
    crowd = adj.simulate(tasks=votes // 5, workers=WORKERS, labels=4, votes_per_task=5, seed=1)
    for number, batch in enumerate(crowd.vote_batches()):
        batch.write_parquet(source / f"{number:06}.parquet")
    running = spark.session(f"local[{os.cpu_count()}]")
    running.sparkContext.setLogLevel("FATAL")
    running.range(1000).selectExpr("id % 7 as k").groupBy("k").count().collect()  # Java is warm when a cluster is
    near, read_here = timed(lambda: adj.read(sorted(source.iterdir())))
    known, read_there = timed(lambda: spark_votes.read(running.read.parquet(str(source))))
    for model in (adj.FastDawidSkene(max_iter=PASSES), adj.DawidSkene(max_iter=PASSES)):
        jobs = []
        (ours, whole), (theirs, _) = fit_in_turns(known, near, model, lambda: jobs.append(jobs_of(running)))  # noqa: B023
        labels = labels_there(ours, folder / f"{model.name}.parquet")
        yield f"{model.name}, {millions}: labels that are not those of one process", count_different(labels, theirs), "0"
        # The first pass of each begins with cold caches; M-steps are in the time of both.
        far, local = (statistics.median(row.seconds for row in r.fit.trace[1:]) for r in (ours, theirs))
        yield f"{model.name}, {millions}: a pass on Spark, seconds", far, ""
        yield f"{model.name}, {millions}: a pass in one process, seconds", local, ""
        bar = "at most 3" if votes >= LARGE_VOTES else ""
        yield f"{model.name}, {millions}: a pass on Spark / a pass in one process", far / local, bar
        yield f"{model.name}, {millions}: jobs per pass", (jobs[-1] - jobs[0]) / (len(jobs) - 1), "1"
        yield f"{model.name}, {millions}: the whole fit on Spark, from the frame, seconds", whole, ""
        ours.release()
        if votes > MAX_WIDE_VOTES:
            continue
        wide, _ = fit(known, model, engine=adj.Spark(rows="executors"))
        labels = labels_there(wide, folder / f"{model.name}-wide.parquet")
        differ = count_different(labels, theirs)
        yield f"{model.name}, {millions}: labels that are not those of one process, rows on the executors", differ, "0"
        apart = statistics.median(row.seconds for row in wide.fit.trace[1:])
        yield f"{model.name}, {millions}: a pass with rows on the executors / with rows on the driver", apart / far, ""
        wide.release()
    yield f"{millions}: reading workers and labels with Spark / reading all here", read_there / read_here, ""
    ours, packed = fit(known, "mv")
    yield f"{millions}: laying them out on executors and majority vote, seconds", packed, ""
    yield f"{millions}: writing the labels, seconds", timed(lambda: labels_there(ours, folder / "mv.parquet"))[1], ""
    running.stop()


def timed(act):
    """What a function returns, and its seconds."""
    began = time.perf_counter()
    return act(), time.perf_counter() - began


def fit(votes, model, **how):
    """A result with the model's own confidence, and the seconds of the fit."""
    import adjudge as adj

    return timed(lambda: adj.aggregate(votes, model=model, confidence="posterior", **how))


def fit_in_turns(far, near, model, after_pass):
    """What `fit` returns of votes on Spark and of votes here, whose passes take turns: noise falls on both."""
    done, waiting = {"far": 0, "near": 0}, threading.Condition()

    def run(who, votes, ahead, act):
        """Fit; a pass waits until the other fit has done as many, or `ahead` more."""
        other = "near" if who == "far" else "far"

        def show(row):
            act()
            with waiting:
                done[who] = row.iteration
                waiting.notify_all()
                waiting.wait_for(lambda: done[other] >= row.iteration + ahead)

        try:
            return fit(votes, model, progress=show)
        finally:
            with waiting:
                done[who] = PASSES + 1  # so that the other one does not wait
                waiting.notify_all()

    with ThreadPoolExecutor(1) as pool:
        here = pool.submit(run, "near", near, 1, lambda: None)
        return run("far", far, 0, after_pass), here.result()


def jobs_of(running):
    """How many jobs Spark has started."""
    return len(running.sparkContext.statusTracker().getJobIdsForGroup(None))


def labels_there(result, folder):
    """The labels of a result on Spark, written by the executors and scanned here."""
    import polars as pl

    result.labels.write.parquet(str(folder))
    return pl.scan_parquet(folder / "*.parquet").select("task", "label", "tie")


def count_different(labels, result):
    """The number of labels and ties that are not those of a result in memory."""
    theirs = result.labels_frame().select("task", "label", "tie")
    differ = labels.join(theirs.lazy(), on=["task", "label", "tie"], how="anti").collect(engine="streaming").height
    return differ + abs(labels.collect().height - theirs.height)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="adjudge-bench-") as scratch:
        for what, figure, bar in run(Path(scratch), int(float(sys.argv[1])) if len(sys.argv) > 1 else VOTES):
            print(f"{what:95} {figure:10.3g}  {bar}", flush=True)
