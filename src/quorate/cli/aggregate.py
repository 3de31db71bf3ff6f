"""`quorate aggregate`: votes in, labels out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from quorate.cli import output as out
from quorate.cli.output import at_work, label_list
from quorate.cli.questions import FORMAT_HELP, PREDICTIONS_HELP, QUESTION_HELP, TO_HELP, each, labels_file
from quorate.data.options import DEFAULTS

if TYPE_CHECKING:
    import polars as pl

    from quorate.evaluation.truth import Evaluation
    from quorate.models.base import Model
    from quorate.results.result import Result

IN_SENTENCES = ("chose", "why", "shared_error", "votes_per_task", "effective_votes")  # facts that people read as sentences
FEW_EFFECTIVE = 2 / 3  # of the votes on a task: what shared error leaves below this is said, with what to do


def own(option: str) -> str:
    """Return the default of a setting of models, for the help: the model knows it, the command line leaves it out."""
    return str(getattr(DEFAULTS, option))


def command(
    votes: Annotated[
        list[str],
        typer.Argument(
            metavar="VOTES",
            help="Files or patterns: csv, tsv, json, jsonl, parquet, arrow, xlsx, .gz or .zst; exports of annotation tools; "
            "a folder of `encode`; - is stdin.",
        ),
    ],
    model: Annotated[str, typer.Option(help="auto, mv, ds, fds, hybrid, one-coin, iwmv or glad.")] = DEFAULTS.model,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write the labels here (else to stdout).")] = None,
    to: Annotated[str | None, typer.Option(help=TO_HELP)] = None,
    workers: Annotated[str | None, typer.Option(help="Write the workers here.")] = None,
    probabilities: Annotated[str | None, typer.Option(help="Write the probability of every label here.")] = None,
    truth: Annotated[Path | None, typer.Option(help="Known labels, to measure accuracy; never learned from.")] = None,
    truth_task: Annotated[str | None, typer.Option(help="Column of the task in the truth.")] = None,
    truth_label: Annotated[str | None, typer.Option(help="Column of the label in the truth.")] = None,
    gold: Annotated[str | None, typer.Option(help="Known labels of some tasks, to learn from.")] = None,
    history: Annotated[Path | None, typer.Option(help="A saved model, or a table worker, true, given, count.")] = None,
    priors: Annotated[str | None, typer.Option(help="Class priors: cat=0.3,dog=0.7 or uniform.")] = None,
    priors_weight: Annotated[float | None, typer.Option(help="Tasks that the priors are worth (default: fixed priors).")] = None,
    strength: Annotated[
        str | None,
        typer.Option(help="Pseudo-votes of the mean worker per worker, or auto; 0 is the paper.", show_default=own("strength")),
    ] = None,
    warm_start: Annotated[Path | None, typer.Option(help="A saved model to start from.")] = None,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Fit a temperature on the gold.")] = False,
    confidence: Annotated[
        str, typer.Option(help="posterior (the model's own), or honest: judged from other tasks and shared errors.")
    ] = DEFAULTS.confidence,
    groups: Annotated[
        str | None,
        typer.Option(help="Who votes as one: a table worker, group; or answers_like, for workers who answer alike."),
    ] = None,
    exclude: Annotated[
        str | None, typer.Option(help="Workers left out: a file (a table with a worker column, or an id per line), or w1,w2.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Save the fitted model here, for predict, history and warm start.")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides ties.", show_default=own("seed"))] = None,
    engine: Annotated[str, typer.Option(help="auto, reference, cpu, disk (votes beyond memory) or spark.")] = DEFAULTS.engine,
    master: Annotated[str | None, typer.Option(help="spark: the cluster (default: spark-submit's, else this machine).")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads to use (default: all cores).")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory limit, like 2GB; votes that do not fit go to disk.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="With disk: resume the same command after an interruption.")] = False,
    task: Annotated[str | None, typer.Option(help="Column of the task.")] = None,
    worker: Annotated[str | None, typer.Option(help="Column of the worker.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of what a vote counts, 0 being an abstention (default: 1).")] = None,
    labels: Annotated[str | None, typer.Option(help="The labels in order, joined by commas.")] = None,
    wide: Annotated[
        bool, typer.Option("--wide", help="One line per task, one column per worker (--worker 'judge_*' says which).")
    ] = False,
    count: Annotated[
        str | None, typer.Option(help="Column with the number of votes that a line stands for; mv then needs no worker.")
    ] = None,
    abstain: Annotated[str | None, typer.Option(help="Labels that are abstentions, joined by commas: NA,skip or -1.")] = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Join labels that differ only in case or white space.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop where votes look misread, instead of a warning.")] = False,
    separator: Annotated[str | None, typer.Option(help="Between the fields of text files, if the header shows none.")] = None,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="The first line is a vote: task, worker, label; or --task 2 --worker 1 --label 3.")
    ] = False,
    smoothing: Annotated[
        float | None,
        typer.Option(help="Added to every cell of every confusion; 0 is the paper.", show_default=own("smoothing")),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(help="Stop when the priors (glad: the objective) change by less than this.", show_default=own("tol")),
    ] = None,
    max_iter: Annotated[int | None, typer.Option(help="Maximum number of iterations.", show_default=own("max_iter"))] = None,
    switch: Annotated[
        float | None,
        typer.Option(help="hybrid: make passes hard when the priors change by at most this.", show_default=own("switch")),
    ] = None,
    stop: Annotated[
        str | None, typer.Option(help="priors, or labels: stop when no label changed.", show_default=own("stop"))
    ] = None,
    ties: Annotated[
        str | None, typer.Option(help="hash, or prior: ties go to the more frequent label.", show_default=own("ties"))
    ] = None,
    multi: Annotated[bool, typer.Option("--multi", help="Votes are sets of options, joined by | or as lists.")] = False,
    set_separator: Annotated[str, typer.Option(help="With --multi: what joins the options of a set.")] = "|",
    per_option: Annotated[bool, typer.Option("--per-option", help="With --multi: fit each option separately.")] = False,
    duplicates: Annotated[str, typer.Option(help="Repeated votes: all, last, first or error.")] = DEFAULTS.duplicates,
    form: Annotated[str, typer.Option("--format", help=FORMAT_HELP)] = "auto",
    question: Annotated[str | None, typer.Option(help=QUESTION_HELP)] = None,
    predictions: Annotated[bool, typer.Option("--predictions", help=PREDICTIONS_HELP)] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only data.")] = False,
) -> None:
    """Find the label of every task, and how reliable every worker is."""
    if question == "all":
        each(command, dict(locals()))
        return
    import quorate as qr
    from quorate.engines.registry import resolve
    from quorate.errors import InputError, OptionError
    from quorate.io.groups import ANSWERS_LIKE
    from quorate.io.write import check_files, check_folder

    on_spark = engine == "spark"
    if master is not None and not on_spark:
        raise OptionError("--master works only with --engine spark: leave it out, or add the engine")
    if save is not None and multi:
        raise InputError("--save works only for tasks with one label: leave it out with --multi")
    frames = {
        "-o": labels_file(votes, output, to, form, {"--engine spark": on_spark, "--no-header": no_header}),
        "--workers": workers,
        "--probabilities": probabilities,
    }
    inputs = {"the votes": votes, "the truth": truth, "the gold": gold, "the history": history, "the warm start": warm_start}
    left_out = None if exclude is None else _excluded(exclude)
    inputs |= {
        "the groups": None if groups == ANSWERS_LIKE else groups,
        "the excluded workers": left_out if isinstance(left_out, Path) else None,
    }
    if on_spark:
        from quorate.cli import on_spark as far

        if save is not None:
            check_folder(save)
        local = {name: path for name, path in {**frames, "--save": save}.items() if "://" not in str(path)}
        check_files(local, {name: source for name, source in inputs.items() if "://" not in str(source)})
        far.prepare(votes, master, (output, workers, probabilities), {"--multi": multi, "--truth": truth, "--weight": weight})
    else:
        out.check(frames, inputs, others={"--save": save, "-o": output}, to_stdout=output is None)
    source = votes if len(votes) > 1 else votes[0]
    chosen = _chosen(
        model,
        seed=seed,
        smoothing=smoothing,
        strength=None if strength is None else _strength(strength),
        tol=tol,
        max_iter=max_iter,
        switch=switch,
        stop=stop,
        ties=ties,
    )
    place = resolve(engine, threads, source=None if multi else source, memory=memory, room=chosen.room)
    beside = None if output is None else Path(output)
    with at_work(place, beside, resume=resume, model=model, quiet=quiet) as (where, progress):
        result: Any = qr.aggregate(
            source,
            engine=where,
            task=task,
            worker=worker,
            label=label,
            weight=weight,
            labels=None if labels is None else label_list(labels),
            wide=wide,
            count=count,
            abstain=None if abstain is None else [word.strip() for word in abstain.split(",")],
            normalize=normalize,
            strict=strict,
            separator=None if separator is None else out.unescaped(separator),
            header=not no_header,
            set_separator=set_separator,
            trace="light",  # nobody sees it here
            multi=multi,
            per_option=per_option,
            gold=gold,
            history=history,
            priors_weight=priors_weight,
            warm_start=warm_start,
            calibrate=calibrate,
            confidence=cast(Any, confidence),
            groups=groups,
            exclude=left_out,
            progress=progress,
            format=form,
            question=question,
            predictions=predictions,
            **_typed(
                model=chosen,
                duplicates=duplicates,
                priors=None if priors is None else _prior_map(priors),
            ),
        )
        evaluation: Any = (
            None
            if truth is None
            else qr.evaluate(result, truth, truth_task=truth_task, truth_label=truth_label, set_separator=set_separator)
        )
        if on_spark:
            far.write(result, output, workers, probabilities)
        else:
            _write_all(result, output, workers, probabilities, source, to)
        if save is not None:
            result.save(save)
        facts = _facts(result, evaluation)
    if not quiet and not as_json:
        if result.understood is not None:
            out.say(out.read_as(votes, result.understood))
        _summary(facts, None if multi else evaluation)
    if as_json:
        _json(result, facts, evaluation, with_labels=output is None)
    elif output is None and on_spark:
        far.show(result)
    elif output is None:
        _labels(result)


def _write_all(
    result: Any, output: str | None, workers: str | None, probabilities: str | None, votes: str | list[str], to: str | None
) -> None:
    """Write the files that were asked for; labels in the form of the votes where `to` says so."""
    from quorate.io.write import write_frame

    if workers is not None:
        write_frame(result.workers_frame(), Path(workers))
    if probabilities is not None:
        _write(result, "probabilities", Path(probabilities))
    if output is not None and to is not None:
        result.write(output, votes, format=to)
    elif output is not None:
        _write(result, "labels", Path(output))


def _write(result: Any, what: str, path: Path) -> None:
    """Write labels or probabilities: votes on disk have results that need not fit in memory."""
    from quorate.io.write import write_batches, write_frame

    if getattr(result, "is_on_disk", False):
        write_batches(result.label_batches() if what == "labels" else result.probability_batches(), path)
    elif what == "labels":
        write_frame(_flat(result.labels_frame(), path.suffix), path)
    else:
        write_frame(result.probabilities_frame(), path)


def _chosen(model: str, **settings: Any) -> Model:
    """Return the model of this name, with the settings that were typed."""
    from quorate.models.base import make

    given = {name: value for name, value in settings.items() if value is not None}
    return make(model, DEFAULTS._asdict(), given, chosen_by="--model {}")


def _typed(**options: Any) -> dict[str, Any]:
    """Return options as they were typed: `aggregate` says what is no choice."""
    return options


def _prior_map(text: str) -> dict[str, float] | str:
    from quorate.errors import OptionError

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
    from quorate.errors import OptionError

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


def _summary(facts: dict[str, object], evaluation: Evaluation | None) -> None:
    """Print the figures of a run, then what they mean where that takes a sentence."""
    shown = {name: value for name, value in facts.items() if value is not None and name not in IN_SENTENCES}
    out.facts([(name.replace("_", " "), value) for name, value in shown.items()])
    for sentence in _sentences(facts):
        out.say(sentence)
    if evaluation is not None and evaluation.calibration.tasks:
        from quorate.cli import console

        talk = console.talk()
        talk.print()
        talk.print(console.reliability(evaluation.calibration.bins))


def _sentences(facts: dict[str, Any]) -> list[str]:
    """Return what auto chose and why; and, where shared error is large, what the votes of a panel are worth and what to do."""
    sentences = [] if facts.get("why") is None else [f"chose {facts['why']}"]
    votes, effective = facts.get("votes_per_task"), facts.get("effective_votes")
    if votes is None or effective is None or effective >= FEW_EFFECTIVE * votes:
        return sentences
    remedy = "ask judges who differ more"
    if not facts.get("groups"):
        remedy += ", or let those of one kind vote once (--groups FILE, or --groups answers_like)"
    return [*sentences, f"workers err together: {votes:.2g} votes on a task count like {effective:.2g}; {remedy}"]


def _facts(result: Result, evaluation: Evaluation | None) -> dict[str, object]:
    """Return the figures of a run, for people and for JSON alike."""
    from quorate.data.weights import total_weight

    if not hasattr(result, "fit"):  # several correct options
        return _set_facts(result, evaluation)
    votes, grouping, measured = result.votes, result.grouping, result.facts
    return {
        "model": result.model,
        **{name: measured.get(name) for name in IN_SENTENCES},
        "votes": len(votes),
        "weight": total_weight(votes),
        "votes_cast": None if grouping is None else len(grouping.members),
        "tasks": votes.n_tasks,
        "workers": votes.n_workers if grouping is None else grouping.members.n_workers,
        "groups": measured.get("groups"),
        "labels": votes.n_labels,
        "excluded_workers": measured.get("excluded_workers"),
        "excluded_votes": measured.get("excluded_votes"),
        "abstentions": votes.abstentions or None,
        "ties_within_groups": measured.get("ties_within"),
        "tasks_without_votes": result.unvoted or None,
        "gold": result.gold_given - result.gold_without_votes if result.gold_given else None,
        "gold_without_votes": result.gold_without_votes or None,
        "strength": result.strength or None,
        "iterations": result.iterations,
        "iterations_before": result.iterations_before or None,
        "converged": result.converged,
        "temperature": None if result.temperature == 1.0 else result.temperature,
        "log_likelihood": None if result.log_likelihood != result.log_likelihood else result.log_likelihood,
        "mean_confidence": 1.0 - result.expected_errors / votes.n_tasks if votes.n_tasks else None,
        "expected_wrong_labels": result.expected_errors if votes.n_tasks else None,
        "ties": result.ties,
        **_measured(evaluation, votes.n_tasks),
    }


def _measured(evaluation: Evaluation | None, tasks: int) -> dict[str, object]:
    """Return the figures that need truth."""
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
    """Return a frame as its file can hold it: text files have no lists, so sets are joined."""
    import polars as pl

    if frame.schema["label"] != pl.List(pl.String) or suffix.lower() not in ("", ".csv", ".tsv"):
        return frame
    from quorate.io.shapes import SET_SEPARATOR

    return frame.with_columns(pl.col("label").list.join(SET_SEPARATOR))


def _labels(result: Any) -> None:
    batches = result.label_batches() if hasattr(result, "label_batches") else iter([_flat(result.labels_frame(), "")])
    out.labels(batches, len(result.votes.tasks) + len(result.votes.unvoted))


def _json(result: Result, facts: dict[str, object], evaluation: Evaluation | None, *, with_labels: bool) -> None:
    document = dict(facts)
    document["understood"] = None if result.understood is None else result.understood.summary()
    if hasattr(result, "fit"):
        document["priors"] = dict(zip(result.votes.labels.texts(), result.fit.params.priors.tolist(), strict=True))
    if evaluation is not None:
        document["evaluation"] = evaluation.summary()
    if with_labels:
        document["result"] = result.labels_frame().to_dicts()
    out.document(document)
