"""The live service: `campaigns` is the domain, `store` the durable log, `http` the server, `client` its Python clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adjudge.service.http.background import running

__all__ = ["running"]


def __getattr__(name: str) -> object:
    if name != "running":
        raise AttributeError(f"module 'adjudge.service' has no attribute {name!r}")
    from adjudge.service.http.background import running

    return running
