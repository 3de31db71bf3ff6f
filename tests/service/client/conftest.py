import asyncio
from inspect import isawaitable

import pytest

import adjudge
from adjudge.service.client import request as requests


@pytest.fixture
def no_pauses(monkeypatch):
    """Pauses between attempts take no time."""
    monkeypatch.setattr(requests, "FIRST_RETRY_PAUSE_S", 0.0)


class Either:
    """A client of either kind, called in one way: answers, and lists of what iterators give."""

    def __init__(self, kind, url, **options):
        self._runner = asyncio.Runner() if kind is adjudge.AsyncClient else None
        self.client = kind(url, **options)

    def __getattr__(self, name):
        def call(*given, **options):
            return self.run(getattr(self.client, name)(*given, **options))

        return call

    def run(self, made):
        """What a call gives, waited for."""
        if self._runner is None:
            return list(made) if hasattr(made, "__next__") and not hasattr(made, "last") else made
        if isawaitable(made):
            return self._runner.run(_awaited(made))
        return self._runner.run(_listed(made)) if hasattr(made, "__aiter__") else made

    def take(self, events, number):
        """Send a number of decisions, then drop the connection."""
        if self._runner is None:
            found = [next(events) for _ in range(number)]
            events.close()
            return found
        return self._runner.run(_taken(events, number))

    def end(self):
        self.run(self.client.close())
        if self._runner is not None:
            self._runner.close()


async def _awaited(made):
    return await made


async def _listed(made):
    return [one async for one in made]


async def _taken(events, number):
    found = [await anext(events) for _ in range(number)]
    await events.close()
    return found


@pytest.fixture(params=["Client", "AsyncClient"])
def client(request):
    """client(url, **options): a client of either kind."""
    made = []

    def make(url, **options):
        made.append(Either(getattr(adjudge, request.param), url, **options))
        return made[-1]

    yield make
    for one in made:
        one.end()
