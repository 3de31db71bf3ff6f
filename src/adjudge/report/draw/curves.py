"""Charts of one figure against another: confidence, reliability, accuracy by model, shares of labels, passes of a fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from adjudge.report import words
from adjudge.report.draw.chart import across, chart, linear_ticks, percent_ticks, short, up
from adjudge.report.html import Content, Markup, join, tag
from adjudge.report.views.reliability import ReliabilityView
from adjudge.report.views.shares import SharesView
from adjudge.report.views.tasks import DOUBT, TasksView
from adjudge.report.views.trace import TraceView

GAP: Final = 0.12  # of a bar's width that stays free beside it


class ModelScore(NamedTuple):
    """How often a model is right, on tasks with truth."""

    model: str
    accuracy: float
    low: float  # of the 95% interval
    high: float
    is_own: bool = False  # whether the report is of this model


def confidence(view: TasksView) -> Markup:
    """Return the tasks by confidence: bars of equal width, those in doubt in another colour and behind a rule."""
    bins = view.bins
    first, most = float(bins["low"][0]), max(int(bins["tasks"].max() or 1), 1)  # type: ignore[arg-type]
    size = max(1.0 - first, 1e-9)
    marks: list[Content] = []
    for low, high, tasks, in_doubt in bins.iter_rows():
        left, width, share = (low - first) / size, (high - low) / size * 96.0 * (1 - GAP), tasks / most
        marks.append(
            tag(
                "rect",
                tag("title", f"{words.counted(tasks, 'task')}: confidence {words.percent(low)} to {words.percent(high)}"),
                x=across(left),
                width=f"{width:.2f}%",
                y=up(share),
                height=f"{share * 96.0:.2f}%",
                class_="bar doubt" if in_doubt else "bar",
            )
        )
    if first < DOUBT:
        at = (DOUBT - first) / size
        marks.append(tag("line", x1=across(at), x2=across(at), y1="0", y2="100%", class_="rule"))
        if view.doubtful:
            doubt = f"{words.percent(view.share_in_doubt)} in doubt"
            marks.append(tag("text", doubt, x=across(at), dx="-6", y="12", text_anchor="end", class_="strong"))
    return chart(
        marks,
        label=view.sentence,
        x_ticks=percent_ticks(first, 1.0, 6),
        y_ticks=linear_ticks(most),
        x_title="confidence: probability that the label is right",
        y_title="tasks",
        height=190,
    )


def reliability(view: ReliabilityView) -> Markup:
    """Return the reliability curve: dots as large as their bins, and the diagonal that they should be on."""
    low = min(0.5, math.floor(10 * min([1.0, *view.bins["confidence"], *view.bins["accuracy"]])) / 10)
    size = 1.0 - low
    most = max(view.bins["tasks"], default=1)
    marks: list[Content] = [tag("line", x1=across(0), y1=up(0), x2=across(1), y2=up(1), class_="rule")]
    for lowest, highest, tasks, mean, accuracy in view.bins.iter_rows():
        what = f"{words.counted(tasks, 'task')} of confidence {words.percent(lowest)} to {words.percent(highest)}"
        marks.append(
            tag(
                "circle",
                tag("title", f"{what}: {words.percent(accuracy)} are right"),
                cx=across((mean - low) / size),
                cy=up((accuracy - low) / size),
                r=f"{4 + 7 * math.sqrt(tasks / most):.1f}",
                class_="fillink",
                fill_opacity="0.8",
            )
        )
    ticks = percent_ticks(low, 1.0)
    return chart(
        marks,
        label=view.sentence,
        x_ticks=ticks,
        y_ticks=ticks,
        x_title="confidence",
        y_title="accuracy of the labels that have it",
        height=340,
        kind="square",
    )


def models(scores: Sequence[ModelScore]) -> Markup:
    """Return dots with intervals on one axis, and majority vote as the rule to beat."""
    low = max(math.floor(20 * min(one.low for one in scores) - 0.2) / 20, 0.0)
    high = min(math.ceil(20 * max(one.high for one in scores) + 0.2) / 20, 1.0)
    size, height, gap = max(high - low, 1e-9), 34 * len(scores), 1.0 / len(scores)
    marks: list[Content] = []
    rule = next((one for one in scores if one.model == "mv"), None)
    if rule is not None:
        x = across((rule.accuracy - low) / size)
        marks.append(tag("line", x1=x, x2=x, y1="0", y2="100%", class_="rule"))
    for at, one in enumerate(scores):
        y = f"{100 * (at + 0.62) * gap:.2f}%"
        left, middle, right = (across((value - low) / size) for value in (one.low, one.accuracy, one.high))
        kind = "v-informative" if one.is_own else "v-unclear"
        name = f"{one.model}{' (this report)' if one.is_own else ''} {words.percent(one.accuracy)}"
        marks.append(
            tag(
                "g",
                tag(
                    "title", f"{one.model}: {words.percent(one.accuracy)}, {words.percent(one.low)} to {words.percent(one.high)}"
                ),
                tag("line", x1=left, x2=right, y1=y, y2=y, class_="iv"),
                tag("use", href="#m-circle", x=middle, y=y),
                tag("text", name, x=middle, y=y, dy="-8", text_anchor="middle", class_="strong"),
                class_=kind,
            )
        )
    told = "; ".join(f"{one.model} {words.percent(one.accuracy)}" for one in scores)
    return chart(
        marks,
        label=f"Accuracy by model: {told}",
        x_ticks=percent_ticks(low, high, 6),
        x_title="accuracy with its 95% interval; the dashed line is majority vote",
        height=max(height, 60),
    )


def shares(view: SharesView) -> Markup:
    """Return a line per label: how often it is given (a ring) and how often it is chosen (a dot)."""
    top = view.top
    most = max([0.01, *top["given"], *top["chosen"]])
    rows = []
    for label, given, chosen in top.iter_rows():
        a, b = across(given / most), across(chosen / most)
        drawing = tag(
            "svg",
            tag("line", x1=a, x2=b, y1="50%", y2="50%", class_="iv"),
            tag("use", href="#m-ring", x=a, y="50%", class_="v-unclear"),
            tag("use", href="#m-circle", x=b, y="50%", class_="v-informative"),
            width="100%",
            height="20",
            aria_hidden="true",
            class_="v-unclear",
        )
        beside = tag("th", words.shortened(label, 40), scope="row", title=label)
        numbers = [tag("td", words.percent(share), class_="n") for share in (given, chosen)]
        rows.append(tag("tr", beside, tag("td", drawing, class_="line"), numbers))
    heads = [tag("th", view.noun, scope="col"), tag("th", "given ○ and chosen ●", scope="col")]
    heads += [tag("th", what, scope="col", class_="n") for what in ("given", "chosen")]
    return tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="wide dumbbell")


def trace(view: TraceView) -> Markup:
    """Return the labels changed by each pass, as bars on a logarithmic scale."""
    changed = view.frame["labels_changed"].to_list()
    most = max([1, *changed])
    top = math.log10(most + 1)
    n = len(changed)
    marks: list[Content] = []
    for at, (iteration, number, phase) in enumerate(zip(view.frame["iteration"], changed, view.frame["phase"], strict=True)):
        share = math.log10(number + 1) / top if top else 0.0
        marks.append(
            tag(
                "rect",
                tag("title", f"iteration {iteration} ({phase}): {words.counted(number, 'label')} changed"),
                x=across(at / n),
                width=f"{96.0 / n * (1 - GAP):.2f}%",
                y=up(share),
                height=f"{max(share * 96.0, 0.8):.2f}%",
                class_="bar",
            )
        )
    every = max(n // 8, 1)
    numbers = view.frame["iteration"].to_list()
    ticks = [((at + 0.5 * (1 - GAP)) / n, str(numbers[at])) for at in range(0, n, every)]
    values = [0, *(10**e for e in range(int(math.log10(most)) + 1))]
    heights = [(math.log10(value + 1) / top if top else 0.0, short(value)) for value in values]
    return chart(
        marks,
        label=view.sentence,
        x_ticks=ticks,
        y_ticks=heights,
        x_title="iteration",
        y_title="labels changed (logarithmic)",
        height=130,
    )


def bar(share: float, kind: str = "bar", width: int = 56) -> Markup:
    """Return a small bar of a share, for tables."""
    filled = tag("rect", width=f"{max(min(share, 1.0), 0.0) * width:.1f}", height="9", class_=kind)
    ground = tag("rect", width=width, height="9", class_="h1")
    return tag("svg", join([ground, filled]), width=width, height="9", aria_hidden="true")
