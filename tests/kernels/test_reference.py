"""The reference pass where a fit never leads: impossible votes, empty input, ties within tolerance."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import oracle
from adjudge.kernels import reference as ref

INF = np.inf


def run(row, table, log_prior, ptr=None, **options):
    row, table = np.array(row, np.uint32), np.array(table, float)
    ptr = np.array([0, len(row)] if ptr is None else ptr)
    tasks, k = len(ptr) - 1, table.shape[1]
    out = {"labels": np.zeros(tasks, np.int32), "posterior": np.zeros((tasks, k)), "tie": np.zeros(tasks, bool)}
    keys, names = np.arange(tasks, dtype=np.uint64), np.arange(k, dtype=np.uint64)
    with np.errstate(divide="ignore"):
        sums = ref.em_pass(ptr, row, table, np.log(log_prior), keys, names, hard=False, by_prior=False, **out, **options)
    return sums, out


def test_fewest_impossible_votes_win_then_the_finite_part():
    table = [[-INF, -1.0, -INF], [-INF, -INF, -2.0], [-1.0, -INF, -3.0]]
    # label 0: two impossible; label 1: two; label 2: one
    sums, out = run([0, 1, 2], table, [0.3, 0.3, 0.4])
    assert sums.impossible == 1
    assert sums.log_likelihood == -INF
    assert out["labels"][0] == 2
    assert out["posterior"][0].tolist() == [0.0, 0.0, 1.0]


def test_a_label_with_prior_zero_stays_out():
    _, out = run([0], [[-INF, -INF]], [0.0, 1.0])
    assert out["posterior"][0].tolist() == [0.0, 1.0]


def test_equal_impossible_votes_share_by_the_finite_part():
    _, out = run([0, 1], [[-INF, -1.0], [-2.0, -INF]], [0.5, 0.5])
    assert np.isfinite(out["posterior"]).all()
    assert np.isclose(out["posterior"][0, 1] / out["posterior"][0, 0], np.e)


def test_scores_within_the_tolerance_are_tied():
    for gap, tied in ((0.5e-9, True), (2e-9, False)):
        _, out = run([0], [[-0.5, -0.5 - gap]], [0.5, 0.5])
        assert out["tie"][0] == tied


def test_no_tasks():
    sums, _ = run([], np.zeros((0, 2)), [0.5, 0.5], ptr=[0])
    assert sums == (0.0, 0.0, 0, 0)


@given(st.lists(st.text(), unique=True, max_size=20))
def test_hash_is_the_documented_one(texts):
    encoded = [t.encode() for t in texts]
    offsets = np.cumsum([0, *map(len, encoded)])
    hashed = ref.hash_texts(offsets, np.frombuffer(b"".join(encoded), np.uint8))
    assert hashed.tolist() == [oracle.text_hash(t) for t in texts]
    keys = ref.tie_keys(hashed, 5)
    assert keys.tolist() == [oracle.mix(oracle.text_hash(t) ^ oracle.mix(5)) for t in texts]
