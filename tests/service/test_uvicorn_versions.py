"""The service builds on uvicorn's protocol class: it is tested with the oldest and the newest version that is allowed."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import uvicorn

ROOT = Path(__file__).parents[2]
OLD = ROOT / "build" / "old-uvicorn"
FILES = ("test_fast_votes.py", "test_connections.py", "test_streaming.py", "test_feed.py")


def allowed():
    """The oldest version that is allowed, and the first one that is not."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    ranges = {text for extra in ("serve", "dev") for text in extras[extra] if text.startswith("uvicorn")}
    assert len(ranges) == 1
    return re.fullmatch(r"uvicorn>=([\d.]+),<([\d.]+)", ranges.pop()).groups()


def test_the_newest_version_is_the_one_in_use():
    """All tests run with it; install a newer one before raising the limit."""
    minor = [int(part) for part in uvicorn.__version__.split(".")[:2]]
    assert f"{minor[0]}.{minor[1] + 1}" == allowed()[1]


def test_the_oldest_version_works():
    if not (OLD / "uvicorn").is_dir():
        pytest.skip("build/old-uvicorn is not there: make test installs it")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(OLD), os.environ.get("PYTHONPATH", "")])}
    version = [sys.executable, "-c", "import uvicorn; print(uvicorn.__version__)"]
    found = subprocess.run(version, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert found.startswith(allowed()[0])
    files = [f"tests/service/{name}" for name in FILES]
    # Streams of 200,000 lines do not depend on the version.
    command = [sys.executable, "-m", "pytest", "-x", "-k", "not everything_before", *files]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout[-5000:]
