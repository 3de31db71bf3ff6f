"""Commands about juries and the systems they judge: `adjudge panel`, `rates` and `rank`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

import adjudge as adj
from adjudge.cli import output as out
from adjudge.cli.options import (
    Cluster,
    Cost,
    Flags,
    Groups,
    Json,
    Level,
    Model,
    Silent,
    VotesFiles,
    command,
    existing_file,
    for_input,
    for_knowledge,
    for_model,
    for_output,
    number_or_word,
    parse_cost,
    split_numbers,
)
from adjudge.data.options import DEFAULTS, PanelKind
from adjudge.errors import OptionError, choice_error

if TYPE_CHECKING:
    import polars as pl

    from adjudge.cli.console import Screen
    from adjudge.evaluation.panel.study import PanelStudy
    from adjudge.evaluation.ranking.ranking import Ranking
    from adjudge.evaluation.rates.rates import Rates

YES_NO: Final = ("auto", "yes", "no")
# Rows of a table on the screen.
MAX_SHOWN_PANEL_JUDGES: Final = 10
MAX_SHOWN_PANELS: Final = 12
MAX_SHOWN_RATES: Final = 40
MAX_SHOWN_ITEMS: Final = 50
MAX_SHOWN_RANK_JUDGES: Final = 20
COMPARISONS_HELP: Final = "Files or patterns with one comparison per line: left, right, winner, judge; - is stdin."


@command(
    ("How many judges are enough, and which add nothing:", "adjudge panel votes.csv"),
    ("Measured by known labels, every judge into a file:", "adjudge panel votes.csv --truth truth.csv --judges judges.csv"),
    ("The best panel for 3 cents a task, at one cent a vote:", "adjudge panel votes.csv --cost 0.01 --budget 0.03"),
    without=("weight", "set_separator"),
    by=PanelKind,
)
def panel(
    votes: VotesFiles,
    cost: Cost = None,
    budget: Annotated[float | None, for_knowledge(help="Budget for one task.")] = None,
    model: Model = DEFAULTS.model,
    by: Annotated[str, for_model(help="Panels are some judges, or some votes of each task: auto, judges or votes.")] = "auto",
    sizes: Annotated[str | None, for_model(help="Sizes of panels, joined by commas: 1,3,5.")] = None,
    subsets: Annotated[int, for_model(help="Maximum number of random panels of each size.")] = 50,
    within: Annotated[float, for_model(help="Difference in accuracy that does not matter.")] = 0.01,
    seed: Annotated[int, for_model(help="Seed of the random panels.")] = 0,
    cluster: Cluster = None,
    curve: Annotated[Path | None, for_output(help="Write a line per size here.")] = None,
    judges: Annotated[Path | None, for_output(help="Write a line per judge here.")] = None,
    panels: Annotated[Path | None, for_output(help="Write the chosen panels here.")] = None,
    confusions: Annotated[Path | None, for_output(help="Write what each judge gives to each true label here.")] = None,
    as_json: Json = False,
    quiet: Annotated[bool, for_output("--quiet", help="Print only the number of judges that is enough.")] = False,
    groups: Groups = None,
    *,
    truth: Flags,
    how_read: Flags,
) -> None:
    """Find how many judges are enough, and which to choose.

    Random panels of every size are labelled and measured, by truth if it is given.
    """
    prices = None if cost is None else parse_cost(cost)
    targets = {"--curve": curve, "--judges": judges, "--panels": panels, "--confusions": confusions}
    if confusions is not None and truth["truth"] is None:
        raise OptionError("--confusions compares votes with known labels: give --truth FILE, too")
    inputs = {"the votes": votes, "the truth": truth["truth"], "the costs": existing_file(cost)}
    out.check(targets, inputs | {"the clusters": existing_file(cluster)}, to_stdout=True)
    settings: Any = {
        "cost": prices,
        "budget": budget,
        "model": model,
        "by": by,
        "subsets": subsets,
        "within": within,
        "seed": seed,
        "cluster": cluster,
    }
    settings["sizes"] = None if sizes is None else split_numbers(sizes, "--sizes", int, "1,3,5")
    with out.progress("status", quiet=quiet or as_json) as progress:
        study = adj.panel(out.source_of(votes), groups=groups, **truth, **settings, progress=progress, **how_read)
    frames = (study.sizes_frame, study.judges_frame, lambda: _flat(study.panels_frame()), study.confusions_frame)
    out.write_frames(targets.values(), frames)
    show = partial(_show_panels, study)
    shown: Any = {"as_json": as_json, "quiet": quiet, "judges": study.workers if groups is None else None}
    out.present(study.to_dict, show, votes, study.understood, answer=study.enough, **shown)


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Return chosen panels with their workers as one text, a JSON list: tables of text have no lists."""
    import json

    import polars as pl

    texts = [json.dumps(workers, ensure_ascii=False) for workers in frame["workers"].to_list()]
    return frame.with_columns(workers=pl.Series(texts, dtype=pl.String))


