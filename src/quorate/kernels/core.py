"""The compiled core, where it was built: the one place that imports it."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from quorate.errors import NotCompiled, QuorateError


@cache
def compiled() -> ModuleType | None:
    """Return the compiled core, or None (with one warning) where it could not be built."""
    try:
        return import_module("quorate._core")
    except ImportError as error:
        warnings.warn(
            f"quorate runs without its compiled core ({error}); results are the same, but slower: "
            "install a C++17 compiler and reinstall quorate",
            NotCompiled,
            stacklevel=2,
        )
        return None


def required() -> Any:
    """Return the compiled core; raises where it could not be built."""
    core = compiled()
    if core is None:
        raise QuorateError("the compiled core was not built: choose engine='reference', or reinstall with a C++17 compiler")
    return core
