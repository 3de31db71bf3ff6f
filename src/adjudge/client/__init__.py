"""Clients of the live service, for programs that wait and for programs that await. The extra `serve` is not needed."""

from adjudge.client.async_client import AsyncClient
from adjudge.client.client import Client
from adjudge.client.errors import ServiceError

__all__ = ["AsyncClient", "Client", "ServiceError"]
