"""Simulated votes: who votes and how, drawn block by block, as frames or streamed into files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from adjudge.data import options
from adjudge.data.memory import free_memory, gib
from adjudge.data.options import MOST_VOTES, Number, Rules
from adjudge.errors import AdjudgeError, InputError, OptionError, quote
from adjudge.evaluation.intervals import Floats, Integers
from adjudge.io.write import check_target, write_batches, write_frame

MIN_DRAWN_SPREAD: Final = 1e-12  # a spread, or a distance from certainty, that no draw would show
CONFUSION_BYTES_PER_CELL: Final = 4 * 8  # bytes of a confusion's cell: as it is drawn, as it is, its cumulative sum, and between
RULES: Final[Rules] = {
    "tasks": Number(least=0, most=2**53, whole=True),
    "workers": Number(least=1, most=2**31, whole=True),
    "labels": Number(least=1, most=2**31, whole=True),
    **dict.fromkeys(("skill", "spammers", "adversaries", "colluders", "repeats", "shared_error"), Number(least=0, most=1)),
    "skill_spread": Number(least=0, most=0.5),
    "ring": Number(least=2, most=2**31, whole=True),
    "power": Number(least=0, most=100),
    "seed": Number(least=0, whole=True),
}
TASKS_PER_BLOCK = 1 << 16  # tasks; a seed depends on it: another size draws other votes
LURED_ERRORS, LURED_WEAK = 0.8, 0.6  # shares of wrong votes, and of right votes of weak workers, that a lure attracts
MAX_REDRAWS = 8  # times a panel is drawn again when a worker sits in it twice


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What to simulate, checked on the way in; `simulate` documents each setting, and has the defaults."""

    tasks: int
    workers: int
    labels: int
    votes_per_task: int | tuple[int, int]
    skill: float
    skill_spread: float
    spammers: float
    adversaries: float
    colluders: float
    ring: int
    power: float
    repeats: float
    shared_error: float
    label_weights: Sequence[float] | None
    seed: int

    def __post_init__(self) -> None:
        options.check(vars(self), RULES)
        sizes = tuple(self.votes_per_task) if isinstance(self.votes_per_task, Iterable) else (self.votes_per_task,)
        whole = len(sizes) in (1, 2) and all(isinstance(s, int) and not isinstance(s, bool) and s >= 1 for s in sizes)
        if not whole or list(sizes) != sorted(sizes):
            raise OptionError(f"votes_per_task is {quote(self.votes_per_task)}: give a number of at least 1, or (least, most)")
        if self.label_weights is not None:
            for weight in self.label_weights:
                Number(least=0, most=MOST_VOTES).check("a label weight", weight)
            if len(self.label_weights) != self.labels or sum(self.label_weights) <= 0:
                raise OptionError(f"label_weights is {quote(self.label_weights)}: give {self.labels} weights, not all of them 0")
        if self.spammers + self.adversaries + self.colluders > 1:
            raise OptionError("spammers, adversaries and colluders are shares of the workers: together at most 1")

    def panel_sizes(self) -> tuple[int, int]:
        """Return (least, most) votes of a task."""
        sizes = self.votes_per_task
        return (sizes, sizes) if isinstance(sizes, int) else (sizes[0], sizes[-1])


@dataclass(frozen=True, eq=False)
class SimulatedCrowd:
    """The workers: their confusions, how many votes each casts, and whom each copies."""

    confusions: Floats  # [workers, K true, K given]
    kinds: NDArray[np.str_]  # [workers] ordinary, spammer, adversary or colluder
    leaders: Integers  # [workers] the worker whose answers are given: oneself, or the leader of the ring
    busyness: Floats  # [workers] cumulative share of the votes
    ladder: Floats = field(repr=False)  # [workers, K, K] cumulative confusions, to draw answers from


def check_confusions(confusions: ArrayLike) -> Floats:
    """Return given confusions, [workers, K true, K given]; each row must be the probabilities of all answers."""
    right = "give numbers of the shape [workers, K true, K given], probabilities that sum to 1 in every row of K"
    try:
        given = np.asarray(confusions)
    except ValueError:  # lines of unlike lengths
        given = np.asarray(None)
    shape = given.shape
    if len(shape) != 3 or shape[1] != shape[2] or given.dtype.kind not in "fiu":
        raise OptionError(f"confusions is {quote(confusions)}: {right}")
    out = np.array(given, np.float64)
    within = ((out >= 0) & (out <= 1)).all(axis=2) & (np.abs(out.sum(axis=2) - 1.0) <= 1e-6)  # NaN is not
    if not within.all():
        worker, true = (int(at) for at in np.argwhere(~within)[0])
        raise OptionError(f"confusions holds {quote(out[worker, true].tolist())} for worker {worker}, true label {true}: {right}")
    return out


