"""Simulated votes: drawn block by block, as frames or streamed into files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from adjudge.errors import InputError, OptionError, shown
from adjudge.evaluation.crowd import Crowd, Spec, check_confusions, gather
from adjudge.io.write import check_target, write_batches, write_frame

BLOCK = 1 << 16  # tasks; part of what a seed means: another size draws other votes
LURED_ERRORS, LURED_WEAK = 0.8, 0.6  # shares of wrong votes, and of right votes of weak workers, that a lure attracts
TRIES = 8  # times a panel is drawn again when a worker sits in it twice


class Block(NamedTuple):
    """Codes of consecutive tasks, their truth and their votes."""

    truth: NDArray[np.int64]  # [tasks of the block]
    task: NDArray[np.int64]  # [votes] counted from the first task of all
    worker: NDArray[np.int64]  # [votes]
    label: NDArray[np.int64]  # [votes]


def blocks(spec: Spec) -> int:
    """Return the number of blocks of a simulation."""
    return -(-spec.tasks // BLOCK)


def truth(spec: Spec, block: int) -> NDArray[np.int64]:
    """Return the true labels of a block's tasks."""
    rng = np.random.default_rng([spec.seed, 1, block])
    weights = np.ones(spec.labels) if spec.label_weights is None else np.asarray(spec.label_weights, float)
    return rng.choice(spec.labels, size=min(BLOCK, spec.tasks - block * BLOCK), p=weights / weights.sum())


def draw(spec: Spec, crowd: Crowd, block: int) -> Block:
    """Return a block's tasks with their votes, grouped by task."""
    true = truth(spec, block)
    rng = np.random.default_rng([spec.seed, 2, block])
    least, most = spec.panel_sizes()
    most = min(most, spec.workers)
    size = rng.integers(min(least, most), most, size=len(true), endpoint=True)
    seats = _panels(rng, crowd.busyness, len(true), most)
    taken = np.arange(most) < size[:, None]
    place, worker = np.nonzero(taken)[0], seats[taken]
    if spec.repeats > 0:
        again = 1 + (rng.random(len(place)) < spec.repeats)
        place, worker = np.repeat(place, again), np.repeat(worker, again)
    leader = crowd.leaders[worker]
    luck = rng.random(len(place))
    copied = crowd.kinds[worker] == "colluder"
    if copied.any():  # a ring gives one answer per task: the luck of (task, leader), whoever of the ring is asked
        luck[copied] = _shared_luck(rng, place[copied], leader[copied])
    label = (luck[:, None] >= crowd.ladder[leader, true[place]]).sum(axis=1)
    if spec.shared_error > 0 and spec.labels > 1:
        label = _misled(spec, crowd, block, true, place, leader, label)
    return Block(true, place + block * BLOCK, worker, label)


def _misled(
    spec: Spec,
    crowd: Crowd,
    block: int,
    true: NDArray[np.int64],  # [tasks]
    place: NDArray[np.int64],  # [votes] the task of the vote
    worker: NDArray[np.int64],  # [votes]
    label: NDArray[np.int64],  # [votes]
) -> NDArray[np.int64]:
    """Return the votes of a crowd that errs together: on some tasks one wrong label attracts those who do not know.

    There most votes that are wrong name it, and most votes of the weaker half of the workers.
    """
    rng = np.random.default_rng([spec.seed, 3, block])
    misleading = rng.random(len(true)) < spec.shared_error
    lure = (true + rng.integers(1, spec.labels, len(true))) % spec.labels
    accuracy = np.einsum("wkk->w", crowd.confusions) / spec.labels
    weak = accuracy < np.median(accuracy)
    follows = rng.random(len(label)) < np.where(label != true[place], LURED_ERRORS, np.where(weak[worker], LURED_WEAK, 0.0))
    return np.where(misleading[place] & follows, lure[place], label)


