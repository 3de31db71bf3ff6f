"""Encode votes of any size into a folder, in bounded memory.

A pass over the input gives codes to workers, labels and rows, and spills votes to partitions by the hash of their task.
Then each partition is sorted and appended to the shards. Tasks are sorted by hash and votes by row, so the folder does
not depend on the order of the input or the number of partitions.
"""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Unpack

from adjudge.data.memory import memory_of
from adjudge.data.options import DEFAULTS, Duplicates
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Votes
from adjudge.errors import InputError, OptionError, AdjudgeError, warn_abstentions
from adjudge.io.encode import check_duplicates
from adjudge.io.files import is_encoded, votes_in
from adjudge.io.folder.arrays import sync
from adjudge.io.folder.job import STATE, Job, Plan, Progress, State, emptied, fingerprint, is_of_source, locked, write_source
from adjudge.io.folder.opened import EncodedVotes, open_encoded
from adjudge.io.read import Shaping, check_read, order_of
from adjudge.io.shapes import Layout, Wanted, layout_of
from adjudge.io.sources import Source, Table, open_table, paths_of
from adjudge.io.understood import Understood
from adjudge.io.write import check_parent, check_replaced

log = logging.getLogger(__name__)
# The remedy where a folder for temporary files is full.
NO_ROOM: Final = "make room there, set TMPDIR to a larger folder, or name a working folder (work=…; on the command line -o)"


def encode(
    source: Source,
    folder: str | os.PathLike[str],
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: Duplicates = DEFAULTS.duplicates,
    memory: str | int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    plan: Plan | None = None,
    **shaping: Unpack[Shaping],
) -> EncodedVotes:
    """Return votes encoded into a folder; they need not fit in memory.

    - `source`: anything that `adj.read` takes.
    - `folder`: where to; it is built aside and renamed. Encoded votes there are replaced, anything else is an error.
    - `task`, `worker`, `label`, `labels`, `duplicates`, `format`, `question`, `predictions`: as for `adj.read`.
    - `memory`: the most to use, as "2GB" or in bytes; by default half of what is free.
    - `resume`: continue where an earlier call with the same files and options was interrupted.
    - `progress`: called with what is being done, the votes done, and about how many there are.
    - `plan`: into how many partitions and shards the votes are cut, for tests; by default what fits into the memory.
    - `shaping`: `wide`, `count`, `weight`, `abstain`, `normalize`, `strict`, `separator` and `header`, as for `adj.read`.

    >>> import tempfile, adjudge as adj
    >>> folder = tempfile.mkdtemp() + "/votes"
    >>> adj.encode([("t1", "ann", "cat"), ("t1", "bob", "dog"), ("t2", "ann", "cat")], folder)
    Votes(3 votes, 2 tasks, 2 workers, 2 labels, 2 rows)
    >>> adj.aggregate(folder, model="mv").labels.sort("task")["task"].to_list()
    ['t1', 't2']
    """
    return encode_to(
        source,
        Path(folder),
        {"task": task, "worker": worker, "label": label},
        labels=labels,
        duplicates=duplicates,
        memory=memory,
        resume=resume,
        progress=progress,
        plan=plan,
        **shaping,
    )