def _show_panels(study: PanelStudy, screen: Screen) -> None:
    """Print the answer, the curve, the judges and the chosen panels."""
    for line in study.sentences():
        screen.say(line)
    costs = ["cost per task"] if study.points[-1].cost is not None else []
    accuracy = "accuracy" if study.measured_by == "truth" else "expected accuracy"
    screen.heading("panels of random judges" if study.by == "judges" else "random votes of each task")
    rows: list[tuple[object, ...]] = [
        (
            str(point.size),
            out.share(point.accuracy),
            out.interval(point.low, point.high, out.share),
            f"{100 * point.shortfall:.1f}",
            f"{point.effective_votes:.2g}",
            *([f"{point.cost:.3g}"] if point.cost is not None else []),
        )
        for point in study.points
    ]
    screen.table(["size", accuracy, "nine of ten", "points lost", "effective votes", *costs], rows)
    _show_panel_judges(study, screen)
    if study.chosen:
        screen.heading("chosen panels, measured on tasks that the choice has not seen")
        rows = [
            (
                study.names(one.workers),
                str(one.size),
                out.share(one.accuracy),
                out.interval(one.accuracy.low, one.accuracy.high, out.share),
                *([f"{one.cost:.3g}"] if one.cost is not None else []),
            )
            for one in study.chosen[:MAX_SHOWN_PANELS]
        ]
        screen.table(["judges", "size", accuracy, "90% interval", *costs], rows, ids=1)
        screen.more(len(study.chosen), MAX_SHOWN_PANELS, "--panels FILE lists them")


def _show_panel_judges(study: PanelStudy, screen: Screen) -> None:
    """Print the judges that add most and least."""
    measured = [(one, one.adds) for one in study.found if one.adds is not None]
    half = MAX_SHOWN_PANEL_JUDGES // 2
    shown = measured if len(measured) <= MAX_SHOWN_PANEL_JUDGES else [*measured[:half], *measured[-half:]]
    if not shown:
        return
    screen.heading("what a judge adds, in points of accuracy" + (": most and least" if len(measured) > len(shown) else ""))
    rows = [
        (
            study.workers[one.worker],
            one.word,
            f"{100 * adds:.1f}",
            f"{100 * adds.low:.1f} to {100 * adds.high:.1f}",
            *([] if one.accuracy is None else [out.share(one.accuracy)]),
            *([] if one.accuracy is None else [out.interval(one.accuracy.low, one.accuracy.high, out.share)]),
        )
        for one, adds in shown
    ]
    own = ["right alone", "90% interval"] if all(one.accuracy is not None for one, _ in shown) else []
    screen.table(["judge", "", "adds", "90% interval", *own], rows, ids=2)
    screen.more(len(study.found), len(shown), "--judges FILE lists them, and why")


