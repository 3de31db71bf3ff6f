"""Commands that measure labels, models and workers: `adjudge evaluate`, `compare` and `agreement`."""

from __future__ import annotations

from functools import partial
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import adjudge as adj
from adjudge.cli import output as out
from adjudge.cli.options import (
    Cluster,
    Flags,
    Groups,
    Json,
    Level,
    Resamples,
    Threads,
    VotesFiles,
    command,
    existing_file,
    for_knowledge,
    for_model,
    for_output,
    split_words,
)
from adjudge.data.options import DEFAULTS, ScaleName
from adjudge.errors import InputError, OptionError, quote

if TYPE_CHECKING:
    from adjudge.cli.console import Screen
    from adjudge.evaluation.agreement.agreement import Agreement
    from adjudge.evaluation.compare.compare import Comparison
    from adjudge.evaluation.evaluate import Evaluation

SET_FOLDER: Final = "{dir}"  # in --truth: the folder of each file of votes, which is then a set of its own
AXIS_CHARACTERS: Final = 40  # of the axis that accuracies are drawn on
MAX_SHOWN_MATRIX_WORKERS: Final = 12
MAX_SHOWN_COPYING_PAIRS: Final = 10


@command(
    ("Labels first:", "adjudge aggregate votes.csv -o labels.csv --probabilities probs.csv"),
    ("How many are right, and what confidence is worth:", "adjudge evaluate labels.csv --truth truth.csv"),
    ("Labels that are grades, from low to high:", "adjudge evaluate labels.csv --truth truth.csv --order no,yes"),
    ("With the probability of every label:", "adjudge evaluate labels.csv --truth truth.csv --probabilities probs.csv"),
)
def evaluate(
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="File of labels, as `adjudge aggregate` writes it.")],
    truth: Annotated[Path, typer.Option(help="File of known labels: task and label.")],
    task: Annotated[str | None, typer.Option(help="Column of the task in the labels.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label in the labels.")] = None,
    truth_task: Annotated[str | None, typer.Option(help="Column of the task in the truth.")] = None,
    truth_label: Annotated[str | None, typer.Option(help="Column of the label in the truth.")] = None,
    probabilities: Annotated[
        Path | None, typer.Option(help="Probabilities of all labels, as `adjudge aggregate --probabilities` writes them.")
    ] = None,
    order: Annotated[
        str | None, typer.Option(help="Labels from the lowest to the highest grade, joined by commas; numbers need none.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="Prompt, document or conversation of each task: a column of the labels, or a table; '' for none."),
    ] = None,
    multi: Annotated[bool, typer.Option("--multi", help="Labels are sets of options, joined by | or as lists.")] = False,
    as_json: Json = False,
    quiet: Annotated[bool, for_output("--quiet", help="Print only the accuracy.")] = False,
) -> None:
    """Measure labels against truth: how many are right, and which.

    Prints accuracy, precision, recall and F1 per label, and the confusion of labels. With a column `confidence` or with
    --probabilities, also calibration. For labels that are grades (numbers, or with --order), also mean absolute error,
    quadratic-weighted kappa and rank correlation.
    """
    columns: Any = {"task": task, "label": label, "truth_task": truth_task, "truth_label": truth_label}
    columns["cluster"] = cluster
    columns["order"] = None if order is None else split_words(order, "order")
    result = adj.evaluate(labels, truth, **columns, multi=multi, probabilities=probabilities)
    if not result.tasks:
        raise InputError(f"no task has both a label and truth: {labels} or {truth} has no lines with a task and a label")
    if as_json:
        out.document(result.summary())
    elif quiet:
        typer.echo(result.accuracy)
    elif isinstance(result, adj.Evaluation):
        _show_evaluation(out.screen(), result)
    else:
        out.screen().table(["", ""], [[name.replace("_", " "), value] for name, value in result.summary().items()])


