"""Encode votes of any size into a folder, in bounded memory; and open it as `Votes` whose arrays are read from disk on access.

A pass over the input gives codes to workers, labels and rows, and spills votes to partitions by the hash of their task.
Then each partition is sorted and appended to the shards. Tasks are sorted by hash and votes by row, so the folder does
not depend on the order of the input or the number of partitions.

A folder is opened once, and its files stay open. Open votes do not change when other votes are encoded into the folder.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np
from numpy.typing import NDArray

from adjudge.data.memory import free_memory, parse_memory
from adjudge.data.options import ReadOptions
from adjudge.data.vocabulary import Id, Kind, Vocabulary, text_of
from adjudge.data.votes import NOT_COUNTED, Notes, Understood, Votes
from adjudge.errors import AdjudgeError, InputError, OptionError, refuse_windows, warn_abstentions
from adjudge.io.encode import hash_ids
from adjudge.io.files import is_encoded, votes_in
from adjudge.io.folder import job
from adjudge.io.folder.arrays import Span, StoredArray
from adjudge.io.folder.manifest import Manifest, check_content
from adjudge.io.read import check_read
from adjudge.io.reading import PLAIN_READING, Reading
from adjudge.io.sources import Opened, Source, open_table
from adjudge.io.write import check_parent, check_replaced

LOOKUP_CHUNK_HASHES: Final = 1 << 16  # hashes read at once to find an id
MAX_OPEN_ATTEMPTS: Final = 100  # at opening a folder that other processes replace
MEMORY_FACTOR: Final = 8  # votes are held in memory if so many times their size is free
STORED: Any = object()  # stands for an array that is read on access


class StoredVocabulary(Vocabulary):
    """Ids in files, read on access: all into memory, or a range."""

    def __init__(self, kind: Kind, values: StoredArray, offsets: StoredArray | None) -> None:
        self.kind = kind
        self._values = values
        self._offsets = offsets
        self._is_valid = self._is_distinct = True  # checked when the folder was opened

    def __len__(self) -> int:
        return len(self._values) if self._offsets is None else len(self._offsets) - 1

    def __getitem__(self, code: int) -> Id:
        n = len(self)
        if not -n <= code < n:
            raise IndexError(code)
        return self.part(slice(code % n, code % n + 1)).ids()[0]

    def __getattr__(self, name: str) -> Any:
        if name == "values":
            return self._values.all()
        if name == "offsets":
            return np.zeros(0, np.int64) if self._offsets is None else self._offsets.all()
        raise AttributeError(name)

    def take(self, codes: NDArray[np.integer]) -> Vocabulary:
        """Return the vocabulary of the ids with these codes, in this order; a range of them is read from its file."""
        if len(codes) and 0 <= codes[0] <= codes[-1] < len(self) and (np.diff(codes) == 1).all():
            return self.part(slice(int(codes[0]), int(codes[-1]) + 1))
        return super().take(codes)

    def release(self) -> None:
        """Free the memory of ids that can be read again."""
        for file in (self._values, self._offsets):
            if file is not None:
                file.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (self.kind, self.values, self.offsets)

    def part(self, cut: slice) -> Vocabulary:
        """Return the ids of a range of codes, read from their files."""
        if self._offsets is None:
            return Vocabulary(self.kind, self._values[cut])
        offsets = self._offsets[cut.start : cut.stop + 1]
        return Vocabulary(self.kind, self._values[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0])


class HashedVocabulary(StoredVocabulary):
    """Ids in the order of their hashes, looked up by hash without a dictionary."""

    is_hashed = True

    def __init__(self, kind: Kind, values: StoredArray, offsets: StoredArray | None, hashes: StoredArray) -> None:
        super().__init__(kind, values, offsets)
        self._hashes = hashes  # [n] ascending

    def codes(self, ids: Iterable[object]) -> NDArray[np.int64]:
        """Return the code of each id, compared by text; -1 if it is unknown."""
        texts = [text_of(i) for i in ids]
        wanted = hash_ids(Vocabulary.of_texts(texts))
        found = np.full(len(texts), -1, np.int64)
        order = np.argsort(wanted)
        ascending, begins = wanted[order], self._first_hashes
        # A hash is in the last chunk that begins before it, or in a chunk that begins with it.
        first, behind = np.searchsorted(begins, ascending, "left") - 1, np.searchsorted(begins, ascending, "right")
        for chunk in range(len(begins)):
            here = slice(int(np.searchsorted(behind, chunk, "right")), int(np.searchsorted(first, chunk, "right")))
            if here.start >= here.stop:
                continue
            codes = slice(chunk * LOOKUP_CHUNK_HASHES, min((chunk + 1) * LOOKUP_CHUNK_HASHES, len(self)))
            hashes, some = self._hashes[codes], self.part(codes)
            low, high = (np.searchsorted(hashes, ascending[here], side).tolist() for side in ("left", "right"))
            for at, a, b in zip(order[here].tolist(), low, high, strict=True):
                same = [code for code in range(a, b) if text_of(some[code]) == texts[at]]
                found[at] = codes.start + same[0] if same else found[at]
        return found

    @cached_property
    def _first_hashes(self) -> NDArray[np.uint64]:
        """The first hash of every chunk."""
        firsts = [self._hashes[at : at + 1] for at in range(0, len(self._hashes), LOOKUP_CHUNK_HASHES)]
        return np.concatenate([np.zeros(0, np.uint64), *firsts])


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class EncodedVotes(Votes):
    """Votes in a folder that `encode` made, tasks in the order of their hashes.

    Access to `task_ptr`, `row` or the ids of all tasks reads them into memory; `parts` reads the votes shard by shard.
    A pickled copy opens the folder again, which must hold the same votes.
    """

    task_ptr: NDArray[np.int64] = field(default_factory=lambda: STORED)
    row: NDArray[np.uint32] = field(default_factory=lambda: STORED)
    folder: Path
    files: Mapping[str, StoredArray]
    shards: tuple[Span, ...]
    row_votes: NDArray[np.int64]  # [rows]
    identity: str  # the manifest's checksum
    keeper: object = None  # removes a temporary folder

    def __post_init__(self) -> None:
        if self.__dict__["task_ptr"] is STORED and self.__dict__["row"] is STORED:
            del self.__dict__["task_ptr"], self.__dict__["row"]  # see __getattr__; opening the folder has checked them
            self._require_ids()
        else:
            super().__post_init__()

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name in ("task_ptr", "row"):
                return self.files[name].all()
            raise AttributeError(name)

    def __len__(self) -> int:
        return len(self.__dict__.get("row", self.files["row"]))

    @property
    def n_tasks(self) -> int:
        """The number of tasks that have votes."""
        return len(self.__dict__.get("task_ptr", self.files["task_ptr"])) - 1

    @property
    def is_stored(self) -> bool:
        """Whether these are the votes of the folder; a copy with other arrays holds its own."""
        return not self.__dict__.keys() & {"task_ptr", "row"}

    @property
    def task_hash(self) -> NDArray[np.uint64]:
        """The hash of every task's id, [tasks], ascending."""
        return self.files["task_hash"].all()

    def __copy__(self) -> EncodedVotes:
        return self.with_fields()

    def __deepcopy__(self, _: object) -> EncodedVotes:
        return self.with_fields()  # immutable

    def __reduce__(self) -> tuple[Any, ...]:
        changed = {name: self.__dict__[name] for name in ("task_ptr", "row") if name in self.__dict__}
        kept = {name: self.__dict__[name] for name in ("labels", "row_label", "understood")}
        return _reopen, (self.folder, self.identity, changed | kept)

    def release(self) -> None:
        """Free the memory of arrays that can be read again."""
        if isinstance(self.tasks, StoredVocabulary):
            self.tasks.release()
        for file in self.files.values():
            file.release()

    def votes_per_row(self) -> NDArray[np.int64]:
        """Return the number of votes of each row, [rows]."""
        return self.row_votes if self.is_stored else super().votes_per_row()

    def votes_on(self, task: int) -> int:
        """Return how many votes a task has, given by its code; no other task is read."""
        return int(np.diff(self.files["task_ptr"][task : task + 2])[0]) if self.is_stored else super().votes_on(task)

    def votes_in(self, tasks: slice) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Return (where the votes of each task begin, the votes' rows) of a range of tasks; no other task is read."""
        if not self.is_stored:
            return super().votes_in(tasks)
        ptr = self.files["task_ptr"][tasks.start : tasks.stop + 1]
        return ptr - ptr[0], self.files["row"][int(ptr[0]) : int(ptr[-1])]

    def cuts(self) -> Iterator[tuple[slice, slice]]:
        """Yield (tasks, votes) of each shard, as slices."""
        task = vote = 0
        for span in self.shards or (Span(),):  # no votes are one empty shard
            yield slice(task, task + span.tasks), slice(vote, vote + span.votes)
            task, vote = task + span.tasks, vote + span.votes

    def parts(self) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[np.uint32]]]:
        """Yield (some tasks, where the votes of each begin, the votes' rows), in task order; shard by shard."""
        if not self.is_stored:
            yield from super().parts()
            return
        for tasks, votes in self.cuts():
            yield tasks, self.files["task_ptr"][tasks.start : tasks.stop + 1] - votes.start, self.files["row"][votes]

    def task_parts(self) -> Iterator[tuple[slice, Vocabulary, NDArray[np.int64]]]:
        """Yield (some tasks, their ids, how many votes each has), in task order; shard by shard."""
        if not self.is_stored:
            yield from super().task_parts()
            return
        for tasks, _ in self.cuts():
            ids = self.tasks.take(np.arange(tasks.start, tasks.stop))
            yield tasks, ids, np.diff(self.files["task_ptr"][tasks.start : tasks.stop + 1])


