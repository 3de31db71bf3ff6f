"""`adjudge datasets`: the public votes of the paper and others, listed and fetched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from adjudge.cli.command import PlainGroup

app = typer.Typer(cls=PlainGroup, no_args_is_help=True, help="List and download public sets of votes and their truth.")


def default_folder() -> Path:
    """Return the folder of data sets when none is named: ADJUDGE_DATA, else ./data."""
    return Path(os.environ.get("ADJUDGE_DATA") or "data")


@app.command("list")
def list_sets(
    files: Annotated[bool, typer.Option("--files", help="List every file: address, bytes, sha256, and path below raw/.")] = False,
) -> None:
    """List the sets that can be downloaded, and their sources."""
    from adjudge.paper.sources import SETS

    if files:
        for which in SETS.values():
            for file in which.files:
                typer.echo(f"{which.name}\t{file.url()}\t{file.size}\t{file.sha256}\traw/{file.place}")
        return
    from adjudge.cli import console

    rows = [(s.name, s.about, "yes" if s.in_paper else "", s.votes, f"{s.size / 1e6:.1f}") for s in SETS.values()]
    console.data().print(console.table(["name", "votes on", "in the paper", "votes", "MB"], rows, left=3))


@app.command("get")
def get_sets(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Sets to download, or all.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for NAME/votes.csv (default: ADJUDGE_DATA, else ./data).")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="Mirror that has the files as BASE/OWNER/NAME/PATH (default: GitHub).")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Download sets, check every byte, and convert them.

    An interrupted download resumes where it stopped.
    """
    from adjudge.cli import console
    from adjudge.errors import InputError, unknown
    from adjudge.paper.download import get
    from adjudge.paper.sources import SETS

    for name in names:
        if name not in SETS and name != "all":
            raise unknown("data set", name, [*SETS, "all"])
    folder = output or default_folder()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder")
    talk = console.talk(quiet)
    chosen = list(SETS) if "all" in names else list(dict.fromkeys(names))
    with console.downloads(talk, sum(SETS[name].size for name in chosen)) as progress:
        for name in chosen:
            get(SETS[name], folder, base_url, lambda file, here: progress(file.place, here))
            talk.say(f"{name}: {SETS[name].votes} votes in {folder / name}")
