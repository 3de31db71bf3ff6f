"""The guard over instruction counts: what is worse is named, what was recorded is whole."""

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def guard(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "instructions", raising=False)
    import instructions

    return instructions


def test_worse_is_named(guard, capsys):
    recorded = {"soft": {"baseline": 10.0, "avx2": 5.0}, "gone": {"avx2": 1.0}}
    assert guard.compared(recorded, {"soft": {"baseline": 10.9, "avx2": 5.6}, "new": {"avx2": 1.0}}) == [
        "gone (avx2)",
        "soft (avx2)",
    ]
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] == "<-" for line in shown if line.startswith("soft")] == [False, True]


def test_every_kernel_is_recorded(guard):
    from instructions_driver import KERNELS, SETS

    recorded = json.loads(guard.RECORDED.read_text())["per_vote"]
    assert recorded.keys() == KERNELS.keys()
    assert all(set(SETS) == of.keys() and min(of.values()) > 0 for of in recorded.values())


def test_kernels_run(guard):
    pytest.importorskip("adjudge._core")
    from instructions_driver import KERNELS, prepared

    for name, run in KERNELS.items():
        run(prepared(name, 400))


def test_missing_valgrind_is_reported(guard, monkeypatch):
    monkeypatch.setattr(guard.shutil, "which", lambda _: None)
    with pytest.raises(SystemExit, match="valgrind is missing"):
        guard.main()
