"""Campaigns, their labels, their policy, and the work on them as a whole."""

from __future__ import annotations

from adjudge.errors import UNSEEN
from adjudge.service.http import types as t
from adjudge.service.http.call import Call, Reply
from adjudge.service.http.errors import Invalid, NotFound


async def list_campaigns(call: Call) -> t.CampaignsAnswer:
    """List the campaigns that the token reaches."""
    only = call.grant.campaign
    return t.CampaignsAnswer([name for name in call.context.campaigns.names() if only is None or name == only])


async def put_campaign(call: Call) -> Reply | t.CampaignView:
    """Make a campaign; the same content again changes nothing, other content is a conflict."""
    if UNSEEN.search(call.ids[0]):
        raise Invalid("the name of a campaign must not have characters that cannot be seen")
    campaign, created = await call.context.campaigns.put(call.ids[0], call.body)
    view = await campaign.read(campaign.view, 0)
    return Reply(201, view) if created else view


async def get_campaign(call: Call) -> t.CampaignView:
    """Show a campaign: labels, settings, and how many votes and tasks it has."""
    campaign = call.campaign
    return await campaign.read(campaign.view, 0)


async def change_campaign(call: Call) -> t.CampaignView:
    """Change names of labels, when refits run, and how long tasks are kept."""
    campaign, change = call.campaign, call.body
    known = {label.id for label in campaign.labels}
    for label in change.names:
        if label not in known:
            raise NotFound("no label has that id")
    if change.refit is not None or change.retention is not None or change.image_hosts is not None:
        await campaign.settings(refit=change.refit, retention=change.retention, image_hosts=change.image_hosts)
    for label, name in change.names.items():
        await campaign.rename(label, name)
    return await campaign.read(campaign.view, 0)


async def add_label(call: Call) -> Reply:
    """Add a label; votes may carry it from now on."""
    await call.campaign.add_label(call.body.id, call.body.name)
    return Reply(201, t.LabelsAnswer(call.campaign.labels))


async def rename_label(call: Call) -> t.LabelsAnswer:
    """Give a label another name; its id stays, so that nothing that was decided changes."""
    await call.campaign.rename(call.ids[1], call.body.name)
    return t.LabelsAnswer(call.campaign.labels)


async def list_policies(call: Call) -> t.PoliciesAnswer:
    """List every version of the policy, oldest first; the last one holds."""
    return t.PoliciesAnswer(await call.campaign.policies())


async def put_policy(call: Call) -> t.PolicyView:
    """Make a new version of the policy, which holds at once."""
    return await call.campaign.set_policy(call.body.policy, call.body.by, call.body.note)


async def backtest(call: Call) -> t.BacktestAnswer:
    """Replay the log under another policy or model, and say how decisions would have come out."""
    return await call.campaign.backtest(call.body.policy, call.body.model)


async def refit(call: Call) -> Reply:
    """Begin a refit of the votes in memory, in the background."""
    return Reply(202, await call.campaign.refit())


async def get_audits(call: Call) -> t.AuditsView:
    """Show what audits say of automatic decisions: how many were wrong, the bounds of their error rate, and the alarm."""
    audits = await call.campaign.audits()
    if audits is None:
        raise NotFound("the policy of this campaign has no audits")
    return audits


async def reset_breaker(call: Call) -> t.Done:
    """Resume automatic decisions after a circuit breaker has held them."""
    return t.Done(await call.campaign.reset_breaker(call.body.by))
