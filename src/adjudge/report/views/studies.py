"""Pictures of studies: models compared, panels by size, shares of labels in groups, and a ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from adjudge.data.vocabulary import text_of
from adjudge.errors import OptionError, itemize, quote
from adjudge.report import words
from adjudge.report.picture import Axis, Marks, Picture, Plot, Rule, Style, fields, name_rows, share_axis

if TYPE_CHECKING:
    from adjudge.evaluation.compare.compare import Comparison
    from adjudge.evaluation.panel.study import PanelStudy
    from adjudge.evaluation.ranking.ranking import Ranking
    from adjudge.evaluation.rates.rates import Rates

MAJORITY: Final = "mv"
ADVISED, AMONG, BELOW = "advised", "not significantly below the most accurate", "significantly below it"
MODEL_STYLES: Final = {ADVISED: Style("accent", "diamond"), AMONG: Style("grey"), BELOW: Style("grey", "ring")}
WITHOUT: Final = {
    "stable_workers": ("without a fifth of the workers", Style("c0")),
    "stable_tasks": ("without a fifth of the tasks", Style("c1", "square")),
}
RANDOM, CHOSEN = "random panels", "panels chosen by what each judge adds"
PANEL_STYLES: Final = {RANDOM: Style("accent"), CHOSEN: Style("doubt", "diamond")}
PANEL_FIELDS: Final = ("size", "accuracy", "low", "high")
MAX_TICKS: Final = 14
SHARE_KINDS: Final = {
    "share": ("true share, estimated", Style("accent")),
    "naive": ("share of the labels as given", Style("muted", "diamond")),
}
MAX_GROUPS: Final = 60  # in a picture
MAX_ITEMS: Final = 40
SURE, DOUBT = "separated from its neighbours", "not separated from a neighbour"
ITEM_STYLES: Final = {SURE: Style("accent"), DOUBT: Style("grey", "ring")}


def comparison(study: Comparison) -> Picture:
    """Return the accuracy of models with intervals, majority vote the rule to beat; without truth, how many labels stay."""
    told = study.advice[0] if study.advice else words.sentence(f"take {study.best}")
    frame = study.models_frame()
    judged = frame.filter(pl.col("accuracy").is_not_null())
    if len(judged):
        kind = pl.when(model=study.best).then(pl.lit(ADVISED)).when("below_highest").then(pl.lit(BELOW)).otherwise(pl.lit(AMONG))
        ends = {end: pl.coalesce(f"accuracy_{end}", "accuracy") for end in ("low", "high")}
        rows = judged.sort("accuracy", descending=True, maintain_order=True).select("model", "accuracy", **ends, kind=kind)
        majority = rows.filter(model=MAJORITY)["accuracy"].to_list()
        plot = accuracies(rows, MODEL_STYLES, majority[0] if majority else None)
        return Picture(told, (plot,), (f"Lines are {words.percent(study.level)} intervals.",))
    stable = frame.filter(pl.any_horizontal(pl.col(*WITHOUT).is_not_null()))
    if not len(stable):
        return Picture(told, notes=("No truth was given: pass truth=… or gold=… to see accuracies.",))
    note = "How many labels stay if some votes are left out. Pass truth=… or gold=… to see accuracies."
    return Picture(told, (_stability(stable),), (note,))


def accuracies(rows: pl.DataFrame, styles: dict[str, Style], majority: float | None) -> Plot:
    """Return the plot of accuracies.

    `rows` are model, accuracy, low, high and kind, the best model first; `majority` is the accuracy of majority vote.
    """
    low, high = min(rows["low"]), max(rows["high"])
    room = 0.08 * (high - low) + 1e-3
    y, rows = name_rows(rows, "model")
    hover = fields(model="text", accuracy="share", low=("share", "from"), high=("share", "to"), kind="text")
    return Plot(
        Axis("accuracy (share of right labels)", max(low - room, 0.0), min(high + room, 1.0), 7, "percent"),
        y,
        (
            Marks("lines", rows, x="low", x2="high", y="name", by="kind", opacity=0.7),
            Marks("dots", rows, x="accuracy", y="name", by="kind", hover=hover),
        ),
        styles={kind: style for kind, style in styles.items() if kind in set(rows["kind"])},
        rules=() if majority is None else (Rule(majority, "x", "majority vote", "middle"),),
        columns=[("accuracy", [f"{share:.1%}" for share in rows["accuracy"]])],
        step=30,
    )


def _stability(stable: pl.DataFrame) -> Plot:
    y, stable = name_rows(stable, "model")
    long = pl.concat(stable.select("model", "name", share=column, kind=pl.lit(kind)) for column, (kind, _) in WITHOUT.items())
    long = long.drop_nulls("share")
    hover = fields(model="text", kind=("text", "votes"), share=("share", "labels that stay"))
    return Plot(
        share_axis("labels that stay", max(min(long["share"]) - 0.02, 0.0), 1.0),
        y,
        (Marks("dots", long, x="share", y="name", by="kind", hover=hover),),
        styles={kind: style for kind, style in WITHOUT.values() if kind in set(long["kind"])},
        step=30,
    )


def panel(study: PanelStudy) -> Picture:
    """Return accuracy by size with a band that holds nine of ten panels, over the independent votes that they amount to."""
    sizes, chosen = study.sizes_frame(), study.panels_frame()
    parts = [sizes.select(*PANEL_FIELDS, kind=pl.lit(RANDOM))]
    if len(chosen):
        best = chosen.sort("size", -pl.col("accuracy"), maintain_order=True).unique("size", keep="first", maintain_order=True)
        parts.append(best.select(*PANEL_FIELDS, kind=pl.lit(CHOSEN)))
    points = pl.concat(parts, how="vertical_relaxed").drop_nulls("accuracy")
    known = sizes.drop_nulls("effective_votes")
    plots = [_panel_accuracy(study, sizes, points, is_last=not len(known))]
    plots += [_effective_votes(study, sizes, known)] if len(known) else []
    told = study.sentences()
    return Picture(words.sentence(told[0]) if told else "", plots, ("The band holds nine of ten random panels.",))


def _size_axis(study: PanelStudy, sizes: pl.DataFrame, *, is_last: bool) -> Axis:
    """Return the axis of sizes: under each size what such a panel costs per task, if costs are known."""
    every = sizes["size"].to_list()
    ticks = sorted({*every[:: -(-len(every) // MAX_TICKS)], every[-1]})
    unit, costs = "", {}
    if is_last:
        costs = {size: f"{cost:.2g}" for size, cost in sizes.select("size", "cost").rows() if cost is not None and size in ticks}
        unit = "judges in the panel" if study.by == "judges" else "votes per task"
        unit += ", and below the cost of a task" if costs else ""
    return Axis(unit, every[0], max(every[-1], every[0] + 1), ticks, "count", grid=False, below=costs)


def _panel_accuracy(study: PanelStudy, sizes: pl.DataFrame, points: pl.DataFrame, *, is_last: bool) -> Plot:
    ends: list[float] = [*points["low"].drop_nulls(), *points["high"].drop_nulls(), *points["accuracy"]]
    room = 0.08 * (max(ends) - min(ends)) + 1e-3
    hover = fields(kind="text", size="count", accuracy="share", low="share", high="share")
    band = points.filter(pl.col("kind") == RANDOM).drop_nulls("low")
    return Plot(
        _size_axis(study, sizes, is_last=is_last),
        share_axis("accuracy (share of right labels)", max(min(ends) - room, 0.0), min(max(ends) + room, 1.0)),
        (
            Marks("band", band, x="size", y="low", y2="high", opacity=0.18),
            Marks("curve", points, x="size", y="accuracy", by="kind"),
            Marks("dots", points, x="size", y="accuracy", by="kind", hover=hover),
        ),
        styles={kind: style for kind, style in PANEL_STYLES.items() if kind in set(points["kind"])},
        rules=(_enough(study, sizes),),
        height=260,
    )


def _enough(study: PanelStudy, sizes: pl.DataFrame) -> Rule:
    low, most = sizes["size"][0], sizes["size"][-1]
    text = "all are needed" if study.enough == most else f"{study.enough} {'is' if study.enough == 1 else 'are'} enough"
    text = f"at random: {text}" if len(study.chosen) else text
    return Rule(study.enough, "x", text, "end" if 2 * study.enough > low + most else "start", inside=True)


def _effective_votes(study: PanelStudy, sizes: pl.DataFrame, known: pl.DataFrame) -> Plot:
    hover = fields(size="count", effective_votes=("number", "independent votes"))
    return Plot(
        _size_axis(study, sizes, is_last=True),
        Axis("independent votes", 0.0, 1.1 * max(known["effective_votes"]), 4),
        (Marks("curve", known, x="size", y="effective_votes"), Marks("dots", known, x="size", y="effective_votes", hover=hover)),
        height=110,
    )


def rates(study: Rates, label: object = None) -> Picture:
    """Return the shares of one label, or of all, in every group with intervals, next to the uncorrected shares."""
    frame = study.rates_frame().with_columns(pl.col("group", "label").cast(pl.String))
    labels = frame["label"].unique(maintain_order=True).to_list()
    if label is not None and text_of(label) not in labels:
        raise OptionError(f"label is {quote(label)}: choose one of {itemize(labels)}")
    wanted = [text_of(label)] if label is not None else labels[-1:] if len(labels) == 2 else labels
    groups = frame["group"].unique(maintain_order=True).to_list()
    few = frame.filter(pl.col("label").is_in(wanted), pl.col("group").is_in(groups[:MAX_GROUPS]))
    more = f" {len(groups) - MAX_GROUPS} more groups are not shown." if len(groups) > MAX_GROUPS else ""
    of = f"true share of {words.shorten(wanted[0])}" if len(wanted) == 1 else "true share of each label"
    note = f"Lines are {words.percent(study.level)} intervals.{more}"
    return Picture(words.sentence(f"{of} per group"), [_shares(few.filter(label=one), one) for one in wanted], (note,))


def _shares(frame: pl.DataFrame, label: str) -> Plot:
    y, frame = name_rows(frame, "group")
    kinds = SHARE_KINDS.items()
    long = pl.concat(frame.select(*frame.columns, at=pl.col(name), kind=pl.lit(kind)) for name, (kind, _) in kinds)
    shares = fields(share="share", low="share", high="share", naive="share")
    hover = (*fields(group="text", label=("text", "label")), *shares, *fields(tasks="count", gold="count", method="text"))
    return Plot(
        share_axis(f"share of {words.shorten(label)}"),
        y,
        (
            Marks("lines", frame, x="low", x2="high", y="name"),
            Marks("dots", long.drop_nulls("at"), x="at", y="name", by="kind", hover=hover),
        ),
        styles=dict(SHARE_KINDS.values()),
        columns=[("share", [f"{share:.1%}" for share in frame["share"]])],
        step=30,
    )


def ranking(study: Ranking) -> Picture:
    """Return the strengths of the first items of the largest component with intervals, the strongest on top."""
    board = study.leaderboard_frame()
    largest = board.filter(pl.col("component") == 1)
    y, shown = name_rows(largest.head(MAX_ITEMS).with_columns(item=pl.col("item").cast(pl.String)), "item")
    shown = shown.with_columns(
        kind=pl.when(pl.col("rank_low") == pl.col("rank_high")).then(pl.lit(SURE)).otherwise(pl.lit(DOUBT)),
        ranks=pl.format("{} to {}", "rank_low", "rank_high"),
    )
    low, high = min(0.0, *shown["low"]), max(0.0, *shown["high"])
    numbers = fields(strength="number", low="number", high="number", points="count", comparisons="count")
    hover = (*fields(item="text", rank="count", ranks=("text", "may be")), *numbers)
    plot = Plot(
        Axis("strength (nats: log-odds of winning against the mean item)", low, high, 7, "signed"),
        y,
        (
            Marks("lines", shown, x="low", x2="high", y="name", by="kind", opacity=0.8),
            Marks("dots", shown, x="strength", y="name", by="kind", hover=hover),
        ),
        styles={kind: style for kind, style in ITEM_STYLES.items() if kind in set(shown["kind"])},
        rules=(Rule(0.0, "x"),),
    )
    leader, lead = words.shorten(str(largest["item"][0]), 40), int((largest["rank_low"] == 1).sum())
    told = f"{leader} leads." if lead == 1 else f"{leader} leads, and {lead - 1} more may be as strong."
    notes = [f"Lines are {words.percent(study.level)} intervals; 0 is the mean item."]
    if len(largest) > len(shown):
        notes.append(f"The first {len(shown)} of {len(largest)} items.")
    if len(largest) < len(board):
        notes.append("The largest component: others were never compared with it.")
    return Picture(told, (plot,), (" ".join(notes),))