def open_encoded(folder: str | os.PathLike[str], *, check: bool = True, hold: bool = False) -> EncodedVotes:
    """Return the votes of a folder that `encode` made; raise if it is damaged.

    `check` reads everything once; without it only the manifest and the sizes of the files are checked. `hold` keeps what
    is checked in memory, if enough is free.
    """
    where = Path(folder)
    manifest, files = _open_files(where)
    if check:
        wanted = [files[name] for name in ("task_ptr", "row", "tasks", "tasks_offsets") if name in files]
        if hold and sum(len(file) * file.dtype.itemsize for file in wanted) <= free_memory() // MEMORY_FACTOR:
            for file in wanted:
                file.hold()
        check_content(manifest, files, os.cpu_count() or 1)
    kinds = manifest.kinds

    def ids(name: str, kind: Kind) -> Vocabulary:
        try:
            return Vocabulary(kind, files[name].all(), files[f"{name}_offsets"].all() if kind == "string" else None)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None

    try:
        return EncodedVotes(
            worker_ptr=files["worker_ptr"].all(),
            row_label=files["row_label"].all(),
            row_weight=files["row_weight"].all() if "row_weight" in files else None,
            tasks=HashedVocabulary(kinds["task"], files["tasks"], files.get("tasks_offsets"), files["task_hash"]),
            workers=ids("workers", kinds["worker"]),
            labels=ids("labels", kinds["label"]),
            unvoted=StoredVocabulary(kinds["task"], files["unvoted"], files.get("unvoted_offsets")),
            abstentions=manifest.abstentions,
            abstained=files["abstained"].all() if "abstained" in files else None,
            duplicates=manifest.duplicates,
            folder=where,
            files={name: files[name] for name in ("task_ptr", "row", "task_hash")},
            shards=manifest.shards,
            row_votes=files["row_votes"].all(),
            identity=manifest.identity,
            understood=Understood("encoded votes", votes=manifest.votes, abstentions=manifest.abstentions, repeated=NOT_COUNTED),
        )
    except InputError as error:
        raise InputError(f"{where} is not valid: {error}; encode the votes again") from error


