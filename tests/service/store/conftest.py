import pytest

import postgres
from adjudge.service.store.opening import open_store


@pytest.fixture(params=postgres.STORES)
def url(request, tmp_path):
    """Where a new store may be."""
    if request.param == "sqlite":
        return str(tmp_path / "votes.db")
    return postgres.server().fresh()


@pytest.fixture
def store(url):
    """A new store, closed afterwards."""
    opened = open_store(url)
    yield opened
    opened.close()
