"""A streaming job that kills itself, and Java with it: streaming_job.py FOLDER POINT BATCH."""

import os
import signal
import sys
from pathlib import Path

import adjudge as adj
from adjudge.io import container
from adjudge.spark.files import into_folder
from adjudge.spark.session import session

SCHEMA = "task string, worker string, label string"


def main(folder, point, batch):
    def die_at(here, number):
        if (here, number) == (point, batch):
            os.killpg(0, signal.SIGKILL)

    write, save = into_folder(f"{folder}/decisions.parquet"), container.save

    def sink(decisions, number):
        if (point, batch) == ("in the sink", number):
            torn = Path(folder, "decisions.parquet", f"batch_id={number}")
            torn.mkdir(parents=True)
            (torn / "part-00000-torn.parquet").write_bytes(b"PAR1")
        die_at("in the sink", number)
        write(decisions, number)

    def deadly_save(path, kind, version, meta, arrays):
        here = meta["batch"] if kind == "stream" else None
        die_at("before the pointer", here)
        save(path, kind, version, meta, arrays)
        die_at("before Spark's note", here)

    container.save = deadly_save
    spark = session("local[1]")
    spark.sparkContext.setLogLevel("OFF")
    votes = spark.readStream.schema(SCHEMA).option("header", "true").option("maxFilesPerTrigger", 1).csv(f"{folder}/votes")
    adj.SparkStream(adj.Online(labels=["a", "b", "c"]), state=f"{folder}/state", sink=sink, refit_every=3).run(votes)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
