"""Advice in words: which model to take, and what speaks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from adjudge.errors import listed
from adjudge.evaluation.compare.choice import Choice
from adjudge.evaluation.compare.disagreement import Overruled
from adjudge.evaluation.compare.judged import LEVEL, Known, Pairs, Scores
from adjudge.evaluation.compare.stability import PARTS

WORTH: Final = 0.02  # a difference in accuracy that is worth finding
POWER: Final = (1.96 + 0.84) ** 2  # of finding it in four cases of five, at the level of 5%


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of the models when advice is given."""

    tasks: int  # with votes
    workers: int
    names: Sequence[str]  # of the models that ran
    facts: Mapping[str, Any]
    differing: Mapping[tuple[str, str], int]  # tasks on which every two differ
    overruled: Overruled
    stable_workers: Mapping[str, float]
    stable_tasks: Mapping[str, float]
    notes: Sequence[str]  # what went wrong, a sentence each

    def apart(self, a: str, b: str) -> int:
        """Return on how many tasks two models give different labels."""
        return 0 if a == b else self.differing[(a, b) if (a, b) in self.differing else (b, a)]


def with_truth(choice: Choice, scores: Mapping[str, Scores], pairs: Pairs, known: Known, folds: int, seen: Evidence) -> list[str]:
    """Return what known labels say, the advice first."""
    best, own, what = choice.best, scores[choice.best], f"the {number(len(known), 'task')} with {known.source}"
    out = [f"Take {best}: {_why(choice, scores, pairs, what)}."]
    if best != "mv" and "mv" in scores:
        out.append(_against_majority(best, scores, pairs))
    below = [name for name in scores if is_below(name, choice.highest, pairs)]
    of = f"{choice.highest}, which is right most often" if best != choice.highest else best
    corrected = f" (corrected for {len(pairs.names)} comparisons)" if len(pairs.names) > 1 else ""
    if below:
        out.append(f"Significantly below {of}{corrected}: {listed(below)}.")
    elif len(scores) > 1:
        out.append(f"No model is significantly below {of}{corrected}.")
    wrong = own.tasks - own.right
    if own.expected_wrong == own.expected_wrong:
        out.append(f"On these tasks the confidence of {best} foretells {own.expected_wrong:.0f} wrong labels; {wrong} are wrong.")
    if folds:
        out.append(
            f"Every judged label was found without the gold of its own part, one of {folds}; the final fits learn from all gold. "
            "For other tasks this holds as far as the gold was drawn from them at random."
        )
    return [*out, *seen.notes]


def without_truth(best: str, seen: Evidence) -> list[str]:
    """Return what the votes alone say, the advice first."""
    why = seen.facts.get("why")
    reason = f" ({why})" if best == "auto" and why else ""
    out = [
        f"Take {best}{reason}: it is the cautious choice. Nothing that votes alone tell says which model is most accurate; "
        "truth or gold of some tasks does."
    ]
    if {"shared_error", "effective_votes"} <= seen.facts.keys():
        rho, spread, effective = (float(seen.facts[name]) for name in ("shared_error", "skill_spread", "effective_votes"))
        out.append(
            f"Measured: errors that workers share {rho:.2f}, spread of skill {spread:.2f}; the {_per_task(seen.facts)} votes per "
            f"task are worth {effective:.1f} independent ones."
        )
    disputed = seen.overruled.tasks
    out.append(
        f"Some model differs from majority vote on {disputed} of {number(seen.tasks, 'task')} "
        f"({disputed / max(seen.tasks, 1):.1%}); on the others all agree."
        if disputed
        else f"Every model gives the labels of majority vote ({number(seen.tasks, 'task')}): the choice does not matter here."
    )
    overruling = _overruling(best, seen)
    if overruling:
        out.append(overruling)
    return [*out, *_stable(best, seen), *_needed(best, seen), *seen.notes]


def _stable(best: str, seen: Evidence) -> list[str]:
    """Return how far the labels of a model hold without some workers, and without some tasks."""
    out, stable = [], seen.stable_workers
    if not np.isnan(stable[best]):
        least = min(stable, key=lambda name: stable[name])
        beside = f" (least: {least}, {stable[least]:.1%})" if least != best else ""
        some = "a fifth of the workers" if seen.workers >= PARTS else "one of the workers"
        out.append(f"Without {some} {best} keeps {stable[best]:.1%} of its labels{beside}.")
    if not np.isnan(seen.stable_tasks[best]):
        some = "a fifth of the tasks" if seen.tasks >= PARTS else "one of the tasks"
        who = "it" if out else best
        out.append(f"Without {some} {who} keeps {seen.stable_tasks[best]:.1%} of the others' labels.")
    return [" ".join(out)] if out else []


