"""What is to be posted to webhooks, written in the same transaction as the decisions that it tells."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from adjudge.service.campaigns.decision import Decision
from adjudge.service.http.folding import Folding
from adjudge.service.store.batch import OutboxRow
from adjudge.service.store.webhooks import WebhookRow

_encode: Final = msgspec.json.Encoder().encode


def messages(
    campaign: str, number: int, hooks: Iterable[WebhookRow], decision: Decision, body: bytes, time: int
) -> list[OutboxRow]:
    """Return what is to be posted of a decision, in the same transaction as the decision.

    - `campaign`, `number`: its name and number.
    - `hooks`: the webhooks of the campaign, as the store has them.
    - `decision`, `body`: what was decided, and that as JSON.
    - `time`: now, in microseconds since 1970.
    """
    found = []
    for hook in hooks:
        wanted = hook.settings.get("statuses")
        if wanted is not None and decision.status not in wanted:
            continue
        name = f"{number}/{hook.number}/{decision.position}/{decision.task}".encode()
        key = hashlib.blake2b(name, digest_size=16).hexdigest()
        whole = b'{"delivery":"%b","campaign":%b,"decision":%b}' % (key.encode(), _encode(campaign), body)
        found.append(OutboxRow(hook.number, number, decision.position, key, whole, time))
    return found


class Outbox:
    """Puts what is to be posted beside the decisions that it tells, into the same transaction.

    - `count`: is given the status of every decision.
    - `now`: returns the time, in microseconds since 1970.
    """

    def __init__(self, count: Callable[[str, str], None], now: Callable[[], int]) -> None:
        self._count, self._now = count, now
        self._hooks: dict[int, list[WebhookRow]] = {}

    def load(self, hooks: Iterable[WebhookRow], campaign: int | None = None) -> None:
        """Take over the webhooks that the store has.

        - `hooks`: of all campaigns, or of one.
        - `campaign`: its number.
        """
        if campaign is None:
            self._hooks.clear()
        else:
            self._hooks.pop(campaign, None)
        for hook in hooks:
            self._hooks.setdefault(hook.campaign, []).append(hook)

    def __len__(self) -> int:
        return sum(map(len, self._hooks.values()))

    def __call__(self, campaign: Folding, decision: Decision, body: bytes) -> list[OutboxRow]:
        """Return what is to be posted of a decision, which is about to be written.

        - `campaign`: whose decision it is.
        - `decision`, `body`: what was decided, and that as JSON.
        """
        self._count(campaign.name, decision.status)
        hooks = self._hooks.get(campaign.number)
        return messages(campaign.name, campaign.number, hooks, decision, body, self._now()) if hooks else []
