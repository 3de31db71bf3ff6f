"""The client: calls that wait for their answers."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from adjudge.service.campaigns.decision import Decision, Status
from adjudge.service.campaigns.policy import Policy
from adjudge.service.client.base import BlockingCalls
from adjudge.service.client.blocking import iterate, run
from adjudge.service.client.request import Request, path, policy_document, reader, text
from adjudge.service.client.streams import DEFAULT_WINDOW, EventCursor, Events, Refused
from adjudge.service.client.votes import Vote, task_of, vote_of, with_id
from adjudge.service.http import types as t

Sort: TypeAlias = Literal["uncertainty", "age"]


class Client(BlockingCalls):
    """A client of the live service, which `adjudge serve` starts.

    Every call waits for its answer; `AsyncClient` has the same calls as coroutines. Threads may share a client. Requests are
    retried after lost connections and while the service is busy, if that is safe: votes get ids, so a vote sent twice counts
    once. Errors are `adjudge.service.client.errors.ServiceError`.

    Parameters
    ----------
    url : str, default "http://127.0.0.1:8000"
        Address of the service; certificates of https:// are verified against those the system trusts.
    token : str, optional
        Access token, required beyond loopback; by default the environment variable ADJUDGE_TOKEN.
    campaign : str, default "default"
        Name of the campaign.
    timeout : float, default 10.0
        Seconds to wait for each step of a request: connecting, sending, reading.
    retries : int, default 5
        Maximum number of retries of a request.
    deadline : float, default 60.0
        Seconds after which a request is no longer retried.

    Examples
    --------
    >>> import adjudge
    >>> from adjudge.service import running
    >>> with running(labels=["spam", "fine"]) as url, adjudge.Client(url) as client:
    ...     for worker in ("ann", "bob", "eve"):
    ...         decision = client.vote("post 7", worker, "spam")
    ...     print(decision.status, decision.label, decision.votes)
    decided spam 3

    """

    # --- votes

    def vote(self, task: str, worker: str, label: str, *, id: str | None = None, data: object = None) -> Decision:  # noqa: A002
        """Send a vote, and return the decision on its task once the vote is on disk.

        A worker's second vote on a task replaces the first.

        Parameters
        ----------
        task, worker, label : str
            Ids of the task, the worker and a label of the campaign.
        id : str, optional
            Id by which the service recognises a vote that is sent again; made by default.
        data : object, optional
            The item of the task, if it has none yet: text, or any JSON up to 16 kB.

        """
        return self._ask(self._vote_request(with_id(vote_of((task, worker, label, id, data)))))

    def vote_many(self, votes: Iterable[Vote], *, ids: bool = True) -> t.VoteAnswer:
        """Send votes in requests of up to 5,000, each accepted completely or not at all.

        Parameters
        ----------
        votes : iterable of Vote
            (task, worker, label), with an id at the end or not, or dicts of these.
        ids : bool, default True
            False adds no ids. A vote that is already in force then counts as repeated, as if the same file were sent again; with
            a new id it would be logged again.

        Returns
        -------
        VoteAnswer
            The last decision on every task.

        """
        return run(self._send_votes(votes, ids))

    def stream(
        self, votes: Iterable[Vote], *, window: int = DEFAULT_WINDOW, ids: bool = True, refused: Refused | None = None
    ) -> Generator[Decision, None, None]:
        """Send votes as they come, and yield one decision per vote, in order.

        Votes travel in groups over one connection. Each decision is made after the vote, and those sent along with it, are on
        disk. If the connection is lost, unanswered votes are sent again over a new one.

        Parameters
        ----------
        votes : iterable of Vote
            As for `vote_many`. They are consumed group by group, as decisions are read.
        window : int, optional
            Maximum number of votes in flight; 1 answers each vote before it takes the next.
        ids : bool, default True
            As for `vote_many`.
        refused : callable, optional
            Called with every vote that the service refuses, and the error; such a vote has no decision. By default the first one
            raises the error, and votes in flight after it may be accepted.

        """
        return iterate(self._stream_votes(votes, window, ids, refused))

    def retract(self, task: str, worker: str) -> Decision:
        """Retract a worker's vote on a task, and return the new decision.

        Parameters
        ----------
        task, worker : str
            Ids of the task and the worker.

        """
        fields = {"task": text("task", task), "worker": text("worker", worker)}
        return self._call(Decision, "DELETE", "votes", fields=fields, instead=self._task_decision(task))

    def votes(self, *, after: int = 0) -> Iterator[t.VoteRow]:
        """Yield the votes in force, in log order.

        Parameters
        ----------
        after : int, default 0
            Log position after which to start.

        """
        return self._pages(t.VoteRow, "votes", after=after)

    # --- tasks

    def task(self, task: str) -> t.TaskView:
        """Return a task: the decision and why, the probability of every label, and every vote in force.

        Parameters
        ----------
        task : str
            Id of the task.

        """
        return self._call(t.TaskView, "GET", "tasks", text("task", task))

    def tasks(self, *, status: Status | None = None, sort: Sort = "uncertainty") -> Iterator[Decision]:
        """Yield the decisions on the tasks in memory.

        Parameters
        ----------
        status : str, optional
            "open", "held", "decided", "escalated" or "locked"; by default all.
        sort : {"uncertainty", "age"}, default "uncertainty"
            "uncertainty" for the least certain first, "age" for the oldest first.

        """
        return self._pages(Decision, "tasks", status=status, sort=sort)

    def add_tasks(self, tasks: Iterable[str | Mapping[str, Any]]) -> t.Done:
        """Register tasks before their first votes, so that `next` can hand them out.

        Parameters
        ----------
        tasks : Iterable[str or Mapping[str, Any]]
            Up to 10,000 ids, or dicts of `task` and `data` (the item). Known tasks are left unchanged.

        """
        return self._call(t.Done, "POST", "tasks", fields={"tasks": [task_of(task) for task in tasks]})

    def erase_data(self, task: str) -> t.Done:
        """Erase the item of a task; its votes and decisions stay.

        Parameters
        ----------
        task : str
            Id of the task.

        """
        position = self._request(t.Done, "GET")  # of the campaign
        return self._call(t.Done, "DELETE", "tasks", text("task", task), "data", instead=position)

    def history(self, task: str) -> list[Decision]:
        """Return every decision on a task, oldest first.

        Parameters
        ----------
        task : str
            Id of the task.

        """
        return self._call(list[Decision], "GET", "tasks", text("task", task), "history", field="decisions")

    def next(self, worker: str, *, n: int = 1) -> list[t.NextTask]:
        """Return tasks for a worker to vote on, the most valuable first, without those they have voted on.

        Parameters
        ----------
        worker : str
            Id of the worker.
        n : int, default 1
            Maximum number of tasks.

        """
        return self._call(list[t.NextTask], "GET", "next", field="tasks", query={"worker": text("worker", worker), "n": n})

    def gold(self, task: str, label: str | None) -> Decision:
        """Set the true label of a task; workers are judged by it.

        Parameters
        ----------
        task : str
            Id of the task.
        label : str, optional
            Id of the label; None removes the true label.

        """
        where = "tasks", text("task", task), "gold"
        if label is None:
            return self._call(Decision, "DELETE", *where, instead=self._task_decision(task))
        return self._call(Decision, "PUT", *where, fields={"label": text("label", label)})

    def override(
        self, task: str, label: str, *, by: str | None = None, reason: str | None = None, position: int | None = None
    ) -> Decision:
        """Decide a task by hand, regardless of its votes.

        Parameters
        ----------
        task, label : str
            Ids of the task and the label.
        by, reason : str, optional
            Who decides and why, for the log.
        position : int, optional
            Log position of the decision that they saw.

        Raises
        ------
        Conflict
            If there has been another decision since `position`.

        """
        fields = {"label": label, "by": by, "reason": reason, "position": position}
        where = "tasks", text("task", task), "override"
        # Sent twice, it would meet its own decision instead of the one at `position`.
        return self._call(Decision, "POST", *where, fields=fields, repeatable=position is None)

    def queue(self, *, by: str | None = None, n: int = 1) -> list[t.QueueTask]:
        """Return tasks that wait for a person (escalations and audits) with their items, and nothing else about them.

        Parameters
        ----------
        by : str, optional
            Who asks; they get no task that they have voted on. By default the name of the token.
        n : int, default 1
            Maximum number of tasks.

        """
        query = {"n": n} if by is None else {"by": text("by", by), "n": n}
        return self._call(list[t.QueueTask], "GET", "queue", field="tasks", query=query)

    def judge(self, task: str, label: str, *, by: str | None = None) -> t.Done:
        """Judge a task from `queue`: this decides an escalated task, or answers an audit.

        Parameters
        ----------
        task, label : str
            Ids of the task and the correct label.
        by : str, optional
            Who judges, for the log; by default the name of the token.

        Raises
        ------
        Conflict
            If the task is no longer waiting.

        """
        fields = {"task": text("task", task), "label": label, "by": by}
        return self._call(t.Done, "POST", "queue", fields=fields, repeatable=False)

    def reopen(self, task: str, *, by: str | None = None, reason: str | None = None) -> Decision:
        """Reopen a task, for example after an appeal.

        Parameters
        ----------
        task : str
            Id of the task.
        by, reason : str, optional
            Who reopens it and why, for the log.

        """
        fields = {"by": by, "reason": reason}  # twice would ask for twice as many more votes
        return self._call(Decision, "POST", "tasks", text("task", task), "reopen", fields=fields, repeatable=False)

    def decisions(self, *, after: int | str = 0) -> Iterator[Decision]:
        """Yield every decision made until now, in log order.

        Parameters
        ----------
        after : int or str, default 0
            Log position after which to start, or `last` of an `Events`.

        """
        return self._pages(Decision, "decisions", after=str(EventCursor(after)))

    def events(self, *, after: int | str | None = None) -> Events:
        """Return decisions as they are made, each once: an iterator without end, over any number of connections.

        The first connection is retried like any request; later ones are retried for as long as it takes.

        Parameters
        ----------
        after : int or str, optional
            Log position after which to start, or `last` of an earlier iterator; by default only new decisions.

        """
        seen = EventCursor(self.describe().position if after is None else after)
        return Events(str(seen), self._follow_events(seen))

    # --- workers

    def workers(self) -> Iterator[t.WorkerView]:
        """Yield what is known of every worker, in the order of their first votes."""
        return self._pages(t.WorkerView, "workers", after=0)

    def worker(self, worker: str) -> t.WorkerView:
        """Return what is known about a worker: accuracy with its interval, confusion, recent drift, and standing.

        Parameters
        ----------
        worker : str
            Id of the worker.

        """
        return self._call(t.WorkerView, "GET", "workers", text("worker", worker))

    def set_worker(self, worker: str, *, group: str | None = None, expert: bool | None = None) -> t.WorkerView:
        """Set the group and the expert flag of a worker.

        Parameters
        ----------
        worker : str
            Id of the worker.
        group : str, optional
            Group of the worker; None leaves it unchanged.
        expert : bool, optional
            Whether they are an expert; None leaves it unchanged.

        """
        fields = {"group": group, "expert": expert}
        return self._call(t.WorkerView, "PATCH", "workers", text("worker", worker), fields=fields)

    def erase_worker(self, worker: str) -> t.Done:
        """Erase the name of a worker. Their votes, and everything learned from them, stay without the name.

        Parameters
        ----------
        worker : str
            Id of the worker.

        """
        position = self._request(t.Done, "GET")  # of the campaign
        return self._call(t.Done, "DELETE", "workers", text("worker", worker), instead=position)

    def ban(
        self, workers: str | Iterable[str], *, dry_run: bool = False, by: str | None = None, reason: str | None = None
    ) -> t.BanAnswer:
        """Stop counting the votes of workers, and return the decisions that change.

        Parameters
        ----------
        workers : str or iterable of str
            Id of a worker, or of several at once, such as a ring.
        dry_run : bool, default False
            True changes nothing and returns what would change.
        by, reason : str, optional
            Who bans them and why, for the log.

        """
        names = [workers] if isinstance(workers, str) else [text("worker", worker) for worker in workers]
        fields = {"workers": names, "dry_run": dry_run, "by": by, "reason": reason}
        return self._call(t.BanAnswer, "POST", "bans", fields=fields)

    def unban(self, worker: str, *, dry_run: bool = False, by: str | None = None) -> t.BanAnswer:
        """Count the votes of a worker again, and return the decisions that change.

        Parameters
        ----------
        worker : str
            Id of the worker.
        dry_run : bool, default False
            True changes nothing and returns what would change.
        by : str, optional
            Who lifts the ban, for the log.

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
        """Create the campaign of this client; repeating the call with the same content changes nothing.

        Parameters
        ----------
        labels : iterable of str or t.Label
            Ids of at least two labels, or `adjudge.service.http.types.Label` with an id and a name.
        model : str, default "fds"
            "fds", "ds", "hybrid", or "auto": fds between refits, which run auto.
        policy : Policy or dict, optional
            When a task is decided; by default the default policy.
        settings : dict, optional
            Options of the stream, such as its seed.
        refit : dict, optional
            When votes are refitted in the background.
        retention : dict, optional
            How long tasks stay in memory, and how long votes are stored.

        Raises
        ------
        Conflict
            If the campaign exists with other content.

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
        """Change settings of the campaign; those left out stay.

        Parameters
        ----------
        names : dict, optional
            New names of labels, by id.
        refit, retention : dict, optional
            As for `create`.

        """
        return self._call(t.CampaignView, "PATCH", fields={"names": names, "refit": refit, "retention": retention})

    def add_label(self, label: str, *, name: str | None = None) -> list[t.Label]:
        """Add a label that votes may have from now on, and return all labels.

        Parameters
        ----------
        label : str
            Id of the label.
        name : str, optional
            Name shown to people; by default the id.

        """
        fields = {"id": text("label", label), "name": text("name", label if name is None else name)}
        return self._call(list[t.Label], "POST", "labels", field="labels", fields=fields, repeatable=False)

    def rename_label(self, label: str, name: str) -> list[t.Label]:
        """Rename a label and return all labels. Its id stays, so no decision changes.

        Parameters
        ----------
        label : str
            Id of the label.
        name : str
            Name shown to people.

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
        """Put a new version of the policy in force; setting the current one again makes no new version.

        Parameters
        ----------
        policy : Policy or dict
            The policy, or its fields.
        by, note : str, optional
            Who changes it and why, for the log.

        """
        return self._call(t.PolicyView, "PUT", "policy", fields={"policy": policy_document(policy), "by": by, "note": note})

    def backtest(
        self, policy: Policy | Mapping[str, Any] | None = None, *, model: t.ModelChoice | None = None, timeout: float = 600.0
    ) -> t.BacktestAnswer:
        """Replay past votes under another policy or model, and return the decisions it would have made.

        Parameters
        ----------
        policy, model : Policy or dict, optional
            What to try; by default those in force.
        timeout : float, default 600.0
            Seconds to wait; a long history takes long.

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
        """Resume automatic decisions after a circuit breaker has stopped them.

        Parameters
        ----------
        by : str, optional
            Who has looked into it, for the log.

        """
        return self._call(t.Done, "POST", "breaker", "reset", fields={"by": by})
