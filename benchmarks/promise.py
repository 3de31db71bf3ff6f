"""Whether promises hold: certificates, intervals, calibration and panels on every set with truth in ADJUDGE_DATA.

    ADJUDGE_DATA=… python benchmarks/promise.py [--draws 400]

prints four tables. Gold is drawn, and answered from the truth. A fit sees only the votes on tasks with truth, so that a
certificate can be checked against all of them. Nothing here is timed but one certificate on a million tasks.
"""

import argparse
import math
import os
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl

import adjudge as adj
from adjudge.models.temperature import log_loss
from adjudge.results.promise.accuracy import interval_of
from adjudge.results.promise.certify import lowest_threshold
from adjudge.results.promise.draws import draw_keys, gold_floor

RISK = 0.1
SAMPLES = (50, 100, 200, 500)
ERRORS = (0.05, 0.1)
MIN_TASKS_PER_GOLD = 2  # below, gold is most of the tasks
BINS = 10
CALIBRATION_SAMPLES, CALIBRATION_DRAWS = (20, 50, 100), 20
PANEL_GOLD, PANEL_DRAWS = 50, 20
DENSE = 0.5
ROUNDING = 1e-9


def sets(folder):
    """(name, votes, truth as a dict) of every set with one true label per task, with the votes on tasks with truth alone."""
    for path in sorted(folder.glob("*/truth.csv")):
        truth = pl.read_csv(path, infer_schema=False)
        votes = pl.read_csv(path.with_name("votes.csv"), infer_schema=False)
        if len(truth) and "_ml" not in path.parent.name:
            yield path.parent.name, votes.join(truth.select("task"), on="task", how="semi"), dict(truth.iter_rows())


def known(result, truth):
    """Confidence of every task of a result, and whether its label is wrong."""
    labels = result.labels_frame()
    wrong = [label != truth[task] for task, label in labels.select("task", "label").iter_rows()]
    return labels["confidence"].to_numpy(), np.array(wrong)


def drawn(result, confidence, floor, n, seed):
    """The places of the gold tasks that `draw_gold` draws."""
    inside = np.flatnonzero(confidence >= floor)
    return inside[np.argsort(draw_keys(result.votes.tasks.take(inside), seed), kind="stable")[:n]]


def certificates(name, result, truth, draws):
    """Rows of violations and accepted shares, over draws."""
    confidence, wrong = known(result, truth)
    rows = []
    for n in SAMPLES:
        if len(confidence) < MIN_TASKS_PER_GOLD * n:
            continue
        for error in ERRORS:
            floor = gold_floor(confidence, n, error)
            broken, shares = 0, []
            for seed in range(draws):
                gold = drawn(result, confidence, floor, n, seed)
                threshold, _ = lowest_threshold(confidence[confidence >= floor], confidence[gold], wrong[gold], error, RISK)
                accepted = np.zeros(len(wrong), bool) if threshold is None else confidence >= threshold
                shares.append(accepted.mean())
                broken += bool(accepted.any() and wrong[accepted].mean() > error)
            rows.append({"set": name, "gold": n, "error": error, "broken": broken / draws, "accepted": float(np.mean(shares))})
    return rows


def intervals(name, result, truth, draws, level=0.9):
    """Rows of how often intervals hold the accuracy, and their width relative to those without confidence."""
    confidence, wrong = known(result, truth)
    rows = []
    for n in SAMPLES:
        if len(confidence) < MIN_TASKS_PER_GOLD * n:
            continue
        held, width, plain = 0, [], []
        for seed in range(draws):
            gold = drawn(result, confidence, 0.0, n, seed)
            low, high = interval_of(confidence, gold, wrong[gold], level)
            flat = interval_of(np.full(len(confidence), 0.5), gold, wrong[gold], level)
            held += low <= 1 - wrong.mean() <= high
            width.append(high - low)
            plain.append(flat.high - flat.low)
        ratio = float(np.mean(width) / np.mean(plain))
        rows.append({"set": name, "gold": n, "held": held / draws, "width": float(np.mean(width)), "of flat": ratio})
    return rows


def ece(confidence, wrong):
    """The expected calibration error of labels."""
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return sum((place == b).mean() * abs(confidence[place == b].mean() - 1 + wrong[place == b].mean()) for b in set(place))


def losses(result, truth, hidden):
    """Log loss and calibration error on the other tasks."""
    frame = result.probabilities_frame()
    labels = result.labels_frame()
    keep = ~frame["task"].is_in(list(hidden)).to_numpy()
    code = {label: at for at, label in enumerate(frame.columns[1:])}
    true = np.array([code.get(truth[task], -1) for task in frame["task"]])
    wrong = np.array([label != truth[task] for task, label in labels.select("task", "label").iter_rows()])
    matrix = frame.drop("task").to_numpy()
    return log_loss(matrix[keep], true[keep]), ece(labels["confidence"].to_numpy()[keep], wrong[keep])


