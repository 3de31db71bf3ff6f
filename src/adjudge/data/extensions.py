"""Models, formats and engines of other packages, found by their entry points."""

from __future__ import annotations

from collections.abc import Container
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from adjudge.errors import OptionError, itemize

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind = Literal["models", "formats", "engines"]
GROUPS: Final[dict[Kind, str]] = {"models": "adjudge.models", "formats": "adjudge.formats", "engines": "adjudge.engines"}


@cache
def _entry_points(kind: Kind) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points of a group by name. The search takes longer than reading a small table, so it comes last."""
    from importlib.metadata import entry_points

    points: dict[str, dict[str, EntryPoint]] = {}
    for point in entry_points(group=GROUPS[kind]):
        points.setdefault(point.name, {})[_origin(point)] = point  # once, even if a folder is on the path twice
    return {name: tuple(claims.values()) for name, claims in points.items()}


def extension_names(kind: Kind, built_in: Container[str]) -> list[str]:
    """Return the names that other packages add; a name of our own always means ours."""
    return [name for name in _entry_points(kind) if name not in built_in]


@cache
def load_extension(kind: Kind, name: str) -> Any:
    """Return what the entry point of this name refers to.

    A name that two packages claim, or an entry point that cannot be imported, is an error that names the packages.
    """
    points = _entry_points(kind)[name]
    what = f"{kind.removesuffix('s')} {name!r}"
    if len(points) > 1:
        raise OptionError(f"{what} is defined by several packages, {itemize(map(_origin, points))}: uninstall all but one")
    try:
        return points[0].load()
    except Exception as error:
        raise OptionError(f"{what} of {_origin(points[0])} cannot be loaded: {type(error).__name__}: {error}") from error


def _origin(point: EntryPoint) -> str:
    """Return the package of an entry point and where it points, for messages."""
    package = "an unnamed package" if point.dist is None else point.dist.name
    return f"{package} ({point.value})"
