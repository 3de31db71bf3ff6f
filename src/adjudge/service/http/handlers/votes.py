"""Votes: one, a batch, a stream of lines; taken back; listed."""

from __future__ import annotations

import msgspec

from adjudge.service.campaigns.decision import Decision
from adjudge.service.http import types as t
from adjudge.service.http.call import Call
from adjudge.service.http.streaming import VoteStream

decode_votes = msgspec.json.Decoder(t.Votes).decode


async def post_votes(call: Call) -> t.VoteAnswer:
    """Take one vote or a list of votes, all or none; the answer comes when they are on disk.

    A vote that is there already counts as repeated. The same worker's vote with another label is a change. The same id with
    other content is a conflict.
    """
    votes = call.body if isinstance(call.body, list) else [call.body]
    call.grant.bucket.charge(max(len(votes) - 1, 0))
    return await call.campaign.vote(votes)


async def stream_votes(call: Call) -> VoteStream:
    """Take votes as JSON lines, for as long as they come; every line is answered by a line, in order.

    A line is answered by the decision of its task, once the vote is on disk. A line that cannot be taken is answered by its
    number and its error, and the stream continues.
    """
    return VoteStream(call.campaign, call.grant.bucket, call.context.stopping, call.permit, call.context.streams)


async def retract_vote(call: Call) -> Decision:
    """Take a worker's vote on a task back."""
    return await call.campaign.retract(call.body.task, call.body.worker)


async def list_votes(call: Call) -> t.VotesPage:
    """List the votes in force, in the order of the log."""
    return await call.campaign.votes(call.query.after, call.query.limit)