def gather(spec: Spec, confusions: Floats | None = None) -> SimulatedCrowd:
    """Return the crowd of a spec: spammers first, then adversaries, colluders, and the ordinary workers."""
    rng = np.random.default_rng([spec.seed, 0])
    n, k = spec.workers, spec.labels
    need, have = CONFUSION_BYTES_PER_CELL * n * k * k, free_memory()
    if need > have:
        raise AdjudgeError(
            f"the confusions of {n} workers over {k} labels need about {gib(need)}, but {gib(have)} are free: "
            "simulate fewer workers or labels"
        )
    kinds = np.full(n, "ordinary", dtype="U9")
    leaders = np.arange(n)
    if confusions is None:
        confusions = _ordinary(rng, n, k, spec.skill, spec.skill_spread)
        ends = np.cumsum([round(share * n) for share in (spec.spammers, spec.adversaries, spec.colluders)])
        spam, against, copy = (slice(a, b) for a, b in zip([0, *ends], ends, strict=False))
        kinds[spam], kinds[against], kinds[copy] = "spammer", "adversary", "colluder"
        confusions[spam] = rng.dirichlet(np.ones(k), ends[0])[:, None, :]
        if k > 1:
            confusions[against] = (1 - np.eye(k)) / (k - 1) * 0.9 + np.eye(k) * 0.1
        leaders[copy] -= (leaders[copy] - copy.start) % spec.ring
        confusions = confusions[leaders]
    weight = rng.permutation(np.arange(1, n + 1) ** -float(spec.power))
    ladder = confusions.cumsum(axis=2)
    ladder[:, :, -1] = 1.0
    return SimulatedCrowd(confusions, kinds, leaders, np.cumsum(weight) / weight.sum(), ladder)


def _ordinary(rng: np.random.Generator, n: int, k: int, skill: float, spread: float) -> Floats:
    """Return n confusions, [n, K, K]: right with about this skill, errors spread unevenly over the other labels."""
    if k == 1:
        return np.ones((n, 1, 1))
    # A beta distribution of this mean and standard deviation; none is wider than one with strength 0.
    is_drawn = spread > MIN_DRAWN_SPREAD and MIN_DRAWN_SPREAD < skill < 1 - MIN_DRAWN_SPREAD
    strength = max(skill * (1 - skill) / spread**2 - 1, 1e-6) if is_drawn else np.inf
    right = np.full((n, k), skill) if np.isinf(strength) else rng.beta(skill * strength, (1 - skill) * strength, size=(n, k))
    matrices = np.zeros((n, k, k))
    matrices[:, ~np.eye(k, dtype=bool)] = (rng.dirichlet(np.ones(k - 1), size=(n, k)) * (1 - right)[..., None]).reshape(n, -1)
    matrices[:, np.arange(k), np.arange(k)] = right
    return matrices


