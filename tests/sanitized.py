"""Runs the contract and the core's own tests on a sanitized build of the core; `make sanitize` makes and names it."""

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def main(folder):
    [path] = Path(folder).glob("_core*.so")
    spec = importlib.util.spec_from_file_location("quorate._core", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["quorate._core"] = module
    places = [
        "test_contract.py",
        "kernels/test_cpu.py",
        "kernels/test_cpu_glad.py",
        "io/test_core_encode.py",
        "io/test_sources.py",
    ]
    sys.exit(pytest.main([*(str(HERE / place) for place in places), "-k", "not duckdb", "-x"]))


if __name__ == "__main__":
    main(sys.argv[1])
