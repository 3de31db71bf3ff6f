"""Without tokens, everything is allowed: so nothing that comes through a proxy, or from a page of another site, is answered."""

import re
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from adjudge.errors import OptionError
from service import proxies
from service.proxies import NGINX
from service.serving import BASE, serving

VOTE = {"task": "t", "worker": "ann", "label": "spam"}
SERVER = """server {{
    listen 127.0.0.1:{port};
    location / {{
        proxy_pass http://127.0.0.1:{upstream};
        {more}
    }}
}}"""


@contextmanager
def nginx(folder, upstream, more=""):
    """Yield a client of a real nginx in front of a server."""
    port = proxies.free_port()
    with proxies.nginx(folder, port, SERVER.format(port=port, upstream=upstream, more=more)) as client:
        yield client


def statuses(client, **headers):
    """Of what reads, votes and administers."""
    return [
        client("GET", BASE, headers=headers).status,
        client("POST", "votes", VOTE, headers).status,
        client("POST", "votes:stream", b"", headers).status,
        client("GET", "/v1/campaigns", headers=headers).status,
        client("PUT", "/v1/campaigns/made", {"labels": ["a", "b"]}, headers).status,
    ]


def speaks_http_1_0():
    """Whether nginx does so to its upstreams by default, as version 1.22 does."""
    told = subprocess.run([NGINX, "-v"], capture_output=True, text=True, check=True).stderr if NGINX else ""
    version = re.search(r"nginx/(\d+)\.(\d+)\.(\d+)", told)
    return version is None or tuple(map(int, version.groups())) < (1, 29, 7)


@pytest.mark.parametrize(
    "more",
    [
        # What nginx 1.22 does by default: HTTP/1.0, Connection: close, and the name of the upstream as Host.
        "" if speaks_http_1_0() else "proxy_http_version 1.0;",
        "proxy_set_header X-Real-IP $remote_addr; proxy_http_version 1.1;",
        "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_http_version 1.1;",
        "proxy_set_header Host $host:$server_port; proxy_set_header X-Forwarded-Proto $scheme; proxy_http_version 1.1;",
    ],
)
def test_a_proxy_opens_nothing(tmp_path, more):
    """By default nginx gave everyone the rights of an administrator."""
    with serving(tmp_path) as client, nginx(tmp_path / "nginx", client.port, more) as outside:
        assert statuses(outside) == [403] * 5
        refused = outside("POST", "votes", VOTE).json
        assert refused["error"] == "forbidden"
        assert "adjudge token add" in refused["detail"]
        assert outside("GET", "/healthz").status == 200  # which tells nothing
        assert client("GET", "tasks/t").status == 404
        assert statuses(client)[:2] == [200, 200]


def test_with_a_token_a_proxy_is_let_through(tmp_path):
    with serving(tmp_path, given=[("one", "admin", None)]) as client, nginx(tmp_path / "nginx", client.port) as outside:
        assert statuses(outside) == [401] * 5
        outside.token = client.tokens["one"]
        assert statuses(outside) == [200, 200, 200, 200, 201]


@pytest.mark.parametrize(
    "headers",
    [
        {"Forwarded": "for=192.0.2.1"},
        {"X-Forwarded-For": "192.0.2.1"},
        {"X-Forwarded-Host": "localhost"},
        {"X-Forwarded-Prefix": "/"},
        {"X-Real-IP": "192.0.2.1"},
        {"Via": "1.1 proxy"},
        {"CDN-Loop": "cdn"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "anything else"},
    ],
)
def test_traces_of_a_proxy_or_another_site(server, headers):
    assert statuses(server, **headers) == [403] * 5


@pytest.mark.parametrize("site", ["none", "same-origin", "same-site"])
def test_pages_of_this_machine_are_answered(server, site):
    assert server("POST", "votes", VOTE, {"Sec-Fetch-Site": site, "Origin": "http://localhost:3000"}).status == 200


def test_tokens_can_be_required_on_this_machine(tmp_path):
    """A proxy that leaves no trace looks like a local program, so behind one nothing may be open."""
    with (
        pytest.raises(OptionError, match="tokens are required, and there are no tokens: make one"),
        serving(tmp_path, require_tokens=True),
    ):
        pass
    with serving(tmp_path, require_tokens=True, given=[("one", "admin", None)]) as client:
        more = "proxy_http_version 1.1; proxy_set_header Connection '';"
        with nginx(tmp_path / "nginx", client.port, more) as outside:
            assert statuses(outside) == [401] * 5
    assert Path(client.path).exists()
