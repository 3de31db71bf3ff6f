"""The state of a campaign as bytes: equal states have equal bytes, and so equal digests."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from adjudge.errors import InputError
from adjudge.online import Online
from adjudge.service.campaigns.audits import Audits
from adjudge.service.campaigns.breakers import Breakers
from adjudge.service.campaigns.crowd import Worker
from adjudge.service.campaigns.policy import Policy, PolicyVersion
from adjudge.service.campaigns.rule import Rule
from adjudge.service.campaigns.settings import RefitSettings, Retention
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.campaigns.tasks import Task
from adjudge.service.store.archive import Archive
from adjudge.service.store.events import Created

VERSION: Final = 1


class _Snapshot(msgspec.Struct):
    version: int
    created: Created
    position: int
    time: int
    labels: list[str]
    names: list[str]
    policies: list[tuple[int, dict[str, Any], int, int, str | None]]
    refit: RefitSettings
    retention: Retention
    since_refit: int
    votes: int
    archived_tasks: int
    breakers: Breakers
    workers: list[Worker]
    tasks: list[Any]
    settled: list[str]
    waiting: list[str]
    online: bytes
    begins: int = 1
    expired: int = 0
    away: list[tuple[str, int, list[int]]] = []
    clock_sets: list[tuple[int, int]] = []
    unreached: list[tuple[int, int]] = []
    notes: list[tuple[int, str]] = []  # version of a policy, and why it was made
    image_hosts: list[str] = []
    audits: Audits | None = None


# The fields that are attributes of the state as they are; the others are rebuilt.
COPIED_FIELDS: Final = (
    *("position", "time", "labels", "names", "refit", "retention", "since_refit", "votes", "archived_tasks", "breakers"),
    *("begins", "expired", "clock_sets", "image_hosts", "audits"),
)
_ENCODER: Final = msgspec.msgpack.Encoder()
_SNAPSHOT_DECODER: Final = msgspec.msgpack.Decoder(_Snapshot)
_BUNDLE: Final = msgspec.msgpack.Decoder(tuple[bytes, bytes, bytes])


def to_bytes(state: CampaignState) -> bytes:
    """Return the state as bytes. There is none while a refit is under way: what it has read is not part of them."""
    return _ENCODER.encode(
        _Snapshot(
            version=VERSION,
            created=state.created,
            policies=[(v.version, v.policy.document(), v.position, v.time, v.by) for v in state.policies],
            workers=list(state.crowd.all.values()),
            tasks=[msgspec.structs.astuple(task)[:-1] for task in state.tasks],  # without the line, which follows from the others
            settled=state.tasks.in_order(settled=True),
            waiting=state.tasks.in_order(settled=False),
            online=state.online.to_bytes(),
            away=[(name, *each) for name, each in state.away.items()],
            unreached=list(state.unreached.items()),
            notes=[(v.version, v.note) for v in state.policies if v.note is not None],
            **{field: getattr(state, field) for field in COPIED_FIELDS},
        )
    )


def unequal(replayed: bytes, restored: bytes) -> list[str]:
    """Return which parts of two states differ, by name."""
    both = (_SNAPSHOT_DECODER.decode(data) for data in (replayed, restored))
    first, second = (msgspec.structs.asdict(saved) for saved in both)
    return [name for name, part in first.items() if _ENCODER.encode(part) != _ENCODER.encode(second[name])]


def bundle(state: bytes, archive: bytes, ids: bytes) -> bytes:
    """Return what a store keeps as a snapshot: a state, and what belongs to it outside of the fold."""
    return _ENCODER.encode((state, archive, ids))


def unbundle(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the parts of a stored snapshot: state, archive, ids."""
    try:
        return _BUNDLE.decode(data)
    except msgspec.MsgspecError as error:
        raise InputError(f"not a snapshot of a campaign: {error}") from None


def digest(state: CampaignState) -> str:
    """Return a digest of the state: equal for equal states alone."""
    return hashlib.sha256(to_bytes(state)).hexdigest()


def from_bytes(data: bytes, archive: Archive) -> CampaignState:
    """Return the state that was written as these bytes; `archive` has the tasks that are not in it."""
    try:
        saved = _SNAPSHOT_DECODER.decode(data)
    except msgspec.MsgspecError as error:
        raise InputError(f"not a snapshot of a campaign: {error}") from None
    if saved.version != VERSION:
        raise InputError(f"a snapshot of version {saved.version}: this program reads version {VERSION}")
    state = CampaignState(saved.created, archive)
    for field in COPIED_FIELDS:
        setattr(state, field, getattr(saved, field))
    notes = dict(saved.notes)
    state.policies = [PolicyVersion(v, Policy.of(document), p, t, by, notes.get(v)) for v, document, p, t, by in saved.policies]
    state.away = {name: (touched, workers) for name, touched, workers in saved.away}
    state.unreached = dict(saved.unreached)
    state.follow(Online.from_bytes(saved.online))
    state.online.expect_every_label()
    state.policy, state.version = state.policies[-1].policy, state.policies[-1].version
    state.codes = {label: code for code, label in enumerate(state.labels)}
    state.rule = Rule(state.policy, state.labels)
    state.crowd.all = {worker.number: worker for worker in saved.workers}
    for task in msgspec.convert(saved.tasks, list[Task]):
        state.tasks.enter(task)
    state.tasks.touch_in_order([*saved.settled, *saved.waiting])
    state.recall()
    return state
