"""Bytes of a request (path, query, headers, body) become checked values, or a problem that names what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from adjudge.errors import make_visible
from adjudge.service.campaigns.policy import Policy
from adjudge.service.http import limits
from adjudge.service.http.errors import HeadersTooLarge, Invalid, Malformed, Problem
from adjudge.service.http.types import MAX_ID_CHARACTERS

T = TypeVar("T")
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # an escape that is not itself escaped
_MAX_QUOTE_CHARACTERS: Final = 300  # characters of a sentence that quotes what was sent
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


def decode_body(decode: Callable[[bytes], T], body: bytes, *, nul: bool = False) -> T:
    r"""Return what a body holds.

    - `decode`: the method of a decoder that checks types.
    - `body`: bytes from outside.
    - `nul`: whether texts may contain NUL characters; the handler then checks those it uses.

    >>> decode_body(msgspec.json.Decoder(list[str]).decode, b'["a", 1]')
    Traceback (most recent call last):
    adjudge.service.http.errors.Invalid: expected `str`, got `int` - at `$[1]`
    """
    if not nul and b"\\u0000" in body and _NUL.search(body):  # in JSON a NUL can only be an escape
        raise Invalid("texts must not have NUL characters")
    try:
        return decode(body)
    except (ValueError, RecursionError) as error:
        raise make_problem(error) from None


def make_problem(error: ValueError | RecursionError) -> Problem:
    """Return the problem that an error of decoding means."""
    if isinstance(error, msgspec.ValidationError):
        text = str(error)
        is_bare = any(text == f"Object contains unknown field `{field}`" for field in Policy.__struct_fields__)
        return Invalid(_short(text[:1].lower() + text[1:] + (': send {"policy": {…}}' if is_bare else "")))
    if isinstance(error, UnicodeDecodeError):
        return Malformed("the body is not UTF-8")
    if isinstance(error, RecursionError):
        return Malformed("the body is nested too deeply")
    return Malformed(_short(f"the body is not JSON: {error}"))


def _short(text: str) -> str:
    text = make_visible(text)
    return text if len(text) <= _MAX_QUOTE_CHARACTERS else text[:_MAX_QUOTE_CHARACTERS] + "…"


def decode_segment(raw: bytes) -> str:
    """Return one segment of a path, percent-decoded.

    >>> decode_segment(b"a%2Fb"), decode_segment(b"plus+"), decode_segment("é".encode())
    ('a/b', 'plus+', 'é')
    """
    try:
        text = (unquote_to_bytes(raw) if b"%" in raw else raw).decode()
    except UnicodeDecodeError:
        raise Malformed("the path is not UTF-8 where it is percent-decoded") from None
    if "\0" in text:
        raise Malformed("the path must not have NUL characters")
    if len(text) > MAX_ID_CHARACTERS:
        raise Malformed(f"a name in the path has {len(text)} characters: at most {MAX_ID_CHARACTERS} are taken")
    return text


def decode_query(raw: bytes, kind: type[T]) -> T:
    """Return the query parameters of a request.

    - `raw`: the query string, still percent-encoded.
    - `kind`: the type that says which names and values there are.

    >>> class Query(msgspec.Struct, forbid_unknown_fields=True):
    ...     limit: int = 100
    >>> decode_query(b"limit=7", Query)
    Query(limit=7)
    """
    values: dict[str, Any] = {}
    for pair in raw.split(b"&") if raw else ():
        name, _, value = pair.partition(b"=")
        try:
            key, text = (unquote_to_bytes(part.replace(b"+", b" ")).decode() for part in (name, value))
        except UnicodeDecodeError:
            raise Malformed("the query is not UTF-8 where it is percent-decoded") from None
        if "\0" in text:
            raise Invalid(f"{_short(key)} must not have NUL characters")
        if key in values:
            raise Invalid(f"{_short(key)} is given twice in the query")
        values[key] = text
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        text = str(error)
        raise Invalid(_short("in the query: " + text[:1].lower() + text[1:])) from None


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
    values: dict[str, bytes] = {}
    is_forwarded, lines = False, 0
    for name, value in fields:
        lines += 1
        size += len(name) + len(value) + 4
        field = _HEADER_FIELDS.get(name)
        if field is not None:
            if field in values:
                raise Malformed(f"there are two {name.decode()} headers: send one")
            values[field] = value
        elif name in _FORWARDING or name.startswith(b"x-forwarded-"):
            is_forwarded = True
    if size > limits.MAX_HEADER_BYTES or lines > limits.MAX_HEADER_LINES:
        raise HeadersTooLarge(
            f"the headers exceed {limits.MAX_HEADER_BYTES} bytes or {limits.MAX_HEADER_LINES} lines, request line included"
        )
    if version != "1.1":
        if version != "1.0":
            raise Malformed("the version of HTTP has to be 1.1")
        if "transfer_encoding" in values:
            raise Malformed("HTTP/1.0 has no Transfer-Encoding")
    elif "host" not in values:
        raise Malformed("the header Host is missing")
    return Headers(version=version, is_forwarded=is_forwarded, **values)
