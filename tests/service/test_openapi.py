"""The description is valid, says what the table says, and is true of a running server."""

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from jsonschema import Draft202012Validator
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from adjudge.service.http.openapi import describe, problems
from adjudge.service.http.routes import ROUTES
from adjudge.service.http.types import MAX_ID_CHARACTERS

DESCRIPTION = describe(ROUTES, required=False)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    negative_data_rejection,
    unsupported_method,
    allow_header_conformance,
]
ENDLESS = "/v1/campaigns/{campaign}/events"  # its answer has no end: test_feed.py is about it

schema = schemathesis.openapi.from_dict(DESCRIPTION, config=SchemathesisConfig.from_dict({}))


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@schema.hook
def map_path_parameters(context, path_parameters):
    """Half of the requests are about what is there: others end early."""
    if path_parameters and len(str(path_parameters)) % 2:
        there = {"campaign": "default", "task": "known", "worker": "ann", "label": "spam"}
        return {name: there.get(name, value) for name, value in path_parameters.items()}
    return path_parameters


@pytest.fixture(scope="module")
def known(server):
    return server.decide("known")


@schema.exclude(path=ENDLESS).parametrize()
@settings(
    max_examples=12,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_the_description_is_true(case, server, known):
    response = case.call(base_url=server.address, timeout=30)
    case.validate_response(response, checks=CHECKS)


def test_it_is_served_as_it_is_made(server):
    answer = server("GET", "/openapi.json")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.json == json.loads(json.dumps(DESCRIPTION))


def test_it_says_whether_a_token_is_needed():
    needed = describe(ROUTES)["paths"]
    assert needed["/metrics"]["get"]["security"] == [{"token": []}]
    assert needed["/healthz"]["get"]["security"] == []
    assert DESCRIPTION["paths"]["/metrics"]["get"]["security"] == [{}, {"token": []}]


def test_every_schema_is_one():
    for found in DESCRIPTION["components"]["schemas"].values():
        Draft202012Validator.check_schema(found)


def test_every_reference_leads_somewhere():
    text = json.dumps(DESCRIPTION)
    names = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert names == {*DESCRIPTION["components"]["schemas"]} & names
    assert not [name for name in DESCRIPTION["components"]["schemas"] if name.endswith("Query")]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_is_described(route):
    operation = DESCRIPTION["paths"][route.path][route.method.lower()]
    assert operation["summary"]
    assert bool(operation["security"]) == (route.scope is not None)
    assert {int(status) for status in operation["responses"]} == problems(route) | set(route.answers)
    named = {each["name"]: each for each in operation.get("parameters", ())}
    assert [name for name, each in named.items() if each["in"] == "path"] == route.parameters
    assert all(each["schema"]["maxLength"] == MAX_ID_CHARACTERS for each in named.values() if each["in"] == "path")
    for each in named.values():
        Draft202012Validator.check_schema(each["schema"])
        assert {"type": "null"} not in each["schema"].get("anyOf", ())


def test_nothing_is_described_that_is_not_there():
    described = {f"{method.upper()} {path}" for path, methods in DESCRIPTION["paths"].items() for method in methods}
    assert described == {route.name for route in ROUTES}
    names = [operation["operationId"] for methods in DESCRIPTION["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names))
