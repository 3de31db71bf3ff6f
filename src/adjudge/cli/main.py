"""`adjudge`: the commands, and what happens when one of them cannot go on."""

from __future__ import annotations

import atexit
import gc
import io
import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final, NoReturn

import typer

from adjudge.cli.command import PlainCommand, PlainGroup, epilog
from adjudge.errors import AdjudgeError, visible

COMMANDS: Final = (
    "aggregate",
    "report",
    "predict",
    "encode",
    "evaluate",
    "agreement",
    "compare",
    "explain",
    "relabel",
    "panel",
    "rates",
    "rank",
    "stream",
    "serve",
    "vote",
    "watch",
    "backup",
    "replay",
    "backtest",
    "doctor",
    "simulate",
    "demo",
    "reproduce",
    "token",
    "datasets",
)
MANY: Final = 300_000  # objects made before garbage is looked for: some hundred megabytes at the very most
USAGE: type[Exception] = typer.BadParameter.mro()[2]  # click's base of all errors of usage, whichever click typer comes with


def app_of(names: Iterable[str], *, completion: bool = False) -> typer.Typer:
    """Return the command line with these commands; only their modules are loaded.

    With `completion` come the options that install it in a shell, and what the shell then asks.
    """
    app = typer.Typer(
        name="adjudge",
        cls=PlainGroup,
        help="Turn votes (which worker gave which task which label) into decisions.",
        no_args_is_help=True,
        add_completion=completion,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback(invoke_without_command=True)(_options)
    for name in names:
        module = import_module(f"adjudge.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            examples = epilog(getattr(module, "EXAMPLES", ()))
            app.command(name, cls=PlainCommand, epilog=examples)(module.command)
    return app


def _options(version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    """Turn votes (which worker gave which task which label) into decisions."""
    if version:
        from adjudge import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; bad input ends in one line and exit code 1, bad usage in 2."""
    _open_streams()
    try:
        with _fewer_collections(), _one_line_each(), _terminated():
            is_one = (chosen := next(iter(sys.argv[1:]), "")) in COMMANDS
            code = app_of([chosen] if is_one else COMMANDS, completion=not is_one)(standalone_mode=False, prog_name="adjudge")
            sys.stdout.flush()  # what cannot be written is known only now
        if code:
            sys.exit(code)
        return
    except USAGE as error:
        _tell_usage(error)
    except AdjudgeError as error:
        message = str(error)
    except MemoryError:
        message = "out of memory: close other programs, or use fewer labels or votes"
    except BrokenPipeError:  # the reader of our output has left: not worth a word
        _drop_stdout()
        sys.exit(1)
    except OSError as error:  # a full disk behind stdout, a folder that cannot be made
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    # Only now, when what the failed command held is free: the compiled core tells of what is left at exit.
    _tell(message)
    _drop_stdout()
    sys.exit(1)


def _tell(message: object) -> None:
    """Print one line to stderr; where even that cannot be written, nothing can be said."""
    with suppress(OSError):
        print(f"adjudge: {visible(str(message))}", file=sys.stderr, flush=True)  # noqa: T201


def _tell_usage(error: Any) -> NoReturn:
    """Print what is wrong with the arguments, which may hold anything, and leave."""
    error.message = visible(str(error.message))
    with suppress(OSError):
        error.show()
    sys.exit(error.exit_code)


@contextmanager
def _fewer_collections() -> Iterator[None]:
    """Look for cyclic garbage seldom, and not at all when the process ends: libraries make many objects that all stay.

    A small command spends a third of its time on that otherwise.
    """
    atexit.register(gc.freeze)
    before = gc.get_threshold()
    gc.set_threshold(MANY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def _one_line_each() -> Iterator[None]:
    """Show every warning, and what the library logs as one, as a line on stderr."""

    def warn(message: Warning | str, *_: object, **__: object) -> None:
        _tell(f"warning: {message}")

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
    """Prints what was logged as a warning; what several steps of a command say is said once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print what was logged, unless it was printed before."""
        message = record.getMessage()
        if message not in self._said:
            self._said.add(message)
            _tell(message)


@contextmanager
def _terminated() -> Iterator[None]:
    """Leave as from an error when the process is told to end, so that what is half written is removed."""

    def leave(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: cleaning up is not to be interrupted
        sys.exit(128 + signal.SIGTERM)

    try:
        before = signal.signal(signal.SIGTERM, leave)
    except ValueError:  # not the main thread: whoever started it takes care of signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _ClosedOutput(io.RawIOBase):
    """Stands for a standard output that was closed before we began: nobody can read what is written."""

    def writable(self) -> bool:
        """Say yes: the error is to come from `write`, in words."""
        return True

    def write(self, data: object) -> NoReturn:
        """Raise, in one line."""
        raise AdjudgeError("standard output is closed: write to a file with -o, or leave it open")


class _ClosedText(io.TextIOBase):
    encoding = "utf-8"
    buffer = _ClosedOutput()

    def write(self, text: str) -> int:
        """Raise, in one line; nothing is no loss."""
        return self.buffer.write(text) if text else 0


def _open_streams() -> None:
    """Make stdout and stderr such that writing to them is safe, whatever the process was given.

    A closed one is no longer the first free descriptor, which a file of the user's could get. Characters that the encoding
    of a terminal does not have are escaped.
    """
    for number, given in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if given is None:
            with suppress(OSError):
                _reserve(number)
    if sys.stdout is None:
        sys.stdout = _ClosedText()
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(open(os.devnull, "wb", buffering=0), encoding="utf-8", write_through=True)  # noqa: PTH123, SIM115
    for given in (sys.stdout, sys.stderr):
        if isinstance(given, io.TextIOWrapper):
            given.reconfigure(errors="backslashreplace")


def _reserve(number: int) -> None:
    """Open nothing at a standard descriptor that is closed."""
    try:
        os.fstat(number)
    except OSError:
        found = os.open(os.devnull, os.O_RDWR)
        if found != number:
            os.dup2(found, number)
            os.close(found)


def _drop_stdout() -> None:
    """Forget what waits to be written to stdout, which would fail once more when Python ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
