"""The fits of a comparison: many small ones side by side, each on its own thread."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.memory import available
from adjudge.data.votes import Gold, Votes
from adjudge.engines.base import Engine
from adjudge.engines.memory import estimate, of_probabilities
from adjudge.engines.registry import resolve
from adjudge.errors import NotConverged, AdjudgeError
from adjudge.models.base import Model
from adjudge.results.result import Result
from adjudge.results.temperature import probability_pieces

Progress = Callable[[str, int, int], None]  # (model, fits done, fits in all)
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
SHARE: Final = 0.5  # of the free memory that fits side by side may take together


@dataclass(frozen=True, eq=False)
class Job:
    """One fit that is to be made."""

    model: Model
    votes: Votes
    gold: Gold | None = None
    judged: Ints | None = None  # tasks whose probabilities are wanted, [n] codes; None where labels are enough


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a comparison keeps of a fit."""

    labels: NDArray[np.int32]  # [tasks] codes
    confidence: Floats  # [tasks] honest where probabilities were wanted
    probabilities: Floats | None  # of the judged tasks, [n, K]; None where none were wanted, or memory is too small for them
    expected_wrong: float
    converged: bool
    facts: dict[str, object]
    accuracy: Floats  # [workers] expected share of right votes; of nobody where labels were enough
    seconds: float


@dataclass(frozen=True, eq=False)
class Refused:
    """Why a model could not run, in one line."""

    why: str


def run(jobs: Sequence[Job], *, threads: int | None, progress: Progress | None = None) -> list[Fitted | Refused]:
    """Return what came of every job, in order.

    As many jobs run at once as there are threads, unless memory holds fewer; where there are fewer jobs than threads, each
    has several. A model that refuses one job is not asked again. `progress` is called in this thread, after every fit.
    """
    if not jobs:
        return []
    every = resolve("auto", threads)  # all options are checked before any thread starts
    wanted = threads or os.cpu_count() or 1
    at_once = min(wanted, len(jobs), _fitting(jobs))
    engine = resolve(every.name, max(wanted // at_once, 1))
    refused: dict[str, Refused] = {}
    out: list[Fitted | Refused | None] = [None] * len(jobs)

    def work(job: Job) -> Fitted | Refused:
        if job.model.name not in refused:
            try:
                return _fitted(job, engine)
            except AdjudgeError as error:
                refused[job.model.name] = Refused(str(error))
            except MemoryError:
                refused[job.model.name] = Refused("out of memory")
        return refused[job.model.name]

    # Filters of warnings belong to the process, not to a thread: they are set before threads start, and reset after all ended.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        pool = ThreadPoolExecutor(at_once, thread_name_prefix="adjudge-compare")
        try:
            futures: dict[Future[Fitted | Refused], int] = {pool.submit(work, job): n for n, job in enumerate(jobs)}
            for done, future in enumerate(as_completed(futures), 1):
                out[futures[future]] = future.result()
                if progress is not None:
                    progress(jobs[futures[future]].model.name, done, len(jobs))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)  # an interrupt waits for the fits that run, and for no others
    return [one for one in out if one is not None]


def _fitting(jobs: Sequence[Job]) -> int:
    """Return how many of the largest jobs fit in memory at once; one at least, which says by itself what it lacks."""
    largest = max(
        estimate(job.votes, 0, 1, job.model.room, honest=job.judged is not None)
        + (0 if job.judged is None else of_probabilities(job.votes))
        for job in jobs
    )
    return max(int(SHARE * available() // max(largest, 1)), 1)


def _fitted(job: Job, engine: Engine) -> Fitted:
    votes, judged = job.votes, job.judged
    understood = votes.understood
    if understood is not None and not understood.has_workers and job.model.name != "mv":
        raise AdjudgeError("the votes do not say who gave them, so only majority vote can count them")
    began = time.perf_counter()
    result = job.model.fit(
        votes,
        engine=engine,
        trace="light",
        gold=cast(Any, job.gold),
        confidence="posterior" if judged is None else "honest",
    )
    seconds = time.perf_counter() - began
    outcome = result.fit.outcome
    return Fitted(
        labels=outcome.labels,
        confidence=outcome.confidence,
        probabilities=None if judged is None else _probabilities(result, judged),
        expected_wrong=result.expected_errors,
        converged=result.converged,
        facts=dict(result.facts),
        accuracy=np.zeros(0) if judged is None else result.workers_frame(trust=False)["accuracy"].to_numpy(),
        seconds=seconds,
    )


def _probabilities(result: Result, tasks: Ints) -> Floats | None:
    """Return the probabilities of some tasks, [n, K]; None where those of all tasks do not fit in memory."""
    if not len(tasks) or of_probabilities(result.votes) > available():
        return None
    out = np.empty((len(tasks), result.votes.n_labels))
    for cut, part in probability_pieces(result.fit, result.session):
        here = (tasks >= cut.start) & (tasks < cut.stop)
        out[here] = part[tasks[here] - cut.start]
    return out
