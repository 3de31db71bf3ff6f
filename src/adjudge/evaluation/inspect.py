"""An extension of Inspect: a jury as a scorer, and metrics over all its verdicts. Needs the extra `inspect`.

A reducer of Inspect sees one sample at a time, so it cannot learn which grader is reliable. `jury` keeps every verdict in the
score's metadata, the metrics learn from all samples together, and `adjudge aggregate LOG` labels samples jointly after the run.

    from adjudge.evaluation.inspect import jury

    graders = [model_graded_qa(model="openai/gpt-4o"), model_graded_qa(model="google/gemini-2.5-pro")]
    Task(dataset=…, solver=…, scorer=jury(graders, names=["gpt-4o", "gemini-2.5-pro"]))
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from inspect_ai.scorer import NOANSWER, Metric, SampleScore, Score, Scorer, Target, Value, accuracy, metric, scorer, stderr
from inspect_ai.solver import TaskState
from inspect_ai.util import collect, registry_info

from adjudge.data.vocabulary import text_of
from adjudge.errors import InputError, OptionError, quote
from adjudge.io.formats.verdicts import number_names
from adjudge.models.aggregation import aggregate
from adjudge.results.result import Result

PANEL: Final = "panel"  # the key of Inspect's own panels in a score's metadata, which `adjudge.read` knows


def effective_judges_of(scores: Sequence[SampleScore]) -> float:
    """Return how many independent judges the verdicts of a jury are worth; NaN if they do not tell.

    Parameters
    ----------
    scores
        Scores of `jury`, one per sample and epoch.

    Returns
    -------
    float
        At most the number of verdicts per sample. Without gold this is an upper bound: errors that all judges share are not seen.

    """
    result = _fit(scores)
    effective: Any = math.nan if result is None else result.facts.get("effective_votes", math.nan)
    return float(effective)


def judge_accuracy_of(scores: Sequence[SampleScore]) -> dict[str, float]:
    """Return the estimated accuracy of each judge of a jury.

    Parameters
    ----------
    scores
        Scores of `jury`, one per sample and epoch.

    Returns
    -------
    dict[str, float]
        The accuracy by the name of the judge, estimated from all verdicts together.

    """
    result = _fit(scores)
    if result is None:
        return {}
    return dict(zip(map(str, result.workers["worker"]), map(float, result.workers["accuracy"]), strict=True))


@metric(scores="unreduced")
def effective_judges() -> Metric:
    """Return the metric of `effective_judges_of`."""

    def compute(scores: list[SampleScore]) -> Value:
        return effective_judges_of(scores)

    return compute


@metric(scores="unreduced")
def judge_accuracy() -> Metric:
    """Return the metric of `judge_accuracy_of`."""

    def compute(scores: list[SampleScore]) -> Value:
        return dict(judge_accuracy_of(scores))

    return compute


@scorer(metrics=[accuracy(), stderr(), effective_judges(), judge_accuracy()])
def jury(scorers: list[Scorer], names: list[str] | None = None) -> Scorer:
    """Return a scorer that runs several graders on each sample and keeps every verdict.

    The score is the verdict that most graders give; a tie goes to the grader that is listed first. A grader that raises, returns
    nothing, or gives no grade abstains: it keeps its place in the panel, and the reason is logged.

    Parameters
    ----------
    scorers
        The graders. Each gives one value: a grade (C, I, P, N), a boolean, a category.
    names
        Their names in the log; by default those of the scorers, of which the second of a kind gets a number.

    Returns
    -------
    Scorer
        Its scores have `metadata["panel"]` with `judges`, `votes` (None for an abstention), `failures` and `size`.

    """
    if not scorers:
        raise OptionError("a jury needs at least one grader")
    judges = number_names([_name(grader) for grader in scorers]) if names is None else list(names)
    if len(judges) != len(scorers) or len(set(judges)) < len(judges):
        raise OptionError(
            f"names are {', '.join(map(quote, judges))}: give one name of its own for each of {len(scorers)} graders"
        )

    async def score(state: TaskState, target: Target) -> Score:
        outcomes = await collect(*(_grade(grader, state, target) for grader in scorers))
        votes = [value for value, _ in outcomes]
        failures = [{"judge": judge, "reason": why} for judge, (_, why) in zip(judges, outcomes, strict=True) if why is not None]
        panel = {"judges": judges, "votes": votes, "failures": failures, "size": len(judges)}
        counts = Counter(value for value in votes if value is not None)
        said = ", ".join(f"{judge}: {'no grade' if value is None else value}" for judge, value in zip(judges, votes, strict=True))
        if not counts:
            return Score.unscored(reason="scoring_failed", explanation=said, metadata={PANEL: panel})
        return Score(value=counts.most_common(1)[0][0], explanation=said, metadata={PANEL: panel})

    return score


def _name(grader: Scorer) -> str:
    try:
        return registry_info(grader).name.rpartition("/")[2]
    except ValueError:  # a plain function
        return getattr(grader, "__name__", type(grader).__name__)


async def _grade(grader: Scorer, state: TaskState, target: Target) -> tuple[Any, str | None]:
    """Return the verdict of a grader, or None and why it has none."""
    try:
        outcome = await grader(state, target)
    except Exception as error:  # of a model's provider, a parser, anything that a grader runs
        return None, f"{type(error).__name__}: {error}"
    value = None if outcome is None else outcome.value
    if value is None or value == NOANSWER or (isinstance(value, float) and math.isnan(value)):
        return None, "no grade" if outcome is None or outcome.explanation is None else outcome.explanation
    if not isinstance(value, str | bool | int | float):
        raise InputError(
            f"a grader of a jury gives {quote(value)}: each gives one value, and several questions are several scorers"
        )
    return value, None


def _fit(scores: Sequence[SampleScore]) -> Result | None:
    """Return the fit of all verdicts; None if there are none, or if they are numbers."""
    votes = []
    for task, sample in enumerate(scores):
        panel = (sample.score.metadata or {}).get(PANEL, {})
        for judge, value in zip(panel.get("judges", ()), panel.get("votes", ()), strict=True):
            if isinstance(value, float) and not value.is_integer():
                return None
            if value is not None:
                votes.append((task, judge, text_of(int(value) if isinstance(value, float) else value)))
    if not votes:
        return None
    with warnings.catch_warnings(action="ignore"):  # a metric has no place for them; `adjudge aggregate` shows them
        result: Result = aggregate(votes)
    return result
