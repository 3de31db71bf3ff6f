"""The fits of a comparison: many small ones side by side, each on its own thread, of all votes and of parts of them."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from threading import Event
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.memory import free_memory
from adjudge.data.votes import Gold, Votes
from adjudge.engines.base import Engine
from adjudge.engines.memory import estimate, of_probabilities
from adjudge.engines.registry import AutoEngine, engine_named, resolve
from adjudge.errors import AdjudgeError, NotConverged
from adjudge.evaluation.inputs import subset, vote_tasks
from adjudge.evaluation.intervals import Floats, Integers
from adjudge.models.base import Model
from adjudge.models.temperature import probability_pieces
from adjudge.results.result import Result

Progress = Callable[[str, int, int], None]  # (model, fits done, fits to do)
MAX_FREE_MEMORY_SHARE: Final = 0.5  # of the free memory, for all parallel fits together
PARTS: Final = 5  # that workers, and tasks, are divided into: a refit leaves one of them out


@dataclass(frozen=True, eq=False)
class FitJob:
    """One fit that is to be made."""

    name: str  # of the model in the comparison
    model: Model
    votes: Votes
    gold: Gold | None = None
    judged: Integers | None = None  # tasks whose probabilities are wanted, [n] codes; None if labels are enough


@dataclass(frozen=True, eq=False)
class ComparedFit:
    """What a comparison keeps of a fit."""

    labels: NDArray[np.int32]  # [tasks] codes
    confidence: Floats  # [tasks] honest where probabilities were wanted
    probabilities: Floats | None  # of the judged tasks, [n, K]; None if none were wanted, or memory is too small for them
    expected_wrong: float
    converged: bool
    facts: dict[str, object]
    accuracy: Floats  # [workers] expected share of right votes; of nobody where labels were enough
    seconds: float


def run(jobs: Sequence[FitJob], *, threads: int | None, progress: Progress | None = None) -> list[ComparedFit | str]:
    """Return the outcome of every job, in order: the fit, or one line that says why its model could not run.

    As many jobs run at once as there are threads, unless memory allows fewer; if there are fewer jobs than threads, each
    has several. A model that refuses one job gets no further ones. `progress` is called in this thread, after every fit.
    An interrupt ends the fits that run after their current iteration.
    """
    if not jobs:
        return []
    every = resolve(AutoEngine(threads=threads))  # all options are checked before any thread starts
    wanted = threads or os.cpu_count() or 1
    at_once = min(wanted, len(jobs), _jobs_in_memory(jobs))
    engine = engine_named(every.name, max(wanted // at_once, 1))
    refused: dict[str, str] = {}
    out: dict[int, ComparedFit | str] = {}
    stop = Event()

    def stop_if_asked(_: object) -> None:
        if stop.is_set():
            raise CancelledError

    def work(job: FitJob) -> ComparedFit | str:
        if job.name not in refused:
            try:
                return _fit(job, engine, stop_if_asked)
            except AdjudgeError as error:
                refused[job.name] = str(error)
            except MemoryError:
                refused[job.name] = "out of memory"
        return refused[job.name]

    # Filters of warnings belong to the process, not to a thread: they are set before threads start, and reset after all ended.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        pool = ThreadPoolExecutor(at_once, thread_name_prefix="adjudge-compare")
        try:
            futures: dict[Future[ComparedFit | str], int] = {pool.submit(work, job): n for n, job in enumerate(jobs)}
            for done, future in enumerate(as_completed(futures), 1):
                out[futures[future]] = future.result()
                if progress is not None:
                    progress(jobs[futures[future]].name, done, len(jobs))
        except BaseException:
            stop.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return [out[n] for n in range(len(jobs))]


def _jobs_in_memory(jobs: Sequence[FitJob]) -> int:
    """Return how many of the largest jobs fit in memory at once; one at least, which says by itself what it lacks."""
    largest = max(
        estimate(job.votes, 0, 1, job.model.room, honest=job.judged is not None)
        + (0 if job.judged is None else of_probabilities(job.votes))
        for job in jobs
    )
    return max(int(MAX_FREE_MEMORY_SHARE * free_memory() // max(largest, 1)), 1)


def _fit(job: FitJob, engine: Engine, progress: Callable[[object], None]) -> ComparedFit:
    votes, judged = job.votes, job.judged
    understood = votes.understood
    if understood is not None and not understood.has_workers and job.model.name != "mv":
        raise AdjudgeError("the votes do not say who gave them, so only majority vote can count them")
    began, confidence = time.perf_counter(), "posterior" if judged is None else "honest"
    watch: dict[str, Any] = {"engine": engine, "trace": "light", "progress": progress, "confidence": confidence}
    result = job.model.fit(votes, gold=cast(Any, job.gold), **watch)
    seconds = time.perf_counter() - began
    outcome = result.fit.outcome
    return ComparedFit(
        labels=outcome.labels,
        confidence=outcome.confidence,
        probabilities=None if judged is None else _probabilities(result, judged),
        expected_wrong=result.expected_errors,
        converged=result.converged,
        facts=dict(result.facts),
        accuracy=np.zeros(0) if judged is None else result.workers_frame(trust=False)["accuracy"].to_numpy(),
        seconds=seconds,
    )


def _probabilities(result: Result, tasks: Integers) -> Floats | None:
    """Return the probabilities of some tasks, [n, K]; None if those of all tasks do not fit in memory."""
    if not len(tasks) or of_probabilities(result.votes) > free_memory():
        return None
    out = np.empty((len(tasks), result.votes.n_labels))
    for cut, part in probability_pieces(result.fit, result.session):
        inside = (tasks >= cut.start) & (tasks < cut.stop)
        out[inside] = part[tasks[inside] - cut.start]
    return out


class VotesPart(NamedTuple):
    """Votes without some workers, or without some tasks."""

    left_out: str  # "workers" or "tasks"
    votes: Votes
    tasks: Integers  # [tasks left] their codes among all tasks


def leave_out(votes: Votes, refits: int, seed: int) -> list[VotesPart]:
    """Return `refits` sets of votes that lack a fifth of the workers each, and as many that lack a fifth of the tasks.

    Up to five of each lack different fifths. Crowds of fewer than five workers lack one of them at a time; nothing is left
    out of a single worker, or a single task.
    """
    out, owners = [], {"workers": votes.row_worker()[votes.row], "tasks": vote_tasks(votes)}
    for stream, (what, n) in enumerate((("workers", votes.n_workers), ("tasks", votes.n_tasks))):
        rng = np.random.default_rng([seed, 3, stream])
        parts = min(PARTS, n)
        for number in range(refits if parts > 1 else 0):
            if number % parts == 0:  # every fifth was left out once
                part = rng.permutation(np.arange(n) % parts)
            out.append(VotesPart(what, *subset(votes, part[owners[what]] != number % parts)))
    return out


def stable_share(whole: ComparedFit, refits: Sequence[tuple[VotesPart, ComparedFit]], what: str) -> float:
    """Return the share of labels that stay the same without some workers, or without some tasks; NaN if none was left out."""
    shares = [
        float((refit.labels == whole.labels[part.tasks]).mean())
        for part, refit in refits
        if part.left_out == what and len(part.tasks)
    ]
    return float(np.mean(shares)) if shares else float("nan")