def _show_evaluation(screen: Screen, result: Evaluation) -> None:
    from adjudge.cli import console

    def show_figures(title: str, figures: dict[str, float]) -> None:
        screen.heading(title)
        screen.table(["", ""], [[name, value] for name, value in figures.items() if value == value])

    ends = f"90% interval {result.interval.low:.4f} to {result.interval.high:.4f}"
    screen.say(
        f"accuracy {result.accuracy:.4f}, {ends} ({result.correct} of {result.tasks} tasks that have both a label and truth)"
    )
    if result.clusters is not None:
        from adjudge.evaluation.clusters import describe_clusters

        screen.say(describe_clusters(*result.clusters))
    left = {"labels without truth": result.without_truth, "tasks with truth but no label": result.without_label}
    if any(left.values()):
        screen.say(f"left out: {', '.join(f'{number} {what}' for what, number in left.items() if number)}")
    if result.gold:
        screen.say(f"{result.gold} of these labels were given as gold; accuracy of the others {result.accuracy_without_gold:.4f}")
    if result.grades is not None and len(result.label_names) > 2:  # of two labels accuracy says it all
        grades = {
            "mean absolute error": result.mean_absolute_error,
            "quadratic-weighted kappa": result.quadratic_kappa,
            "rank correlation (Spearman)": result.rank_correlation,
        }
        show_figures("as grades", grades)
    frame = result.per_label_frame()
    screen.heading("per label")
    screen.table(frame.columns, frame.rows(), ids=1)
    confusion = result.confusion_frame()
    screen.heading("tasks by true label (rows) and chosen label (columns)")
    screen.print(console.square(confusion[confusion.columns[0]].to_list(), [row[1:] for row in confusion.rows()], "true"))
    measured = result.calibration
    if measured.tasks:
        figures = {
            "wrong labels": measured.errors,
            "expected wrong labels": measured.expected_errors,
            "expected calibration error": measured.expected_calibration_error,
            "Brier score, all labels (0 to 2)": measured.brier,
            "Brier score, label right or not (0 to 1)": measured.confidence_brier,
            "log loss (floor 1e-12)": measured.log_loss,
        }
        show_figures(f"confidence, on {measured.tasks} tasks", figures)
        screen.print()
        screen.print(console.reliability(measured.bins))


