"""Counters of the service, its readiness, and its metrics in the text format of Prometheus."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from adjudge.service.http.call import Context
    from adjudge.service.http.types import AuditsView


BOUNDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # seconds
SIZES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)  # votes
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels: TypeAlias = Mapping[str, str]
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


class Histogram:
    """How many values are at most each of some bounds.

    - `bounds`: from the smallest; larger values than the last are counted beyond it.

    >>> seconds = Histogram((0.1, 1.0))
    >>> for value in (0.05, 0.5, 7.0):
    ...     seconds.add(value)
    >>> seconds.counts, seconds.total
    ([1, 1, 1], 7.55)
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = BOUNDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Metrics:
    """What the HTTP side counts; campaigns count what is theirs."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, int], int] = defaultdict(int)  # by route and status
        self.seconds: dict[str, Histogram] = defaultdict(Histogram)  # by route
        self.commits, self.batches = Histogram(), Histogram(SIZES)  # seconds, and events, of a commit
        self.decisions: dict[tuple[str, str], int] = defaultdict(int)  # by campaign and status
        self.deliveries: dict[str, int] = defaultdict(int)  # of webhooks, by outcome
        self.skipped: dict[tuple[str, str], int] = defaultdict(int)  # of Label Studio, by campaign and reason

    def count_answer(self, route: str, status: int, seconds: float) -> None:
        """Count one answer; routes are those of the table, so that nobody outside can make up new ones."""
        self.requests[route, status] += 1
        self.seconds[route].add(seconds)

    def count_commit(self, events: int, seconds: float) -> None:
        """Count a commit."""
        self.batches.add(events)
        self.commits.add(seconds)

    def count_decision(self, campaign: str, status: str) -> None:
        """Count a decision."""
        self.decisions[campaign, status] += 1

    def skip(self, campaign: str, reason: str, count: int) -> None:
        """Count what Label Studio posted and nothing came of."""
        self.skipped[campaign, reason] += count


class MetricsPage:
    r"""The text, put together metric by metric.

    >>> votes = MetricsPage()
    >>> votes.metric("votes_total", "counter", "Votes taken.", [({"campaign": 'a"b\n'}, 3)])
    >>> print(votes.text(), end="")
    # HELP adjudge_votes_total Votes taken.
    # TYPE adjudge_votes_total counter
    adjudge_votes_total{campaign="a\"b\n"} 3
    """

    def __init__(self) -> None:
        self._lines: list[str] = []

    def metric(self, name: str, kind: str, text: str, values: Iterable[tuple[Labels, float]]) -> None:
        """Add a counter or a gauge with its values; one without values is left out.

        - `name`: without the prefix `adjudge_`.
        - `kind`: counter or gauge.
        - `text`: what it means, one line.
        - `values`: labels and value of each.
        """
        lines = [f"adjudge_{name}{_format_labels(labels)} {_number(value)}" for labels, value in values]
        if lines:
            self._head(name, kind, text)
            self._lines += lines

    def gauge(self, name: str, text: str, value: float) -> None:
        """Add a gauge without labels."""
        self.metric(name, "gauge", text, [({}, value)])

    def counts(self, name: str, text: str, labels: Sequence[str], counts: Mapping[Any, float]) -> None:
        """Add a counter; the keys of `counts` are the values of its labels, a tuple if there are several."""
        rows = ((key if isinstance(key, tuple) else (key,), count) for key, count in sorted(counts.items()))
        self.metric(name, "counter", text, [(dict(zip(labels, map(str, key), strict=True)), count) for key, count in rows])

    def histogram(self, name: str, text: str, values: Iterable[tuple[Labels, Histogram]]) -> None:
        """Add histograms; `values` are the labels and the counts of each."""
        lines: list[str] = []
        for labels, seen in values:
            below = 0
            for bound, count in zip((*map(_number, seen.bounds), "+Inf"), seen.counts, strict=True):
                below += count
                lines.append(f"adjudge_{name}_bucket{_format_labels({**labels, 'le': bound})} {below}")
            lines.append(f"adjudge_{name}_sum{_format_labels(labels)} {_number(seen.total)}")
            lines.append(f"adjudge_{name}_count{_format_labels(labels)} {below}")
        if lines:
            self._head(name, "histogram", text)
            self._lines += lines

    def _head(self, name: str, kind: str, text: str) -> None:
        self._lines += [f"# HELP adjudge_{name} {text}", f"# TYPE adjudge_{name} {kind}"]

    def text(self) -> str:
        """Return the page."""
        return "".join(line + "\n" for line in self._lines)


def _format_labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def count_memory_bytes() -> int:
    """Return how many bytes of memory the process has in use, 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


