"""Commands whose plain arguments are taken as they are typed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup


class PlainCommand(TyperCommand):
    """A command that spares flags, text and paths the validation of typer, which loads a library as large as NumPy for it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, `--help` among them."""
        return [_plain(parameter) for parameter in super().get_params(ctx)]


class PlainGroup(TyperGroup):
    """The same for what stands before the name of a command."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, `--help` among them."""
        return [_plain(parameter) for parameter in super().get_params(ctx)]


def _plain(parameter: Any) -> Any:
    described = getattr(parameter, "type_descriptor", None)  # an older typer has none, and loads nothing
    if described is not None and "process_value" not in vars(parameter):
        parameter.process_value = _taken(parameter, described.annotation, parameter.process_value)
    return parameter


def _taken(parameter: Any, kind: object, checked: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return what turns what was typed for a parameter into its value: as it is where that is right, else by typer."""

    def value(context: Any, typed: Any) -> Any:
        found = typed
        if kind is Path and isinstance(typed, str):
            found = Path(typed)
        elif kind == list[str] and isinstance(typed, list | tuple) and typed and all(isinstance(one, str) for one in typed):
            found = list(typed)
        elif not (isinstance(typed, str) and kind is str) and (typed is not None or parameter.required):
            return checked(context, typed)
        return found if parameter.callback is None else parameter.callback(context, parameter, found)

    return value