@command(
    ("Models compared on votes alone:", "adjudge compare votes.csv"),
    ("Accuracy with intervals, and which differences are real:", "adjudge compare votes.csv --truth truth.csv"),
    ("The same from known labels that models learn from:", "adjudge compare votes.csv --gold gold.csv"),
    ("Your own labels among the models:", "adjudge compare votes.csv --truth truth.csv --own-labels mine=truth.csv"),
    ("Several sets, each with its truth:", "adjudge compare sets/*/votes.csv --truth '{dir}/truth.csv'"),
    ("Two models, and the tasks in dispute:", "adjudge compare votes.csv --models auto,ds --disagreements disputed.csv"),
    without=("set_separator",),
)
def compare(
    votes: VotesFiles,
    gold: Annotated[
        Path | None, for_knowledge(help="Known labels to learn from; without --truth models are judged by them, cross-validated.")
    ] = None,
    models: Annotated[
        str | None,
        for_model(help="Names of models, joined by commas, or all; mv is always one (default: auto and the paper's)."),
    ] = None,
    own_labels: Annotated[
        list[str] | None,
        typer.Option(help="Labels of your own as NAME=FILE, judged with the models; as often as needed."),
    ] = None,
    folds: Annotated[int, for_model(help="Parts of the gold, each hidden from the fit that it judges.")] = 5,
    refits: Annotated[
        int | None, for_model(help="Fits without a fifth of the workers, and of the tasks (default: 5 without truth and gold).")
    ] = None,
    resamples: Resamples = 1000,
    level: Level = 0.95,
    seed: Annotated[int, for_model(help="Decides ties, folds and resamples.")] = DEFAULTS.seed,
    cluster: Cluster = None,
    output: Annotated[Path | None, for_output("-o", "--output", help="Write the figures of all models here.")] = None,
    differences: Annotated[Path | None, for_output(help="Write the differences between every two models here.")] = None,
    disagreements: Annotated[Path | None, for_output(help="Write the tasks on which majority vote is overruled here.")] = None,
    as_json: Json = False,
    quiet: Annotated[bool, for_output("--quiet", help="Print only the name of the advised model.")] = False,
    threads: Threads = None,
    groups: Groups = None,
    *,
    truth: Flags,
    how_read: Flags,
) -> None:
    """Compare models on the same votes, and say which to take.

    With --truth or --gold by their accuracy. Without, by what votes alone tell: where models differ from majority vote and on
    what evidence, and how stable their labels are.
    """
    from adjudge.evaluation.compare.compare import EVERY_MODEL, compared_models

    targets = {"--output": output, "--differences": differences, "--disagreements": disagreements}
    inputs = {"the votes": votes, "the truth": truth["truth"], "the gold": gold, "the clusters": existing_file(cluster)}
    inputs["the groups"] = out.groups_file(groups)
    own = _own_labels(own_labels or [])
    inputs["your own labels"] = list(own.values())
    out.check(targets, inputs, to_stdout=True)
    chosen: Any = None
    if models is not None:  # names are checked before anything is read
        chosen = list(compared_models(models if models == EVERY_MODEL else split_words(models, "models")))
    if truth["truth"] is not None and SET_FOLDER in str(truth["truth"]):
        refused = {"--gold": gold, "--groups": groups, "--refits": refits, "--cluster": cluster, "--own-labels": own_labels}
        refused |= {"--differences": differences, "--disagreements": disagreements}
        for option, value in refused.items():
            if value:
                raise OptionError(f"{option} is for one set of votes: leave it out, or name one truth without {SET_FOLDER}")
        given: Any = {"models": chosen, "resamples": resamples, "level": level, "seed": seed, "threads": threads, **how_read}
        _compare_sets(votes, str(truth["truth"]), given, output, as_json=as_json, quiet=quiet)
        return
    fits: Any = {
        "groups": groups,
        "own_labels": own,
        "gold": gold,
        "models": chosen,
        "folds": folds,
        "refits": refits,
        "threads": threads,
        "cluster": cluster,
    }
    drawn: Any = {"resamples": resamples, "level": level, "seed": seed}
    with out.progress("steps", quiet=quiet or as_json) as progress:
        comparison = adj.compare(out.source_of(votes), progress=progress, **drawn, **fits, **truth, **how_read)
    out.write_frames(targets.values(), (comparison.models_frame, comparison.differences_frame, comparison.disagreements_frame))
    show = partial(_show_comparison, comparison)
    judges = comparison.votes.workers if groups is None else None
    shown: Any = {"as_json": as_json, "quiet": quiet, "judges": judges}
    out.present(comparison.summary, show, votes, comparison.votes.understood, answer=comparison.best, **shown)


def _own_labels(typed: list[str]) -> dict[str, str]:
    """Return the files of NAME=FILE by name."""
    files: dict[str, str] = {}
    for text in typed:
        name, sign, file = text.partition("=")
        if not (name and sign and file):
            raise OptionError(f"--own-labels is {quote(text)}: give NAME=FILE, like mine=labels.csv")
        if name in files:
            raise OptionError(f"--own-labels gives the name {quote(name)} twice, to {files[name]} and {file}: give each its own")
        files[name] = file
    return files


def _compare_sets(votes: list[str], truth: str, given: Any, output: Path | None, *, as_json: bool, quiet: bool) -> None:
    """Compare models on every file of votes, a set each, and print the table."""
    files = [Path(name) for pattern in votes for name in (sorted(glob(pattern)) or [pattern])]
    parents = [file.resolve().parent.name for file in files]
    names = parents if len(set(parents)) == len(files) else [file.stem for file in files]
    if len(set(names)) < len(files):
        names = [str(file) for file in files]
    sets: Any = {name: (str(file), truth.replace(SET_FOLDER, str(file.parent))) for name, file in zip(names, files, strict=True)}
    with out.progress("steps", quiet=quiet or as_json) as progress:
        found = adj.compare_sets(sets, progress=progress, **given)
    out.write_frames([output], (lambda: found.table,))
    if as_json:
        out.document(found.to_dict())
    elif quiet:
        typer.echo(found.table["model"][0])
    else:
        screen = out.screen()
        screen.say(f"accuracy in percent on {len(sets)} sets; * is the best of a set, rank the mean rank")
        screen.table(*found.overview())


