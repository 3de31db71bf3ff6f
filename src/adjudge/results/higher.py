"""What a result offers but does not know: parts of higher layers, named here and loaded when they are asked for.

A result is the door to its report and its plots. These know results, so that results may not import them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(home: str) -> Any:
    """Return what stands at `home`, a text "module:name".

    >>> load("adjudge.results.overview:FEW")
    3
    """
    module, name = home.split(":")
    return getattr(import_module(module), name)