async def list_reasons(context: Context) -> list[str]:
    """Return why votes cannot be taken now; nothing: they can."""
    if context.stopping.is_set():
        return ["the server stops"]
    return context.campaigns.ready()


def format_figures(context: Context) -> str:
    """Return the page that Prometheus reads."""
    page, counts = MetricsPage(), context.metrics
    page.counts("requests_total", "Requests answered.", ("route", "status"), counts.requests)
    seconds = [({"route": route}, spread) for route, spread in sorted(counts.seconds.items())]
    page.histogram("request_seconds", "Time from a request to its answer.", seconds)
    page.histogram("commit_seconds", "Time of a commit, until it is on disk.", [({}, counts.commits)])
    page.histogram("commit_events", "Events of a commit.", [({}, counts.batches)])
    page.gauge("requests_under_way", "Requests being answered.", context.under_way.now)
    page.gauge("connections", "Connections that are open.", context.connections.now)
    page.gauge("listeners", "Streams of votes and events that are open.", context.streams.now)
    page.gauge("webhooks", "Webhooks that decisions are posted to.", len(context.outbox))
    page.counts("deliveries_total", "Attempts to deliver; dead: those given up.", ("outcome",), counts.deliveries)
    page.counts("decisions_total", "Decisions made.", ("campaign", "status"), counts.decisions)
    skipped = "Annotations and other parts of Label Studio's webhooks that changed nothing."
    page.counts("label_studio_skipped_total", skipped, ("campaign", "reason"), counts.skipped)
    stats = {name: context.campaigns.get(name).stats() for name in context.campaigns.names()}
    queued = [({"campaign": name}, figures["position"] - figures["committed"]) for name, figures in stats.items()]
    page.metric("queued_events", "gauge", "Events that are not on disk yet.", queued)
    for key, metric, kind, text in CAMPAIGN:
        page.metric(metric, kind, text, [({"campaign": name}, figures[key]) for name, figures in stats.items()])
    tasks = [({"campaign": name, "status": status}, count) for name in stats for status, count in stats[name]["tasks"].items()]
    page.metric("tasks", "gauge", "Tasks in memory.", tasks)
    tripped = [({"campaign": name}, float(figures["breaker"] is not None)) for name, figures in stats.items()]
    page.metric("breaker_tripped", "gauge", "1 while a circuit breaker holds decisions.", tripped)
    _add_audits(page, {name: figures["audits"] for name, figures in stats.items() if figures["audits"] is not None})
    jump = "Seconds by which the clock has jumped; while it is not 0, no events are taken."
    page.gauge("clock_jump_seconds", jump, context.campaigns.clock.jump_s)
    page.gauge("memory_bytes", "Memory that the process has in use.", count_memory_bytes())
    page.gauge("tokens", "Tokens that hold.", len(context.tokens))
    page.gauge("start_seconds", "When the process started, in seconds since 1970.", STARTED)
    return page.text()


def _add_audits(page: MetricsPage, audits: Mapping[str, AuditsView]) -> None:
    """Add the figures of the campaigns that have audits."""
    outcomes = [
        ({"campaign": name, "outcome": outcome}, count)
        for name, view in audits.items()
        for outcome, count in (
            ("right", view.audited - view.wrong),
            ("wrong", view.wrong - view.expired),
            ("expired", view.expired),
        )
    ]
    page.metric("audits_total", "counter", "Audits judged; expired: without an answer, counted as wrong.", outcomes)

    def rows(figure: Callable[[AuditsView], float]) -> list[tuple[Labels, float]]:
        return [({"campaign": name}, figure(view)) for name, view in audits.items()]

    lower, upper = "Lower bound of the error rate of automatic decisions.", "Upper bound of that error rate."
    page.metric("audits_waiting", "gauge", "Audits without an answer yet.", rows(lambda view: view.waiting))
    page.metric("audit_error_lower", "gauge", lower, rows(lambda view: view.interval[0]))
    page.metric("audit_error_upper", "gauge", upper, rows(lambda view: view.interval[1]))
    level, alarm = "How near the alarm of the audits is: it is raised at 1.", "1 while the alarm of the audits is raised."
    page.metric("audit_alarm_level", "gauge", level, rows(lambda view: view.alarm))
    page.metric("audit_alarm", "gauge", alarm, rows(lambda view: view.alarmed))