def _show_comparison(comparison: Comparison, screen: Screen) -> None:
    screen.print()
    for sentence in comparison.advice:
        screen.say(sentence)
    screen.print()
    screen.table(*comparison.overview())
    if comparison.judged_by is not None:
        screen.heading(f"accuracy with its {100 * comparison.level:g}% interval; │ is majority vote")
        screen.table(["", ""], _axis(comparison), left=2)


def _axis(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the name of every model that ran, and its accuracy with its interval drawn on one axis."""
    rows = comparison.models_frame().drop_nulls("accuracy").select("model", "accuracy", "accuracy_low", "accuracy_high").rows()
    spans = [(name, value, value if low is None else low, value if high is None else high) for name, value, low, high in rows]
    left, right = min(low for *_, low, _ in spans), max(high for *_, high in spans)
    majority = next(value for name, value, *_ in spans if name == "mv")

    def column(value: float) -> int:
        return int((value - left) / max(right - left, 1e-12) * (AXIS_CHARACTERS - 1) + 0.5)

    lines = []
    for name, value, low, high in spans:
        line = [" "] * AXIS_CHARACTERS
        line[column(low) : column(high) + 1] = "─" * (column(high) + 1 - column(low))
        line[column(low)], line[column(high)] = "├", "┤"
        line[column(majority)] = {" ": "│", "─": "┼"}.get(line[column(majority)], line[column(majority)])
        line[column(value)] = "●"
        lines.append((name, "".join(line)))
    return lines


@command(
    ("How far workers agree, with intervals, and who answers alike:", "adjudge agreement votes.csv"),
    ("Grades in order, and every pair of workers into a file:", "adjudge agreement votes.csv --scale ordinal --pairs pairs.csv"),
    ("Errors against truth, instead of majority vote:", "adjudge agreement votes.csv --truth truth.csv"),
    without=("weight",),
    scale=ScaleName,
)
def agreement(
    votes: VotesFiles,
    scale: Annotated[str, for_model(help="Scale of labels: nominal, ordinal (in order) or interval (numbers).")] = "nominal",
    model: Annotated[
        str, for_model("-m", "--model", help="The model whose labels show common wrong answers without truth.")
    ] = "fds",
    resamples: Resamples = 1000,
    level: Level = 0.95,
    seed: Annotated[int, for_model(help="Seed of the resamples.")] = 0,
    multi: Annotated[bool, for_model("--multi", help="Votes are sets of options: one line per option.")] = False,
    pairs: Annotated[Path | None, for_output(help="Write all pairs of workers that share a task here.")] = None,
    matrix: Annotated[Path | None, for_output(help="Write the agreement matrix of all workers here.")] = None,
    as_json: Json = False,
    quiet: Annotated[bool, for_output("--quiet", help="Print only Krippendorff's alpha.")] = False,
    groups: Groups = None,
    *,
    truth: Flags,
    how_read: Flags,
) -> None:
    """Measure how far workers agree, and find those who answer alike.

    Figures come with intervals. Without truth, errors are measured against majority vote.
    """
    targets = {"--pairs": pairs, "--matrix": matrix}
    inputs = {"the votes": votes, "the truth": truth["truth"], "the groups": out.groups_file(groups)}
    out.check(targets, inputs, to_stdout=True)
    drawn: Any = {"resamples": resamples, "level": level, "seed": seed}
    if multi:
        refused = {"--truth": truth["truth"], "--groups": groups, **targets, "--quiet": quiet, "--scale": scale != "nominal"}
        for option, value in refused.items():
            if value:
                raise OptionError(
                    f"{option} is for votes with one label: leave it out with --multi, which has one line per option"
                )
        _agreement_on_options(votes, how_read, drawn, as_json=as_json)
        return
    known = adj.read(out.source_of(votes), **how_read)
    settings: Any = {"scale": scale, "model": model}
    measured = adj.agreement(known, groups=groups, **truth, **settings, **drawn)
    out.write_frames(targets.values(), (measured.pairs_frame, measured.matrix_frame))
    show = partial(_show_agreement, measured)
    judges = known.workers if groups is None else None
    shown: Any = {"as_json": as_json, "quiet": quiet, "judges": judges}
    out.present(measured.summary, show, votes, known.understood, answer=float(measured.alpha), **shown)


def _agreement_on_options(votes: list[str], how_read: Flags, drawn: Any, *, as_json: bool) -> None:
    """Print how far workers agree on each option of sets: tasks are resampled, whose options depend on each other."""
    from adjudge.io.reading import Reading
    from adjudge.io.sets import read_sets

    sets = read_sets(out.source_of(votes), Reading.of(how_read))
    if not (sets.per_task > 1).any():
        raise InputError(f"none of the {len(sets.tasks)} tasks has two votes: agreement needs tasks that several workers judged")
    names = sets.options.texts()
    by_option = {name: adj.agreement(sets.of_option(code), pairs=False, **drawn) for code, name in enumerate(names)}
    if as_json:
        out.document({option: one.summary() for option, one in by_option.items()})
        return
    screen = out.screen()
    if sets.understood is not None:
        screen.say(out.read_as(votes, sets.understood))
    rows = [
        (option, float(one.percent), float(one.alpha), out.interval(one.alpha.low, one.alpha.high), float(one.effective_votes))
        for option, one in by_option.items()
    ]
    screen.table(["option", "percent agreement", "Krippendorff's alpha", "interval", "effective votes"], rows, ids=1)


def _show_agreement(measured: Agreement, screen: Screen) -> None:
    from adjudge.cli import console

    screen.say(
        f"{measured.votes} votes on {measured.tasks} tasks by {len(measured.workers)} workers, {len(measured.labels)} labels; "
        f"{measured.paired_tasks} tasks have two votes or more"
    )
    if measured.repeated_votes:
        screen.say(
            f"{measured.repeated_votes} votes repeat their worker's vote on the same task: --duplicates last keeps one of them"
        )
    rows: list[tuple[object, ...]] = [(row[1], row[2], out.interval(row[3], row[4])) for row in measured.figures_frame().rows()]
    screen.print()
    screen.table([f"{measured.scale} labels", "value", f"{100 * measured.level:g}% interval"], rows)
    if measured.without_pairs:
        screen.print()
        screen.say(f"no pairs of workers: {measured.without_pairs}")
    correlation, effective = measured.error_correlation, measured.effective_votes
    screen.heading(f"errors against {'the truth' if measured.errors_against == 'truth' else 'majority vote'}")
    rows = [
        ("correlation of errors", float(correlation), out.interval(correlation.low, correlation.high)),
        ("votes per task", float(measured.votes_per_task), ""),
        ("effective votes", float(effective), out.interval(effective.low, effective.high)),
    ]
    screen.table(["", "", ""], rows)
    if measured.errors_against != "truth":
        screen.say("effective votes against majority vote: with --truth they are often fewer")
    if measured.pair_figures is not None and len(measured.workers) <= MAX_SHOWN_MATRIX_WORKERS:
        screen.heading("agreement of every two workers")
        screen.print(console.heat_map(measured.workers.texts(), measured.matrix_array(measured.pair_figures), corner=""))
    if len(measured.copies):
        frame = measured.copying_frame()
        screen.heading("workers who answer alike: copies, errors for the same reason, or knowledge that others lack")
        shown = frame.head(MAX_SHOWN_COPYING_PAIRS).rows()
        screen.table([name.replace("_", " ") for name in frame.columns], shown, ids=2)
        screen.more(len(frame), MAX_SHOWN_COPYING_PAIRS, "--pairs FILE lists all pairs, --json the rings")
