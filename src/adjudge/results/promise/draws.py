"""The draw of gold tasks: which tasks a person answers, drawn at random before any answer is seen, and the file that records it.

A promise rests on the draw, so the draw is written down: seed, floor, the fingerprint of votes, model and labels, the tasks, and
every look at their answers. Tasks are drawn by a hash of seed and task id: the same for any order of rows, engine and machine.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.options import Number, Rules, check
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import FrameKind, piece
from adjudge.engines.session import digest
from adjudge.engines.shard import hashes
from adjudge.errors import InputError, OptionError, describe_json_error, itemize, pluralize, quote, read_error
from adjudge.io.encode import narrow_ids
from adjudge.io.files import is_stream
from adjudge.io.frames import Frame, column, to_native
from adjudge.io.sources import Source
from adjudge.io.write import check_files, check_suffix, write_aside, write_frame
from adjudge.kernels.cpu import kernels_named
from adjudge.kernels.reference import mix

if TYPE_CHECKING:
    from adjudge.results.result import Result

Floats = NDArray[np.float64]
RECORD_SUFFIX: Final = ".draw.json"
RECORD_KIND: Final = "adjudge draw"
RECORD_VERSION: Final = 1
SEED_BITS: Final = 32  # of a fresh seed
REGION_FACTOR: Final = 2.0  # gold comes from where honest confidence expects at most this multiple of `error` wrong,
MIN_REGION_SHARE: Final = 0.2  # from at least this share of the tasks,
MIN_REGION_PER_GOLD: Final = 1.2  # and from at least this many tasks per gold task
DRAW_SALT: Final = np.uint64(0xD1A70F601D5EED5A)  # keeps draws independent of how ties were settled
ERROR_RANGE: Final = Number(least=0.001, most=0.5)
RISK_RANGE: Final = Number(least=0.001, most=0.5)
LOOKS_RANGE: Final = Number(least=1, most=100, whole=True)
DRAW_RULES: Final[Rules] = {
    "n": Number(least=1, whole=True),
    "error": ERROR_RANGE,
    "seed": Number(whole=True),
    "looks": LOOKS_RANGE,
}
FLOOR_RULE: Final[Rules] = {"floor": Number(least=0.0, most=1.0)}


class Look(NamedTuple):
    """A look at the answers: its error rate and risk, and a digest of the answers."""

    error: float
    risk: float
    looks: int  # among which the risk was shared
    answers: str


@dataclass(frozen=True, eq=False)
class Draw:
    """Gold tasks drawn at random: `draw["task"]` to answer, and everything a certificate has to check.

    Examples
    --------
    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=500, workers=20, seed=1)
    >>> draw = adj.aggregate(crowd.votes).draw_gold(100, seed=7)
    >>> len(draw), draw["task"].to_list()[:3]
    (100, ['t77', 't37', 't424'])

    """

    tasks: Vocabulary  # in the order in which they were drawn
    seed: int
    floor: float  # confidence from which tasks were drawn; 0.0 is all tasks
    region: int  # tasks with at least that confidence
    error: float  # error rate that the draw was planned for
    planned_looks: int
    fingerprint: str  # of votes, model and labels
    looks: list[Look] = field(default_factory=list)  # looks at the answers so far
    path: Path | None = None  # the file that records looks
    frame_kind: FrameKind = "polars"
    result: Result | None = None  # that it was drawn from, if at hand

    def __len__(self) -> int:
        return len(self.tasks)

    def __repr__(self) -> str:
        return f"Draw({len(self)} of {self.region} tasks, seed {self.seed}, floor {self.floor:.4g}, {len(self.looks)} looks)"

    def __getitem__(self, name: str) -> Any:
        """Return a column of `frame`: "task", or "label", which is empty until a person fills it."""
        if name not in ("task", "label"):
            raise OptionError(f"a draw has no column {quote(name)}: it has task and label")
        return self.frame[name]

    @cached_property
    def frame(self) -> Frame:
        """Task and an empty label, in the order of the draw; the first tasks, however many, are also a random sample."""
        return to_native(self._table(), self.frame_kind)

    def _table(self) -> pl.DataFrame:
        return pl.DataFrame({"task": column(self.tasks), "label": pl.Series([None] * len(self), dtype=pl.String)})

    def write(self, path: str | os.PathLike[str], source: Source | None = None, *, form: str = "auto") -> None:
        """Write the tasks to be answered to `path`, and the record of the draw next to it.

        Parameters
        ----------
        path : str or path
            A table with the columns task and label, whose suffix names the format. Its record is `gold.draw.json` for
            `gold.csv`. A path that ends in `.draw.json` gets the record alone.
        source : source, optional
            The source of the votes. With it the tasks are written in the form of this file: tasks of Label Studio without
            annotations, records of Argilla without responses, or a table with the other columns of each task.
        form : str, default "auto"
            That form by name, as for `Result.write`; "auto" is the form of the source.

        """
        target = Path(path)
        record = record_path(target)
        check_files({"the draw": record, "the gold tasks": None if target == record else target}, {"the votes": source})
        self._require_new(record)
        if target != record and source is not None:
            from adjudge.io.write_back import write_tasks

            understood = None if self.result is None else self.result.understood
            write_tasks(self.tasks.texts(), source, target, form, understood, for_gold=True)
        elif target != record:
            check_suffix(target)
            write_frame(self._table(), target)
        object.__setattr__(self, "path", record)
        self.save_record()

    def _require_new(self, record: Path) -> None:
        """Raise if a record in this folder is of the same draw, because a second record would have none of its looks."""
        for path in sorted(record.parent.glob(f"*{RECORD_SUFFIX}")):
            try:
                earlier = Draw.read(path)
            except InputError:
                continue  # not a record, or a damaged one
            is_same = (earlier.fingerprint, earlier.seed) == (self.fingerprint, self.seed)
            if is_same and (path != record or len(earlier.looks) > len(self.looks)):
                raise InputError(
                    f"{path} has this draw already: seed {self.seed} of these votes, with "
                    f"{pluralize(len(earlier.looks), 'look')}. Leave out the seed (--draw-seed) to draw other tasks"
                )

    def save_record(self) -> None:
        """Write the record again, looks included; a draw that was never written has none."""
        if self.path is None:
            return
        content = {
            "kind": RECORD_KIND,
            "version": RECORD_VERSION,
            "fingerprint": self.fingerprint,
            "seed": self.seed,
            "floor": self.floor,
            "region": self.region,
            "error": self.error,
            "planned_looks": self.planned_looks,
            "looks": [look._asdict() for look in self.looks],
            "tasks": self.tasks.texts(),
        }
        text = json.dumps(content, ensure_ascii=True, indent=1)
        write_aside(self.path, lambda aside: aside.write_text(text + "\n", encoding="utf-8"))

    def detach(self) -> None:
        """Forget the file of the record, so that looks are stored only in memory."""
        object.__setattr__(self, "path", None)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Return the draw that `write` recorded.

        Parameters
        ----------
        path : str or path
            The record, or the file of tasks next to it.

        """
        given = Path(path)
        place = record_path(given)
        if given.suffix == ".json" and given.exists() and not place.exists():
            place = given  # a record that was renamed
        try:
            content = json.loads(place.read_text(encoding="utf-8"))
        except OSError as error:
            raise read_error(place, error) from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"{place} is not the record of a draw: {describe_json_error(error)}") from error
        return cls(**_check_fields(content, place), path=place)


