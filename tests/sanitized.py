"""Runs tests on a sanitized build of the core; `make sanitize` makes it, and names its folder and the sanitizer.

Under `address` these are the contract and the core's own tests; under `thread` it is many threads in the core at once. A
report of a sanitizer ends the process with an error.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = [
    "evaluation/test_contract.py",
    "evaluation/scores/test_scores.py",
    "kernels/test_cpu.py",
    "kernels/test_cpu_glad.py",
    "kernels/test_messages.py",
    "io/test_core_encode.py",
    "io/test_plain_text.py",
    "io/test_sources.py",
    "io/test_container.py",
    "test_online.py",
    "test_online_changes.py",
    "test_online_evict.py",
    "test_online_state.py",
    "test_threads.py",
]


def main(folder, sanitizer):
    [path] = Path(folder).glob("_core*.so")
    spec = importlib.util.spec_from_file_location("adjudge._core", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["adjudge._core"] = module
    if sanitizer == "thread":
        import core_stress

        core_stress.main(module)
        print("many threads at once: ThreadSanitizer has nothing to report")
        return
    sys.exit(pytest.main([*(str(HERE / name) for name in TESTS), "-k", "not duckdb", "-x"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
