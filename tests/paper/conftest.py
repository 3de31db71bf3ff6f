import hashlib

import pytest

from adjudge.evaluation import datasets
from adjudge.evaluation.datasets import COMMITS, PublicSet, RawFile


@pytest.fixture(autouse=True)
def direct(monkeypatch):
    """No proxy stands between the tests and loopback, and nobody waits between tries."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(datasets.time, "sleep", lambda _: None)


@pytest.fixture
def tiny(tmp_path):
    """A set of one small file and the folder of a mirror that has it: (set, mirror)."""
    body = b"ann\tt1\tx\nbob\tt1\ty\neve\tt2\tx\n" * 100
    file = RawFile(next(iter(COMMITS)), "some data/votes.txt", len(body), hashlib.sha256(body).hexdigest(), "worker_task_label")
    mirror = tmp_path / "mirror"
    (mirror / file.place).parent.mkdir(parents=True)
    (mirror / file.place).write_bytes(body)
    return PublicSet("tiny", "a test", (file,), 300, in_paper=False), mirror
