"""`quorate`: the commands, and what happens when one of them cannot go on."""

from __future__ import annotations

import os
import sys
import warnings

import typer

from quorate.cli import aggregate, agreement, datasets, demo, evaluate, predict, reproduce, simulate, stream
from quorate.errors import QuorateError

app = typer.Typer(
    name="quorate",
    help="Turns votes (which worker gave which task which label) into decisions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("aggregate")(aggregate.command)
app.command("predict")(predict.command)
app.command("evaluate")(evaluate.command)
app.command("agreement")(agreement.command)
app.command("stream")(stream.command)
app.command("simulate")(simulate.command)
app.command("demo")(demo.command)
app.command("reproduce")(reproduce.command)
app.add_typer(datasets.app, name="datasets")


@app.callback(invoke_without_command=True)
def _options(version: bool = typer.Option(False, "--version", help="Show the version and leave.")) -> None:
    """Turns votes (which worker gave which task which label) into decisions."""
    if version:
        from quorate import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Runs the command line; bad input ends in one line and exit code 1, bad usage in 2."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _one_line
            app()
        return
    except QuorateError as error:
        message = str(error)
    except MemoryError:
        message = "out of memory: close other programs, or use fewer labels or votes"
    except BrokenPipeError:  # the reader of our output has left: not worth a word
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:  # a full disk behind stdout, a folder that cannot be made
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    # Only now, when what the failed command held is free: the compiled core tells of what is left at exit.
    typer.echo(f"quorate: {' '.join(message.splitlines())}", err=True)
    sys.exit(1)


def _one_line(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"quorate: warning: {message}", err=True)
