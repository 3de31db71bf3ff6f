"""The tables of trust, from what trust.py wrote: a page of all of them, and the parts of docs/can-you-trust-it.md.

A part of a page stands between the comments `<!-- make trust: NAME -->` and `<!-- end -->`.
"""

import re
from functools import partial
from pathlib import Path

import polars as pl

SIMULATED = "simulated, "
IN_RANGE = 0.6, 1.6  # of expected over real wrong labels
PAPER, DEFAULT = ("fds", "posterior"), ("auto", "honest")
ACCUSING = ("spammer", "adversary", "copy")
PART = re.compile(r"(<!-- make trust: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def read(folder):
    """The tables by name."""
    return {name: pl.read_csv(folder / f"{name}.csv") for name in ("trust", "workers", "verdicts", "toys")}


def is_simulated():
    return pl.col("set").str.starts_with(SIMULATED)


def of(frame, fit):
    """The lines of a fit: (model, confidence)."""
    return frame.filter(model=fit[0], confidence=fit[1])


def fits(frame):
    """Every (model, confidence), in the order of the table."""
    return frame.select("model", "confidence").unique(maintain_order=True).rows()


def overall(part):
    """The figures of a fit over some sets: means, sums, and the sets that count as harmed or in range."""
    ratio = pl.col("expected_wrong") / pl.col("wrong")
    harmed = (pl.col("against_mv") < -0.01) & (pl.col("against_mv") < -2 * pl.col("error"))
    return part.select(
        sets=pl.len(),
        accuracy=pl.col("accuracy").mean(),
        against_mv=100 * pl.col("against_mv").mean(),
        error=100 * (pl.col("error") ** 2).sum().sqrt() / pl.len(),
        worst=100 * pl.col("against_mv").min(),
        harmed=harmed.sum(),
        ece=pl.col("ece").mean(),
        log_loss=pl.col("log_loss").mean(),
        auc=pl.col("auc").drop_nans().mean(),
        expected=pl.col("expected_wrong").sum(),
        wrong=pl.col("wrong").sum(),
        in_range=ratio.is_between(*IN_RANGE).sum(),
    ).row(0, named=True)


def covered(part):
    """(share of workers inside their interval, workers, mean width, mean of centre less accuracy), as numbers."""
    n = part["workers"].sum()
    return (part["inside"].sum() / n, n, part["width"].sum() / n, part["off"].sum() / n) if n else (None, 0, None, None)


def table(heads, rows):
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(f"| {' | '.join(map(str, row))} |" for row in rows)]


def answer(tables):
    """Return the main figures on real sets: majority vote, the paper's model, and the default."""
    trust, workers, toys = tables["trust"].filter(~is_simulated()), tables["workers"].filter(~is_simulated()), tables["toys"]
    some = [("mv", "posterior"), PAPER, DEFAULT]
    found = [overall(of(trust, fit)) for fit in some]
    inside = [covered(of(workers, fit))[0] for fit in some]
    toy = [of(toys, fit).row(0, named=True) for fit in some]
    lines = {
        "labels that are right, mean": [f"{f['accuracy']:.1%}" for f in found],
        "the worst set against majority vote, points": ["", *(f"{f['worst']:+.1f}" for f in found[1:])],
        "sets on which it loses to majority vote beyond doubt": ["", *(f"{f['harmed']} of {f['sets']}" for f in found[1:])],
        "wrong labels expected, of 100 that are wrong": [f"{100 * f['expected'] / f['wrong']:.0f}" for f in found],
        "sets on which that number is between 60 and 160": [f"{f['in_range']} of {f['sets']}" for f in found],
        "confidence less accuracy, mean distance": [f"{f['ece']:.3f}" for f in found],
        "of a right and a wrong label, the right one has more confidence": [f"{f['auc']:.0%}" for f in found],
        "workers whose accuracy is in their 90% interval": ["", *(f"{share:.0%}" for share in inside[1:])],
        "two judges who always disagree: confidence": [f"{t['highest']:.2f}" for t in toy],
        "two judges who always disagree: ties said": [f"{t['ties']} of {t['tasks']}" for t in toy],
    }
    heads = ["", "majority vote, vote shares", "`fds`, posterior", "**`auto`, honest**"]
    return table(heads, ([name, *cells] for name, cells in lines.items()))


