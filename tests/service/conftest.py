import pytest

from service.serving import serving


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A client of a server without tokens, shared by the tests of a file: each takes tasks of its own."""
    with serving(tmp_path_factory.mktemp("server")) as client:
        yield client
