"""The reference of the command line, as Markdown, from the program itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from adjudge.cli.main import COMMANDS, app_of
from adjudge.cli.options import HELP_PANELS


def reference() -> str:
    """Return a section for every command: what it does, how it is called, its options in their groups, examples."""
    root: Any = typer.main.get_command(app_of(COMMANDS))
    context = root.make_context("adjudge", [], resilient_parsing=True)
    lines = ["| command | what it does |", "|---|---|"]
    commands = {name: root.commands[name] for name in root.list_commands(context)}
    lines += [f"| [`{name}`](#adjudge-{name}) | {_text(_first(command))} |" for name, command in commands.items()]
    for name, command in commands.items():
        lines += ["", *_section(f"adjudge {name}", command, context, level=2)]
    return "\n".join(lines) + "\n"


def _section(title: str, command: Any, parent: Any, level: int) -> Iterator[str]:
    context = command.context_class(command, info_name=title.rpartition(" ")[2], parent=parent)
    yield f"{'#' * level} {title}"
    yield ""
    yield from (_text(line) for line in (command.help or "").strip().splitlines())
    yield ""
    yield from ("```bash", " ".join([title, *command.collect_usage_pieces(context)]), "```", "")
    for group, parameters in _groups(command, context).items():
        yield from (f"**{group}**", "", "| | |", "|---|---|")
        yield from (f"| {_code(option)} | {_text(what)} |" for option, what in parameters)
        yield ""
    if command.epilog:
        yield from ("**Examples**", "", "```bash", *_examples(command.epilog), "```", "")
    for name, below in getattr(command, "commands", {}).items():
        yield from _section(f"{title} {name}", below, context, level + 1)


def _groups(command: Any, context: Any) -> dict[str, list[tuple[str, str]]]:
    """Return what `--help` shows of every parameter, by group, in the order of `--help`."""
    groups: dict[str, list[tuple[str, str]]] = {name: [] for name in HELP_PANELS}
    for parameter in command.get_params(context):
        shown = parameter.get_help_record(context)
        if shown is not None:
            own = "Arguments" if parameter.param_type_name == "argument" else "Options"
            groups.setdefault(getattr(parameter, "rich_help_panel", None) or own, []).append(shown)
    return {name: parameters for name, parameters in groups.items() if parameters}


def _examples(epilog: str) -> Iterator[str]:
    """Return examples as a shell would take them: what each does is a comment."""
    for line in epilog.splitlines():
        yield line.strip() if line.startswith("  ") else f"# {line.rstrip(':')}"


def _first(command: Any) -> str:
    return (command.help or "").strip().splitlines()[0]


def _code(option: str) -> str:
    return "`" + re.sub(r"\s+", " ", option).replace("|", "\\|") + "`"


def _text(help_text: str) -> str:
    """Return plain text as Markdown that shows it as it is; what stands in backticks stays code."""
    parts = re.split(r"(`[^`]*`)", re.sub(r"\s+", " ", help_text).strip())
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_\[\]<>|#])", r"\\\1", part) for part in parts)
