"""Races over rankings and agreement: their cells, who races, and a judge that compares each figure with ours."""

from functools import partial

import cells
import numpy as np
import polars as pl
import turns
from contestants import Contestant

import adjudge as adj

ITEMS = 50
TIES = 0.1  # of comparisons
SIZES, QUICK_SIZES = (1_000, 10_000, 100_000, 1_000_000), (1_000, 10_000, 100_000)
LABELS = 4  # of votes whose agreement is measured

RANKERS = (
    Contestant("evalica", "bradley_terry", rival="rank", title="Bradley-Terry"),
    Contestant("arena-rank", "BradleyTerry", rival="rank", title="Bradley-Terry, intervals"),
    Contestant("adjudge", "rank", {"judges": False, "position": False}, title="rank, intervals"),
)
AGREERS = (
    Contestant("krippendorff", "alpha", rival="agreement"),
    Contestant("evalica", "alpha", rival="agreement", bytes_of=lambda tasks, workers, _: tasks * workers * 8),
    Contestant("adjudge", "agreement", {"resamples": 0, "pairs": False, "model": None}, title="agreement, all coefficients"),
)
STUDIES = {"ranking": RANKERS, "agreement": AGREERS}


def rivals(study):
    """{peer: ours} of a study."""
    ours = STUDIES[study][-1].name
    return {one.name: ours for one in STUDIES[study] if one.rival}


def fields(study, quick):
    """[(cell, what writes its file)] of a study, smaller ones first."""
    out = []
    for size in QUICK_SIZES if quick else SIZES:
        name = f"{study} {cells.short(size)}"
        if study == "ranking":
            sizes = {"votes": size, "tasks": ITEMS, "workers": 1, "labels": 3}
            out.append(({"name": name, **sizes}, partial(write_comparisons, comparisons=size)))
        else:
            sizes = {"votes": size, "tasks": size // cells.PER_TASK, "workers": cells.workers_of(size), "labels": LABELS}
            out.append(({"name": name, **sizes}, partial(cells.simulated, votes=size, labels=LABELS)))
    return out


def write_comparisons(path, comparisons):
    """Write comparisons of pairs of items: 0 where the left one won, 1 where the right one did, 2 for a tie."""
    rng = np.random.default_rng(comparisons)
    strength = rng.normal(size=ITEMS)
    left = rng.integers(0, ITEMS, comparisons)
    right = (left + rng.integers(1, ITEMS, comparisons)) % ITEMS
    is_left = rng.random(comparisons) < 1 / (1 + np.exp(strength[right] - strength[left]))
    outcome = np.where(rng.random(comparisons) < TIES, 2, np.where(is_left, 0, 1))
    np.savez(path, left=left, right=right, outcome=outcome, sizes=np.array([comparisons, ITEMS, 1, 3]))


class StudyJudge:
    """The figures of ours on one cell, computed once, and how far those of another are from them."""

    def __init__(self, data):
        with np.load(data) as found:
            if "left" in found:
                self.figures = _strengths(found)
            else:
                votes = adj.read({name: found[name] for name in ("task", "worker", "label")})
                self.figures = np.array([adj.agreement(votes, resamples=0, pairs=False, model=None).alpha])

    def __call__(self, contestant, answer):
        """Judge an answer: {"difference"}, the largest."""
        with np.load(answer) as said:
            return {"difference": float(np.abs(said["figures"] - self.figures).max())}


def _strengths(found):
    words = np.array(["left", "right", "tie"])[found["outcome"]]
    ranking = adj.rank({"left": found["left"], "right": found["right"], "winner": words}, judges=False, position=False)
    strengths = ranking.leaderboard_frame().sort(pl.col("item").cast(pl.Int64))["strength"].to_numpy()
    return strengths - strengths.mean()


def race_cell(study, cell, write, folder, limit, done, where, missing):
    """One cell with the lines of all contestants."""
    data = folder / f"{cell['name'].replace(' ', '-')}.npz"
    lines, entrants = turns.admit(STUDIES[study], cell, done, where, missing)
    write(data)
    lines |= turns.take_turns(entrants, cell, data, folder, limit, len(entrants), StudyJudge(data))
    data.unlink()
    return {**cell, "lines": lines}


def race(folder, kept, limit, quick, where, missing):
    """{study: cells with their lines}."""
    out = {}
    for study in STUDIES:
        done = out[study] = []
        for cell, write in fields(study, quick):
            make = partial(race_cell, study, cell, write, folder, limit, list(done), where, missing)
            done.append(kept.get(cell["name"], make))
    return out
