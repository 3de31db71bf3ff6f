"""Live audits: a person judges some automatic decisions blind, and the answers bound the error rate and watch for drift.

A decision is drawn by a hash of the campaign, the position of the decision in the log and the task, so that a replay draws the
same ones. The statistics are those of `adjudge.results.promise.audits`.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import takewhile
from typing import TYPE_CHECKING, Final

import msgspec

from adjudge.results.promise.audits import AuditState
from adjudge.service.campaigns.policy import AuditPlan

if TYPE_CHECKING:
    from adjudge.service.campaigns.breakers import Breakers
    from adjudge.service.store.events import Created

MICROSECONDS_PER_DAY: Final = 86_400_000_000
HASH_BITS: Final = 64  # of the hash that a share is compared with
ALARM_CAUSE: Final = "audits"  # that the reason of an alarm begins with
MAX_RECENT_AUDITS: Final = 100  # that the reason of an alarm reports


class WaitingAudit(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A decision that was drawn and is not judged yet."""

    label: int  # the decided one
    position: int  # of the event that made the decision
    time: int  # of the draw, in microseconds since 1970
    due: int  # when it counts as wrong


class TriedAudits(msgspec.Struct, frozen=True, kw_only=True):
    """What audits would have found in the past, as far as the true labels are known by now.

    - `decisions`: automatic decisions; `drawn`: those that would have been drawn for an audit.
    - `known`: drawn decisions on tasks whose label is known: from gold, an audit or an override. `wrong` of them were wrong.
    - `interval`: bounds of the error rate from these. They hold if known labels are no more common where decisions are wrong.
    - `alarmed`: whether these would have raised the alarm.
    """

    decisions: int
    drawn: int
    known: int
    wrong: int
    interval: tuple[float, float]
    alarmed: bool


