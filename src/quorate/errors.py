"""What can go wrong, as one-line messages: what, where, and what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterable


class QuorateError(Exception):
    """Base of every error that quorate raises on purpose; the message is one line for people."""


class InputError(QuorateError, ValueError):
    """The votes, the file or the column cannot be used as given."""


class OptionError(QuorateError, ValueError):
    """An option has a value (or a name) that is not accepted."""


class NotConverged(UserWarning):
    """A fit used up its iterations before its stopping rule was met."""


class MissingLabels(UserWarning):
    """Votes without a label were dropped as abstentions."""


class CopiedVotes(UserWarning):
    """Some workers give the same wrong answers far more often than chance: their votes are not independent."""


class NotCompiled(UserWarning):
    """The compiled core is not there; the reference kernels do its work, more slowly."""


def listed(values: Iterable[object], limit: int = 12) -> str:
    """Returns the values joined by commas, cut after `limit` with a count of the rest.

    >>> listed(range(4), limit=2)
    '0, 1, … (2 more)'
    """
    texts = [str(v) for v in values]
    head = ", ".join(texts[:limit])
    return head if len(texts) <= limit else f"{head}, … ({len(texts) - limit} more)"


def shown(value: object, limit: int = 60) -> str:
    """Returns `repr(value)`, shortened so that an error stays one line.

    >>> shown("x" * 100, limit=5)
    "'xxxx…"
    """
    text = re.sub(r"\s*\n\s*", " ", repr(value))  # a table's repr has many
    return text if len(text) <= limit else text[:limit] + "…"


def unknown(what: str, name: object, accepted: Iterable[str]) -> OptionError:
    """Returns the error for a name that is not among the accepted ones, with the nearest of them.

    >>> str(unknown("model", "fsd", ["ds", "fds", "mv"]))
    "unknown model 'fsd': did you mean 'fds'? (accepted: ds, fds, mv)"
    """
    from difflib import get_close_matches

    choices = list(accepted)
    near = get_close_matches(str(name), choices, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? (accepted: {listed(choices)})" if near else f"accepted: {listed(choices)}"
    return OptionError(f"unknown {what} {shown(name)}: {hint}")
