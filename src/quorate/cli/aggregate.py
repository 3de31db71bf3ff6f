"""`quorate aggregate`: votes in, labels out."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import polars as pl

    from quorate.em import Progress
    from quorate.evaluation import Evaluation
    from quorate.result import Result

PREVIEW = 20  # labels shown on a terminal


def command(
    votes: Annotated[
        list[str],
        typer.Argument(
            metavar="VOTES",
            help="Files of votes or patterns of them: csv, tsv, jsonl, parquet, arrow, .gz or .zst; - is standard input.",
        ),
    ],
    model: Annotated[str, typer.Option(help="mv, ds, fds, hybrid, one-coin, iwmv or glad.")] = "fds",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the labels here (else to stdout).")] = None,
    workers: Annotated[Path | None, typer.Option(help="Write the workers here.")] = None,
    probabilities: Annotated[Path | None, typer.Option(help="Write the probability of every label here.")] = None,
    truth: Annotated[Path | None, typer.Option(help="Known labels, to measure accuracy; never learned from.")] = None,
    truth_task: Annotated[str | None, typer.Option(help="Column of the task in the truth.")] = None,
    truth_label: Annotated[str | None, typer.Option(help="Column of the label in the truth.")] = None,
    gold: Annotated[Path | None, typer.Option(help="Known labels of some tasks, to learn from.")] = None,
    history: Annotated[Path | None, typer.Option(help="A saved model, or a table worker, true, given, count.")] = None,
    priors: Annotated[str | None, typer.Option(help="Class priors: cat=0.3,dog=0.7 or uniform.")] = None,
    priors_weight: Annotated[float | None, typer.Option(help="Tasks the priors are worth (default: they are fixed).")] = None,
    strength: Annotated[str, typer.Option(help="Votes of the mean worker lent to every worker, or auto; 0 is the paper.")] = "0",
    warm_start: Annotated[Path | None, typer.Option(help="A saved model to go on from.")] = None,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Fit a temperature on the gold.")] = False,
    save: Annotated[Path | None, typer.Option(help="Save what was learned here, for predict, history and warm start.")] = None,
    seed: Annotated[int, typer.Option(help="Decides ties.")] = 0,
    engine: Annotated[str, typer.Option(help="auto or reference.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="Threads to use (default: all cores).")] = None,
    task: Annotated[str | None, typer.Option(help="Column of the task.")] = None,
    worker: Annotated[str | None, typer.Option(help="Column of the worker.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label.")] = None,
    labels: Annotated[str | None, typer.Option(help="The labels in order, joined by commas.")] = None,
    smoothing: Annotated[float, typer.Option(help="Added to every cell of every confusion; 0 is the paper.")] = 0.0,
    tol: Annotated[float, typer.Option(help="Stop when the priors (glad: the objective) change by less than this.")] = 1e-4,
    max_iter: Annotated[int, typer.Option(help="The most iterations.")] = 100,
    switch: Annotated[float, typer.Option(help="hybrid: harden when the priors change by at most this.")] = 0.005,
    stop: Annotated[str, typer.Option(help="priors, or labels: stop when no label changed.")] = "priors",
    ties: Annotated[str, typer.Option(help="hash, or prior: ties go to the more frequent label.")] = "hash",
    multi: Annotated[bool, typer.Option("--multi", help="Votes are sets of options, joined by | or as lists.")] = False,
    per_option: Annotated[bool, typer.Option("--per-option", help="With --multi: fit each option apart.")] = False,
    duplicates: Annotated[str, typer.Option(help="Repeated votes: all, last, first or error.")] = "all",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but data.")] = False,
) -> None:
    """Finds the label of every task, and what every worker can be trusted with."""
    import quorate as qr
    from quorate.errors import InputError
    from quorate.io.write import check_targets, write_frame

    check_targets(output, workers, probabilities, other=save)
    if save is not None and multi:
        raise InputError("--save makes sense for tasks with one label only: leave it out with --multi")
    with _progress(model, quiet) as progress:
        result = qr.aggregate(
            votes if len(votes) > 1 else votes[0],
            model=model,
            seed=seed,
            engine=engine,
            threads=threads,
            task=task,
            worker=worker,
            label=label,
            labels=None if labels is None else label_list(labels),
            duplicates=duplicates,
            smoothing=smoothing,
            tol=tol,
            max_iter=max_iter,
            switch=switch,
            stop=stop,
            ties=ties,
            trace="light",  # nobody sees it here
            multi=multi,
            per_option=per_option,
            gold=gold,
            history=history,
            priors=None if priors is None else _prior_map(priors),
            priors_weight=priors_weight,
            strength=_strength(strength),
            warm_start=warm_start,
            calibrate=calibrate,
            progress=progress,
        )
    evaluation = None if truth is None else qr.evaluate(result, truth, truth_task=truth_task, truth_label=truth_label)
    if workers is not None:
        write_frame(result.workers_frame(), workers)
    if probabilities is not None:
        write_frame(result.probabilities_frame(), probabilities)
    if output is not None:
        write_frame(_flat(result.labels_frame(), output.suffix), output)
    if save is not None:
        result.save(save)
    _summary(result, evaluation, quiet or as_json)
    if as_json:
        _json(result, evaluation, with_labels=output is None)
    elif output is None:
        _labels(result)


def label_list(text: str) -> list[str]:
    """Returns the labels in a text that joins them by commas."""
    from quorate.errors import OptionError

    labels = [part.strip() for part in text.split(",")]
    if not all(labels):
        raise OptionError(f"labels is {text!r}: give labels joined by commas, none of them empty")
    return labels


def _prior_map(text: str) -> dict[str, float] | str:
    from quorate.errors import OptionError

    if "=" not in text:
        return text  # "uniform", or an error that says what is accepted
    pairs = [part.rpartition("=") for part in text.split(",")]
    try:
        return {label.strip(): float(value) for label, _, value in pairs}
    except ValueError:
        raise OptionError(f"priors is {text!r}: give label=probability joined by commas, or uniform") from None


def _strength(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text  # "auto", or an error that says what is accepted


def _progress(model: str, quiet: bool) -> AbstractContextManager[Progress | None]:
    """Returns what shows the iterations of a fit; a quiet run need not even load the library for it."""
    if quiet:
        return nullcontext()
    from quorate.cli import console

    return console.progress(console.talk(), model)


def _summary(result: Result, evaluation: Evaluation | None, quiet: bool) -> None:
    if quiet:
        return
    from quorate.cli import console

    facts = _facts(result, evaluation)
    shown = {name: value for name, value in facts.items() if value is not None}
    talk = console.talk()
    talk.print(console.table(["", ""], [[name.replace("_", " "), value] for name, value in shown.items()]))
    if evaluation is not None and hasattr(result, "fit") and evaluation.calibration.tasks:
        talk.print()
        talk.print(console.reliability(evaluation.calibration.bins))


def _facts(result: Result, evaluation: Evaluation | None) -> dict[str, object]:
    """Returns the figures of a run, for people and for JSON alike."""
    if not hasattr(result, "fit"):  # several correct options
        return _set_facts(result, evaluation)
    votes, outcome = result.votes, result.fit.outcome
    return {
        "model": result.model,
        "votes": len(votes),
        "tasks": votes.n_tasks,
        "workers": votes.n_workers,
        "labels": votes.n_labels,
        "abstentions": votes.abstentions or None,
        "tasks_without_votes": len(votes.unvoted) or None,
        "gold": int(result.fit.task_columns["gold"].sum()) if result.gold_given else None,
        "gold_without_votes": result.gold_without_votes or None,
        "strength": result.strength or None,
        "iterations": result.iterations,
        "iterations_before": result.iterations_before or None,
        "converged": result.converged,
        "temperature": None if result.temperature == 1.0 else result.temperature,
        "log_likelihood": None if result.log_likelihood != result.log_likelihood else result.log_likelihood,
        "mean_confidence": float(outcome.confidence.mean()) if votes.n_tasks else None,
        "expected_wrong_labels": result.expected_errors if votes.n_tasks else None,
        "ties": int(outcome.tie.sum()),
        **_measured(evaluation, votes.n_tasks),
    }


def _measured(evaluation: Evaluation | None, tasks: int) -> dict[str, object]:
    """Returns the figures that need truth."""
    if evaluation is None or not evaluation.tasks:
        return {"accuracy": None, "tasks_with_truth": None if evaluation is None else 0}
    found = evaluation.calibration
    figures = {name: getattr(found, name) for name in ("expected_calibration_error", "brier", "log_loss")}
    return {
        "accuracy": evaluation.accuracy,
        "tasks_with_truth": evaluation.tasks,
        "wrong_labels": found.errors if found.tasks else None,
        "expected_among_these": found.expected_errors if 0 < found.tasks < tasks else None,
        **{name: value if value == value else None for name, value in figures.items()},
    }


def _set_facts(result: Any, evaluation: Any) -> dict[str, object]:
    votes = result.votes
    measured = {} if evaluation is None else {k: v for k, v in evaluation.summary().items() if "accuracy" in k}
    return {
        "model": result.model,
        "votes": votes.n_votes,
        "tasks": len(votes.tasks),
        "workers": votes.binary.n_workers,
        "options": len(votes.options),
        "abstentions": votes.abstentions or None,
        "iterations": result.iterations,
        "converged": result.converged,
        **measured,
        "tasks_with_truth": None if evaluation is None else evaluation.tasks,
    }


def _flat(frame: pl.DataFrame, suffix: str) -> pl.DataFrame:
    """Returns a frame as its file can hold it: text files have no lists, so sets are joined."""
    import polars as pl

    from quorate.io.sets import SEPARATOR

    if frame.schema["label"] != pl.List(pl.String) or suffix.lower() not in ("", ".csv", ".tsv"):
        return frame
    return frame.with_columns(pl.col("label").list.join(SEPARATOR))


def _labels(result: Result) -> None:
    """Prints the labels: a preview on a terminal, CSV into a pipe."""
    import sys

    frame = _flat(result.labels_frame(), "")
    if not sys.stdout.isatty():
        from quorate.io.write import write_stream

        write_stream(frame, sys.stdout.buffer)
        return
    from quorate.cli import console

    console.data().print(console.table(frame.columns, frame.head(PREVIEW).rows(), left=2))
    if len(frame) > PREVIEW:
        console.talk().print(f"… and {len(frame) - PREVIEW} more: write them all with -o labels.csv", style="dim")


def _json(result: Result, evaluation: Evaluation | None, *, with_labels: bool) -> None:
    import json

    document = _facts(result, evaluation)
    if hasattr(result, "fit"):
        document["priors"] = dict(zip(result.votes.labels.texts(), result.fit.params.priors.tolist(), strict=True))
    if evaluation is not None:
        document["evaluation"] = evaluation.summary()
    if with_labels:
        document["result"] = result.labels_frame().to_dicts()
    typer.echo(json.dumps(document, ensure_ascii=False, allow_nan=False))
