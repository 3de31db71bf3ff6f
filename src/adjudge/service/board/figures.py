"""The figures of a campaign at a moment: what the view *Now* shows, read from the state at most once a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from adjudge.report import words
from adjudge.service.board.activity import Activity
from adjudge.service.campaigns.tasks import SETTLED_STATUSES, TaskSummary

if TYPE_CHECKING:
    from adjudge.service.campaigns.state import CampaignState

FIGURES_AGE_S: Final = 1.0
FIGURES_REST_RATIO: Final = 50.0  # times as long as reading took that the figures hold at least
WATCHED_DECISIONS: Final = 200  # the latest ones, whose votes are compared with the decided label
READ_US: Final = 500
AUDITS_PER_US: Final = 4  # that are counted, more or less
FEW_TASKS: Final = 20_000  # in memory: a summary takes less than a millisecond


class DecidedLabel(msgspec.Struct, frozen=True):
    """How many tasks in memory are decided as one label."""

    label: str
    name: str
    tasks: int
    share: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """A campaign at a moment.

    - `position`: of the last event; `time` of it, in microseconds since 1970.
    - `counts`: tasks in memory by status; `archived`: tasks that left memory.
    - `oldest_open`, `oldest_waiting`: when the oldest open task, and the oldest that a person has to decide, came in.
    - `labels`: the decided tasks in memory by label, most first.
    - `doubt`: the mean chance that a decided label is wrong.
    - `disagreement`: the share of votes against the label, over the latest decisions; None without any.
    - `contested`: tasks that were reopened and wait; `audits`: others with an audit that has no answer.
    - `snapshot`: position of the last snapshot.
    """

    position: int
    committed: int
    time: int
    votes: int
    workers: int
    counts: dict[str, int]
    archived: int
    contested: int
    audits: int
    oldest_open: int | None
    oldest_waiting: int | None
    labels: Sequence[DecidedLabel]
    doubt: float | None
    disagreement: float | None
    breaker: str | None
    warning: str | None
    has_breakers: bool
    snapshot: int
    follows: str | None

    @property
    def waiting(self) -> int:
        """Tasks that a person has to decide or to audit."""
        return self.counts["escalated"] + self.contested + self.audits

    @property
    def open(self) -> int:
        """Tasks that are neither decided nor escalated."""
        return self.counts["open"] + self.counts["held"]

    @property
    def decided(self) -> int:
        """Tasks in memory that are decided."""
        return sum(self.counts[status] for status in SETTLED_STATUSES)


def read_figures(activity: Activity, state: CampaignState, summary: TaskSummary) -> Figures:
    """Return the figures of a campaign, from its state and the summary of its tasks."""
    campaign = activity.campaign
    total = max(sum(summary.labels.values()), 1)
    shares = [
        DecidedLabel(state.labels[code], state.names[code], number, number / total)
        for code, number in sorted(summary.labels.items(), key=lambda pair: -pair[1])
    ]
    return Figures(
        position=state.position,
        committed=campaign.committed,
        time=state.time,
        votes=state.votes,
        workers=len(campaign.names),
        counts=summary.counts,
        archived=state.archived_tasks,
        contested=len(activity.contested),
        audits=_count_audits(activity, state),
        oldest_open=summary.oldest.get("open"),
        oldest_waiting=summary.oldest.get("escalated"),
        labels=shares,
        doubt=summary.doubt,
        disagreement=_disagreement(activity, state),
        breaker=state.breakers.tripped,
        warning=state.describe_stall(),
        has_breakers=state.policy.breakers is not None,
        snapshot=campaign.duties.snapshot_at,
        follows=campaign.follows,
    )


def _count_audits(activity: Activity, state: CampaignState) -> int:
    """Return how many tasks wait for an audit, and not for a decision as well."""
    if state.audits is None:
        return 0
    tasks, contested = state.tasks.by_name, activity.contested
    return sum(
        name not in contested and ((task := tasks.get(name)) is None or task.standing.status != "escalated")
        for name in state.audits.waiting
    )


def _disagreement(activity: Activity, state: CampaignState) -> float | None:
    """Return the share of votes against the decided label, over the latest decisions of votes."""
    against = votes = 0
    for name in list(dict.fromkeys(reversed(activity.settled)))[:WATCHED_DECISIONS]:
        task = state.tasks.by_name.get(name)
        if task is None or task.standing.label < 0:
            continue
        cast = state.stream.votes_of(name) or ()
        votes += len(cast)
        against += sum(label != task.standing.label for _, label in cast)
    return against / votes if votes else None


class FigureCache:
    """Caches figures, shared by all viewers, and reads them again once they are too old."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, Figures]] = {}

    async def read(self, activity: Activity) -> Figures:
        """Return the figures of a campaign, at most about a second old."""
        campaign = activity.campaign
        until, known = self._known.get(campaign.number, (0.0, None))
        if known is not None and (time.monotonic() < until or known.position == campaign.position):
            return known
        began = time.monotonic()
        # Without a turn: a summary of a million tasks must not delay votes.
        tasks = campaign.state.tasks
        summary = tasks.summary() if len(tasks) < FEW_TASKS else await asyncio.to_thread(tasks.summary)
        audits = campaign.state.audits
        cost = READ_US + (0 if audits is None else len(audits.waiting) // AUDITS_PER_US)
        figures = await campaign.read(lambda: read_figures(activity, campaign.state, summary), cost)
        end = time.monotonic()
        self._known[campaign.number] = end + max(FIGURES_AGE_S, FIGURES_REST_RATIO * (end - began)), figures
        return figures


def headline(figures: Figures, now: float) -> str:
    """Return the sentence that the view opens with.

    - `now`: seconds since 1970.
    """
    from adjudge.service.board.pages import duration

    if figures.breaker is not None:
        return "A circuit breaker has tripped: new decisions wait until a person has looked."
    if not figures.votes and not sum(figures.counts.values()):
        return "No votes yet."
    if figures.waiting:
        oldest = "" if figures.oldest_waiting is None else f", the oldest for {duration(now - figures.oldest_waiting / 1e6)}"
        one = figures.waiting == 1
        return f"{words.tally(figures.waiting, 'task')} {'waits' if one else 'wait'} for a person{oldest}."
    return f"Nothing needs you: {words.tally(figures.decided, 'task')} decided, {words.count(figures.open)} open."
