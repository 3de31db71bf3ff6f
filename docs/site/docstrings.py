"""Docstrings and signatures as the site shows them.

- Examples become blocks of code, which Markdown would take for quotations.
- A default that has a name in the code (`DEFAULTS.tol`) is shown as its value.
- Signatures for type checkers (overloads) are left out: that of the function itself has all parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from operator import attrgetter
from typing import Any

import griffe

# An example begins at a prompt, and ends with the paragraph.
EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*(?:\n\n>>> .*(?:\n(?!\s*$).*)*)*", re.MULTILINE)
SECTION = re.compile(r"^(Parameters|Returns|Raises|Notes|Examples)\n-+\n(.*?)(?=^\w+\n-{3,}\n|\Z)", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"^(\S.*)\n((?: {4}.*(?:\n|\Z))+)", re.MULTILINE)  # a parameter, and the indented lines about it
CONSTANT = re.compile(r"[A-Z][A-Z_]+(\.\w+)*")


def fenced(text: str) -> str:
    r"""Return a docstring whose examples stand in fences.

    >>> fenced("Add.\n\n>>> 1 + 1\n2\n\nNothing else.").splitlines()
    ['Add.', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'Nothing else.']
    """
    return EXAMPLE.sub(lambda found: f"```pycon\n{found.group()}\n```", text)


def as_markdown(text: str) -> str:
    r"""Return a numpydoc docstring as Markdown: its sections have bold titles, and its parameters are a list.

    >>> as_markdown("Add.\n\nParameters\n----------\na : int\n    One\n    number.\n\nNotes\n-----\nQuick.").splitlines()
    ['Add.', '', '**Parameters**', '', '- `a : int`: One number.', '', '**Notes**', '', 'Quick.']
    """

    def section(found: re.Match[str]) -> str:
        title, body = found.groups()
        if title not in ("Notes", "Examples"):
            body = ENTRY.sub(lambda entry: f"- `{entry[1]}`: {' '.join(entry[2].split())}\n", body)
        return f"**{title}**\n\n{body}"

    return SECTION.sub(section, text)


class Shown(griffe.Extension):
    """Changes what griffe has collected, so that it reads well."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of one object, and write out its defaults."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
        if isinstance(obj, griffe.Attribute):
            obj.value = _written_out(obj, obj.value)
        elif isinstance(obj, griffe.Function):
            for parameter in obj.parameters:
                parameter.default = _written_out(obj, parameter.default)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Drop the overloads of everything in the package."""
        for one in _within(pkg):
            one.overloads = None if one.is_function else {}


def _written_out(obj: griffe.Object, default: Any) -> Any:
    """Return the value of a constant as code; anything else as it is."""
    if default is None or CONSTANT.fullmatch(str(default)) is None:
        return default
    return repr(attrgetter(str(default))(import_module(obj.module.path)))


def _within(one: Any) -> Iterator[Any]:
    yield one
    for member in one.members.values():
        if not member.is_alias and (member.is_module or member.is_class or member.is_function):
            yield from _within(member)