def calibrations(name, votes, truth):
    """Rows of log loss and calibration error without and with calibrate=True, means over draws."""
    rows = []
    plain = adj.aggregate(votes)
    for n in CALIBRATION_SAMPLES:
        if plain.votes.n_tasks < MIN_TASKS_PER_GOLD * n:
            continue
        figures = []
        for seed in range(CALIBRATION_DRAWS):
            gold = {task: truth[task] for task in plain.draw_gold(n, seed=seed, floor=0)["task"]}
            off, on = (adj.aggregate(votes, gold=gold, calibrate=calibrate) for calibrate in (False, True))
            figures.append([*losses(off, truth, gold), *losses(on, truth, gold)])
        loss, miss, hot_loss, hot_miss = np.array(figures).T
        means = {"loss off": loss.mean(), "loss on": hot_loss.mean(), "ece off": miss.mean(), "ece on": hot_miss.mean()}
        rows.append({"set": name, "gold": n, **means, "worse": (hot_loss > loss + ROUNDING).mean()})
    return rows


def accuracy(result, truth, hidden):
    """The share of right labels on the other tasks."""
    labels = result.labels_frame().select("task", "label").iter_rows()
    return np.mean([label == truth[task] for task, label in labels if task not in hidden])


def panels(name, votes, truth):
    """A row of accuracy on the other tasks for a dense panel: votes alone, auto with gold, model panel."""
    plain = adj.aggregate(votes)
    if len(plain.votes) < DENSE * plain.votes.n_tasks * plain.votes.n_workers or plain.votes.n_tasks < 1.5 * PANEL_GOLD:
        return []
    figures = []
    for seed in range(PANEL_DRAWS):
        gold = {task: truth[task] for task in plain.draw_gold(PANEL_GOLD, seed=seed, floor=0)["task"]}
        fits = [plain, adj.aggregate(votes, gold=gold), adj.aggregate(votes, model="panel", gold=gold)]
        figures.append([accuracy(fit, truth, gold) for fit in fits])
    alone, auto, panel = np.mean(figures, axis=0)
    return [{"set": name, "votes alone": alone, "auto with gold": auto, "panel": panel, "worst loss": min(panel, auto) - alone}]


def million():
    """Seconds of a certificate on a million tasks and 500 gold tasks, and of the fit."""
    crowd = adj.simulate(tasks=1_000_000, workers=1000, votes_per_task=3, seed=1)
    begun = time.perf_counter()
    result = adj.aggregate(crowd.votes)
    fitted = time.perf_counter()
    draw = result.draw_gold(500, seed=0)
    vars(result).pop("_fingerprint", None)  # as in a process that has not drawn
    gold = crowd.truth.filter(pl.col("task").is_in(draw["task"].implode()))
    started = time.perf_counter()
    result.certify(gold, draw)
    return time.perf_counter() - started, fitted - begun


def show(title, rows):
    """Print a table."""
    print(f"\n{title}")
    if rows:
        with pl.Config(
            tbl_rows=-1, tbl_cols=-1, float_precision=3, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True
        ):
            print(pl.DataFrame(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--only", choices=["certificates", "intervals", "calibrations", "panels", "million"])
    asked = parser.parse_args()
    folder = os.environ.get("ADJUDGE_DATA")
    if folder is None:
        raise SystemExit("ADJUDGE_DATA names no folder of sets: `adjudge datasets get all -o DIR` fetches them")
    tables = {"certificates": [], "intervals": [], "calibrations": [], "panels": []}
    wanted = {asked.only} if asked.only else {*tables, "million"}
    for name, votes, truth in sets(Path(folder)):
        result = adj.aggregate(votes)
        if "certificates" in wanted:
            tables["certificates"] += certificates(name, result, truth, asked.draws)
        if "intervals" in wanted:
            tables["intervals"] += intervals(name, result, truth, asked.draws)
        if "calibrations" in wanted:
            tables["calibrations"] += calibrations(name, votes, truth)
        if "panels" in wanted:
            tables["panels"] += panels(name, votes, truth)
    if rows := tables["certificates"]:
        show(f"Certificates at a risk of {RISK}: how often broken in {asked.draws} draws, and the mean share accepted", rows)
        broken = [row["broken"] for row in rows]
        limit = RISK + 3 * math.sqrt(RISK * (1 - RISK) / asked.draws)
        print(f"broken on average {np.mean(broken):.3f}, at most {max(broken):.3f} (limit of a set {limit:.3f})")
    if rows := tables["intervals"]:
        show(
            "Intervals of accuracy at level 0.9: how often they hold it, and their width relative to one without confidence", rows
        )
    if rows := tables["calibrations"]:
        show(f"Calibration with gold, means over {CALIBRATION_DRAWS} draws, on the other tasks", rows)
        for n in CALIBRATION_SAMPLES:
            some = [row for row in rows if row["gold"] == n]
            harmed = np.mean([row["worse"] for row in some])
            print(f"{n} gold: log loss worse in {harmed:.1%} of the draws on {len(some)} sets; ECE off, on:", end=" ")
            print(f"{np.mean([row['ece off'] for row in some]):.4f}, {np.mean([row['ece on'] for row in some]):.4f}")
    if "panels" in wanted:
        show(
            f"Dense panels with {PANEL_GOLD} gold tasks, means over {PANEL_DRAWS} draws: accuracy on the other tasks",
            tables["panels"],
        )
    if "million" in wanted:
        certified, fitted = million()
        print(f"\na certificate on a million tasks and 500 gold tasks takes {certified:.2f} s, the fit {fitted:.2f} s")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
