"""What the page on operations says of metrics and options is what the service has."""

import re
from pathlib import Path

import typer

from quorate.cli.main import app_of
from quorate.service import health

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "operations.md").read_text()


def test_every_metric_of_the_page_is_there_and_every_metric_is_on_the_page():
    source = Path(health.__file__).read_text()
    there = {row[1] for row in health.CAMPAIGN} | set(re.findall(r"page\.(?:metric|histogram)\(\s*\"(\w+)\"", source))
    named = {name.removesuffix("_bucket") for name in re.findall(r"\bquorate_([a-z_]+)\b", PAGE)} - {"a", "b"}
    assert named == there


def test_every_option_of_the_page_is_there():
    commands = typer.main.get_command(app_of(["serve", "token", "backup", "doctor", "replay"])).commands
    known = {"--rm", "--entrypoint", "--create-home", "--no-cache-dir"}  # of other programs
    for command in (*commands.values(), *getattr(commands["token"], "commands", {}).values()):
        known |= {option for parameter in command.params for option in parameter.opts}
    shown = "\n".join(line for line in PAGE.splitlines() if "quorate simulate" not in line)
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", shown))
    assert used - known == {"--quiet"} - known
