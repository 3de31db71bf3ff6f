"""`adjudge doctor`: whether the installation, the folder and a store are in order, and what to do where they are not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from adjudge.cli.checks import Finding

EXAMPLES: Final = (
    ("The installation, this folder, and votes.db where it is there:", "adjudge doctor"),
    ("A store, while a service writes it:", "adjudge doctor votes.db"),
)
STORE: Final = "votes.db"
STYLES: Final = {"ok": "green", "off": "dim", "warn": "yellow", "fail": "bold red"}


def command(
    store: Annotated[
        str | None, typer.Argument(metavar="STORE", help="A file or postgresql://… (default: votes.db, if it is there).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check the installation and a store, and say what to do.

    One line per thing: ok, off (not installed, not needed), warn or fail. The exit code is 1 where anything fails. A store
    is read whole, and every checksum computed again.
    """
    from adjudge.cli import checks, output

    found: list[Finding] = []
    chosen = store if store is not None else STORE if Path(STORE).exists() else None
    is_local = chosen is None or "://" not in chosen
    parent = Path(chosen).absolute().parent if chosen is not None and is_local else Path.cwd()
    for findings in (
        checks.installation(),
        checks.folder(parent) if is_local else (),
        checks.store(chosen) if chosen is not None else (),
    ):
        for finding in findings:
            found.append(finding)
            if not as_json:
                _show(finding)
    if as_json:
        output.document([{"state": state, "what": what, "text": text} for state, what, text in found])
    if any(finding.state == "fail" for finding in found):
        raise typer.Exit(1)


def _show(finding: Finding) -> None:
    """Print a line as soon as it is known: a large store takes a while."""
    from rich.text import Text

    from adjudge.cli import console

    state, what, text = finding
    line = Text.assemble((f"{state:<5}", STYLES[state]), console.plain(f" {what:<20} {text}"))
    console.data().print(line, soft_wrap=True)
