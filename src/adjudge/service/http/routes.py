"""The table of routes: the one source of routing, of who may do what, and of the description of the interface."""

from __future__ import annotations

from typing import Final

from adjudge.service.campaigns.decision import Decision
from adjudge.service.http import types as t
from adjudge.service.http.handlers import campaigns, hooks, server, tasks, votes, workers
from adjudge.service.http.labelstudio import Incoming
from adjudge.service.http.streaming import NDJSON_MEDIA_TYPE
from adjudge.service.http.table import Route

CAMPAIGN_PATH: Final = "/v1/campaigns/{campaign}"
TASK_PATH: Final = f"{CAMPAIGN_PATH}/tasks/{{task}}"
WORKER_PATH: Final = f"{CAMPAIGN_PATH}/workers/{{worker}}"

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
        CAMPAIGN_PATH,
        "admin",
        campaigns.put_campaign,
        {200: t.CampaignView, 201: t.CampaignView},
        body=t.CampaignSpec,
        problems=(409,),
    ),
    Route("GET", CAMPAIGN_PATH, "read", campaigns.get_campaign, {200: t.CampaignView}),
    Route("PATCH", CAMPAIGN_PATH, "admin", campaigns.change_campaign, {200: t.CampaignView}, body=t.CampaignChange),
    Route("POST", f"{CAMPAIGN_PATH}/labels", "admin", campaigns.add_label, {201: t.LabelsAnswer}, body=t.Label, problems=(409,)),
    Route(
        "PATCH", f"{CAMPAIGN_PATH}/labels/{{label}}", "admin", campaigns.rename_label, {200: t.LabelsAnswer}, body=t.LabelChange
    ),
    # votes
    Route("POST", f"{CAMPAIGN_PATH}/votes", "vote", votes.post_votes, {200: t.VoteAnswer}, body=t.Votes, problems=(409,)),
    Route(
        "POST",
        f"{CAMPAIGN_PATH}/votes:stream",
        "vote",
        votes.stream_votes,
        {200: None},
        body=t.VoteIn,
        takes=NDJSON_MEDIA_TYPE,
        content=NDJSON_MEDIA_TYPE,
        optional=True,
        streams=True,
    ),
    Route("DELETE", f"{CAMPAIGN_PATH}/votes", "vote", votes.retract_vote, {200: Decision}, body=t.VoteKey),
    Route("GET", f"{CAMPAIGN_PATH}/votes", "read", votes.list_votes, {200: t.VotesPage}, query=t.VotesQuery, long=True),
    # tasks
    Route("GET", f"{CAMPAIGN_PATH}/tasks", "read", tasks.list_tasks, {200: t.TasksPage}, query=t.TasksQuery),
    Route("POST", f"{CAMPAIGN_PATH}/tasks", "vote", tasks.add_tasks, {200: t.Done}, body=t.TasksIn),
    Route("GET", TASK_PATH, "read", tasks.get_task, {200: t.TaskView}),
    Route("DELETE", f"{TASK_PATH}/data", "admin", tasks.erase_item, {200: t.Done}),
    Route("PUT", f"{TASK_PATH}/gold", "moderate", tasks.put_gold, {200: Decision}, body=t.GoldIn),
    Route("DELETE", f"{TASK_PATH}/gold", "moderate", tasks.delete_gold, {200: Decision}),
    Route("POST", f"{TASK_PATH}/override", "moderate", tasks.override, {200: Decision}, body=t.OverrideIn, problems=(409,)),
    Route(
        "POST", f"{TASK_PATH}/reopen", "moderate", tasks.reopen, {200: Decision}, body=t.ReopenIn, optional=True, problems=(409,)
    ),
    Route("GET", f"{TASK_PATH}/history", "read", tasks.history, {200: t.HistoryAnswer}),
    Route("GET", f"{CAMPAIGN_PATH}/next", "vote", tasks.next_tasks, {200: t.NextAnswer}, query=t.NextQuery),
    Route("GET", f"{CAMPAIGN_PATH}/decisions", "read", tasks.list_decisions, {200: t.DecisionsPage}, query=t.DecisionsQuery),
    Route(
        "GET",
        f"{CAMPAIGN_PATH}/events",
        "read",
        server.stream_events,
        {200: None},
        query=t.EventsQuery,
        content="text/event-stream",
    ),
    # workers
    Route("GET", f"{CAMPAIGN_PATH}/workers", "read", workers.list_workers, {200: t.WorkersPage}, query=t.WorkersQuery),
    Route("GET", WORKER_PATH, "read", workers.get_worker, {200: t.WorkerView}),
    Route("PATCH", WORKER_PATH, "moderate", workers.change_worker, {200: t.WorkerView}, body=t.WorkerChange),
    Route("DELETE", WORKER_PATH, "admin", workers.erase_worker, {200: t.Done}),
    Route("POST", f"{WORKER_PATH}/ban", "moderate", workers.ban_worker, {200: t.BanAnswer}, body=t.BanIn, optional=True),
    Route("POST", f"{WORKER_PATH}/unban", "moderate", workers.unban_worker, {200: t.BanAnswer}, body=t.UnbanIn, optional=True),
    Route("POST", f"{CAMPAIGN_PATH}/bans", "moderate", workers.ban_workers, {200: t.BanAnswer}, body=t.BansIn),
    # policy, refits
    Route("GET", f"{CAMPAIGN_PATH}/policy", "read", campaigns.list_policies, {200: t.PoliciesAnswer}),
    Route("PUT", f"{CAMPAIGN_PATH}/policy", "admin", campaigns.put_policy, {200: t.PolicyView}, body=t.PolicyIn),
    Route(
        "POST",
        f"{CAMPAIGN_PATH}/policy/backtest",
        "moderate",
        campaigns.backtest,
        {200: t.BacktestAnswer},
        body=t.BacktestIn,
        reads=True,
        long=True,
    ),
    Route("POST", f"{CAMPAIGN_PATH}/refit", "admin", campaigns.refit, {202: t.RefitAnswer}),
    Route(
        "POST",
        f"{CAMPAIGN_PATH}/breaker/reset",
        "moderate",
        campaigns.reset_breaker,
        {200: t.Done},
        body=t.BreakerIn,
        optional=True,
    ),
    # webhooks
    Route("GET", f"{CAMPAIGN_PATH}/webhooks", "admin", hooks.list_webhooks, {200: t.WebhooksAnswer}),
    Route("POST", f"{CAMPAIGN_PATH}/webhooks", "admin", hooks.add_webhook, {201: t.WebhookView}, body=t.WebhookIn),
    Route("DELETE", f"{CAMPAIGN_PATH}/webhooks", "admin", hooks.delete_webhook, {200: t.WebhooksAnswer}, query=t.WebhookKey),
    Route("GET", f"{CAMPAIGN_PATH}/webhooks/dead", "admin", hooks.list_dead, {200: t.DeadAnswer}, query=t.DeadQuery),
    Route("POST", f"{CAMPAIGN_PATH}/webhooks/dead/{{delivery}}/redeliver", "admin", hooks.redeliver, {202: t.RedeliveryAnswer}),
    Route(
        "POST",
        f"{CAMPAIGN_PATH}/labelstudio",
        "vote",
        hooks.label_studio,
        {200: t.LabelStudioAnswer},
        body=Incoming,
        query=t.LabelStudioQuery,
        foreign=True,
    ),
)
