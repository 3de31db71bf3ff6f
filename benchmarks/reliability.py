"""How well calibrated confidence is on real votes: reliability curves, and the effect of a temperature.

    ADJUDGE_DATA=… python benchmarks/reliability.py [FOLDER]

writes curves.svg and README.md into FOLDER (benchmarks/measured/reliability without it). Nothing here is timed.
"""

import os
import sys
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl

import adjudge as adj
from adjudge.evaluation.evaluate import calibration
from adjudge.io.write import write_aside
from adjudge.models.temperature import apply_temperature, fit_temperature
from adjudge.paper.plots import METHOD_STYLES

DRAWN = {"sp": "SP, 2 labels", "rte": "RTE, 2 labels", "trec2010": "TREC 2010, 4 labels", "bm": "BM, 2 labels"}
SETS = (*DRAWN, "adult2", "labelme", "zencrowd_in", "snow_temp")
SMOOTHED = "ds, smoothing 0.1"
MODELS = {
    "mv": {"model": "mv"},
    "ds": {"model": "ds"},
    SMOOTHED: {"model": adj.DawidSkene(smoothing=0.1)},
    "fds": {"model": "fds"},
    "hybrid": {"model": "hybrid"},
}
CURVES = {name: METHOD_STYLES[name] for name in ("mv", "ds", "fds", "hybrid")}
MENDED = f"{SMOOTHED}, tempered"
SPLITS = 50  # of the truth into halves: one to fit the temperature, one to measure, both ways round


