"""The pictures of the page, declared as those of the report are, and drawn by the report's own renderer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.report import words
from adjudge.report.palette import Shape
from adjudge.report.picture import Axis, Marks, Picture, Plot, Rule, Shade, Style, fields, name_axis, share_axis
from adjudge.report.views.votes import AGAINST, ELSE, EVIDENCE_STYLES, FOR
from adjudge.report.views.workers import WorkersView
from adjudge.service.board.evidence import Weighed

MAX_LABEL_LINES: Final = 6  # labels that have a line of their own
LINE_SHAPES: Final[tuple[Shape, ...]] = ("circle", "square", "triangle", "diamond", "ring", "circle")  # of those lines
MAX_BARS: Final = 24  # votes that have a bar of their own
MAX_CONFUSION_LABELS: Final = 20  # labels of a confusion that is drawn


def evidence(weighed: Weighed, names: Sequence[str]) -> Picture | None:
    """Return the bars of what every vote adds; None where there is nothing to weigh.

    - `names`: of the labels.
    """
    if weighed.label < 0 or weighed.runner_up < 0 or not weighed.votes:
        return None
    counted = [vote for vote in weighed.votes if vote.counts]
    if not counted:
        return None
    rows: list[tuple[str, str, float, str]] = []
    if abs(weighed.rest) > 0.005:
        rows.append(("prior and corrections", ELSE, weighed.rest, ""))
    for vote in counted[:MAX_BARS]:
        right = "" if vote.accuracy is None else words.percent(vote.accuracy)
        name = words.name(vote.worker if vote.worker is not None else f"#{vote.number}")
        rows.append((f"{name}: {words.name(names[vote.label])}", FOR if vote.adds >= 0 else AGAINST, vote.adds, right))
    if len(counted) > MAX_BARS:
        left = sum(vote.adds for vote in counted[MAX_BARS:])
        rows.append((f"{words.count(len(counted) - MAX_BARS)} more votes", FOR if left >= 0 else AGAINST, left, ""))
    y = name_axis([row[0] for row in rows], width=28, grid=False)
    frame = pl.DataFrame(rows, schema=["what", "kind", "adds", "right"], orient="row")
    ends = frame["adds"].cum_sum()
    frame = frame.with_columns(name=pl.Series(y.names, dtype=pl.String), end=ends, start=ends - frame["adds"])
    edges = [*frame["start"], *frame["end"], 0.0]
    room = 0.05 * (max(edges) - min(edges) or 1.0)
    title = f"log-odds of {words.quote(names[weighed.label], 20)} against {words.quote(names[weighed.runner_up], 20)}"
    hover = fields(what="text", kind="text", adds=("signed", "adds"), right=("text", "right"))
    plot = Plot(
        Axis(title, min(edges) - room, max(edges) + room, 7, "signed", grid=False),
        y,
        (Marks("bars", frame, x="start", x2="end", y="name", by="kind", hover=hover),),
        styles={kind: style for kind, style in EVIDENCE_STYLES.items() if kind in set(frame["kind"])},
        rules=(Rule(0.0, "x"),),
        columns=[("adds", [f"{adds:+.2f}".replace("-", "−") for adds in frame["adds"]]), ("right", list(frame["right"]))],
        step=21,
    )
    decisive = sum(vote.is_decisive for vote in counted)
    more = weighed.votes_to_flip
    if decisive:
        alone = "one vote" if decisive == 1 else f"{words.count(decisive)} votes, each by itself,"
        sentence = words.sentence(f"{alone} could change the label: without it the runner-up would lead")
    else:
        sentence = "No single vote could change the label alone."
    if more is not None:
        sentence += f" {words.tally(more, 'more vote')} against it would flip it."
    return Picture(sentence, (plot,))


def probabilities(shares: NDArray[np.float64], names: Sequence[str]) -> Picture | None:
    """Return how likely each label was after each vote, as lines; None without votes.

    - `shares`: before the first vote and after each, [votes + 1, K].
    """
    votes = len(shares) - 1
    if votes < 1:
        return None
    shown = np.argsort(-shares.max(axis=0), kind="stable")[:MAX_LABEL_LINES]
    kinds = {words.shorten(names[code], 30): int(code) for code in shown.tolist()}
    frame = pl.DataFrame(
        [(at, float(shares[at, code]), kind) for kind, code in kinds.items() for at in range(votes + 1)],
        schema={"vote": pl.Int64, "share": pl.Float64, "label": pl.String},
        orient="row",
    )
    hover = fields(label="text", vote=("count", "after vote"), share=("percent", ""))
    styles = {kind: Style(f"c{at}", LINE_SHAPES[at]) for at, kind in enumerate(kinds)}
    plot = Plot(
        Axis("votes, in the order in which they came", 0, max(votes, 1), min(votes, 10), "count"),
        share_axis("probability"),
        (
            Marks("curve", frame, x="vote", y="share", by="label"),
            Marks("dots", frame, x="vote", y="share", by="label", hover=hover),
        ),
        styles=styles,
        height=220,
    )
    leader = names[int(shares[-1].argmax())]
    low = float(shares[:, int(shares[-1].argmax())].min())
    sentence = f"{words.quote(leader)} went from {words.percent(low)} at its lowest to {words.percent(float(shares[-1].max()))}."
    return Picture(words.sentence(sentence), (plot,))


def people(frame: pl.DataFrame, chance: float) -> WorkersView:
    """Return the report's view of workers from the figures of a campaign.

    - `frame`: code, worker, votes, accuracy, accuracy_low, accuracy_high.
    """
    known = frame.with_columns(
        agreement=pl.lit(None, pl.Float64),
        verdict=pl.lit(None, pl.String),
        answers_like=pl.lit(None, pl.String),
        why=pl.lit(None, pl.String),
    )
    return WorkersView(known, cast(Any, None), chance, False, "")


def confusion(matrix: dict[str, dict[str, float]], names: Sequence[str]) -> Picture | None:
    """Return how often a worker gives each label, by true label, as cells; None with very many labels."""
    if len(matrix) > MAX_CONFUSION_LABELS:
        return None
    lines = [list(line.values()) for line in matrix.values()]
    x, y = name_axis(names, title="label given", width=16), name_axis(names, title="true label", width=16)
    rows = [
        (y.names[true], x.names[given], share, f"{100 * share:.0f}" if share >= 0.005 else "", names[true], names[given])
        for true, line in enumerate(lines)
        for given, share in enumerate(line)
    ]
    schema = ["true", "given", "share", "text", "true_name", "given_name"]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    hover = fields(true_name=("text", "true"), given_name=("text", "given"), share="percent")
    marks = Marks("cells", frame, x="given", y="true", shade=Shade("share", 0.0, 1.0), text="text", hover=hover)
    wrong = [(share, true, given) for true, line in enumerate(lines) for given, share in enumerate(line) if true != given]
    share, true, given = max(wrong)
    sentence = f"Most often wrong: {words.percent(share)} of {words.quote(names[true])} are called {words.quote(names[given])}."
    return Picture(sentence, (Plot(x, y, (marks,)),))


def drift(likely: Sequence[float], usual: float) -> Picture | None:
    """Return how likely a worker's latest votes were right, oldest first, with a running mean; None for few votes."""
    if len(likely) < 5:
        return None
    values = np.asarray(likely)
    width = max(5, len(values) // 10)
    means = np.convolve(values, np.ones(width) / width, mode="valid")
    frame = pl.DataFrame({"vote": np.arange(width, len(values) + 1), "mean": means})
    spread = 1.645 * float(np.sqrt(max(usual * (1 - usual), 1e-4) / width))
    low, high = max(usual - spread, 0.0), min(usual + spread, 1.0)
    band = pl.DataFrame({"vote": [width, len(values)], "low": [low, low], "high": [high, high]})
    plot = Plot(
        Axis("votes, in the order in which tasks were touched", width, max(len(values), width + 1), 6, "count", grid=False),
        share_axis("right, expected"),
        (
            Marks("band", band, x="vote", y="low", y2="high", opacity=0.15),
            Marks("curve", frame, x="vote", y="mean"),
        ),
        rules=(Rule(usual, "y", f"usual: {words.percent(usual)}"),),
        height=180,
    )
    last = float(means[-1])
    sentence = f"The last {width} votes were right in {words.percent(last)}, expected; usually {words.percent(usual)}."
    if abs(last - usual) > spread:
        sentence += f" That is {'better' if last > usual else 'worse'} than chance explains."
    return Picture(sentence, (plot,))
