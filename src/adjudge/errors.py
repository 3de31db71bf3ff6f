"""What can go wrong, as one-line messages: what, where, and what would be right."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterable
from types import FrameType
from typing import Any, Final

# What a terminal obeys instead of showing: control characters (C0, DEL, C1), line and paragraph separators, marks that turn
# the direction of text around or take no room, tags, and halves of surrogate pairs, which cannot be encoded at all.
UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
IS_WINDOWS: Final = os.name == "nt"
PACKAGE_NAME: Final = __name__.partition(".")[0]
NOTEBOOKS: Final = ("IPython", "ipykernel")  # whose frames are below those of every cell

NOT_PICKLED: Final = (
    "a result on disk cannot be pickled or deep-copied: its votes and labels are in files of this process. Write "
    "result.labels to a file, keep what was learned with result.save(path), or fit with engine='cpu' where memory allows"
)


def make_visible(text: str) -> str:
    r"""Return the text with everything that a terminal would obey shown as an escape; everything else stays as it is.

    >>> make_visible("ann\x1b[31m\n")
    'ann\\x1b[31m\\n'
    """
    return UNSEEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode("ascii")


class OneLine(Exception):  # noqa: N818 (of warnings, too)
    """Base of errors and warnings whose message is one line: what it quotes can neither break it nor steer a terminal."""

    def __init__(self, message: object = "") -> None:
        super().__init__(make_visible(str(message)))


class AdjudgeError(OneLine):
    """Base of all errors that adjudge raises deliberately; the message is one line for people."""

    def _render_traceback_(self) -> list[str]:  # a notebook asks an error for it
        """Return the caller's own lines and the message: what is inside adjudge tells its developers alone."""
        import traceback

        frames = traceback.walk_tb(self.__traceback__)
        own = [(frame, line) for frame, line in frames if package_of(frame) not in (PACKAGE_NAME, *NOTEBOOKS)]
        where = traceback.StackSummary.extract(iter(own)).format()
        return "".join(where + traceback.format_exception_only(self)).splitlines()


class InputError(AdjudgeError, ValueError):
    """The votes, the file or the column cannot be used as given."""


class OptionError(AdjudgeError, ValueError):
    """An option has a value (or a name) that is not accepted."""


class NotConverged(OneLine, UserWarning):
    """A fit used up its iterations before its stopping rule was met."""


class MissingLabels(OneLine, UserWarning):
    """Votes without a label were dropped as abstentions."""


class SuspiciousVotes(OneLine, UserWarning):
    """Votes look misread; the message names the remedy."""


class UnknownWorkers(OneLine, UserWarning):
    """Some of the workers that an option names have no votes."""


class CopiedVotes(OneLine, UserWarning):
    """Some workers give the same wrong answers far more often than chance: their votes are not independent."""


class DamagedCheckpoint(OneLine, UserWarning):
    """A fit could not be resumed and starts again, because the files of the earlier run are damaged."""


class NotCompiled(OneLine, UserWarning):
    """The compiled core is missing; the reference kernels do its work, more slowly."""


def itemize(values: Iterable[object], limit: int = 12) -> str:
    """Return the values joined by commas, cut after `limit` with a count of the rest; each is text, shortened and visible.

    >>> itemize(range(4), limit=2)
    '0, 1, … (2 more)'
    """
    texts = [str(v) for v in values]
    head = ", ".join(_shorten(make_visible(text), 200) for text in texts[:limit])
    return head if len(texts) <= limit else f"{head}, … ({len(texts) - limit} more)"


def pluralize(number: int, noun: str) -> str:
    """Return a number of things.

    >>> pluralize(1, "task"), pluralize(3, "task")
    ('1 task', '3 tasks')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def quote(value: object, limit: int = 60) -> str:
    """Return `repr(value)`, shortened so that an error stays one line.

    >>> quote("x" * 100, limit=5)
    "'xxxx…"
    """
    return _shorten(make_visible(re.sub(r"\s*\n\s*", " ", repr(value))), limit)  # a table's repr has many lines


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"


def choice_error(what: str, name: object, accepted: Iterable[str], limit: int = 12) -> OptionError:
    """Return the error for a name that is not among the accepted ones, with the nearest of them, and up to `limit` of all.

    >>> str(choice_error("model", "fsd", ["ds", "fds", "mv"]))
    "unknown model 'fsd': did you mean 'fds'? (accepted: ds, fds, mv)"
    """
    from difflib import get_close_matches

    choices = list(accepted)
    near = get_close_matches(str(name), choices, n=1, cutoff=0.5)
    listed = itemize(choices, limit)
    hint = f"did you mean {near[0]!r}? (accepted: {listed})" if near else f"accepted: {listed}"
    return OptionError(f"unknown {what} {quote(name)}: {hint}")


def label_error(label: object, labels: Iterable[object], where: str = "") -> InputError:
    """Return the error for a label that was not declared; `where` says of which vote it is.

    >>> str(label_error("fish", ["cat", "dog"], " in row 7"))
    "label 'fish' in row 7 is not among the declared labels: cat, dog"
    """
    return InputError(f"label {quote(label)}{where} is not among the declared labels: {itemize(labels)}")


def read_error(what: object, error: Exception) -> InputError:
    """Return the error for a file that the system, or a library, cannot read.

    >>> str(read_error("votes.csv", PermissionError(13, "Permission denied")))
    'cannot read votes.csv: Permission denied'
    """
    return InputError(f"cannot read {what}: {getattr(error, 'strerror', None) or error}")


def write_error(what: object, error: Exception) -> AdjudgeError:
    """Return the error for a file that the system, or a library, cannot write."""
    return AdjudgeError(f"cannot write {what}: {getattr(error, 'strerror', None) or error}")


def one_line(error: BaseException, limit: int = 300) -> str:
    """Return the message of a library's error in one line."""
    return " ".join(str(error).split())[:limit]


def list_values(name: str, value: Any, like: str) -> list[Any]:
    """Return the values of an option as a list; what has none is an error."""
    try:
        return list(value)
    except TypeError:
        raise OptionError(f"{name} is {quote(value)}: give a list, like {like}") from None


def describe_json_error(error: ValueError | RecursionError) -> str:
    """Return what is wrong with a document that `json` cannot read."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else one_line(error)


def warn(message: object, category: type[Warning]) -> None:
    """Warn at the line that called adjudge, however deep inside the reason was found."""
    frame: FrameType | None = sys._getframe(1)
    outermost = frame
    while frame is not None and package_of(frame) == PACKAGE_NAME:
        outermost, frame = frame, frame.f_back
    at = frame or outermost
    assert at is not None
    warnings.warn_explicit(
        category(message),
        category,
        at.f_code.co_filename,
        at.f_lineno,
        module=at.f_globals.get("__name__") or "<string>",  # None would suppress the warning
        registry=at.f_globals.setdefault("__warningregistry__", {}),
    )


def refuse_windows(what: str) -> None:
    """Raise on Windows, which lacks the file locks and directory handles that this feature needs."""
    if IS_WINDOWS:
        raise AdjudgeError(f"{what} is not supported on Windows: use Linux, macOS or WSL")


def package_of(frame: FrameType) -> str:
    """Return the package whose code a frame runs; generated methods know their module, not their file."""
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def warn_abstentions(missing: int, votes: int, *, weighted: bool = False) -> None:
    """Warn that some of the votes have no label (or no weight, if votes are `weighted`), if some have none."""
    if missing:
        what = "no label, or the weight 0" if weighted else "no label"
        warn(f"{missing} of {votes} votes have {what}: dropped as abstentions", MissingLabels)
