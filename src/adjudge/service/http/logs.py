"""Logs as JSON lines, one object per line, and the ids that requests are known by."""

from __future__ import annotations

import itertools
import json
import logging
import re
import secrets
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TextIO

LOGGER: Final = logging.getLogger("adjudge.service")
_REQUEST_ID_PATTERN: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")  # an id that needs no quoting in a header, a log or a shell
_STANDARD_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


class JsonLines(logging.Formatter):
    """One line per record: time, level, message, and the fields of `extra`.

    Everything outside ASCII, and every control character, is escaped: no id can break a line or steer a terminal.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        line.update({name: value for name, value in vars(record).items() if name not in _STANDARD_ATTRIBUTES})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


def to_stream(level: str = "info", stream: TextIO | None = None) -> logging.Handler:
    """Send the service's logs to a stream, and return the handler, so that it can be taken away again.

    - `level`: what is less grave than this is left out: debug, info, warning, error.
    - `stream`: an open text file; None: standard error.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    LOGGER.addHandler(handler)
    LOGGER.setLevel(level.upper())
    LOGGER.propagate = False
    return handler


def request_ids() -> Callable[[], bytes]:
    """Return a function that makes ids: a random start, which tells runs of the server apart, and a count.

    >>> make = request_ids()
    >>> make() != make()
    True
    """
    start = secrets.token_hex(4).encode() + b"-"
    count = itertools.count(1)
    return lambda: b"%b%x" % (start, next(count))


def is_plain_id(request_id: bytes) -> bool:
    r"""Return whether an id that a client sent is short and plain; others are replaced.

    >>> is_plain_id(b"job-17.a"), is_plain_id(b"a\nb"), is_plain_id(b"x" * 65)
    (True, False, False)
    """
    return _REQUEST_ID_PATTERN.fullmatch(request_id) is not None
