"""The headers of a request that the service looks at, checked and frozen when the last of them has come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from adjudge.service.http import limits
from adjudge.service.http.errors import HeadersTooLarge, Malformed

_HEADER_FIELDS: Final = {
    name.replace("_", "-").encode(): name
    for name in (
        "authorization",
        "content_length",
        "host",
        "last_event_id",
        "origin",
        "sec_fetch_site",
        "transfer_encoding",
        "x_request_id",
    )
}
_FORWARDING: Final = frozenset({b"forwarded", b"via", b"x-real-ip", b"cdn-loop"})  # and x-forwarded-*


class Headers(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says about itself, apart from address and body. Each header was sent at most once.

    - `version`: of HTTP, 1.0 or 1.1.
    - `is_forwarded`: whether a proxy says that it forwards the request.
    """

    version: str
    is_forwarded: bool = False
    authorization: bytes | None = None
    content_length: bytes | None = None
    host: bytes | None = None
    last_event_id: bytes | None = None
    origin: bytes | None = None
    sec_fetch_site: bytes | None = None
    transfer_encoding: bytes | None = None
    x_request_id: bytes | None = None


def read_headers(fields: Iterable[tuple[bytes, bytes]], *, version: str = "1.1", size: int = 0) -> Headers:
    """Return the headers of a request, or raise if they are ambiguous or too large.

    - `fields`: all of them, names in lower case.
    - `version`: of HTTP.
    - `size`: bytes of the request line.

    >>> read_headers([(b"host", b"localhost"), (b"accept", b"*/*")]).host
    b'localhost'
    >>> read_headers([(b"host", b"localhost"), (b"host", b"evil.example")])
    Traceback (most recent call last):
    adjudge.service.http.errors.Malformed: there are two host headers: send one
    """
    found: dict[str, bytes] = {}
    is_forwarded, lines = False, 0
    for name, value in fields:
        lines += 1
        size += len(name) + len(value) + 4
        field = _HEADER_FIELDS.get(name)
        if field is not None:
            if field in found:
                raise Malformed(f"there are two {name.decode()} headers: send one")
            found[field] = value
        elif name in _FORWARDING or name.startswith(b"x-forwarded-"):
            is_forwarded = True
    if size > limits.MAX_HEADER_BYTES or lines > limits.MAX_HEADER_LINES:
        raise HeadersTooLarge(
            f"the headers exceed {limits.MAX_HEADER_BYTES} bytes or {limits.MAX_HEADER_LINES} lines, request line included"
        )
    if version != "1.1":
        if version != "1.0":
            raise Malformed("the version of HTTP has to be 1.1")
        if "transfer_encoding" in found:
            raise Malformed("HTTP/1.0 has no Transfer-Encoding")
    elif "host" not in found:
        raise Malformed("the header Host is missing")
    return Headers(version=version, is_forwarded=is_forwarded, **found)