def _open_files(where: Path) -> tuple[Manifest, dict[str, StoredArray]]:
    """Return the manifest and the open files of a folder, which belong together even while other processes replace it."""
    for _ in range(MAX_OPEN_ATTEMPTS):
        with _directory(where) as handle:
            try:
                return _files_of(where, handle)
            except InputError:
                if not is_encoded(where) or os.path.samestat(os.fstat(handle), where.stat()):
                    raise
    raise InputError(f"{where} is replaced faster than it can be opened: open it again")


def _files_of(where: Path, handle: int) -> tuple[Manifest, dict[str, StoredArray]]:
    manifest, files = Manifest.read(where, handle), {}
    for name, entry in manifest.files.items():
        try:
            files[name] = StoredArray(where / f"{name}.npy", entry["dtype"], entry["length"], folder=handle)
            files[name].check_size()
        except InputError as error:
            raise InputError(f"{error}; encode the votes again") from error
    return manifest, files


@contextmanager
def _directory(folder: Path) -> Iterator[int]:
    refuse_windows("a folder of encoded votes")
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InputError(f"{folder} holds no encoded votes ({error.strerror}): make them with encode") from error
    try:
        yield handle
    finally:
        os.close(handle)


def _reopen(folder: Path, identity: str, fields: Mapping[str, Any]) -> EncodedVotes:
    """Return votes that were pickled; raise if the folder holds others by now."""
    votes = open_encoded(folder)
    if votes.identity != identity:
        raise InputError(f"{folder} was encoded again after these votes were opened: open it again")
    return votes.with_fields(**fields)


