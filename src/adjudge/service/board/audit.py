"""*Audit this reviewer*: a blind second review of a random sample of a worker's votes.

The sample is the worker's voted tasks in the order of a hash, so that it is random, the same for everybody, and kept nowhere. A
second reviewer sees the item and nothing else, and their answer is gold: it judges the worker, and all others on the task.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.responses import Response

from adjudge.evaluation.intervals import quantile, wilson
from adjudge.report import words
from adjudge.service.board.items import item_of
from adjudge.service.board.pages import redirect
from adjudge.service.board.queue import KEYS
from adjudge.service.board.visit import PageRequest
from adjudge.service.campaigns.state import BY_HAND

if TYPE_CHECKING:
    from adjudge.service.campaigns.state import CampaignState

LINE: Final = 0.8  # the accuracy to reach, if the policy has no probation
AUDIT_LEVEL: Final = 0.9  # of the interval
MIN_JUDGED: Final = 10  # answers before a verdict
MAX_NEEDED: Final = 2000
MAX_SAMPLED_VOTES: Final = 20_000  # votes of a worker that the sample is drawn from


class GoldRecord(NamedTuple):
    """How a worker's votes agree with gold."""

    judged: int  # votes on tasks whose true label is known
    right: int
    line: float

    @property
    def interval(self) -> tuple[float, float]:
        """The accuracy's interval, by Wilson's rule."""
        return _interval(self.right, self.judged)

    @property
    def verdict(self) -> str | None:
        """What the audit says; None while it cannot tell."""
        low, high = self.interval
        if self.judged < MIN_JUDGED:
            return None
        return "good" if low >= self.line else "poor" if high < self.line else None

    @property
    def needed(self) -> int | None:
        """About how many more answers a verdict needs if they come out as those before; None if it is too many to say."""
        if self.verdict is not None:
            return 0
        rate = (self.right + 1) / (self.judged + 2)
        for more in range(1, MAX_NEEDED):
            right, judged = self.right + round(rate * more), self.judged + more
            if GoldRecord(judged, right, self.line).verdict is not None:
                return more
        return None

    @property
    def sentence(self) -> str:
        """The state of the audit."""
        if not self.judged:
            return "No vote of theirs is on a task whose true label is known."
        low, high = self.interval
        told = f"Of {words.tally(self.judged, 'vote')} with a known truth {words.count(self.right)} agree"
        told += f" ({words.percent(low)} to {words.percent(high)})"
        if self.verdict is not None:
            return f"{told}: {'at least' if self.verdict == 'good' else 'below'} {words.percent(self.line)}."
        needed = self.needed
        few = f"about {words.count(needed)} more answers" if needed is not None else "very many more answers"
        return f"{told}; {few} will show whether they reach {words.percent(self.line)}."


def _interval(right: int, judged: int) -> tuple[float, float]:
    if not judged:
        return 0.0, 1.0
    low, high = wilson(right / judged, judged, quantile(AUDIT_LEVEL, math.inf))
    return float(low), float(high)


def _line(state: CampaignState) -> float:
    return LINE if state.policy.probation is None else state.policy.probation.accuracy


def _votes(state: CampaignState, number: int) -> Sequence[tuple[str, int]]:
    worker = state.crowd.all.get(number)
    if worker is None:
        return []
    return [*state.online.state.tasks_of(worker.text), *(worker.aside or {}).items()][-MAX_SAMPLED_VOTES:]


def gold_of(state: CampaignState, number: int) -> GoldRecord:
    """Return how a worker's votes on tasks in memory agree with gold."""
    judged = right = 0
    for name, label in _votes(state, number):
        task = state.tasks.by_name.get(name)
        if task is not None and task.standing.reason == "gold":
            judged += 1
            right += task.standing.label == label
    return GoldRecord(judged, right, _line(state))


def sample(state: CampaignState, number: int) -> Iterator[str]:
    """Yield a worker's voted tasks whose truth is not known, at random."""

    def key(name: str) -> bytes:
        return blake2b(f"{number} {name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()

    for name in sorted((name for name, _ in _votes(state, number)), key=key):
        task = state.tasks.by_name.get(name)
        if task is not None and task.standing.reason not in BY_HAND:
            yield name


async def show(visit: PageRequest) -> Response:
    """Show the item of the next task, without votes and without what is decided."""
    campaign, name = visit.campaign, visit.identity()
    number, skipped = campaign.number_of(name), visit.query.get("skip", "")
    cost = 3 * min(len(campaign.state.tasks), MAX_SAMPLED_VOTES)

    def read() -> tuple[GoldRecord, str | None]:
        state, is_past = campaign.state, not skipped
        for task in sample(state, number):
            if is_past:
                return gold_of(state, number), task
            is_past = task == skipped
        return gold_of(state, number), None

    gold, task = await campaign.read(read, cost)
    item = None if task is None else await item_of(campaign, task)
    values = {"name": name, "gold": gold, "task": task, "item": item, "labels": campaign.labels, "keys": KEYS}
    return visit.board.pages.page("audit.html", visit, values, hosts=campaign.state.image_hosts)


async def answer(visit: PageRequest) -> Response:
    """Take the second reviewer's answer as gold, and go to the next task."""
    name, task = visit.identity(), visit.identity("task")
    await visit.campaign.gold(task, visit.label(), visit.name)
    return redirect(visit.here("audit", id=name))
