"""Votes encoded where they are: columns of ids on a device become tasks, rows and votes there, as `adjudge.read` numbers them.

Arrays of CuPy, PyTorch, JAX or any other library are used in place. Libraries say where their arrays are by
`__cuda_array_interface__` or `__dlpack__`; none of them is imported here. An array is copied only where its numbers do not follow
each other in memory.

Tasks are numbered in order of first appearance, workers and labels by id, rows by worker, then label. A vote
becomes one key of 64 bits, its task and its row; one sort of the keys puts all votes in order. Few votes are numbered by
sorts (`_by_sorts`: the definition), many by tables indexed by id, or by hash where ids are sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.vocabulary import Vocabulary, freeze
from adjudge.data.votes import Notes
from adjudge.errors import InputError, OptionError, itemize, label_error, quote
from adjudge.gpu.device import THREADS, Device, Program, blocks_of
from adjudge.gpu.votes import DeviceLayout, DeviceVocabulary, DeviceVotes
from adjudge.io.columns import VOTE_ROLES, shape_of
from adjudge.io.read import check_read
from adjudge.io.reading import ABOUT_VOTES, PLAIN_READING, Reading
from adjudge.io.sources import Opened, is_device_array

MAX_DEVICE_VOTES: Final = 2**32 - 2  # positions have 32 bits, and one stands for none
MAX_DEVICE_INTEGER_ID: Final = 2**63 - 1
WHERE: Final = "the dict of arrays"


class DeviceColumns(NamedTuple):
    """The columns of votes on a device."""

    task: Any  # device [votes] whole numbers, contiguous; likewise the others, which may be booleans
    worker: Any
    label: Any
    notes: Notes  # what is understood of them


def device_number(source: Any) -> int:
    """Return the number of the CUDA device that a source is on; 0 where its arrays do not say."""
    columns = source.values() if isinstance(source, Mapping) else source
    known = (_number_of(value) for value in columns if is_device_array(value))
    return next((number for number in known if number is not None), 0)


def column_length(source: Any) -> int:
    """Return how many votes a source has, as its first array on a device says; 0 where that has no length."""
    columns = source.values() if isinstance(source, Mapping) else source
    first = next((value for value in columns if is_device_array(value)), None)
    shape = getattr(first, "shape", None)
    return int(shape[0]) if shape else 0


def columns_of(device: Device, source: Any, names: Mapping[str, str | None]) -> DeviceColumns:
    """Return the columns of a source on this device, in place; `names` are the caller's for task, worker and label.

    Raises an error that names the column if it does not hold integers or is on another device than the others.
    """
    given, notes = _pick_columns(source, names)
    _require_one_device(given)
    arrays = {role: _column(device, role, value) for role, value in given.items()}
    lengths = {role: len(array) for role, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{n} {role}s" for role, n in lengths.items())
        raise InputError(f"the arrays have different lengths ({sizes}): give one task, one worker and one label for each vote")
    if not lengths["task"]:
        raise InputError("the arrays of votes are empty: give at least one vote")
    if lengths["task"] > MAX_DEVICE_VOTES:
        raise InputError(f"{lengths['task']} votes are more than a device takes at once: give at most {MAX_DEVICE_VOTES}")
    return DeviceColumns(**arrays, notes=notes)


def _pick_columns(source: Any, names: Mapping[str, str | None]) -> tuple[dict[str, Any], Notes]:
    """Return the caller's arrays by role, and notes on how they were understood."""
    notes = Notes("arrays on a device")
    if isinstance(source, Mapping):
        by_name = {str(name): value for name, value in source.items()}
        shape = shape_of(list(by_name), {role: names.get(role) for role in VOTE_ROLES}, PLAIN_READING, WHERE)
        if shape.is_anonymous:
            raise InputError(
                f"{WHERE} has no column for the worker ({itemize(by_name)}): give one, or host data, which may have none"
            )
        shape.write_to(notes)
        return {role: by_name[shape.columns[role]] for role in VOTE_ROLES}, notes
    named = [role for role in VOTE_ROLES if names.get(role)]  # "" says that workers may be absent: here they are not
    if named:
        raise InputError(f"{named[0]} names a column, and a tuple of arrays has none: give a dict of arrays")
    return dict(zip(VOTE_ROLES, source, strict=True)), notes


