import numpy as np
import pytest

from adjudge.models.glad import Point, climb


def hill(value, slope, curvature):
    return lambda x: Point(x, value(x), slope(x), curvature(x))


def top_of(at, start, steps=200):
    return climb(at, at(np.array(start)), most_steps=steps, share=0.0, least=1e-14)


def test_a_ridge_of_unequal_slopes():
    A = np.array([[2.0, 1.9], [1.9, 2.0]]) * [[1e4, 1e2], [1e2, 1.0]]
    at = hill(lambda x: -0.5 * float(x @ A @ x), lambda x: -A @ x, lambda x: np.diag(A).copy())
    assert top_of(at, [3.0, -7.0]).x == pytest.approx([0, 0], abs=1e-6)


def test_rosenbrock_where_the_curvatures_know_little():
    at = hill(
        lambda x: -float((1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2),
        lambda x: np.array([2 * (1 - x[0]) + 400 * x[0] * (x[1] - x[0] ** 2), -200 * (x[1] - x[0] ** 2)]),
        lambda x: np.array([2 + 1200 * x[0] ** 2, 200.0]),
    )
    assert top_of(at, [-1.2, 1.0]).x == pytest.approx([1, 1], abs=1e-5)


def test_a_step_that_would_fall_or_overflow_is_never_taken():
    seen = []

    def value(x):
        with np.errstate(over="ignore"):
            seen.append(float(x[0] - np.exp(30 * x[0])))
        return seen[-1]

    at = hill(value, lambda x: 1 - 30 * np.exp(np.minimum(30 * x, 700)), lambda x: np.full(1, 1e-3))
    start = at(np.array([-20.0]))
    found = climb(at, start, most_steps=50, share=0.0, least=1e-14)
    assert found.value >= start.value
    assert found.x[0] == pytest.approx(-np.log(30) / 30, abs=1e-6)
    assert min(seen) < start.value, "the search met worse points, and left them"


def test_at_the_top_nothing_moves():
    at = hill(lambda x: -float(x @ x), lambda x: -2 * x, lambda x: np.full(len(x), 2.0))
    start = at(np.zeros(3))
    assert climb(at, start, most_steps=9, share=0.1, least=0.0) is start
