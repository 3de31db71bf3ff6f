"""Docstrings for the site: their examples become blocks of code, which Markdown would take for quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

# An example begins at a prompt, and ends with the paragraph.
EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*(?:\n\n>>> .*(?:\n(?!\s*$).*)*)*", re.MULTILINE)


def fenced(text: str) -> str:
    r"""Return a docstring whose examples stand in fences.

    >>> fenced("Add.\n\n>>> 1 + 1\n2\n\nNothing else.").splitlines()
    ['Add.', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'Nothing else.']
    """
    return EXAMPLE.sub(lambda found: f"```pycon\n{found.group()}\n```", text)


class Doctests(griffe.Extension):
    """Fences the examples of every docstring that is collected."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
