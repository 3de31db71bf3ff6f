"""Clients of the live service, for programs that wait and for programs that await. They need the extra `client`, not `serve`."""

from adjudge.service.client.async_client import AsyncClient
from adjudge.service.client.client import Client
from adjudge.service.client.errors import ServiceError

__all__ = ["AsyncClient", "Client", "ServiceError"]