def record_path(path: Path) -> Path:
    """Return where the record of a draw is whose tasks are at this path; a record is its own.

    >>> str(record_path(Path("gold.csv"))), str(record_path(Path("gold.draw.json")))
    ('gold.draw.json', 'gold.draw.json')
    """
    if path.name.endswith(RECORD_SUFFIX):
        return path
    if is_stream(path):
        raise InputError(f"a draw cannot go to {path}: it has a record next to it; name a file")
    return path.with_name(path.name.partition(".")[0] + RECORD_SUFFIX)


def _check_fields(content: Any, place: Path) -> dict[str, Any]:
    """Return the fields of a record; raise unless they are as `save_record` writes them."""
    if not isinstance(content, dict) or content.get("kind") != RECORD_KIND:
        raise InputError(f"{place} is not the record of a draw: {RECORD_KIND!r} is missing")
    if content.get("version") != RECORD_VERSION:
        raise InputError(f"{place} has version {quote(content.get('version'))}: this adjudge reads version {RECORD_VERSION}")
    match content:
        case {
            "fingerprint": str(fingerprint),
            "seed": int(seed),
            "floor": float() | int() as floor,
            "region": int(region),
            "error": float() | int() as error,
            "planned_looks": int(planned),
            "looks": [*looks],
            "tasks": [*tasks],
        } if tasks and all(isinstance(task, str) for task in tasks):
            pass
        case _:
            fields = "fingerprint, seed, floor, region, error, planned_looks, looks and tasks"
            raise InputError(f"{place} is damaged: a record of a draw has {fields}")
    for what, rule, value in (
        ("floor", FLOOR_RULE["floor"], floor),
        ("error", ERROR_RANGE, error),
        ("planned_looks", LOOKS_RANGE, planned),
    ):
        try:
            rule.check(what, value)
        except OptionError as fault:
            raise InputError(f"{place} is damaged: {fault}") from fault
    if len(set(tasks)) != len(tasks) or region < len(tasks):
        raise InputError(f"{place} is damaged: it has {len(tasks)} tasks, {len(set(tasks))} of them distinct, from {region}")
    return {
        "tasks": narrow_ids(Vocabulary.of_texts(tasks)),
        "seed": seed,
        "floor": float(floor),
        "region": region,
        "error": float(error),
        "planned_looks": planned,
        "fingerprint": fingerprint,
        "looks": [_look(one, place) for one in looks],
    }