@command(
    ("The true share of each label per system, from a table of task and group:", "adjudge rates votes.csv --by systems.csv"),
    ("Corrected by known labels of random tasks:", "adjudge rates votes.csv --by systems.csv --gold gold.csv"),
    (
        "Every system against one, on the same prompts:",
        "adjudge rates votes.csv --by systems.csv --cluster prompt --baseline v1",
    ),
    without=("set_separator",),
)
def rates(
    votes: VotesFiles,
    by: Annotated[
        str | None, for_input(help="The group of each task: a column of the votes, or a table of task and group.")
    ] = None,
    gold: Annotated[Path | None, for_knowledge(help="Known labels of random tasks of each group, to correct by.")] = None,
    cluster: Cluster = None,
    baseline: Annotated[str | None, for_model(help="The group to compare all others with; else every two are.")] = None,
    good: Annotated[
        str | None, for_model(help="The label that is better to have more of (default: pass, good, yes, …, or the last).")
    ] = None,
    difference: Annotated[float | None, for_model(help="Say how many tasks would show this difference: 0.03.")] = None,
    level: Level = 0.9,
    these_tasks: Annotated[
        bool, for_model("--these-tasks", help="Shares among these tasks only, not in the population that they sample.")
    ] = False,
    model: Model = DEFAULTS.model,
    seed: Annotated[int, for_model(help="Seed of the model, which decides ties.")] = 0,
    output: Annotated[Path | None, for_output("-o", "--output", help="Write the shares here.")] = None,
    differences: Annotated[Path | None, for_output(help="Write the differences between groups here.")] = None,
    gold_needed: Annotated[Path | None, for_output(help="Write how many more known labels would help here.")] = None,
    as_json: Json = False,
    quiet: Silent = False,
    groups: Groups = None,
    *,
    how_read: Flags,
) -> None:
    """Estimate the true share of each label per group of tasks.

    Shares are corrected for judges' errors: by the votes alone, or by known labels.
    """
    targets = {"--output": output, "--differences": differences, "--gold-needed": gold_needed}
    inputs: dict[str, Any] = {"the votes": votes, "the gold": gold, "the groups of tasks": existing_file(by)}
    inputs |= {"the clusters": existing_file(cluster), "the groups": out.groups_file(groups)}
    out.check(targets, inputs, to_stdout=True)
    settings: Any = {"model": model, "seed": seed, "level": level, "sample": not these_tasks, "good": good}
    settings |= {"by": by, "groups": groups, "gold": gold, "cluster": cluster, "baseline": baseline}
    estimated = adj.rates(out.source_of(votes), **settings, **how_read)
    out.write_frames(targets.values(), (estimated.rates_frame, estimated.differences_frame, estimated.gold_needed_frame))
    needed = None if difference is None else estimated.tasks_needed_frame(difference)

    def summary() -> dict[str, object]:
        return estimated.to_dict() | ({} if needed is None else {"tasks_needed": needed.to_dicts()})

    show = partial(_show_rates, estimated, needed, difference)
    out.present(summary, show, votes, estimated.understood, as_json=as_json, quiet=quiet)


def _show_rates(estimated: Rates, needed: pl.DataFrame | None, difference: float | None, screen: Screen) -> None:
    """Print shares, differences and what more known labels would do."""

    def points(part: float) -> str:
        return f"{100 * part:+.1f}"

    interval = f"{100 * estimated.level:g}% interval"
    for sentence in estimated.sentences():
        screen.say(sentence)
    screen.print()
    frame = estimated.rates_frame()
    rows: list[tuple[object, ...]] = [
        (
            *(row["group"], row["label"], out.share(row["share"]), out.interval(row["low"], row["high"], out.share)),
            *(out.share(row["naive"]), row["tasks"], row["gold"], row["method"]),
        )
        for row in frame.head(MAX_SHOWN_RATES).iter_rows(named=True)
    ]
    screen.table(["group", "label", "share", interval, "of the labels", "tasks", "gold", "by"], rows, ids=2)
    screen.more(len(frame), MAX_SHOWN_RATES, "-o FILE has all")
    frame = estimated.differences_frame()
    if len(frame):
        screen.heading("differences of shares, in points: the first group minus the second")
        turned = {(verdict.other, verdict.better) for verdict in estimated.verdicts}
        if frame["label"].n_unique() == 2:  # the other label has the same differences, negated
            frame = frame.filter([str(label) == estimated.verdicts[0].label for label in frame["label"]])
        pairs = ["pairs"] if (frame["pairs"] > 0).any() else []
        rows = [
            (
                *(row["group"], row["other"], row["label"], points(row["difference"])),
                out.interval(row["low"], row["high"], points),
                f"{row['p_value']:.2g}" if row["p_value"] >= 1e-4 else "<0.0001",
                *(row[name] for name in pairs),
            )
            for row in (
                _turn(row) if (str(row["group"]), str(row["other"])) in turned else row
                for row in frame.head(MAX_SHOWN_RATES).iter_rows(named=True)
            )
        ]
        screen.table(["group", "minus", "label", "difference", interval, "p-value", *pairs], rows, ids=3)
        screen.more(len(frame), MAX_SHOWN_RATES, "--differences FILE has all")
    if needed is not None and difference is not None:
        screen.heading(f"tasks of each group that show a difference of {100 * difference:g} points in 8 of 10 cases")
        screen.table(["group", "other", "label", "tasks now", "needed"], needed.head(MAX_SHOWN_RATES).rows(), ids=3)
    frame = estimated.gold_needed_frame()
    screen.heading("known labels that would halve the widest interval")
    screen.table(["group", "more", "that is"], frame.select("group", "more", "why").head(MAX_SHOWN_RATES).rows(), ids=1)
    screen.more(len(frame), MAX_SHOWN_RATES, "--gold-needed FILE has all")


