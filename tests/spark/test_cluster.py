"""Real executors, in processes of their own: one is killed, and none has more than the wheel."""

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import polars as pl
import pytest

import adjudge as adj
from same_fit import fit
from spark_there import JAVA

HERE = Path(__file__).parent
CROWD = adj.simulate(tasks=20_000, workers=60, labels=4, votes_per_task=5, skill=0.5, seed=8)


@pytest.fixture(scope="module")
def votes(tmp_path_factory):
    path = tmp_path_factory.mktemp("votes") / "votes.parquet"
    CROWD.votes.write_parquet(path)
    return path


@pytest.fixture(scope="module")
def near(votes):
    return adj.aggregate(votes)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """What an executor has: adjudge by itself, as a wheel would lay it out, and the libraries it needs."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(Path(adj.__file__).parent, folder / "adjudge", ignore=shutil.ignore_patterns("__pycache__"))
    # A path in PYTHONPATH runs no .pth file: the checkout that the driver runs from is out of sight.
    return folder, f"{folder}:{sysconfig.get_path('purelib')}"


def environment(**more):
    import pyspark

    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_", "PYTHONPATH"))}
    own = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    quick = {"SPARK_CONF_DIR": os.environ["SPARK_CONF_DIR"], "SPARK_DAEMON_JAVA_OPTS": JAVA, "SPARK_LAUNCHER_OPTS": JAVA}
    return plain | own | quick | more


def run(command, **more):
    done = subprocess.run(
        [str(c) for c in command], env=environment(**more), capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_an_executor_dies_in_the_middle_of_a_pass(votes, tmp_path):
    near = fit(votes, "fds", max_iter=6)
    run([sys.executable, HERE / "on_cluster.py", "local-cluster[2,1,1024]", votes, tmp_path / "told.json"])
    every = json.loads((tmp_path / "told.json").read_text())
    for rows in ("driver", "executors"):
        told = every[rows]
        assert len(told["before"]) == 2
        assert told["killed"] not in told["after"]
        assert told["labels"] == dict(near.labels.select("task", "label").iter_rows())
        assert told["changed"] == [row.labels_changed for row in near.fit.trace]


@pytest.fixture(scope="module")
def cluster(wheel, tmp_path_factory):
    """The address of a standalone master with two workers, on the loopback address."""
    folder = tmp_path_factory.mktemp("cluster")
    home = Path(environment()["SPARK_HOME"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
    commands = {
        "master": ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", port],
        "worker1": [*worker, "--work-dir", folder / "1", address],
        "worker2": [*worker, "--work-dir", folder / "2", address],
    }
    started = []
    try:
        for name, words in commands.items():
            command = [str(w) for w in [home / "bin" / "spark-class", *words, "--webui-port", "0"]]
            with (folder / f"{name}.log").open("w") as log:
                child = subprocess.Popen(command, env=environment(PYTHONPATH=wheel[1]), stdout=log, stderr=log, cwd=folder)
            started.append(child)
            await_word(folder / f"{name}.log", "ALIVE" if name == "master" else "Successfully registered", child)
        yield address
    finally:
        for child in reversed(started):
            child.terminate()
        for child in started:
            child.wait(timeout=30)


def await_word(log, word, child):
    for _ in range(600):
        if word in log.read_text():
            return
        assert child.poll() is None, log.read_text()[-2000:]
        time.sleep(0.1)
    raise AssertionError(f"no {word!r} in {log.read_text()[-2000:]}")


def python_of_executors():
    """An interpreter that knows nothing of the checkout: that of the system, not of the virtual environment."""
    return str(Path(sys._base_executable).resolve())


def test_the_command_line_on_a_standalone_cluster(cluster, votes, near, tmp_path):
    adjudge = Path(sys.executable).parent / "adjudge"
    command = [adjudge, "aggregate", votes, "--engine", "spark", "--master", cluster, "--json"]
    command += ["-o", tmp_path / "labels.parquet", "--workers", tmp_path / "workers.csv"]
    done = run(command, PYSPARK_PYTHON=python_of_executors())
    facts = json.loads(done.stdout)
    assert (facts["tasks"], facts["votes"], facts["iterations"]) == (20_000, 100_000, near.iterations)
    labels = pl.read_parquet(tmp_path / "labels.parquet" / "*.parquet").sort("task")
    assert labels.select("task", "label", "votes", "tie").equals(near.labels.sort("task").select("task", "label", "votes", "tie"))
    assert pl.read_csv(tmp_path / "workers.csv" / "*.csv").height == 60


def test_spark_submit_and_nothing_but_the_wheel_on_executors(cluster, wheel, votes, near, tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, json, pathlib\n"
        "from adjudge.cli.main import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as leaving:\n"
        "    assert not leaving.code\n"
        "from pyspark.sql import SparkSession\n"
        "def where(_):\n"
        "    import adjudge\n"
        "    return adjudge.__file__\n"
        "files = SparkSession.getActiveSession().sparkContext.parallelize(range(4), 4).map(where).collect()\n"
        "pathlib.Path(sys.argv[-1]).with_name('where.json').write_text(json.dumps(files))\n"
    )
    submit = Path(environment()["SPARK_HOME"]) / "bin" / "spark-submit"
    loopback = [x for name in ("host", "bindAddress") for x in ("--conf", f"spark.driver.{name}=127.0.0.1")]
    command = [submit, "--master", cluster, *loopback, "--conf", "spark.ui.enabled=false", script]
    command += ["aggregate", votes, "--engine", "spark", "--model", "mv", "-o", tmp_path / "labels.csv"]
    run(command, PYSPARK_PYTHON=python_of_executors(), PYSPARK_DRIVER_PYTHON=sys.executable)
    labels = pl.read_csv(tmp_path / "labels.csv" / "*.csv").sort("task")
    expected = adj.aggregate(votes, model="mv").labels.sort("task")
    assert labels.select("task", "label", "tie").equals(expected.select("task", "label", "tie"))
    files = json.loads((tmp_path / "where.json").read_text())
    assert files
    assert all(file.startswith(str(wheel[0])) for file in files)
