"""How the service is doing: whether it is ready, and its figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from quorate.service.call import Context
from quorate.service.metrics import Histogram, Page, memory

# What `Campaign.stats` gives under a name: (name of the metric, kind, what it means).
CAMPAIGN: Final = (
    ("votes", "votes_total", "counter", "Votes accepted."),
    ("repeated", "repeated_votes_total", "counter", "Votes that were there already."),
    ("retractions", "retractions_total", "counter", "Votes taken back."),
    ("position", "position", "gauge", "Position of the last event."),
    ("committed", "committed_position", "gauge", "Position of the last event on disk."),
    ("queue", "queue_events", "gauge", "Events that wait to be written."),
    ("workers", "workers", "gauge", "Workers known."),
    ("refits", "refits_total", "counter", "Refits that took effect."),
    ("dead", "dead_letters", "gauge", "Deliveries of webhooks that were given up."),
    ("waiting", "waiting_deliveries", "gauge", "Deliveries of webhooks that are still to be made."),
    ("archived", "archived_tasks", "gauge", "Tasks that have left memory."),
    ("breaker", "breaker_tripped", "gauge", "1 while a circuit breaker holds decisions."),
)
BY_STATUS: Final = (
    ("decisions", "decisions_total", "counter", "Decisions made."),
    ("tasks", "tasks", "gauge", "Tasks in memory."),
)
SPREAD: Final = (
    ("commit_seconds", "commit_seconds", "Time that a commit takes, the flush to disk included."),
    ("batch_sizes", "batch_events", "Events of one commit."),
)
STARTED: Final = time.time()


async def reasons(context: Context) -> list[str]:
    """Return why votes cannot be taken now; nothing: they can."""
    if context.stopping.is_set():
        return ["the server stops"]
    return context.campaigns.ready()


def figures(context: Context) -> str:
    """Return the page that Prometheus reads."""
    page, seen = Page(), context.metrics
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
    page.metric("requests_under_way", "gauge", "Requests being answered.", [({}, context.under_way.now)])
    page.metric("listeners", "gauge", "Streams of events that are open.", [({}, context.listeners.now)])
    outcomes = sorted(seen.deliveries.items())
    page.metric("deliveries_total", "counter", "Attempts to deliver.", [({"outcome": each}, count) for each, count in outcomes])
    stats = [(name, context.campaigns.get(name).stats()) for name in sorted(context.campaigns.names())]
    _campaigns(page, stats)
    page.metric("memory_bytes", "gauge", "Memory that the process has in use.", [({}, memory())])
    page.metric("tokens", "gauge", "Tokens that hold.", [({}, len(context.tokens))])
    page.metric("start_seconds", "gauge", "When the process started, in seconds since 1970.", [({}, STARTED)])
    return page.text()


def _campaigns(page: Page, stats: list[tuple[str, dict[str, Any]]]) -> None:
    def of(key: str, kind: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
        return ((name, found[key]) for name, found in stats if key in found and kind(found[key]))

    for key, metric, kind, text in CAMPAIGN:
        numbers = of(key, lambda value: isinstance(value, int | float))
        page.metric(metric, kind, text, [({"campaign": name}, value) for name, value in numbers])
    for key, metric, kind, text in BY_STATUS:
        tables = of(key, lambda value: isinstance(value, dict))
        rows = [({"campaign": name, "status": status}, count) for name, table in tables for status, count in table.items()]
        page.metric(metric, kind, text, rows)
    for key, metric, text in SPREAD:
        spreads = of(key, lambda value: isinstance(value, Histogram))
        page.histogram(metric, text, [({"campaign": name}, value) for name, value in spreads])
