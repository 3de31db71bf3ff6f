"""The requests of the service's interface, one method per call."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from adjudge.errors import InputError, quote
from adjudge.service.campaigns.decision import Decision, Status
from adjudge.service.client.request import Request, encode, json_of, path, query, text
from adjudge.service.http import types as t

T = TypeVar("T")
C = TypeVar("C")
Cursor: TypeAlias = int | str | None  # where a page begins
Sort: TypeAlias = Literal["uncertainty", "age"]
Vote: TypeAlias = t.VoteIn | Sequence[object] | Mapping[str, object]  # (task, worker, label), with an id or without


MAX_VOTES_PER_REQUEST: Final = 5000  # votes of one request
MAX_REQUEST_BYTES: Final = 7_000_000  # of one request, at the most that its characters can take


class ListPage(NamedTuple, Generic[T]):
    """Rows, and where the next ones begin; None: there are no more."""

    rows: list[T]
    next: Cursor


def _json(given: Mapping[str, object]) -> bytes:
    """Return fields as JSON, without those that are None."""
    try:
        return encode({name: value for name, value in given.items() if value is not None})
    except (TypeError, ValueError, RecursionError) as error:  # inside of a document: fields of their own are typed
        raise InputError(f"{quote(dict(given))} cannot be sent as JSON: {error}") from None


def vote_of(given: Vote, number: int | None = None) -> t.VoteIn:
    """Return a vote, given as (task, worker, label) with or without an id, as a dict of these, or as a `VoteIn`.

    - `given`: the vote.
    - `number`: which of several it is, for the error.

    >>> vote_of(("t1", "ann", "spam")), vote_of({"task": 1, "worker": "ann", "label": "spam", "id": "x"}).id
    (VoteIn(task='t1', worker='ann', label='spam', id=None), 'x')
    """
    if isinstance(given, t.VoteIn):
        return given
    where = "" if number is None else f"vote {number}: "
    if isinstance(given, Mapping):
        unknown = [key for key in given if key not in t.VoteIn.__struct_fields__]
        parts: Sequence[object] = [given.get(name) for name in t.VoteIn.__struct_fields__]
        if unknown:
            raise InputError(f"{where}{quote(given)} has {quote(unknown[0])}: a vote has task, worker, label and id")
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes) and len(given) in (3, 4):
        parts = [*given, None][:4]
    else:
        raise InputError(f"{where}{quote(given)} is not a vote: give (task, worker, label), or these and an id")
    task, worker, label, own = parts
    return t.VoteIn(
        text(f"{where}task", task),
        text(f"{where}worker", worker),
        text(f"{where}label", label),
        None if own is None else text(f"{where}id", own),
    )


def task_decision(body: bytes) -> Decision:
    """Return the decision in the view of a task."""
    view: t.TaskView = json_of(t.TaskView)(body)
    return view.decision


class Calls:
    """The requests of one campaign.

    - `campaign`: its name.
    """

    def __init__(self, campaign: str) -> None:
        self.campaign = text("campaign", campaign)
        self._base = ("v1", "campaigns", self.campaign)

    def _path(self, *parts: str, **given: object) -> str:
        return path(*self._base, *parts) + query(given.items())

    def _get(self, kind: Any, *parts: str, **given: object) -> Request[Any]:
        return Request("GET", self._path(*parts, **given), json_of(kind))

    def _page(self, kind: Any, rows: str, *parts: str, **given: object) -> Request[ListPage[Any]]:
        decode = json_of(kind)

        def read(body: bytes) -> ListPage[Any]:
            found = decode(body)
            return ListPage(getattr(found, rows), found.next)

        return Request("GET", self._path(*parts, **given), read)

    def _send(self, method: str, kind: Any, parts: Sequence[str], given: Mapping[str, object], **more: Any) -> Request[Any]:
        return Request(method, self._path(*parts), json_of(kind), _json(given), **more)

    # --- the server

    def health(self) -> Request[t.HealthAnswer]:
        """Ask whether the process answers."""
        return Request("GET", path("healthz"), json_of(t.HealthAnswer))

    def ready(self) -> Request[t.ReadyAnswer]:
        """Ask whether votes can be taken now."""
        return Request("GET", path("readyz"), json_of(t.ReadyAnswer), accepts=(503,))

    def metrics(self) -> Request[str]:
        """Ask for the figures of the server."""
        return Request("GET", path("metrics"), bytes.decode)

    def campaigns(self) -> Request[list[str]]:
        """Ask for the names of all campaigns."""
        return Request("GET", path("v1", "campaigns"), lambda body: json_of(t.CampaignsAnswer)(body).campaigns)

    # --- the campaign

    def describe(self) -> Request[t.CampaignView]:
        """Ask how the campaign stands."""
        return self._get(t.CampaignView)

    def create(self, labels: Iterable[object], given: Mapping[str, object]) -> Request[t.CampaignView]:
        """Make the campaign."""
        names = [one if isinstance(one, t.Label) else text("label", one) for one in labels]
        return self._send("PUT", t.CampaignView, (), {"labels": names, **given})

    def change(self, given: Mapping[str, object]) -> Request[t.CampaignView]:
        """Change names of labels, or settings."""
        return self._send("PATCH", t.CampaignView, (), given)

    def add_label(self, label: str, name: str | None) -> Request[list[t.Label]]:
        """Add a label."""
        given = {"id": text("label", label), "name": text("name", label if name is None else name)}
        read = json_of(t.LabelsAnswer)
        return Request("POST", self._path("labels"), lambda body: read(body).labels, _json(given), repeatable=False)

    def rename_label(self, label: str, name: str) -> Request[list[t.Label]]:
        """Give a label another name."""
        read = json_of(t.LabelsAnswer)
        where = self._path("labels", text("label", label))
        return Request("PATCH", where, lambda body: read(body).labels, _json({"name": text("name", name)}))

    # --- votes

    def vote(self, votes: t.VoteIn | list[t.VoteIn]) -> Request[t.VoteAnswer]:
        """Send one vote, or several at once."""
        return Request("POST", self._path("votes"), json_of(t.VoteAnswer), encode(votes))

    def lines(self) -> str:
        """Return the path of the vote stream."""
        return self._path("votes:stream")

    def retract(self, task: str, worker: str) -> Request[Decision]:
        """Take a vote back."""
        key = {"task": text("task", task), "worker": text("worker", worker)}
        seen = Request("GET", self._path("tasks", key["task"]), task_decision)
        return self._send("DELETE", Decision, ("votes",), key, instead=seen)

    def votes(self, after: Cursor, limit: int) -> Request[ListPage[t.VoteRow]]:
        """List votes in force."""
        return self._page(t.VotesPage, "votes", "votes", after=after, limit=limit)

    # --- tasks

    def task(self, task: str) -> Request[t.TaskView]:
        """Ask for a task."""
        return self._get(t.TaskView, "tasks", text("task", task))

    def tasks(self, status: Status | None, sort: Sort, after: Cursor, limit: int) -> Request[ListPage[Decision]]:
        """List tasks."""
        return self._page(t.TasksPage, "tasks", "tasks", status=status, sort=sort, after=after, limit=limit)

    def add_tasks(self, tasks: Iterable[str]) -> Request[t.Done]:
        """Make tasks known."""
        return self._send("POST", t.Done, ("tasks",), {"tasks": [text("task", task) for task in tasks]})

    def history(self, task: str) -> Request[list[Decision]]:
        """List all decisions on a task."""
        read = json_of(t.HistoryAnswer)
        return Request("GET", self._path("tasks", text("task", task), "history"), lambda body: read(body).decisions)

    def gold(self, task: str, label: str | None) -> Request[Decision]:
        """Say what the true label of a task is, or take it back."""
        where = ("tasks", text("task", task), "gold")
        if label is not None:
            return self._send("PUT", Decision, where, {"label": text("label", label)})
        seen = Request("GET", self._path("tasks", text("task", task)), task_decision)
        return Request("DELETE", self._path(*where), json_of(Decision), instead=seen)

    def override(self, task: str, given: Mapping[str, object]) -> Request[Decision]:
        """Decide a task as a person."""
        return self._send("POST", Decision, ("tasks", text("task", task), "override"), given)

    def reopen(self, task: str, given: Mapping[str, object]) -> Request[Decision]:
        """Open a task again; twice would ask for twice as many more votes."""
        return self._send("POST", Decision, ("tasks", text("task", task), "reopen"), given, repeatable=False)

    def next(self, worker: str, n: int) -> Request[list[t.NextTask]]:
        """Ask for tasks to vote on."""
        read = json_of(t.NextAnswer)
        return Request("GET", self._path("next", worker=text("worker", worker), n=n), lambda body: read(body).tasks)

    def decisions(self, after: Cursor, limit: int) -> Request[ListPage[Decision]]:
        """List decisions in the order of the log."""
        return self._page(t.DecisionsPage, "decisions", "decisions", after=after, limit=limit)

    def events(self, after: str) -> str:
        """Return the path of the event stream."""
        return self._path("events", after=after)

    # --- workers

    def workers(self, after: Cursor, limit: int) -> Request[ListPage[t.WorkerView]]:
        """List workers."""
        return self._page(t.WorkersPage, "workers", "workers", after=after, limit=limit)

    def worker(self, worker: str) -> Request[t.WorkerView]:
        """Ask what is known of a worker."""
        return self._get(t.WorkerView, "workers", text("worker", worker))

    def set_worker(self, worker: str, given: Mapping[str, object]) -> Request[t.WorkerView]:
        """Set the group and the expert flag of a worker."""
        return self._send("PATCH", t.WorkerView, ("workers", text("worker", worker)), given)

    def erase_worker(self, worker: str) -> Request[t.Done]:
        """Erase the name of a worker."""
        read = json_of(t.CampaignView)
        seen = Request("GET", self._path(), lambda body: t.Done(read(body).position))
        return Request("DELETE", self._path("workers", text("worker", worker)), json_of(t.Done), instead=seen)

    def ban(self, workers: str | Iterable[str], given: Mapping[str, object]) -> Request[t.BanAnswer]:
        """Let votes of workers count no longer."""
        names = [workers] if isinstance(workers, str) else [text("worker", worker) for worker in workers]
        return self._send("POST", t.BanAnswer, ("bans",), {"workers": names, **given})

    def unban(self, worker: str, given: Mapping[str, object]) -> Request[t.BanAnswer]:
        """Let votes of a worker count again."""
        return self._send("POST", t.BanAnswer, ("workers", text("worker", worker), "unban"), given)

    # --- policy, refits

    def policies(self) -> Request[list[t.PolicyView]]:
        """List all versions of the policy."""
        read = json_of(t.PoliciesAnswer)
        return Request("GET", self._path("policy"), lambda body: read(body).versions)

    def set_policy(self, policy: object, by: str | None) -> Request[t.PolicyView]:
        """Make a new version of the policy, unless the current one is equal."""
        return self._send("PUT", t.PolicyView, ("policy",), {"policy": document(policy), "by": by})

    def backtest(self, policy: object, model: str | None, timeout: float) -> Request[t.BacktestAnswer]:
        """Replay the log under another policy or model."""
        given = {"policy": None if policy is None else document(policy), "model": model}
        return self._send("POST", t.BacktestAnswer, ("policy", "backtest"), given, timeout=timeout)

    def refit(self) -> Request[t.RefitAnswer]:
        """Begin a refit."""
        return Request("POST", self._path("refit"), json_of(t.RefitAnswer), repeatable=False)

    def reset_breaker(self, by: str | None) -> Request[t.Done]:
        """Resume automatic decisions."""
        return self._send("POST", t.Done, ("breaker", "reset"), {"by": by})

    # --- webhooks

    def webhooks(self) -> Request[list[t.WebhookView]]:
        """List webhooks."""
        read = json_of(t.WebhooksAnswer)
        return Request("GET", self._path("webhooks"), lambda body: read(body).webhooks)

    def add_webhook(self, given: Mapping[str, object]) -> Request[t.WebhookView]:
        """Have decisions posted somewhere; twice would post each of them twice."""
        return self._send("POST", t.WebhookView, ("webhooks",), given, repeatable=False)

    def delete_webhook(self, number: int) -> Request[list[t.WebhookView]]:
        """Remove a webhook."""
        read = json_of(t.WebhooksAnswer)
        return Request("DELETE", self._path("webhooks", id=number), lambda body: read(body).webhooks, instead=self.webhooks())

    def dead_letters(self, after: Cursor, limit: int) -> Request[ListPage[t.DeadLetter]]:
        """List deliveries that were given up."""
        return self._page(t.DeadAnswer, "dead", "webhooks", "dead", after=after, limit=limit)

    def redeliver(self, number: int) -> Request[int]:
        """Try a delivery again."""
        read = json_of(t.RedeliveryAnswer)
        where = self._path("webhooks", "dead", text("delivery", number), "redeliver")
        return Request("POST", where, lambda body: int(read(body).id), repeatable=False)


def document(policy: object) -> object:
    """Return a policy as the document that is sent."""
    made = getattr(policy, "document", None)
    if callable(made):
        found: object = made()
        return found
    if not isinstance(policy, Mapping):
        raise InputError(f"policy is {quote(policy)}: give an adj.Policy, or a dict with its fields")
    return dict(policy)


def with_id(vote: t.VoteIn) -> t.VoteIn:
    """Return a vote that has an id, by which it counts once however often it is sent."""
    return vote if vote.id is not None else t.VoteIn(vote.task, vote.worker, vote.label, str(uuid.uuid4()))


class Total:
    """What became of votes that were sent in several requests."""

    def __init__(self) -> None:
        self._accepted = self._repeated = 0
        self._decisions: dict[str, Decision] = {}

    def add(self, answer: t.VoteAnswer) -> None:
        """Add the answer to one request."""
        self._accepted += answer.accepted
        self._repeated += answer.repeated
        self._decisions.update((decision.task, decision) for decision in answer.decisions)

    def answer(self) -> t.VoteAnswer:
        """Return the answer to all of them: the last decision of every task."""
        return t.VoteAnswer(self._accepted, self._repeated, list(self._decisions.values()))


class Chunks:
    """Gathers votes into requests.

    - `ids`: whether votes without an id get one.
    """

    def __init__(self, *, ids: bool) -> None:
        self._ids = ids
        self._votes: list[t.VoteIn] = []
        self._number = self._bytes = 0

    def add(self, given: Vote) -> list[t.VoteIn] | None:
        """Take a vote; return those of a request that is full."""
        vote = vote_of(given, self._number)
        self._number += 1
        self._bytes += 6 * (len(vote.task) + len(vote.worker) + len(vote.label)) + 200
        self._votes.append(with_id(vote) if self._ids else vote)
        return self.rest() if len(self._votes) == MAX_VOTES_PER_REQUEST or self._bytes > MAX_REQUEST_BYTES else None

    def rest(self) -> list[t.VoteIn]:
        """Return the votes of the last request."""
        votes, self._votes, self._bytes = self._votes, [], 0
        return votes


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are given, those that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
