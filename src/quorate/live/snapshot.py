"""The state of a campaign as bytes: equal states have equal bytes, so that a digest of them tells whether two are equal."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from quorate.errors import InputError
from quorate.live.breakers import Breakers
from quorate.live.crowd import Worker
from quorate.live.policy import Policy
from quorate.live.rule import Rule
from quorate.live.settings import Refit, Retention
from quorate.live.state import CampaignState, PolicyVersion
from quorate.live.tasks import Task
from quorate.online import Online
from quorate.store.archive import Archive
from quorate.store.events import Created

VERSION: Final = 1


class _Snapshot(msgspec.Struct):
    version: int
    created: Created
    position: int
    time: int
    labels: list[str]
    names: list[str]
    policies: list[tuple[int, dict[str, Any], int, int, str | None]]
    refit: Refit
    retention: Retention
    since_refit: int
    votes: int
    archived_tasks: int
    breakers: Breakers
    workers: list[Worker]
    tasks: list[Task]
    settled: list[str]
    waiting: list[str]
    online: bytes


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Snapshot)


def to_bytes(state: CampaignState) -> bytes:
    """Return the state as bytes. There is none while a refit is under way: what it has read is not part of them."""
    return _ENCODER.encode(
        _Snapshot(
            VERSION,
            state.created,
            state.position,
            state.time,
            state.labels,
            state.names,
            [(v.version, v.policy.document(), v.position, v.time, v.by) for v in state.policies],
            state.refit,
            state.retention,
            state.since_refit,
            state.votes,
            state.archived_tasks,
            state.breakers,
            list(state.crowd.all.values()),
            list(state.tasks.by_name.values()),
            list(state.tasks.settled),
            list(state.tasks.waiting),
            state.online.to_bytes(),
        )
    )


def digest(state: CampaignState) -> str:
    """Return a digest of the state: equal for equal states alone."""
    return hashlib.sha256(to_bytes(state)).hexdigest()


def from_bytes(data: bytes, archive: Archive) -> CampaignState:
    """Return the state that was written as these bytes; `archive` has the tasks that are not in it."""
    try:
        saved = _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        raise InputError(f"not a snapshot of a campaign: {error}") from None
    if saved.version != VERSION:
        raise InputError(f"a snapshot of version {saved.version}: this program reads version {VERSION}")
    state = CampaignState(saved.created, archive)
    state.position, state.time = saved.position, saved.time
    state.labels, state.names = saved.labels, saved.names
    state.policies = [PolicyVersion(v, Policy.of(document), p, t, by) for v, document, p, t, by in saved.policies]
    state.refit, state.retention = saved.refit, saved.retention
    state.since_refit, state.votes, state.breakers = saved.since_refit, saved.votes, saved.breakers
    state.archived_tasks = saved.archived_tasks
    state.online = Online.from_bytes(saved.online)
    state.online.expect_every_label()
    state.policy, state.version = state.policies[-1].policy, state.policies[-1].version
    state.codes = {label: code for code, label in enumerate(state.labels)}
    state.rule = Rule(state.policy, state.labels)
    state.crowd.all = {worker.number: worker for worker in saved.workers}
    for task in saved.tasks:
        state.tasks.enter(task)
    state.tasks.settled, state.tasks.waiting = dict.fromkeys(saved.settled), dict.fromkeys(saved.waiting)
    state.recall()
    return state
