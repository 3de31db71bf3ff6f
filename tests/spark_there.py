"""Whether Spark can run here."""

import os
import shutil
from pathlib import Path

CONF = Path(__file__).parent / "spark" / "conf"  # settings that let the JVMs of Spark start sooner
# What they give to Java, for the JVMs that Spark starts before it reads them.
JAVA = next(
    line.split(maxsplit=1)[1]
    for line in (CONF / "spark-defaults.conf").read_text().splitlines()
    if line.startswith("spark.driver")
)


def missing():
    """What is not there to run Spark, in words; None when all is."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "pyspark is not installed: pip install 'adjudge[spark]'"
    java = shutil.which("java") or os.environ.get("JAVA_HOME")
    return None if java else "there is no Java: install Java 17, or set JAVA_HOME"
