"""deploy/grafana-dashboard.json: every metric and label that it queries is on the page /metrics of a server."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from adjudge.service.http import metrics, webhooks
from service.serving import serving
from service.test_webhooks import receiver, until

BOARD = json.loads((Path(__file__).parents[2] / "deploy" / "grafana-dashboard.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
SAMPLE = re.compile(r"(adjudge_\w+)(?:\{(.*)\})? \S+")
SELECTOR = re.compile(r"\b(adjudge_\w+)(?:\{((?:[^{}\"]|\"[^\"]*\")*)\})?")
OF_PROMETHEUS = {"instance"}  # labels that it adds itself
AUDITED = {"audit": {"share": 1.0}}
PROMTOOL = shutil.which("promtool")


@pytest.fixture(scope="module")
def exposed(tmp_path_factory):
    """Labels by name of a sample, of a server that has done everything it counts."""
    patch = pytest.MonkeyPatch()
    patch.setattr(webhooks, "OUTBOX_INTERVAL_S", 0.02)
    with serving(tmp_path_factory.mktemp("server"), allow_private=True, policy=AUDITED) as client, receiver() as (url, seen):
        patch.undo()
        assert client("POST", "webhooks", {"url": url}).status == 201
        client.decide("t")
        assert client("POST", "labelstudio", {"action": "PROJECT_UPDATED"}).status == 200
        until(lambda: seen)
        until(lambda: "adjudge_deliveries_total" in client("GET", "/metrics").body.decode())
        lines = client("GET", "/metrics").body.decode().splitlines()
    found = {}
    for line in lines:
        if not line.startswith("#"):
            name, labels = SAMPLE.fullmatch(line).groups()
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels or ""))
    return found


def used(query):
    """(metric, labels) of each selector."""
    return [(name, set(re.findall(r'(\w+)\s*(?:=~|!=|=|!~)\s*"', labels or ""))) for name, labels in SELECTOR.findall(query)]


@pytest.mark.parametrize(("title", "query"), QUERIES)
def test_metrics_and_labels_of_a_query_exist(exposed, title, query):
    selectors = used(query)
    assert selectors
    for name, labels in selectors:
        assert name in exposed, name
        assert labels - OF_PROMETHEUS <= exposed[name]
    for grouped in re.findall(r"by \(([\w, ]+)\)", query):
        assert set(grouped.split(", ")) - OF_PROMETHEUS <= set().union(*(exposed[name] for name, _ in selectors))


def test_variables_name_metrics_that_exist(exposed):
    asked = [variable["definition"] for variable in BOARD["templating"]["list"] if variable["type"] == "query"]
    assert len(asked) == 2
    for definition in asked:
        (name, labels), label = used(definition)[0], re.search(r", (\w+)\)$", definition)[1]
        assert {label, *labels} - OF_PROMETHEUS <= exposed[name]


def test_every_metric_is_on_the_dashboard(exposed):
    queried = {re.sub(r"_(bucket|sum|count)$", "", name) for _, query in QUERIES for name, _ in used(query)}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in exposed} == queried
    assert {f"adjudge_{row[1]}" for row in metrics.CAMPAIGN} <= queried


def test_panels_are_told_apart_and_do_not_overlap():
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    covered = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & covered
        assert all(x < 24 for x, _ in cells)
        covered |= cells
    assert all(panel["title"] and panel["description"] for panel in PANELS)


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus")
def test_prometheus_understands_the_queries_and_the_alerts(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    (tmp_path / "alerts.yml").write_text("groups:" + page.partition("```yaml\ngroups:")[2].partition("```")[0])
    values = {"$__rate_interval": "5m", "$campaign": ".*", "$instance": ".*"}
    texts = [re.sub(r"\$\w+", lambda found: values[found[0]], query) for _, query in QUERIES]
    rules = [{"record": f"query_{number}", "expr": text} for number, text in enumerate(texts)]
    (tmp_path / "queries.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    command = [PROMTOOL, "check", "rules", *sorted(tmp_path.glob("*.yml"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
