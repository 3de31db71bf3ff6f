"""`adjudge`: the commands, their entry point, and how errors end them."""

from __future__ import annotations

import atexit
import gc
import io
import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final, NoReturn

import typer

from adjudge.cli.options import PlainGroup, add_command, show_version
from adjudge.errors import AdjudgeError, make_visible

# The commands as `--help` lists them, and the module of each, which has a function of the same name.
PANELS: Final[Mapping[str, Mapping[str, str]]] = {
    "Labels and workers": {
        "aggregate": "aggregate",
        "predict": "results",
        "evaluate": "evaluation",
        "compare": "evaluation",
        "agreement": "evaluation",
        "explain": "results",
        "ask-next": "results",
        "report": "aggregate",
    },
    "Promises and gates": {"draw-gold": "promises", "certify": "promises", "check": "gate"},
    "Juries and systems": {
        "panel": "juries",
        "rates": "juries",
        "rank": "juries",
        "scores": "scores",
        "bias": "gate",
        "push": "push",
    },
    "The live service": {
        "serve": "serve",
        "vote": "client",
        "watch": "client",
        "token": "serve",
        "backup": "store",
        "replay": "store",
        "backtest": "store",
        "doctor": "doctor",
    },
    "Data": {
        "encode": "data",
        "stream": "spark",
        "simulate": "data",
        "datasets": "data",
        "reproduce": "data",
        "demo": "demo",
    },
}
COMMANDS: Final = tuple(name for commands in PANELS.values() for name in commands)
GC_THRESHOLD_OBJECTS: Final = 300_000  # allocations between two runs of the garbage collector: a few hundred megabytes at most
USAGE: type[Exception] = typer.BadParameter.mro()[2]  # click's base of all errors of usage, whichever click typer comes with


class Commands(PlainGroup):
    """The commands, in the order of their panels."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return [name for name in COMMANDS if name in self.commands]


def app_of(names: Iterable[str], *, completion: bool = False) -> typer.Typer:
    """Return the command line with these commands; only their modules are loaded.

    `completion` adds the options that install it in a shell, and the shell's queries.
    """
    app = typer.Typer(
        name="adjudge",
        cls=Commands,
        help="Turn annotations (task, worker, label) into decisions.",
        no_args_is_help=True,
        add_completion=completion,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback(invoke_without_command=True)(show_version)
    wanted = set(names)
    for panel, commands in PANELS.items():
        for name, module in commands.items():
            if name in wanted:
                add_command(app, name, getattr(import_module(f"adjudge.cli.{module}"), name.replace("-", "_")), panel)
    return app


def main() -> None:
    """Run the command line; bad input ends in one line and exit code 1, bad usage in 2."""
    _repair_streams()
    try:
        with _rare_garbage_collection(), _warnings_as_lines(), _exit_on_sigterm():
            is_one = (chosen := next(iter(sys.argv[1:]), "")) in COMMANDS
            code = app_of([chosen] if is_one else COMMANDS, completion=not is_one)(standalone_mode=False, prog_name="adjudge")
            sys.stdout.flush()  # a write error shows up only now
        if code:
            sys.exit(code)
        return
    except USAGE as error:
        _exit_with_usage(error)
    except AdjudgeError as error:
        message = str(error)
    except MemoryError:
        message = "out of memory: close other programs, or use fewer labels or votes"
    except BrokenPipeError:  # the reader of our output has left
        _drop_stdout()
        sys.exit(1)
    except OSError as error:  # a full disk behind stdout, a folder that cannot be made
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    # After the except clauses, so that the failed command's objects are free: the compiled core reports leaks at exit.
    _print_line(message)
    _drop_stdout()
    sys.exit(1)


def _print_line(message: object) -> None:
    """Print one line to stderr, if that can still be written."""
    with suppress(OSError):
        print(f"adjudge: {make_visible(str(message))}", file=sys.stderr, flush=True)  # noqa: T201


def _exit_with_usage(error: Any) -> NoReturn:
    """Print what is wrong with the arguments, escaped, and exit."""
    error.message = make_visible(str(error.message))
    with suppress(OSError):
        error.show()
    sys.exit(error.exit_code)


@contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    """Collect cyclic garbage rarely, and not at all at exit: imported libraries make many objects that all stay.

    Otherwise a small command spends a third of its time on it.
    """
    atexit.register(gc.freeze)
    before = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.freeze()  # makes the young objects old, unscanned: else the old threshold would start a collection at once
        gc.unfreeze()
        gc.set_threshold(*before)


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print every warning, and everything logged at that level, as a line on stderr."""

    def warn(message: Warning | str, *_: object, **__: object) -> None:
        _print_line(f"warning: {message}")

    log, handler = logging.getLogger("adjudge"), _LogLines()
    log.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = warn
            yield
    finally:
        log.removeHandler(handler)


class _LogLines(logging.Handler):
    """Prints logged warnings, each message once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message, unless it was printed before."""
        message = record.getMessage()
        if message not in self._printed:
            self._printed.add(message)
            _print_line(message)


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Exit as after an error on SIGTERM, so that half-written files are removed."""

    def leave(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # do not interrupt the cleaning up
        sys.exit(128 + signal.SIGTERM)

    try:
        before = signal.signal(signal.SIGTERM, leave)
    except ValueError:  # not the main thread, which handles signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _ClosedOutput(io.RawIOBase):
    """Stands for a standard output that was closed before we started."""

    def writable(self) -> bool:
        """Return True: the error comes from `write`."""
        return True

    def write(self, data: object) -> NoReturn:
        """Raise, in one line."""
        raise AdjudgeError("standard output is closed: write to a file with -o, or leave it open")


class _ClosedText(io.TextIOBase):
    encoding = "utf-8"
    buffer = _ClosedOutput()

    def write(self, text: str) -> int:
        """Raise, unless the text is empty."""
        return self.buffer.write(text) if text else 0


def _repair_streams() -> None:
    """Make writing to stdout and stderr safe, even if they are closed or have a narrow encoding.

    Reserve descriptors of closed streams, so that no file of the user gets one. Escape characters that a terminal's encoding
    lacks.
    """
    for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if stream is None:
            with suppress(OSError):
                _reserve(number)
    if sys.stdout is None:
        sys.stdout = _ClosedText()
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(open(os.devnull, "wb", buffering=0), encoding="utf-8", write_through=True)  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _reserve(number: int) -> None:
    """Open the null device at a standard descriptor that is closed."""
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)


def _drop_stdout() -> None:
    """Drop buffered output, which would fail once more when Python ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
