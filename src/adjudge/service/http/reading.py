"""Bytes from outside become checked values, or a sentence that says what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from adjudge.errors import make_visible
from adjudge.service.http.errors import Invalid, Malformed, Problem
from adjudge.service.http.types import MAX_ID_CHARACTERS

T = TypeVar("T")
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # an escape that is not itself escaped
_MAX_QUOTE_CHARACTERS: Final = 300  # characters of a sentence that quotes what was sent


def decoded(decode: Callable[[bytes], T], body: bytes, *, nul: bool = False) -> T:
    r"""Return what a body holds.

    - `decode`: the method of a decoder that checks types.
    - `body`: bytes from outside.
    - `nul`: whether texts may have NUL characters, as whoever uses them looks.

    >>> decoded(msgspec.json.Decoder(list[str]).decode, b'["a", 1]')
    Traceback (most recent call last):
    adjudge.service.http.errors.Invalid: expected `str`, got `int` - at `$[1]`
    """
    if not nul and b"\\u0000" in body and _NUL.search(body):  # in JSON a NUL can only be an escape
        raise Invalid("texts must not have NUL characters")
    try:
        return decode(body)
    except (ValueError, RecursionError) as error:
        raise fault(error) from None


def fault(error: ValueError | RecursionError) -> Problem:
    """Return the problem that an error of decoding means."""
    if isinstance(error, msgspec.ValidationError):
        text = str(error)
        return Invalid(_short(text[:1].lower() + text[1:]))
    if isinstance(error, UnicodeDecodeError):
        return Malformed("the body is not UTF-8")
    if isinstance(error, RecursionError):
        return Malformed("the body is nested too deeply")
    return Malformed(_short(f"the body is not JSON: {error}"))


def _short(text: str) -> str:
    text = make_visible(text)
    return text if len(text) <= _MAX_QUOTE_CHARACTERS else text[:_MAX_QUOTE_CHARACTERS] + "…"


def segment(raw: bytes) -> str:
    """Return one segment of a path, percent-decoded.

    >>> segment(b"a%2Fb"), segment(b"plus+"), segment("é".encode())
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


def query(raw: bytes, kind: type[T]) -> T:
    """Return what stands behind the question mark.

    - `raw`: as it was sent, percent-encoded.
    - `kind`: the type that says which names and values there are.

    >>> class Query(msgspec.Struct, forbid_unknown_fields=True):
    ...     limit: int = 100
    >>> query(b"limit=7", Query)
    Query(limit=7)
    """
    given: dict[str, Any] = {}
    for pair in raw.split(b"&") if raw else ():
        name, _, value = pair.partition(b"=")
        try:
            key, text = (unquote_to_bytes(part.replace(b"+", b" ")).decode() for part in (name, value))
        except UnicodeDecodeError:
            raise Malformed("the query is not UTF-8 where it is percent-decoded") from None
        if "\0" in text:
            raise Invalid(f"{_short(key)} must not have NUL characters")
        if key in given:
            raise Invalid(f"{_short(key)} is given twice in the query")
        given[key] = text
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        text = str(error)
        raise Invalid(_short("in the query: " + text[:1].lower() + text[1:])) from None
