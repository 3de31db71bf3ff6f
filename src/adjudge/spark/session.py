"""Spark sessions, frames in and out, stored RDDs, and errors in one line. Only this module imports pyspark."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import polars as pl

from adjudge.errors import AdjudgeError, InputError
from adjudge.spark.garbage import spare_loaded
from adjudge.spark.master import check_master

Frame = Any  # a Spark frame: pyspark is optional, so its types are not named
START_FAILED: Final = "cannot start Spark"
JAVA: Final = "install Java 17 and set JAVA_HOME to it"
SQL_TYPE: Final = {pl.String(): "string", pl.Int64(): "bigint", pl.Boolean(): "boolean", pl.Float64(): "double"}
# The polars type of an empty column, by the name of its Spark type.
DTYPE_OF_SPARK_TYPE: Final = {
    **{name: pl.Int64() for name in ("byte", "short", "integer", "long")},
    **{name: pl.String() for name in ("string", "varchar", "char")},
    "boolean": pl.Boolean(),
    "double": pl.Float64(),
}


@contextmanager
def _require_spark() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise AdjudgeError(f"Spark is not installed ({error}): pip install 'adjudge[spark]', and install Java 17") from error


@contextmanager
def _no_word_on_pandas() -> Iterator[None]:
    """Suppress pyspark's warning about the version of pandas, which is not used."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def functions() -> Any:
    """Return the module of Spark's functions on columns."""
    with _require_spark():
        from pyspark.sql import functions as found
    return found


def storage(level: str) -> Any:
    """Return a storage level of Spark by its name."""
    with _require_spark():
        from pyspark import StorageLevel
    return getattr(StorageLevel, level)


def session(master: str | None = None, *, quiet: bool = False) -> Any:
    """Return the running Spark session, or a new one: at `master`, or where the environment says (spark-submit).

    A session on this machine alone listens on no other than the loopback address, and shows no web page. `quiet` keeps
    what Java and Spark log off the screen: what goes wrong is then known from the errors that are raised.
    """
    if master is not None:
        check_master(master)
    with _require_spark():
        from pyspark.sql import SparkSession
    running = SparkSession.getActiveSession()
    if running is None or master is not None:
        running = _start(master, quiet)
    if quiet:
        running.sparkContext.setLogLevel("FATAL")
    return running


def _start(master: str | None, quiet: bool) -> Any:
    from pyspark.sql import SparkSession

    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit sets it, and knows the master
        master = "local[*]"
    settings = {"spark.app.name": "adjudge", "spark.ui.showConsoleProgress": "false"}
    if os.name == "posix":  # over TCP, Java and Python wait up to 40 ms for each other's acknowledgements, twice per task
        settings["spark.python.unix.domain.socket.enabled"] = "true"
    if master is not None:
        settings["spark.master"] = master
    if re.match(r"local|spark://(127\.|localhost)", master or ""):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings |= dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1")
        settings["spark.ui.enabled"] = "false"
    with plain_errors(START_FAILED if master is None else f"{START_FAILED} at {master}"), _no_word_on_pandas():
        if quiet:
            _launch(settings)
        builder: Any = SparkSession.builder
        return builder.config(map=settings).getOrCreate()


def _launch(settings: dict[str, str]) -> None:
    """Start Java, unless it runs, with its output in a file; if it does not start, the output is the reason."""
    from pyspark import SparkConf, SparkContext, java_gateway

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    with tempfile.TemporaryFile() as said:
        try:
            launch: Any = java_gateway.launch_gateway
            gateway = launch(SparkConf().setAll(list(settings.items())), {"stderr": said})
        except Exception as error:
            said.seek(0)
            reason = _last_words(said.read().decode(errors="replace"))
            if reason is None:
                raise
            raise AdjudgeError(f"{START_FAILED}: {reason}") from error
        SparkContext._ensure_initialized(gateway=gateway)


def _last_words(text: str) -> str | None:
    """Return the line of Java's output that explains why it did not start; None if there is none.

    >>> _last_words('Exception in thread "main" org.apache.spark.SparkException: No such thing.')
    'No such thing.'
    """
    found = re.search(r"org\.apache\.spark\.[\w.]*(?:Exception|Error): (.*)", text)
    if found is not None:
        return re.sub(r"^\[[A-Z_.0-9]+\] ", "", found[1]).strip()[:300]
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
    first = re.sub(r"^.*: line [0-9]+: ", "", lines[0]) if lines else ""  # of a shell: without the name of its script
    return f"Java did not start ({first[:200]}); {JAVA}" if lines else None


def map_arrow(frame: Frame, function: Callable[[Iterator[Any]], Iterator[Any]], schema: str) -> Frame:
    """Return the frame that a function makes of the record batches of each partition."""
    with _no_word_on_pandas():
        return frame.mapInArrow(function, schema)


def gather(frame: Frame) -> pl.DataFrame:
    """Return a small Spark frame as a polars frame on the driver."""
    # Columns by position: Spark reads a name with dots as a path to a field.
    plain = frame.toDF(*(f"c{n}" for n in range(len(frame.columns))))
    parts = map_arrow(plain, _to_bytes, "part binary").collect()
    names = dict(zip(plain.columns, frame.columns, strict=True))
    return pl.concat([pl.read_ipc(bytes(row[0])).rename(names) for row in parts]) if parts else empty_like(frame)


