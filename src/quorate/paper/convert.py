"""Raw public files become votes.csv (task,worker,label) and truth.csv (task,label): nothing dropped, file order kept."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from quorate.errors import InputError
from quorate.io.write import write_aside
from quorate.paper.sources import PublicSet, RawFile

Row = Sequence[str]
Tables = dict[str, list[Row]]  # "votes": (task, worker, label); "truth": (task, label)


def convert(which: PublicSet, raw: Path, folder: Path) -> None:
    """Writes votes.csv and truth.csv of a set into `folder`, from its raw files below `raw` (as OWNER/NAME/PATH)."""
    tables: Tables = {"votes": [], "truth": []}
    for file in which.files:
        for kind, rows in _read(file, raw / file.place).items():
            tables[kind] += rows
    if len(tables["votes"]) != which.votes:
        raise InputError(f"{which.name} has {len(tables['votes'])} votes, not {which.votes}: remove {raw} and get it again")
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "votes.csv", ("task", "worker", "label"), tables["votes"])
    _write(folder / "truth.csv", ("task", "label"), tables["truth"])


def _read(file: RawFile, path: Path) -> Tables:
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            return READERS[file.rule](lines)
    except (OSError, UnicodeDecodeError, ValueError, IndexError) as error:
        raise InputError(f"cannot read {path} as the registry says ({file.rule}): {error}") from error


def _tabbed(lines: Iterable[str]) -> Iterator[Row]:
    return (line.rstrip("\r\n").split("\t") for line in lines)


def _worker_task_label(lines: Iterable[str]) -> Tables:
    return {"votes": [(task, worker, label) for worker, task, label in _tabbed(lines)]}


def _task_label(lines: Iterable[str]) -> Tables:
    return {"truth": [(task, label) for task, label in _tabbed(lines)]}


def _trec(lines: Iterable[str]) -> Tables:
    """The task is topicID_docID; gold -1 means that no truth is known."""
    _, *rows = _tabbed(lines)
    votes: list[Row] = [(f"{topic}_{document}", worker, label) for topic, worker, document, _, label in rows]
    return {"votes": votes, "truth": _first((f"{t}_{d}", gold) for t, _, d, gold, _ in rows if gold != "-1")}


def _snow(lines: Iterable[str]) -> Tables:
    _, *rows = _tabbed(lines)
    return {
        "votes": [(task, worker, response) for _, worker, task, response, _ in rows],
        "truth": _first((task, gold) for _, _, task, _, gold in rows),
    }


def _matrix(lines: Iterable[str]) -> Tables:
    """A line per task, a column per worker, both numbered from 0; -1 is no vote."""
    rows = ((str(task), line.split()) for task, line in enumerate(lines))
    return {"votes": [(task, str(worker), label) for task, row in rows for worker, label in enumerate(row) if label != "-1"]}


def _lines(lines: Iterable[str]) -> Tables:
    return {"truth": [(str(task), line.strip()) for task, line in enumerate(lines)]}


def _worker_task_label_truth(lines: Iterable[str]) -> Tables:
    rows = [row[:4] for row in csv.reader(lines)]
    return {
        "votes": [(task, worker, label) for worker, task, label, _ in rows],
        "truth": _first((task, truth) for _, task, _, truth in rows),
    }


READERS: Final[Mapping[str, Callable[[Iterable[str]], Tables]]] = {
    "worker_task_label": _worker_task_label,
    "task_label": _task_label,
    "trec": _trec,
    "snow": _snow,
    "matrix": _matrix,
    "lines": _lines,
    "worker_task_label_truth": _worker_task_label_truth,
}


def _first(pairs: Iterable[tuple[str, str]]) -> list[Row]:
    """Returns a line per task, in the order of first appearance."""
    found: dict[str, str] = {}
    for task, label in pairs:
        found.setdefault(task, label)
    return list(found.items())


def _write(path: Path, header: Row, rows: Iterable[Row]) -> None:
    def write(aside: Path) -> None:
        with aside.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)

    write_aside(path, write)
