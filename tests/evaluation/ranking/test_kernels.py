"""The compiled passes over comparisons agree with their definitions in NumPy, and refuse arrays that do not fit."""

import numpy as np
import pytest

import adjudge as adj
from adjudge.errors import InputError
from adjudge.evaluation.ranking import fit as of_fit
from adjudge.evaluation.ranking.simulate import simulate_comparisons
from adjudge.evaluation.ranking.tournament import Tournament
from adjudge.kernels import cpu, ranking_reference
from adjudge.kernels.ranking_reference import RankModel

needs_core = pytest.mark.skipif(cpu.compiled() is None, reason="the compiled core was not built")
PLACES = {  # where parameters begin, of 7 items and 4 judges
    "strengths": (-1, 0, -1, 7),
    "position": (7, 0, -1, 8),
    "judges": (-1, 0, 7, 11),
    "both": (8, 1, 12, 16),
}


def drawn(rows, styles=0, seed=0, judges=4):
    rng = np.random.default_rng(seed)
    left = rng.integers(0, 7, rows)
    right = (left + rng.integers(1, 7, rows)) % 7
    style = rng.normal(size=(rows, styles)) if styles else None
    outcome = rng.choice([0.0, 0.5, 1.0], rows)
    t = Tournament.of(left, right, outcome, rng.integers(0, judges, rows), items=7, judges=judges, style=style)
    model = RankModel(rng.normal(size=7), rng.normal(1, 0.3, judges), rng.normal(size=judges), rng.normal(size=styles))
    return t, model


def passes(kernels, t, model, places, threads):
    chance, told = np.empty(len(t)), np.empty(t.judges)
    likelihood = kernels.rank_chances(*t.rows, *model, chance=chance, told=told, threads=threads)
    by_item, by_judge, by_style = np.empty(t.items), np.empty((t.judges, 2)), np.empty(t.styles)
    variance = np.linspace(0.1, 0.5, t.judges)
    out = {"by_item": by_item, "by_judge": by_judge, "by_style": by_style}
    kernels.rank_slopes(*t.rows, *model, chance=chance, variance=variance, **out, threads=threads)
    position, step, scale, end = places
    matrix = np.empty((end + t.styles,) * 2)
    at = {"at_position": position, "step": step, "at_scale": scale, "at_style": end if t.styles else -1}
    kernels.rank_information(*t.rows, *model, weight=t.count * chance * (1 - chance), **at, matrix=matrix, threads=threads)
    return likelihood, chance, told, by_item, by_judge, by_style, matrix


@needs_core
@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize(("rows", "styles"), [(0, 0), (1, 0), (500, 0), (500, 2), (150_000, 1)])
def test_compiled_passes_are_the_reference(rows, styles, places):
    t, model = drawn(rows, styles)
    wanted = passes(ranking_reference, t, model, places, 1)
    for threads in (1, 3):
        for one, other in zip(passes(cpu.compiled(), t, model, places, threads), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * max(rows, 1))


@needs_core
def test_results_do_not_depend_on_threads():
    t, model = drawn(200_000, 1, seed=1)
    one, other = (passes(cpu.compiled(), t, model, PLACES["both"], threads) for threads in (1, 4))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@needs_core
def test_many_equal_comparisons_and_certain_ones_have_a_finite_likelihood():
    model = RankModel(np.array([400.0, -400.0, 0.0]), np.ones(1), np.zeros(1), np.zeros(0))
    t = Tournament(
        3, 1, *(np.array([0, 0, 1]), np.array([1, 2, 2])), np.zeros(3, np.int64), *np.full((3, 3), 1e6), np.zeros((3, 0))
    )
    found = [
        kernels.rank_chances(*t.rows, *model, chance=np.empty(3), told=np.empty(1))
        for kernels in (cpu.compiled(), ranking_reference)
    ]
    assert np.isfinite(found[0])
    assert found[0] == pytest.approx(found[1], rel=1e-12)


@needs_core
def test_arrays_that_do_not_fit_are_refused():
    t, model = drawn(10)
    rows = t.rows
    for wrong, message in (
        ((rows._replace(left=rows.left + 7), model), "a code beyond the items or judges"),
        ((rows._replace(judge=rows.judge - 5), model), "a code beyond the items or judges"),
        ((rows._replace(comparisons=rows.comparisons[1:]), model), "arrays of comparisons do not fit"),
        ((rows, model._replace(position=np.zeros(1))), "arrays of the model do not fit"),
    ):
        with pytest.raises(ValueError, match=message):
            cpu.compiled().rank_chances(*wrong[0], *wrong[1], chance=np.empty(len(t)), told=np.empty(4))
    with pytest.raises(ValueError, match="the matrix has no room"):
        cpu.compiled().rank_information(
            *rows, *model, weight=rows.comparisons, at_position=8, step=1, at_scale=12, at_style=-1, matrix=np.empty((15, 15))
        )


@needs_core
def test_a_ranking_without_the_core_is_the_same(monkeypatch):
    table = simulate_comparisons(items=6, comparisons=400, judges=3, position=0.3, length_effect=0.4, seed=1).comparisons
    compiled = adj.rank(table, covariates="length")
    monkeypatch.setattr(of_fit, "ranking_kernels", lambda: ranking_reference)
    defined = adj.rank(table, covariates="length")
    np.testing.assert_allclose(compiled.fitted.parameters, defined.fitted.parameters, atol=1e-8)
    np.testing.assert_allclose(compiled.standard_error, defined.standard_error, rtol=1e-7)


def test_covariates_keep_every_comparison_apart():
    t = Tournament.of([0, 0], [1, 1], [1, 1], style=[[0.5], [0.5]])
    assert (len(t), t.styles, t.rows_of(np.zeros(2), np.ones(2), np.zeros(2)).tolist()) == (2, 1, [0, 1])
    with pytest.raises(InputError, match="another number than 1"):
        Tournament.of([0], [1], [np.nan])
