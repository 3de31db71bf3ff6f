"""Feedback of LangSmith, as its API and `Client.list_feedback` return it: JSON, JSON lines, a frame or records.

A key is a question if the source names a user; otherwise the key stands for the judge. Feedback with neither a value nor a score
is an abstention. Feedback that compares runs, or is given to a whole project, is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from adjudge.io.formats.export import Ask, Extract
from adjudge.io.formats.registry import Content, join_names
from adjudge.io.formats.verdicts import Verdicts, judge_of

COMPARISONS: Final = "comparisons of runs"
PROJECT_FEEDBACK: Final = "feedback on a whole project"


class FeedbackSource(msgspec.Struct, gc=False):
    """Where feedback comes from."""

    type: str | None = None
    user_id: str | None = None
    user_name: str | None = None


class RunFeedback(msgspec.Struct, gc=False):
    """Feedback on a run."""

    key: str
    run_id: str | None = None
    trace_id: str | None = None
    score: float | bool | None = None
    value: Any = None
    feedback_source: FeedbackSource | None = None
    feedback_group_id: str | None = None
    comparative_experiment_id: str | None = None


def read_all(contents: Sequence[Content], ask: Ask) -> Extract:
    """Return the feedback on runs."""
    verdicts = Verdicts(ask, join_names(contents))
    for content in contents:
        for feedback in content.decoded(RunFeedback):
            run = feedback.run_id or feedback.trace_id
            if feedback.feedback_group_id or feedback.comparative_experiment_id:
                verdicts.skipped[COMPARISONS] += 1
            elif run is None:
                verdicts.skipped[PROJECT_FEEDBACK] += 1
            else:
                source = feedback.feedback_source or FeedbackSource()
                user = source.user_name or source.user_id
                value = None if isinstance(feedback.value, dict) else feedback.value  # details of the score
                judge = user or judge_of(feedback.key, source.type)
                verdicts.add_scored(feedback.key, judge, run, value, feedback.score, is_question=user is not None)
    return verdicts.extract({"task": "run_id", "worker": "feedback_source", "label": "value"})
