"""A faulty command fails before Java starts, which is slow; and Spark itself prints nothing."""

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import closing

import pytest

import adjudge as adj
from adjudge.errors import AdjudgeError, InputError, OptionError
from adjudge.spark import master
from adjudge.spark.files import REMOTE_FILESYSTEM_VARIABLES, local_path
from adjudge.spark.master import check_master
from spark_there import missing

VOTES = adj.simulate(tasks=30, workers=5, labels=3, votes_per_task=3, seed=2).votes
WRONG = {
    "the output exists": (["-o", "there.parquet"], "cannot write there.parquet: it exists already; remove it, or name another"),
    "the workers exist": (["--workers", "there.parquet"], "cannot write there.parquet: it exists already"),
    "it exists as a URI": (["-o", "file://{here}/there.parquet"], "there.parquet: it exists already"),
    "an output is an input": (["-o", "votes.csv"], "-o votes.csv is read as well, as the votes, and would be lost"),
    "two outputs are one": (["-o", "a.csv", "--workers", "a.csv"], "two outputs have the same path"),
    "no such format": (["-o", "labels.xls"], "cannot write labels.xls: the suffix '.xls' names no known format"),
    "no such format elsewhere": (["-o", "s3a://b/labels.xls"], "cannot write s3a://b/labels.xls: the suffix '.xls' names no"),
    "no such input": (["nope.csv"], "cannot read nope.csv: there is no such file or folder"),
    "no such model": (["--model", "sfd"], "unknown model 'sfd': did you mean 'fds'"),
    "glad": (["--model", "glad"], "engine 'spark' cannot run model 'glad': choose engine='cpu', 'disk' or 'reference'"),
    "sets": (["--multi"], "--multi does not work with --engine spark"),
    "truth": (["--truth", "votes.csv"], "--truth does not work with --engine spark"),
    "exclude": (["--exclude", "w1"], "exclude needs the votes in memory, not on engine 'spark'"),
    "groups": (["--groups", "answers_like"], "groups needs the votes in memory, not on engine 'spark'"),
    "wide": (["--wide"], "wide is for votes that are read into memory or onto disk, not by Spark"),
    "duplicates": (["--duplicates", "last"], "duplicates is 'last', but rows of a Spark frame have no order"),
    "calibrate": (["--calibrate", "--gold", "votes.csv"], "calibrate looks at tasks one by one"),
    "no master": (["--master", "foo"], "'foo' is no master: give local[N], spark://HOST:PORT, yarn or k8s://HOST:PORT"),
    "nobody there": (["--master", "spark://127.0.0.1:1"], "no Spark master at spark://127.0.0.1:1: connection refused"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with votes and an output that is there already."""
    monkeypatch.chdir(tmp_path)
    for name in (*REMOTE_FILESYSTEM_VARIABLES, "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    VOTES.write_csv("votes.csv")
    (tmp_path / "there.parquet").mkdir()
    return tmp_path


@pytest.fixture
def no_spark(monkeypatch):
    """Using Spark without pyspark says that it is not installed."""
    for name in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("case", WRONG)
def test_spark_is_not_even_loaded(folder, no_spark, adjudge, case):
    options, message = WRONG[case]
    code, out, err = adjudge("aggregate", "votes.csv", *(a.format(here=folder) for a in options), "--engine", "spark")
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert message in err


@pytest.mark.parametrize(
    "options", [[], ["-o", "new.parquet"], ["-o", "s3a://b/labels.parquet"], ["--master", "local[2]"]], ids=str
)
def test_what_is_right_reaches_for_spark(folder, no_spark, adjudge, options):
    code, _, err = adjudge("aggregate", "votes.csv", *options, "--engine", "spark")
    assert (code, err.count("\n")) == (1, 1)
    assert "Spark is not installed" in err


def test_paths_may_be_on_another_file_system(folder, monkeypatch):
    conf = folder / "conf"
    conf.mkdir()

    def is_local():
        return local_path("there.parquet") is not None

    for setting in REMOTE_FILESYSTEM_VARIABLES:
        assert is_local()
        with monkeypatch.context() as patch:
            patch.setenv(setting, str(folder))
            assert not is_local()
            assert local_path(f"file:{folder}/there.parquet") == folder / "there.parquet"
    for setting, value in (("SPARK_CONF_DIR", conf), ("SPARK_HOME", folder)):
        with monkeypatch.context() as patch:
            patch.delenv("SPARK_CONF_DIR", raising=False)
            patch.setenv(setting, str(value))
            for name, text in (("spark-defaults.conf", "spark.hadoop.fs.defaultFS hdfs://h\n"), ("core-site.xml", "")):
                assert is_local()
                (conf / name).write_text(text)
                assert not is_local()
                (conf / name).unlink()
            (conf / "spark-defaults.conf").write_text("spark.executor.cores 2\n")
            assert is_local()
            (conf / "spark-defaults.conf").unlink()


@pytest.mark.skipif(missing() is not None or shutil.which("bash") is None, reason=str(missing()))
def test_java_is_not_started(folder):
    """The only test that could see it start: a Java that leaves a mark."""
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {folder}/started\necho this Java is broken >&2\nexit 1\n")
    java.chmod(0o755)
    env = os.environ | {"JAVA_HOME": str(folder / "java")}

    def run(*options):
        command = [sys.executable, "-m", "adjudge", "aggregate", "votes.csv", "--engine", "spark", *options]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)

    for options, _ in (WRONG["the output exists"], WRONG["glad"], WRONG["nobody there"]):
        assert run(*options).returncode == 1
        assert not (folder / "started").exists()
    done = run("--quiet")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "adjudge: cannot start Spark: Java did not start (this Java is broken); install Java 17 and set JAVA_HOME to it\n"
    )
    assert (folder / "started").exists()


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_spark_itself_says_nothing(folder):
    """In a process of its own, where Java starts: its first lines come before anybody could set a level of logging."""
    command = [sys.executable, "-m", "adjudge", "aggregate", "votes.csv", "--engine", "spark", "--model", "mv"]
    command += ["--master", "local[1]"]
    env = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 31  # the header, and a line per task
    assert done.stderr.startswith("read votes.csv as a Spark frame")
    assert not any(word in done.stderr for word in ("WARN", "log4j", "Spark's", "spark.", "setLogLevel"))


ACCEPTED = [
    "local",
    "local[2]",
    "local[*]",
    "local[ 4 , 3 ]",
    "local-cluster[2, 1, 512]",
    "yarn",
    "k8s://https://h:443",
    "mesos://h",
]
REFUSED = [
    *["", "foo", "local[", "local[x]", "local[0]", "local[2", "Local", "spark://", "spark://host", "spark://:7077", "spark://h:"],
    *[
        "spark://h:0",
        "spark://h:65536",
        "spark://h:7077,",
        "spark://h:7077,g",
        "k8s://",
        "http://h:80",
        "local-cluster[2]",
        "yarn ",
    ],
]


@pytest.mark.parametrize("name", ACCEPTED)
def test_masters_that_spark_knows(name):
    check_master(name)


@pytest.mark.parametrize("name", REFUSED)
def test_masters_that_are_none(name):
    with pytest.raises(OptionError, match="is no master: give local.N., spark://HOST:PORT, yarn or k8s://HOST:PORT"):
        check_master(name)


def test_spark_connect_is_not_a_master():
    with pytest.raises(InputError, match="sc://h:15002 is a server of Spark Connect, which lends no executors: give local"):
        check_master("sc://h:15002")


def test_a_master_is_asked_for_a_connection(monkeypatch):
    with closing(socket.create_server(("127.0.0.1", 0))) as there:
        port = there.getsockname()[1]
        check_master(f"spark://127.0.0.1:{port}")
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")  # of several one is enough
    with pytest.raises(AdjudgeError, match=f"no Spark master at spark://127.0.0.1:{port}: connection refused"):
        check_master(f"spark://127.0.0.1:{port}")
    with pytest.raises(AdjudgeError, match="^no Spark master at spark://nowhere.invalid:7077: ") as caught:
        check_master("spark://nowhere.invalid:7077")
    assert "\n" not in str(caught.value)

    def silent(address, timeout):
        raise TimeoutError(timeout)

    monkeypatch.setattr(master.socket, "create_connection", silent)
    with pytest.raises(AdjudgeError, match="no Spark master at spark://h:1: no answer within 5 seconds"):
        check_master("spark://h:1")


def test_a_wrong_master_takes_no_time_in_python(no_spark):
    from adjudge.spark.engine import SparkEngine

    start = time.monotonic()
    for source in ("votes.csv", VOTES):
        with pytest.raises(AdjudgeError, match="no Spark master at spark://127.0.0.1:1: connection refused"):
            adj.aggregate(source, engine=SparkEngine(master="spark://127.0.0.1:1"))
    assert time.monotonic() - start < 5
