"""Request and response bodies; the OpenAPI description is generated from them.

An id is any text of 1 to 256 characters without NUL. Unknown fields are refused, so that typos are never ignored.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from adjudge.service.campaigns.audits import TriedAudits
from adjudge.service.campaigns.decision import Decision, Status

MAX_ID_CHARACTERS: Final = 256  # characters
MAX_BATCH: Final = 10_000  # votes, or workers, in one request
MAX_PAGE: Final = 10_000  # rows of one page
MAX_LABELS_PER_CAMPAIGN: Final = 1000
MAX_TEXT_CHARACTERS: Final = 2000  # characters of a reason
MAX_ITEM_BYTES: Final = 16_000  # of a task's item as JSON
MAX_POSITION: Final = 2**63 - 1

Meta = msgspec.Meta
_NO_NUL: Final = {"pattern": "^[^\\u0000]*$"}  # for the description only: `parsing.py` checks the whole body at once


def says(text: str) -> Meta:
    """Return a description of a field, for people who read the interface's description."""
    return Meta(description=text)


Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_ID_CHARACTERS, extra_json_schema=_NO_NUL)]
Text: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT_CHARACTERS, extra_json_schema=_NO_NUL)]
Position: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_POSITION)]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_PAGE)]
Place: TypeAlias = Annotated[str, Meta(pattern="^[0-9]{1,18}([.][0-9]{1,9})?$")]  # in the decisions: see feed.py
Secret: TypeAlias = Annotated[str, Meta(min_length=16, max_length=MAX_ID_CHARACTERS, extra_json_schema=_NO_NUL)]
Cursor: TypeAlias = Annotated[str, Meta(min_length=1, max_length=4 * MAX_ID_CHARACTERS, extra_json_schema=_NO_NUL)]
Host: TypeAlias = Annotated[str, Meta(pattern="^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[0-9]{1,5})?$")]
Interval: TypeAlias = Annotated[tuple[float, ...], Meta(min_length=2, max_length=2)]
ModelChoice: TypeAlias = Literal["fds", "ds", "hybrid", "auto"]
Document: TypeAlias = dict[str, Any]


