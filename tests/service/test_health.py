"""Health, readiness, and figures that Prometheus can read."""

import re
import time

from adjudge.service.http.metrics import Histogram, MetricsPage
from adjudge.service.store.errors import StoreUnavailable
from adjudge.service.store.sqlite import SqliteStore
from service.serving import BASE, segment, serving

SAMPLE = re.compile(r'(?P<name>[a-z_]+)(?:\{(?P<labels>(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (?P<value>[0-9.e+-]+|\+Inf)')
NAME = 'a"b\\c'


def samples(text):
    """Every sample of a page: (name, labels) -> value; raises where a line is none, or its kind was not told before."""
    kinds, found = {}, {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split()
            assert name not in kinds
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            parts = SAMPLE.fullmatch(line)
            assert parts, line
            assert re.sub("_(bucket|sum|count)$", "", parts["name"]) in kinds or parts["name"] in kinds
            key = parts["name"], tuple(sorted(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', parts["labels"] or "")))
            assert key not in found
            found[key] = float(parts["value"])
    return found


def test_the_process_answers_and_is_ready(server):
    assert server("GET", "/healthz").json == {"status": "ok"}
    assert server("GET", "/readyz").json == {"ready": True, "reasons": []}


def test_figures(server):
    server("PUT", f"/v1/campaigns/{segment(NAME)}", {"labels": ["x", "y"]})
    server.decide("counted")
    server.vote("counted", "ann", "spam")
    server("DELETE", "votes", {"task": "counted", "worker": "ann"})
    server("GET", "/nowhere-at-all")
    answer = server("GET", "/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = samples(answer.body.decode())
    default = (("campaign", "default"),)
    assert found["adjudge_votes_accepted_total", default] == 1
    assert found["adjudge_votes_repeated_total", default] == 1
    assert found["adjudge_votes_retracted_total", default] == 1
    assert found["adjudge_decisions_total", (("campaign", "default"), ("status", "decided"))] >= 1
    assert found["adjudge_position", default] == found["adjudge_committed_position", default]
    assert found["adjudge_position", (("campaign", 'a\\"b\\\\c'),)] == 1
    assert found["adjudge_breaker_tripped", default] == 0
    assert found["adjudge_memory_bytes", ()] > 1e6
    assert found["adjudge_queued_events", default] == 0
    assert found["adjudge_commit_events_sum", ()] >= found["adjudge_commit_seconds_count", ()] >= 4
    votes = "POST /v1/campaigns/{campaign}/votes"
    assert found["adjudge_requests_total", (("route", votes), ("status", "200"))] == 2
    assert found["adjudge_requests_total", (("route", "-"), ("status", "404"))] == 1
    assert found["adjudge_request_seconds_count", (("route", votes),)] == 2
    assert found["adjudge_request_seconds_bucket", (("le", "+Inf"), ("route", votes))] == 2
    assert "nowhere" not in answer.body.decode()  # labels are routes of the table, never requested paths


def test_histograms_count_up():
    seen = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        seen.add(value)
    page = MetricsPage()
    page.histogram("x_seconds", "Some.", [({}, seen)])
    found = samples(page.text())
    assert [found["adjudge_x_seconds_bucket", (("le", bound),)] for bound in ("1", "2", "+Inf")] == [2, 3, 4]
    assert (found["adjudge_x_seconds_sum", ()], found["adjudge_x_seconds_count", ()]) == (12, 4)


def test_label_values_cannot_break_a_line():
    page = MetricsPage()
    page.metric("x", "gauge", "Some.", [({"name": 'a"\\\n} 7\nevil 1'}, 2.5)])
    assert list(samples(page.text()).values()) == [2.5]


def test_a_server_that_stops_is_not_ready(server, monkeypatch):
    from adjudge.service.http.campaigns import Campaigns

    monkeypatch.setattr(Campaigns, "ready", lambda self: ["the disk is full"])
    answer = server("GET", "/readyz")
    assert (answer.status, answer.json) == (503, {"ready": False, "reasons": ["the disk is full"]})
    assert server("GET", "/healthz").status == 200
    assert server("GET", BASE).status == 200


def test_why_the_log_cannot_be_written_is_told_to_the_server_alone(tmp_path, monkeypatch):
    def write(self, batch):
        raise StoreUnavailable("/srv/secret/votes.db cannot be written: no space left")

    with serving(tmp_path) as client:
        with monkeypatch.context() as patched:
            patched.setattr(SqliteStore, "write", write)
            answers = [client.vote("t", "w", "ok"), client("GET", "/readyz"), client.vote("t", "w", "ok")]
        assert [answer.status for answer in answers] == [503] * 3
        assert all(b"the log cannot be written" in answer.body and b"secret" not in answer.body for answer in answers)
        for _ in range(100):
            if (again := client.vote("t", "w", "ok")).status == 200:
                break
            time.sleep(0.1)
        assert again.json["accepted"] == 1, "nothing was taken before"
