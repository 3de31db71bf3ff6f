"""How the service is doing: whether it is ready, and its figures."""

from __future__ import annotations

import time
from typing import Final

from adjudge.service.http.call import Context
from adjudge.service.http.metrics import MetricsPage, memory

# What `Campaign.stats` gives: (its name there, name of the metric, kind, what it means).
CAMPAIGN: Final = (
    ("accepted", "votes_accepted_total", "counter", "Votes taken, changes among them."),
    ("repeated", "votes_repeated_total", "counter", "Votes that were there already."),
    ("retracted", "votes_retracted_total", "counter", "Votes taken back."),
    ("votes", "votes", "gauge", "Votes in force."),
    ("position", "position", "gauge", "Position of the last event."),
    ("committed", "committed_position", "gauge", "Position of the last event on disk."),
    ("workers", "workers", "gauge", "Workers known."),
    ("refits", "refits_total", "counter", "Refits that took effect."),
    ("archived", "archived_tasks", "gauge", "Tasks that have left memory."),
    ("ahead", "log_ahead_seconds", "gauge", "Seconds by which the log is ahead of the clock."),
    ("following", "following", "gauge", "1 where another process writes the campaign, and this one follows its log."),
)
STARTED: Final = time.time()


async def reasons(context: Context) -> list[str]:
    """Return why votes cannot be taken now; nothing: they can."""
    if context.stopping.is_set():
        return ["the server stops"]
    return context.campaigns.ready()


def figures(context: Context) -> str:
    """Return the page that Prometheus reads."""
    page, seen = MetricsPage(), context.metrics
    requests = sorted(seen.requests.items())
    page.metric(
        "requests_total",
        "counter",
        "Requests answered.",
        [({"route": route, "status": str(status)}, count) for (route, status), count in requests],
    )
    page.histogram(
        "request_seconds",
        "Time from a request to its answer.",
        [({"route": route}, spread) for route, spread in sorted(seen.seconds.items())],
    )
    page.histogram("commit_seconds", "Time of a commit, until it is on disk.", [({}, seen.commits)])
    page.histogram("commit_events", "Events of a commit.", [({}, seen.batches)])
    page.metric("requests_under_way", "gauge", "Requests being answered.", [({}, context.under_way.now)])
    page.metric("connections", "gauge", "Connections that are open.", [({}, context.connections.now)])
    page.metric("listeners", "gauge", "Streams of votes and events that are open.", [({}, context.streams.now)])
    outcomes = sorted(seen.deliveries.items())
    page.metric("webhooks", "gauge", "Webhooks that decisions are posted to.", [({}, len(context.outbox))])
    page.metric(
        "deliveries_total",
        "counter",
        "Attempts to deliver; dead: those given up.",
        [({"outcome": each}, count) for each, count in outcomes],
    )
    made = sorted(seen.decisions.items())
    page.metric(
        "decisions_total",
        "counter",
        "Decisions made.",
        [({"campaign": name, "status": status}, count) for (name, status), count in made],
    )
    page.metric(
        "label_studio_skipped_total",
        "counter",
        "Annotations and other parts of Label Studio's webhooks that changed nothing.",
        [({"campaign": name, "reason": reason}, count) for (name, reason), count in sorted(seen.skipped.items())],
    )
    stats = [(name, context.campaigns.get(name).stats()) for name in sorted(context.campaigns.names())]
    queued = [({"campaign": name}, found["position"] - found["committed"]) for name, found in stats]
    page.metric("queued_events", "gauge", "Events that are not on disk yet.", queued)
    for key, metric, kind, text in CAMPAIGN:
        page.metric(metric, kind, text, [({"campaign": name}, found[key]) for name, found in stats])
    page.metric(
        "tasks",
        "gauge",
        "Tasks in memory.",
        [({"campaign": name, "status": status}, count) for name, found in stats for status, count in found["tasks"].items()],
    )
    tripped = [({"campaign": name}, float(found["breaker"] is not None)) for name, found in stats]
    page.metric("breaker_tripped", "gauge", "1 while a circuit breaker holds decisions.", tripped)
    page.metric(
        "clock_jump_seconds",
        "gauge",
        "Seconds by which the clock has jumped; while it is not 0, no events are taken.",
        [({}, context.campaigns.clock.jump_s)],
    )
    page.metric("memory_bytes", "gauge", "Memory that the process has in use.", [({}, memory())])
    page.metric("tokens", "gauge", "Tokens that hold.", [({}, len(context.tokens))])
    page.metric("start_seconds", "gauge", "When the process started, in seconds since 1970.", [({}, STARTED)])
    return page.text()