def _require_one_device(given: Mapping[str, Any]) -> None:
    """Raise unless all arrays are on one device."""
    here = [role for role, value in given.items() if not is_device_array(value)]
    if here:
        there = " and ".join(f"{role}s" for role in given if role not in here)
        raise InputError(
            f"the {here[0]}s are on the host, but the {there} on a CUDA device: give all on one device "
            "(cupy.asarray, tensor.cuda())"
        )
    device_of = {role: number for role, value in given.items() if (number := _number_of(value)) is not None}
    first = next(iter(device_of), None)
    for role, number in device_of.items():
        if first is not None and number != device_of[first]:
            raise InputError(
                f"the {role}s are on CUDA device {number}, but the {first}s on device {device_of[first]}: give all on one device"
            )


def _number_of(value: Any) -> int | None:
    """Return the number of the device of an array; None where its library does not say."""
    where = getattr(value, "__dlpack_device__", None)
    return None if where is None else int(where()[1])


def _column(device: Device, role: str, value: Any) -> Any:
    """Return a column as an array of the device, without a copy where it is contiguous."""
    array = _take_array(device, role, value)
    where = getattr(getattr(array, "device", None), "id", None)  # arrays without DLPack do not say before
    if None not in (where, device.number) and where != device.number:
        raise InputError(f"the {role}s are on CUDA device {where}, but the fit on device {device.number}: give all on one device")
    if array.ndim != 1:
        raise InputError(
            f"the {role}s have {array.ndim} dimensions, shape {array.shape}: give an array with one, a line per vote"
        )
    allowed, right = ("iu", "whole numbers") if role == "task" else ("iub", "whole numbers or booleans")
    if array.dtype.kind not in allowed:
        raise InputError(f"the {role}s are of type {array.dtype}: give {right} (or text, from the host)")
    if array.dtype == np.uint64:
        if len(array) and int(array.max()) > MAX_DEVICE_INTEGER_ID:
            raise InputError(f"a {role} is greater than {MAX_DEVICE_INTEGER_ID}: give such ids as text, from the host")
        array = array.view(np.int64)
    return device.xp.ascontiguousarray(array)


def _take_array(device: Device, role: str, value: Any) -> Any:
    """Return an array of another library as one of this device: the same memory.

    DLPack comes first: it synchronizes with the other library's stream. If it fails, as for types
    that one of the two libraries does not support, use the CUDA array interface.
    """
    if isinstance(value, device.xp.ndarray):
        return value
    ways = [("__dlpack__", device.xp.from_dlpack), ("__cuda_array_interface__", device.xp.asarray)]
    error: Exception | None = None
    for name, take in ways:
        try:
            if hasattr(value, name):
                return take(value)
        except Exception as refused:  # every library refuses in its own way
            error = error or refused
    raise InputError(
        f"the {role}s cannot be taken from {type(value).__module__}.{type(value).__name__} ({error}): "
        "give a plain array on a CUDA device"
    )


ENCODE_BYTES: Final = 56  # of the device per vote, at the most: keys, room to sort them, tables of ids, and the votes
MIN_KERNEL_VOTES: Final = 1 << 14  # that are worth kernels
SPARE_SLOTS: Final = 1 << 12  # that a table may always have
SLOTS_PER_VOTE: Final = 4  # that a table may have: beyond it, ids are hashed
MAX_PAIR_SLOTS: Final = 1 << 30  # slots of pairs, of 5 bytes each
MAX_HOST_SLOTS: Final = 1 << 20  # slots of a table on the host; codes of more are sorted
FIRST_SLOTS: Final = 1 << 22  # of hashed ids, at first: they fit in the cache
MAX_PROBES: Final = 256  # from the slot of an id's hash to its own, in a table that may be too short
MAX_SLOTS: Final = 1 << 32  # of hashed ids: slots have 32 bits
NO_FIRST_VOTE: Final = 0xFFFFFFFF
BITS: Final = 32  # of a word, and of the row in a key

