"""Where a command works: the engine, what shows its progress, and the folder that a run on disk leaves when broken off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from quorate.em import Progress
    from quorate.engines.base import Engine


@contextmanager
def at_work(
    place: Engine, output: Path | None, *, resume: bool, model: str, quiet: bool
) -> Iterator[tuple[Engine, Progress | None]]:
    """Yields the engine, and what to call after every iteration.

    An engine on disk works in a folder beside the output. The folder is removed in the end, and left to resume from
    when the run is broken off.
    """
    from quorate.engines.disk import DiskEngine
    from quorate.errors import InputError, OptionError

    if not isinstance(place, DiskEngine):
        if resume:
            raise OptionError(f"--resume is for --engine disk: engine {place.name} holds everything in memory")
        with _iterations(model, quiet) as progress:
            yield place, progress
        return
    if resume and output is None:
        raise OptionError("--resume goes on with a run that writes to a file: give -o, too")
    import shutil
    from dataclasses import replace

    from quorate.cli import console

    work = None if output is None else output.parent / f".{output.name}.work"
    if work is not None and work.exists() and not resume:
        shutil.rmtree(work)
    try:
        with console.passes(console.talk(quiet)) as report:
            yield replace(place, work=work, resume=resume, report=report), None
    except (InputError, OptionError):
        if work is not None and not resume:
            shutil.rmtree(work, ignore_errors=True)
        raise
    if work is not None:
        shutil.rmtree(work)


def _iterations(model: str, quiet: bool) -> AbstractContextManager[Progress | None]:
    """Returns what shows the iterations of a fit; a quiet run need not even load the library for it."""
    if quiet:
        return nullcontext()
    from quorate.cli import console

    return console.progress(console.talk(), model)
