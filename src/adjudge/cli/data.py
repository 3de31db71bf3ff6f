"""Commands that make and fetch votes: `adjudge encode`, `simulate`, `datasets` and `reproduce`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

import adjudge as adj
from adjudge.cli import output as out
from adjudge.cli.options import Flags, PlainGroup, VotesFiles, add_command, command, split_numbers
from adjudge.errors import InputError, OptionError, choice_error

Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing.")]


@command(
    ("Read a large file once, and aggregate it several times:", "adjudge encode votes.csv -o encoded"),
    ("With any model, in little memory:", "adjudge aggregate encoded --engine disk -m ds -o labels.csv"),
    without=("set_separator",),
)
def encode(
    votes: VotesFiles,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to create; encoded votes there are replaced.")],
    memory: Annotated[str | None, typer.Option(help="Memory limit, like 2GB (default: half of the free memory).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the same command after an interruption.")] = False,
    quiet: Quiet = False,
    *,
    how_read: Flags,
) -> None:
    """Encode votes into a folder, in bounded memory at any size."""
    from adjudge.cli import console

    talk = out.talk(quiet)
    with console.passes(talk) as progress:
        made = adj.encode(out.source_of(votes), output, memory=memory, resume=resume, progress=progress, **how_read)
    if made.understood is not None:
        talk.say(out.read_as(votes, made.understood))
    size = sum(path.stat().st_size for path in output.iterdir())
    talk.say(f"{len(made)} votes on {made.n_tasks} tasks by {made.n_workers} workers are in {output} ({size / 1e6:.1f} MB)")


@command(
    ("Votes of fifty workers, some of whom guess, with known truth:", "adjudge simulate -o crowd --tasks 2000 --spammers 0.1"),
    ("A model on these votes:", "adjudge aggregate crowd/votes.csv --truth crowd/truth.csv -o labels.csv"),
    form=("csv", "tsv", "jsonl", "parquet"),
)
def simulate(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for votes, truth, workers and confusions; created if missing.")
    ],
    tasks: Annotated[int, typer.Option(help="Number of tasks.")] = 1000,
    workers: Annotated[int, typer.Option(help="Number of workers.")] = 50,
    labels: Annotated[int, typer.Option(help="Number of labels.")] = 3,
    votes_per_task: Annotated[str, typer.Option(help="A number, or MIN-MAX to draw from.")] = "5",
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
    form: Annotated[str, typer.Option("--format", help="csv, tsv, jsonl or parquet.")] = "csv",
    quiet: Quiet = False,
) -> None:
    """Draw votes from known confusions, in bounded memory."""
    settings: dict[str, Any] = {name: value for name, value in locals().items() if name not in ("output", "form", "quiet")}
    from adjudge.cli import console
    from adjudge.io.write import check_files, check_suffix

    settings["votes_per_task"] = _range(votes_per_task)
    settings["label_weights"] = None if label_weights is None else split_numbers(label_weights, "label-weights")
    crowd = adj.simulate(**settings)
    _require_folder(output)
    check_suffix(output / f"votes.{form}")
    check_files({name: output / f"{name}.{form}" for name in ("votes", "truth", "workers", "confusions")})
    output.mkdir(parents=True, exist_ok=True)
    talk = out.talk(quiet)
    with console.counter(talk, tasks * sum(crowd.spec.panel_sizes()) / 2 * (1 + repeats) + tasks) as progress:
        crowd.write(output, form, progress)
    talk.say(f"votes, truth, workers and confusions of {tasks} tasks by {workers} workers are in {output}")


def _range(text: str) -> int | tuple[int, int]:
    least, _, most = text.partition("-")
    try:
        return (int(least), int(most)) if most else int(least)
    except ValueError:
        raise OptionError(f"votes-per-task is {text!r}: give a number like 5, or two like 3-7") from None


def _require_folder(path: Path) -> None:
    """Raise if a file is where a folder is to be."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file: name a folder")