def blocks(spec: Spec) -> int:
    """Return the number of blocks of a simulation; the only one of a crowd without tasks is empty."""
    return max(-(-spec.tasks // TASKS_PER_BLOCK), 1)


def truth(spec: Spec, block: int) -> Integers:
    """Return the true labels of a block's tasks."""
    rng = np.random.default_rng([spec.seed, 1, block])
    weights = np.ones(spec.labels) if spec.label_weights is None else np.asarray(spec.label_weights, float)
    return rng.choice(spec.labels, size=min(TASKS_PER_BLOCK, spec.tasks - block * TASKS_PER_BLOCK), p=weights / weights.sum())


def draw(spec: Spec, crowd: SimulatedCrowd, block: int) -> tuple[Integers, Integers, Integers, Integers]:
    """Return codes of a block: the truth of its tasks, [tasks]; task, worker and label of its votes by task, [votes] each."""
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
    if copied.any():  # a ring gives one answer per task: the luck of (task, leader), for any member
        luck[copied] = _draw_shared_luck(rng, place[copied], leader[copied])
    label = (luck[:, None] >= crowd.ladder[leader, true[place]]).sum(axis=1)
    if spec.shared_error > 0 and spec.labels > 1:
        label = _mislead(spec, crowd, block, true, place, leader, label)
    return (true, place + block * TASKS_PER_BLOCK, worker, label)


def _mislead(
    spec: Spec,
    crowd: SimulatedCrowd,
    block: int,
    true: Integers,  # [tasks]
    place: Integers,  # [votes] the task of the vote
    worker: Integers,  # [votes]
    label: Integers,  # [votes]
) -> Integers:
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


def _panels(rng: np.random.Generator, busyness: Floats, tasks: int, seats: int) -> Integers:
    """Return distinct workers for every task, [tasks, seats], busy ones more often."""
    workers = len(busyness)
    panel = np.minimum(np.searchsorted(busyness, rng.random((tasks, seats)), side="right"), workers - 1)
    open_ = np.arange(tasks)
    for _ in range(MAX_REDRAWS):
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


def _draw_shared_luck(rng: np.random.Generator, task: Integers, leader: Integers) -> Floats:
    """Return one random number per distinct (task, leader), for each of its votes."""
    _, pair = np.unique(np.stack([task, leader]), axis=1, return_inverse=True)
    return np.asarray(rng.random(pair.max() + 1)[pair])


@dataclass(frozen=True, eq=False)
class Simulation:
    """A simulated crowd. Votes are drawn on access: as one frame, in batches, or straight into files."""

    spec: Spec
    crowd: SimulatedCrowd
    worker_names: tuple[str, ...]
    label_names: tuple[str, ...]

    @property
    def confusions(self) -> Floats:
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
        for block in range(blocks(self.spec)):
            _, task, worker, label = draw(self.spec, self.crowd, block)
            yield pl.DataFrame({"task": _task_names(task), "worker": workers.gather(worker), "label": labels.gather(label)})

    def truth_batches(self) -> Iterator[pl.DataFrame]:
        """Yield task and true label, block by block."""
        labels = pl.Series(self.label_names, dtype=pl.String)
        for block in range(blocks(self.spec)):
            true = truth(self.spec, block)
            tasks = _task_names(np.arange(len(true)) + block * TASKS_PER_BLOCK)
            yield pl.DataFrame({"task": tasks, "label": labels.gather(true)})

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
        """Write votes, truth, workers and confusions into a folder, each file completely or not at all.

        Parameters
        ----------
        folder : str or path
            An existing folder.
        suffix : str, default "csv"
            Format of the files.
        progress : Callable[[str, int], None], optional
            Called with the name of a file and the number of rows written, after every batch.

        Raises
        ------
        InputError
            If the folder does not exist.

        """
        folder = Path(folder)
        if not folder.is_dir():
            raise InputError(f"cannot write into {folder}: there is no such folder; make it first")
        targets = {name: folder / f"{name}.{suffix}" for name in ("votes", "truth", "confusions", "workers")}
        for target in targets.values():
            check_target(target)
        streams = {"votes": self.vote_batches(), "truth": self.truth_batches(), "confusions": self.confusion_batches()}
        for name, batches in streams.items():
            write_batches(batches, targets[name], None if progress is None else partial(progress, name))
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

    Parameters
    ----------
    tasks, workers, labels : int
        Numbers of tasks, workers and labels.
    votes_per_task : int or tuple[int, int], default 5
        A number, or (least, most) to draw from.
    skill, skill_spread : float
        Mean and standard deviation of the probability of a right answer.
    spammers, adversaries, colluders : float, default 0.0
        Shares of the workers. Spammers answer without looking; adversaries name a wrong label whenever they can; colluders are in
        rings of `ring` workers who all copy one of them.
    ring : int, default 4
        Workers per ring.
    power : float, default 0.0
        0 asks everybody equally; p gives the n-th busiest worker a share of votes like 1 / n^p.
    repeats : float, default 0.0
        Share of votes that their worker casts a second time, possibly with another label.
    shared_error : float, default 0.0
        Share of tasks on which one wrong label attracts most workers who are wrong, and a majority of the weaker half: votes are
        then not independent given the truth.
    label_weights : sequence of float, optional
        How frequent each label is.
    confusions : array, [workers, K true, K given], optional
        The confusions of the workers, instead of random ones.
    worker_names, label_names : sequence of str, optional
        Names; by default w0, w1, … and l0, l1, ….
    seed : int, default 0
        The same settings and seed give the same votes on every machine.

    Returns
    -------
    Simulation
        The votes, their truth, and the workers.

    Raises
    ------
    OptionError
        If an option is unknown or out of range, or does not go with another.

    Examples
    --------
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
    settings = locals()
    spec = Spec(**{field.name: settings[field.name] for field in fields(Spec)})
    return Simulation(
        spec,
        gather(spec, given),
        tuple(worker_names or (f"w{n}" for n in range(workers))),
        tuple(label_names or (f"l{n}" for n in range(labels))),
    )


def _check_names(what: str, names: Sequence[str], number: int) -> None:
    if isinstance(names, str) or len(names) != number or not all(isinstance(name, str) for name in names):
        raise OptionError(f"{what} is {quote(names)}: give {number} texts")
    if len(set(names)) < number:
        raise OptionError(f"{what} is {quote(names)}: give distinct ones")


def _task_names(codes: Integers) -> pl.Series:
    return "t" + pl.Series(codes).cast(pl.String)
