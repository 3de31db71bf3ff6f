"""How honest the intervals of rankings are, and how long a large one takes: simulated tournaments, whose truth is known.

python benchmarks/ranking.py coverage [TOURNAMENTS]    # the share of 90% intervals that hold the truth
python benchmarks/ranking.py null [TOURNAMENTS]        # equal items: intervals that hold, and winners that are none
python benchmarks/ranking.py gaps [TOURNAMENTS]        # the same with real gaps: order, intervals and winners
python benchmarks/ranking.py judges [TOURNAMENTS]      # the value of estimating judges, if they differ and if they do not
python benchmarks/ranking.py large [ITEMS COMPARISONS JUDGES CLUSTERS]   # time and memory
python benchmarks/ranking.py sampled                   # errors by draws compared with the exact ones
"""

import resource
import sys
import time
import warnings

import numpy as np
import polars as pl

import adjudge as adj
from adjudge.evaluation.ranking import information as of_information
from adjudge.evaluation.ranking.simulate import simulate_comparisons, simulate_jury

FIRST = 40_000  # the first seed
SETTINGS = {
    "one judge, 6 items, 60 comparisons": {"items": 6, "comparisons": 60, "judges": 1},
    "one judge, 20 items, 1000 comparisons": {"items": 20, "comparisons": 1000, "judges": 1},
    "one judge, 20 items, 80 comparisons (8 each; many never lose)": {"items": 20, "comparisons": 80, "judges": 1},
    "6 items, 150 comparisons": {"items": 6, "comparisons": 150},
    "20 items, 1000 comparisons": {"items": 20, "comparisons": 1000},
    "20 items, 200 comparisons (10 wins or losses each)": {"items": 20, "comparisons": 200},
    "20 items, 1000 comparisons, a third of upsets ties": {"items": 20, "comparisons": 1000, "ties": 0.33},
    "very unequal items (spread 2)": {"items": 20, "comparisons": 1000, "strength_spread": 2.0},
    "position +0.5": {"items": 20, "comparisons": 1000, "position": 0.5},
    "judges differ (spread 0.4)": {"items": 20, "comparisons": 2000, "judges": 10, "reliability_spread": 0.4},
    "the longer answer gains 0.5": {"items": 20, "comparisons": 1000, "length_effect": 0.5},
    "judges and positions differ": {
        "items": 20,
        "comparisons": 2000,
        "judges": 10,
        "reliability_spread": 0.4,
        "position": 0.3,
        "position_spread": 0.4,
    },
    "40 judges of 50 comparisons differ": {
        "items": 20,
        "comparisons": 2000,
        "judges": 40,
        "reliability_spread": 0.4,
        "position": 0.3,
        "position_spread": 0.4,
    },
}


JURIES = {  # 8 equal judges, both orders
    "six equals": {"items": 6},
    "two equals": {},
    "six equals, prompts differ, no column": {"items": 6, "prompt_spread": 1.0, "column": False},
    "two equals, prompts differ, no column": {"prompt_spread": 1.0, "column": False},
    "six equals, prompt column": {"items": 6, "column": True},
    "two equals, prompt column": {"column": True},
    "six equals, prompts differ, prompt column": {"items": 6, "prompt_spread": 1.0, "column": True},
    "two equals, prompts differ, prompt column": {"prompt_spread": 1.0, "column": True},
    "two equals, 20 prompts that differ, prompt column": {"prompts": 20, "prompt_spread": 1.0, "column": True},
    "two equals, 8 prompts that differ, prompt column": {"prompts": 8, "prompt_spread": 1.0, "column": True},
}
GAPS = {  # judges without prompts
    "6 items, spread 1, 150 comparisons, 5 judges": {"items": 6, "comparisons": 150},
    "6 items, spread 0.2, 1000 comparisons, 8 judges": {
        "items": 6,
        "comparisons": 1000,
        "judges": 8,
        "strength_spread": 0.2,
    },
    "20 items, spread 1, 1000 comparisons, 5 judges": {"items": 20, "comparisons": 1000},
    "the same, 10 judges of spread 0.4": {"items": 20, "comparisons": 1000, "judges": 10, "reliability_spread": 0.4},
    "the same, 10 judges of spread 0.8": {"items": 20, "comparisons": 1000, "judges": 10, "reliability_spread": 0.8},
}