class _In(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of what requests carry."""


class _Out(msgspec.Struct, frozen=True):
    """Base of what answers hold."""


# --- campaigns


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A label: votes carry its id, which stays; people read its name, which may change."""

    id: Id
    name: Id


class CampaignSpec(_In, frozen=True, kw_only=True):
    """What a campaign is made of. The same content again changes nothing; other content is a conflict."""

    labels: Annotated[
        list[Id | Label],
        Meta(
            min_length=2, max_length=MAX_LABELS_PER_CAMPAIGN, description="Ids, or ids with names; an id alone is its own name."
        ),
    ]
    model: Annotated[ModelChoice, says("Of the stream; auto: the stream is fds, refits choose for themselves.")] = "fds"
    policy: Annotated[Document, says("When a task is decided, as a policy document; {} is the default policy.")] = {}
    settings: Annotated[Document, says("Options of the stream: seed, strength, confidence.")] = {}
    refit: Annotated[Document, says("When votes are fitted again in the background: votes, share, seconds.")] = {}
    retention: Annotated[
        Document, says("How long tasks stay in memory: tasks, waiting, days; and votes at all: votes_days.")
    ] = {}

    def pairs(self) -> list[tuple[str, str]]:
        """Return (id, name) of every label.

        >>> CampaignSpec(labels=["spam", Label("ok", "Fine")]).pairs()
        [('spam', 'spam'), ('ok', 'Fine')]
        """
        return [(label, label) if isinstance(label, str) else (label.id, label.name) for label in self.labels]


class CampaignChange(_In, frozen=True, kw_only=True):
    """What of a campaign is to change; what is left out stays."""

    names: Annotated[dict[Id, Id], says("New names of labels, by id.")] = {}
    refit: Document | None = None
    retention: Document | None = None
    image_hosts: Annotated[
        Annotated[list[Host], Meta(max_length=50)] | None, says("Hosts from which the page loads images of items, over https.")
    ] = None


class CampaignView(_Out, frozen=True, kw_only=True):
    """A campaign as it stands."""

    name: str
    labels: list[Label]
    model: ModelChoice
    policy: Annotated[int, says("The version that holds.")]
    settings: Document = {}
    refit: Document = {}
    retention: Document = {}
    image_hosts: list[str] = []
    position: Annotated[int, says("Of the last event in the log.")]
    begins: Annotated[int, says("Of the first event that is kept: those before have expired.")] = 1
    votes: Annotated[int, says("In force.")] = 0
    workers: int = 0
    tasks: Annotated[dict[str, int], says("In memory, by status.")] = {}
    archived: Annotated[int, says("Tasks that have left memory; they come back when they are touched.")] = 0
    breaker: Annotated[str | None, says("Why automatic decisions are held; None: they are not.")] = None
    warning: Annotated[str | None, says("Why the policy decides nothing; None: it can.")] = None


class CampaignsAnswer(_Out, frozen=True):
    """Every campaign that the token reaches."""

    campaigns: list[str]


class LabelChange(_In, frozen=True):
    """The new name of a label."""

    name: Id


class LabelsAnswer(_Out, frozen=True):
    """All labels of a campaign, in the order in which they were added."""

    labels: list[Label]


# --- votes


class VoteIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One vote. With an `id`, sending it again is safe even after the worker has changed their mind."""

    task: Id
    worker: Id
    label: Id
    id: Id | None = None
    data: Annotated[Any, says("The item, for a task that has none yet: any JSON up to 16 kB.")] = None


Votes: TypeAlias = VoteIn | Annotated[list[VoteIn], Meta(max_length=MAX_BATCH)]


class VoteAnswer(msgspec.Struct, frozen=True, gc=False):
    """What became of votes: those taken are on disk."""

    accepted: Annotated[int, says("New votes, and votes that changed an earlier one.")]
    repeated: Annotated[int, says("Votes that were there already: nothing changed.")]
    decisions: Annotated[list[Decision], says("One per task that was touched, as it stands after all of these votes.")]


class VoteKey(_In, frozen=True):
    """Whose vote on what."""

    task: Id
    worker: Id


class VoteRow(_Out, frozen=True, kw_only=True):
    """A vote that is in force."""

    task: str
    worker: Annotated[str | None, says("None: the worker's name was erased.")]
    label: str
    position: Annotated[int, says("Of the event that made it.")]
    time: datetime
    id: str | None = None
    counts: Annotated[bool, says("False: the worker is banned, or on probation.")] = True


class VotesPage(_Out, frozen=True):
    """Votes in force, in the order of the log; `next` is the `after` of the next page, None on the last."""

    votes: list[VoteRow]
    next: int | None


class StreamError(_Out, frozen=True):
    """A line of a stream that was rejected; the stream continues."""

    error: str
    line: Annotated[int, says("From 1.")]
    detail: str


# --- tasks


class Ballot(_Out, frozen=True, kw_only=True):
    """A vote on a task, and its weight in the decision."""

    worker: Annotated[str | None, says("None: the worker's name was erased.")]
    label: str
    counts: Annotated[bool, says("False: the worker is banned, or on probation.")] = True
    accuracy: Annotated[float | None, says("How often the worker is right, as `WorkerView` has it.")] = None
    group: str | None = None
    expert: bool = False


class TaskItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task, and what people look at to decide it: `text`, `url`, `image_url`, or any JSON up to 16 kB."""

    task: Id
    data: Any


class TasksIn(_In, frozen=True):
    """Tasks that wait for votes, as ids or with their items; those that are there already stay as they are."""

    tasks: Annotated[list[Id | TaskItem], Meta(min_length=1, max_length=MAX_BATCH)]


class TaskView(_Out, frozen=True, kw_only=True):
    """A task: what is decided, how likely every label is, and why."""

    task: str
    decision: Decision
    posterior: Annotated[dict[str, float], says("How likely each label is, by its id; they add up to 1.")]
    evidence: Annotated[list[Ballot], says("Every vote in force.")]
    why: Annotated[list[str], says("Sentences: which rules of the policy are met, and which are not yet.")] = []
    gold: Annotated[str | None, says("The true label, if it is known.")] = None
    tie: Annotated[bool, says("Two labels are equally likely.")] = False
    opened: datetime | None = None
    touched: datetime | None = None
    archived: Annotated[bool, says("It has left memory, and comes back when it is touched.")] = False
    data: Annotated[Any, says("The item that was sent with the task; null without one.")] = None


class TasksPage(_Out, frozen=True):
    """Decisions of tasks in the order asked for; `next` is the `after` of the next page, None on the last."""

    tasks: list[Decision]
    next: str | None


class HistoryAnswer(_Out, frozen=True):
    """Every decision on a task, oldest first."""

    decisions: list[Decision]


class DecisionsPage(_Out, frozen=True):
    """Decisions in the order of the log; `next` is the `after` of the next page, None on the last."""

    decisions: list[Decision]
    next: str | None


class GoldIn(_In, frozen=True):
    """The true label of a task."""

    label: Id


class ReopenIn(_In, frozen=True, kw_only=True):
    """Who asks for another look, and why."""

    by: Id | None = None
    reason: Text | None = None
    position: Annotated[
        Position | None, says("Of the decision that they saw: if there is another since, nothing is done, and the answer is 409.")
    ] = None


class OverrideIn(ReopenIn, frozen=True, kw_only=True):
    """A person's decision."""

    label: Id


class QueueTask(_Out, frozen=True, kw_only=True):
    """A task that waits for a person, and nothing of what is known of it."""

    task: str
    data: Annotated[Any, says("The item that was sent with the task; null without one.")] = None


class QueueAnswer(_Out, frozen=True):
    """Tasks that wait for a person: escalated ones and audits, the longest waiting first."""

    tasks: list[QueueTask]


class JudgmentIn(_In, frozen=True, kw_only=True):
    """What a person makes of a task from the queue."""

    task: Id
    label: Id
    by: Annotated[Id | None, says("Who; without it, the name of the token.")] = None


class AuditsView(_Out, frozen=True, kw_only=True):
    """Audits of automatic decisions."""

    share: Annotated[float, says("Of the automatic decisions that are drawn.")]
    error: Annotated[float, says("Error rate that the policy accepts.")]
    decisions: Annotated[int, says("Automatic decisions since audits began.")]
    drawn: int
    waiting: Annotated[int, says("Audits without an answer yet.")]
    audited: Annotated[int, says("Judged decisions, those without an answer at the deadline among them.")]
    wrong: Annotated[int, says("Of these.")]
    expired: Annotated[int, says("Of the wrong ones: those without an answer at the deadline.")]
    rate: Annotated[float | None, says("Share of wrong decisions; None before the first is judged.")] = None
    interval: Annotated[
        Interval, says("Bounds of the mean error rate. At any time, each of the two fails with at most the probability `risk`.")
    ]
    alarm: Annotated[float, says("How near the alarm is: it is raised at 1.")]
    alarmed: bool


# --- workers


class BanView(_Out, frozen=True, kw_only=True):
    """What a worker was banned for: the figures at the moment of the ban, who banned them, and why."""

    time: datetime
    votes: Annotated[int, says("In force then.")]
    accuracy: float | None = None
    interval: Interval | None = None
    by: str | None = None
    reason: str | None = None


class WorkerView(_Out, frozen=True, kw_only=True):
    """What is known of a worker."""

    worker: str | None
    votes: Annotated[int, says("In force.")]
    accuracy: Annotated[
        float | None, says("How often they are right, expected: now, or when they were banned. None: no vote of theirs counts.")
    ] = None
    interval: Annotated[Interval | None, says("Low and high: holds their accuracy with a chance of .9.")] = None
    confusion: Annotated[
        dict[str, dict[str, float]] | None, says("How often they give a label, by true label, then given label.")
    ] = None
    recent: Annotated[float | None, says("How likely their latest votes were right.")] = None
    drift: Annotated[float | None, says("That, less what it usually is.")] = None
    group: str | None = None
    expert: bool = False
    banned: bool = False
    ban: Annotated[BanView | None, says("Set while they are banned.")] = None
    probation: Annotated[bool, says("Their votes do not count yet.")] = False


class WorkersPage(_Out, frozen=True):
    """Workers in the order of their first votes; `next` is the `after` of the next page, None on the last."""

    workers: list[WorkerView]
    next: int | None


class WorkerChange(_In, frozen=True, kw_only=True):
    """Changes to a worker; fields that are left out stay."""

    group: Id | None = None
    expert: bool | None = None


class BanIn(_In, frozen=True, kw_only=True):
    """Why a worker is banned; with `dry_run` nothing is done, and the answer says what would change."""

    dry_run: bool = False
    by: Id | None = None
    reason: Text | None = None


class BansIn(BanIn, frozen=True, kw_only=True):
    """Several workers at once, as of a ring."""

    workers: Annotated[list[Id], Meta(min_length=1, max_length=MAX_BATCH)]


class UnbanIn(_In, frozen=True, kw_only=True):
    """Who lifts the ban."""

    dry_run: bool = False
    by: Id | None = None


class Changed(_Out, frozen=True):
    """A decision, before and after."""

    before: Decision
    after: Decision


class BanAnswer(_Out, frozen=True):
    """Decisions that change, or would."""

    dry_run: bool
    changes: list[Changed]
    summary: Annotated[str, says("How many decisions change, and to what.")] = ""


class NextTask(_Out, frozen=True, kw_only=True):
    """A task to vote on, and why this one."""

    task: str
    value: Annotated[float, says("How much one vote of this worker is expected to add to the chance of a right label.")]
    decision: Decision


class NextAnswer(_Out, frozen=True):
    """Tasks for a worker, the most valuable first; none that they have voted on."""

    tasks: list[NextTask]


# --- policy, refits


class PolicyIn(_In, frozen=True, kw_only=True):
    """A new version of the policy."""

    policy: Document
    by: Id | None = None
    note: Annotated[Text | None, says("Why it is changed.")] = None


class PolicyView(_Out, frozen=True, kw_only=True):
    """One version of the policy."""

    version: int
    policy: Document
    position: Annotated[int, says("Of the event from which on it held.")]
    time: datetime
    by: str | None = None
    note: str | None = None
    warning: Annotated[str | None, says("In the answer to a change: why this policy decides nothing; None: it can.")] = None


class PoliciesAnswer(_Out, frozen=True):
    """Every version of the policy, oldest first; the last one holds."""

    versions: list[PolicyView]


class BacktestIn(_In, frozen=True, kw_only=True):
    """What to replay the log under; what is left out is as it was."""

    policy: Document | None = None
    model: ModelChoice | None = None


class Outcome(_Out, frozen=True, kw_only=True):
    """How decisions came out."""

    decided: int
    escalated: int
    open: int
    votes: Annotated[int, says("That were needed: votes on a task after its last decision are not counted.")]
    flips: int
    seconds: Annotated[float | None, says("From a task's first vote to its decision; the median.")] = None
    gold: Annotated[int, says("Decided tasks whose true label is known.")] = 0
    accuracy: Annotated[float | None, says("Share of those that were decided right.")] = None
    breaker: Annotated[str | None, says("Why decisions were held at the end, if a breaker had tripped.")] = None
    audits: Annotated[TriedAudits | None, says("What audits would have found; None without `audit` in the last policy.")] = None
    warning: Annotated[str | None, says("Why nothing was decided, if probation kept all votes aside to the end.")] = None


class BacktestAnswer(_Out, frozen=True, kw_only=True):
    """How the past would have gone."""

    position: Annotated[int, says("Up to which the log was replayed.")]
    tasks: int
    cast: Annotated[int, says("Votes that were given: first ones and changes.")]
    changed: Annotated[int, says("Tasks whose last decision is another.")]
    votes_saved: Annotated[int, says("Votes that came after the decision that held to the end, under what was tried.")]
    before: Outcome
    after: Outcome
    examples: Annotated[list[Changed], says("Some of the tasks that changed.")] = []


class RefitAnswer(_Out, frozen=True):
    """Where the refit reads; it takes effect later, as an event."""

    position: int
    begun: Annotated[bool, says("False: one was under way already.")] = True


class BreakerIn(_In, frozen=True):
    """Who has looked."""

    by: Id | None = None


class Done(_Out, frozen=True):
    """It is done, and on disk up to this position of the log."""

    position: int


# --- webhooks


class WebhookIn(_In, frozen=True, kw_only=True):
    """Where decisions are to be posted."""

    url: Annotated[str, Meta(min_length=8, max_length=2000, pattern="^https?://[^\\s\\x00-\\x1f]+$")]
    statuses: Annotated[
        list[Status] | None, Meta(description="Only decisions that have come to one of these; None: every change.")
    ] = None
    secret: Annotated[Secret | None, says("Signs deliveries; one is made where none is given.")] = None


class WebhookView(_Out, frozen=True, kw_only=True):
    """Where decisions are posted. The secret is shown once, when the webhook is made."""

    id: int
    url: str
    statuses: list[Status] | None = None
    created: datetime
    secret: str | None = None


class WebhooksAnswer(_Out, frozen=True):
    """All webhooks of a campaign."""

    webhooks: list[WebhookView]


class DeadLetter(_Out, frozen=True, kw_only=True):
    """A delivery that was given up."""

    id: int
    webhook: int
    delivery: Annotated[str, says("What receivers tell deliveries apart by.")]
    attempts: int
    error: Annotated[str, says("Why the last attempt failed.")]
    time: Annotated[datetime, says("At which it was given up.")]
    decision: Decision


class DeadAnswer(_Out, frozen=True):
    """Deliveries that were given up, oldest first; `next` is the `after` of the next page, None on the last."""

    dead: list[DeadLetter]
    next: int | None


class RedeliveryAnswer(_Out, frozen=True):
    """The delivery will be tried again, from the first attempt on."""

    id: int


# --- Label Studio


class LabelStudioAnswer(_Out, frozen=True, kw_only=True):
    """What became of a webhook of Label Studio."""

    accepted: int = 0
    repeated: int = 0
    retracted: int = 0
    skipped: Annotated[list[str], says("What changed nothing, and why.")] = []
    decisions: list[Decision] = []


class HealthAnswer(_Out, frozen=True):
    """The process answers."""

    status: Literal["ok"] = "ok"


class ClockIn(_In, frozen=True):
    """Who says that the clock is right, and why."""

    by: Id | None = None
    reason: Id | None = None


class ClockAnswer(_Out, frozen=True):
    """The current time, and the campaigns whose logs were ahead of it and were set back."""

    time: datetime
    campaigns: list[str] = []


class ReadyAnswer(_Out, frozen=True):
    """Whether votes can be taken now, and if not, why."""

    ready: bool
    reasons: list[str] = []
