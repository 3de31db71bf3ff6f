"""The page of the GPU engine: what benchmarks/gpu.py has measured, in tables and a picture, whichever sizes there are."""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
KINDS = ("hard, changes counted", "hard, everything counted", "soft", "m-step")


@pytest.fixture(scope="module")
def page():
    """The module, which imports some of benchmarks/race and leaves nothing behind."""
    before, paths = set(sys.modules), list(sys.path)
    sys.path[:0] = str(BENCHMARKS), str(BENCHMARKS / "race")
    try:
        yield importlib.import_module("gpu_page")
    finally:
        sys.path[:] = paths
        for name in set(sys.modules) - before:
            if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


def line(votes, workers, **of_threads):
    return {"votes": votes, "workers": workers, "floor": votes / 1e9, "cuda": dict.fromkeys(KINDS, votes / 2e8), **of_threads}


def found(passes=(), fits=(), encoding=None):
    return {
        "device": "A device",
        "machine": "a machine",
        "bandwidth": 4e12,
        "passes": list(passes),
        "fits": list(fits),
        "encoding": encoding or {},
    }


FULL = found(
    [
        line(10**8, 20_000, **{"2 threads": {"soft": 100.0}, "16 threads": {"soft": 20.0}}),
        line(10**9, 20_000),
        line(10**9, 1_000_000),
    ],
    [
        {"votes": 10**8, "cuda": {"fds": (9.0, 4)}, "16 threads": {"fds": (90.0, 4)}},
        {"votes": 10**9, "cuda": {"fds": (50.0, 4), "ds": (2000.0, 9)}},
    ],
    {"int64": 0.5},
)


def test_largest_size_beside_what_was_wanted(page):
    table = page.passes_table(FULL["passes"]).splitlines()
    assert (
        table[0]
        == "| 1 billion votes, ms | 20 thousand workers | wanted | times the floor | 1 million workers | wanted | times the floor |"
    )
    assert table[2] == "| hard, changes counted | 5.0 | 6 | 5.0 | 5.0 | 8.5 | 5.0 |"
    assert "| m-step | 5.0 | – | – | 5.0 | – | – |" in table
    assert "wanted" not in page.passes_table(FULL["passes"][:1])  # which is for a billion votes


def test_the_most_threads_come_first(page):
    text = page.ratios_table(FULL["passes"])
    assert "| times as fast as 16 threads | 100 million votes |\n| --- | --- |\n| soft | 40.0 |\n\n| times as fast as 2" in text


def test_fits_and_encoding(page):
    assert "| 1 billion | `ds` | 9 | 2\u2009000 | – | – |" in page.fits_table(FULL["fits"])
    assert page.encoding_table(FULL).endswith("| int64 | 500 | 2\u2009000 |")
    assert "| `fds` | 50.0 ms | 9.0 ms | 90.0 ms |\n| `ds` | 2.0 s | – | – |" in page.short_block(FULL)


@pytest.mark.parametrize("some", [found(), found(FULL["passes"][:1]), found(fits=FULL["fits"][1:]), FULL], ids=range(4))
def test_any_part_of_the_figures(page, some, tmp_path, monkeypatch):
    pytest.importorskip("vl_convert", reason="pictures need adjudge[report]")
    for name in ("PAGE", "GUIDE"):
        copy = tmp_path / f"{name}.md"
        copy.write_text(getattr(page, name).read_text())
        monkeypatch.setattr(page, name, copy)
    page.write_page(some)
    once = page.PAGE.read_text()
    page.write_page(some)
    assert page.PAGE.read_text() == once
    assert (tmp_path / "passes.svg").exists() == bool(some["passes"] or some["fits"])
    assert "A device" in once