class Case:
    """The posterior of one model on one set, on the tasks with truth."""

    def __init__(self, folder, name, model):
        truth = pl.read_csv(folder / name / "truth.csv", infer_schema=False)
        result = adj.aggregate(folder / name / "votes.csv", **MODELS[model], confidence="posterior")
        self.evaluation = adj.evaluate(result, truth)
        labels = result.labels_frame().select("task", chosen="label")
        both = (
            result.probabilities_frame()
            .join(labels, on="task", maintain_order="left")
            .with_columns(pl.col("task", "chosen").cast(pl.String))
        )
        both = both.join(truth, on="task", how="inner", maintain_order="left")
        names = result.votes.labels.texts()
        place = {label: n for n, label in enumerate(names)}
        self.posterior = both.select(names).to_numpy()
        self.chosen, self.truth = (np.array([place[label] for label in both[column]]) for column in ("chosen", "label"))

    def figures(self, posterior, where=slice(None)):
        """The figures of the tasks in `where` under these probabilities; the labels stay as they are."""
        n = np.arange(len(self.truth))
        confidence = posterior[n, self.chosen]
        return calibration(confidence[where], (self.chosen == self.truth)[where], posterior[where], self.truth[where])

    def splits(self):
        """Halves of the tasks, (to fit, to measure): each split both ways round."""
        rng, n = np.random.default_rng(0), len(self.truth)
        for _ in range(SPLITS):
            order = rng.permutation(n)
            yield order[: n // 2], order[n // 2 :]
            yield order[n // 2 :], order[: n // 2]

    def halves(self):
        """(temperatures, figures before, figures after) over the splits, measured where the temperature was not fitted."""
        found, before, after = [], [], []
        for fit, measure in self.splits():
            found.append(fit_temperature(self.posterior[fit], self.truth[fit]))
            before.append(self.figures(self.posterior, measure))
            after.append(self.figures(apply_temperature(self.posterior, found[-1]), measure))
        return found, before, after

    def mended(self):
        """The figures of all tasks, each half under the temperature of the other (the first split)."""
        posterior = self.posterior.copy()
        for fit, measure in islice(self.splits(), 2):
            posterior[measure] = apply_temperature(self.posterior[measure], fit_temperature(self.posterior[fit], self.truth[fit]))
        return self.figures(posterior)


def run(data, out):
    cases = {(name, model): Case(data, name, model) for name in SETS for model in MODELS}
    out.mkdir(parents=True, exist_ok=True)
    curves = {(name, model): cases[name, model].evaluation.calibration for name in DRAWN for model in CURVES}
    draw(curves | {(name, MENDED): cases[name, SMOOTHED].mended() for name in DRAWN}, out / "curves.svg")
    text = "\n".join([HEAD, *table_of_confidence(cases), MIDDLE, *table_of_temperature(cases), ""])
    write_aside(out / "README.md", lambda aside: aside.write_text(text))


HEAD = """# What posteriors are worth on real votes

Made by `python benchmarks/reliability.py` from all votes of every set, on the tasks that have truth, with
`confidence="posterior"`. [Can you trust it](../../../docs/can-you-trust-it.md) has honest confidence.
[Confidence](../../../docs/confidence.md) says what the figures mean.

![Reliability curves](curves.svg)

A mark is a tenth of the tasks, or more where confidences are equal: the larger, the more. Dashed is what is promised.

| set | model | tasks | accuracy | mean confidence | wrong | expected wrong | calibration error | Brier (0 to 2) | log loss |
|---|---|---|---|---|---|---|---|---|---|"""
MIDDLE = f"""
## A temperature fitted on half of the truth

The truth is split into halves at random, {SPLITS} times; the temperature is fitted on one half and the figures are taken
on the other, both ways round. Means over all of them; the spread of T is its 5th to 95th percentile; "wrong" is
expected wrong labels / wrong labels, which should be 1.

| set | model | T | spread of T | calibration error | after | log loss | after | Brier | after | wrong | after |
|---|---|---|---|---|---|---|---|---|---|---|---|"""


def table_of_confidence(cases):
    for (name, model), case in cases.items():
        e, c = case.evaluation, case.evaluation.calibration
        confidence = 1 - c.expected_errors / c.tasks
        yield (
            f"| {name} | {model} | {c.tasks} | {e.accuracy:.3f} | {confidence:.3f} | {c.errors} | {c.expected_errors:.0f} | "
            f"{c.expected_calibration_error:.3f} | {c.brier:.3f} | {c.log_loss:.2f} |"
        )


def table_of_temperature(cases):
    for (name, model), case in cases.items():
        found, before, after = case.halves()
        low, high = np.percentile(found, [5, 95])
        cells = [f"{np.mean(found):.2f}", f"{low:.2f} – {high:.2f}"]
        for figure in ("expected_calibration_error", "log_loss", "brier"):
            cells += [f"{np.mean([getattr(c, figure) for c in part]):.3f}" for part in (before, after)]
        for part in (before, after):
            cells.append(f"{sum(c.expected_errors for c in part) / sum(c.errors for c in part):.2f}")
        yield f"| {name} | {model} | {' | '.join(cells)} |"


def draw(found, path):
    """Draws one panel per set, one curve per model, as SVG."""
    from adjudge.report.charts import alt, apply_theme, save_svg

    styles = CURVES | {MENDED: ("#222222", "circle")}
    colour = alt.Color("model:N").title(None).scale(domain=list(styles), range=[c for c, _ in styles.values()])
    shape = alt.Shape("model:N").title(None).scale(domain=list(styles), range=[s for _, s in styles.values()])
    size = alt.Size("share:Q").title("share of tasks").scale(domain=(0, 1), range=(30, 500)).legend(None)
    panels = []
    for name, title in DRAWN.items():
        share = pl.col("tasks") / pl.col("tasks").sum()
        bins = pl.concat(pl.DataFrame(found[name, m].bins).with_columns(share=share, model=pl.lit(m)) for m in styles)
        low = min(bins["confidence"].min(), 1.0) - 0.04
        x = alt.X("confidence:Q").title("confidence").scale(domain=(low, 1.04), nice=False).axis(format=".1f", tickMinStep=0.1)
        y = alt.Y("accuracy:Q").title("accuracy").axis(format=".1f", tickMinStep=0.1)
        y = y.scale(domain=(0.28 if name == "trec2010" else 0.45, 1.04), nice=False)
        promised = alt.Chart(pl.DataFrame({"confidence": [0.0, 1.0], "accuracy": [0.0, 1.0]}))
        promised = promised.mark_line(color="#888888", strokeDash=[4, 3], strokeWidth=1.2, clip=True).encode(x, y)
        curves = alt.Chart(bins).encode(x, y, colour)
        lines = curves.mark_line(strokeWidth=1.2, opacity=0.7)
        marks = curves.mark_point(filled=False, strokeWidth=1.8, opacity=1).encode(shape, size)
        panels.append(
            alt.layer(promised, lines, marks, title=alt.Title(title, anchor="middle")).properties(width=380, height=300)
        )
    figure = apply_theme(alt.concat(*panels, columns=2).resolve_scale(color="shared", shape="shared", size="shared"))
    figure.config["legend"] |= {"orient": "bottom", "direction": "horizontal"}
    save_svg(figure, path)


if __name__ == "__main__":
    warnings.simplefilter("ignore", adj.NotConverged)
    folder = os.environ.get("ADJUDGE_DATA")
    if not folder or not Path(folder).is_dir():
        sys.exit("ADJUDGE_DATA names no folder of real votes: adjudge datasets get all -o DIR fetches them")
    run(Path(folder), Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "measured" / "reliability"))