def null(tournaments=200):
    print("| tournaments | strength | winner | all ranks |")
    for name, setting in JURIES.items():
        options = {key: value for key, value in setting.items() if key != "column"}
        count = tournaments * 3 // 2 if "two" in name else tournaments
        held, winners, whole = [], [], []
        for seed in range(FIRST, FIRST + count):
            table = simulate_jury(**options, seed=seed).comparisons
            found = adj.rank(table if setting.get("column") else table.drop("prompt"))
            board = found.leaderboard
            held += board.select((pl.col("low") <= 0) & (pl.col("high") >= 0)).to_series().to_list()
            winners.append(found.winner is not None)
            whole += board.select((pl.col("rank_low") == 1) & (pl.col("rank_high") == pl.len())).to_series().to_list()
        print(f"| {name} | {np.mean(held):.1%} | {np.mean(winners):.1%} | {np.mean(whole):.1%} |", flush=True)


def gaps(tournaments=100):
    print("| tournaments | 1 - rank correlation | strength | width | ranks | winner | right winner |")
    for name, setting in GAPS.items():
        show_gaps(name, [simulate_comparisons(**setting, seed=seed) for seed in range(FIRST, FIRST + tournaments)])
    juries = [simulate_jury(items=6, strength_spread=0.5, seed=seed) for seed in range(FIRST, FIRST + tournaments)]
    show_gaps("6 items, spread 0.5, 250 prompts, 8 judges, prompt column", juries)


def show_gaps(name, tournaments):
    wrong, held, width, ranks, winners, right = ([] for _ in range(6))
    for drawn in tournaments:
        board = adj.rank(drawn.comparisons).leaderboard
        both = board.join(drawn.items, on="item", suffix="_true")
        wrong.append(1 - both.select(pl.corr("strength", "strength_true", method="spearman")).item())
        held += both.select(pl.col("strength_true").is_between("low", "high")).to_series().to_list()
        width.append((both["high"] - both["low"]).mean())
        ranks.append((both["rank_high"] - both["rank_low"]).mean() + 1)
        winners.append(board["rank_high"][0] == 1)
        right.append(winners[-1] and both["strength_true"].arg_max() == both["strength"].arg_max())
    print(f"| {name} | {np.mean(wrong):.4f} | {np.mean(held):.1%} | {np.mean(width):.3f} | {np.mean(ranks):.2f} |", end=" ")
    print(f"{np.mean(winners):.0%} | {np.mean(right):.0%} |", flush=True)


def inside(frame, truth, key, value, low, high):
    """How many true values lie in their intervals, and of how many."""
    both = frame.join(truth.select(key, true=value), on=key).drop_nulls(low)
    return both.select(pl.col("true").is_between(pl.col(low), pl.col(high)).sum(), pl.len()).row(0)


def coverage(tournaments=300):
    rows = []
    for name, setting in SETTINGS.items():
        sums = np.zeros((6, 2))
        for seed in range(FIRST, FIRST + tournaments):
            drawn = simulate_comparisons(**setting, seed=seed)
            found = adj.rank(drawn.comparisons, covariates=["length"] if "length_effect" in setting else [])
            board, judges = found.leaderboard, found.judges
            sums[0] += inside(board, drawn.items, "item", "strength", "low", "high")
            place = drawn.items.filter(pl.col("item").is_in(board["item"].implode()))
            place = place.with_columns(place=pl.col("strength").rank(descending=True).cast(pl.Int64))
            sums[1] += inside(board, place, "item", "place", "rank_low", "rank_high")
            sums[2] += inside(found.volatility, place, "item", "place", "low", "high")
            sums[3] += inside(judges, drawn.judges, "worker", "reliability", "reliability_low", "reliability_high")
            sums[4] += inside(judges, drawn.judges, "worker", "position_bias", "position_low", "position_high")
            for row in found.effects.iter_rows(named=True):
                sums[5] += row["low"] <= setting["length_effect"] <= row["high"], 1
        shares = [f"{hit / n:.1%}" if n else "" for hit, n in sums.tolist()]
        rows.append((name, *shares))
        print("|", " | ".join(rows[-1]), "|", flush=True)


