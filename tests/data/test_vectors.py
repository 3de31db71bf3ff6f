"""Vectors in files do what arrays do, to the last bit, and use their files again."""

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.data import vectors
from adjudge.data.vectors import compute_into, dot, empty_like, max_abs, sum_of_chunks
from adjudge.engines.disk_files import VectorFiles
from adjudge.models import glad as ascent


@pytest.fixture
def short(monkeypatch):
    """Pieces of seven numbers."""
    monkeypatch.setattr(vectors, "VECTOR_CHUNK_NUMBERS", 7)


def filed(files, numbers):
    """These numbers as a vector in a file."""
    out = files.blank()
    compute_into(out, np.copy, numbers)
    return out


def read(vector):
    return vector[slice(0, len(vector))]


@given(numbers=st.lists(st.floats(-1e3, 1e3), max_size=40), seed=st.integers(0, 99))
def test_files_and_arrays_give_the_same_bits(numbers, seed, tmp_path_factory):
    files = VectorFiles(tmp_path_factory.mktemp("v"), len(numbers))
    a, b = np.array(numbers), np.random.default_rng(seed).normal(size=len(numbers))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "VECTOR_CHUNK_NUMBERS", 7)
        here, there = filed(files, a), filed(files, b)
        assert dot(here, there) == dot(a, b) == pytest.approx(a @ b, rel=1e-9, abs=1e-9)
        assert max_abs(here) == max_abs(a) == np.abs(a).max(initial=0.0)
        assert sum_of_chunks(np.square, here) == sum_of_chunks(np.square, a)
        out = empty_like(here)
        assert compute_into(out, lambda x, y: x - 2 * y, here, there, times=here) == dot(a - 2 * b, a)
        assert np.array_equal(read(out), a - 2 * b)
        compute_into(here, lambda x: x + 1, here)  # in its own place
        assert np.array_equal(read(here), a + 1)


def test_files_are_used_again_and_removed(tmp_path):
    files = VectorFiles(tmp_path, 5)
    kept = filed(files, np.arange(5.0))
    for _ in range(9):
        filed(files, np.zeros(5))
    assert files.made == 2
    assert np.array_equal(read(kept), np.arange(5.0))
    files.clear()
    assert [path.name for path in tmp_path.iterdir()] == [f"vector-{kept.number}"]


def test_a_vector_that_was_left_is_taken_up(tmp_path):
    files = VectorFiles(tmp_path, 5)
    others = [files.blank() for _ in range(2)]
    number = filed(files, np.arange(5.0)).number
    del others
    again = VectorFiles(tmp_path, 5)
    found = again.reopen(number)
    assert read(found).tolist() == [0, 1, 2, 3, 4]
    assert number not in {again.blank().number for _ in range(4)}
    with pytest.raises(adj.InputError, match="vector-2 has 40 bytes instead of 48: start again without resume"):
        VectorFiles(tmp_path, 6).reopen(number)
    with pytest.raises(adj.InputError, match="vector-7 has 0 bytes"):
        VectorFiles(tmp_path, 6).reopen(7)


def test_what_was_never_written_is_reported(tmp_path):
    with pytest.raises(adj.InputError, match="vector-0 is shorter than before"):
        read(VectorFiles(tmp_path, 5).blank())
    with pytest.raises(adj.AdjudgeError, match="cannot write .*: No such file or directory"):
        VectorFiles(tmp_path / "none", 5).blank()


def test_a_climb_is_the_same_in_files(tmp_path, short):
    """Many steps over a narrow ridge: every branch of L-BFGS, the same bits, and no more files than were promised."""
    n, rng = 30, np.random.default_rng(1)
    mixed = np.eye(n) + 0.3 * np.abs(rng.normal(size=(n, n))) / n
    hills = mixed @ np.diag(np.logspace(0, 3, n)) @ mixed.T

    def at(x):
        plain = read(x)
        slope, curvature = empty_like(x), empty_like(x)
        compute_into(slope, np.copy, -hills @ plain - 4 * plain**3)
        compute_into(curvature, np.copy, np.diag(hills) + 12 * plain**2)
        return ascent.Point(x, -0.5 * float(plain @ hills @ plain) - float((plain**4).sum()), slope, curvature)

    start, files = rng.normal(0, 30, n), VectorFiles(tmp_path, n)
    tops = [ascent.climb(at, at(x), most_steps=60, share=0.0, least=1e-14) for x in (start, filed(files, start))]
    assert np.array_equal(read(tops[1].x), tops[0].x)
    assert tops[1].value == tops[0].value
    assert np.abs(tops[0].x).max() < 1e-5
    gc.collect()
    assert files.made <= 25  # what engines/memory.py foresees
