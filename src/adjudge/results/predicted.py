"""Labels of other votes under a model that was learned before: nothing is learned from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast, get_args

from adjudge.data.fit import Fit
from adjudge.data.options import Choice, Confidence
from adjudge.data.votes import Votes
from adjudge.data.weights import pairs_of, require_unweighted
from adjudge.engines.base import Engine
from adjudge.engines.registry import resolve
from adjudge.errors import OptionError, PosteriorConfidence, warn
from adjudge.io.encode import over_labels
from adjudge.io.exclude import require_in_memory
from adjudge.io.groups import group_votes
from adjudge.io.sources import Source
from adjudge.results.honest import predicted_fit
from adjudge.results.knowledge import Learned, transfer
from adjudge.results.result import Result
from adjudge.results.temperature import tempered_fit

LACKING: Final = "saved without what honest confidence needs: fit it again with honest confidence, and save it"


def predicted(
    learned: Learned,
    source: Votes | Source,
    engine: str | Engine = "auto",
    threads: int | None = None,
    confidence: Confidence | None = None,
    **reading: Any,
) -> Result:
    """Return the labels of votes under a model that was learned on others, with its confidence unless another is given.

    Votes of members of its groups count as theirs. `reading` has the options of `read`.
    """
    honest, place, grouping = _is_honest(learned, confidence), resolve(engine, threads, source=source), None
    if learned.groups:
        require_in_memory("a model with groups", place, "group the votes first")
    votes = place.read(source, **reading)
    if votes.n_rows and not len(votes.workers):
        raise OptionError(
            f"predict needs the workers of the votes in one process, and those of {votes.n_rows} rows stay on the executors: "
            "give the votes of some tasks at a time, or SparkEngine(rows='driver') where they fit"
        )
    if learned.groups:
        require_unweighted(votes, "a model with groups")
        grouping = group_votes(votes, learned.groups, strict=False)
        votes = grouping.votes
    votes = over_labels(votes, learned.knowledge.labels, "model")
    given = learned.settings
    session = place.load(votes, seed=cast(int, given["seed"]), ties=cast(str, given["ties"]))
    if honest and not hasattr(session, "honest"):
        raise OptionError(f"honest confidence does not run on engine {place.name!r} yet: ask for confidence='posterior'")
    params, worker = transfer(learned, pairs_of(votes))
    session.adopt(lambda _: params, learned.priors)
    if learned.scoring == "heads":
        outcome = session.majority()
    elif learned.scoring == "weight":
        outcome = session.weighted_majority()
    else:
        session.e_step(hard=False, last=True)
        outcome = session.finish()
    fit = Fit(outcome, params, session.estimate().statistics, worker_columns={"known": worker >= 0})
    if learned.scoring == "ordinal":
        from adjudge.results.graded import grade_columns, grades_learned

        fit = replace(fit, task_columns=grade_columns(session, grades_learned(learned.knowledge, given)))
    if honest:
        fit = predicted_fit(fit, session, learned.knowledge, worker, learned.facts)
    if honest or "holds" not in learned.facts:  # a temperature is of the confidence that it was fitted on
        fit = tempered_fit(fit, session, learned.temperature)
    result = getattr(session, "result", Result)  # an engine far away has results of its own
    return result(session.votes, fit, session, learned.model, given, learned.scoring, used=learned, grouping=grouping)


def _is_honest(learned: Learned, confidence: Confidence | None) -> bool:
    """Return whether predictions of a model have honest confidence: as asked for, or as it was fitted."""
    if confidence is not None:
        Choice(get_args(Confidence)).check("confidence", confidence)
    can_be = "holds" in learned.facts
    if confidence == "honest" and not can_be:
        raise OptionError(f"confidence is 'honest', but the model was {LACKING}")
    if confidence is None and not can_be and learned.facts.get("confidence") != "posterior":
        message = f"the model was {LACKING}; until then confidence is its posterior, which is too sure"
        warn(message, PosteriorConfidence)
    return can_be and confidence != "posterior"