Stage = Callable[[str, int], None]  # called after each step with its name, and the bytes that it reads and writes at least


class EncodedRows(NamedTuple):
    """The rows of votes: pairs of a worker and a label that occur."""

    workers: NDArray[np.int64]  # ids, ascending
    labels: NDArray[np.int64]  # likewise
    worker: NDArray[np.int64]  # [pairs] the code of its worker
    label: NDArray[np.int64]  # [pairs] the index of its label in `labels`; pairs are sorted by worker, then this


class Numbering(NamedTuple):
    """What a way of numbering finds."""

    numbers: Any  # device int64 [tasks] ids
    rows: EncodedRows
    join: Callable[[NDArray[np.uint32]], Any]  # from the row of each pair, [pairs], to the keys of all votes, device uint64


def encode(device: Device, source: Any, reading: Reading = PLAIN_READING, *, stage: Stage | None = None) -> DeviceVotes:
    """Return the votes of arrays on a device; they stay there.

    `source` is (tasks, workers, labels) or a dict of such columns. Options that are about text, weights or the order of votes
    are refused. `stage` is called after every step.
    """
    _refuse(reading)
    declared = None if reading.labels is None else Vocabulary.of(reading.labels, "label").declared()
    with device.current():
        columns = columns_of(device, source, {role: getattr(reading, role) for role in VOTE_ROLES})
        votes, repeated = _encode_columns(device, columns, declared, stage or _ignore)
        understood = columns.notes.understood(votes=len(votes), abstentions=0, repeated=repeated)
        check_read(votes, Opened.of(source), understood, columns.notes, declared=declared is not None, strict=reading.strict)
    return votes.with_fields(understood=understood)


def _refuse(reading: Reading) -> None:
    """Raise if an option needs votes of the host."""
    given = reading.given()
    remedy = "leave it out, or copy the arrays to the host (array.get(), tensor.cpu())"
    if "duplicates" in given:
        raise OptionError(f"duplicates is {quote(reading.duplicates)}, but of votes on a device all count: {remedy}")
    refused = next((name for name in given if name not in (*ABOUT_VOTES, "strict")), None)
    if refused is not None:
        raise OptionError(f"{refused} is {quote(given[refused])}, which votes on a device do not take: {remedy}")


def _ignore(name: str, size: int) -> None:
    """Do nothing."""


def _encode_columns(device: Device, columns: DeviceColumns, declared: Vocabulary | None, stage: Stage) -> tuple[DeviceVotes, int]:
    """Return the votes of these columns, and how many repeat their worker's vote on a task."""
    found = _by_tables(device, columns, stage) if len(columns.task) >= MIN_KERNEL_VOTES else None
    coded = found or _by_sorts(device, columns)
    rows = coded.rows
    seen = _vocabulary(columns.label, rows.labels)
    rank = np.arange(len(seen)) if declared is None else _rank_declared(device, columns.label, declared, seen)
    label = rank[rows.label]
    # Pairs are sorted already, unless labels were declared in another order; sorting all of them takes long.
    order = np.lexsort((label, rows.worker)) if (np.diff(rank) < 0).any() else np.arange(len(label))
    row_of = np.empty(len(order), np.uint32)
    row_of[order] = np.arange(len(order), dtype=np.uint32)
    n, tasks = len(columns.task), len(coded.numbers)
    keys = coded.join(row_of)
    stage("task and row of each vote", n * (_bytes(columns) + 4 + 8))
    keys.sort()
    stage("sort", 2 * 8 * n * 8)
    worker = rows.worker[order].astype(np.uint32)
    ptr, row, repeated = (_split if found else _split_by_sorts)(device, keys, tasks, device.upload(worker))
    del keys
    stage("votes by task", n * (8 + 4) + 4 * tasks)
    layout = DeviceLayout.on(device, ptr, row)
    stage("lengths of tasks", 3 * 4 * tasks)
    votes = DeviceVotes(
        layout=layout,
        tasks=DeviceVocabulary(device, coded.numbers),
        workers=_vocabulary(columns.worker, rows.workers),
        labels=seen if declared is None else declared,
        worker_ptr=freeze(np.append(_begins(worker), len(worker))),
        row_label=freeze(label[order].astype(np.int32)),
        unvoted=Vocabulary.wrap("integer", np.zeros(0, np.int64)),
    )
    return votes, repeated


