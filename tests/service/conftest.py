import gc

import pytest

from service.serving import serving


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A client of a server without tokens, shared by the tests of a file: each takes tasks of its own."""
    with serving(tmp_path_factory.mktemp("server")) as client:
        yield client


@pytest.fixture
def quiet_collector():
    """Keep the garbage collector out of timings, as the server's own process does (`server._settle`)."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()
