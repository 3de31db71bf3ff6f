"""What tells one fit from another: a digest of its settings and of all it was told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from quorate.vocabulary import Vocabulary


def digest(value: object) -> str:
    """Returns a digest of nested settings, arrays and ids, the same in every process.

    >>> digest({"tol": 1e-4, "start": np.zeros(2)}) == digest({"start": np.zeros(2), "tol": 0.0001})
    True
    """
    whole = blake2b(digest_size=16)
    _feed(whole, value)
    return whole.hexdigest()


def _feed(whole: Any, value: object) -> None:
    whole.update(f"<{type(value).__name__}>".encode())
    if isinstance(value, np.ndarray):
        whole.update(f"{value.dtype.str}{value.shape}".encode())
        whole.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Vocabulary):
        _feed(whole, (value.kind, *value.text_buffers()))
    elif is_dataclass(value):
        for one in fields(value):
            _feed(whole, (one.name, getattr(value, one.name)))
    elif isinstance(value, Mapping):
        for key in sorted(value, key=repr):
            _feed(whole, (key, value[key]))
    elif isinstance(value, list | tuple):
        for item in value:
            _feed(whole, item)
    else:
        whole.update(repr(value).encode())
    whole.update(b"</>")