def judges(tournaments=100):
    for spread in (0.0, 0.2, 0.4, 0.8):
        wrong = ([], [])
        for seed in range(FIRST, FIRST + tournaments):
            drawn = simulate_comparisons(items=20, comparisons=1000, judges=10, reliability_spread=spread, seed=seed)
            for estimated, some in zip((False, True), wrong, strict=True):
                board = adj.rank(drawn.comparisons, judges=estimated, position=False).leaderboard
                both = board.join(drawn.items, on="item", suffix="_true")
                some.append(1 - both.select(pl.corr("strength", "strength_true", method="spearman")).item())
        equal, estimated = map(np.mean, wrong)
        print(f"spread {spread}: 1 - rank correlation, judges equal {equal:.4f}, estimated {estimated:.4f}", flush=True)


def large(items=10_000, comparisons=1_000_000, judges=1, clusters=0):
    spread = 0.3 if judges > 1 else 0.0
    drawn = simulate_comparisons(items=items, comparisons=comparisons, judges=judges, reliability_spread=spread, seed=1)
    table = drawn.comparisons if judges > 1 else drawn.comparisons.drop("worker")
    if clusters:
        table = table.with_columns(prompt=pl.int_range(pl.len()) % clusters)
    start, used = time.perf_counter(), time.process_time()
    found = adj.rank(table)
    fitted = time.perf_counter() - start
    board = found.leaderboard
    whole, used = time.perf_counter() - start, time.process_time() - used
    hit, n = inside(board, drawn.items, "item", "strength", "low", "high")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    steps = found.facts["iterations"]
    grouped = f" in {clusters} clusters" if clusters else ""
    print(f"{comparisons} comparisons of {items} items by {judges}{grouped}: strengths and intervals {fitted:.1f} s, ", end="")
    print(f"with ranks {whole:.1f} s (CPU {used:.1f} s), {memory:.1f} GB, {hit / n:.1%} inside, {steps} iterations")


def sampled():
    for name, table in {"random pairs": random_pairs(), "a chain": chain()}.items():
        exact = adj.rank(table, position=False)
        of_information.MAX_EXACT, before = 10, of_information.MAX_EXACT
        found = adj.rank(table, position=False)
        of_information.MAX_EXACT = before
        ratio = found.standard_error / exact.standard_error
        ranks = [b.leaderboard["rank_high"].to_numpy() - b.leaderboard["rank_low"].to_numpy() for b in (exact, found)]
        print(f"{name}: errors by draws / exact: {ratio.mean():.3f}, from {ratio.min():.3f} to {ratio.max():.3f};", end=" ")
        print(f"strengths differ by {np.abs(found.strength - exact.strength).max():.1e};", end=" ")
        print(f"mean width of ranks {ranks[0].mean():.2f} and {ranks[1].mean():.2f}")


def random_pairs():
    return simulate_comparisons(items=1000, comparisons=50_000, seed=3).comparisons.drop("worker")


def chain():
    """Each of 500 items is compared with the next one only."""
    rng = np.random.default_rng(1)
    left = np.repeat(np.arange(499), 20)
    return {"left": left, "right": left + 1, "winner": np.where(rng.random(len(left)) < 0.5, "left", "right").tolist()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    what, *numbers = sys.argv[1:] or ["coverage"]
    {"coverage": coverage, "null": null, "gaps": gaps, "judges": judges, "large": large, "sampled": sampled}[what](
        *map(int, numbers)
    )