def _default_folder() -> Path:
    """Return the folder of data sets when none is named: ADJUDGE_DATA, else ./data."""
    return Path(os.environ.get("ADJUDGE_DATA") or "data")


datasets = typer.Typer(cls=PlainGroup, no_args_is_help=True, help="List and download public sets of votes and their truth.")


@command()
def list_sets(
    files: Annotated[bool, typer.Option("--files", help="List every file: address, bytes, sha256, and path below raw/.")] = False,
) -> None:
    """List the sets that can be downloaded, and their sources."""
    from adjudge.evaluation.datasets import SETS

    if files:
        for which in SETS.values():
            for file in which.files:
                typer.echo(f"{which.name}\t{file.url()}\t{file.size}\t{file.sha256}\traw/{file.place}")
        return
    rows = [(s.name, s.about, "yes" if s.in_paper else "", s.votes, f"{s.size / 1e6:.1f}") for s in SETS.values()]
    out.screen().table(["name", "votes on", "in the paper", "votes", "MB"], rows, left=3)


@command()
def get_sets(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Sets to download, or all.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for NAME/votes.csv (default: ADJUDGE_DATA, else ./data).")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="Mirror that has the files as BASE/OWNER/NAME/PATH (default: GitHub).")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Download sets, check every byte, and convert them.

    An interrupted download resumes where it stopped.
    """
    from adjudge.cli import console
    from adjudge.evaluation.datasets import SETS, get

    for name in names:
        if name not in SETS and name != "all":
            raise choice_error("data set", name, [*SETS, "all"])
    folder = output or _default_folder()
    _require_folder(folder)
    talk = out.talk(quiet)
    chosen = list(SETS) if "all" in names else list(dict.fromkeys(names))
    with console.downloads(talk, sum(SETS[name].size for name in chosen)) as progress:
        for name in chosen:
            get(SETS[name], folder, base_url, lambda file, here: progress(file.place, here))
            talk.say(f"{name}: {SETS[name].votes} votes in {folder / name}")


add_command(datasets, "list", list_sets)
add_command(datasets, "get", get_sets)


@command(subset=("first", "random"))
def reproduce(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for tables, plots and report.md; created if missing.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder that has NAME/votes.csv and truth.csv (default: ADJUDGE_DATA, else ./data)."),
    ] = None,
    sets: Annotated[str | None, typer.Option(help="Sets to run, joined by commas (default: all six).")] = None,
    subset: Annotated[str, typer.Option(help="Votes of a question: the first in the file, or random.")] = "first",
    trials: Annotated[int, typer.Option(help="Seeds per point; they decide ties and draw random subsets.")] = 10,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard the cells that an earlier run finished.")] = False,
    quiet: Quiet = False,
) -> None:
    """Run the paper's experiments, and compare its figures with ours.

    An interrupted run resumes.
    """
    from adjudge.cli import console
    from adjudge.io.write import identities, lies_in
    from adjudge.paper import plots, report
    from adjudge.paper import reproduce as experiments
    from adjudge.paper.grid import GridPlan, choose

    folder = data or _default_folder()
    names = choose(None if sets is None else sets.split(","))
    if identities(output) & identities(folder) or any(lies_in(output, folder / name) for name in names):
        raise InputError(f"{output} is a folder of the data sets that are read: name another folder")
    talk, plan = out.talk(quiet), GridPlan(subset, trials)
    with console.counter(talk, experiments.cells_of(names, folder)) as progress:
        outcome = experiments.reproduce(folder, output, names, plan, fresh=fresh, done=lambda name: progress(name, 1))
    counts = report.summary(report.judge(outcome.grid, subset))
    talk.table(counts.columns, counts.rows())
    if not outcome.drawn:
        talk.say(plots.NO_ALTAIR)
    talk.say(f"the report is {output / 'report.md'}")
