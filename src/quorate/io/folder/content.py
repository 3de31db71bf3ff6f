"""The content of an encoded folder checked: every byte against its checksum, every number before it is an index.

Numbers are looked at chunk by chunk while these are in the cache, on their way to the checksum.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from quorate.data.bounds import require_below, require_offsets
from quorate.data.vocabulary import Vocabulary
from quorate.errors import InputError
from quorate.io.folder.arrays import StoredArray
from quorate.io.folder.manifest import Manifest
from quorate.io.folder.spill import hash_ids
from quorate.io.folder.writer import Span

CHUNK: Final = 1 << 20  # bytes looked at at once
Files = Mapping[str, StoredArray]
Check = Callable[[], None]


def check_content(manifest: Manifest, files: Files, threads: int) -> None:
    """Raise when a byte differs from what was encoded, or a number lies beyond what it counts; everything is read once."""
    checks: list[Check] = [lambda: _check_leading(files), lambda: _check_panel(manifest, files)]
    checks += [lambda name=name: _check_ids(manifest, files, name) for name in ("workers", "labels")]  # type: ignore[misc]
    checks += list(_shard_checks(manifest, files))
    checks += list(_text_checks(manifest, files))
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(lambda check: check(), checks):
            pass
    for file in files.values():
        file.keep()


class Part:
    """Some items of a file that have a checksum of their own."""

    def __init__(self, file: StoredArray, start: int, stop: int, crc32: int, shard: int | None = None) -> None:
        self.file = file
        self.start = start
        self.stop = stop
        self.shard = shard
        self._crc32 = crc32
        self._found = 0
        self._fault: str | None = None

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield the items, some at a time; each chunk is good until the next one is asked for, at least."""
        size = max(CHUNK // self.file.dtype.itemsize, 1)
        room = None if self.file.is_held else np.empty(min(size, self.stop - self.start), self.file.dtype)
        for at in range(self.start, self.stop, size):
            n = min(size, self.stop - at)
            chunk = self.file.chunk(at, at + n) if room is None else room[:n]
            self.take(chunk, at)
            yield chunk

    def take(self, out: NDArray[Any], at: int) -> None:
        """Read the items that come next to OUT, on their way to the checksum."""
        self.file.read_into(out, at)
        self._found = zlib.crc32(out.view(np.uint8).data if len(out) else b"", self._found)

    def wrong(self, what: str) -> None:
        """Note what is wrong, unless something was before; the checksum decides what is said."""
        self._fault = self._fault or what

    @property
    def is_wrong(self) -> bool:
        """Whether something is wrong with the numbers."""
        return self._fault is not None

    def finish(self) -> None:
        """Raise when the checksum does not match, or something was noted."""
        where = f" in shard {self.shard}" if self.shard is not None else ""
        if self._found != self._crc32:
            raise InputError(f"{self.file.path} is damaged{where} (its checksum does not match): encode the votes again")
        if self._fault is not None:
            raise InputError(f"{self.file.path} is not valid{where}: {self._fault}; encode the votes again")


def _whole(manifest: Manifest, files: Files, name: str) -> NDArray[Any]:
    """Return the items of a file that is not cut into shards, its checksum checked."""
    array = files[name].all()
    part = Part(files[name], 0, len(array), manifest.files[name]["crc32"])
    part._found = zlib.crc32(array.view(np.uint8).data if len(array) else b"")
    part.finish()
    return array


def _check_leading(files: Files) -> None:
    """Check what no checksum covers: every header, and the first of the positions that shards follow."""
    for file in files.values():
        file.check_header()
    for name in files.keys() & {"task_ptr", "tasks_offsets"}:
        first = files[name].chunk(0, 1)
        files[name].read_into(first, 0)
        if first[0]:
            raise InputError(f"{files[name].path} is damaged: it begins with {first[0]}, not 0; encode the votes again")


def _check_panel(manifest: Manifest, files: Files) -> None:
    """Check workers' rows and the labels of these."""
    worker_ptr, row_label, row_votes = (_whole(manifest, files, name) for name in ("worker_ptr", "row_label", "row_votes"))
    labels = "labels_offsets" if manifest.kinds["label"] == "string" else "labels"
    require_offsets(str(files["worker_ptr"].path), worker_ptr, len(row_label))
    if (worker_ptr[1:] == worker_ptr[:-1]).any():
        raise InputError(f"{files['worker_ptr'].path} is not valid: a worker has no rows; encode the votes again")
    require_below(str(files["row_label"].path), row_label, manifest.sizes[labels] - (labels != "labels"))
    rises = np.append(row_label[1:] > row_label[:-1], True) if len(row_label) else np.ones(0, np.bool_)
    rises[worker_ptr[1:] - 1] = True  # the next row is another worker's
    if not rises.all():
        raise InputError(f"{files['row_label'].path} is not valid: the labels of a worker do not rise; encode the votes again")
    require_below(str(files["row_votes"].path), row_votes, manifest.votes + 1)
    if row_votes.sum(dtype=np.float64) != manifest.votes:  # exact below 2^53, and nothing overflows
        raise InputError(
            f"{files['row_votes'].path} is not valid: it does not count {manifest.votes} votes; encode the votes again"
        )


def _check_ids(manifest: Manifest, files: Files, name: str) -> None:
    """Check the ids of workers or labels, which are held in memory: they are distinct."""
    values, path = _whole(manifest, files, name), files[name].path
    kind = manifest.kinds["worker" if name == "workers" else "label"]
    offsets, fault = None, _boolean_fault(kind, values)
    if kind == "string":
        offsets = _whole(manifest, files, f"{name}_offsets")
        require_offsets(str(files[f"{name}_offsets"].path), offsets, len(values))
        fault = _text_fault(values, offsets[1:-1])
    if fault is None:
        ids = Vocabulary(kind, values, offsets)
        hashes = np.sort(hash_ids(ids))
        if (hashes[1:] == hashes[:-1]).any() and len(set(ids.texts())) < len(ids):
            fault = "an id occurs twice"
    if fault is not None:
        raise InputError(f"{path} is not valid: {fault}; encode the votes again")


def _boolean_fault(kind: str, values: NDArray[Any]) -> str | None:
    wrong = kind == "boolean" and len(values) and values.view(np.uint8).max() > 1
    return "a boolean is neither 0 nor 1" if wrong else None


def _text_fault(text: NDArray[np.uint8], begins: NDArray[np.int64]) -> str | None:
    """Return what is wrong with the texts of some ids, where all but the first begin; None where nothing is."""
    if not len(text) or text.max() < 128:  # ASCII
        return None
    try:
        str(text.data, "utf-8")
    except UnicodeDecodeError as error:
        return f"an id is not UTF-8 ({error.reason})"
    return "an id begins within a character" if ((text[begins[begins < len(text)]] & 0xC0) == 0x80).any() else None


def _shard_checks(manifest: Manifest, files: Files) -> Iterator[Check]:
    """Yield the checks of every shard's tasks and votes."""
    rows, task, vote = manifest.sizes["row_label"], 0, 0
    for place, span in enumerate(manifest.shards):
        ends = task + span.tasks, vote + span.votes
        positions = Part(files["task_ptr"], task + 1, ends[0] + 1, span.crc32["task_ptr"], place)
        yield lambda part=positions, begin=vote, end=ends[1]: _check_positions(part, begin, end)  # type: ignore[misc]
        votes = Part(files["row"], vote, ends[1], span.crc32["row"], place)
        yield lambda part=votes: _check_rows(part, rows)  # type: ignore[misc]
        hashes = Part(files["task_hash"], task, ends[0], span.crc32["task_hash"], place)
        before = int(files["task_hash"][task - 1 : task][0]) if task else 0
        yield lambda part=hashes, before=before: _check_hashes(part, before)  # type: ignore[misc]
        task, vote = ends


def _check_positions(part: Part, begin: int, end: int) -> None:
    """Check where the votes of each task begin: every task has some, and the last one's end with the shard."""
    last = begin
    for chunk in part.chunks():
        if not (chunk[0] > last and (chunk[1:] > chunk[:-1]).all()):
            part.wrong("the positions of its tasks do not rise")
        last = int(chunk[-1])
    if last != end:
        part.wrong(f"it ends with {last}, not {end}")
    part.finish()


def _check_rows(part: Part, rows: int) -> None:
    for chunk in part.chunks():
        highest = int(chunk.max())
        if highest >= rows:
            part.wrong(f"it holds {highest}, but there are only {rows} rows")
    part.finish()


def _check_hashes(part: Part, before: int) -> None:
    for chunk in part.chunks():
        if not (int(chunk[0]) >= before and (chunk[1:] >= chunk[:-1]).all()):
            part.wrong("the hashes of its tasks are not ascending")
        before = int(chunk[-1])
    part.finish()


def _text_checks(manifest: Manifest, files: Files) -> Iterator[Check]:
    """Yield the checks of the ids of every shard's tasks, and of those without votes."""
    kind, task, text = manifest.kinds["task"], 0, 0
    for place, span in enumerate(manifest.shards):
        yield _text_check(kind, files, span, task, text, place)
        task, text = task + span.tasks, text + span.text
    values = Part(files["unvoted"], 0, manifest.sizes["unvoted"], manifest.files["unvoted"]["crc32"])
    if kind != "string":
        yield lambda: _check_values(kind, values)
        return
    offsets = Part(files["unvoted_offsets"], 0, manifest.sizes["unvoted_offsets"], manifest.files["unvoted_offsets"]["crc32"])
    yield lambda: _check_texts(offsets, values, leading=True)


def _text_check(kind: str, files: Files, span: Span, task: int, text: int, shard: int) -> Check:
    if kind != "string":
        plain = Part(files["tasks"], task, task + span.tasks, span.crc32["tasks"], shard)
        return lambda: _check_values(kind, plain)
    offsets = Part(files["tasks_offsets"], task + 1, task + span.tasks + 1, span.crc32["tasks_offsets"], shard)
    values = Part(files["tasks"], text, text + span.text, span.crc32["tasks"], shard)
    return lambda: _check_texts(offsets, values)


def _check_values(kind: str, part: Part) -> None:
    for chunk in part.chunks():
        fault = _boolean_fault(kind, chunk)
        if fault is not None:
            part.wrong(fault)
    part.finish()


def _check_texts(offsets: Part, values: Part, *, leading: bool = False) -> None:
    """Check the texts of some ids, and where each begins; `leading`: the 0 before them is one of these positions."""
    at = values.start
    for number, chunk in enumerate(offsets.chunks()):
        rises = bool(chunk[0] >= at and (chunk[1:] >= chunk[:-1]).all()) and int(chunk[-1]) <= values.stop
        if leading and not number and chunk[0] != 0:
            offsets.wrong(f"it begins with {chunk[0]}, not 0")
        elif not rises:
            offsets.wrong("the positions of its ids fall, or point beyond their texts")
        if offsets.is_wrong:
            continue
        text = values.file.chunk(at, int(chunk[-1]))
        values.take(text, at)
        fault = _text_fault(text, chunk[:-1] - at)
        if fault is not None:
            values.wrong(fault)
        at += len(text)
    if at != values.stop:
        offsets.wrong(f"it ends with {at}, not {values.stop}")
    offsets.finish()
    values.finish()
