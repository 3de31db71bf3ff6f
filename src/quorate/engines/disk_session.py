"""A fit over votes on disk: each pass reads all shards, and leaves the labels in a file."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from quorate.engines import checkpoint
from quorate.engines.base import Point, Report
from quorate.engines.glad import Glad, Place
from quorate.engines.glad_disk import LEAST_ROOM, PER_TASK, PER_VOTE, DiskShelf, Lent
from quorate.engines.identity import digest
from quorate.engines.local import total
from quorate.engines.memory import require_on_disk, room_for_shards
from quorate.engines.shard import Rules, Shard, Tally, Units, units_of
from quorate.engines.stream import LabelFile, ShardFiles, Stream
from quorate.engines.vector_files import VectorFiles
from quorate.errors import DamagedCheckpoint, InputError
from quorate.fit import Outcome
from quorate.gold import Gold
from quorate.io.answers import gold_codes
from quorate.io.encoded.arrays import ArrayFile, mapped, writing
from quorate.io.encoded.mapped import EncodedVotes
from quorate.io.encoded.state import lock
from quorate.kernels.reference import Sums
from quorate.params import Parameters
from quorate.statistics import Statistics
from quorate.votes import Votes, piece

Floats = NDArray[np.float64]
MAX_COPY: Final = 1 << 26  # bytes of counts that are copied, so that the next pass need not wait for a checkpoint


@dataclass(frozen=True)
class Workplace:
    """What an engine lends to its sessions."""

    kernels: ModuleType
    threads: int
    folder: Path
    keeper: object  # what removes the folder when nobody needs it any more; None where it is the caller's
    resume: bool  # whether a fit goes on from what an earlier one has left there
    report: Report | None
    glad_kernels: ModuleType
    batch: tuple[int, int]  # votes, and bytes, of shards that are worked on together
    limit: int | None  # bytes of memory


class DiskSession:
    """Votes on disk, and the current label of every task in a file that is written anew by every pass."""

    def __init__(
        self,
        place: Workplace,
        votes: Votes,
        files: ShardFiles,
        *,
        seed: int,
        ties: str,
        gold: Gold | None,
    ) -> None:
        self._place = place
        self._votes = votes
        self._apart = files
        self._files = files.merged(*place.batch)
        require_on_disk(votes, self._files.shard_bytes(), place.threads, place.limit)
        self._rules = Rules.of(place.kernels, place.threads, votes.row_label, votes.labels, ties, self._units)
        self._seed = seed
        self._stream = Stream(self._files, place.kernels, seed)
        self._gold = None if gold is None else gold_codes(gold, votes.tasks)
        self._folder: Path | None = None  # of this fit
        self._point: Point | None = None  # where it was broken off
        self._labels: int | None = None  # which file has the current labels; None: every task has label 0
        self._crc32 = 0  # of that file
        self._noted: int | None = None  # which one belongs to the point noted last, and must stay
        self._saving: tuple[Future[None], int] | None = None  # the checkpoint being written, and its file of labels
        self._tally: Tally | None = None  # the counts of the current labels, while these are hard
        self._passes = 0
        self._outputs = 0

    def identify(self, settings: Mapping[str, Any]) -> None:
        """Takes what tells this fit from others; one that can be resumed has a folder of that name."""
        if self._place.keeper is not None:
            return
        votes = self._votes
        of_votes = votes.identity if isinstance(votes, EncodedVotes) and votes.is_stored else digest(votes)
        self._folder = self._place.folder / f"run-{digest((dict(settings), of_votes))}"
        with writing(self._folder):
            if not self._place.resume:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(exist_ok=True)
        weakref.finalize(self, os.close, lock(self._folder))
        self._restore(self._folder)

    def resume(self) -> Point | None:
        """Returns where this very fit was broken off, and takes up the labels it had then; None where it was not."""
        point = self._restored(of_counts=True)
        if point is not None:
            self._labels, self._passes, self._point = self._noted, len(point.trace), None
            is_hard = np.issubdtype(point.statistics.counts.dtype, np.integer)
            self._tally = (point.statistics.counts, point.statistics.class_counts) if is_hard else None
        return point

    def note(self, point: Point) -> None:
        """Keeps a point to go on from, and the labels as they are now.

        The next pass may begin before the checkpoint is on the disk: see `_saved`.
        """
        if self._place.keeper is not None or self._folder is None or self._labels is None:
            return
        counted: Statistics = point.statistics
        small = counted.counts.nbytes <= MAX_COPY
        if small:  # the next pass changes the counts
            point = replace(
                point, statistics=replace(counted, counts=counted.counts.copy(), class_counts=counted.class_counts.copy())
            )
        saving = ThreadPoolExecutor(1)
        path = self._label_file(self._labels).path
        self._saving = saving.submit(checkpoint.save, self._folder, point, path, self._labels, self._crc32), self._labels
        saving.shutdown(wait=not small)
        if not small:
            self._saved()

    def _saved(self) -> None:
        """Wait until the last checkpoint is on the disk; from now on it is the one to resume from."""
        if self._saving is not None:
            saving, labels = self._saving
            self._saving = None
            with writing(self._own_folder()):
                saving.result()
            self._noted = labels

    def _restore(self, folder: Path) -> None:
        """Take the checkpoint of an earlier run, every byte of it checked; one that is damaged is not used, with a warning."""
        votes = self._votes
        try:
            found = checkpoint.load(folder)
            if found is None:
                return
            checkpoint.check_statistics(found.point, votes.n_tasks, votes.votes_per_row(), votes.n_labels)
            if found.point.statistics is None:  # glad
                path, length = VectorFiles(folder, 0).path(found.file), votes.n_workers + votes.n_tasks
                checkpoint.check_file(path, np.float64, length, found.crc32)
            else:
                labels = self._label_file(found.file)
                checkpoint.check_file(labels.path, labels.dtype, votes.n_tasks, found.crc32, votes.n_labels)
        except InputError as error:
            _warn(error)
            return
        self._point, self._noted = found.point, found.file

    def _restored(self, *, of_counts: bool) -> Point | None:
        """Return the point of an earlier run, unless it is of another kind of model; None where there is none."""
        if self._point is not None and (self._point.statistics is not None) != of_counts:
            _warn(f"the checkpoint in {self._folder} is of another model")
            self._point = self._noted = None
        return self._point

    def start(self, *, hard: bool) -> Statistics:
        """Returns the statistics of majority vote: by winner (hard) or by vote shares (soft)."""
        tally, favour = self._rules.empty(hard=hard), self._favour()
        self._relabel("majority vote", lambda _, shard: shard.start(tally, hard=hard, favour=favour))
        self._tally = tally if hard else None
        return Statistics(*self._rules.counted(tally))

    def recount(self, labels: NDArray[np.int32]) -> Statistics:
        """Returns the statistics of these labels, [tasks], and takes them as the current ones."""
        tally = self._rules.empty(hard=True)
        self._relabel("recount", lambda cut, shard: shard.recount(piece(labels, cut), tally))
        self._tally = tally
        return Statistics(*tally)

    def step(self, params: Parameters, *, hard: bool, likelihood: bool = True) -> Statistics:
        """Returns the statistics of one pass: an E-step under `params`, and the recount."""
        delta = hard and self._tally is not None  # then only tasks whose label changes touch the counts
        tally = self._tally if delta and self._tally is not None else self._rules.empty(hard=hard)
        self._tally = None  # a pass that is broken off leaves the counts in between
        self._passes += 1

        def act(_: slice, shard: Shard) -> Sums:
            return shard.step(params, tally, hard=hard, delta=delta, likelihood=likelihood)

        sums = total(self._relabel(f"pass {self._passes} ({'hard' if hard else 'soft'})", act))
        self._tally = tally if hard else None
        classification = self._rules.classification(tally, params) if hard else float("nan")
        return Statistics(*self._rules.counted(tally), sums.log_likelihood, classification, sums.changed, sums.impossible)

    def confusion_table(self, counts: Any, smoothing: float) -> tuple[Floats, Floats]:
        """Returns log pi, [rows, K], and the votes of each worker by true label, [workers, K]."""
        return self._rules.confusion_table(counts, self._votes.worker_ptr, smoothing)

    def finish(self, params: Parameters) -> Outcome:
        """Returns what the E-step under `params` says of every task."""
        tally = self._rules.empty(hard=False)
        sums, arrays = self._decide("last pass", lambda shard, *out: shard.finish(params, tally, *out))
        return self._outcome(arrays, tally, total(sums).log_likelihood)

    def majority(self) -> tuple[Outcome, Statistics]:
        """Returns what majority vote says of every task (a vote is right when it agrees), and its winners' statistics."""
        tally, favour = self._rules.empty(hard=True), self._favour()
        _, arrays = self._decide("majority vote", lambda shard, *out: shard.majority(tally, favour, *out))
        return self._outcome(arrays, tally, float("nan")), Statistics(*tally)

    def weigh(self, params: Parameters) -> tuple[Outcome, Statistics]:
        """Returns what weighted votes say of every task (a vote is right when it agrees), and their winners' statistics."""
        tally = self._rules.empty(hard=True)
        _, arrays = self._decide("last pass", lambda shard, *out: shard.weigh(params, tally, *out))
        return self._outcome(arrays, tally, float("nan")), Statistics(*tally)

    def weight_shares(self, params: Parameters) -> Iterator[Floats]:
        """Yields the share of each task's weights that each label has, [tasks, K], shard by shard."""
        return self._figures("weight shares", lambda shard, out: shard.weight_shares(params, out))

    def posterior(self, params: Parameters) -> Iterator[Floats]:
        """Yields T_qc under `params`, [tasks, K], shard by shard."""
        return self._figures("probabilities", lambda shard, out: shard.posterior(params, out))

    def shares(self) -> Iterator[Floats]:
        """Yields the share of each task's votes that each label has, [tasks, K], shard by shard."""
        favour = self._favour()
        return self._figures("vote shares", lambda shard, out: shard.shares(favour, out))

    def gold(self) -> NDArray[np.bool_] | None:
        """Returns which tasks have their label from gold, [tasks]; None where no gold was given."""
        return None if self._gold is None else self._gold >= 0

    def glad(self) -> Glad:
        """Returns the passes of GLAD over these votes, in shards of their own: they need more room."""
        place, votes, rules = self._place, self._votes, self._rules
        left = room_for_shards(votes, place.threads, place.limit)
        room = min(place.batch[1], max(left, LEAST_ROOM))
        files = replace(self._apart, weight=(PER_VOTE, PER_TASK)).merged(place.batch[0], room)
        files = files.divided(room)
        require_on_disk(votes, files.shard_bytes(), place.threads, place.limit)
        point = self._restored(of_counts=False)
        found = None if point is None or self._noted is None else (point, self._noted)
        self._noted = None
        self._stream.let_go()
        lent = Lent(
            stream=Stream(files, place.kernels, self._seed),
            folder=self._own_folder(),
            collected=self._collected,
            report=place.report,
            n_labels=votes.n_labels,
            n_votes=files.n_votes,
            length=votes.n_workers + votes.n_tasks,
            notes=place.keeper is None,
            found=found,
        )
        of_tasks = Place(place.glad_kernels, place.threads, rules.label_hash, rules.by_prior, self._gold)
        return Glad(votes, of_tasks, DiskShelf(lent))

    def keep(self, pieces: Iterable[Floats]) -> Floats:
        """Returns the pieces, [some tasks] each, as one array on disk, [tasks]."""
        with writing(self._own_folder()), self._output("figures", np.float64) as file:
            for some in pieces:
                file.append(some)
        return mapped(file.path, file.dtype, file.length)

    def _walk(self, what: str) -> Iterator[tuple[slice, Shard]]:
        """Yields the shards with their tasks; each is good until the next but one."""
        done, whole, report = 0, self._files.n_votes, self._place.report
        for loaded in self._stream.shards(None if self._labels is None else self._label_file(self._labels)):
            given = None if self._gold is None else self._gold[loaded.tasks]
            yield loaded.tasks, Shard(self._rules, *loaded[1:4], labels=loaded.labels, gold=given)
            self._saved()
            done += len(loaded.row)
            if report is not None:
                report(what, done, whole)

    def _relabel(self, what: str, act: Callable[[slice, Shard], Any]) -> list[Any]:
        """Returns what an act on each shard says, and takes the labels it leaves as the current ones.

        They go to a file that is neither the current one, of which a checkpoint may just be written, nor that of the
        checkpoint on the disk.
        """
        other = next(n for n in range(3) if n not in (self._labels, self._noted))
        there, said, crc32 = self._label_file(other), [], 0
        with writing(there.path):
            there.path.unlink(missing_ok=True)
            with there.path.open("wb", buffering=0) as file:
                for cut, shard in self._walk(what):
                    said.append(act(cut, shard))
                    crc32 = there.append(file, shard.labels, crc32)
        self._labels, self._crc32 = other, crc32
        return said

    def _decide(self, what: str, act: Callable[..., Any]) -> tuple[list[Any], tuple[NDArray[Any], ...]]:
        """Returns what an act on each shard says, and (labels, confidence, tie) of all tasks, on disk."""
        said = []

        def found() -> Iterator[tuple[NDArray[Any], ...]]:
            for _, shard in self._walk(what):
                confidence, tie = np.empty(shard.n_tasks), np.empty(shard.n_tasks, np.bool_)
                said.append(act(shard, confidence, tie))
                yield shard.labels, confidence, tie

        arrays = self._collected(found())
        self._tally = None
        return said, arrays

    def _collected(self, found: Iterator[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
        """Returns (labels, confidence, tie) of all tasks, on disk, of what is found of some after the other."""
        kinds = {"labels": np.int32, "confidence": np.float64, "tie": np.bool_}
        self._saved()
        with writing(self._own_folder()), ExitStack() as opened:
            files = [opened.enter_context(self._output(name, kind)) for name, kind in kinds.items()]
            for some in found:
                for file, items in zip(files, some, strict=True):
                    file.append(items)
        return tuple(mapped(file.path, file.dtype, file.length) for file in files)

    def _figures(self, what: str, act: Callable[[Shard, Floats], None]) -> Iterator[Floats]:
        """Yields what an act on each shard writes, [tasks, K]."""
        for _, shard in self._walk(what):
            out = np.empty((shard.n_tasks, self._votes.n_labels))
            act(shard, out)
            yield out

    def _outcome(self, arrays: tuple[NDArray[Any], ...], tally: Tally, likelihood: float) -> Outcome:
        counts, _ = self._rules.counted(tally)
        right = counts[np.arange(self._votes.n_rows), self._votes.row_label].astype(np.float64)
        return Outcome(arrays[0], arrays[1], arrays[2], right, likelihood)

    def _favour(self) -> Floats | None:
        """Returns each label's share of all votes, [K], where ties ask for it: the class marginal before any model."""
        if not self._rules.by_prior:
            return None
        weights = self._votes.votes_per_row()
        return np.bincount(self._votes.row_label, weights, minlength=self._votes.n_labels).astype(np.float64)

    def _units(self) -> Units:
        return units_of(self._votes, self._place.kernels, self._place.threads)

    def _own_folder(self) -> Path:
        if self._folder is None:
            with writing(self._place.folder):
                self._folder = Path(tempfile.mkdtemp(prefix="run-", dir=self._place.folder))
        return self._folder

    def _label_file(self, number: int) -> LabelFile:
        return LabelFile(self._own_folder() / f"labels-{number}", self._votes.n_labels)

    def _output(self, name: str, dtype: Any) -> ArrayFile:
        self._outputs += 1
        return ArrayFile(self._own_folder() / f"{name}-{self._outputs}.npy", dtype)


def _warn(what: object) -> None:
    warnings.warn(f"{what}; this fit starts again from its first pass", DamagedCheckpoint, stacklevel=3)
