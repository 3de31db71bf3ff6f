"""Simulated tournaments: items of known strength, compared by judges of known reliability and position bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from adjudge.data import options
from adjudge.data.options import Number, Rules
from adjudge.evaluation.intervals import Floats, Integers

RULES: Final[Rules] = {
    "items": Number(least=2, most=1e7, whole=True),
    "comparisons": Number(least=1, most=1e9, whole=True),
    "prompts": Number(least=1, most=1e7, whole=True),
    "judges": Number(least=1, most=1e7, whole=True),
    "strength_spread": Number(least=0, most=100),
    "prompt_spread": Number(least=0, most=100),
    "reliability_spread": Number(least=0, most=100),
    "position": Number(least=-100, most=100),
    "position_spread": Number(least=0, most=100),
    "ties": Number(least=0, most=1),
    "length_effect": Number(least=-100, most=100),
    "seed": Number(least=0, whole=True),
}


@dataclass(frozen=True, eq=False)
class SimulatedTournament:
    """Comparisons, and what they were drawn from."""

    comparisons: pl.DataFrame  # left, right, winner, worker; with a prompt of a jury, and with lengths if they have an effect
    items: pl.DataFrame  # item, strength: in nats of the mean comparison, with the mean 0
    judges: pl.DataFrame  # worker, reliability (with the mean 1 over comparisons), position_bias


def simulate_comparisons(
    *,
    items: int = 10,
    comparisons: int = 1000,
    judges: int = 5,
    strength_spread: float = 1.0,
    reliability_spread: float = 0.0,
    position: float = 0.0,
    position_spread: float = 0.0,
    ties: float = 0.0,
    length_effect: float | None = None,
    seed: int = 0,
) -> SimulatedTournament:
    """Return a tournament of random pairs in random order.

    - `items`, `comparisons`, `judges`: how many.
    - `strength_spread`: the standard deviation of strengths, in nats.
    - `reliability_spread`: that of judges' reliabilities around 1.
    - `position`, `position_spread`: the mean advantage of the left side over judges, and its standard deviation, in nats.
    - `ties`: the share of upsets that become ties, and as many wins of the likelier item: the expected score stays.
    - `length_effect`: what the left side gains, in nats, from being longer by one standard deviation of the differences. The
      table then has the columns length_left and length_right; answers of stronger items are longer.
    - `seed`: what everything is drawn from.

    >>> drawn = simulate_comparisons(items=4, comparisons=100, seed=1)
    >>> drawn.comparisons.columns, drawn.items["item"].to_list()
    (['left', 'right', 'winner', 'worker'], ['i0', 'i1', 'i2', 'i3'])
    """
    _check({name: value for name, value in locals().items() if value is not None})
    rng = np.random.default_rng(seed)
    strength = rng.normal(0.0, strength_spread, items)
    scale = rng.normal(1.0, reliability_spread, judges)
    side = rng.normal(position, position_spread, judges)
    left = rng.integers(0, items, comparisons)
    right = (left + rng.integers(1, items, comparisons)) % items
    judge = rng.integers(0, judges, comparisons)
    odds, lengths = scale[judge] * (strength[left] - strength[right]) + side[judge], {}
    if length_effect is not None:
        own = 300 + 50 * (strength + rng.standard_normal(items))
        sides = [np.maximum(own[item] + rng.normal(0.0, 100.0, comparisons), 1.0).round() for item in (left, right)]
        odds = odds + length_effect * (sides[0] - sides[1]) / (sides[0] - sides[1]).std()
        lengths = {"length_left": pl.Series(sides[0]), "length_right": pl.Series(sides[1])}
    chance = 1 / (1 + np.exp(-odds))
    half, luck = ties * np.minimum(chance, 1 - chance), rng.random(comparisons)  # a win less, a loss less: the mean score stays
    winner = np.where(luck < chance - half, 0, np.where(luck < chance + half, 2, 1))
    return _tournament(lengths, left, right, winner, judge, strength, scale, side)


def simulate_jury(
    *,
    items: int = 2,
    prompts: int = 250,
    judges: int = 8,
    strength_spread: float = 0.0,
    prompt_spread: float = 0.0,
    reliability_spread: float = 0.0,
    position: float = 0.3,
    seed: int = 0,
) -> SimulatedTournament:
    """Return the comparisons of a jury: each prompt compares two random items, by every judge, in both orders.

    The table has a column `prompt`. Items are equal by default.

    Parameters
    ----------
    items, prompts, judges : int
        How many.
    strength_spread : float
        Standard deviation of strengths, in nats.
    prompt_spread : float
        Standard deviation of the prompt effect on the difference of its two items, in nats. All judges share it.
    reliability_spread : float
        Standard deviation of reliabilities around 1.
    position : float
        Advantage of the left side, in nats.
    seed : int
        Seed of the random generator.

    Examples
    --------
    >>> drawn = simulate_jury(prompts=10, judges=3)
    >>> drawn.comparisons.columns, len(drawn.comparisons)
    (['prompt', 'left', 'right', 'winner', 'worker'], 60)

    """
    _check(locals())
    rng = np.random.default_rng(seed)
    strength = rng.normal(0.0, strength_spread, items)
    scale = rng.normal(1.0, reliability_spread, judges)
    left = rng.integers(0, items, prompts)
    right = (left + rng.integers(1, items, prompts)) % items
    gap = strength[left] - strength[right] + rng.normal(0.0, prompt_spread, prompts)
    prompt, judge, is_swapped = (axis.ravel() for axis in np.indices((prompts, judges, 2)))
    odds = np.where(is_swapped == 1, -1, 1) * scale[judge] * gap[prompt] + position
    wins = rng.random(len(odds)) < 1 / (1 + np.exp(-odds))
    sides = np.where(is_swapped[:, None] == 1, np.stack([right, left], 1)[prompt], np.stack([left, right], 1)[prompt])
    prompts_of = {"prompt": pl.Series([f"p{n}" for n in range(prompts)]).gather(prompt)}
    winner = np.where(wins, 0, 1)
    return _tournament(prompts_of, sides[:, 0], sides[:, 1], winner, judge, strength, scale, np.full(judges, position))


def _tournament(
    first: Mapping[str, pl.Series],
    left: Integers,  # [comparisons] codes of items
    right: Integers,
    winner: Integers,  # [comparisons] 0: left, 1: right, 2: a tie
    judge: Integers,  # [comparisons]
    strength: Floats,  # [items]
    scale: Floats,  # [judges]
    side: Floats,  # [judges]
) -> SimulatedTournament:
    """Return the tables; reliabilities have the mean 1 over comparisons, and strengths are in nats of the mean comparison."""
    items, people = (pl.Series([f"{letter}{n}" for n in range(len(of))]) for letter, of in (("i", strength), ("w", scale)))
    words, mean = pl.Series(["left", "right", "tie"]), float(scale[judge].mean())
    columns = {"left": items.gather(left), "right": items.gather(right), "winner": words.gather(winner)}
    return SimulatedTournament(
        pl.DataFrame({**first, **columns, "worker": people.gather(judge)}),
        pl.DataFrame({"item": items, "strength": (strength - strength.mean()) * mean}),
        pl.DataFrame({"worker": people, "reliability": scale / mean, "position_bias": side}),
    )


def _check(given: Mapping[str, object]) -> None:
    """Raise for the first option that breaks its rule."""
    options.check(given, {name: rule for name, rule in RULES.items() if name in given})
