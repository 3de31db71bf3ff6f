"""The client: calls that wait for their answers."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar

from adjudge.service.campaigns.decision import Decision, Status
from adjudge.service.campaigns.policy import Policy
from adjudge.service.client.base import ClientOptions
from adjudge.service.client.blocking import iterate, run
from adjudge.service.client.request import Address, Request, path, policy_document, reader, text
from adjudge.service.client.streams import DEFAULT_WINDOW, EventCursor, Events, Refused
from adjudge.service.client.votes import Vote, task_of, vote_of, with_id
from adjudge.service.http import types as t

if TYPE_CHECKING:
    from adjudge.service.client.transport import Connections

T = TypeVar("T")
Sort: TypeAlias = Literal["uncertainty", "age"]


class Client(ClientOptions):
    """A client of the live service, which `adjudge serve` starts.

    Every call waits for its answer; `AsyncClient` has the same calls to be awaited. Threads may share a client. If it
    is safe, requests are retried after lost connections and while the service is busy: votes get ids, so a vote that is sent
    twice counts once. Errors are `adjudge.service.client.errors.ServiceError`.

    - `url`: address of the service; https:// is verified with the certificates that the system trusts.
    - `token`: access token, required beyond loopback; None: the environment variable ADJUDGE_TOKEN.
    - `campaign`: name of the campaign.
    - `timeout`: seconds to wait for each step of a request: connecting, sending, reading.
    - `retries`: how many times a request is retried.
    - `deadline`: seconds after which a request is no longer retried.

    >>> import adjudge
    >>> from adjudge.service import running
    >>> with running(labels=["spam", "fine"]) as url, adjudge.Client(url) as client:
    ...     for worker in ("ann", "bob", "eve"):
    ...         decision = client.vote("post 7", worker, "spam")
    ...     print(decision.status, decision.label, decision.votes)
    decided spam 3
    """

    def _connect(self, address: Address, headers: Mapping[str, str]) -> Connections:
        from adjudge.service.client.transport import BlockingConnections

        return BlockingConnections(address, headers)

    def close(self) -> None:
        """Close the connections; the next call makes new ones."""
        run(self._connections.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: Request[T]) -> T:
        return run(self._send(request))

    def _call(self, kind: type[T], method: str, *parts: str, **options: Any) -> T:
        return self._ask(self._request(kind, method, *parts, **options))

    def _pages(self, kind: type[T], *parts: str, **query: Any) -> Iterator[T]:
        return iterate(self._iterate_rows(kind, *parts, **query))

    # --- votes

    def vote(self, task: str, worker: str, label: str, *, id: str | None = None, data: object = None) -> Decision:  # noqa: A002
        """Send a vote, and return what is decided of its task once the vote is on disk.

        A worker's vote with another label replaces the earlier one.

        - `task`, `worker`, `label`: who says what of what; `label` is the id of a label of the campaign.
        - `id`: by which the service knows the vote when it is sent again; None: one is made.
        - `data`: the item of the task, if it has none yet: text, or any JSON up to 16 kB.
        """
        return self._ask(self._vote_request(with_id(vote_of((task, worker, label, id, data)))))

    def vote_many(self, votes: Iterable[Vote], *, ids: bool = True) -> t.VoteAnswer:
        """Send votes in requests of up to 5,000, each taken as a whole or not at all; return the last decision of every task.

        - `votes`: (task, worker, label), with an id behind or not, or dicts of these.
        - `ids`: False leaves votes without an id as they are. Then a vote that is in force already counts as repeated, as when
          a file is sent once more; with new ids it would be logged again.
        """
        return run(self._send_votes(votes, ids))

    def stream(
        self, votes: Iterable[Vote], *, window: int = DEFAULT_WINDOW, ids: bool = True, refused: Refused | None = None
    ) -> Generator[Decision, None, None]:
        """Send votes for as long as they come, and yield one decision per vote, in their order.

        Votes travel in groups over one connection. A decision is that of the vote's task once the vote and those sent along with
        it are on disk. When the connection is lost, votes that are not answered are sent again over another.

        - `votes`: as for `vote_many`. They are taken one group after another, as decisions are read.
        - `window`: how many votes may be under way; 1 answers each vote before the next one is taken from `votes`.
        - `ids`: as for `vote_many`.
        - `refused`: is called with every vote that the service does not take and the error that says why, and has no decision;
          None: the first one raises the error, and votes that were under way behind it may be taken.
        """
        return iterate(self._stream_votes(votes, window, ids, refused))

    def retract(self, task: str, worker: str) -> Decision:
        """Take a worker's vote on a task back, and return what is decided then.

        - `task`, `worker`: whose vote on what.
        """
        fields = {"task": text("task", task), "worker": text("worker", worker)}
        return self._call(Decision, "DELETE", "votes", fields=fields, instead=self._task_decision(task))

    def votes(self, *, after: int = 0) -> Iterator[t.VoteRow]:
        """Yield the votes in force, in the order of the log.

        - `after`: a position of the log behind which to begin.
        """
        return self._pages(t.VoteRow, "votes", after=after)

    # --- tasks

    def task(self, task: str) -> t.TaskView:
        """Return a task: what is decided and why, how likely every label is, every vote in force.

        - `task`: its id.
        """
        return self._call(t.TaskView, "GET", "tasks", text("task", task))

    def tasks(self, *, status: Status | None = None, sort: Sort = "uncertainty") -> Iterator[Decision]:
        """Yield what is decided of the tasks in memory.

        - `status`: "open", "held", "decided", "escalated" or "locked"; None: all.
        - `sort`: "uncertainty", the least certain first, or "age", the oldest first.
        """
        return self._pages(Decision, "tasks", status=status, sort=sort)

    def add_tasks(self, tasks: Iterable[str | Mapping[str, Any]]) -> t.Done:
        """Make tasks known before their first votes, so that `next` can give them out.

        - `tasks`: their ids, or dicts of `task` and `data`, the item; up to 10,000. Those that are known stay as they are.
        """
        return self._call(t.Done, "POST", "tasks", fields={"tasks": [task_of(task) for task in tasks]})

    def erase_data(self, task: str) -> t.Done:
        """Erase the item of a task; its votes and decisions stay.

        - `task`: its id.
        """
        position = self._request(t.Done, "GET")  # of the campaign
        return self._call(t.Done, "DELETE", "tasks", text("task", task), "data", instead=position)

    def history(self, task: str) -> list[Decision]:
        """Return every decision on a task, oldest first.

        - `task`: its id.
        """
        return self._call(list[Decision], "GET", "tasks", text("task", task), "history", field="decisions")

    def next(self, worker: str, *, n: int = 1) -> list[t.NextTask]:
        """Return tasks for a worker to vote on, the most valuable first; none that they have voted on.

        - `worker`: who asks.
        - `n`: how many at most.
        """
        return self._call(list[t.NextTask], "GET", "next", field="tasks", query={"worker": text("worker", worker), "n": n})

    def gold(self, task: str, label: str | None) -> Decision:
        """Say what the true label of a task is; workers are judged by it.

        - `task`: its id.
        - `label`: the id of the label; None takes the true label back.
        """
        where = "tasks", text("task", task), "gold"
        if label is None:
            return self._call(Decision, "DELETE", *where, instead=self._task_decision(task))
        return self._call(Decision, "PUT", *where, fields={"label": text("label", label)})

    def override(
        self, task: str, label: str, *, by: str | None = None, reason: str | None = None, position: int | None = None
    ) -> Decision:
        """Decide a task by hand, regardless of its votes.

        - `task`, `label`: what is decided of what.
        - `by`, `reason`: who decides, and why, for the log.
        - `position`: of the decision that they saw; `Conflict` if there is another since.
        """
        fields = {"label": label, "by": by, "reason": reason, "position": position}
        where = "tasks", text("task", task), "override"
        # Sent twice, it would meet its own decision instead of the one at `position`.
        return self._call(Decision, "POST", *where, fields=fields, repeatable=position is None)

    def queue(self, *, by: str | None = None, n: int = 1) -> list[t.QueueTask]:
        """Return tasks that wait for a person: escalated ones and audits, with their items and without anything known of them.

        - `by`: who asks: they get no task that they have voted on; None: the name of the token.
        - `n`: how many at most.
        """
        query = {"n": n} if by is None else {"by": text("by", by), "n": n}
        return self._call(list[t.QueueTask], "GET", "queue", field="tasks", query=query)

    def judge(self, task: str, label: str, *, by: str | None = None) -> t.Done:
        """Judge a task from `queue`: this decides an escalated task, and answers an audit.

        - `task`, `label`: what is right for what; `Conflict` if the task no longer waits.
        - `by`: who judges, for the log; None: the name of the token.
        """
        fields = {"task": text("task", task), "label": label, "by": by}
        return self._call(t.Done, "POST", "queue", fields=fields, repeatable=False)

    def reopen(self, task: str, *, by: str | None = None, reason: str | None = None) -> Decision:
        """Open a task again, as after an appeal.

        - `task`: its id.
        - `by`, `reason`: who asks for it, and why, for the log.
        """
        fields = {"by": by, "reason": reason}  # twice would ask for twice as many more votes
        return self._call(Decision, "POST", "tasks", text("task", task), "reopen", fields=fields, repeatable=False)

    def decisions(self, *, after: int | str = 0) -> Iterator[Decision]:
        """Yield every decision that was made until now, in the order of the log.

        - `after`: a position of the log behind which to begin, or the place of a decision (see `Events`).
        """
        return self._pages(Decision, "decisions", after=str(EventCursor(after)))

    def events(self, *, after: int | str | None = None) -> Events:
        """Return decisions as they come, each once: an iterator that has no end, over any number of connections.

        The first connection is tried as often as any request. One that is lost later is made again, however long it takes.

        - `after`: where to begin: a position of the log, or `last` of an earlier iterator; None: only new decisions.
        """
        seen = EventCursor(self.describe().position if after is None else after)
        return Events(str(seen), self._follow_events(seen))

    # --- workers

    def workers(self) -> Iterator[t.WorkerView]:
        """Yield what is known of every worker, in the order of their first votes."""
        return self._pages(t.WorkerView, "workers", after=0)

    def worker(self, worker: str) -> t.WorkerView:
        """Return what is known of a worker: accuracy with its interval, confusion, recent drift, standing.

        - `worker`: their id.
        """
        return self._call(t.WorkerView, "GET", "workers", text("worker", worker))

    def set_worker(self, worker: str, *, group: str | None = None, expert: bool | None = None) -> t.WorkerView:
        """Set the group and the expert flag of a worker.

        - `worker`: their id.
        - `group`: the group that they belong to; None leaves it as it is.
        - `expert`: whether they are an expert; None leaves it as it is.
        """
        fields = {"group": group, "expert": expert}
        return self._call(t.WorkerView, "PATCH", "workers", text("worker", worker), fields=fields)

    def erase_worker(self, worker: str) -> t.Done:
        """Erase the name of a worker. Their votes and everything learned from them remain, without the name.

        - `worker`: their id.
        """
        position = self._request(t.Done, "GET")  # of the campaign
        return self._call(t.Done, "DELETE", "workers", text("worker", worker), instead=position)

    def ban(
        self, workers: str | Iterable[str], *, dry_run: bool = False, by: str | None = None, reason: str | None = None
    ) -> t.BanAnswer:
        """Let the votes of workers count no longer, and return the decisions that change.

        - `workers`: the id of one, or several at once, as of a ring.
        - `dry_run`: True changes nothing: the answer says what would change.
        - `by`, `reason`: who bans them, and why, for the log.
        """
        names = [workers] if isinstance(workers, str) else [text("worker", worker) for worker in workers]
        fields = {"workers": names, "dry_run": dry_run, "by": by, "reason": reason}
        return self._call(t.BanAnswer, "POST", "bans", fields=fields)

    def unban(self, worker: str, *, dry_run: bool = False, by: str | None = None) -> t.BanAnswer:
        """Let the votes of a worker count again, and return the decisions that change.

        - `worker`: their id.
        - `dry_run`: True changes nothing: the answer says what would change.
        - `by`: who lifts the ban, for the log.
        """
        fields = {"dry_run": dry_run, "by": by}
        return self._call(t.BanAnswer, "POST", "workers", text("worker", worker), "unban", fields=fields)

    # --- the campaign

    def campaigns(self) -> list[str]:
        """Return the names of the campaigns that the token reaches."""
        return self._ask(Request("GET", path("v1", "campaigns"), reader(list[str], "campaigns")))

    def create(
        self,
        labels: Iterable[str | t.Label],
        *,
        model: t.ModelChoice = "fds",
        policy: Policy | Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        refit: Mapping[str, Any] | None = None,
        retention: Mapping[str, Any] | None = None,
    ) -> t.CampaignView:
        """Make the campaign of this client. The same content again changes nothing; other content is a `Conflict`.

        - `labels`: ids of at least two labels, or `adjudge.service.http.types.Label` with an id and a name.
        - `model`: of the stream: "fds", "ds", "hybrid", or "auto", which is "fds" whose refits choose for themselves.
        - `policy`: when a task is decided; None: the default policy.
        - `settings`: options of the stream, such as its seed.
        - `refit`: when votes are fitted again in the background.
        - `retention`: how long tasks stay in memory, and votes are kept at all.
        """
        fields = {
            "labels": [label if isinstance(label, t.Label) else text("label", label) for label in labels],
            "model": model,
            "policy": None if policy is None else policy_document(policy),
            "settings": settings,
            "refit": refit,
            "retention": retention,
        }
        return self._call(t.CampaignView, "PUT", fields=fields)

    def describe(self) -> t.CampaignView:
        """Return the campaign as it stands: labels, settings, how many votes and tasks it has."""
        return self._call(t.CampaignView, "GET")

    def change(
        self,
        *,
        names: Mapping[str, str] | None = None,
        refit: Mapping[str, Any] | None = None,
        retention: Mapping[str, Any] | None = None,
    ) -> t.CampaignView:
        """Change settings of the campaign; what is left out stays.

        - `names`: new names of labels, by their ids.
        - `refit`: when votes are fitted again in the background.
        - `retention`: how long tasks stay in memory, and votes are kept at all.
        """
        return self._call(t.CampaignView, "PATCH", fields={"names": names, "refit": refit, "retention": retention})

    def add_label(self, label: str, *, name: str | None = None) -> list[t.Label]:
        """Add a label, which votes may carry from now on; return all labels.

        - `label`: its id.
        - `name`: what people read; None: the id.
        """
        fields = {"id": text("label", label), "name": text("name", label if name is None else name)}
        return self._call(list[t.Label], "POST", "labels", field="labels", fields=fields, repeatable=False)

    def rename_label(self, label: str, name: str) -> list[t.Label]:
        """Give a label another name, and return all labels. Its id stays, so that nothing that was decided changes.

        - `label`: its id.
        - `name`: what people read from now on.
        """
        fields = {"name": text("name", name)}
        return self._call(list[t.Label], "PATCH", "labels", text("label", label), field="labels", fields=fields)

    def policy(self) -> t.PolicyView:
        """Return the version of the policy that holds."""
        read = reader(list[t.PolicyView], "versions")
        return self._ask(Request("GET", self._path("policy"), lambda body: read(body)[-1]))

    def policies(self) -> list[t.PolicyView]:
        """Return every version of the policy, oldest first."""
        return self._call(list[t.PolicyView], "GET", "policy", field="versions")

    def set_policy(self, policy: Policy | Mapping[str, Any], *, by: str | None = None, note: str | None = None) -> t.PolicyView:
        """Make a new version of the policy, which holds at once. The one that holds already makes no new one.

        - `policy`: an `adj.Policy`, or its fields.
        - `by`, `note`: who changes it, and why, for the log.
        """
        return self._call(t.PolicyView, "PUT", "policy", fields={"policy": policy_document(policy), "by": by, "note": note})

    def backtest(
        self, policy: Policy | Mapping[str, Any] | None = None, *, model: t.ModelChoice | None = None, timeout: float = 600.0
    ) -> t.BacktestAnswer:
        """Replay the votes of the past under another policy or model, and return how decisions would have come out.

        - `policy`: what to try; None: as it was.
        - `model`: what to try; None: as it was.
        - `timeout`: seconds to wait: a long past takes long.
        """
        fields = {"policy": None if policy is None else policy_document(policy), "model": model}
        return self._call(t.BacktestAnswer, "POST", "policy", "backtest", fields=fields, timeout=timeout)

    def refit(self) -> t.RefitAnswer:
        """Begin a refit of the votes in memory, in the background."""
        return self._call(t.RefitAnswer, "POST", "refit", repeatable=False)

    def audits(self) -> t.AuditsView:
        """Return what audits say of automatic decisions: how many were wrong, the bounds of their error rate, and the alarm."""
        return self._call(t.AuditsView, "GET", "audits")

    def reset_breaker(self, *, by: str | None = None) -> t.Done:
        """Let automatic decisions continue after a circuit breaker has held them.

        - `by`: who has looked, for the log.
        """
        return self._call(t.Done, "POST", "breaker", "reset", fields={"by": by})

    # --- webhooks

    def webhooks(self) -> list[t.WebhookView]:
        """Return where decisions are posted."""
        return self._call(list[t.WebhookView], "GET", "webhooks", field="webhooks")

    def add_webhook(self, url: str, *, statuses: Iterable[Status] | None = None, secret: str | None = None) -> t.WebhookView:
        """Have decisions posted to an address, signed. The secret is in this answer alone.

        - `url`: a public address, http:// or https://.
        - `statuses`: only decisions that have come to one of these; None: every change.
        - `secret`: signs deliveries; None: one is made.
        """
        fields = {"url": url, "statuses": None if statuses is None else list(statuses), "secret": secret}
        return self._call(t.WebhookView, "POST", "webhooks", fields=fields, repeatable=False)  # twice would post each twice

    def delete_webhook(self, id: int) -> list[t.WebhookView]:  # noqa: A002
        """Remove a webhook, and return those that stay.

        - `id`: its number.
        """
        kind, where = list[t.WebhookView], "webhooks"
        others = self._request(kind, "GET", where, field=where)
        return self._call(kind, "DELETE", where, field=where, query={"id": id}, instead=others)

    def dead_letters(self) -> Iterator[t.DeadLetter]:
        """Yield the deliveries that were given up, oldest first."""
        return self._pages(t.DeadLetter, "webhooks", "dead", after=0)

    def redeliver(self, id: int) -> int:  # noqa: A002
        """Try a delivery again that was given up, and return its number.

        - `id`: its number.
        """
        return self._call(int, "POST", "webhooks", "dead", text("delivery", id), "redeliver", field="id", repeatable=False)

    # --- the server

    def health(self) -> t.HealthAnswer:
        """Return that the process answers, or raise `ConnectionFailed`."""
        return self._ask(Request("GET", path("healthz"), reader(t.HealthAnswer)))

    def ready(self) -> t.ReadyAnswer:
        """Return whether votes can be taken now, and if not, why."""
        return self._ask(Request("GET", path("readyz"), reader(t.ReadyAnswer), accepts=(503,)))

    def metrics(self) -> str:
        """Return the figures of the server in the text format of Prometheus."""
        return self._ask(Request("GET", path("metrics"), bytes.decode))