def _turn(row: dict[str, Any]) -> dict[str, Any]:
    """Return a difference of two groups in the opposite order."""
    turned = {"group": row["other"], "other": row["group"], "difference": -row["difference"]}
    return row | turned | {"low": -row["high"], "high": -row["low"]}


@command(
    ("A leaderboard of the compared items:", "adjudge rank battles.csv"),
    ("Other columns, and the leaderboard into a file:", "adjudge rank games.csv --left home --right away -o board.csv"),
    (
        "The reliability of judges, and what to compare next:",
        "adjudge rank battles.csv --judges judges.csv --neighbours next.csv",
    ),
    ("Net of length (length_a, length_b), with its effect:", "adjudge rank battles.csv --covariate length --effects effects.csv"),
    only=("worker", "separator"),
    weigh_judges=YES_NO,
    position=YES_NO,
)
def rank(
    comparisons: Annotated[list[str], typer.Argument(metavar="COMPARISONS", help=COMPARISONS_HELP)],
    left: Annotated[str | None, for_input(help="Column of the item on the left.")] = None,
    right: Annotated[str | None, for_input(help="Column of the item on the right.")] = None,
    winner: Annotated[str | None, for_input(help="Column of the winner: an id, left, right, a, b, tie, ….")] = None,
    cluster: Annotated[
        str | None, for_input(help="Column of the prompt or document that makes comparisons depend on each other; '' for none.")
    ] = None,
    covariate: Annotated[
        list[str] | None,
        for_input(help="What else may sway the choice: a column of differences, or a pair NAME_a, NAME_b; as often as needed."),
    ] = None,
    no_header: Annotated[
        bool, for_input("--no-header", help="The first line is a comparison; columns are called 1, 2, ….")
    ] = False,
    weigh_judges: Annotated[str, for_model(help="Estimate the reliability of judges: auto, yes or no.")] = "auto",
    position: Annotated[str, for_model(help="Estimate the advantage of the left side: auto, yes or no.")] = "auto",
    prior: Annotated[
        str, for_model(help="Comparisons with a mean item that every item is given, half of them won: auto or a number.")
    ] = "auto",
    level: Level = 0.9,
    draws: Annotated[int, for_model(help="Draws for the errors of more than 2000 items.")] = 64,
    seed: Annotated[int, for_model(help="Seed of the draws.")] = 0,
    output: Annotated[Path | None, for_output("-o", "--output", help="Write the leaderboard here.")] = None,
    judges: Annotated[Path | None, for_output(help="Write a line per judge here.")] = None,
    neighbours: Annotated[Path | None, for_output(help="Write a line per two neighbours in the ranking here.")] = None,
    effects: Annotated[Path | None, for_output(help="Write the effects of covariates here.")] = None,
    volatility: Annotated[Path | None, for_output(help="Write how much the rank of each item may change here.")] = None,
    cycles: Annotated[Path | None, for_output(help="Write triples of items that beat each other in a circle here.")] = None,
    as_json: Json = False,
    quiet: Silent = False,
    groups: Groups = None,
    *,
    how_read: Flags,
) -> None:
    """Rank items by pairwise comparisons, with intervals.

    The model is that of Bradley and Terry. Judges who guess count for less, and an advantage of the left side is taken out, where
    comparisons show them.
    """
    targets = {"--output": output, "--judges": judges, "--neighbours": neighbours}
    targets |= {"--effects": effects, "--volatility": volatility, "--cycles": cycles}
    out.check(targets, {"the comparisons": comparisons, "the groups": out.groups_file(groups)}, to_stdout=True)
    columns: Any = {"left": left, "right": right, "winner": winner, "cluster": cluster, "header": not no_header}
    settings: Any = {"prior": number_or_word(prior), "level": level, "draws": draws, "seed": seed}
    settings |= {"judges": _parse_decision("--weigh-judges", weigh_judges), "position": _parse_decision("--position", position)}
    if effects is not None and not covariate:
        raise OptionError("--effects writes the effects of covariates: name some with --covariate")
    ranking = adj.rank(out.source_of(comparisons), groups=groups, covariates=covariate or (), **settings, **columns, **how_read)
    board = ranking.leaderboard_frame()
    found = (ranking.effects_frame, ranking.volatility_frame, ranking.cycles_frame)
    out.write_frames(targets.values(), (lambda: board, ranking.judges_frame, ranking.neighbours_frame, *found))
    show = partial(_show_ranking, ranking, board)
    named = ranking.workers if groups is None else None
    out.present(ranking.to_dict, show, comparisons, ranking.understood, as_json=as_json, quiet=quiet, judges=named)


