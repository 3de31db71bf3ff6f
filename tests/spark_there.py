"""Whether Spark can run here."""

import os
import shutil


def missing():
    """What is not there to run Spark, in words; None when all is."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "pyspark is not installed: pip install 'quorate[spark]'"
    java = shutil.which("java") or os.environ.get("JAVA_HOME")
    return None if java else "there is no Java: install Java 17, or set JAVA_HOME"