def labels(tables):
    """Every model and confidence, over the real sets."""
    trust = tables["trust"].filter(~is_simulated())
    heads = ["model", "confidence", "accuracy", "against mv, points", "worst set", "harmed", "ECE", "log loss", "AUC"]
    heads += ["wrong labels, expected / real", "in range"]
    rows = []
    for model, confidence in fits(trust):
        f = overall(of(trust, (model, confidence)))
        ratio = f"{f['expected'] / f['wrong']:.2f}"
        apart = f"{f['against_mv']:+.1f} ± {f['error']:.1f}" if model != "mv" else ""
        harm = [f"{f['worst']:+.1f}", f["harmed"]] if model != "mv" else ["", ""]
        rows.append([model, confidence, f"{f['accuracy']:.4f}", apart, *harm, f"{f['ece']:.3f}", f"{f['log_loss']:.2f}"])
        rows[-1] += [f"{f['auc']:.2f}", ratio, f"{f['in_range']} of {f['sets']}"]
    return table(heads, rows)


def by_set(tables):
    """Every real set: majority vote, and every model against it with paired standard errors."""
    trust = tables["trust"].filter(~is_simulated(), confidence="honest")
    models = [model for model, _ in fits(trust) if model != "mv"]
    rows = []
    for name in trust["set"].unique(maintain_order=True):
        line = {row["model"]: row for row in trust.filter(set=name).iter_rows(named=True)}
        cells = [f"{100 * line[m]['against_mv']:+.1f} ± {100 * line[m]['error']:.1f}" for m in models]
        rows.append([name, line["mv"]["tasks"], f"{line['mv']['accuracy']:.4f}", *cells])
    return table(["set", "tasks", "mv", *models], rows)


def intervals(tables, some=None):
    """The share of workers inside their interval, by votes with truth, over the real sets; of some fits, or of all."""
    workers = tables["workers"].filter(~is_simulated())
    classes = workers["votes"].unique(maintain_order=True).to_list()
    rows = []
    for fit in some or fits(workers):
        part = of(workers, fit)
        share, n, width, off = covered(part)
        cells = [covered(part.filter(votes=name)) for name in classes]
        rows.append([*fit, *(f"{c[0]:.0%} of {c[1]}" for c in cells), f"{share:.0%} of {n}", f"{width:.2f}", f"{off:+.3f}"])
    return table(["model", "confidence", *(f"{name} votes" for name in classes), "all", "width", "centre less accuracy"], rows)


def intervals_by_set(tables):
    """The share of workers inside their interval in every set, for the paper's model and the default."""
    workers, rows = tables["workers"], []
    for name in workers["set"].unique(maintain_order=True):
        old, new = (covered(of(workers, fit).filter(set=name)) for fit in (PAPER, DEFAULT))
        if new[1]:
            rows.append([name, new[1], f"{old[0]:.0%}", f"{new[0]:.0%}", f"{old[3]:+.3f}", f"{new[3]:+.3f}"])
    heads = ["set", "workers", "`fds`, posterior", "`auto`, honest", "centre less accuracy: `fds`", "`auto`"]
    return table(heads, rows)


def verdicts(tables, some=None):
    """Whom the words accuse, over the real sets, and what truth says of them; by some models, or by all."""
    rows = []
    found = tables["verdicts"].filter(~is_simulated(), confidence=DEFAULT[1])
    for model in some or found["model"].unique(maintain_order=True):
        for word in ACCUSING:
            part = found.filter(model=model, verdict=word).select("named", "judged", "able", "below_chance", "experts").sum()
            rows.append([model, word, *(value or 0 for value in part.row(0))])
    heads = ["model", "word", "named", "of them with 20 votes on tasks with truth", "able", "below chance"]
    return table([*heads, "more right than the labels"], rows)


def simulated(tables):
    """Every model and confidence on the simulated crowds."""
    rows = []
    for row in tables["trust"].filter(is_simulated()).iter_rows(named=True):
        wrong = f"{row['expected_wrong']:.0f} / {row['wrong']:.0f}"
        inside, *_ = covered(of(tables["workers"], (row["model"], row["confidence"])).filter(set=row["set"]))
        name = row["set"].removeprefix(SIMULATED)
        rows.append(
            [name, row["model"], row["confidence"], f"{row['accuracy']:.4f}", f"{row['ece']:.3f}", wrong, f"{inside:.0%}"]
        )
    heads = ["crowd", "model", "confidence", "accuracy", "ECE", "wrong labels, expected / real", "workers in their interval"]
    return table(heads, rows)


