"""A store with a campaign in it, made as a service makes one, without a service."""

import msgspec

from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.replay import replay
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.store import events
from adjudge.service.store.archive import MemoryArchive, StoreArchive
from adjudge.service.store.batch import Batch, DecisionRow
from adjudge.service.store.ids import IdIndex
from adjudge.service.store.log import split_parts
from adjudge.service.store.opening import open_store

START = 1_700_000_000_000_000  # microseconds since 1970
SECOND = 1_000_000


def fill(store, votes, *, labels=("spam", "ok"), name="default", policy=None, gold=(), per_page=50):
    """Make a campaign in an open store: votes are (task, worker, label); gold are (task, label), noted after all votes."""
    number = store.create_campaign(name)
    numbers = {}
    log = [events.Created(time=START, labels=list(labels), names=list(labels), model="fds", policy=policy or {})]
    batch = Batch()
    for at, (task, worker, label) in enumerate(votes, 1):
        if worker not in numbers:
            numbers[worker] = len(numbers) + 1
            batch.workers.append((number, numbers[worker], worker))
        code = list(labels).index(label)
        log.append(events.Vote(time=START + at * SECOND, task=task, worker=numbers[worker], label=code))
    end = START + (len(log) + 1) * SECOND
    log += [events.GoldSet(time=end, task=task, label=list(labels).index(label)) for task, label in gold]
    state = CampaignState(log[0], MemoryArchive())
    for position, event in enumerate(log, 1):
        state.apply(position, event)
        batch.extend(number, position, [event])
        for decision in state.changes:
            batch.decide(number, [DecisionRow(decision.position, decision.task, msgspec.json.encode(decision))])
        state.changes = []
        if position % per_page == 0:
            store.write(batch)
            batch = Batch()
    if batch:
        store.write(batch)
    return number


def stored(path, votes, **options):
    """The same in a new file, which is closed again."""
    store = open_store(path)
    try:
        fill(store, votes, **options)
    finally:
        store.close()
    return path


def small(tasks=12, workers=4):
    """A few votes: most workers agree."""
    return [
        (f"t{task}", f"w{worker}", "ok" if (task % 3 == 0) != (worker == task % 7) else "spam")
        for worker in range(workers)
        for task in range(tasks)
    ]


def cut(store, number, begins):
    """Let the log begin at a position: with the state as it is, and without the pages before."""
    state, ids = replay(store, number), IdIndex(store, number)
    ids.catch_up(state.position)
    archive = StoreArchive(store, number, lambda _: None)
    data = snapshot.bundle(snapshot.to_bytes(state), archive.state(), ids.state(state.position))
    checks = [store.bases.add_part(number, state.position, part, body) for part, body in enumerate(split_parts(data))]
    store.bases.put(number, state.position, begins=begins, expired=0, labels=state.labels, parts=checks)
    while store.bases.delete_some(number):
        pass
    return snapshot.digest(state)
