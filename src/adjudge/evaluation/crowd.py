"""Who votes, and how: the workers of a simulated crowd."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adjudge.data import options
from adjudge.data.memory import available, gib
from adjudge.data.options import MOST_VOTES, Number, Rules
from adjudge.errors import OptionError, AdjudgeError, shown

EVEN: Final = 1e-12  # a spread, or a distance from certainty, that no draw would show
PER_CELL: Final = 4 * 8  # bytes of a confusion's cell: as it is drawn, as it is, its cumulative sum, and between
RULES: Final[Rules] = {
    "tasks": Number(least=0, most=2**53, whole=True),
    "workers": Number(least=1, most=2**31, whole=True),
    "labels": Number(least=1, most=2**31, whole=True),
    "skill": Number(least=0, most=1),
    "skill_spread": Number(least=0, most=0.5),
    "spammers": Number(least=0, most=1),
    "adversaries": Number(least=0, most=1),
    "colluders": Number(least=0, most=1),
    "ring": Number(least=2, most=2**31, whole=True),
    "power": Number(least=0, most=100),
    "repeats": Number(least=0, most=1),
    "shared_error": Number(least=0, most=1),
    "seed": Number(least=0, whole=True),
}


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What to simulate, checked on the way in; `simulate` documents each setting."""

    tasks: int = 1000
    workers: int = 50
    labels: int = 3
    votes_per_task: int | tuple[int, int] = 5
    skill: float = 0.75
    skill_spread: float = 0.13
    spammers: float = 0.0
    adversaries: float = 0.0
    colluders: float = 0.0
    ring: int = 4
    power: float = 0.0
    repeats: float = 0.0
    shared_error: float = 0.0
    label_weights: Sequence[float] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        given: Mapping[str, Any] = vars(self)
        options.check(given, RULES)
        given_sizes = self.votes_per_task
        sizes = tuple(given_sizes) if isinstance(given_sizes, Iterable) else (given_sizes,)
        whole = len(sizes) in (1, 2) and all(isinstance(s, int) and not isinstance(s, bool) and s >= 1 for s in sizes)
        if not whole or list(sizes) != sorted(sizes):
            raise OptionError(f"votes_per_task is {shown(self.votes_per_task)}: give a number of at least 1, or (least, most)")
        if self.label_weights is not None:
            for weight in self.label_weights:
                Number(least=0, most=MOST_VOTES).check("a label weight", weight)
            if len(self.label_weights) != self.labels or sum(self.label_weights) <= 0:
                raise OptionError(f"label_weights is {shown(self.label_weights)}: give {self.labels} weights, not all of them 0")
        if self.spammers + self.adversaries + self.colluders > 1:
            raise OptionError("spammers, adversaries and colluders are shares of the workers: together at most 1")

    def panel_sizes(self) -> tuple[int, int]:
        """Return (least, most) votes of a task."""
        given = self.votes_per_task
        return (given, given) if isinstance(given, int) else (given[0], given[-1])


@dataclass(frozen=True, eq=False)
class Crowd:
    """The workers: how each answers, how often each is asked, and whom each copies."""

    confusions: NDArray[np.float64]  # [workers, K true, K given]
    kinds: NDArray[np.str_]  # [workers] ordinary, spammer, adversary or colluder
    leaders: NDArray[np.int64]  # [workers] the worker whose answers are given: oneself, or the leader of the ring
    busyness: NDArray[np.float64]  # [workers] cumulative share of the votes
    ladder: NDArray[np.float64] = field(repr=False)  # [workers, K, K] cumulative confusions, to draw answers from


def check_confusions(confusions: ArrayLike) -> NDArray[np.float64]:
    """Return given confusions, [workers, K true, K given]; each row must be the probabilities of all answers."""
    right = "give numbers of the shape [workers, K true, K given], probabilities that sum to 1 in every row of K"
    try:
        given = np.asarray(confusions)
    except ValueError:  # lines of unlike lengths
        given = np.asarray(None)
    shape = given.shape
    if len(shape) != 3 or shape[1] != shape[2] or given.dtype.kind not in "fiu":
        raise OptionError(f"confusions is {shown(confusions)}: {right}")
    out = np.array(given, np.float64)
    within = ((out >= 0) & (out <= 1)).all(axis=2) & (np.abs(out.sum(axis=2) - 1.0) <= 1e-6)  # NaN is not
    if not within.all():
        worker, true = (int(at) for at in np.argwhere(~within)[0])
        raise OptionError(f"confusions holds {shown(out[worker, true].tolist())} for worker {worker}, true label {true}: {right}")
    return out


def gather(spec: Spec, confusions: NDArray[np.float64] | None = None) -> Crowd:
    """Return the crowd of a spec: spammers first, then adversaries, colluders, and the ordinary workers."""
    rng = np.random.default_rng([spec.seed, 0])
    n, k = spec.workers, spec.labels
    need, have = PER_CELL * n * k * k, available()
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
    return Crowd(confusions, kinds, leaders, np.cumsum(weight) / weight.sum(), ladder)


def _ordinary(rng: np.random.Generator, n: int, k: int, skill: float, spread: float) -> NDArray[np.float64]:
    """Return n confusions, [n, K, K]: right with about this skill, errors spread unevenly over the other labels."""
    if k == 1:
        return np.ones((n, 1, 1))
    # A beta distribution of this mean and standard deviation; none is wider than one with strength 0.
    is_drawn = spread > EVEN and EVEN < skill < 1 - EVEN
    strength = max(skill * (1 - skill) / spread**2 - 1, 1e-6) if is_drawn else np.inf
    right = np.full((n, k), skill) if np.isinf(strength) else rng.beta(skill * strength, (1 - skill) * strength, size=(n, k))
    matrices = np.zeros((n, k, k))
    matrices[:, ~np.eye(k, dtype=bool)] = (rng.dirichlet(np.ones(k - 1), size=(n, k)) * (1 - right)[..., None]).reshape(n, -1)
    matrices[:, np.arange(k), np.arange(k)] = right
    return matrices