def encode_to(
    source: Source,
    target: Path,
    columns: Wanted,
    *,
    labels: Iterable[object] | None = None,
    duplicates: str = "all",
    memory: str | int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    plan: Plan | None = None,
    temporary: bool = False,
    strict: bool = False,
    **shaping: Any,
) -> EncodedVotes:
    """Return votes encoded into a folder, as by `encode`; a `temporary` one that fails is removed."""
    check_duplicates(duplicates)
    given = None if labels is None else Vocabulary.of(labels, "label")
    layout = layout_of(**shaping, labels=None if given is None else given.ids())
    limit, paths = memory_of(memory), paths_of(source)
    if paths is None and resume:
        raise OptionError("resume needs files, and these votes are not files: encode them again")
    options: dict[str, Any] = {**columns, "labels": None if given is None else given.ids(), "duplicates": duplicates}
    options |= {} if layout.is_plain else {"layout": {**asdict(layout), "abstain": sorted(layout.abstain)}}
    identity = {} if paths is None else fingerprint(paths, options)
    aside = target.parent / f".{target.name}.partial"
    check_parent(target)
    check_replaced(target, source)
    if target.exists() and not is_encoded(target) and not (target.is_dir() and not any(target.iterdir())):
        raise InputError(f"{target} exists and holds no encoded votes: name a new folder")
    if resume and is_encoded(target) and not aside.exists() and is_of_source(target, identity):
        shutil.rmtree(_old(target), ignore_errors=True)
        return open_encoded(target)
    table, declared = _opened(source, columns, layout, given)
    if table.file is None:  # it is read as a whole
        paths, resume = None, False
    with locked(aside):
        if resume and aside.joinpath(STATE).exists() and not is_of_source(aside, identity):
            raise InputError(f"{aside} was started with other files or options: start again without resume")
        _restore_old(target)
        state = State.load(aside) if resume else None
        resumed, kept = state is not None, paths is not None and not temporary
        if state is None:
            emptied(aside)
            write_source(aside, identity)
            plan = plan or Plan.of(limit, None if paths is None else votes_in(paths))
            state = State(plan.bits, plan.shard_votes)
        try:
            if not is_encoded(aside):  # the manifest is written last
                job = Job(
                    aside,
                    state,
                    plan or Plan.of(limit, None),
                    declared,
                    duplicates,
                    table.is_text,
                    progress,
                    _is_weighted(source, layout),
                )
                job.read(table, paths)
                job.build()
            shutil.rmtree(aside / "spill", ignore_errors=True)
            if resumed:
                open_encoded(aside)  # check what an earlier run has written before it replaces anything
            understood = _understood(aside, table, state, source, declared=declared is not None, strict=strict)
        except OSError as error:
            _forget(aside, keep=kept)
            left = f"; finished work is kept in {aside}: continue with resume" if kept else f"; {NO_ROOM}" if temporary else ""
            raise AdjudgeError(f"cannot write {target}: {error.strerror or error}{left}") from error
        except BaseException as error:
            _forget(aside, keep=kept and not isinstance(error, AdjudgeError))
            raise
        _replace(aside, target)
    # Those that are named are expected.
    warn_abstentions(0 if layout.abstain else state.missing, state.rows, weighted=_is_weighted(source, layout))
    return open_encoded(target, check=False).with_understood(understood)


def _opened(source: Source, columns: Wanted, layout: Layout, labels: Vocabulary | None) -> tuple[Table, Vocabulary | None]:
    """Return a source opened, and its labels in their order, where they are declared or their column's type says it."""
    table = open_table(source, columns, layout)
    if table.gold is not None:
        log.warning("%d labels that the export itself gives are not encoded: give them as gold", len(table.gold))
    order = order_of(table, None if labels is None else labels.ids(), layout)
    return table, labels if labels is not None or order is None else Vocabulary.of(order, "label")


def _is_weighted(source: Source, layout: Layout) -> bool:
    """Return whether votes have weights: in a column that the caller names, or of their own."""
    return layout.weight is not None or (isinstance(source, Votes) and source.row_weight is not None)


def _understood(folder: Path, table: Table, state: State, source: Source, *, declared: bool, strict: bool) -> Understood:
    """Return what was understood of votes that are in a folder; warn of what looks wrong, or raise where the caller is strict."""
    votes = open_encoded(folder, check=False)
    understood = table.reading.understood(votes=len(votes), abstentions=state.missing, repeated=state.repeated)
    check_read(votes, source, understood, table.reading, declared=declared, strict=strict)
    return understood


def _replace(aside: Path, target: Path) -> None:
    """Move a finished folder to its target atomically: a reader finds the old votes or the new ones."""
    if target.exists():
        _sync(aside)  # before the old votes go
        with locked(target):  # so that no process works in the old votes
            if not _exchange(aside, target):
                target.rename(_old(target))
                aside.rename(target)
            _sync(target.parent)
            for path in (aside, _old(target)):
                shutil.rmtree(path, ignore_errors=True)
    else:
        aside.rename(target)
    (target / STATE).unlink(missing_ok=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders atomically, and return whether the file system could do that."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # another system than Linux
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), ctypes.c_uint(exchange)) == 0)


def _restore_old(target: Path) -> None:
    """Restore the old votes after a process died between two renames; otherwise remove them."""
    if not target.exists() and is_encoded(_old(target)):
        _old(target).rename(target)
    shutil.rmtree(_old(target), ignore_errors=True)


def _old(target: Path) -> Path:
    return target.parent / f".{target.name}.old"


def _sync(folder: Path) -> None:
    """Wait until the arrays of a folder, its manifest and all names in it are on disk."""
    for path in [*folder.glob("*.npy"), *folder.glob("*.json"), folder]:
        sync(path)


def _forget(aside: Path, *, keep: bool) -> None:
    if not keep:
        shutil.rmtree(aside, ignore_errors=True)
