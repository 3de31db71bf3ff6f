"""What can go wrong with a store, as one-line messages: what, where, and what would be right."""

from __future__ import annotations

from adjudge.errors import AdjudgeError, OneLine


class StoreError(AdjudgeError):
    """A store cannot be opened, or was asked for what it does not do."""


class StoreUnavailable(StoreError):  # noqa: N818 (what is so, not a kind of error)
    """Nothing was written, or nothing can be read, for now: a full disk, a server that restarts. Later it may succeed."""


class NotOwner(StoreError):  # noqa: N818
    """Another process writes here: the file, or the campaign."""


class OutOfStep(StoreError):  # noqa: N818
    """A batch does not begin where the log of its campaign ends. Nothing of it was written; read the log again."""


class Expired(StoreError):  # noqa: N818
    """Events were asked for that are deleted: they were older than the campaign keeps votes. What is left begins later."""


class DamagedStore(StoreError):  # noqa: N818
    """What is stored is not what was written; the message names the campaign and the positions."""


class DamagedSnapshot(OneLine, UserWarning):
    """A snapshot cannot be used, and is passed over: an older one, or the log alone, gives the same state."""
