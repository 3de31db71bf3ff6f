"""The drop-in with a pandas of two years ago, which `make test` puts in front of the other packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLD = ROOT / "build" / "old-pandas"
TESTS = ("test_answers.py", "test_metrics.py")


@pytest.mark.skipif(not (OLD / "pandas").is_dir(), reason="no old pandas here: make test installs one")
def test_answers_are_the_same_with_an_old_pandas():
    given = {**os.environ, "PYTHONPATH": os.pathsep.join([str(OLD), os.environ.get("PYTHONPATH", "")])}
    version = subprocess.run(
        [sys.executable, "-c", "import pandas; print(pandas.__version__)"], check=False, env=given, capture_output=True, text=True
    )
    assert version.stdout.startswith("2.2."), version
    paths = [str(Path(__file__).with_name(name)) for name in TESTS]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *paths],
        check=False,
        env=given,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stdout[-3000:]
