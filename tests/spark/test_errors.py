"""Spark's pages of errors become one line; so does a missing Spark."""

import sys

import pytest

import adjudge as adj
from adjudge.errors import AdjudgeError, InputError, OptionError
from adjudge.spark.session import plain_errors


class PythonException(Exception):  # noqa: N818
    __module__ = "pyspark.errors.exceptions.captured"


class AnalysisException(Exception):  # noqa: N818
    __module__ = "pyspark.errors.exceptions.captured"


class Java:
    """A Java exception, as py4j shows it."""

    def __init__(self, message, cause=None):
        self.message, self.cause = message, cause

    def getMessage(self):  # noqa: N802
        return self.message

    def toString(self):  # noqa: N802
        return "java.lang.Thing"

    def getCause(self):  # noqa: N802
        return self.cause


class Py4JJavaError(Exception):
    __module__ = "py4j.protocol"

    def __init__(self, java):
        super().__init__("An error occurred while calling o1.collect.\nmore")
        self.java_exception = java


TRACEBACK = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in main
    import {module}
ModuleNotFoundError: No module named '{module}'
 SQLSTATE: 38000
"""
CASES = [
    (PythonException(TRACEBACK.format(module="adjudge")), "^it failed: the executors' Python has no adjudge; install"),
    (PythonException(TRACEBACK.format(module="pyarrow")), "^it failed: the executors' Python has no pyarrow; install"),
    (PythonException(TRACEBACK.format(module="other")), "^it failed: ModuleNotFoundError: No module named 'other'$"),
    (AnalysisException("[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03\n;"), "^it failed: Path does not exist: x.$"),
    (Py4JJavaError(Java("Job aborted", Java("outer", Java("[DISK.FULL] no space left")))), "^it failed: no space left$"),
    (Py4JJavaError(Java(None)), "^it failed: java.lang.Thing$"),
    (Py4JJavaError(None), "^it failed: An error occurred"),
    (AnalysisException("[JAVA_GATEWAY_EXITED] Java gateway process exited"), "^it failed: Java did not start; install Java 17"),
]


@pytest.mark.parametrize(("error", "message"), CASES, ids=range(len(CASES)))
def test_one_line(error, message):
    with pytest.raises(AdjudgeError, match=message) as caught, plain_errors("it failed"):
        raise error
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, InputError) == ("does not exist" in message)


def test_errors_of_others_pass():
    with pytest.raises(KeyError), plain_errors("it failed"):
        raise KeyError("x")


def test_without_pyspark(monkeypatch):
    for name in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(AdjudgeError, match=r"Spark is not installed .*: pip install 'adjudge\[spark\]', and install Java 17"):
        adj.aggregate("votes.csv", engine="spark")
    with pytest.raises(AdjudgeError, match="Spark is not installed"):
        adj.aggregate([("t", "w", "x")], engine="spark")


class DataFrame:
    """A frame of pandas on Spark: the module that has it wants an old pandas."""

    __module__ = "pyspark.pandas.frame"

    def __getattr__(self, name):
        raise AttributeError(name)

    def __len__(self):
        raise AssertionError("counted by Spark")

    def __iter__(self):
        raise AssertionError("it would yield the names of columns")


@pytest.mark.parametrize("ask", [adj.read, adj.aggregate, adj.agreement, lambda frame: adj.evaluate(frame, {"t": "x"})])
def test_pandas_on_spark(ask):
    with pytest.raises(InputError, match=r"^this is a frame of pandas on Spark: give its to_spark\(\), or its to_pandas\(\)"):
        ask(DataFrame())


def test_pandas_on_spark_for_every_engine():
    for options in ({"engine": "spark"}, {"engine": "disk"}, {"multi": True}, {"gold": DataFrame()}):
        source = [("t", "w", "x")] if "gold" in options else DataFrame()
        with pytest.raises(InputError, match="^this is a frame of pandas on Spark"):
            adj.aggregate(source, **options)


@pytest.mark.parametrize("setting", ["partitions", "blocks"])
@pytest.mark.parametrize("value", [0, -1, 1.5])
def test_numbers_of_partitions_and_blocks_are_checked(setting, value):
    with pytest.raises(OptionError, match=f"{setting} is {value}: give a whole number of at least 1"):
        adj.Spark(**{setting: value})