def _parse_decision(option: str, typed: str) -> bool | Literal["auto"]:
    if typed not in YES_NO:
        raise choice_error(option, typed, YES_NO)
    return "auto" if typed == "auto" else typed == "yes"


def _show_ranking(ranking: Ranking, board: pl.DataFrame, screen: Screen) -> None:
    """Print what there is to know, the leaderboard with the neighbours below each item, and the judges."""
    for sentence in ranking.sentences():
        screen.say(sentence)
    components = ["component"] if len(ranking.has_maximum) > 1 else []
    neighbours = {(row["component"], row["upper"]): row for row in ranking.neighbours_frame().iter_rows(named=True)}
    names = ["item", *components, "rank", "strength", f"{100 * ranking.level:g}% interval", "ranks"]
    names += ["points", "compared", "above the next", "still needed"]
    rows = []
    for row in board.head(MAX_SHOWN_ITEMS).iter_rows(named=True):
        below = neighbours.get((row["component"], row["item"]))
        sure, further = "", ""
        if below is not None:
            sure = "> 99.9%" if below["probability"] > 0.999 else f"{below['probability']:.1%}"
            further = out.figure(below["further"])
        low, high = row["rank_low"], row["rank_high"]
        rows.append(
            (
                *(row["item"], *(str(row[name]) for name in components), str(row["rank"]), f"{row['strength']:.2f}"),
                f"{row['low']:.2f} to {row['high']:.2f}",
                f"{low} to {high}" if low < high else str(low),
                *(f"{row['points']:.0f}", str(row["comparisons"]), sure, further),
            )
        )
    screen.print()
    screen.table(names, rows, ids=1)
    screen.more(len(board), MAX_SHOWN_ITEMS, "-o FILE lists them")
    if ranking.fitted.problem.has_judges:
        _show_rank_judges(ranking, screen)


def _show_rank_judges(ranking: Ranking, screen: Screen) -> None:
    """Print the judges, those with most comparisons first."""
    frame = ranking.judges_frame().sort("comparisons", descending=True, maintain_order=True)
    has_position, interval = ranking.fitted.problem.has_position, f"{100 * ranking.level:g}% interval"
    names = ["judge", "comparisons", "reliability", interval, *(["position bias", interval] if has_position else []), "agrees"]
    rows = []
    for row in frame.head(MAX_SHOWN_RANK_JUDGES).iter_rows(named=True):
        cells = [row["worker"], str(row["comparisons"]), f"{row['reliability']:.2f}"]
        cells += [f"{row['reliability_low']:.2f} to {row['reliability_high']:.2f}"]
        if has_position:
            cells += [f"{row['position_bias']:+.2f}", f"{row['position_low']:+.2f} to {row['position_high']:+.2f}"]
        rows.append((*cells, f"{row['agreement']:.1%}"))
    screen.heading("judges: 1 is the mean one, 0 guesses; position bias is what the left side gains, in nats")
    screen.table(names, rows, ids=1)
    screen.more(len(frame), MAX_SHOWN_RANK_JUDGES, "--judges FILE lists them")
