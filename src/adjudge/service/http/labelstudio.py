"""Webhooks of Label Studio: what it posts when annotations are made, changed and deleted.

Label Studio posts each webhook once, waits a second for the answer, and looks at neither its status nor its body. So what is
skipped is logged and counted here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from adjudge.errors import itemize, quote
from adjudge.io.formats.label_studio import VOTE_RESULT_TYPES, Person, Result, options
from adjudge.service.http.annotations import Message, Skip, WebhookAnnotation, folding, plan
from adjudge.service.http.campaign import Campaign
from adjudge.service.http.errors import Invalid
from adjudge.service.http.types import MAX_BATCH, MAX_ID_CHARACTERS, LabelStudioAnswer
from adjudge.service.store.events import to_micros

MADE: Final = frozenset({"ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED"})
DELETED: Final = frozenset({"ANNOTATION_DELETED", "ANNOTATIONS_DELETED"})
TASKS_DELETED: Final = frozenset({"TASK_DELETED", "TASKS_DELETED"})
EXAMPLES_LOGGED: Final = 5  # skips of one reason in one webhook that are logged in full
LOGGER: Final = logging.getLogger(__name__)


class Key(msgspec.Struct, frozen=True):
    """A task or an annotation of which only the id matters."""

    id: int | str


class Made(msgspec.Struct, frozen=True):
    """An annotation, as far as it matters."""

    id: int | str | None = None
    task: int | str | Key | None = None
    completed_by: int | str | Person | None = None
    result: list[Result] | None = None
    was_cancelled: bool | None = None
    ground_truth: bool | None = None
    updated_at: str | None = None


Several = Annotated[list[Made], msgspec.Meta(max_length=MAX_BATCH)]


class Incoming(msgspec.Struct, frozen=True):
    """What Label Studio posts; other fields are ignored. Of `ANNOTATIONS_CREATED` the field `annotation` is a list."""

    action: Annotated[str, msgspec.Meta(max_length=MAX_ID_CHARACTERS)]
    annotation: Made | Several | None = None
    annotations: Several = []
    task: int | str | Key | list[Key] | None = None
    tasks: Annotated[list[Key], msgspec.Meta(max_length=MAX_BATCH)] = []

    @property
    def made(self) -> Sequence[Made]:
        """All annotations in it."""
        if self.annotation is None:
            return self.annotations
        return self.annotation if isinstance(self.annotation, list) else [self.annotation]


async def take(
    campaign: Campaign,
    incoming: Incoming,
    question: str | None,
    may_set_gold: Callable[[], None],
    on_skip: Callable[[str, str, int], None],
) -> LabelStudioAnswer:
    """Make votes and gold what Label Studio says they are, once that is on disk.

    - `campaign`: whose labels the choices are, by id or by name.
    - `incoming`: what was posted.
    - `question`: the control of the labelling interface that has the label; None: the only one.
    - `may_set_gold`: called before gold changes; raises if it may not.
    - `on_skip`: called with the campaign, a reason, and how much was skipped for it.
    """
    campaign.require_open()
    codes = {label.name: code for code, label in enumerate(campaign.labels)} | campaign.state.codes
    message = await asyncio.to_thread(read, incoming, codes, question)
    if not message:
        return LabelStudioAnswer(skipped=_report_skips(campaign, message.skipped, on_skip))
    campaigns = campaign.campaigns
    async with campaign.annotating:  # the next webhook has to see what this one writes
        await campaigns.commit()
        planned = await asyncio.to_thread(plan, campaigns.store, campaign.number, message, campaign.names.numbers, campaign.now())
        outcome = await campaign.in_turn(folding(campaign, planned, may_set_gold))
    campaign.repeated += planned.repeated
    await campaigns.commit()
    return LabelStudioAnswer(
        accepted=outcome.accepted,
        repeated=planned.repeated,
        retracted=outcome.retracted,
        skipped=_report_skips(campaign, planned.skipped, on_skip),
        decisions=outcome.decisions,
    )


def read(incoming: Incoming, codes: Mapping[str, int], question: str | None) -> Message:
    """Return what a webhook says.

    - `incoming`: what was posted.
    - `codes`: of labels, by id and by name.
    - `question`: the control that has the label; None: the only one.
    """
    message, action = Message(), incoming.action
    if action in MADE:
        for made in incoming.made:
            label = _label(made, question, codes, message.skipped)
            task, worker = _task(made, incoming), _worker(made)
            annotation = _id(made.id, "id")
            message.said.append(
                WebhookAnnotation(annotation, task, worker, label, bool(made.ground_truth), _micros(made.updated_at))
            )
    elif action in DELETED:
        message.deleted = [_id(made.id, "id") for made in incoming.made]
    elif action in TASKS_DELETED:
        single = incoming.task
        tasks = [*incoming.tasks, *(single if isinstance(single, list) else () if single is None else (single,))]
        message.deleted_tasks = [_id(task.id if isinstance(task, Key) else task, "task") for task in tasks]
    else:
        message.skipped.append(Skip("action", f"the action {action} says nothing about votes"))
        return message
    if not message:
        message.skipped.append(Skip("nothing", f"{action} names nothing: Label Studio posted it without a payload"))
    return message


def _report_skips(campaign: Campaign, skipped: list[Skip], on_skip: Callable[[str, str, int], None]) -> list[str]:
    """Log and count what was skipped; return the sentences."""
    for reason, count in Counter(skip.reason for skip in skipped).items():
        on_skip(campaign.name, reason, count)
        examples = [skip.text for skip in skipped if skip.reason == reason][:EXAMPLES_LOGGED]
        LOGGER.info(
            "skipped of a Label Studio webhook",
            extra={"campaign": campaign.name, "reason": reason, "count": count, "detail": "; ".join(examples)},
        )
    return [skip.text for skip in skipped]


def _task(annotation: Made, incoming: Incoming) -> str:
    task = annotation.task if annotation.task is not None else incoming.task
    return _id(task.id if isinstance(task, Key) else None if isinstance(task, list) else task, "task")


def _worker(annotation: Made) -> str:
    by: object = annotation.completed_by
    if isinstance(by, Person):
        by = next((identity for identity in (by.email, by.username, by.id) if identity not in (None, "")), None)
    return _id(by, "completed_by")


def _id(value: object, field: str) -> str:
    text = "" if value is None else str(value)
    if not 0 < len(text) <= MAX_ID_CHARACTERS or "\0" in text:
        raise Invalid(f"an annotation needs {field}, of at most {MAX_ID_CHARACTERS} characters and without NUL")
    return text


def _micros(text: str | None) -> int | None:
    """Return a time as JSON has it in microseconds since 1970; None if there is none."""
    if text is None:
        return None
    try:
        return to_micros(text)
    except msgspec.ValidationError:
        raise Invalid(f"updated_at of an annotation is {quote(text)}: give a time such as 2026-01-31T12:00:00Z") from None


def _label(annotation: Made, question: str | None, codes: Mapping[str, int], skipped: list[Skip]) -> int | None:
    """Return the code of the label that was chosen; None, and the reason, if the annotation is not a vote."""
    name = f"annotation {annotation.id}"
    if annotation.was_cancelled:
        skipped.append(Skip("cancelled", f"{name} was skipped by its annotator"))
        return None
    answers = [result for result in annotation.result or () if result.type in VOTE_RESULT_TYPES]
    questions = sorted({answer.from_name for answer in answers})
    if question is None and len(questions) > 1:
        raise Invalid(f"the annotation answers several questions ({itemize(questions)}): choose one by ?question=")
    chosen = [options(answer.value) for answer in answers if question is None or answer.from_name == question]
    if not chosen or chosen == [[]]:
        skipped.append(Skip("empty", f"{name} has no choice"))
        return None
    if len(chosen) != 1 or len(chosen[0]) != 1:
        skipped.append(Skip("several", f"{name} has several choices, a vote has one"))
        return None
    text = str(chosen[0][0])
    if text not in codes:
        skipped.append(Skip("label", f"{name} has the choice {quote(text)}, which is neither the id nor the name of a label"))
        return None
    return codes[text]
