"""What a campaign is made with, and what may be changed of it."""

import pytest

from service.serving import BASE


@pytest.fixture(scope="module")
def made(server):
    spec = {
        "labels": [{"id": "spam", "name": "Spam!"}, "ok"],
        "settings": {"seed": 7},
        "refit": {"votes": 50},
        "retention": {"tasks": 9, "days": 3},
        "policy": {"minimum_votes": 2},
    }
    assert server("PUT", "/v1/campaigns/made", spec).status == 201
    return spec


def test_a_campaign_as_it_was_made_is_no_conflict(server, made):
    assert server("PUT", "/v1/campaigns/made", made).status == 200
    assert server("PUT", "/v1/campaigns/made", {"labels": ["spam", "ok"]}).status == 200  # what is left out is not compared


@pytest.mark.parametrize(
    "other",
    [
        {"settings": {"seed": 8}},
        {"refit": {"votes": 51}},
        {"retention": {"tasks": 9}},
        {"policy": {"minimum_votes": 3}},
        {"model": "ds"},
        {"labels": [{"id": "spam", "name": "Junk"}, "ok"]},
        {"labels": ["ok", "spam"]},
    ],
)
def test_other_content_is_a_conflict(server, made, other):
    answer = server("PUT", "/v1/campaigns/made", made | other)
    assert (answer.status, answer.json["error"]) == (409, "conflict")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"settings": {"seed": 2**63}}, "seed"),
        ({"settings": {"duplicates": "first"}}, "duplicates"),
        ({"settings": {"labels": ["x"]}}, "labels"),
        ({"settings": {"strength": -1}}, "strength"),
        ({"refit": {"votes": 10**30}}, "votes"),
        ({"refit": {"seconds": 1e300}}, "seconds"),
        ({"retention": {"tasks": 10**30}}, "tasks"),
        ({"retention": {"days": 1e300}}, "days"),
    ],
)
def test_numbers_that_no_campaign_can_keep(server, given, named):
    answer = server("PUT", "/v1/campaigns/new", {"labels": ["a", "b"]} | given)
    assert (answer.status, named in answer.json["detail"]) == (422, True)
    if "settings" not in given:
        assert server("PATCH", BASE, given).status == 422


def test_what_is_left_out_of_a_change_stays(server, made):
    path = "/v1/campaigns/made"
    assert server("PATCH", path, {"retention": {"waiting": 5}}).json["retention"] == {
        "tasks": 9,
        "waiting": 5,
        "days": 3.0,
        "votes_days": None,
    }
    assert server("PATCH", path, {"retention": {"days": None}}).json["retention"] == {
        "tasks": 9,
        "waiting": 5,
        "days": None,
        "votes_days": None,
    }
    assert server("PATCH", path, {"refit": {"seconds": 60}}).json["refit"] == {"votes": 50, "share": 0.1, "seconds": 60.0}


def test_a_policy_under_which_nobody_counts_is_reported(server):
    spec = {"labels": ["a", "b"], "policy": {"minimum_votes": 2, "confidence": 0.5, "probation": {"votes": 1, "accuracy": 0}}}
    made = server("PUT", "/v1/campaigns/stalled", spec).json
    assert made["warning"].startswith("probation keeps the votes of all workers aside")
    for worker in ("ann", "bob"):
        server("POST", "/v1/campaigns/stalled/votes", {"task": "t", "worker": worker, "label": "a"})
    assert (
        server("GET", "/v1/campaigns/stalled/tasks/t").json["why"][0] == "2 votes kept aside, from workers who are on probation"
    )
    policy = {**spec["policy"], "confidence": 0.6}
    assert "mark experts" in server("PUT", "/v1/campaigns/stalled/policy", {"policy": policy}).json["warning"]
    server("PUT", "/v1/campaigns/stalled/tasks/t/gold", {"label": "a"})
    server("POST", "/v1/campaigns/stalled/votes", {"task": "u", "worker": "ann", "label": "a"})
    assert server("GET", "/v1/campaigns/stalled").json["warning"] is None
    assert server("GET", "/v1/campaigns/stalled/workers/ann").json["probation"] is False


def test_a_policy_without_its_field_is_told_where_it_goes(server, made):
    answer = server("POST", "/v1/campaigns/made/policy/backtest", {"minimum_votes": 4})
    assert answer.status == 422
    assert answer.json["detail"] == 'object contains unknown field `minimum_votes`: send {"policy": {…}}'
