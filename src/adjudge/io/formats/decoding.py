"""JSON of exports and logs as typed objects; damage is an error that names the file, the line and the place."""

from __future__ import annotations

import re
from typing import Any, Final

from adjudge.errors import InputError

CONSTANT_PATTERN: Final = re.compile(rb"(?<=[:\[,\s])(?:NaN|-?Infinity)(?=[\s,\]}])")


def decode(data: bytes, kind: Any, name: str) -> Any:
    """Return JSON as objects of this type."""
    import msgspec

    try:
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            plain = without_constants(data)
            if plain == data:
                raise
            return msgspec.json.decode(plain, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(f"{name} is damaged: {reason}") from error


def decode_lines(data: bytes, kind: Any, name: str) -> list[Any]:
    """Return JSON lines as objects of this type; a damaged line is an error that names it."""
    import msgspec

    try:
        return list(msgspec.json.Decoder(kind).decode_lines(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        lines = enumerate(data.split(b"\n"), 1)
        return [decode(line, kind, f"{name}: line {number}") for number, line in lines if line.strip()]


def without_constants(data: bytes) -> bytes:
    r"""Return JSON with null for NaN and Infinity, which are not JSON but which Python writes; texts keep them.

    >>> without_constants(rb'{"a": NaN, "b": "c: NaN, \\", "d": "\" ,NaN ", "e":-Infinity}').decode()
    '{"a": null, "b": "c: NaN, \\\\", "d": "\\" ,NaN ", "e":null}'
    """
    parts, start, in_text = [], 0, False
    for constant in CONSTANT_PATTERN.finditer(data):
        before = data[start : constant.start()]
        marks = before.replace(b"\\\\", b"").replace(b'\\"', b"").count(b'"')  # that begin or end a text
        in_text ^= marks % 2 == 1
        parts += [before, constant[0] if in_text else b"null"]
        start = constant.end()
    return b"".join([*parts, data[start:]])