def price(tables):
    """What honest confidence costs where errors are independent, and gives where they are not."""
    trust, rows = tables["trust"].filter(is_simulated()), []
    for name in trust["set"].unique(maintain_order=True):
        for fit in (PAPER, (PAPER[0], DEFAULT[1]), DEFAULT):
            row = of(trust, fit).filter(set=name).row(0, named=True)
            cells = [f"{row['accuracy']:.1%}", f"{row['wrong']:.0f}", f"{row['expected_wrong']:.0f}", f"{row['ece']:.3f}"]
            rows.append([name.removeprefix(SIMULATED), f"`{fit[0]}`, {fit[1]}", *cells])
    return table(["crowd", "fit", "labels that are right", "wrong labels", "expected", "confidence less accuracy"], rows)


def disagreeing(tables):
    """The toy: two judges who always disagree, on twenty tasks."""
    rows = []
    for model in tables["toys"]["model"].unique(maintain_order=True):
        old, new = (of(tables["toys"], (model, c)).row(0, named=True) for c in ("posterior", "honest"))
        cells = [f"{t['highest']:.2f}, {t['ties']} of {t['tasks']}" for t in (old, new)]
        rows.append([model, *cells])
    return table(["model", "posterior: confidence, ties", "honest: confidence, ties"], rows)


PARTS = {
    "answer": answer,
    "by_set": by_set,
    "intervals": partial(intervals, some=[PAPER, (PAPER[0], DEFAULT[1]), DEFAULT]),
    "intervals_by_set": intervals_by_set,
    "verdicts": partial(verdicts, some=[DEFAULT[0]]),
    "price": price,
}


def filled(page, folder):
    """The text of a page with its parts made from the tables of a folder."""
    tables = read(Path(folder))
    return PART.sub(lambda found: found[1] + "\n".join(PARTS[found[2]](tables)) + "\n" + found[3], page)


def readme(folder):
    """The page of all tables."""
    tables = read(Path(folder))
    count = tables["trust"].filter(~is_simulated())["set"].n_unique()
    lines = [
        "# Every model, judged by truth",
        "",
        f"Made by `make trust`, from {count} public sets of votes with truth and two simulated crowds. [Can you trust",
        "it](../../../docs/can-you-trust-it.md) explains the figures. Figures of labels are means over ten seeds, which decide",
        "ties; workers are those of the first seed.",
        "",
        "## Labels and confidence",
        "",
        "*Against mv* is the mean difference in accuracy from majority vote under the same seeds, with its standard error,",
        "paired by task. *Harmed* counts the sets on which a model is more than a point and more than two standard errors",
        "below. *ECE* is the expected calibration error (ten bins), *AUC* the probability that a right label has more",
        "confidence than a wrong one. *Wrong labels* are those expected by confidence over the real ones, summed; *in range*",
        "counts the sets on which that ratio is between 0.6 and 1.6. All figures: [trust.csv](trust.csv).",
        "",
        *labels(tables),
        "",
        "Against majority vote, in points, set by set:",
        "",
        *by_set(tables),
        "",
        "## Workers",
        "",
        "Workers with at least 20 votes on tasks with truth: the share whose real accuracy is in their 90% interval, by these",
        "votes. All figures, with those of the simulated crowds: [workers.csv](workers.csv).",
        "",
        *intervals(tables),
        "",
        *intervals_by_set(tables),
        "",
        "## Verdicts",
        "",
        "Whom the words accuse, with honest confidence. *Able* and *below chance*: right more, or less, often by 2.33 standard",
        "errors than answers with the worker's own mix of labels that do not depend on the truth. *More right than the labels*:",
        "by two paired standard errors, on the same tasks. All words: [verdicts.csv](verdicts.csv).",
        "",
        *verdicts(tables),
        "",
        "## Two judges who always disagree, on twenty tasks",
        "",
        *disagreeing(tables),
        "",
        "## Simulated crowds",
        "",
        *simulated(tables),
    ]
    return "\n".join(lines) + "\n"
