"""Webhooks: those that go out to others, and those that come in from Label Studio."""

from __future__ import annotations

import asyncio
import secrets
import time
from functools import partial
from typing import Any, Final

import msgspec

from adjudge.service.campaigns.decision import Decision, moment
from adjudge.service.http import labelstudio
from adjudge.service.http import types as t
from adjudge.service.http.call import Call, Reply
from adjudge.service.http.errors import Invalid, NotFound
from adjudge.service.http.webhooks import check
from adjudge.service.store.tables import WebhookRow

MAX_WEBHOOKS: Final = 20  # of a campaign: each makes every commit larger


class _Posted(msgspec.Struct, frozen=True):
    decision: Decision


_posted: Final = msgspec.json.Decoder(_Posted).decode


async def list_webhooks(call: Call) -> t.WebhooksAnswer:
    """List where decisions are posted."""
    campaign, store = call.campaign, call.context.campaigns.store
    rows = await asyncio.to_thread(store.webhooks.targets, campaign.number)
    return t.WebhooksAnswer([_view(row) for row in rows])


async def add_webhook(call: Call) -> Reply:
    """Have decisions posted to an address, signed; the secret is shown in this answer alone.

    The address has to be public, unless the server allows others. Redirects are not followed.
    """
    campaign, body, context = call.campaign, call.body, call.context
    campaign.require_open()  # the process that writes it has to know the webhook
    check(body.url, allow_private=context.allow_private)
    secret = body.secret or secrets.token_urlsafe(32)
    now = time.time_ns() // 1000
    settings: dict[str, Any] = {} if body.statuses is None else {"statuses": list(dict.fromkeys(body.statuses))}

    def add() -> tuple[int, list[WebhookRow]]:
        webhooks = context.campaigns.store.webhooks
        if len(webhooks.targets(campaign.number)) >= MAX_WEBHOOKS:
            raise Invalid(f"a campaign has at most {MAX_WEBHOOKS} webhooks: remove one first")
        return webhooks.add(campaign.number, body.url, secret, settings, now), webhooks.targets(campaign.number)

    number, hooks = await context.campaigns.in_writer(add)
    context.outbox.load(hooks, campaign.number)
    row = next(hook for hook in hooks if hook.number == number)
    return Reply(201, msgspec.structs.replace(_view(row), secret=secret))


async def delete_webhook(call: Call) -> t.WebhooksAnswer:
    """Remove a webhook, and its pending deliveries."""
    campaign, number, now = call.campaign, call.query.id, time.time_ns() // 1000
    campaign.require_open()

    def remove() -> list[WebhookRow]:
        webhooks = call.context.campaigns.store.webhooks
        if all(hook.number != number for hook in webhooks.targets(campaign.number)):
            raise NotFound("no webhook has that id")
        webhooks.remove(number, now)
        return webhooks.targets(campaign.number)

    hooks = await call.context.campaigns.in_writer(remove)
    call.context.outbox.load(hooks, campaign.number)
    return t.WebhooksAnswer([_view(row) for row in hooks])


async def list_dead(call: Call) -> t.DeadAnswer:
    """List deliveries that were given up."""
    campaign, store, query = call.campaign, call.context.campaigns.store, call.query

    def read() -> t.DeadAnswer:
        rows = store.webhooks.dead(campaign.number, after=query.after, limit=query.limit + 1)
        letters = [
            t.DeadLetter(
                id=row.number,
                webhook=row.webhook,
                delivery=row.key,
                attempts=row.attempts,
                error=row.error or "",
                time=moment(row.dead or 0),
                decision=_posted(row.body).decision,
            )
            for row in rows[: query.limit]
        ]
        return t.DeadAnswer(letters, letters[-1].id if len(rows) > query.limit else None)

    return await asyncio.to_thread(read)


async def redeliver(call: Call) -> Reply:
    """Try a delivery again that was given up."""
    campaign, text, now = call.campaign, call.ids[1], time.time_ns() // 1000
    campaign.require_open()
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    campaigns = call.context.campaigns
    if not await campaigns.in_writer(campaigns.store.webhooks.redeliver, campaign.number, number, now):
        raise NotFound("no failed delivery has that id")
    call.context.wake.set()
    return Reply(202, t.RedeliveryAnswer(number))


async def label_studio(call: Call) -> t.LabelStudioAnswer:
    """Take what Label Studio posts when annotations are made, changed or deleted, or tasks are deleted.

    Choices are labels by id or by name. Label Studio sends the token in a header that is set there. An annotation that is
    the ground truth is gold: a token that may only vote cannot change it. Annotations that are not votes are skipped, logged
    and counted.
    """
    call.grant.bucket.charge(max(len(call.body.made) + len(call.body.tasks) - 1, 0))
    may_set_gold = partial(call.grant.check, "moderate", call.ids[0])
    return await labelstudio.take(call.campaign, call.body, call.query.question, may_set_gold, call.context.metrics.skip)


def _view(row: WebhookRow) -> t.WebhookView:
    return t.WebhookView(id=row.number, url=row.url, statuses=row.settings.get("statuses"), created=moment(row.created))
