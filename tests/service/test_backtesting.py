"""Backtests of a running campaign: as the library has them, and bad ones refused."""

import pytest

from adjudge.service.campaigns.backtest import backtest
from service.serving import serving


@pytest.fixture(scope="module")
def voted(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("server")) as client:
        for task in range(12):
            votes = [{"task": f"t{task}", "worker": worker, "label": "ok" if task % 3 else "spam"} for worker in "abcde"]
            assert client("POST", "votes", votes).status == 200
        client("PUT", "tasks/t1/gold", {"label": "ok"})
        yield client


def test_it_is_that_of_the_library(voted):
    policy = {"minimum_votes": 5, "confidence": 0.6}
    answer = voted("POST", "policy/backtest", {"policy": policy})
    assert answer.status == 200
    found = backtest(voted.path, policy=policy)
    assert answer.json["after"]["decided"] == found.after.decided == 12
    assert answer.json["before"]["votes"] == found.before.votes < answer.json["after"]["votes"] == 60
    assert (answer.json["after"]["gold"], answer.json["after"]["accuracy"]) == (1, 1.0)
    assert answer.json["cast"] == 60
    assert voted("GET", "policy").json["versions"][-1]["version"] == 1  # nothing has changed


def test_examples_and_models(voted):
    answer = voted("POST", "policy/backtest", {"policy": {"minimum_votes": 9, "maximum_votes": 20}, "model": "ds"}).json
    assert answer["changed"] == len(answer["examples"]) == answer["before"]["decided"] > 0
    assert {example["after"]["status"] for example in answer["examples"]} == {"open"}


@pytest.mark.parametrize(
    "body", [{}, {"model": "glad"}, {"policy": {"minimum_votes": 0}}, {"policy": {"confidence": {"other": 0.9, "*": 0.8}}}]
)
def test_bad_ones_are_refused(voted, body):
    answer = voted("POST", "policy/backtest", body)
    assert 400 <= answer.status < 500
    assert answer.headers["content-type"].startswith("application/")


def test_audits_are_tried(voted):
    policy = {"minimum_votes": 1, "confidence": 0.5, "audit": {"share": 1.0}}
    answer = voted("POST", "policy/backtest", {"policy": policy}).json
    assert answer["before"]["audits"] is None
    audits = answer["after"]["audits"]
    assert audits["decisions"] == audits["drawn"] >= 12 > audits["known"] > audits["wrong"] == 0
    assert not audits["alarmed"]
    assert 0 == audits["interval"][0] < audits["interval"][1] <= 1