def empty_like(frame: Frame) -> pl.DataFrame:
    """Return an empty polars frame with the columns of a Spark frame."""
    return pl.DataFrame(
        schema={field.name: DTYPE_OF_SPARK_TYPE.get(field.dataType.typeName(), pl.Null()) for field in frame.schema.fields}
    )


def to_spark(frame: pl.DataFrame, spark: Any) -> Frame:
    """Return a polars frame as a Spark frame."""
    schema = ", ".join(f"{sql_name(name)} {SQL_TYPE[dtype]}" for name, dtype in frame.schema.items())
    return frame_of(spark.sparkContext.parallelize([ipc(frame)], 1), schema, spark)


def frame_of(parts: Any, schema: str, spark: Any) -> Frame:
    """Return the Spark frame of an RDD whose items are Arrow files in bytes."""
    return map_arrow(spark.createDataFrame(parts.map(_line), "part binary"), _from_bytes, schema)


def partition_of(key: Any) -> int:
    """Return the partition of a key, which is its number; a union of RDDs partitioned by this function is narrow."""
    return int(key)


def serialized_like(rdd: Any, other: Any) -> Any:
    """Return an RDD with the serializer of another, so that a union of both copies neither."""
    return rdd._reserialize(other._jrdd_deserializer)


def store(rdd: Any) -> None:
    """Store an RDD when it is first computed, and cut its lineage.

    It is stored in the checkpoint directory, if one is set. Otherwise it is stored on two executors, if there are two, so
    that one may die.
    """
    context = rdd.ctx
    if context.getCheckpointDir() is not None:
        rdd.persist(storage("DISK_ONLY"))
        rdd.checkpoint()
        return
    several = context._jsc.sc().getExecutorMemoryStatus().size() > 2  # the driver is one of them
    rdd.persist(storage("DISK_ONLY_2" if several else "DISK_ONLY"))
    rdd.localCheckpoint()


def drop_stored(rdd: Any) -> None:
    """Free an RDD that `store` has stored."""
    rdd.unpersist()
    file = rdd.getCheckpointFile()
    if file is not None and rdd.ctx.getCheckpointDir() is not None:
        path = rdd.ctx._jvm.org.apache.hadoop.fs.Path(file)
        path.getFileSystem(rdd.ctx._jsc.hadoopConfiguration()).delete(path, True)


def ipc(frame: pl.DataFrame, *, packed: bool = False) -> bytes:
    """Return a frame as the bytes of an Arrow file."""
    out = io.BytesIO()
    frame.write_ipc(out, compression="zstd" if packed else "uncompressed", compat_level=pl.CompatLevel.oldest())
    return out.getvalue()


def arrow_batches(frame: pl.DataFrame) -> list[Any]:
    """Return a frame as the record batches that Spark takes from a function."""
    batches: list[Any] = frame.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()
    return batches


def sql_name(name: str) -> str:
    """Return a column's name quoted for SQL.

    >>> sql_name("a.b`c")
    '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


@contextmanager
def plain_errors(what: str) -> Iterator[None]:
    """Turn an error of Spark into one line that begins with `what`."""
    try:
        yield
    except AdjudgeError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise _plain(error, what) from error


def _plain(error: Exception, what: str) -> AdjudgeError:
    text = str(error)
    if "No module named 'adjudge'" in text or "No module named 'pyarrow'" in text:
        missing = "adjudge" if "'adjudge'" in text else "pyarrow"
        return AdjudgeError(
            f"{what}: the executors' Python has no {missing}; install 'adjudge[spark]' there, and name that Python "
            "with PYSPARK_PYTHON or spark.pyspark.python"
        )
    if "JAVA_GATEWAY_EXITED" in text:
        return AdjudgeError(f"{what}: Java did not start; {JAVA}")
    if what.startswith(START_FAILED) and ("stopped SparkContext" in text or "All masters are unresponsive" in text):
        return AdjudgeError(f"{what}: the server at this address is not a Spark master of this version")
    if "Checkpoint block" in text:
        return AdjudgeError(
            f"{what}: executors died with both copies of their data; set a directory that outlives them with "
            "spark.sparkContext.setCheckpointDir(…)"
        )
    line = _reason(error)
    input_errors = ("AnalysisException", "ParseException", "IllegalArgumentException")
    return (InputError if type(error).__name__ in input_errors else AdjudgeError)(f"{what}: {line[:300]}")


def _reason(error: Exception) -> str:
    """Return the message of an error in one line: the last line of a Python traceback, or the innermost cause in Java."""
    text, java = str(error), getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if "Traceback (most recent call last)" in text:
        lines = [line for line in text.splitlines() if re.match(r"\w[\w.]*(Error|Exception)?: ", line)]
        return lines[-1] if lines else type(error).__name__
    while java is not None:
        text, java = java.getMessage() or java.toString(), java.getCause()
    line = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return re.sub(r"\s*SQLSTATE: \w+.*$", "", re.sub(r"^\[[A-Z_.0-9]+\] ", "", line)).strip()


def _to_bytes(batches: Iterator[Any]) -> Iterator[Any]:
    spare_loaded()
    for batch in batches:
        yield from arrow_batches(pl.DataFrame({"part": [ipc(pl.DataFrame(batch))]}))


def _line(part: bytes) -> tuple[bytearray]:
    return (bytearray(part),)


def _from_bytes(batches: Iterator[Any]) -> Iterator[Any]:
    spare_loaded()
    for batch in batches:
        for part in pl.DataFrame(batch)["part"]:
            yield from arrow_batches(pl.read_ipc(part))