def _vocabulary(column: Any, values: NDArray[np.int64]) -> Vocabulary:
    """Return ids of a column as a vocabulary, of booleans if the column is boolean."""
    return Vocabulary.wrap("boolean", values != 0) if column.dtype == np.bool_ else Vocabulary.wrap("integer", values)


def _rank_declared(device: Device, column: Any, declared: Vocabulary, seen: Vocabulary) -> NDArray[np.int64]:
    """Return the index of each label seen among the declared ones; an undeclared label is an error that names its row."""
    rank = declared.codes(seen.ids())
    if (rank < 0).any():
        xp = device.xp
        strangers = device.upload(seen.values[rank < 0].astype(column.dtype))
        row = int(xp.argmax(xp.isin(column, strangers)))
        raise label_error(column[row].item(), declared.ids(), f" in row {row + 1}")
    return rank


def _by_sorts(device: Device, columns: DeviceColumns) -> Numbering:
    """Return the codes of votes by sorts of each column: the definition."""
    xp = device.xp
    numbers, first, slot = xp.unique(columns.task, return_index=True, return_inverse=True)
    order = xp.argsort(first)
    code = xp.empty(len(order), np.uint64)
    code[order] = xp.arange(len(order), dtype=np.uint64)
    task = code[slot]
    workers, worker = xp.unique(columns.worker, return_inverse=True)
    labels, label = xp.unique(columns.label, return_inverse=True)
    pairs, pair = xp.unique(worker.astype(np.int64) * len(labels) + label, return_inverse=True)

    def join(row_of: NDArray[np.uint32]) -> Any:
        return task << np.uint64(BITS) | device.upload(row_of.astype(np.uint64))[pair]

    of_workers, of_labels = (device.download(some).astype(np.int64) for some in (workers, labels))
    rows = EncodedRows(of_workers, of_labels, *np.divmod(device.download(pairs), len(labels)))
    return Numbering(numbers[order].astype(np.int64), rows, join)


def _split_by_sorts(device: Device, keys: Any, tasks: int, row_worker: Any) -> tuple[Any, Any, int]:
    """Return where each task begins, [tasks + 1], the row of each vote, and how many repeat others; keys are ascending."""
    xp = device.xp
    task, row = keys >> np.uint64(BITS), keys.astype(np.uint32)
    worker, same = row_worker[row], task[1:] == task[:-1]
    ptr = xp.empty(tasks + 1, np.uint32)
    ptr[0], ptr[-1] = 0, len(keys)
    ptr[1:-1] = xp.flatnonzero(~same) + 1
    return ptr, row, int((same & (worker[1:] == worker[:-1])).sum())


class _Column(NamedTuple):
    """A column whose ids have slots in tables."""

    array: Any  # device [votes]
    low: int  # an id's slot is the id less this
    slots: int
    ids: Any = None  # device int64 [slots] the id of each slot if ids are hashed; `empty` marks free slots
    empty: int = 0


def _by_tables(device: Device, columns: DeviceColumns, stage: Stage) -> Numbering | None:
    """Return the codes of votes by kernels, over tables of slots; None if there are too many for tables."""
    xp, n = device.xp, len(columns.task)
    task = _give_slots(device, columns.task, stage)
    pairs = None if task is None else _pairs(device, columns, stage)
    if task is None or pairs is None:
        return None
    codes, numbers = _number_tasks(device, task, stage)
    worker, label, rows, slots = pairs

    def join(row_of: NDArray[np.uint32]) -> Any:
        of_slot, keys = xp.zeros(worker.slots * label.slots, np.uint32), xp.empty(n, np.uint64)
        of_slot[slots] = device.upload(row_of)
        lows = task.low, worker.low, label.low, label.slots
        arrays = task.array, worker.array, label.array
        _of_three(device, *arrays).launch("join_keys", blocks_of(n), THREADS, *arrays, n, *lows, codes, of_slot, keys)
        return keys

    return Numbering(numbers, rows, join)


