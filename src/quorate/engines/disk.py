"""The engine for votes that do not fit in memory: passes stream over shards on disk, statistics are summed."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from quorate.engines.base import Report
from quorate.engines.disk_session import DiskStore, Workplace
from quorate.engines.session import LocalSession
from quorate.engines.shard import Rules, cuts, hashes, units_of
from quorate.engines.stream import ShardFiles
from quorate.io.answers import read_gold
from quorate.io.encoded.arrays import writing
from quorate.io.encoded.build import encode_to
from quorate.io.encoded.mapped import EncodedVotes, open_encoded
from quorate.io.encoded.plan import SHARD, Plan, memory_of, votes_in
from quorate.io.files import Wanted
from quorate.io.read import as_votes, encoded_folder, refuse_options
from quorate.io.sources import Source, paths_of
from quorate.kernels import cpu, glad_cpu, glad_reference, reference
from quorate.kernels.core import compiled
from quorate.prior import Others
from quorate.votes import Panel, Votes


@dataclass(frozen=True)
class DiskEngine:
    """Runs a kernel module over shards on disk. What it writes goes to `work`, or to a folder that vanishes with the result."""

    name: str = "disk"
    kernels: ModuleType = reference
    glad_kernels: ModuleType = glad_reference
    threads: int = 1
    memory: str | int | None = None
    work: str | os.PathLike[str] | None = None  # the caller's, to resume from; the caller removes it
    resume: bool = False
    report: Report | None = None
    shard_votes: int = SHARD  # in a shard of a folder that is made here
    batch_votes: int = 1 << 24  # in the shards that are worked on together, where they fit

    def read(self, source: Votes | Source, **options: Any) -> Votes:
        """Returns the votes of any source, encoded on disk unless they are in memory; the options are those of `read`."""
        if isinstance(source, Votes):
            return as_votes(source, **options)
        encoded = encoded_folder(source)
        if encoded is not None:
            duplicates = options.pop("duplicates", "all")
            refuse_options("encode", *options.values(), duplicates=duplicates)
            return open_encoded(encoded)
        keeper, folder = self._folder()
        paths = paths_of(source)
        plan = Plan.of(memory_of(self.memory), None if paths is None else votes_in(paths))
        plan = replace(plan, shard_votes=self.shard_votes)
        columns: Wanted = {role: options.pop(role, None) for role in ("task", "worker", "label")}
        votes = encode_to(
            source,
            folder / "votes",
            columns,
            memory=self.memory,
            resume=self.resume and paths is not None,
            progress=self.report,
            plan=plan,
            temporary=keeper is not None,
            **options,
        )
        return votes.with_fields(keeper=keeper)

    def load(
        self,
        votes: Votes,
        *,
        seed: int,
        ties: str,
        gold: Source | None = None,
        history: Callable[[Panel], Others] | None = None,
    ) -> LocalSession:
        """Return a session over these votes, whose files are read anew in every pass."""
        keeper, folder = self._folder()
        if isinstance(votes, EncodedVotes) and votes.is_stored:
            votes.release()
            files = ShardFiles.of(votes)
        else:
            of_tasks = hashes(self.kernels, votes.tasks, self.threads)
            with writing(folder):
                there = Path(tempfile.mkdtemp(prefix="votes-", dir=folder))
                files = ShardFiles.lay_out(votes, of_tasks, cuts(votes.task_ptr, self.shard_votes), there)
        place = Workplace(
            kernels=self.kernels,
            threads=self.threads,
            folder=folder,
            keeper=keeper,
            resume=self.resume,
            report=self.report,
            glad_kernels=self.glad_kernels,
            batch=(self.batch_votes, memory_of(self.memory) // 4),
            limit=None if self.memory is None else memory_of(self.memory),
        )
        units = partial(units_of, votes, self.kernels, self.threads)
        rules = Rules.of(self.kernels, self.threads, votes.row_label, votes.labels, ties, units)
        given = None if gold is None else read_gold(gold, votes.labels)
        store = DiskStore(place, votes, files, rules, seed=seed, gold=given)
        return LocalSession(store, rules, gold_given=0 if given is None else len(given), history=history)

    def _folder(self) -> tuple[object, Path]:
        """Returns what removes the folder to work in when nobody needs it any more, and the folder."""
        with writing(Path(self.work or tempfile.gettempdir())):
            if self.work is not None:
                Path(self.work).mkdir(exist_ok=True)
                return None, Path(self.work)
            keeper = Vanishing()
            return keeper, keeper.folder


class Vanishing:
    """A folder that is removed when nobody holds this any more, or when the process ends in order."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="quorate-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)


def disk_engine(threads: int) -> DiskEngine:
    """Return the engine for votes on disk, on the compiled kernels where there are any."""
    if compiled() is None:
        return DiskEngine(threads=threads)
    return DiskEngine(kernels=cpu, glad_kernels=glad_cpu, threads=threads)
