"""Commands: plain arguments taken as they are typed, options in groups, examples below, values that a shell can complete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from adjudge.data.options import ModelName

# The groups of options in `--help`, in the order in which they are shown. An option joins one by being made by it.
for_input: Final = partial(typer.Option, rich_help_panel="Input")
for_model: Final = partial(typer.Option, rich_help_panel="Model")
for_knowledge: Final = partial(typer.Option, rich_help_panel="What you know")
for_output: Final = partial(typer.Option, rich_help_panel="Output")
for_engine: Final = partial(typer.Option, rich_help_panel="Engine")
GROUPS: Final = (
    "Arguments",
    *(each.keywords["rich_help_panel"] for each in (for_input, for_model, for_knowledge, for_output, for_engine)),
)

ANY_MODEL: Final = f"{', '.join(get_args(ModelName))}."  # help of --model

Examples = Sequence[tuple[str, str]]  # what an example does, and the command


def one_of(choices: Any, *more: str) -> Callable[[str], list[str]]:
    """Return what completes a value in a shell: the choices of a literal type, and some more.

    >>> from adjudge.data.options import Ties
    >>> one_of(Ties, "random")("")
    ['hash', 'prior', 'random']
    """
    values = [*(value for value in get_args(choices) if isinstance(value, str)), *more]

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return complete


def given_in(context: Any, group: str) -> dict[str, tuple[str, ...]]:
    """Return the options of a group that were typed, as one would type them again, by the name of their parameter."""
    typed = [
        parameter
        for parameter in context.command.params
        if getattr(parameter, "rich_help_panel", None) == group
        and getattr(context.get_parameter_source(parameter.name), "name", "") == "COMMANDLINE"
    ]
    return {one.name: (one.opts[-1], *(() if one.is_flag else (str(context.params[one.name]),))) for one in typed}


class PlainCommand(TyperCommand):
    """A command that spares flags, text and paths the validation of typer, which loads a library as large as NumPy for it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, `--help` among them."""
        return [_plain(parameter) for parameter in super().get_params(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options group by group; those without a group come last, `--help` among them."""
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in GROUPS}
        for parameter in self.get_params(ctx):
            shown = parameter.get_help_record(ctx)
            if shown is not None:
                own = "Arguments" if parameter.param_type_name == "argument" else "Options"
                groups.setdefault(getattr(parameter, "rich_help_panel", None) or own, []).append(shown)
        widest = max(len(option) for options in groups.values() for option, _ in options)
        for name, options in groups.items():
            if options:
                with formatter.section(name):  # one column of explanations below another
                    formatter.write_dl([(option.ljust(widest), text) for option, text in options])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples as they are: a command that is wrapped cannot be copied."""
        if self.epilog:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in self.epilog.splitlines()))


def epilog(examples: Examples) -> str:
    """Return examples as the text at the foot of `--help`.

    >>> print(epilog([("Labels of all tasks:", "adjudge aggregate votes.csv -o labels.csv")]))
    Labels of all tasks:
      adjudge aggregate votes.csv -o labels.csv
    """
    return "\n".join(f"{what}\n  {command}" for what, command in examples)


class PlainGroup(TyperGroup):
    """The same for what stands before the name of a command; alone, it shows its help, as people then ask for it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the arguments for the command; without any, print the help to stdout and leave."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

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
