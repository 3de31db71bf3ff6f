"""The table of routes: the one source of routing, of who may do what, and of the description of the interface."""

from __future__ import annotations

from typing import Any, Final

from adjudge.service.campaigns.decision import Decision
from adjudge.service.http import queries as q
from adjudge.service.http import types as t
from adjudge.service.http.handlers import campaigns, hooks, server, tasks, votes, workers
from adjudge.service.http.labelstudio import Incoming
from adjudge.service.http.routing import Handler, Route
from adjudge.service.http.streaming import NDJSON_MEDIA_TYPE
from adjudge.service.http.tokens import Scope


def _server(method: str, path: str, scope: Scope | None, handler: Handler, answer: Any, **options: Any) -> Route:
    """Return a route of the server; `answer` is the type of the answer with status 200, or a type per status."""
    return Route(method, path, scope, handler, answer if isinstance(answer, dict) else {200: answer}, **options)


def _campaign(method: str, path: str, scope: Scope, handler: Handler, answer: Any, **options: Any) -> Route:
    """Return a route of a campaign, whose name comes first in the path."""
    return _server(method, f"/v1/campaigns/{{campaign}}{path}", scope, handler, answer, **options)


ROUTES: Final[tuple[Route, ...]] = (
    # the server
    _server("GET", "/healthz", None, server.healthz, t.HealthAnswer),
    _server("GET", "/readyz", None, server.readyz, {200: t.ReadyAnswer, 503: t.ReadyAnswer}),
    _server("GET", "/metrics", "read", server.metrics, None, content="text/plain", everywhere=True),
    _server("GET", "/openapi.json", None, server.description, t.Document),
    _server("POST", "/v1/clock", "admin", server.set_clock, t.ClockAnswer, body=t.ClockIn, optional=True, everywhere=True),
    # campaigns
    _server("GET", "/v1/campaigns", "read", campaigns.list_campaigns, t.CampaignsAnswer),
    _campaign(
        "PUT",
        "",
        "admin",
        campaigns.put_campaign,
        {200: t.CampaignView, 201: t.CampaignView},
        body=t.CampaignSpec,
        problems=(409,),
    ),
    _campaign("GET", "", "read", campaigns.get_campaign, t.CampaignView),
    _campaign("PATCH", "", "admin", campaigns.change_campaign, t.CampaignView, body=t.CampaignChange),
    _campaign("POST", "/labels", "admin", campaigns.add_label, {201: t.LabelsAnswer}, body=t.Label, problems=(409,)),
    _campaign("PATCH", "/labels/{label}", "admin", campaigns.rename_label, t.LabelsAnswer, body=t.LabelChange),
    # votes
    _campaign("POST", "/votes", "vote", votes.post_votes, t.VoteAnswer, body=t.Votes, problems=(409,)),
    _campaign(
        "POST",
        "/votes:stream",
        "vote",
        votes.stream_votes,
        None,
        body=t.VoteIn,
        takes=NDJSON_MEDIA_TYPE,
        content=NDJSON_MEDIA_TYPE,
        optional=True,
        streams=True,
    ),
    _campaign("DELETE", "/votes", "vote", votes.retract_vote, Decision, body=t.VoteKey),
    _campaign("GET", "/votes", "read", votes.list_votes, t.VotesPage, query=q.VotesQuery, long=True),
    # tasks
    _campaign("GET", "/tasks", "read", tasks.list_tasks, t.TasksPage, query=q.TasksQuery),
    _campaign("POST", "/tasks", "vote", tasks.add_tasks, t.Done, body=t.TasksIn),
    _campaign("GET", "/tasks/{task}", "read", tasks.get_task, t.TaskView),
    _campaign("DELETE", "/tasks/{task}/data", "admin", tasks.erase_item, t.Done),
    _campaign("PUT", "/tasks/{task}/gold", "moderate", tasks.put_gold, Decision, body=t.GoldIn),
    _campaign("DELETE", "/tasks/{task}/gold", "moderate", tasks.delete_gold, Decision),
    _campaign("POST", "/tasks/{task}/override", "moderate", tasks.override, Decision, body=t.OverrideIn, problems=(409,)),
    _campaign(
        "POST", "/tasks/{task}/reopen", "moderate", tasks.reopen, Decision, body=t.ReopenIn, optional=True, problems=(409,)
    ),
    _campaign("GET", "/queue", "moderate", tasks.list_queue, t.QueueAnswer, query=q.QueueQuery),
    _campaign("POST", "/queue", "moderate", tasks.judge, t.Done, body=t.JudgmentIn, problems=(409,)),
    _campaign("GET", "/tasks/{task}/history", "read", tasks.history, t.HistoryAnswer),
    _campaign("GET", "/next", "vote", tasks.next_tasks, t.NextAnswer, query=q.NextQuery),
    _campaign("GET", "/decisions", "read", tasks.list_decisions, t.DecisionsPage, query=q.DecisionsQuery),
    _campaign("GET", "/events", "read", server.stream_events, None, query=q.EventsQuery, content="text/event-stream"),
    # workers
    _campaign("GET", "/workers", "read", workers.list_workers, t.WorkersPage, query=q.WorkersQuery),
    _campaign("GET", "/workers/{worker}", "read", workers.get_worker, t.WorkerView),
    _campaign("PATCH", "/workers/{worker}", "moderate", workers.change_worker, t.WorkerView, body=t.WorkerChange),
    _campaign("DELETE", "/workers/{worker}", "admin", workers.erase_worker, t.Done),
    _campaign("POST", "/workers/{worker}/ban", "moderate", workers.ban_worker, t.BanAnswer, body=t.BanIn, optional=True),
    _campaign("POST", "/workers/{worker}/unban", "moderate", workers.unban_worker, t.BanAnswer, body=t.UnbanIn, optional=True),
    _campaign("POST", "/bans", "moderate", workers.ban_workers, t.BanAnswer, body=t.BansIn),
    # policy, refits
    _campaign("GET", "/policy", "read", campaigns.list_policies, t.PoliciesAnswer),
    _campaign("PUT", "/policy", "admin", campaigns.put_policy, t.PolicyView, body=t.PolicyIn),
    _campaign(
        "POST", "/policy/backtest", "moderate", campaigns.backtest, t.BacktestAnswer, body=t.BacktestIn, reads=True, long=True
    ),
    _campaign("POST", "/refit", "admin", campaigns.refit, {202: t.RefitAnswer}),
    _campaign("GET", "/audits", "read", campaigns.get_audits, t.AuditsView),
    _campaign("POST", "/breaker/reset", "moderate", campaigns.reset_breaker, t.Done, body=t.BreakerIn, optional=True),
    # webhooks
    _campaign("GET", "/webhooks", "admin", hooks.list_webhooks, t.WebhooksAnswer),
    _campaign("POST", "/webhooks", "admin", hooks.add_webhook, {201: t.WebhookView}, body=t.WebhookIn),
    _campaign("DELETE", "/webhooks", "admin", hooks.delete_webhook, t.WebhooksAnswer, query=q.WebhookKey),
    _campaign("GET", "/webhooks/dead", "admin", hooks.list_dead, t.DeadAnswer, query=q.DeadQuery),
    _campaign("POST", "/webhooks/dead/{delivery}/redeliver", "admin", hooks.redeliver, {202: t.RedeliveryAnswer}),
    _campaign(
        "POST",
        "/labelstudio",
        "vote",
        hooks.label_studio,
        t.LabelStudioAnswer,
        body=Incoming,
        query=q.LabelStudioQuery,
        foreign=True,
    ),
)