log = logging.getLogger(__name__)
# The remedy where a folder for temporary files is full.
NO_ROOM: Final = "; make room there, set TMPDIR to a larger folder, or name a working folder (work=…; on the command line -o)"


def encode(
    source: Source,
    folder: str | os.PathLike[str],
    *,
    memory: str | int | None = None,
    resume: bool = False,
    progress: job.Progress | None = None,
    plan: job.EncodingPlan | None = None,
    **reading: Unpack[ReadOptions],
) -> EncodedVotes:
    """Encode votes into a folder; they need not fit in memory.

    Parameters
    ----------
    source : source
        Anything that `adj.read` takes.
    folder : str or path
        The folder, which is written under another name and then renamed. Existing encoded votes are replaced; anything else is an
        error.
    memory : str or int, optional
        Maximum memory, as "2GB" or in bytes; by default half of the free memory.
    resume : bool, default False
        Continue where an earlier call with the same files and options was interrupted.
    progress : job.Progress, optional
        Called with the step, the votes done, and their approximate total.
    plan : job.EncodingPlan, optional
        Number of partitions and shards, for tests; by default as memory requires.
    **reading
        The options of `adj.read`.

    Returns
    -------
    EncodedVotes
        Votes encoded into a folder; they need not fit in memory.

    Raises
    ------
    InputError
        If the input cannot be read or understood; the message names the place and the value.
    OptionError
        If an option is unknown or out of range, or does not go with another.

    Examples
    --------
    >>> import tempfile, adjudge as adj
    >>> folder = tempfile.mkdtemp() + "/votes"
    >>> adj.encode([("t1", "ann", "cat"), ("t1", "bob", "dog"), ("t2", "ann", "cat")], folder)
    Votes(3 votes, 2 tasks, 2 workers, 2 labels, 2 rows)
    >>> adj.aggregate(folder, model="mv").labels.sort("task")["task"].to_list()
    ['t1', 't2']

    """
    options = Reading.of(reading)
    limit = parse_memory(memory)
    return encode_to(source, Path(folder), options, memory=limit, resume=resume, progress=progress, plan=plan)


