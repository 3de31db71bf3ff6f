"""Run by itself: fits votes on a cluster, kills an executor in the middle of a pass, and reports the outcome.

python on_cluster.py MASTER VOTES.parquet OUT.json
"""

import json
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import adjudge as adj
from adjudge.spark import session as home
from adjudge.spark.engine import SparkEngine

CLUSTER_MAX_ITERATIONS = 6  # iterations
warnings.simplefilter("ignore", adj.NotConverged)


def executors(application):
    """The pids of this application's executors."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(w.endswith(b"CoarseGrainedExecutorBackend") for w in words) and application.encode() in words:
            found.append(int(folder.name))
    return sorted(found)


def where(_):
    """Which adjudge an executor runs, and on which kernels."""
    from adjudge.kernels.cpu import compiled

    return adj.__file__, compiled() is not None


def fit_and_kill(spark, frame, engine):
    """Fits, and kills an executor while a stage of a pass runs."""
    application, begun, ended, told = spark.sparkContext.applicationId, threading.Event(), threading.Event(), {}

    def kill():
        begun.wait()
        tracker = spark.sparkContext.statusTracker()
        while not ended.is_set():  # a fit may be over before a stage is seen at work
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if any(stage is not None and stage.numActiveTasks for stage in stages):
                break
            time.sleep(0.002)
        else:
            return
        told["before"] = executors(application)
        told["killed"] = told["before"][0]
        os.kill(told["killed"], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    result = adj.aggregate(
        frame, model=adj.FastDawidSkene(max_iter=CLUSTER_MAX_ITERATIONS), engine=engine, progress=lambda _: begun.set()
    )
    ended.set()
    killer.join(60)
    if "killed" not in told:
        raise TimeoutError("no stage of a pass was seen at work, so no executor was killed in one")
    told["after"] = executors(application)
    told["labels"] = dict(result.labels_frame().select("task", "label").iter_rows())
    told["changed"] = [row.labels_changed for row in result.fit.trace]
    result.release()
    return told


def both_there(spark):
    """Waits until two executors are there again."""
    for _ in range(600):
        if spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() > 2:
            return
        time.sleep(0.1)
    raise TimeoutError("no second executor")


def main(master, votes, out):
    spark = home.session(master)
    spark.sparkContext.setLogLevel("OFF")
    frame, told = spark.read.parquet(votes), {}
    for rows in ("driver", "executors"):
        both_there(spark)
        told[rows] = fit_and_kill(spark, frame, SparkEngine(partitions=4, rows=rows, blocks=2))
    told["where"] = spark.sparkContext.parallelize(range(4), 4).map(where).collect()
    Path(out).write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
