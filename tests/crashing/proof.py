"""Check that the log holds every acknowledged vote exactly once, and that the state follows from the log."""

from collections import defaultdict

from adjudge.service.campaigns import replay
from adjudge.service.store.events import Change, ClockSet, Retraction, Vote
from adjudge.service.store.opening import open_store
from crashing.server import SPEC, small


def prove(store_url, clients, shown):
    """Compare the log of a store that nobody writes with what clients know; `shown` are the votes the server listed.

    Returns figures for people to look at. Raises where anything is lost, doubled or different.
    """
    with small():
        return _prove(store_url, clients, shown)


def _prove(store_url, clients, shown):
    store = open_store(store_url, readonly=True)
    try:
        ((number, _),) = store.campaigns()
        logged, last = _events(store, number)
        figures = {"events": last, "acknowledged": 0, "without an answer": 0, "of those in the log": 0}
        expected = {}
        for client in clients:
            figures["acknowledged"] += client.acknowledged
            figures["without an answer"] += client.lost
            figures["of those in the log"] += _compare(client, logged, expected)
        assert not logged, f"nobody sent these, or not so often: {dict(list(logged.items())[:3])}"
        assert shown == expected, _unequal(shown, expected)
        checked = replay.check(store, number)
        assert checked.difference is None, checked.difference
        assert checked.position == last
        assert checked.snapshot == last, f"the last state was saved at {checked.snapshot}, the log ends at {last}"
        figures["decisions"] = checked.decisions
        audits = replay.replay(store, number).audits
        figures["audits"], figures["of these expired"] = audits.state.audited, audits.expired
        return figures
    finally:
        store.close()


def _events(store, number):
    """({(task, worker): [events]}, last position) of the whole log, checksums and times checked."""
    names = dict(store.workers(number))
    logged, time, last = defaultdict(list), 0, 0
    for first, page in store.read(number):
        for position, event in enumerate(page, first):
            assert position == last + 1
            is_set = isinstance(event, ClockSet)
            assert is_set or event.time >= time, f"the time falls at position {position}"
            last, time = position, event.time
            if isinstance(event, Vote | Change):
                logged[event.task, names[event.worker]].append(("vote", SPEC["labels"][event.label], event.id))
            elif isinstance(event, Retraction):
                logged[event.task, names[event.worker]].append(("retraction",))
    return logged, last


def _compare(client, logged, expected):
    """Take the events of a client out of the log; note what has to be in force. Returns how many doubtful ones were there."""
    found = 0
    there = {}
    for key, pair in client.pairs.items():
        events = logged.pop(key, [])
        if pair.doubt is not None:
            there[key] = events == pair.events
            assert events in (pair.events, pair.events[:-1]), (key, events, pair.events)
            found += there[key]
        else:
            assert events == pair.events, (key, events, pair.events)
        if events and events[-1][0] == "vote":
            expected[key] = events[-1][1]
    for key, pair in client.pairs.items():
        if pair.doubt is not None:
            assert len({there[other] for other in pair.doubt}) == 1, f"a part of one request is in the log: {key} {pair.doubt}"
    return found


def _unequal(shown, expected):
    keys = [key for key in {*shown, *expected} if shown.get(key) != expected.get(key)]
    return [(key, shown.get(key), expected.get(key)) for key in keys[:5]]
