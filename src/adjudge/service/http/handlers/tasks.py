"""Tasks and their decisions."""

from __future__ import annotations

import asyncio

from adjudge.service.campaigns.decision import Decision
from adjudge.service.http import feed, items
from adjudge.service.http import types as t
from adjudge.service.http.call import Call
from adjudge.service.http.feed import Place, read_decisions


async def list_tasks(call: Call) -> t.TasksPage:
    """List tasks in memory by status, the least certain or the oldest first."""
    query = call.query
    return await call.campaign.tasks(query.status, query.sort, query.limit, query.after)


async def add_tasks(call: Call) -> t.Done:
    """Name tasks that wait for their first votes, so that the queue can give them out."""
    campaign, sent = call.campaign, call.body.tasks
    content = items.rows_of(campaign, [(task.task, task.data) for task in sent if isinstance(task, t.TaskItem)])
    position = await campaign.add_tasks([task if isinstance(task, str) else task.task for task in sent], content)
    if content:
        await campaign.campaigns.commit()
    return t.Done(position)


async def erase_item(call: Call) -> t.Done:
    """Erase the item of a task; its votes and decisions stay."""
    return t.Done(await items.erase(call.campaign, call.ids[1]))


async def get_task(call: Call) -> t.TaskView:
    """Show a task: what is decided and why, how likely every label is, every vote in force."""
    return await call.campaign.task(call.ids[1])


async def put_gold(call: Call) -> Decision:
    """Say what the true label of a task is; workers are judged by it."""
    call.grant.check_label(call.body.label)
    return await call.campaign.gold(call.ids[1], call.body.label)


async def delete_gold(call: Call) -> Decision:
    """Take the true label of a task back."""
    return await call.campaign.gold(call.ids[1], None)


async def override(call: Call) -> Decision:
    """Decide a task as a person, regardless of its votes."""
    body = call.body
    call.grant.check_label(body.label)
    return await call.campaign.override(call.ids[1], body.label, body.by, body.reason, body.position)


async def list_queue(call: Call) -> t.QueueAnswer:
    """Give out tasks that wait for a person, blind: escalated ones and audits, which look the same."""
    return t.QueueAnswer(await call.campaign.waiting(call.query.by or call.grant.name, call.query.n))


async def judge(call: Call) -> t.Done:
    """Judge a task from the queue: it decides an escalated task, and answers an audit."""
    body = call.body
    call.grant.check_label(body.label)
    return t.Done(await call.campaign.judge(body.task, body.label, body.by or call.grant.name))


async def reopen(call: Call) -> Decision:
    """Open a task again, as after an appeal."""
    return await call.campaign.reopen(call.ids[1], call.body.by, call.body.reason, call.body.position)


async def history(call: Call) -> t.HistoryAnswer:
    """List every decision on a task, oldest first."""
    campaign, store, task = call.campaign, call.context.campaigns.store, call.ids[1]
    await campaign.task(task)  # raises if there is none, and waits for the commit
    decisions = await asyncio.to_thread(lambda: [feed.decision(row.body) for row in store.decisions(campaign.number, task=task)])
    return t.HistoryAnswer(decisions)


async def list_decisions(call: Call) -> t.DecisionsPage:
    """List decisions in the order of the log."""
    campaign, store, limit = call.campaign, call.context.campaigns.store, call.query.limit
    after = Place.of_query(call.query.after)

    def read() -> t.DecisionsPage:
        placed = read_decisions(store, campaign.number, after, limit + 1)
        more = len(placed) > limit
        del placed[limit:]
        # In full, as "17.1": a bare position is after all of its decisions, and the next page may begin among them.
        cursor = "{}.{}".format(*placed[-1][0]) if more else None
        return t.DecisionsPage([feed.decision(body) for _, body in placed], cursor)

    return await asyncio.to_thread(read)


async def next_tasks(call: Call) -> t.NextAnswer:
    """Choose tasks for a worker to vote on: where their vote is worth most, none that they have voted on."""
    return await call.campaign.next(call.query.worker, call.query.n)
