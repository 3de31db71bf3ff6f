"""`adjudge aggregate`: votes in, labels out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adjudge.cli import output as out
from adjudge.cli import reading
from adjudge.cli.command import ANY_MODEL, for_engine, for_input, for_knowledge, for_model, for_output, given_in, one_of
from adjudge.cli.output import at_work
from adjudge.cli.questions import TO_HELP, each, labels_file
from adjudge.data.options import DEFAULTS, SET_SEPARATOR, Confidence, EngineName, ModelName, Stop, Strength, Ties

if TYPE_CHECKING:
    import polars as pl

    from adjudge.models.base import Model

EXAMPLES = (
    (
        "Labels with their confidence, and how reliable every worker is:",
        "adjudge aggregate votes.csv -o labels.csv --workers workers.csv",
    ),
    (
        "Columns by name, and answers that are no labels:",
        "adjudge aggregate rows.csv --task item --label score --abstain NA",
    ),
    ("A line per task and a column per judge:", "adjudge aggregate judges.csv --wide -o labels.csv"),
    (
        "Learn from labels that you know, and let confidence fit them:",
        "adjudge aggregate votes.csv --gold gold.csv --calibrate -o labels.csv",
    ),
    ("A page that shows labels in doubt, workers and who answers alike:", "adjudge aggregate votes.csv --report report.html"),
    ("Measure against truth, which is never learned from:", "adjudge aggregate votes.csv -m fds --truth truth.csv -o labels.csv"),
)


def own(option: str) -> str:
    """Return the default of a setting of models, for the help: the model knows it, the command line leaves it out."""
    return str(getattr(DEFAULTS, option))


def command(
    context: typer.Context,
    votes: reading.VotesFiles,
    model: Annotated[
        str,
        for_model("-m", "--model", help=ANY_MODEL, autocompletion=one_of(ModelName)),
    ] = DEFAULTS.model,
    output: Annotated[str | None, for_output("-o", "--output", help="Write the labels here (else to stdout).")] = None,
    to: Annotated[
        str | None,
        for_output(help=TO_HELP, autocompletion=one_of((), "auto", "table", "label-studio", "argilla", "argilla-flat")),
    ] = None,
    workers: Annotated[str | None, for_output(help="Write the workers here.")] = None,
    probabilities: Annotated[str | None, for_output(help="Write the probability of every label here.")] = None,
    truth: Annotated[Path | None, for_knowledge(help="Known labels, to measure accuracy; never learned from.")] = None,
    truth_task: Annotated[str | None, for_knowledge(help="Column of the task in the truth.")] = None,
    truth_label: Annotated[str | None, for_knowledge(help="Column of the label in the truth.")] = None,
    gold: Annotated[str | None, for_knowledge(help="Known labels of some tasks, to learn from.")] = None,
    history: Annotated[Path | None, for_knowledge(help="A saved model, or a table worker, true, given, count.")] = None,
    priors: Annotated[
        str | None, for_knowledge(help="Class priors: cat=0.3,dog=0.7 or uniform.", autocompletion=one_of((), "uniform"))
    ] = None,
    priors_weight: Annotated[float | None, for_knowledge(help="Tasks that the priors are worth (default: fixed priors).")] = None,
    strength: Annotated[
        str | None,
        for_model(
            help="Pseudo-votes of the mean worker per worker, or auto; 0 is the paper.",
            show_default=own("strength"),
            autocompletion=one_of(Strength),
        ),
    ] = None,
    warm_start: Annotated[Path | None, for_knowledge(help="A saved model to start from.")] = None,
    calibrate: Annotated[bool, for_knowledge("--calibrate", help="Fit a temperature on the gold.")] = False,
    confidence: Annotated[
        str,
        for_model(
            help="posterior (the model's own), or honest: judged from other tasks and shared errors.",
            autocompletion=one_of(Confidence),
        ),
    ] = DEFAULTS.confidence,
    groups: Annotated[
        str | None,
        for_knowledge(
            help="Who votes as one: a table worker, group; or answers_like, for workers who answer alike.",
            autocompletion=one_of((), "answers_like"),
        ),
    ] = None,
    exclude: Annotated[
        str | None, for_knowledge(help="Workers left out: a file (a table with a worker column, or an id per line), or w1,w2.")
    ] = None,
    report: Annotated[Path | None, for_output(help="Write a page that shows it all here, like report.html.")] = None,
    save: Annotated[Path | None, for_output(help="Save the fitted model here, for predict, history and warm start.")] = None,
    seed: Annotated[int | None, for_model(help="Decides ties.", show_default=own("seed"))] = None,
    engine: Annotated[
        str,
        for_engine(
            help="auto, reference, cpu, disk (votes beyond memory), cuda (a GPU) or spark.", autocompletion=one_of(EngineName)
        ),
    ] = DEFAULTS.engine,
    master: Annotated[str | None, for_engine(help="spark: the cluster (default: spark-submit's, else this machine).")] = None,
    threads: Annotated[int | None, for_engine(help="Threads to use (default: all cores).")] = None,
    memory: Annotated[
        str | None, for_engine(help="Memory limit, like 2GB; votes that do not fit go to disk. With cuda: of each device.")
    ] = None,
    resume: Annotated[bool, for_engine("--resume", help="With disk: resume the same command after an interruption.")] = False,
    task: reading.Task = None,
    worker: reading.Worker = None,
    label: reading.Label = None,
    weight: reading.Weight = None,
    labels: reading.Labels = None,
    wide: reading.Wide = False,
    count: reading.Count = None,
    abstain: reading.Abstain = None,
    normalize: reading.Normalize = False,
    strict: reading.Strict = False,
    separator: reading.Separator = None,
    no_header: reading.NoHeader = False,
    smoothing: Annotated[
        float | None,
        for_model(help="Added to every cell of every confusion; 0 is the paper.", show_default=own("smoothing")),
    ] = None,
    tol: Annotated[
        float | None,
        for_model(help="Stop when the priors (glad: the objective) change by less than this.", show_default=own("tol")),
    ] = None,
    max_iter: Annotated[int | None, for_model(help="Maximum number of iterations.", show_default=own("max_iter"))] = None,
    switch: Annotated[
        float | None,
        for_model(help="hybrid: make passes hard when the priors change by at most this.", show_default=own("switch")),
    ] = None,
    stop: Annotated[
        str | None,
        for_model(help="priors, or labels: stop when no label changed.", show_default=own("stop"), autocompletion=one_of(Stop)),
    ] = None,
    ties: Annotated[
        str | None,
        for_model(
            help="hash, or prior: ties go to the more frequent label.", show_default=own("ties"), autocompletion=one_of(Ties)
        ),
    ] = None,
    accelerate: Annotated[
        bool | None,
        for_model("--accelerate", help="ds, hybrid, one-coin: fewer soft passes, by extrapolation.", show_default=False),
    ] = None,
    multi: Annotated[bool, for_input("--multi", help="Votes are sets of options, joined by | or as lists.")] = False,
    set_separator: reading.SetSeparator = SET_SEPARATOR,
    per_option: Annotated[bool, for_model("--per-option", help="With --multi: fit each option separately.")] = False,
    duplicates: reading.Duplicates = DEFAULTS.duplicates,
    form: reading.Format = "auto",
    question: reading.Question = None,
    predictions: reading.Predictions = False,
    as_json: Annotated[bool, for_output("--json", help="Print one JSON document instead of a table.")] = False,
    quiet: Annotated[bool, for_output("--quiet", help="Print only data.")] = False,
) -> None:
    """Find the label of every task, and how reliable every worker is."""
    typed = SimpleNamespace(**locals())
    if question == "all":
        each(command, vars(typed))
        return
    import adjudge as adj
    from adjudge.cli import summary
    from adjudge.errors import OptionError

    on_spark = engine == "spark"
    if master is not None and not on_spark:
        raise OptionError("--master works only with --engine spark: leave it out, or add the engine")
    frames = {
        "-o": labels_file(votes, output, to, form, {"--engine spark": on_spark, "--no-header": no_header}),
        "--workers": workers,
        "--probabilities": probabilities,
    }
    on_cluster = None
    if on_spark:
        from adjudge.cli import on_spark as far

        far.check(frames, save, read_files(typed), {"--multi": multi, "--truth": truth, "--weight": weight, "--report": report})
        on_cluster = partial(far.prepared, votes=votes, master=master, frames=frames)
    else:
        others = {"--save": save, "-o": output, "--report": report}
        out.check(frames, read_files(typed), others=others, to_stdout=output is None)
    with fitted(typed, on_cluster) as result:
        evaluation: Any = (
            None
            if truth is None
            else adj.evaluate(result, truth, truth_task=truth_task, truth_label=truth_label, set_separator=set_separator)
        )
        of_workers = None
        if on_spark:
            far.write(result, output, workers, probabilities)
        else:
            of_workers = _write_all(result, output, workers, probabilities, reading.source(votes), to)
        if save is not None:
            result.save(save)
        if report is not None:
            write_report(result, report, typed)
        facts = summary.figures(result, evaluation)
        seen = summary.overview(result, of_workers, quiet=quiet, as_json=as_json)
    if as_json:
        out.document(summary.document(result, facts, seen, evaluation, with_labels=output is None))
        return
    asked = summary.Asked(
        command=sys.argv[1:],
        votes=votes,
        reading=given_in(context, "Input") | ({} if question is None else {"question": ("--question", question)}),
        labels_written=output is not None,
        workers_written=workers is not None,
        gold=gold is not None,
    )
    labels_out = partial(far.show if on_spark else _labels, result) if output is None else None
    told = partial(summary.show, facts, seen, asked, result.understood, None if multi else evaluation)
    _print(labels_out, None if quiet else told)
    if report is not None and not quiet:
        out.say(f"report: {report}")


def read_files(typed: SimpleNamespace) -> dict[str, Any]:
    """Return what a command was told to read, by the name that users know it by."""
    from adjudge.io.groups import ANSWERS_LIKE

    left_out = None if typed.exclude is None else _excluded(typed.exclude)
    return {
        "the votes": typed.votes,
        "the truth": typed.truth,
        "the gold": typed.gold,
        "the history": typed.history,
        "the warm start": typed.warm_start,
        "the groups": None if typed.groups == ANSWERS_LIKE else typed.groups,
        "the excluded workers": left_out if isinstance(left_out, Path) else None,
    }


@contextmanager
def fitted(typed: SimpleNamespace, prepared: Callable[[Any], Any] | None = None) -> Iterator[Any]:
    """Yield the result of what was typed; `prepared` makes an engine ready. Until the end, its files are there."""
    import adjudge as adj
    from adjudge.engines.registry import resolve

    source, how_read = reading.source(typed.votes), reading.given(vars(typed))
    named = ("seed", "smoothing", "tol", "max_iter", "switch", "stop", "ties", "accelerate")
    strength = None if typed.strength is None else _strength(typed.strength)
    chosen = _chosen(typed.model, strength=strength, **{name: getattr(typed, name) for name in named})
    whole = None if typed.multi else source
    place = resolve(typed.engine, typed.threads, source=whole, memory=typed.memory, room=chosen.room)
    place = place if prepared is None else prepared(place)
    beside = None if typed.output is None else Path(typed.output)
    with at_work(place, beside, resume=typed.resume, model=typed.model, quiet=typed.quiet) as (where, progress):
        yield adj.aggregate(
            source,
            engine=where,
            set_separator=typed.set_separator,
            trace="light",  # nobody sees it here
            multi=typed.multi,
            per_option=typed.per_option,
            gold=typed.gold,
            history=typed.history,
            priors_weight=typed.priors_weight,
            warm_start=typed.warm_start,
            calibrate=typed.calibrate,
            confidence=typed.confidence,
            groups=typed.groups,
            exclude=None if typed.exclude is None else _excluded(typed.exclude),
            progress=progress,
            **how_read,
            **_typed(model=chosen, priors=None if typed.priors is None else _prior_map(typed.priors)),
        )


def write_report(result: Any, path: Path, typed: SimpleNamespace) -> None:
    """Write the page that shows a result."""
    from adjudge.report.page import write

    names = typed.votes
    source = "standard input" if names == ["-"] else Path(names[0]).name if len(names) == 1 else f"{len(names)} files"
    given = {name: getattr(typed, name) for name in ("truth", "truth_task", "truth_label", "set_separator")}
    write(result, path, source=source, title=getattr(typed, "title", None), **given)


def _print(labels: Callable[[], None] | None, told: Callable[[], None] | None) -> None:
    """Print labels and summary, as far as there are any.

    On a terminal the summary comes last, and stays on the screen; else it is first, as whoever reads the labels may leave early.
    """
    for show in (labels, told) if sys.stdout.isatty() else (told, labels):
        if show is not None:
            show()


def _write_all(
    result: Any, output: str | None, workers: str | None, probabilities: str | None, votes: str | list[str], to: str | None
) -> pl.DataFrame | None:
    """Write the files that were asked for; labels in the form of the votes where `to` says so.

    Return the frame of workers where one was made.
    """
    from adjudge.io.write import write_frame

    frame = None
    if workers is not None:
        frame = result.workers_frame()
        write_frame(frame, Path(workers))
    if probabilities is not None:
        _write(result, "probabilities", Path(probabilities))
    if output is not None and to is not None:
        result.write(output, votes, format=to)
    elif output is not None:
        _write(result, "labels", Path(output))
    return frame


def _write(result: Any, what: str, path: Path) -> None:
    """Write labels or probabilities: votes on disk have results that need not fit in memory."""
    from adjudge.io.write import write_batches, write_frame

    if getattr(result, "is_on_disk", False):
        write_batches(result.label_batches() if what == "labels" else result.probability_batches(), path)
    elif what == "labels":
        write_frame(flat(result.labels_frame(), path.suffix), path)
    else:
        write_frame(result.probabilities_frame(), path)


def _chosen(model: str, **settings: Any) -> Model:
    """Return the model of this name, with the settings that were typed."""
    from adjudge.models.base import make

    given = {name: value for name, value in settings.items() if value is not None}
    return make(model, DEFAULTS._asdict(), given, chosen_by="--model {}")


def _typed(**options: Any) -> dict[str, Any]:
    """Return options as they were typed: `aggregate` says what is no choice."""
    return options


def _prior_map(text: str) -> dict[str, float] | str:
    from adjudge.errors import OptionError

    if "=" not in text:
        return text  # "uniform", or an error that says what is accepted
    priors: dict[str, float] = {}
    for label, _, value in (part.rpartition("=") for part in text.split(",")):
        if label.strip() in priors:
            raise OptionError(f"priors name the label {label.strip()!r} twice: give one probability for each")
        try:
            priors[label.strip()] = float(value)
        except ValueError:
            raise OptionError(f"priors is {text!r}: give label=probability joined by commas, or uniform") from None
    return priors


def _excluded(text: str) -> Path | list[str]:
    """Return workers as they were typed: a file where one has this name, else ids joined by commas."""
    from adjudge.errors import OptionError

    if Path(text).exists():
        return Path(text)
    ids = [part.strip() for part in text.split(",")]
    if not all(ids):
        raise OptionError(f"exclude is {text!r}: give workers joined by commas, none of them empty, or a file")
    return ids


def _strength(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text  # "auto", or an error that says what is accepted


def flat(frame: pl.DataFrame, suffix: str = "") -> pl.DataFrame:
    """Return a frame as its file can hold it: text files have no lists, so sets are joined."""
    import polars as pl

    if frame.schema["label"] != pl.List(pl.String) or suffix.lower() not in ("", ".csv", ".tsv"):
        return frame
    return frame.with_columns(pl.col("label").list.join(SET_SEPARATOR))


def _labels(result: Any) -> None:
    batches = result.label_batches() if hasattr(result, "label_batches") else iter([flat(result.labels_frame())])
    out.labels(batches, len(result.votes.tasks) + len(result.votes.unvoted))
