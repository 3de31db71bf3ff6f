"""`adjudge simulate`: votes drawn from known confusions, streamed into files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adjudge.cli.command import one_of

EXAMPLES = (
    ("Votes of fifty workers with known truth, of whom some guess:", "adjudge simulate -o crowd --tasks 2000 --spammers 0.1"),
    ("What a model makes of them:", "adjudge aggregate crowd/votes.csv --truth crowd/truth.csv -o labels.csv"),
)


def command(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for votes, truth, workers and confusions; made if absent.")
    ],
    tasks: Annotated[int, typer.Option(help="Number of tasks.")] = 1000,
    workers: Annotated[int, typer.Option(help="Number of workers.")] = 50,
    labels: Annotated[int, typer.Option(help="Number of labels.")] = 3,
    votes_per_task: Annotated[str, typer.Option(help="A number, or LEAST-MOST to draw from.")] = "5",
    skill: Annotated[float, typer.Option(help="Mean probability of a correct answer.")] = 0.75,
    skill_spread: Annotated[float, typer.Option(help="Its standard deviation over workers and labels.")] = 0.13,
    spammers: Annotated[float, typer.Option(help="Share of workers who answer without looking.")] = 0.0,
    adversaries: Annotated[float, typer.Option(help="Share of workers who name a wrong label.")] = 0.0,
    colluders: Annotated[float, typer.Option(help="Share of workers who copy one another.")] = 0.0,
    ring: Annotated[int, typer.Option(help="Number of workers in a ring of colluders.")] = 4,
    power: Annotated[float, typer.Option(help="Votes per worker fall like 1/n^POWER; 0: the same for all.")] = 0.0,
    repeats: Annotated[float, typer.Option(help="Share of votes cast a second time.")] = 0.0,
    shared_error: Annotated[float, typer.Option(help="Share of tasks on which those who err, err alike.")] = 0.0,
    label_weights: Annotated[str | None, typer.Option(help="How frequent each label is, joined by commas.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the crowd.")] = 0,
    form: Annotated[
        str,
        typer.Option("--format", help="csv, tsv, jsonl or parquet.", autocompletion=one_of((), "csv", "tsv", "jsonl", "parquet")),
    ] = "csv",
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Draw votes from known confusions, in bounded memory."""
    import adjudge as adj
    from adjudge.cli import console
    from adjudge.errors import InputError
    from adjudge.io.write import check_files, check_suffix

    crowd = adj.simulate(
        tasks=tasks,
        workers=workers,
        labels=labels,
        votes_per_task=_range(votes_per_task),
        skill=skill,
        skill_spread=skill_spread,
        spammers=spammers,
        adversaries=adversaries,
        colluders=colluders,
        ring=ring,
        power=power,
        repeats=repeats,
        shared_error=shared_error,
        label_weights=None if label_weights is None else _numbers(label_weights),
        seed=seed,
    )
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file: name a folder")
    check_suffix(output / f"votes.{form}")
    check_files({name: output / f"{name}.{form}" for name in ("votes", "truth", "workers", "confusions")})
    output.mkdir(parents=True, exist_ok=True)
    talk = console.talk(quiet)
    with console.counter(talk, tasks * sum(crowd.spec.panel_sizes()) / 2 * (1 + repeats) + tasks) as progress:
        crowd.write(output, form, progress)
    talk.say(f"votes, truth, workers and confusions of {tasks} tasks by {workers} workers are in {output}")


def _range(text: str) -> int | tuple[int, int]:
    from adjudge.errors import OptionError

    least, _, most = text.partition("-")
    try:
        return (int(least), int(most)) if most else int(least)
    except ValueError:
        raise OptionError(f"votes-per-task is {text!r}: give a number like 5, or two like 3-7") from None


def _numbers(text: str) -> list[float]:
    from adjudge.errors import OptionError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(f"label-weights is {text!r}: give numbers joined by commas, like 5,2,1") from None