class Audits(msgspec.Struct):
    """The audits of a campaign, a part of its state.

    - `plan`: of the policy.
    - `decisions`: automatic decisions since audits began; `drawn` of them were drawn.
    - `expired`: audits without an answer, which count as wrong.
    - `state`: counts of judged decisions, and the evidence of the alarm.
    - `recent`: whether each of the latest judged decisions was wrong, since the alarm was restarted.
    - `waiting`: audits without an answer by task, in the order of their draws.
    - `restarted`: position at which the alarm was restarted: audits drawn before it are counted, and raise no alarm.

    >>> from adjudge.service.campaigns.breakers import Breakers
    >>> from adjudge.service.store.events import Created
    >>> created = Created(time=0, labels=["spam", "ok"], names=["spam", "ok"], model="fds")
    >>> audits, breakers = Audits(AuditPlan(share=1.0)), Breakers()
    >>> due = audits.draw(created, "t1", label=0, position=7, time=0)
    >>> audits.answer("t1", 1, breakers)
    1
    >>> audits.state.wrong, audits.state.audited, round(audits.upper_bound, 2)
    (1, 1, 1.0)
    """

    plan: AuditPlan
    decisions: int = 0
    drawn: int = 0
    expired: int = 0
    state: AuditState = AuditState()
    recent: list[bool] = []
    waiting: dict[str, list[WaitingAudit]] = {}
    restarted: int = 0

    def draw(self, created: Created, task: str, *, label: int, position: int, time: int) -> int:
        """Count an automatic decision; return when its audit is due, 0 if it is not drawn.

        - `created`: the first event of the log.
        - `task`, `label`: what was decided of what.
        - `position`: of the event that made the decision.
        - `time`: of that event.
        """
        self.decisions += 1
        seed = created.settings.get("seed", 0)
        text = f"{created.time} {seed} {position} {task}".encode("utf-8", "surrogatepass")
        if int.from_bytes(blake2b(text, digest_size=HASH_BITS // 8).digest(), "big") >= self.plan.share * 2.0**HASH_BITS:
            return 0
        self.drawn += 1
        due = time + round(self.plan.deadline_days * MICROSECONDS_PER_DAY)
        self.waiting.setdefault(task, []).append(WaitingAudit(label, position, time, due))
        return due

    def answer(self, task: str, label: int, breakers: Breakers) -> int:
        """Judge the waiting audits of a task by a person's label; return how many there were.

        - `breakers`: trip when this raises the alarm.
        """
        audits = self.waiting.pop(task, ())
        for audit in audits:
            self._judge(audit, audit.label != label, breakers)
        return len(audits)

    def expire(self, task: str, due: int, breakers: Breakers) -> None:
        """Count the audits of a task that were due at a time as wrong."""
        audits = self.waiting.get(task, [])
        late = list(takewhile(lambda audit: audit.due == due, audits))  # as nearly always the oldest, of which there may be many
        if not late:
            late = [audit for audit in audits if audit.due == due]
        if len(late) == len(audits):
            self.waiting.pop(task, None)
        elif late and audits[0].due == due:
            del audits[: len(late)]
        elif late:
            self.waiting[task] = [audit for audit in audits if audit.due != due]
        for audit in late:
            self.expired += 1
            self._judge(audit, True, breakers)

    def adopt(self, plan: AuditPlan) -> None:
        """Go on under another plan; the alarm is restarted if it has another limit. Audits that wait keep their deadline."""
        if (plan.error, plan.run) != (self.plan.error, self.plan.run):
            self.state, self.recent = self.plan.rule.restart_alarm(self.state), []
        self.plan = plan

    def restart_alarm(self, position: int) -> None:
        """Forget the evidence of the alarm, after a person dealt with it; audits of earlier decisions add none."""
        self.state, self.recent, self.restarted = self.plan.rule.restart_alarm(self.state), [], position

    def take_waiting(self) -> list[tuple[str, int]]:
        """Take out all audits without an answer: task and decided label of each, in the order of their draws."""
        taken = sorted((audit.position, task, audit.label) for task, audits in self.waiting.items() for audit in audits)
        self.waiting = {}
        return [(task, label) for _, task, label in taken]

    def try_out(self, wrong: Iterable[bool]) -> TriedAudits:
        """Return what audits would have said by these answers, in the order of their draws."""
        rule, state, is_alarmed = self.plan.rule, AuditState(), False
        for each in wrong:
            state = rule.add(state, each)
            is_alarmed = is_alarmed or rule.is_alarmed(state)
        return TriedAudits(
            decisions=self.decisions,
            drawn=self.drawn,
            known=state.audited,
            wrong=state.wrong,
            interval=(rule.lower_bound(state), rule.upper_bound(state)),
            alarmed=is_alarmed,
        )

    def clamp(self, time: int) -> None:
        """Let no draw be later than now, because the clock was ahead; what waits keeps its time span."""
        self.waiting = {
            task: [
                msgspec.structs.replace(audit, time=min(audit.time, time), due=audit.due - max(0, audit.time - time))
                for audit in audits
            ]
            for task, audits in self.waiting.items()
        }

    def dues(self) -> list[tuple[int, str]]:
        """Return when each audit without an answer counts as wrong, and its task."""
        return [(audit.due, task) for task, audits in self.waiting.items() for audit in audits]

    def count_waiting(self) -> int:
        """Return how many audits have no answer yet."""
        return sum(map(len, self.waiting.values()))

    @property
    def is_alarmed(self) -> bool:
        """Whether answers say that more decisions are wrong than the policy accepts."""
        return self.plan.rule.is_alarmed(self.state)

    @property
    def rate(self) -> float | None:
        """The share of wrong decisions among those judged; None without any."""
        return self.state.wrong / self.state.audited if self.state.audited else None

    @property
    def upper_bound(self) -> float:
        """What the mean error rate of the judged decisions exceeds with at most the probability `risk`, at any time."""
        return self.plan.rule.upper_bound(self.state)

    @property
    def lower_bound(self) -> float:
        """What that rate is below with at most the probability `risk`, at any time."""
        return self.plan.rule.lower_bound(self.state)

    def _judge(self, audit: WaitingAudit, wrong: bool, breakers: Breakers) -> None:
        before = self.state
        self.state = self.plan.rule.add(before, wrong)
        if audit.position <= self.restarted:
            self.state = self.state._replace(evidence=before.evidence)
            return
        self.recent.append(wrong)
        del self.recent[:-MAX_RECENT_AUDITS]
        if self.is_alarmed:
            breakers.hold(
                f"{ALARM_CAUSE}: {sum(self.recent)} of the last {len(self.recent)} audited decisions were wrong, and "
                f"{self.state.wrong} of all {self.state.audited}: more than the {self.plan.error:g} that the policy accepts"
            )
