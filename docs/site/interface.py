"""The reference of the HTTP interface, as Markdown, from the table of routes and the types of the program itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from adjudge.service.http.openapi import describe
from adjudge.service.http.routes import ROUTES

GROUPS = {
    "/votes": "Votes",
    "/tasks": "Tasks",
    "/queue": "Decisions",
    "/decisions": "Decisions",
    "/events": "Decisions",
    "/workers": "Workers",
    "/bans": "Workers",
    "/next": "Workers",
    "/policy": "Policy, refits, breakers",
    "/refit": "Policy, refits, breakers",
    "/breaker": "Policy, refits, breakers",
    "/audits": "Policy, refits, breakers",
    "/webhooks": "Webhooks",
    "/labelstudio": "Webhooks",
    "/v1": "Campaigns",
    "": "The server",
}


def reference() -> str:
    """Return a section for every group of operations, then one for every type that they carry."""
    described = describe(ROUTES)
    lines: list[str] = []
    for group in dict.fromkeys(["The server", "Campaigns", *GROUPS.values()]):
        mine = [route for route in ROUTES if _group(route.path) == group]
        lines += [f"## {group}", "", "| operation | scope | carries | answers |", "|---|---|---|---|"]
        for route in mine:
            what = f"{_text(_first(route.handler.__doc__))}<br>`{route.name}`"
            lines.append(f"| {what} | {route.scope or 'none'} | {_body(route)} | {_answers(route)} |")
        lines.append("")
    lines += ["## Types", ""]
    for name, schema in sorted(described["components"]["schemas"].items()):
        lines += _type(name, schema)
    return "\n".join(lines) + "\n"


def _group(path: str) -> str:
    below = path.removeprefix("/v1/campaigns/{campaign}")
    return next(group for part, group in GROUPS.items() if below.startswith(part) or (part == "/v1" and path.startswith(part)))


def _body(route: Any) -> str:
    shown = [f"?{name}" for name in getattr(route.query, "__struct_fields__", ())]
    return ", ".join(([_link(route.body)] if route.body is not None else []) + [f"`{name}`" for name in shown]) or "-"


def _answers(route: Any) -> str:
    return ", ".join(f"{status} {_link(kind) if kind is not None else route.content}" for status, kind in route.answers.items())


def _link(kind: Any) -> str:
    names = [kind.__name__] if isinstance(kind, type) else re.findall(r"\b([A-Z]\w+)\b", str(kind))
    known = [name for name in dict.fromkeys(names) if name not in ("Annotated", "Any", "Meta", "None", "Union")]
    return " or ".join(f"[{name}](#{name.lower()})" for name in known) or "a document"


def _type(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from (f"### {name}", "", _text(schema.get("description", "")), "")
    fields = schema.get("properties", {})
    if fields:
        yield from ("| field | type | |", "|---|---|---|")
        needed = set(schema.get("required", ()))
        for field, what in fields.items():
            name = f"`{field}`" if field in needed else f"`{field}` (optional)"
            yield f"| {name} | {_kind(what)} | {_text(what.get('description', ''))} |"
        yield ""


def _kind(what: dict[str, Any]) -> str:
    """Return a type of JSON in a few words."""
    if "$ref" in what:
        name = what["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf"):
        if several in what:
            return " or ".join(dict.fromkeys(_kind(one) for one in what[several]))
    if "enum" in what:
        return ", ".join(f"`{value}`" for value in what["enum"])
    kind = what.get("type", "any")
    if kind == "array":
        return f"list of {_kind(what.get('items', {}))}" if isinstance(what.get("items"), dict) else "list"
    return "date and time" if what.get("format") == "date-time" else " or ".join(kind) if isinstance(kind, list) else str(kind)


def _first(text: str | None) -> str:
    return (text or "").strip().splitlines()[0]


def _text(text: str) -> str:
    """Return plain text as Markdown in a table; what stands in backticks stays code."""
    parts: Iterable[str] = re.split(r"(`[^`]*`)", re.sub(r"\s+", " ", text).strip())
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_\[\]<>|#])", r"\\\1", part) for part in parts)
