"""Check the content of an encoded folder: every byte against its checksum, every number before it is used as an index.

Numbers are checked in chunks that fit in the cache, together with the checksum.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.bounds import require_below, require_offsets
from adjudge.data.vectors import pieces
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import require_weights
from adjudge.errors import InputError
from adjudge.io.folder.arrays import StoredArray
from adjudge.io.folder.manifest import Manifest
from adjudge.io.folder.spill import hash_ids
from adjudge.io.folder.writer import Span

CHUNK: Final = 1 << 20  # bytes checked at once
Files = Mapping[str, StoredArray]
Check = Callable[[], None]


def check_content(manifest: Manifest, files: Files, threads: int) -> None:
    """Raise if a byte differs from what was encoded, or a number is out of bounds; everything is read once."""
    checks: list[Check] = [lambda: _check_leading(files), lambda: _check_panel(manifest, files)]
    checks += [lambda name=name: _check_ids(manifest, files, name) for name in ("workers", "labels")]  # type: ignore[misc]
    checks += list(_shard_checks(manifest, files))
    checks += list(_text_checks(manifest, files))
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(lambda check: check(), checks):
            pass
    for file in files.values():
        file.keep()


class CheckedRange:
    """A range of the items of a file with a checksum of its own."""

    def __init__(self, file: StoredArray, start: int, stop: int, crc32: int, shard: int | None = None) -> None:
        self.file = file
        self.start = start
        self.stop = stop
        self.shard = shard
        self._crc32 = crc32
        self._found = 0
        self._fault: str | None = None

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield the items in chunks; each chunk is valid until the next."""
        size = max(CHUNK // self.file.dtype.itemsize, 1)
        room = None if self.file.is_held else np.empty(min(size, self.stop - self.start), self.file.dtype)
        for cut in pieces(self.stop, size, self.start):
            chunk = self.file.chunk(cut.start, cut.stop) if room is None else room[: cut.stop - cut.start]
            self.take(chunk, cut.start)
            yield chunk

    def take(self, out: NDArray[Any], at: int) -> None:
        """Read the next items to OUT, and add them to the checksum."""
        self.file.read_into(out, at)
        self._found = zlib.crc32(out.view(np.uint8).data if len(out) else b"", self._found)

    def wrong(self, what: str) -> None:
        """Record the first fault; a wrong checksum is reported before it."""
        self._fault = self._fault or what

    @property
    def is_wrong(self) -> bool:
        """Whether a fault was recorded."""
        return self._fault is not None

    def finish(self) -> None:
        """Raise if the checksum does not match, or a fault was recorded."""
        where = f" in shard {self.shard}" if self.shard is not None else ""
        if self._found != self._crc32:
            raise InputError(f"{self.file.path} is damaged{where} (its checksum does not match): encode the votes again")
        if self._fault is not None:
            raise InputError(f"{self.file.path} is not valid{where}: {self._fault}; encode the votes again")


def _whole_range(manifest: Manifest, files: Files, name: str) -> CheckedRange:
    return CheckedRange(files[name], 0, manifest.sizes[name], manifest.files[name]["crc32"])


def _whole(manifest: Manifest, files: Files, name: str) -> NDArray[Any]:
    """Return the items of a file without shards, after its checksum was checked."""
    array = files[name].all()
    items = _whole_range(manifest, files, name)
    items._found = zlib.crc32(array.view(np.uint8).data if len(array) else b"")
    items.finish()
    return array


def _check_leading(files: Files) -> None:
    """Check what no checksum covers: every header, and the first position before the shards."""
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
    if manifest.is_weighted:
        weight = _whole(manifest, files, "row_weight")
        require_weights(str(files["row_weight"].path), weight)
        rises[:-1] |= (row_label[1:] == row_label[:-1]) & (weight[1:] > weight[:-1])
    rises[worker_ptr[1:] - 1] = True  # the next row belongs to another worker
    if not rises.all():
        raise InputError(f"{files['row_label'].path} is not valid: the labels of a worker do not rise; encode the votes again")
    if "abstained" in files:
        require_below(str(files["abstained"].path), _whole(manifest, files, "abstained"), manifest.abstentions + 1)
    require_below(str(files["row_votes"].path), row_votes, manifest.votes + 1)
    if row_votes.sum(dtype=np.float64) != manifest.votes:  # exact below 2^53, and without overflow
        raise InputError(
            f"{files['row_votes'].path} is not valid: it does not count {manifest.votes} votes; encode the votes again"
        )


def _check_ids(manifest: Manifest, files: Files, name: str) -> None:
    """Check that the ids of workers or labels, which are held in memory, are valid and distinct."""
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
    """Return the fault in the texts of some ids, `begins` has the first bytes of all but the first; None without fault."""
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
    for index, span in enumerate(manifest.shards):
        ends = task + span.tasks, vote + span.votes
        positions = CheckedRange(files["task_ptr"], task + 1, ends[0] + 1, span.crc32["task_ptr"], index)
        yield lambda items=positions, begin=vote, end=ends[1]: _check_positions(items, begin, end)  # type: ignore[misc]
        votes = CheckedRange(files["row"], vote, ends[1], span.crc32["row"], index)
        yield lambda items=votes: _check_rows(items, rows)  # type: ignore[misc]
        hashes = CheckedRange(files["task_hash"], task, ends[0], span.crc32["task_hash"], index)
        before = int(files["task_hash"][task - 1 : task][0]) if task else 0
        yield lambda items=hashes, before=before: _check_hashes(items, before)  # type: ignore[misc]
        task, vote = ends


def _check_positions(items: CheckedRange, begin: int, end: int) -> None:
    """Check the positions of the votes of each task: every task has votes, and the last ends with the shard."""
    last = begin
    for chunk in items.chunks():
        if not (chunk[0] > last and (chunk[1:] > chunk[:-1]).all()):
            items.wrong("the positions of its tasks do not rise")
        last = int(chunk[-1])
    if last != end:
        items.wrong(f"it ends with {last}, not {end}")
    items.finish()


def _check_rows(items: CheckedRange, rows: int) -> None:
    for chunk in items.chunks():
        highest = int(chunk.max())
        if highest >= rows:
            items.wrong(f"it holds {highest}, but there are only {rows} rows")
    items.finish()


def _check_hashes(items: CheckedRange, before: int) -> None:
    for chunk in items.chunks():
        if not (int(chunk[0]) >= before and (chunk[1:] >= chunk[:-1]).all()):
            items.wrong("the hashes of its tasks are not ascending")
        before = int(chunk[-1])
    items.finish()


def _text_checks(manifest: Manifest, files: Files) -> Iterator[Check]:
    """Yield the checks of the ids of every shard's tasks, and of the tasks without votes."""
    kind, task, text = manifest.kinds["task"], 0, 0
    for index, span in enumerate(manifest.shards):
        yield _text_check(kind, files, span, task, text, index)
        task, text = task + span.tasks, text + span.text
    values = _whole_range(manifest, files, "unvoted")
    if kind != "string":
        yield lambda: _check_values(kind, values)
        return
    offsets = _whole_range(manifest, files, "unvoted_offsets")
    yield lambda: _check_texts(offsets, values, leading=True)


def _text_check(kind: str, files: Files, span: Span, task: int, text: int, shard: int) -> Check:
    if kind != "string":
        plain = CheckedRange(files["tasks"], task, task + span.tasks, span.crc32["tasks"], shard)
        return lambda: _check_values(kind, plain)
    offsets = CheckedRange(files["tasks_offsets"], task + 1, task + span.tasks + 1, span.crc32["tasks_offsets"], shard)
    values = CheckedRange(files["tasks"], text, text + span.text, span.crc32["tasks"], shard)
    return lambda: _check_texts(offsets, values)


def _check_values(kind: str, items: CheckedRange) -> None:
    for chunk in items.chunks():
        fault = _boolean_fault(kind, chunk)
        if fault is not None:
            items.wrong(fault)
    items.finish()


def _check_texts(offsets: CheckedRange, values: CheckedRange, *, leading: bool = False) -> None:
    """Check the texts of some ids and their positions; with `leading` the first position is 0."""
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
