"""The live service over HTTP: what `quorate serve` runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quorate.service.background import running

__all__ = ["running"]


def __getattr__(name: str) -> object:
    if name != "running":
        raise AttributeError(f"module 'quorate.service' has no attribute {name!r}")
    from quorate.service.background import running

    return running