def _pairs(device: Device, columns: DeviceColumns, stage: Stage) -> tuple[_Column, _Column, EncodedRows, Any] | None:
    """Return columns whose slots together are the slots of pairs, the pairs that occur, and where these are, device [pairs].

    Sparse ids are replaced by codes. Where even codes make too many pairs, the first column holds pairs, and the second zeros.
    """
    xp, n, most = device.xp, len(columns.task), min(_max_slots(len(columns.task)), MAX_PAIR_SLOTS)
    worker, label = (_give_slots(device, array, stage) for array in (columns.worker, columns.label))
    if worker is None or label is None:
        return None
    ids: list[Any] = [None, None]
    is_hashed = worker.ids is not None or label.ids is not None  # slots are in no order
    if is_hashed or worker.slots * label.slots > most:
        (worker, ids[0]), (label, ids[1]) = _dense(device, worker), _dense(device, label)
        stage("codes of workers and labels", n * (_bytes(columns) - columns.task.itemsize + 2 * 4))
    lows, of_label = (worker.low, label.low), label.slots
    if worker.slots * of_label > most:
        together = _give_slots(device, worker.array.astype(np.int64) * of_label + label.array, stage)
        if together is None:
            return None
        (worker, found), label = _dense(device, together), _Column(xp.zeros(n, np.uint8), 0, 1)
        slots = xp.arange(len(found))
    else:
        seen = xp.zeros(worker.slots * of_label, np.uint8)
        arrays = worker.array, label.array
        _of_three(device, columns.task, *arrays).launch("find_pairs", blocks_of(n), THREADS, *arrays, n, *lows, of_label, seen)
        found = slots = xp.flatnonzero(seen)
    stage("pairs of workers and labels", n * (worker.array.itemsize + label.array.itemsize))
    of_worker, given = np.divmod(device.download(found).astype(np.int64), of_label)
    begins = _begins(of_worker)
    worker_code = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(of_worker)))
    labels, label_code = _distinct(given, of_label)
    of_ids = _ids(device, of_worker[begins], lows[0], ids[0]), _ids(device, labels, lows[1], ids[1])
    return worker, label, EncodedRows(*of_ids, worker_code, label_code), slots