def encode_to(
    source: Source | Opened,
    target: Path,
    reading: Reading = PLAIN_READING,
    *,
    memory: str | int | None = None,
    resume: bool = False,
    progress: job.Progress | None = None,
    plan: job.EncodingPlan | None = None,
    shard_votes: int = job.SHARD,
    temporary: bool = False,
) -> EncodedVotes:
    """Return votes encoded into a folder, as by `encode`.

    A `temporary` folder is the caller's own, and removed if encoding fails.
    """
    opened = Opened.of(source)
    paths, aside = opened.paths, target.parent / f".{target.name}.partial"
    if paths is None and resume:
        raise OptionError("resume needs files, and these votes are not files: encode them again")
    if not temporary:
        _check_target(target, opened)
    table = open_table(opened, None, reading, timed=True)
    votes_estimate = None if paths is None else votes_in(paths)
    plan = plan or job.EncodingPlan.of(parse_memory(memory), votes_estimate, shard_votes)
    identity = {} if paths is None else job.fingerprint(paths, reading)
    if resume and is_encoded(target) and not aside.exists() and job.is_of_source(target, identity):
        shutil.rmtree(job.old_votes(target), ignore_errors=True)
        return open_encoded(target)
    if table.gold is not None:
        log.warning("%d labels that the export itself gives are not encoded: give them as gold", len(table.gold))
    declared = None if table.labels is None else Vocabulary.of(table.labels, "label")
    is_weighted = reading.weight is not None or getattr(opened.source, "row_weight", None) is not None
    if table.file is None:  # it is read as a whole
        paths, resume = None, False
    with job.lock_folder(aside):
        if resume and aside.joinpath(job.STATE).exists() and not job.is_of_source(aside, identity):
            raise InputError(f"{aside} was started with other files or options: start again without resume")
        job.restore_old(target)
        state = job.EncodingState.load(aside) if resume else None
        resumed, kept = state is not None, paths is not None and not temporary
        if state is None:
            job.clear(aside)
            job.write_source(aside, identity)
            state = job.EncodingState(plan.bits, plan.shard_votes)
        try:
            if not is_encoded(aside):  # the manifest is written last
                work = job.EncodingJob(aside, state, plan, declared, reading.duplicates, table.is_text, is_weighted, progress)
                work.read(table, paths)
                work.build()
            shutil.rmtree(aside / "spill", ignore_errors=True)
            votes = open_encoded(aside, check=resumed)  # what an earlier run has written, before it replaces anything
            _note_repeats(table.notes, reading.duplicates, state)
            understood = table.notes.understood(votes=len(votes), abstentions=state.missing, repeated=state.repeated)
            check_read(votes, opened, understood, table.notes, declared=declared is not None, strict=reading.strict)
        except OSError as error:
            _forget(aside, keep=kept)
            left = f"; finished work is kept in {aside}: continue with resume" if kept else NO_ROOM if temporary else ""
            raise AdjudgeError(f"cannot write {target}: {error.strerror or error}{left}") from error
        except BaseException as error:
            _forget(aside, keep=kept and not isinstance(error, AdjudgeError))
            raise
        job.replace_votes(aside, target)
    if not reading.abstain:  # or they are expected
        warn_abstentions(state.missing, state.rows, weighted=is_weighted)
    return open_encoded(target, check=False).with_fields(understood=understood)


def _note_repeats(notes: Notes, duplicates: str, state: job.EncodingState) -> None:
    notes.duplicates, notes.resent, notes.undated = duplicates, state.resent, state.undated
    notes.ordered_by = [state.ordered_by] if state.ordered_by else []


def _check_target(target: Path, opened: Opened) -> None:
    check_parent(target)
    check_replaced(target, opened)
    if target.exists() and not is_encoded(target) and not (target.is_dir() and not any(target.iterdir())):
        raise InputError(f"{target} exists and holds no encoded votes: name a new folder")


def _forget(aside: Path, *, keep: bool) -> None:
    if not keep:
        shutil.rmtree(aside, ignore_errors=True)
