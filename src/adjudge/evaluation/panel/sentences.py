"""What a study of panels says, in sentences: the answer first, and what it rests on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from adjudge.errors import InputError
from adjudge.evaluation.panel.judges import ADDS, NOTHING, REPEATS

if TYPE_CHECKING:
    from adjudge.evaluation.panel.curve import Point
    from adjudge.evaluation.panel.study import PanelStudy


def sentences(study: PanelStudy) -> list[str]:
    """Return the sentences of a study."""
    return [line for line in (answer(study), choice(study), worth(study), additions(study), basis(study), doubt(study)) if line]


def answer(study: PanelStudy) -> str:
    """Return how many are enough."""
    found = next(point for point in study.points if point.size == study.enough)
    whole = study.points[-1]
    if found.size == whole.size:
        before = study.points[-2] if len(study.points) > 1 else None
        missed = "" if before is None else f"; {_thing(study, before.size)} {_are(before.size)} {_short(before)}"
        # Chosen judges may do with fewer, as the next sentence says.
        every = f"Taken at random, all {_thing(study, whole.size)}" if study.by == "judges" else "All votes"
        return f"{every} are needed: together they are {_right(study)} {_share(whole.accuracy)}{missed}."
    shown = f"random panels of {found.size}" if study.by == "judges" else f"labels of {found.size} random votes per task"
    every = f"all {whole.size} judges" if study.by == "judges" else "all votes"
    return (
        f"{_thing(study, found.size)} {_are(found.size)} enough: {shown} are {_right(study)} {_share(found.accuracy)}, "
        f"{every} {_share(whole.accuracy)} ({_short(found)})."
    )


def choice(study: PanelStudy) -> str:
    """Return which panel to take; for a crowd, only where there is a budget."""
    if not study.chosen and study.budget is None:
        return ""
    money = "" if study.budget is None else f" for {study.budget:g} per task"
    try:
        best = study.best()
    except InputError as error:
        return f"No panel{money}: {error}."
    cost = "" if best.cost is None else f", at {best.cost:.3g} per task"
    if not study.chosen:
        return f"The best{money}: {best.size} votes per task ({_share(best.accuracy)} right{cost})."
    codes = study.workers.codes(best.workers).tolist()
    how = f"{_share(best.accuracy)} right on tasks that the choice has not seen, {_share(best.low)} to {_share(best.high)}{cost}"
    return f"The best panel{money} has {best.size} chosen judge{'' if best.size == 1 else 's'}: {study.names(codes)} ({how})."


def worth(study: PanelStudy) -> str:
    """Return how many independent votes all votes are worth."""
    whole = study.points[-1]
    if whole.effective_votes != whole.effective_votes:
        return ""
    against = "the truth" if study.measured_by == "truth" else "majority vote"
    each = f"{whole.votes_per_task:.3g} votes per task carry the weight of {whole.effective_votes:.3g} independent ones"
    limit = "" if math.isinf(study.ceiling) else f"; more of the same kind never reach {study.ceiling:.3g}"
    return f"{each}, by their errors against {against}{limit}."


def additions(study: PanelStudy) -> str:
    """Return how many workers add something, and who adds nothing."""
    counted = study.words()
    if not counted:
        return ""
    said = ", ".join(f"{number} {word if word != ADDS or number == 1 else 'add'}" for word, number in counted.items())
    said = said.replace(NOTHING, "add nothing" if counted.get(NOTHING, 0) > 1 else NOTHING)
    said = said.replace(REPEATS, "repeat another" if counted.get(REPEATS, 0) > 1 else "repeats another")
    codes = [one.worker for one in reversed(study.found) if one.word == NOTHING]
    named = f"; nothing is added by {study.names(codes)}" if codes else ""
    return f"Of {len(study.found)} {'judges' if study.by == 'judges' else 'workers'}: {said}{named}."


def basis(study: PanelStudy) -> str:
    """Return what was drawn and looked at."""
    most = max(point.panels for point in study.points)
    least = min(point.panels for point in study.points[:-1]) if len(study.points) > 1 else most
    number = f"{most}" if least == most else f"{least} to {most}"
    drawn = f"{number} random panels of each size" if study.by == "judges" else f"{number} random draws of votes for each size"
    tasks = f"{study.judged_tasks} tasks" + (" with truth" if study.measured_by == "truth" else "")
    some = "" if study.sampled_from is None else f", votes of {study.tasks} of {study.sampled_from} tasks"
    return f"Looked at: {drawn}, labelled by {study.model}, measured on {tasks}{some}."


def doubt(study: PanelStudy) -> str:
    """Return what an estimate without truth cannot know."""
    if study.measured_by == "truth":
        return ""
    return (
        "Accuracy is an estimate: without truth, labels are measured by what all votes together say. A judge who alone is right "
        "looks useless, and errors that all share are not seen."
    )


def _thing(study: PanelStudy, size: int) -> str:
    if study.by == "judges":
        return f"{size} judge{'' if size == 1 else 's'}"
    return f"{size} vote{'' if size == 1 else 's'} per task"


def _are(size: int) -> str:
    return "is" if size == 1 else "are"


def _right(study: PanelStudy) -> str:
    return "right on" if study.measured_by == "truth" else "expected to be right on"


def _share(share: float) -> str:
    return f"{100 * share:.1f}%"


def _short(point: Point) -> str:
    gap = point.shortfall
    sign, than = (100, "short of") if gap.value >= 0 else (-100, "above")
    low, high = sorted((sign * gap.low, sign * gap.high))
    return f"{sign * gap.value:.1f} points {than} all, 90% interval {low:.1f} to {high:.1f}"