def _begins(ascending: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return where the items of each value begin, [values]."""
    return np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1]))


def _distinct(codes: NDArray[np.int64], slots: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the codes that occur, ascending, and the index of each code among them; all are below `slots`."""
    if slots > MAX_HOST_SLOTS:
        found, slot = np.unique(codes, return_inverse=True)
        return found, slot
    seen = np.zeros(slots, np.bool_)
    seen[codes] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[codes]


def _ids(device: Device, slots: NDArray[np.int64], low: int, known: Any) -> NDArray[np.int64]:
    """Return the ids at slots of a column, on the host."""
    return slots + low if known is None else device.download(known)[slots]


def _give_slots(device: Device, array: Any, stage: Stage) -> _Column | None:
    """Return a column with slots for its ids: from the lowest to the highest, or by their hashes; None if neither can be."""
    xp, n = device.xp, len(array)
    array = array.view(np.uint8) if array.dtype == np.bool_ else array
    low, high = int(array.min()), int(array.max())
    stage("least and greatest id", 2 * array.nbytes)
    if high - low < _max_slots(n):
        return _Column(array, low, high - low + 1)
    enough = 1 << (5 * n // 4).bit_length()  # for as many ids as votes
    empty = low - 1 if low > np.iinfo(np.int64).min else high + 1
    if enough > MAX_SLOTS or empty > np.iinfo(np.int64).max:
        return None
    program, slot, full = device.program("encode", ID=_kind(array)), xp.empty(n, np.uint32), xp.zeros(1, np.uint32)
    for slots in (min(FIRST_SLOTS, enough), enough):  # most columns have few ids, for which a short table does
        ids, most = xp.full(slots, empty, np.int64), MAX_PROBES if slots < enough else slots
        full[0] = 0
        program.launch("find_slots", blocks_of(n), THREADS, array, n, empty, ids, slots - 1, most, slot, full)
        if not int(full[0]):
            break
    stage("hashes of ids", array.nbytes + 8 * slots + (8 + 4) * n)
    return _Column(slot, 0, slots, ids, empty)


def _number_tasks(device: Device, column: _Column, stage: Stage) -> tuple[Any, Any]:
    """Return the code of the id at each slot, [slots], in the order in which ids come first, and the id of each code."""
    xp, n = device.xp, len(column.array)
    first, bits = xp.full(column.slots, NO_FIRST_VOTE, np.uint32), xp.zeros(-(-n // BITS), np.uint32)
    program = device.program("encode", ID=_kind(column.array))
    program.launch("find_first", blocks_of(n), THREADS, column.array, n, column.low, first)
    stage("first vote of each task", column.array.nbytes + 4 * column.slots + 4 * n)
    slots, words = column.slots, len(bits)
    program.launch("mark_first", blocks_of(slots), THREADS, first, slots, bits)
    counts = xp.empty(words, np.uint32)
    program.launch("count_bits", blocks_of(words), THREADS, bits, words, counts)
    through = xp.cumsum(counts, dtype=np.uint32)
    numbers = xp.empty(int(through[-1]), np.int64)
    program.launch("number_ids", blocks_of(slots), THREADS, first, slots, column.low, column.ids, bits, through, numbers)
    stage("codes of tasks", 3 * 4 * slots + 4 * 4 * words + 8 * len(numbers))
    return first, numbers


def _dense(device: Device, column: _Column) -> tuple[_Column, Any]:
    """Return a column of codes in the order of ids, and the id of each code."""
    xp, n = device.xp, len(column.array)
    program = device.program("encode", ID=_kind(column.array))
    if column.ids is None:
        seen = xp.zeros(column.slots, np.uint8)
        program.launch("find_seen", blocks_of(n), THREADS, column.array, n, column.low, seen)
        slots = xp.flatnonzero(seen)
        ids = slots.astype(np.int64) + column.low
    else:
        slots = xp.flatnonzero(column.ids != column.empty)
        slots = slots[xp.argsort(column.ids[slots])]
        ids = column.ids[slots]
    codes, out = xp.zeros(column.slots, np.uint32), xp.empty(n, np.uint32)
    codes[slots] = xp.arange(len(slots), dtype=np.uint32)
    program.launch("take_codes", blocks_of(n), THREADS, column.array, n, column.low, codes, out)
    return _Column(out, 0, len(slots)), ids


def _split(device: Device, keys: Any, tasks: int, row_worker: Any) -> tuple[Any, Any, int]:
    """Return what `_split_by_sorts` does, in one pass."""
    xp, n = device.xp, len(keys)
    ptr, row, repeated = xp.empty(tasks + 1, np.uint32), xp.empty(n, np.uint32), xp.zeros(1, np.uint64)
    ptr[-1] = n
    device.program("encode").launch("split_keys", blocks_of(n), THREADS, keys, n, row_worker, row, ptr, repeated)
    return ptr, row, int(repeated[0])


def _max_slots(votes: int) -> int:
    """Return the maximum number of slots of the hash table for this number of votes."""
    return SLOTS_PER_VOTE * votes + SPARE_SLOTS


def _kind(array: Any) -> int:
    """Return the type of whole numbers as kernels know it: their bytes, below 0 for signed ones."""
    return int(array.itemsize) * (-1 if array.dtype.kind == "i" else 1)


def _of_three(device: Device, task: Any, worker: Any, label: Any) -> Program:
    """Return the kernels over columns of these types."""
    return device.program("encode", TASK=_kind(task), WORKER=_kind(worker), LABEL=_kind(label))


def _bytes(columns: DeviceColumns) -> int:
    """Return the bytes of a vote in its columns."""
    return sum(int(array.itemsize) for array in columns[:3])
