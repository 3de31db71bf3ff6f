"""Workers: their reliability, and the actions of moderators."""

from __future__ import annotations

from adjudge.service.http import types as t
from adjudge.service.http import views
from adjudge.service.http.call import Call


async def list_workers(call: Call) -> t.WorkersPage:
    """List workers in the order of their first votes."""
    return await call.campaign.workers(call.query.limit, call.query.after)


async def get_worker(call: Call) -> t.WorkerView:
    """Show a worker: accuracy with its interval, confusion, recent drift, standing."""
    return await call.campaign.worker(call.ids[1])


async def change_worker(call: Call) -> t.WorkerView:
    """Say which group a worker belongs to, and whether they are an expert."""
    return await call.campaign.set_worker(call.ids[1], call.body.group, call.body.expert)


async def erase_worker(call: Call) -> t.Done:
    """Erase the name of a worker; their votes and everything learned from them stay without it."""
    return t.Done(await call.campaign.erase(call.ids[1]))


async def ban_worker(call: Call) -> t.BanAnswer:
    """Let the votes of a worker no longer count, and say which decisions change; or only say it."""
    body = call.body
    changes = await call.campaign.ban([call.ids[1]], body.by, body.reason, body.dry_run)
    return t.BanAnswer(body.dry_run, [t.Changed(*pair) for pair in changes], views.summarize_changes(changes))


async def ban_workers(call: Call) -> t.BanAnswer:
    """Ban several workers at once, as of a ring; decisions are compared before the first and after the last."""
    body = call.body
    changes = await call.campaign.ban(list(dict.fromkeys(body.workers)), body.by, body.reason, body.dry_run)
    return t.BanAnswer(body.dry_run, [t.Changed(*pair) for pair in changes], views.summarize_changes(changes))


async def unban_worker(call: Call) -> t.BanAnswer:
    """Let the votes of a worker count again, and say which decisions change; or only say it."""
    changes = await call.campaign.unban([call.ids[1]], call.body.by, call.body.dry_run)
    return t.BanAnswer(call.body.dry_run, [t.Changed(*pair) for pair in changes], views.summarize_changes(changes))
