"""Spark in this process, started once; without Java or pyspark these tests skip."""

import os
import sys
import warnings

import pytest

from spark_there import missing

WITHOUT_JAVA = {
    "test_before_java.py",
    "test_blocks.py",
    "test_errors.py",
    "test_parts.py",
    "test_stream_state.py",
}  # what needs no Spark to be tested

os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def pytest_collection_modifyitems(items):
    why = missing()
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))  # py4j leaves sockets to the collector
            if why and item.path.name not in WITHOUT_JAVA:
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def spark():
    """A Spark session on two threads of this machine, on the loopback address alone."""
    if why := missing():
        pytest.skip(why)
    from adjudge.spark import session as spark

    running = spark.session("local[2]")
    running.sparkContext.setLogLevel("OFF")  # errors are made on purpose here
    running.conf.set("spark.sql.shuffle.partitions", "2")
    yield running
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        running.stop()


@pytest.fixture
def engine():
    """Spark over three partitions, however few the votes."""
    from adjudge.spark.engine import SparkEngine

    return SparkEngine(partitions=3)


@pytest.fixture
def frame_of(spark):
    """frame_of(source): any table of votes as a Spark frame."""
    import polars as pl

    from adjudge.spark.session import to_spark

    def make(source, **schema):
        frame = (
            source if isinstance(source, pl.DataFrame) else pl.DataFrame(source, schema=["task", "worker", "label"], orient="row")
        )
        return to_spark(frame, spark)

    return make
