"""Run by itself: fits votes on a cluster, kills an executor in the middle of a pass, and tells what came of it.

python on_cluster.py MASTER VOTES.parquet OUT.json
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import quorate as qr
from quorate.engines.spark import SparkEngine
from quorate.io import spark as home


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
    """Which quorate an executor runs, and on which kernels."""
    from quorate.kernels.core import compiled

    return qr.__file__, compiled() is not None


def main(master, votes, out):
    spark = home.session(master)
    spark.sparkContext.setLogLevel("OFF")
    frame, begun, told = spark.read.parquet(votes), threading.Event(), {}
    application = spark.sparkContext.applicationId

    def kill():
        begun.wait()
        tracker = spark.sparkContext.statusTracker()
        while True:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if any(stage is not None and stage.numActiveTasks for stage in stages):
                break
            time.sleep(0.002)
        told["before"] = executors(application)
        told["killed"] = told["before"][0]
        os.kill(told["killed"], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    result = qr.aggregate(frame, engine=SparkEngine(partitions=4), progress=lambda _: begun.set())
    killer.join()
    told["after"] = executors(application)
    told["labels"] = dict(result.labels_frame().select("task", "label").iter_rows())
    told["changed"] = [row.labels_changed for row in result.fit.trace]
    told["where"] = spark.sparkContext.parallelize(range(4), 4).map(where).collect()
    Path(out).write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
