"""Annotations that Label Studio posts as they are made, changed and deleted.

Label Studio sends headers that its users set: the token goes into `Authorization: Bearer TOKEN`. A vote's id names the
annotation, so that its deletion, which tells nothing but that number, finds the vote.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Annotated, Final

import msgspec

from quorate.errors import InputError, listed
from quorate.io.formats.label_studio import VOTES, Person, Result, options
from quorate.live.decision import Decision
from quorate.service.campaign import Campaign
from quorate.service.errors import Invalid, NotFound
from quorate.service.types import MAX_BATCH, MAX_ID, LabelStudioAnswer, VoteIn

MADE: Final = frozenset({"ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED"})
DELETED: Final = frozenset({"ANNOTATION_DELETED", "ANNOTATIONS_DELETED"})
REMEMBERED: Final = 100_000  # annotations whose votes are found without a look through the log
PREFIX: Final = "label-studio:"


class TaskKey(msgspec.Struct, frozen=True):
    """A task, of which only the number is looked at."""

    id: int | str


class Made(msgspec.Struct, frozen=True):
    """An annotation, as far as it is looked at."""

    id: int | str | None = None
    task: int | str | TaskKey | None = None
    completed_by: int | str | Person | None = None
    result: list[Result] | None = None
    was_cancelled: bool | None = None
    ground_truth: bool | None = None
    updated_at: str | None = None


class Incoming(msgspec.Struct, frozen=True):
    """What Label Studio posts; fields that are not named here are not looked at."""

    action: Annotated[str, msgspec.Meta(max_length=MAX_ID)]
    annotation: Made | None = None
    annotations: Annotated[list[Made], msgspec.Meta(max_length=MAX_BATCH)] = []
    task: int | str | TaskKey | None = None


class Votes:
    """Which vote an annotation has become: the latest ones, the others are in the log."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], tuple[str, str]] = OrderedDict()

    def remember(self, campaign: str, annotation: str, task: str, worker: str) -> None:
        """Note the vote of an annotation."""
        self._known[campaign, annotation] = task, worker
        self._known.move_to_end((campaign, annotation))
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    async def find(self, campaign: Campaign, annotation: str) -> tuple[str, str] | None:
        """Return task and worker of an annotation's vote; None where there is none."""
        known = self._known.pop((campaign.name, annotation), None)
        if known is not None:
            return known
        prefix, after = f"{PREFIX}{annotation}:", 0
        while True:
            page = await campaign.votes(after, MAX_BATCH)
            for vote in page.votes:
                if vote.id is not None and vote.worker is not None and vote.id.startswith(prefix):
                    return vote.task, vote.worker
            if page.next is None:
                return None
            after = page.next


def has_gold(incoming: Incoming) -> bool:
    """Return whether a webhook says what the true label of a task is."""
    return incoming.action in MADE and any(one.ground_truth for one in (incoming.annotation, *incoming.annotations) if one)


async def take(campaign: Campaign, incoming: Incoming, question: str | None, votes: Votes) -> LabelStudioAnswer:
    """Make of a webhook what it means: votes, changes, gold, retractions.

    - `campaign`: whose labels the choices are, by id or by name.
    - `incoming`: what was posted.
    - `question`: the control of the labelling interface that holds the label; None: the only one.
    - `votes`: which votes annotations have become.
    """
    made = [incoming.annotation] if incoming.annotation is not None else incoming.annotations
    if incoming.action in DELETED:
        return await _deleted(campaign, made, votes)
    if incoming.action not in MADE:
        return LabelStudioAnswer(skipped=[f"the action {incoming.action} says nothing about votes"])
    codes = {label.name: label.id for label in campaign.labels} | {label.id: label.id for label in campaign.labels}
    skipped: list[str] = []
    taken: list[VoteIn] = []
    gold: list[tuple[str, str]] = []
    for annotation in made:
        task, worker = _task(annotation, incoming), _worker(annotation)
        if annotation.was_cancelled:
            skipped.append("the annotation was skipped by its annotator")
            continue
        label = _label(annotation, question, codes, skipped)
        if label is None:
            continue
        if annotation.ground_truth:
            gold.append((task, label))
            continue
        name = f"{PREFIX}{annotation.id}:{annotation.updated_at or label}" if annotation.id is not None else ""
        taken.append(VoteIn(task, worker, label, name if 0 < len(name) <= MAX_ID and "\0" not in name else None))
        if annotation.id is not None:
            votes.remember(campaign.name, str(annotation.id), task, worker)
    decisions = [await campaign.gold(task, label) for task, label in gold]  # once nothing is wrong with any of them
    if not taken:
        return LabelStudioAnswer(skipped=skipped, decisions=decisions)
    answer = await campaign.vote(taken)
    return LabelStudioAnswer(
        accepted=answer.accepted, repeated=answer.repeated, skipped=skipped, decisions=decisions + answer.decisions
    )


async def _deleted(campaign: Campaign, made: list[Made], votes: Votes) -> LabelStudioAnswer:
    skipped: list[str] = []
    decisions: list[Decision] = []
    for annotation in made:
        if annotation.id is None:
            raise Invalid("an annotation that was deleted needs its id")
        found = await votes.find(campaign, str(annotation.id))
        if found is None:
            skipped.append("no vote came from a deleted annotation")
            continue
        try:
            decisions.append(await campaign.retract(*found))
        except NotFound:
            skipped.append("the vote of a deleted annotation was taken back already")
    return LabelStudioAnswer(retracted=len(decisions), skipped=skipped, decisions=decisions)


def _task(annotation: Made, incoming: Incoming) -> str:
    task = annotation.task if annotation.task is not None else incoming.task
    return _id(task.id if isinstance(task, TaskKey) else task, "task")


def _worker(annotation: Made) -> str:
    by: object = annotation.completed_by
    if isinstance(by, Person):
        by = next((one for one in (by.email, by.username, by.id) if one not in (None, "")), None)
    return _id(by, "completed_by")


def _id(value: object, what: str) -> str:
    text = "" if value is None else str(value)
    if not 0 < len(text) <= MAX_ID or "\0" in text:
        raise Invalid(f"an annotation needs {what}, of at most {MAX_ID} characters and without NUL")
    return text


def _label(annotation: Made, question: str | None, codes: dict[str, str], skipped: list[str]) -> str | None:
    """Return the id of the label that was chosen; None, and a word why, where there is none."""
    answers = [result for result in annotation.result or () if result.type in VOTES]
    questions = sorted({answer.from_name for answer in answers})
    if question is None and len(questions) > 1:
        raise Invalid(f"the annotation answers several questions ({listed(questions)}): choose one by ?question=")
    found = [options(answer.value) for answer in answers if question is None or answer.from_name == question]
    if len(found) != 1 or len(found[0]) != 1:
        skipped.append("the annotation has no choice" if not found else "the annotation has several choices, a vote has one")
        return None
    text = str(found[0][0])
    if text not in codes:
        raise Invalid(str(InputError(f"{text!r} is neither the id nor the name of a label")))
    return codes[text]
