"""Clients of the live service, for programs that wait and for programs that await. The extra `serve` is not needed."""

from quorate.client.async_client import AsyncClient
from quorate.client.client import Client
from quorate.client.errors import ServiceError

__all__ = ["AsyncClient", "Client", "ServiceError"]