def _panels(rng: np.random.Generator, busyness: NDArray[np.float64], tasks: int, seats: int) -> NDArray[np.int64]:
    """Return distinct workers for every task, [tasks, seats], busy ones more often."""
    workers = len(busyness)
    panel = np.minimum(np.searchsorted(busyness, rng.random((tasks, seats)), side="right"), workers - 1)
    open_ = np.arange(tasks)
    for _ in range(TRIES):
        ordered = np.sort(panel[open_], axis=1)
        open_ = open_[(ordered[:, 1:] == ordered[:, :-1]).any(axis=1)]
        if not len(open_):
            return panel
        fresh = np.searchsorted(busyness, rng.random((len(open_), seats)), side="right")
        panel[open_] = np.minimum(fresh, workers - 1)
    # Crowded panels: the largest of weighted random numbers are a weighted draw without replacement.
    with np.errstate(divide="ignore"):
        log_weight = np.log(np.diff(busyness, prepend=0.0))
    for start in range(0, len(open_), step := max(1, (1 << 22) // workers)):
        some = open_[start : start + step]
        keys = log_weight + rng.gumbel(size=(len(some), workers))
        panel[some] = np.argpartition(-keys, seats - 1, axis=1)[:, :seats]
    return panel


def _shared_luck(rng: np.random.Generator, task: NDArray[np.int64], leader: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return one random number per distinct (task, leader), for each of its votes."""
    _, pair = np.unique(np.stack([task, leader]), axis=1, return_inverse=True)
    luck: NDArray[np.float64] = rng.random(pair.max() + 1)[pair]
    return luck


@dataclass(frozen=True, eq=False)
class Simulation:
    """A simulated crowd. Votes are drawn when asked for: as one frame, in batches, or straight into files."""

    spec: Spec
    crowd: Crowd
    worker_names: tuple[str, ...]
    label_names: tuple[str, ...]

    @property
    def confusions(self) -> NDArray[np.float64]:
        """The confusion each worker answers by, [workers, K true, K given]."""
        return self.crowd.confusions

    @cached_property
    def votes(self) -> pl.DataFrame:
        """Task, worker, label: every vote, grouped by task."""
        return pl.concat(list(self.vote_batches()))

    @cached_property
    def truth(self) -> pl.DataFrame:
        """Task and true label."""
        return pl.concat(list(self.truth_batches()))

    @cached_property
    def workers(self) -> pl.DataFrame:
        """Worker, kind (ordinary, spammer, adversary, colluder), copies (whose answers it gives), accuracy by label mix."""
        weights = np.asarray(self.spec.label_weights or [1.0] * self.spec.labels)
        accuracy = np.einsum("wkk,k->w", self.confusions, weights / weights.sum())
        names = pl.Series(self.worker_names, dtype=pl.String)
        return pl.DataFrame(
            {"worker": names, "kind": self.crowd.kinds, "copies": names.gather(self.crowd.leaders), "accuracy": accuracy}
        )

    def vote_batches(self) -> Iterator[pl.DataFrame]:
        """Yield the votes block by block; memory is that of one block."""
        workers, labels = (pl.Series(n, dtype=pl.String) for n in (self.worker_names, self.label_names))
        if not self.spec.tasks:
            yield pl.DataFrame(schema=dict.fromkeys(("task", "worker", "label"), pl.String))
        for block in range(blocks(self.spec)):
            drawn = draw(self.spec, self.crowd, block)
            yield pl.DataFrame(
                {"task": _task_names(drawn.task), "worker": workers.gather(drawn.worker), "label": labels.gather(drawn.label)}
            )

    def truth_batches(self) -> Iterator[pl.DataFrame]:
        """Yield task and true label, block by block."""
        labels = pl.Series(self.label_names, dtype=pl.String)
        if not self.spec.tasks:
            yield pl.DataFrame(schema=dict.fromkeys(("task", "label"), pl.String))
        for block in range(blocks(self.spec)):
            true = truth(self.spec, block)
            yield pl.DataFrame({"task": _task_names(np.arange(len(true)) + block * BLOCK), "label": labels.gather(true)})

    def confusion_batches(self) -> Iterator[pl.DataFrame]:
        """Yield worker, true, given, probability, some thousand workers at a time."""
        k = self.spec.labels
        labels = pl.Series(self.label_names, dtype=pl.String)
        true, given = np.divmod(np.arange(k * k), k)
        step = max(1, (1 << 20) // (k * k))
        for start in range(0, self.spec.workers, step):
            some = np.arange(start, min(start + step, self.spec.workers))
            names = pl.Series(self.worker_names[start : start + step], dtype=pl.String)
            yield pl.DataFrame(
                {
                    "worker": names.gather(np.repeat(some - start, k * k)),
                    "true": labels.gather(np.tile(true, len(some))),
                    "given": labels.gather(np.tile(given, len(some))),
                    "probability": self.confusions[some].ravel(),
                }
            )

    def write(self, folder: str | Path, suffix: str = "csv", progress: Callable[[str, int], None] | None = None) -> None:
        """Write votes, truth, workers and confusions into a `folder`, each whole or not at all.

        `suffix` names their format; `progress` is called with the name of a file and the rows written, after every batch.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise InputError(f"cannot write into {folder}: there is no such folder; make it first")
        targets = {name: folder / f"{name}.{suffix}" for name in ("votes", "truth", "confusions", "workers")}
        for target in targets.values():
            check_target(target)
        streams = {"votes": self.vote_batches(), "truth": self.truth_batches(), "confusions": self.confusion_batches()}
        for name, batches in streams.items():
            write_batches(batches, targets[name], None if progress is None else _counted(progress, name))
        write_frame(self.workers, targets["workers"])


def simulate(
    *,
    tasks: int = 1000,
    workers: int = 50,
    labels: int = 3,
    votes_per_task: int | tuple[int, int] = 5,
    skill: float = 0.75,
    skill_spread: float = 0.13,
    spammers: float = 0.0,
    adversaries: float = 0.0,
    colluders: float = 0.0,
    ring: int = 4,
    power: float = 0.0,
    repeats: float = 0.0,
    shared_error: float = 0.0,
    label_weights: Sequence[float] | None = None,
    confusions: ArrayLike | None = None,
    worker_names: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
    seed: int = 0,
) -> Simulation:
    """Return a crowd with known confusions and its votes on tasks with known truth.

    - `tasks`, `workers`, `labels`: how many there are.
    - `votes_per_task`: a number, or (least, most) to draw from.
    - `skill`, `skill_spread`: mean and standard deviation of the probability of a right answer.
    - `spammers`, `adversaries`, `colluders`: shares of the workers. Spammers answer without looking; adversaries
      name a wrong label whenever they can; colluders sit in rings of `ring` workers who all copy one of them.
    - `power`: 0 asks everybody equally; p gives the n-th busiest worker a share of votes like 1 / n^p.
    - `repeats`: the share of votes that their worker casts a second time, perhaps otherwise.
    - `shared_error`: the share of the tasks on which one wrong label attracts most of those who err, and a majority of the
      weaker half of the workers: votes are then not independent given the truth.
    - `label_weights`: how frequent each label is.
    - `confusions`, [workers, K true, K given], gives the workers instead of drawing them.
    - `worker_names`, `label_names`: what they are called; else w0, w1, … and l0, l1, …
    - `seed`: the same settings and seed give the same votes on every machine.

    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=100, workers=10, seed=1)
    >>> crowd.votes.columns, len(crowd.votes)
    (['task', 'worker', 'label'], 500)
    >>> adj.evaluate(adj.aggregate(crowd.votes), crowd.truth).accuracy > 0.8
    True
    """
    given = None if confusions is None else check_confusions(confusions)
    if given is not None:
        workers, labels = given.shape[:2]
    if label_weights is not None:
        label_weights = [w.item() if isinstance(w, np.generic) else w for w in label_weights]
    for what, names, number in (("worker_names", worker_names, workers), ("label_names", label_names, labels)):
        if names is not None:
            _check_names(what, names, number)
    spec = Spec(
        tasks=tasks,
        workers=workers,
        labels=labels,
        votes_per_task=votes_per_task,
        skill=skill,
        skill_spread=skill_spread,
        spammers=spammers,
        adversaries=adversaries,
        colluders=colluders,
        ring=ring,
        power=power,
        repeats=repeats,
        shared_error=shared_error,
        label_weights=label_weights,
        seed=seed,
    )
    return Simulation(
        spec,
        gather(spec, given),
        tuple(worker_names or (f"w{n}" for n in range(workers))),
        tuple(label_names or (f"l{n}" for n in range(labels))),
    )


def _check_names(what: str, names: Sequence[str], number: int) -> None:
    if isinstance(names, str) or len(names) != number or not all(isinstance(name, str) for name in names):
        raise OptionError(f"{what} is {shown(names)}: give {number} texts")
    if len(set(names)) < number:
        raise OptionError(f"{what} is {shown(names)}: give distinct ones")


def _task_names(codes: NDArray[np.int64]) -> pl.Series:
    return "t" + pl.Series(codes).cast(pl.String)


def _counted(progress: Callable[[str, int], None], name: str) -> Callable[[int], Any]:
    return lambda rows: progress(name, rows)
