import pytest

from adjudge.store.opening import open_store


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """Where a new store may be."""
    if request.param == "sqlite":
        return str(tmp_path / "votes.db")
    from postgres import server

    return server().fresh()


@pytest.fixture
def store(url):
    """A new store, closed afterwards."""
    opened = open_store(url)
    yield opened
    opened.close()
