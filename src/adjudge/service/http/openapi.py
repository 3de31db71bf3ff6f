"""The OpenAPI 3.1 description of the interface, generated from the table of routes and the types."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final

import msgspec

from adjudge.service.http.errors import PROBLEMS, ErrorAnswer
from adjudge.service.http.routing import JSON_MEDIA_TYPE, Route

REF: Final = "#/components/schemas/{name}"
_SENTENCES: Final = {problem.status: inspect.cleandoc(problem.__doc__ or "") for problem in PROBLEMS}
_TAGS: Final = ("votes", "tasks", "workers", "policy", "webhooks", "campaigns", "server")


def describe(routes: Sequence[Route], *, required: bool = True) -> dict[str, Any]:
    """Return the description.

    - `routes`: the table.
    - `required`: whether a token is needed, as it is wherever there are tokens.
    """
    types = _Types(routes)
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, types, required)
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "adjudge",
            "version": version("adjudge"),
            "description": "Votes in, decisions out. Ids in paths are percent-encoded, each as one segment.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": paths,
        "components": {
            "schemas": types.components,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Made by `adjudge token`; on loopback none is needed as long as none was made.",
                }
            },
        },
        "tags": [{"name": tag} for tag in _TAGS],
    }


class _Types:
    """Schemas of all types that occur, each described once."""

    def __init__(self, routes: Sequence[Route]) -> None:
        kinds: dict[int, Any] = {}
        for route in routes:
            for kind in (route.body, route.query, *route.answers.values()):
                if kind is not None:
                    kinds[id(kind)] = kind
        kinds[id(ErrorAnswer)] = ErrorAnswer
        schemas, self.components = msgspec.json.schema_components(list(kinds.values()), ref_template=REF)
        self._schemas = dict(zip(kinds, schemas, strict=True))
        self._fields: dict[str, Any] = {}
        for route in routes:  # queries are described as parameters
            if route.query is not None:
                self._fields[route.query.__name__] = self.components.pop(route.query.__name__, None) or self._fields.get(
                    route.query.__name__
                )

    def schema(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type, mostly a reference."""
        return self._schemas[id(kind)]

    def query(self, kind: Any) -> list[dict[str, Any]]:
        """Return the parameters of a query."""
        fields = self._fields[kind.__name__]
        return [
            {"name": name, "in": "query", "required": name in fields["required"], **_parameter(schema)}
            for name, schema in fields["properties"].items()
        ]


def _parameter(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a field of a query as a parameter: a query leaves a field out instead of null."""
    schema = dict(schema)
    text = schema.pop("description", None)
    if "anyOf" in schema:
        choices = [choice for choice in schema.pop("anyOf") if choice != {"type": "null"}]
        schema = {**schema, **choices[0]}
    if "enum" in schema:
        schema["enum"] = [value for value in schema["enum"] if value is not None]
    if schema.get("default", "") is None:
        del schema["default"]
    return {"schema": schema, **({"description": text} if text else {})}


def _operation(route: Route, types: _Types, required: bool) -> dict[str, Any]:
    first, _, details = inspect.cleandoc(route.handler.__doc__ or "").partition("\n\n")
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": " ".join(first.split()).rstrip("."),
        "tags": [_tag(route.path)],
        "security": [] if route.scope is None else [{"token": []}] if required else [{}, {"token": []}],
        "responses": _responses(route, types),
    }
    notes = [" ".join(details.split())] if details else []
    if route.scope is not None:
        notes.append(f"The token needs the scope {route.scope}{', for all campaigns' if route.everywhere else ''}.")
    if notes:
        operation["description"] = " ".join(notes)
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[^\\u0000]*$"},
        }
        for name in route.parameters
    ]
    parameters += types.query(route.query) if route.query is not None else []
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.optional,
            "content": {JSON_MEDIA_TYPE: {"schema": types.schema(route.body)}}
            if route.takes == JSON_MEDIA_TYPE
            else _lines(route),
        }
    return operation


def _lines(route: Route) -> dict[str, Any]:
    """Return the content of a stream of lines; each line is answered, good or bad.

    Every media type is accepted. The description has two, as few programs know the one for JSON lines.
    """
    text = {"schema": {"description": f"One {route.body.__name__} per line."}}
    return {route.takes: text, "text/plain": text}


def _tag(path: str) -> str:
    parts = path.split("/")
    known = [part.split(":")[0] for part in parts[4:5]]
    if not path.startswith("/v1"):
        return "server"
    own = {"decisions": "tasks", "events": "tasks", "next": "tasks", "bans": "workers", "labelstudio": "webhooks"}
    tag = own.get(known[0], known[0]) if known else "campaigns"
    return tag if tag in _TAGS else "campaigns"


def _responses(route: Route, types: _Types) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, kind in route.answers.items():
        text = "Done." if status < 400 else _SENTENCES[status]
        content = (
            {"schema": types.schema(kind)}
            if kind is not None and route.content == JSON_MEDIA_TYPE
            else {"schema": {"type": "string"}}
        )
        responses[str(status)] = {"description": text, "content": {route.content: content}}
    for status in problems(route):
        if str(status) not in responses:
            responses[str(status)] = {
                "description": _SENTENCES[status],
                "content": {JSON_MEDIA_TYPE: {"schema": types.schema(ErrorAnswer)}},
            }
    return dict(sorted(responses.items()))


def problems(route: Route) -> set[int]:
    """Return the statuses of problems that a route can answer with."""
    statuses = {400, 503, *route.problems}
    if route.scope is not None:
        statuses |= {401, 403, 429}
    if route.parameters:
        statuses |= {404}
    if route.query is not None or route.body is not None:
        statuses |= {422}
    if route.body is not None:
        statuses |= {408, 413}
    return statuses