def _why(choice: Choice, scores: Mapping[str, Scores], pairs: Pairs, what: str) -> str:
    """Return why known labels speak for a model."""
    best, cautious, highest = choice.best, choice.cautious, choice.highest
    own = scores[best]
    span = _interval(own.accuracy_low, own.accuracy_high, "%")
    figure = f"it is right on {own.accuracy:.1%} of {what}{span}"
    if best != cautious:
        found, _ = pairs.between(best, cautious)
        sure = "" if found.p_value < LEVEL else f", though that may be chance ({_chance(found.p_value)})"
        return f"{figure}, {_points(found.difference)} more than {cautious}{sure}"
    if highest != best:
        found, _ = pairs.between(highest, best)
        return f"{figure}; {highest} is right on {_points(found.difference)} more, too little on so few tasks to prefer it"
    return f"{figure}, and no other model on more" if len(scores) > 1 else figure


def _against_majority(best: str, scores: Mapping[str, Scores], pairs: Pairs) -> str:
    """Return how majority vote does beside a model: one comparison, which is not corrected for the others."""
    found, _ = pairs.between("mv", best)
    value, accuracy = found.difference.value, scores["mv"].accuracy
    if value == 0:
        return f"Majority vote is right as often ({accuracy:.1%})."
    apart = found.difference if value > 0 else pairs.between(best, "mv")[0].difference
    return (
        f"Majority vote is right on {accuracy:.1%}: {_points(apart)} {'more' if value > 0 else 'less'}, {_chance(found.p_value)}."
    )


def is_below(name: str, highest: str, pairs: Pairs) -> bool:
    """Return whether a model is significantly less accurate than the one with the highest accuracy."""
    if name == highest:
        return False
    found, adjusted = pairs.between(highest, name)
    return found.difference.value > 0 and adjusted < LEVEL


def _overruling(best: str, seen: Evidence) -> str | None:
    """Return on what evidence a model overrules majority vote; None where it does not."""
    lines = seen.overruled.said.get(best)
    if lines is None or not lines.any():
        return f"{best} gives the label of majority vote everywhere." if best != "mv" and seen.overruled.tasks else None
    tasks = number(int(lines.sum()), "task")
    own, other = seen.overruled.for_label.accuracy[lines], seen.overruled.for_majority.accuracy[lines]
    voted = float(seen.overruled.for_label.votes[lines].mean()), float(seen.overruled.for_majority.votes[lines].mean())
    if np.isnan(own).all():
        return f"{best} overrules majority vote on {tasks}, for labels that nobody gave there."
    return (
        f"{best} overrules majority vote on {tasks}: in the mean {voted[0]:.1f} votes of workers whose accuracy "
        f"it estimates at {np.nanmean(own):.0%} against {voted[1]:.1f} votes of workers at {np.nanmean(other):.0%}."
    )


def _needed(best: str, seen: Evidence) -> list[str]:
    """Return how many tasks with truth would show a difference that is worth finding."""
    others = [name for name in seen.names if name != best]
    if not others:
        return []
    other = max(others, key=lambda name: seen.apart(best, name))
    share = seen.apart(best, other) / max(seen.tasks, 1)
    if not share:  # which was said
        return []
    if share <= WORTH:
        return [f"No model differs from {best} on more than {share:.1%} of the tasks, so none can be far better."]
    needed = int(np.ceil(POWER * (share - WORTH**2) / WORTH**2))
    rounded = int(round(needed, 1 - len(str(needed))))
    return [
        f"To see a difference of {WORTH * 100:.0f} points between {best} and {other}, which differ most, it takes the truth of "
        f"about {rounded} tasks drawn at random{', more than there are' if rounded > seen.tasks else ''}."
    ]


def _chance(p_value: float) -> str:
    """Return a p-value as people read it.

    >>> _chance(0.62), _chance(0.0123), _chance(1e-9)
    ('p = 0.62', 'p = 0.012', 'p < 0.001')
    """
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2f}" if p_value >= 0.1 else f"p = {p_value:.3f}"


def _points(apart: Any) -> str:
    """Return a difference of accuracies in points, with its interval."""
    return f"{apart.value * 100:.1f} points{_interval(apart.low, apart.high)}"


def _interval(low: float, high: float, unit: str = "") -> str:
    low, high = (round(bound * 100, 1) + 0.0 for bound in (low, high))  # no "-0.0"
    return "" if low != low else f" ({low:.1f}{unit} to {high:.1f}{unit})"


def number(n: int, thing: str) -> str:
    """Return how many things there are.

    >>> number(1, "task"), number(3, "task")
    ('1 task', '3 tasks')
    """
    return f"{n} {thing}{'s' * (n != 1)}"


def _per_task(facts: Mapping[str, Any]) -> str:
    return f"{float(facts['votes_per_task']):.1f}" if "votes_per_task" in facts else ""
