"""`adjudge aggregate`: votes in, labels out; and `adjudge report`: the same votes as a page."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

import adjudge as adj
from adjudge.cli import output as out
from adjudge.cli.options import (
    DataOnly,
    Flags,
    Multi,
    VotesFiles,
    command,
    for_engine,
    for_model,
    for_output,
)
from adjudge.data.options import DEFAULTS
from adjudge.errors import InputError, OptionError, make_visible, quote

if TYPE_CHECKING:
    import polars as pl

    from adjudge.engines.base import Engine

TO_HELP: Final = (
    "Write -o in the format of the votes (auto): label-studio (predictions), argilla or argilla-flat (suggestions), "
    "table (labels added to its rows)."
)
OUTPUTS: Final = ("output", "workers", "probabilities", "soft", "save", "report")
Mode = Annotated[
    str, for_model("--confidence", help="posterior (the model's own), or honest: judged from other tasks and shared errors.")
]
PerOption = Annotated[bool, for_model("--per-option", help="With --multi: fit each option separately.")]


@command(
    (
        "Labels with their confidence, and how reliable every worker is:",
        "adjudge aggregate votes.csv -o labels.csv --workers workers.csv",
    ),
    ("Columns by name, and answers that abstain:", "adjudge aggregate rows.csv --task item --label score --abstain NA"),
    ("A line per task and a column per judge:", "adjudge aggregate judges.csv --wide -o labels.csv"),
    (
        "Learn from labels that you know, and let confidence fit them:",
        "adjudge aggregate votes.csv --gold gold.csv --calibrate -o labels.csv",
    ),
    ("A page that shows labels in doubt, workers and who answers alike:", "adjudge aggregate votes.csv --report report.html"),
    ("Measure against truth, which is never learned from:", "adjudge aggregate votes.csv -m fds --truth truth.csv -o labels.csv"),
)
def aggregate(
    context: typer.Context,
    votes: VotesFiles,
    output: Annotated[str | None, for_output("-o", "--output", help="Write the labels here (else to stdout).")] = None,
    to: Annotated[str | None, for_output(help=TO_HELP)] = None,
    workers: Annotated[str | None, for_output(help="Write the workers here.")] = None,
    probabilities: Annotated[str | None, for_output(help="Write the probability of every label here.")] = None,
    soft: Annotated[
        str | None, for_output(help="Write the distribution of answers and the ambiguity of every task here.")
    ] = None,
    report: Annotated[Path | None, for_output(help="Write a report page here, like report.html.")] = None,
    save: Annotated[Path | None, for_output(help="Save the fitted model here, for predict, history and warm start.")] = None,
    confidence: Mode = DEFAULTS.confidence,
    multi: Multi = False,
    per_option: PerOption = False,
    master: Annotated[str | None, for_engine(help="spark: the cluster (default: spark-submit's, else this machine).")] = None,
    resume: Annotated[bool, for_engine("--resume", help="With disk: resume the same command after an interruption.")] = False,
    as_json: Annotated[bool, for_output("--json", help="Print one JSON document instead of a table.")] = False,
    quiet: DataOnly = False,
    *,
    truth: Flags,
    knowledge: Flags,
    settings: Flags,
    resources: Flags,
    how_read: Flags,
) -> None:
    """Find the label of every task, and how reliable every worker is."""
    for asked in _each_question(SimpleNamespace(**locals())):
        _aggregate(asked)


def _aggregate(asked: SimpleNamespace) -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no fit uses BLAS, and starting its threads delays small fits
    is_spark = asked.resources["engine"] == "spark"
    if asked.master is not None and not is_spark:
        raise OptionError("--master works only with --engine spark: leave it out, or add the engine")
    labels = asked.output
    if asked.to is not None:
        refused = {"--engine spark": is_spark, "--no-header": not asked.how_read["header"]}
        refused |= {"--encoding": asked.how_read["encoding"] is not None}
        labels = out.table_target(asked.votes, asked.output, asked.to, asked.how_read["format"], refused)
    frames = {"-o": labels, "--workers": asked.workers, "--probabilities": asked.probabilities, "--soft": asked.soft}
    if asked.soft is not None and (is_spark or asked.multi):
        raise OptionError("--soft is for single labels in this process: leave out --multi and --engine spark")
    if is_spark:
        from adjudge.cli import spark

        spark.check(asked, frames, _inputs(asked))
    else:
        others = {"--save": asked.save, "-o": asked.output, "--report": asked.report}
        out.check(frames, _inputs(asked), others=others, to_stdout=asked.output is None)
    with fit_votes(asked, frames) as result:
        evaluation: Any = None
        if asked.truth["truth"] is not None:
            evaluation = adj.evaluate(result, **asked.truth, set_separator=asked.how_read["set_separator"])
        worker_frame = (spark.write if is_spark else _write)(asked, result)
        if asked.save is not None:
            result.save(asked.save)
        if asked.report is not None:
            write_report(asked, result, asked.report)
        if asked.as_json or not asked.quiet:
            from adjudge.cli import summary

            facts = summary.figures(result, evaluation)
            overview = summary.overview(result, worker_frame, as_json=asked.as_json)
    if asked.as_json:
        out.document(summary.document(result, facts, overview, evaluation, with_labels=asked.output is None))
        return
    show_labels = partial(spark.show if is_spark else _print_labels, result) if asked.output is None else None
    show_summary = None if asked.quiet else partial(summary.show, asked, result, facts, overview, evaluation)
    # On a terminal the summary comes last, and stays on the screen; else it is first, as a reader of labels may leave early.
    for show in (show_labels, show_summary) if sys.stdout.isatty() else (show_summary, show_labels):
        if show is not None:
            show()
    if asked.report is not None and not asked.quiet:
        out.say(f"report: {asked.report}")


@command(
    ("A page that shows labels in doubt, workers and who answers alike:", "adjudge report votes.csv"),
    ("With accuracy, if truth is known:", "adjudge report votes.csv --truth truth.csv -o crowd.html"),
)
def report(
    votes: VotesFiles,
    output: Annotated[Path, for_output("-o", "--output", help="Write the page here.")] = Path("report.html"),
    title: Annotated[str | None, for_output(help="Title of the page.")] = None,
    confidence: Mode = DEFAULTS.confidence,
    multi: Multi = False,
    per_option: PerOption = False,
    quiet: DataOnly = False,
    *,
    truth: Flags,
    knowledge: Flags,
    settings: Flags,
    resources: Flags,
    how_read: Flags,
) -> None:
    """Write a page that shows what the votes say.

    Shows labels in doubt, good and bad workers, confused labels, and workers who answer alike. One HTML file that
    needs no network.
    """
    from adjudge.io.write import check_page

    for asked in _each_question(SimpleNamespace(**locals())):
        if resources["engine"] == "spark":
            raise OptionError("report does not work with --engine spark: leave it out, or choose cpu or disk")
        out.check({}, _inputs(asked), others={"-o": asked.output})
        check_page(asked.output)
        with fit_votes(asked) as result:
            write_report(asked, result, asked.output)
        if not quiet:
            from adjudge.report.views.labels import headline

            if result.understood is not None:
                out.say(out.read_as(votes, result.understood))
            out.say(headline(result).sentence)
        typer.echo(make_visible(str(asked.output)))


def _each_question(asked: SimpleNamespace) -> Iterator[SimpleNamespace]:
    """Yield the parsed options: once, or with `--question all` per question, with its name in those of the outputs."""
    asked.source = out.source_of(asked.votes)
    if asked.how_read["question"] != "all":
        yield asked
        return
    from adjudge.io.read import questions_of

    if asked.output is None:
        raise OptionError("--question all writes a file per question: give -o labels.csv, which becomes labels.QUESTION.csv")
    if asked.votes == ["-"]:
        raise OptionError(
            "--question all reads the votes once per question, and standard input can be read only once: name a file"
        )
    reading = {name: asked.how_read[name] for name in ("format", "predictions")}
    questions = questions_of(asked.source, multi=asked.multi, **reading)
    names: dict[str, str] = {}
    for question in questions:
        file = str(_name_for(asked.output, question))
        if names.setdefault(file.lower(), question) != question:  # some file systems do not tell case
            raise OptionError(
                f"the questions {quote(names[file.lower()])} and {quote(question)} would both be written to {file}: "
                "ask for each with --question and a file of its own"
            )
    for question in questions:
        files = {name: _name_for(path, question) for name in OUTPUTS if (path := getattr(asked, name, None)) is not None}
        yield SimpleNamespace(**{**vars(asked), **files, "how_read": {**asked.how_read, "question": question}})


def _name_for(path: str | Path, question: str) -> str | Path:
    """Return the path of an output for one question.

    >>> _name_for("labels.csv", "mood"), _name_for("out/labels.csv.gz", "is it/ok?")
    ('labels.mood.csv', 'out/labels.is-it-ok.csv.gz')
    """
    place = Path(path)
    first, *suffixes = place.name.split(".")
    plain = re.sub(r"[^\w]+", "-", question).strip("-") or "question"
    return type(path)(place.with_name(".".join([first, plain, *suffixes])))


def _inputs(asked: SimpleNamespace) -> dict[str, Any]:
    """Return the files that a command reads, by the name that users know them by."""
    known = asked.knowledge
    return {
        "the votes": asked.votes,
        "the truth": asked.truth["truth"],
        "the gold": known["gold"],
        "the history": known["history"],
        "the warm start": known["warm_start"],
        "the groups": out.groups_file(known["groups"]),
        "the excluded workers": known["exclude"] if isinstance(known["exclude"], Path) else None,
    }


@contextmanager
def fit_votes(asked: SimpleNamespace, frames: dict[str, str | None] | None = None) -> Iterator[Any]:
    """Yield the result; its working files last until the end. Spark checks the `frames` to be written."""
    from adjudge.engines.registry import engine_with, resolve
    from adjudge.io.sources import Opened
    from adjudge.models.base import make

    source = Opened(asked.source)
    settings = {name: value for name, value in asked.settings.items() if value is not None}
    model = make(settings.pop("model"), settings, chosen_by="--model {}")
    chosen = resolve(
        engine_with(asked.resources["engine"], threads=asked.resources["threads"], memory=asked.resources["memory"]),
        source=None if asked.multi else source,
        room=model.room,
    )
    if asked.resources["engine"] == "spark":
        from adjudge.cli import spark

        chosen = spark.prepare(chosen, asked, frames or {})
    with _at_work(asked, chosen) as (engine, progress):
        yield adj.aggregate(
            cast(Any, source),
            model=model,
            engine=engine,
            progress=progress,
            trace="light",  # nobody sees it here
            multi=asked.multi,
            per_option=asked.per_option,
            confidence=asked.confidence,
            **asked.knowledge,
            **asked.how_read,
        )


@contextmanager
def _at_work(asked: SimpleNamespace, engine: Engine) -> Iterator[tuple[Engine, Any]]:
    """Yield the engine, and what to call after every iteration.

    An engine on disk works in a folder next to the output. The folder is removed at the end, and kept for resuming
    when the run is broken off.
    """
    resume = getattr(asked, "resume", False)
    if engine.name != "disk":
        if resume:
            raise OptionError(f"--resume is for --engine disk: engine {engine.name} holds everything in memory")
        with out.progress("iterations", asked.settings["model"], quiet=asked.quiet) as progress:
            yield engine, progress
        return
    if resume and asked.output is None:
        raise OptionError("--resume needs a run that writes to a file: give -o, too")
    import shutil
    from dataclasses import replace

    from adjudge.cli import console

    work = None if asked.output is None else Path(asked.output).parent / f".{Path(asked.output).name}.work"
    if work is not None and work.exists() and not resume:
        shutil.rmtree(work)
    try:
        with console.passes(out.talk(asked.quiet)) as report_pass:
            yield replace(cast(Any, engine), work=work, resume=resume, report=report_pass), None
    except (InputError, OptionError):
        if work is not None and not resume:
            shutil.rmtree(work, ignore_errors=True)
        raise
    if work is not None:
        shutil.rmtree(work)


def _write(asked: SimpleNamespace, result: Any) -> pl.DataFrame | None:
    """Write the requested files, with `--to` the labels in the format of the votes.

    Return the frame of workers if one was made.
    """
    from adjudge.io.write import write_batches, write_frame

    is_on_disk = getattr(result, "is_on_disk", False)  # then a frame of all tasks need not fit in memory
    worker_frame = None
    if asked.workers is not None:
        worker_frame = result.workers_frame()
        write_frame(worker_frame, Path(asked.workers))
    if asked.probabilities is not None:
        path = Path(asked.probabilities)
        if is_on_disk:
            write_batches(result.probability_batches(), path)
        else:
            write_frame(result.probabilities_frame(), path)
    if asked.soft is not None:
        from adjudge.results.soft import soft_labels

        write_frame(soft_labels(result).frame(), Path(asked.soft))
    if asked.output is not None and asked.to is not None:
        result.write(asked.output, asked.source, format=asked.to)
    elif asked.output is not None:
        path = Path(asked.output)
        if is_on_disk:
            write_batches(result.label_batches(), path)
        else:
            frame = result.labels_frame()
            write_frame(out.flatten_sets(frame, path.suffix) if asked.multi else frame, path)
    return worker_frame


def write_report(asked: SimpleNamespace, result: Any, path: Path) -> None:
    """Write the page that shows a result."""
    from adjudge.report.page import write

    names = asked.votes
    source = "standard input" if names == ["-"] else Path(names[0]).name if len(names) == 1 else f"{len(names)} files"
    reading = {"set_separator": asked.how_read["set_separator"]}
    write(result, path, source=source, title=getattr(asked, "title", None), **asked.truth, **reading)


def _print_labels(result: Any) -> None:
    batches = result.label_batches() if hasattr(result, "label_batches") else iter([out.flatten_sets(result.labels_frame())])
    out.print_frames(batches, len(result.votes.tasks) + len(result.votes.unvoted))
