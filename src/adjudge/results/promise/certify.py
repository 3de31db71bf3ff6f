"""Certify labels: a confidence from which on at most a promised share of the labels is wrong, from a random sample of answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.options import check
from adjudge.errors import InputError, OptionError, itemize, quote
from adjudge.io.frames import match_ids
from adjudge.io.sources import Source
from adjudge.results.promise.answers import check_answer_labels, digest_answers, read_gold_answers
from adjudge.results.promise.draws import ERROR_RANGE, LOOKS_RANGE, RISK_RANGE, Draw, Look, candidates, require_same_result
from adjudge.results.promise.walk import allowed_errors, smallest_sample

if TYPE_CHECKING:
    from adjudge.results.result import Result

Floats = NDArray[np.float64]
RISK_TOLERANCE: Final = 1e-9  # by which rounding may put the risk of all looks above the risk that was agreed
CERTIFIED_FIGURES: Final = (
    *("error", "risk", "looks", "threshold", "share", "accepted", "tasks", "drawn", "region", "missing"),
    *("gold", "wrong", "allowed", "seed", "floor", "model", "fingerprint", "answers"),
)  # of a certificate


@dataclass(frozen=True)
class Promise:
    """A certified promise: from `threshold` on, at most `error` of the labels are wrong, with probability 1 - `risk`.

    The promise is about the accepted labels as the votes gave them: those with a confidence of at least `threshold`. It says
    nothing about other labels. Print it for the sentence to sign.
    """

    error: float  # share of wrong labels that is promised at most
    risk: float  # probability that the promise fails
    looks: int  # looks at the answers that share this risk
    threshold: float | None  # confidence from which labels are accepted; None if nothing can be certified
    share: float  # of the tasks that are accepted
    accepted: int  # accepted labels
    tasks: int  # tasks whose labels were inferred
    drawn: int  # gold tasks
    region: int  # tasks that they were drawn from
    missing: int  # drawn tasks without an answer, which count as wrong
    gold: int  # gold tasks among the accepted labels
    wrong: int  # of these
    allowed: int  # errors allowed among these
    seed: int
    floor: float
    model: str
    fingerprint: str
    answers: str = field(repr=False)  # digest of the answers

    def __str__(self) -> str:
        return self.sentence

    @property
    def sentence(self) -> str:
        """The sentence to sign."""
        basis = f"{self.drawn:,} gold tasks drawn at random (seed {self.seed}) from {self.region:,} tasks"
        unanswered = f", {self.missing} of them unanswered and counted as wrong" if self.missing else ""
        shared = f", shared by {self.looks} looks at the answers" if self.looks > 1 else ""
        if self.threshold is None:
            return (
                f"Nothing can be certified: no set of labels has few enough errors among the {basis}{unanswered} to promise at "
                f"most {_percent(self.error)} wrong labels with a risk of {_percent(self.risk)}{shared}."
            )
        return (
            f"Of the {self.accepted:,} labels with a confidence of at least {self.threshold:.6g} ({_percent(self.share)} of "
            f"{self.tasks:,}), at most {_percent(self.error)} are wrong; the risk that this claim fails is at most "
            f"{_percent(self.risk)}{shared}. It rests on {basis}{unanswered}. {self.gold:,} of "
            f"the accepted labels were checked: {self.wrong} {'was' if self.wrong == 1 else 'were'} wrong, and at most "
            f"{self.allowed} may be."
        )

    def figures(self) -> dict[str, object]:
        """Return all figures as plain Python values, ready for JSON."""
        return {name: getattr(self, name) for name in CERTIFIED_FIGURES}

    def write(self, path: str | os.PathLike[str], inputs: Mapping[str, Source] | None = None) -> None:
        """Write a certificate as JSON: the sentence, its figures, the version, and fingerprints of the files behind it.

        Parameters
        ----------
        path : str or path
            The new file.
        inputs : dict, optional
            The files behind the promise by name, such as `{"votes": "votes.csv", "gold": "gold.csv"}`.

        """
        from adjudge.results.promise.certificates import write_certificate

        write_certificate(self, path, inputs)


def certify(result: Result, gold: Source, draw: Draw | None, *, error: float, risk: float, looks: int) -> Promise:
    """Return what gold certifies about a result; see `Result.certify`."""
    check({"error": error, "risk": risk, "looks": looks}, {"error": ERROR_RANGE, "risk": RISK_RANGE, "looks": LOOKS_RANGE})
    if draw is None:
        draw = latest_draw(result)
    if not isinstance(draw, Draw):
        raise OptionError(f"draw is {quote(draw)}: give what draw_gold returned, or adj.Draw.read(path)")
    require_same_result(draw, result)
    answers = read_gold_answers(gold)
    names = draw.tasks.texts()
    drawn = set(names)
    strangers = [task for task in answers if task not in drawn]
    if strangers:
        raise InputError(
            f"the gold has {len(strangers)} tasks that were not drawn ({itemize(strangers[:3])}): a certificate rests on the "
            "drawn tasks alone; leave the others out"
        )
    if not answers:
        raise InputError(f"the gold answers none of the {len(names)} drawn tasks: fill in their labels first")
    check_answer_labels(answers, result.votes.labels)
    shared = max(int(looks), draw.planned_looks)
    least = smallest_sample(error, risk / shared)
    if len(names) < least:
        each = f" for each of {shared} looks" if shared > 1 else ""
        raise InputError(
            f"{len(names)} gold tasks cannot certify an error of {error:g} at a risk of {risk / shared:g}{each}, even if all of "
            f"their labels are right: draw at least {least}"
        )
    take_look(draw, Look(float(error), float(risk), shared, digest_answers(answers)))
    return _certify(result, draw, answers, error=float(error), risk=float(risk), looks=shared)


def latest_draw(result: Result) -> Draw:
    """Return the latest draw of a result."""
    draw = result.latest_draw
    if draw is None:
        raise InputError(
            "no gold was drawn from this result: draw with result.draw_gold(n) and have those tasks answered, or give the draw "
            "as draw=adj.Draw.read(path). Labels that you had before cannot be certified: see 'I have known labels already' in "
            "docs/promises.md"
        )
    return draw


def take_look(draw: Draw, look: Look) -> None:
    """Record a look in the draw and its file; raise if the looks before it have used up the risk.

    The same question about the same answers is the same look.
    """
    if look in draw.looks:
        return
    spent = sum(earlier.risk / earlier.looks for earlier in draw.looks)
    if spent + look.risk / look.looks > look.risk + RISK_TOLERANCE:
        raise InputError(
            f"this would be look {len(draw.looks) + 1} at this draw, and the earlier ones have spent a risk of {spent:g}: "
            f"another {look.risk / look.looks:g} would exceed {look.risk:g}. A look is a question to the answers: plan several "
            "with looks=… (--looks) before the first, or draw new gold and have it answered"
        )
    draw.looks.append(look)
    try:
        draw.save_record()
    except BaseException:
        draw.looks.remove(look)
        raise


def _certify(result: Result, draw: Draw, answers: Mapping[str, str], *, error: float, risk: float, looks: int) -> Promise:
    confidence, tasks = candidates(result)
    place = match_ids(result.votes.tasks, draw.tasks)  # a table of the few drawn tasks, not of all
    codes = np.full(len(draw), -1)
    codes[place[place >= 0]] = np.flatnonzero(place >= 0)
    if (codes < 0).any():
        raise InputError(f"drawn task {quote(draw.tasks[int(np.argmin(codes))])} has no votes here: draw again")
    labels = result.votes.labels.texts()
    chosen = (labels[code] for code in np.asarray(result.fit.outcome.labels)[codes].tolist())
    wrong = np.array([answers.get(task) != label for task, label in zip(draw.tasks.texts(), chosen, strict=True)])
    sure = np.asarray(result.fit.outcome.confidence)[codes]
    threshold, m = lowest_threshold(confidence[confidence >= draw.floor], sure, wrong, error, risk / looks)
    accepted = 0 if threshold is None else int((confidence >= threshold).sum())
    return Promise(
        error=error,
        risk=risk,
        looks=looks,
        threshold=threshold,
        share=accepted / max(len(tasks), 1),
        accepted=accepted,
        tasks=len(tasks),
        drawn=len(codes),
        region=draw.region,
        missing=len(codes) - len(answers),
        gold=m,
        wrong=0 if threshold is None else int(wrong[sure >= threshold].sum()),
        allowed=0 if threshold is None else int(allowed_errors(len(codes), error, risk / looks)[m]),
        seed=draw.seed,
        floor=draw.floor,
        model=result.model,
        fingerprint=draw.fingerprint,
        answers=digest_answers(dict(answers)),
    )


def lowest_threshold(
    confidence: Floats, gold: Floats, wrong: NDArray[np.bool_], error: float, risk: float
) -> tuple[float | None, int]:
    """Return the lowest confidence above which gold has no more errors than allowed, and the gold tasks above it.

    Parameters
    ----------
    confidence : array, shape (tasks,)
        Confidence of the tasks that gold was drawn from.
    gold, wrong : arrays, shape (n,)
        Confidence of the gold tasks, and whether their labels are wrong.
    error, risk : float
        As for `allowed_errors`.

    Returns
    -------
    threshold : float or None
        None if no threshold passes.
    gold : int
        Gold tasks with at least this confidence.

    Examples
    --------
    >>> sure = np.linspace(0.5, 1.0, 100)
    >>> lowest_threshold(sure, sure, sure < 0.7, error=0.05, risk=0.1)
    (0.702..., 60)

    """
    order = np.argsort(-gold, kind="stable")
    errors = np.append(0, np.cumsum(wrong[order]))
    allowed = allowed_errors(len(gold), error, risk)
    thresholds = np.unique(confidence)
    above = np.searchsorted(-gold[order], -thresholds, side="right")
    passes = errors[above] <= allowed[above]
    if not passes.any():
        return None, 0
    first = int(np.argmax(passes))  # the lowest that passes accepts most
    return float(thresholds[first]), int(above[first])


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"
