"""Errors of a store. Each message is one line that says what is wrong, where, and what to do."""

from __future__ import annotations

from adjudge.errors import AdjudgeError, OneLine


class StoreError(AdjudgeError):
    """A store cannot be opened, or does not support the request."""


class StoreUnavailable(StoreError):  # noqa: N818 (a condition, not a kind of error)
    """The store cannot be written or read now, as when a disk is full or a server restarts. Nothing was written; retry later."""


class NotOwner(StoreError):  # noqa: N818
    """Another process writes this file or campaign."""


class OutOfStep(StoreError):  # noqa: N818
    """A batch does not begin where the log of its campaign ends. Nothing was written; read the log again."""


class Expired(StoreError):  # noqa: N818
    """The requested events are deleted, because the campaign no longer keeps votes that old. The rest of the log begins later."""


class DamagedStore(StoreError):  # noqa: N818
    """Stored data was changed since it was written; the message names the campaign and the positions."""


class DamagedSnapshot(OneLine, UserWarning):
    """A snapshot is unusable and is skipped; an older one, or the log alone, gives the same state."""
