"""Events and batches for tests of stores."""

from adjudge.service.store.batch import Batch, DecisionRow
from adjudge.service.store.events import Created, Vote


def created(time=1):
    return Created(time=time, labels=["a", "b"], names=["A", "B"], model="fds")


def votes(first, count, tag=""):
    """Votes at these positions; the same positions and tag give the same votes."""
    return [
        Vote(time=at, task=f"t{at}{tag}", worker=at % 7, label=at % 2, id=f"id-{at}{tag}") for at in range(first, first + count)
    ]


def batch_of(campaign, first, count, tag="", decided=False):
    batch = Batch()
    for position, vote in enumerate(votes(first, count, tag), first):
        batch.extend(campaign, position, [vote])
        if decided:
            batch.decide(campaign, [DecisionRow(position, vote.task, b'{"task":"%s"}' % vote.task.encode())])
    return batch


def log_of(store, campaign, **options):
    """All events of a log; their positions are checked to follow each other."""
    events, position = [], options.get("after", 0) + 1
    for first, some in store.read(campaign, **options):
        assert first == position
        events += some
        position += len(some)
    return events
