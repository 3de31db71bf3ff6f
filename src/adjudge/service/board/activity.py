"""What the page knows of a campaign's last hours: votes per second, decisions, and the tasks whose decision was appealed.

It is counted in memory while the server runs. A decision costs a few additions; votes are counted by the campaign already.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from adjudge.service.campaigns.decision import REASONS, Decision
from adjudge.service.campaigns.tasks import SETTLED_STATUSES
from adjudge.service.http.fold import LiveCampaign, Slice, Steps
from adjudge.service.store.batch import OutboxRow

if TYPE_CHECKING:
    from adjudge.service.http.campaign import Campaign
    from adjudge.service.http.campaigns import Campaigns

SAMPLE_INTERVAL_S: Final = 1.0
RATE_SAMPLES: Final = 30  # seconds that votes per second are an average of
MAX_RECENT_DECISIONS: Final = 500
BY_PERSON: Final = frozenset({"override", "gold", "audit"})
REOPENED: Final = "reopened"
ESCALATED_REASONS: Final = tuple(reason for status, reason in REASONS if status == "escalated")
SCANNED_TASKS: Final = 512  # between looks at the clock


class Activity:
    """The last hours of one campaign.

    - `campaign`: the campaign.
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self.began = time.time()
        self.decisions: Counter[str] = Counter()  # since the server began: "votes", "people", "escalated"
        self.recent: deque[tuple[int, str]] = deque(maxlen=MAX_RECENT_DECISIONS)  # position and task of decisions
        self.settled: deque[str] = deque(maxlen=MAX_RECENT_DECISIONS)  # tasks that votes decided last
        self.contested: dict[str, None] = {}  # tasks that were reopened and are not decided again
        self._accepted: deque[tuple[float, int]] = deque(maxlen=RATE_SAMPLES + 1)

    def note(self, decision: Decision) -> None:
        """Count a decision."""
        self.recent.append((decision.position, decision.task))
        if decision.reason == REOPENED:
            self.contested[decision.task] = None
        else:
            self.contested.pop(decision.task, None)
        if decision.status in SETTLED_STATUSES:
            if decision.reason in BY_PERSON:
                self.decisions["people"] += 1
            else:
                self.decisions["votes"] += 1
                self.settled.append(decision.task)
        elif decision.status == "escalated":
            self.decisions["escalated"] += 1

    def sample(self) -> None:
        """Note how many votes there are by now."""
        self._accepted.append((time.monotonic(), self.campaign.accepted))

    @property
    def votes_per_second(self) -> float:
        """The mean of the last half minute."""
        if len(self._accepted) < 2:
            return 0.0
        (began, first), (end, last) = self._accepted[0], self._accepted[-1]
        return max(0.0, last - first) / max(end - began, 1e-9)

    def changed_since(self, position: int) -> list[str]:
        """Return the tasks with decisions after a position, the last one first, as far back as is known."""
        return list(dict.fromkeys(task for at, task in reversed(self.recent) if at > position))

    async def recall(self) -> None:
        """Find the tasks that were reopened before the server began."""

        def steps() -> Steps[None]:
            state, pace = self.campaign.state, Slice()
            tasks: Iterator[str] = iter(list(state.tasks.by_name))
            while names := list(islice(tasks, SCANNED_TASKS)):
                known = (state.tasks.by_name.get(name) for name in names)
                self.contested.update({task.name: None for task in known if task and task.standing.reason == REOPENED})
                if pace.is_over():
                    yield None
                    if self.campaign.state is not state:
                        return
                    pace.begin()

        await self.campaign.in_turn(steps())


class Activities:
    """The activity of every campaign of a server.

    - `campaigns`: all of them; from now on their decisions are counted here, too.
    """

    def __init__(self, campaigns: Campaigns) -> None:
        self._campaigns = campaigns
        self._known: dict[int, Activity] = {}
        self._post = campaigns.on_decision
        campaigns.on_decision = self._note

    def of(self, campaign: Campaign) -> Activity:
        """Return the activity of a campaign."""
        known = self._known.get(campaign.number)
        if known is None or known.campaign is not campaign:
            known = self._known[campaign.number] = Activity(campaign)
            self._campaigns.start(known.recall())
        return known

    def _note(self, live: LiveCampaign, decision: Decision, body: bytes) -> list[OutboxRow]:
        known = self._known.get(live.number)
        if known is not None:
            known.note(decision)
        return [] if self._post is None else self._post(live, decision, body)

    async def run(self) -> None:
        """Count for as long as the server runs."""
        while True:
            for campaign in list(self._campaigns.by_name.values()):
                self.of(campaign).sample()
            await asyncio.sleep(SAMPLE_INTERVAL_S)
