"""Checks an installed adjudge: the compiled core, the contract of models and engines, a small fit, and the command line.

Run it with `python -I` in an empty folder, so that no checkout is imported. `--without-core` expects the reference kernels.
"""

import os
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import adjudge as adj

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.append(str(CHECKOUT / "tests"))

import contract  # noqa: E402

VOTES = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]


def main() -> None:
    package = Path(str(adj.__file__)).resolve()
    assert CHECKOUT / "src" not in package.parents, f"{package} is in the checkout: install the wheel"
    has_core = find_spec("adjudge._core") is not None
    assert has_core != ("--without-core" in sys.argv), "compiled core found" if has_core else "no compiled core"

    warnings.simplefilter("ignore")  # the random votes of the contract look suspicious
    cpu = "cpu" if has_core else "reference"
    contract.check("fds", cpu)
    contract.check("ds", cpu)
    if os.name != "nt":
        contract.check("fds", "disk")
    labels = adj.aggregate(VOTES, model="fds").labels.sort("task")["label"].to_list()
    assert labels == ["cat", "dog"], labels

    command = [sys.executable, "-I", "-m", "adjudge", "demo", "--keep", "demo"]
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert Path("demo", "report.html").stat().st_size > 0
    print(f"adjudge {adj.__version__} works here, {'compiled' if has_core else 'on the reference kernels'}")


if __name__ == "__main__":
    main()
