"""The engine for votes that do not fit in memory: each pass reads all shards, and writes the labels to a file."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import Others
from adjudge.data.memory import parse_memory
from adjudge.data.options import Place
from adjudge.data.votes import Gold, Votes, WorkerRows
from adjudge.engines import checkpoint
from adjudge.engines.base import Checkpoint, Report
from adjudge.engines.checkpoint import StoredFit
from adjudge.engines.disk_files import LabelFile, ShardFiles, ShardReader, VectorFiles
from adjudge.engines.glad import BYTES_PER_TASK, BYTES_PER_VOTE, MIN_SHARD_BYTES, Glad, GladDiskStore, GladRules
from adjudge.engines.memory import require_on_disk, room_for_shards
from adjudge.engines.session import LocalSession, VoteStore, digest
from adjudge.engines.shard import PassRules, Shard, Tally, cuts, hashes, rules_for
from adjudge.errors import NOT_PICKLED, AdjudgeError, DamagedCheckpoint, InputError, refuse_windows, warn
from adjudge.io.answers import gold_codes, read_gold
from adjudge.io.folder.arrays import ArrayFile, TemporaryFolder, map_array, writing
from adjudge.io.folder.encoded import EncodedVotes, encode_to, open_encoded
from adjudge.io.folder.job import SHARD, lock
from adjudge.io.read import as_votes
from adjudge.io.reading import PLAIN_READING, Reading
from adjudge.io.sources import Opened, Source
from adjudge.kernels import reference
from adjudge.kernels.cpu import fastest, methods_of

Floats = NDArray[np.float64]
T = TypeVar("T")
CALL_VOTES: Final = 1 << 22  # votes of one kernel call: the next are read meanwhile
CALL_ROWS: Final = 1 << 4  # votes per row, at least: a call prepares the lines of all rows
MAX_COPY: Final = 1 << 26  # bytes of counts: smaller ones are copied, so that the next pass does not wait for the checkpoint


@dataclass(frozen=True)
class Workspace:
    """The settings that an engine passes to its sessions."""

    kernels: ModuleType
    threads: int
    folder: Path
    keeper: object  # removes the folder when it is no longer used; None if the folder is the caller's
    resume: bool  # whether a fit resumes from a checkpoint in the folder
    report: Report | None
    shard_votes: int  # in a shard of votes that are in memory
    batch: tuple[int, int]  # votes, and bytes, of the shards of one kernel call
    limit: int | None  # bytes of memory


class DiskStore(VoteStore):
    """Votes on disk, and the current label of every task in a file; every pass writes a new one."""

    keeps_decided: bool = False  # they are written to the outcome alone

    def __init__(self, workspace: Workspace, votes: Votes, seed: int, rules: PassRules, gold: Gold | None) -> None:
        self.votes = votes
        self.gold = None if gold is None else gold_codes(gold, votes.tasks)
        self._given = None if gold is None else (gold.tasks, gold.labels)
        self._workspace = workspace
        self._apart = _files_of(votes, workspace)
        self._files = self._apart.merge_shards(*workspace.batch)
        require_on_disk(votes, self._files.shard_bytes(), workspace.threads, workspace.limit)
        self.rules = rules
        self._seed = seed
        self._reader = ShardReader(self._files, workspace.kernels, seed)
        self._folder: Path | None = None  # of this fit
        self._interrupted: StoredFit | None = None
        self._labels: int | None = None  # number of the file of the current labels; None: every task has label 0
        self._crc32 = 0  # of that file
        self._stored_number: int | None = None  # number of the file of the checkpoint on disk, which must stay
        self._saving: tuple[Future[None], int] | None = None  # the checkpoint being written, and its file of labels
        self._outputs = 0

    def __reduce__(self) -> str:
        raise AdjudgeError(NOT_PICKLED)

    def identify(self, settings: Mapping[str, Any]) -> None:
        """Take the settings that identify this fit; one that can be resumed has a folder named after them."""
        if self._workspace.keeper is not None:
            return
        votes = self.votes
        of_votes = votes.identity if isinstance(votes, EncodedVotes) and votes.is_stored else digest(votes)
        self._folder = self._workspace.folder / f"run-{digest((dict(settings), self._given, of_votes))}"
        with writing(self._folder):
            if not self._workspace.resume:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(exist_ok=True)
        weakref.finalize(self, os.close, lock(self._folder))
        self._load_checkpoint(self._folder)

    def restore(self) -> tuple[Checkpoint, Tally] | None:
        """Return where this fit was interrupted and its counts, and take its labels; None if it was not."""
        earlier = self._restore(of_counts=True)
        if earlier is None or earlier.tally is None:
            return None
        self._labels, self._interrupted = self._stored_number, None
        return earlier.point, earlier.tally

    def checkpoint(self, point: Checkpoint, tally: Tally) -> None:
        """Store a checkpoint and the current labels.

        The next pass may begin before the checkpoint is on the disk: see `_finish_checkpoint`.
        """
        if self._workspace.keeper is not None or self._folder is None or self._labels is None:
            return
        small = tally[0].nbytes <= MAX_COPY
        if small:  # the next pass changes the counts
            tally = tally[0].copy(), tally[1].copy()
            point = replace(point, class_counts=tally[1])
        saving = ThreadPoolExecutor(1)
        stored = StoredFit(point, tally, self._labels, self._crc32)
        path = self._label_file(self._labels).path
        self._saving = saving.submit(checkpoint.save, self._folder, stored, path), self._labels
        saving.shutdown(wait=not small)
        if not small:
            self._finish_checkpoint()

    def _finish_checkpoint(self) -> None:
        """Wait until the last checkpoint is on disk; from now on it is the one to resume from."""
        if self._saving is not None:
            saving, labels = self._saving
            self._saving = None
            with writing(self._own_folder()):
                saving.result()
            self._stored_number = labels

    def _load_checkpoint(self, folder: Path) -> None:
        """Load the checkpoint of an earlier run and check every byte; warn if it is damaged, and do not use it."""
        votes = self.votes
        try:
            earlier = checkpoint.load(folder)
            if earlier is None:
                return
            checkpoint.check_counts(earlier, votes.n_tasks, votes.votes_per_row(), votes.n_labels)
            if earlier.tally is None:  # glad
                path, length = VectorFiles(folder, 0).path(earlier.file), votes.n_workers + votes.n_tasks
                checkpoint.check_file(path, np.float64, length, earlier.crc32)
            else:
                labels = self._label_file(earlier.file)
                checkpoint.check_file(labels.path, labels.dtype, votes.n_tasks, earlier.crc32, votes.n_labels)
        except InputError as error:
            _warn(error)
            return
        self._interrupted, self._stored_number = earlier, earlier.file

    def _restore(self, *, of_counts: bool) -> StoredFit | None:
        """Return the checkpoint of an earlier run; None if there is none, or one of another kind of model."""
        if self._interrupted is not None and (self._interrupted.tally is not None) != of_counts:
            _warn(f"the checkpoint in {self._folder} belongs to another model")
            self._interrupted = self._stored_number = None
        return self._interrupted

    def relabel(self, what: str, act: Callable[[slice, Shard], T]) -> list[T]:
        """Return the results of an act on each shard; the labels that it leaves become the current ones.

        They are written to a third file: the current one may be part of a checkpoint that is being written, another one
        is part of the checkpoint on disk.
        """
        other = next(n for n in range(3) if n not in (self._labels, self._stored_number))
        file_of_labels, results, crc32, resumable = self._label_file(other), [], 0, self._workspace.keeper is None
        with writing(file_of_labels.path):
            file_of_labels.path.unlink(missing_ok=True)
            with file_of_labels.path.open("wb", buffering=0) as file:
                for cut, shard in self._walk(what):
                    results.append(act(cut, shard))
                    written = file_of_labels.append(file, shard.labels)
                    if resumable:  # no checkpoint needs it otherwise
                        crc32 = zlib.crc32(written, crc32)
        self._labels, self._crc32 = other, crc32
        return results

    def scan(self, what: str, act: Callable[[slice, Shard], T]) -> list[T]:
        """Return what an act says of each shard, whose labels stay as they are."""
        return [act(cut, shard) for cut, shard in self._walk(what)]

    def decide(self, what: str, act: Callable[..., T]) -> tuple[list[T], tuple[NDArray[Any], ...]]:
        """Return what an act(tasks, shard, confidence OUT, tie OUT) says of each shard, and labels, confidence, tie of all."""
        results = []

        def decisions() -> Iterator[tuple[NDArray[Any], ...]]:
            for cut, shard in self._walk(what):
                confidence, tie = np.empty(shard.n_tasks), np.empty(shard.n_tasks, np.bool_)
                results.append(act(cut, shard, confidence, tie))
                yield shard.labels, confidence, tie

        return results, self._collect(decisions())

    def figures(self, what: str, act: Callable[[Shard, Floats], None]) -> Iterator[Floats]:
        """Yield the figures that an act writes for each shard, [tasks, K]."""
        for _, shard in self._walk(what):
            out = np.empty((shard.n_tasks, self.votes.n_labels))
            act(shard, out)
            yield out

    def keep(self, pieces: Iterable[Floats]) -> Floats:
        """Return the chunks, [some tasks] each, as one array on disk, [tasks]."""
        with writing(self._own_folder()), self._output("figures", np.float64) as file:
            for numbers in pieces:
                file.append(numbers)
        return map_array(file.path, file.dtype, file.length)

    def glad(self) -> Glad:
        """Return the passes of GLAD over these votes, in smaller shards: they need more memory."""
        workspace, votes, rules = self._workspace, self.votes, self.rules
        left = room_for_shards(votes, workspace.threads, workspace.limit)
        room = min(workspace.batch[1], max(left, MIN_SHARD_BYTES))
        files = replace(self._apart, weight=(BYTES_PER_VOTE, BYTES_PER_TASK)).merge_shards(workspace.batch[0], room)
        files = files.split_shards(room)
        require_on_disk(votes, files.shard_bytes(), workspace.threads, workspace.limit)
        stored = self._restore(of_counts=False)
        found = None if stored is None or self._stored_number is None else (stored.point, self._stored_number)
        self._stored_number = None
        self._reader.release_buffers()
        store = GladDiskStore(
            ShardReader(files, workspace.kernels, self._seed),
            self._own_folder(),
            collect=self._collect,
            report=workspace.report,
            n_labels=votes.n_labels,
            n_votes=files.n_votes,
            length=votes.n_workers + votes.n_tasks,
            resumable=workspace.keeper is None,
            found=found,
        )
        of_glad = GladRules(methods_of(workspace.kernels), workspace.threads, rules.label_hash, rules.by_prior, self.gold)
        return Glad(votes, of_glad, store)

    def _walk(self, what: str) -> Iterator[tuple[slice, Shard]]:
        """Yield the shards with their tasks; each is valid until the next but one is read."""
        done, whole, report = 0, self._files.n_votes, self._workspace.report
        for loaded in self._reader.shards(None if self._labels is None else self._label_file(self._labels)):
            given = None if self.gold is None else self.gold[loaded.tasks]
            yield loaded.tasks, Shard(self.rules, *loaded[1:4], labels=loaded.labels, gold=given)
            self._finish_checkpoint()
            done += len(loaded.row)
            if report is not None:
                report(what, done, whole)

    def _collect(self, decisions: Iterator[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
        """Return (labels, confidence, tie) of all tasks, on disk, from those of some tasks at a time."""
        kinds = {"labels": np.int32, "confidence": np.float64, "tie": np.bool_}
        self._finish_checkpoint()
        with writing(self._own_folder()), ExitStack() as opened:
            files = [opened.enter_context(self._output(name, kind)) for name, kind in kinds.items()]
            for arrays in decisions:
                for file, items in zip(files, arrays, strict=True):
                    file.append(items)
        return tuple(map_array(file.path, file.dtype, file.length) for file in files)

    def _own_folder(self) -> Path:
        if self._folder is None:
            with writing(self._workspace.folder):
                self._folder = Path(tempfile.mkdtemp(prefix="run-", dir=self._workspace.folder))
        return self._folder

    def _label_file(self, number: int) -> LabelFile:
        return LabelFile(self._own_folder() / f"labels-{number}", self.votes.n_labels)

    def _output(self, name: str, dtype: Any) -> ArrayFile:
        self._outputs += 1
        return ArrayFile(self._own_folder() / f"{name}-{self._outputs}.npy", dtype)


def _files_of(votes: Votes, workspace: Workspace) -> ShardFiles:
    """Return the files of votes, which are written if the votes are in memory."""
    if isinstance(votes, EncodedVotes) and votes.is_stored:
        votes.release()
        return ShardFiles.of(votes)
    of_tasks = hashes(workspace.kernels, votes.tasks, workspace.threads)
    with writing(workspace.folder):
        folder = Path(tempfile.mkdtemp(prefix="votes-", dir=workspace.folder))
        return ShardFiles.lay_out(votes, of_tasks, cuts(votes.task_ptr, workspace.shard_votes), folder)


def _warn(what: object) -> None:
    warn(f"{what}; this fit starts again from its first pass", DamagedCheckpoint)


@dataclass(frozen=True)
class DiskEngine:
    """Runs a kernel module over shards on disk. It writes to `work`, or to a folder that is removed with the result."""

    place: ClassVar[Place] = "process"

    name: str = "disk"
    kernels: ModuleType = reference
    threads: int = 1
    memory: str | int | None = None
    work: str | os.PathLike[str] | None = None  # the caller's, to resume from; the caller removes it
    resume: bool = False
    report: Report | None = None
    shard_votes: int = SHARD  # per shard, if this engine encodes
    batch_votes: int = 1 << 24  # at most, per kernel call, if they fit in memory

    def read(self, source: Votes | Source | Opened, reading: Reading = PLAIN_READING) -> Votes:
        """Return the votes of any source, encoded on disk unless they are in memory."""
        opened = Opened.of(source)
        if opened.folder is not None:
            reading.refuse("encode")
            return open_encoded(opened.folder)
        if isinstance(opened.source, Votes) or opened.is_export(reading):
            return as_votes(opened, reading)  # an export is read as a whole, and laid out on disk after that
        keeper, folder = self._folder()
        votes = encode_to(
            opened,
            folder / "votes",
            reading,
            memory=self.memory,
            resume=self.resume and opened.paths is not None,
            progress=self.report,
            shard_votes=self.shard_votes,
            temporary=keeper is not None,
        )
        return votes.with_fields(keeper=keeper)

    def load(
        self,
        votes: Votes,
        *,
        seed: int,
        ties: str,
        gold: Source | None = None,
        history: Callable[[WorkerRows], Others] | None = None,
    ) -> LocalSession:
        """Return a session over these votes, which reads their files in every pass."""
        keeper, folder = self._folder()
        workspace = Workspace(
            kernels=self.kernels,
            threads=self.threads,
            folder=folder,
            keeper=keeper,
            resume=self.resume,
            report=self.report,
            shard_votes=self.shard_votes,
            batch=(min(self.batch_votes, max(CALL_VOTES, CALL_ROWS * votes.n_rows)), parse_memory(self.memory) // 4),
            limit=None if self.memory is None else parse_memory(self.memory),
        )
        rules = rules_for(votes, self.kernels, self.threads, ties)
        given = None if gold is None else read_gold(gold, votes.labels)
        store = DiskStore(workspace, votes, seed, rules, given)
        return LocalSession(store, rules, gold=given, history=history)

    def _folder(self) -> tuple[object, Path]:
        """Return the owner of the work folder, which removes it when no longer used, and the folder."""
        with writing(Path(self.work or tempfile.gettempdir())):
            if self.work is not None:
                Path(self.work).mkdir(exist_ok=True)
                return None, Path(self.work)
            keeper = TemporaryFolder()
            return keeper, keeper.folder


def disk_engine(threads: int, **settings: Any) -> DiskEngine:
    """Return the engine for votes on disk, with the compiled kernels if they were built; `settings` are those of `Disk`."""
    refuse_windows("engine='disk'")
    return DiskEngine(kernels=fastest(), threads=threads, **settings)
