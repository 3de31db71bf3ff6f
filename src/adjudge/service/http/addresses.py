"""Where webhooks may be posted: public addresses only, looked up once per delivery and then held to.

A name that means a public address when it is checked and a private one when it is connected to (rebinding) gets nowhere:
the connection is made to the very address that was checked.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from adjudge.errors import quote
from adjudge.service.http.errors import Invalid

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class Target(NamedTuple):
    """An address to post to, taken apart."""

    secure: bool
    host: str
    port: int
    path: str  # with the query

    @property
    def authority(self) -> str:
        """What stands in the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def target(url: str) -> Target:
    """Return the parts of an address, or raise `Invalid`.

    >>> target("https://example.org/hook?a=1")
    Target(secure=True, host='example.org', port=443, path='/hook?a=1')
    """
    if not url.isascii() or any(ord(one) <= 32 or ord(one) == 127 for one in url):
        raise Invalid("the address of a webhook has to be ASCII without spaces: encode other characters")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise Invalid(f"the address {quote(url)} cannot be read") from None
    if parts.scheme not in ("http", "https") or not host:
        raise Invalid(f"the address of a webhook has to begin with https:// (or http://) and a host, not {quote(url)}")
    if parts.username is not None or parts.password is not None:
        raise Invalid("the address of a webhook must not hold a name or a password: deliveries are signed instead")
    secure = parts.scheme == "https"
    if port == 0:
        raise Invalid("a webhook cannot be posted to port 0")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(secure, host, port or (443 if secure else 80), path)


def public(address: Address) -> bool:
    """Return whether an address is one of the public internet, also where one is wrapped in another.

    >>> [public(ipaddress.ip_address(one)) for one in ("93.184.216.34", "127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1")]
    [True, False, False, False]
    """
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or _translated(address)
        if inner is not None:
            return public(inner)
        if address.teredo is not None or address.is_site_local:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _translated(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the address that a translator (NAT64) would make of it; low addresses hold one, too."""
    whole = int(address)
    if whole >> 32 in (0x64FF9B << 64, 0):
        return ipaddress.IPv4Address(whole & 0xFFFFFFFF)
    return None


def check(url: str, *, allow_private: bool) -> Target:
    """Return the parts of an address that may be posted to, as far as that can be said without asking the network.

    - `url`: the address.
    - `allow_private`: whether private ones are allowed.
    """
    found = target(url)
    if not allow_private:
        try:  # numbers in any notation, such as 2130706433 or 0x7f.1
            numeric = socket.getaddrinfo(found.host, found.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except (OSError, UnicodeError):
            numeric = []
        for *_, where in numeric:
            _refuse(str(where[0]))
        if found.host.rstrip(".").lower() in ("localhost", "localhost.localdomain") or found.host.endswith(".localhost"):
            _refuse("127.0.0.1")
    return found


def resolve(found: Target, *, allow_private: bool) -> str:
    """Return the address to connect to, after every address of the host was checked.

    - `found`: where a delivery goes.
    - `allow_private`: whether private addresses are allowed.
    """
    rows = socket.getaddrinfo(found.host, found.port, type=socket.SOCK_STREAM)
    addresses = [str(where[0]) for *_, where in rows]
    if not allow_private:
        for each in addresses:
            _refuse(each)
    return addresses[0]


def _refuse(text: str) -> None:
    if "%" in text or not public(ipaddress.ip_address(text)):
        raise Invalid("the address of a webhook is private: only public ones are posted to, unless the server allows others")
