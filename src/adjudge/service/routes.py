"""The table of routes: the one source of routing, of who may do what, and of the description of the interface."""

from __future__ import annotations

from typing import Final

from adjudge.live.decision import Decision
from adjudge.service import types as t
from adjudge.service.handlers import campaigns, hooks, server, tasks, votes, workers
from adjudge.service.labelstudio import Incoming
from adjudge.service.streaming import CONTENT
from adjudge.service.table import Route

C: Final = "/v1/campaigns/{campaign}"
TASK: Final = f"{C}/tasks/{{task}}"
WORKER: Final = f"{C}/workers/{{worker}}"

ROUTES: Final[tuple[Route, ...]] = (
    # the server
    Route("GET", "/healthz", None, server.healthz, {200: t.HealthAnswer}),
    Route("GET", "/readyz", None, server.readyz, {200: t.ReadyAnswer, 503: t.ReadyAnswer}),
    Route("GET", "/metrics", "read", server.metrics, {200: None}, content="text/plain", everywhere=True),
    Route("GET", "/openapi.json", None, server.description, {200: t.Document}),
    Route("POST", "/v1/clock", "admin", server.set_clock, {200: t.ClockAnswer}, body=t.ClockIn, optional=True, everywhere=True),
    # campaigns
    Route("GET", "/v1/campaigns", "read", campaigns.list_campaigns, {200: t.CampaignsAnswer}),
    Route(
        "PUT",
        C,
        "admin",
        campaigns.put_campaign,
        {200: t.CampaignView, 201: t.CampaignView},
        body=t.CampaignSpec,
        problems=(409,),
    ),
    Route("GET", C, "read", campaigns.get_campaign, {200: t.CampaignView}),
    Route("PATCH", C, "admin", campaigns.change_campaign, {200: t.CampaignView}, body=t.CampaignChange),
    Route("POST", f"{C}/labels", "admin", campaigns.add_label, {201: t.LabelsAnswer}, body=t.Label, problems=(409,)),
    Route("PATCH", f"{C}/labels/{{label}}", "admin", campaigns.rename_label, {200: t.LabelsAnswer}, body=t.LabelChange),
    # votes
    Route("POST", f"{C}/votes", "vote", votes.post_votes, {200: t.VoteAnswer}, body=t.Votes, problems=(409,)),
    Route(
        "POST",
        f"{C}/votes:stream",
        "vote",
        votes.stream_votes,
        {200: None},
        body=t.VoteIn,
        takes=CONTENT,
        content=CONTENT,
        optional=True,
        streams=True,
    ),
    Route("DELETE", f"{C}/votes", "vote", votes.retract_vote, {200: Decision}, body=t.VoteKey),
    Route("GET", f"{C}/votes", "read", votes.list_votes, {200: t.VotesPage}, query=t.VotesQuery, long=True),
    # tasks
    Route("GET", f"{C}/tasks", "read", tasks.list_tasks, {200: t.TasksPage}, query=t.TasksQuery),
    Route("POST", f"{C}/tasks", "vote", tasks.add_tasks, {200: t.Done}, body=t.TasksIn),
    Route("GET", TASK, "read", tasks.get_task, {200: t.TaskView}),
    Route("PUT", f"{TASK}/gold", "moderate", tasks.put_gold, {200: Decision}, body=t.GoldIn),
    Route("DELETE", f"{TASK}/gold", "moderate", tasks.delete_gold, {200: Decision}),
    Route("POST", f"{TASK}/override", "moderate", tasks.override, {200: Decision}, body=t.OverrideIn),
    Route("POST", f"{TASK}/reopen", "moderate", tasks.reopen, {200: Decision}, body=t.ReopenIn, optional=True),
    Route("GET", f"{TASK}/history", "read", tasks.history, {200: t.HistoryAnswer}),
    Route("GET", f"{C}/next", "vote", tasks.next_tasks, {200: t.NextAnswer}, query=t.NextQuery),
    Route("GET", f"{C}/decisions", "read", tasks.list_decisions, {200: t.DecisionsPage}, query=t.DecisionsQuery),
    Route("GET", f"{C}/events", "read", server.stream_events, {200: None}, query=t.EventsQuery, content="text/event-stream"),
    # workers
    Route("GET", f"{C}/workers", "read", workers.list_workers, {200: t.WorkersPage}, query=t.WorkersQuery),
    Route("GET", WORKER, "read", workers.get_worker, {200: t.WorkerView}),
    Route("PATCH", WORKER, "moderate", workers.change_worker, {200: t.WorkerView}, body=t.WorkerChange),
    Route("DELETE", WORKER, "admin", workers.erase_worker, {200: t.Done}),
    Route("POST", f"{WORKER}/ban", "moderate", workers.ban_worker, {200: t.BanAnswer}, body=t.BanIn, optional=True),
    Route("POST", f"{WORKER}/unban", "moderate", workers.unban_worker, {200: t.BanAnswer}, body=t.UnbanIn, optional=True),
    Route("POST", f"{C}/bans", "moderate", workers.ban_workers, {200: t.BanAnswer}, body=t.BansIn),
    # policy, refits
    Route("GET", f"{C}/policy", "read", campaigns.list_policies, {200: t.PoliciesAnswer}),
    Route("PUT", f"{C}/policy", "admin", campaigns.put_policy, {200: t.PolicyView}, body=t.PolicyIn),
    Route(
        "POST",
        f"{C}/policy/backtest",
        "moderate",
        campaigns.backtest,
        {200: t.BacktestAnswer},
        body=t.BacktestIn,
        reads=True,
        long=True,
    ),
    Route("POST", f"{C}/refit", "admin", campaigns.refit, {202: t.RefitAnswer}),
    Route("POST", f"{C}/breaker/reset", "moderate", campaigns.reset_breaker, {200: t.Done}, body=t.BreakerIn, optional=True),
    # webhooks
    Route("GET", f"{C}/webhooks", "admin", hooks.list_webhooks, {200: t.WebhooksAnswer}),
    Route("POST", f"{C}/webhooks", "admin", hooks.add_webhook, {201: t.WebhookView}, body=t.WebhookIn),
    Route("DELETE", f"{C}/webhooks", "admin", hooks.delete_webhook, {200: t.WebhooksAnswer}, query=t.WebhookKey),
    Route("GET", f"{C}/webhooks/dead", "admin", hooks.list_dead, {200: t.DeadAnswer}, query=t.DeadQuery),
    Route("POST", f"{C}/webhooks/dead/{{delivery}}/redeliver", "admin", hooks.redeliver, {202: t.RedeliveryAnswer}),
    Route(
        "POST",
        f"{C}/labelstudio",
        "vote",
        hooks.label_studio,
        {200: t.LabelStudioAnswer},
        body=Incoming,
        query=t.LabelStudioQuery,
        foreign=True,
    ),
)