def _look(content: Any, place: Path) -> Look:
    match content:
        case {"error": float() | int() as error, "risk": float() | int() as risk, "looks": int(looks), "answers": str(answers)}:
            return Look(float(error), float(risk), looks, answers)
    raise InputError(f"{place} is damaged: a look has error, risk, looks and answers, not {quote(content)}")


def draw_gold(result: Result, n: int, *, error: float, seed: int | None, floor: float | None, looks: int) -> Draw:
    """Return gold tasks of a result; see `Result.draw_gold`. Draws with the same seed share their looks."""
    seed = secrets.randbits(SEED_BITS) if seed is None else seed
    check({"n": n, "error": error, "seed": seed, "looks": looks}, DRAW_RULES)
    if floor is not None:
        check({"floor": floor}, FLOOR_RULE)
    confidence, tasks = candidates(result)
    if floor is None:
        floor = gold_floor(confidence, n, error)
    inside = np.flatnonzero(confidence >= floor)
    if len(inside) < n:
        where = f" with a confidence of at least {floor:.4g}" if floor > 0 else ""
        raise InputError(f"n is {n}, but only {len(inside)} tasks{where} can be drawn: ask for fewer")
    ids = result.votes.tasks
    key = draw_keys(ids.take(tasks[inside]), seed)
    first = np.argpartition(key, n - 1)[:n] if n < len(key) else np.arange(len(key))
    drawn = tasks[inside[first[np.argsort(key[first], kind="stable")]]]
    return Draw(
        tasks=ids.take(drawn),
        seed=int(seed),
        floor=float(floor),
        region=len(inside),
        error=float(error),
        planned_looks=int(looks),
        fingerprint=fingerprint(result),
        looks=vars(result).setdefault("_looks", {}).setdefault(int(seed), []),
        frame_kind=result.votes.frame_kind,
        result=result,
    )


def candidates(result: Result) -> tuple[Floats, NDArray[np.int64]]:
    """Return the confidence and the codes of the tasks whose labels were inferred: all but the gold of the fit."""
    require_tasks_here(result)
    confidence = np.asarray(result.fit.outcome.confidence)
    given = result.fit.task_columns.get("gold")
    if given is None or not given.any():
        return confidence, np.arange(len(confidence))
    codes = np.flatnonzero(~np.asarray(given))
    return confidence[codes], codes


def require_tasks_here(result: Result) -> None:
    """Raise unless the labels of all tasks are in this process."""
    if len(result.fit.outcome.labels) != result.votes.n_tasks:
        raise InputError(
            "promises look at the labels of all tasks, and those of this result stay on Spark's executors: aggregate the votes "
            "with engine='cpu' or 'disk'"
        )


def gold_floor(confidence: Floats, n: int, error: float) -> float:
    """Return the confidence from which to draw n gold tasks: where at most twice `error` are expected to be wrong."""
    if not len(confidence):
        return 0.0
    ranked = -np.sort(-confidence)
    expected = np.cumsum(1.0 - ranked) / np.arange(1, len(ranked) + 1)
    good = np.flatnonzero(expected <= REGION_FACTOR * error)
    size = max(
        int(good[-1]) + 1 if len(good) else 0,
        math.ceil(MIN_REGION_SHARE * len(ranked)),
        math.ceil(MIN_REGION_PER_GOLD * n),
    )
    return float(ranked[min(size, len(ranked)) - 1])


def draw_keys(tasks: Vocabulary, seed: int) -> NDArray[np.uint64]:
    """Return the keys by which tasks are drawn, smallest first, [tasks]: a hash of seed and task."""
    salt = mix(np.array([int(seed) % 2**64], np.uint64) ^ DRAW_SALT)
    keys: NDArray[np.uint64] = mix(hashes(_kernels(), tasks) ^ salt)
    return keys


def _kernels() -> Any:
    return kernels_named("adjudge.kernels.cpu")


def fingerprint(result: Result) -> str:
    """Return a fingerprint of votes, model and labels: the same in any order of rows and on any engine."""
    made: str | None = vars(result).get("_fingerprint")
    if made is None:
        made = vars(result)["_fingerprint"] = _fingerprint(result)
    return made


def _fingerprint(result: Result) -> str:
    votes, outcome, kernels = result.votes, result.fit.outcome, _kernels()
    worker, label = hashes(kernels, votes.workers), hashes(kernels, votes.labels)
    row = mix(worker[votes.row_worker()] ^ mix(label[votes.row_label]))
    if votes.row_weight is not None:
        row = mix(row ^ np.asarray(votes.row_weight, np.float64).view(np.uint64))
    total, parity = np.uint64(0), np.uint64(0)
    given = result.fit.task_columns.get("gold")
    ids = (tasks for _, tasks, _ in votes.task_parts())
    for (cut, ptr, rows), tasks in zip(votes.parts(), ids, strict=True):
        starts = np.asarray(ptr)[:-1]
        said = np.add.reduceat(row[rows], starts - starts[0]) if len(starts) else np.zeros(0, np.uint64)
        chosen = label[np.asarray(piece(outcome.labels, cut))]
        if given is not None:
            chosen = chosen ^ piece(given, cut).astype(np.uint64)
        key = mix(hashes(kernels, tasks) + mix(said ^ chosen))
        total, parity = total + key.sum(dtype=np.uint64), parity ^ np.bitwise_xor.reduce(key)
    honest = result.fit.honest is not None
    return digest(("draw", votes.n_tasks, len(votes), int(total), int(parity), result.model, dict(result.settings), honest))


def require_same_result(draw: Draw, result: Result) -> None:
    """Raise unless a draw was made for this result; say so if the labels were fitted with the gold of the draw."""
    given = result.fit.task_columns.get("gold")
    if given is not None and np.asarray(given).any():
        learned = set(result.votes.tasks.take(np.flatnonzero(np.asarray(given))).texts())
        both = [task for task in draw.tasks.texts() if task in learned]
        if both:
            raise InputError(
                f"these labels were fitted with {len(both)} gold tasks of this draw ({itemize(both[:3])}), so they cannot be "
                "certified by it: give a result that was fitted without them"
            )
    if result.temperature != 1.0:
        raise InputError(
            "these labels have a confidence that was calibrated with known labels: certify the fit without calibrate; a promise "
            "holds however bad the confidence is"
        )
    own = fingerprint(result)
    if own != draw.fingerprint:
        raise InputError(
            f"the draw was made for other votes, labels or settings of the model (fingerprint {draw.fingerprint}, here {own}): "
            "certify the result that it was drawn from, or draw again"
        )
