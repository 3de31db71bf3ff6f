"""The pages for operators name the metrics, options and limits that the service has."""

import re
from pathlib import Path

import typer

from adjudge.cli.main import app_of
from adjudge.service.http import limits, metrics

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "operations.md").read_text()
DEPLOYING = (ROOT / "docs" / "deploying.md").read_text()
OF_OTHER_PROGRAMS = re.compile(
    r"(?:^|(?<=[`(]))(?:docker|useradd|install|runuser|systemctl|systemd-analyze|curl|apt-get) [^`\n]*", re.MULTILINE
)


def test_every_metric_of_the_page_is_there_and_every_metric_is_on_the_page():
    source = Path(metrics.__file__).read_text()
    there = {row[1] for row in metrics.CAMPAIGN} | set(
        re.findall(r"page\.(?:metric|histogram|gauge|counts)\(\s*\"(\w+)\"", source)
    )
    named = {name.removesuffix("_bucket") for name in re.findall(r"\badjudge_([a-z_]+)\b", PAGE)} - {"a", "b"}
    assert named == there


def test_every_option_of_the_page_is_there():
    def options_of(names):
        commands = typer.main.get_command(app_of(names)).commands
        every = (*commands.values(), *getattr(commands.get("token"), "commands", {}).values())
        return {option for command in every for parameter in command.params for option in parameter.opts}

    known = options_of(["serve", "token", "backup", "doctor", "replay", "vote", "watch"])
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE))
    assert used - known - options_of(["simulate", "aggregate"]) == set()
    others = re.findall(r"(?<![\w-])--[a-z][a-z-]*", OF_OTHER_PROGRAMS.sub("", DEPLOYING))
    assert set(others) - known == set()


def test_every_file_of_deploy_is_on_its_page():
    files = {path.name for path in (ROOT / "deploy").iterdir()} - {".env", "Dockerfile.dockerignore"}
    assert [name for name in sorted(files) if f"`{name}`" not in DEPLOYING] == []


def test_the_limits_of_the_page_are_those_of_the_service():
    table = PAGE.partition("## Limits\n")[2].partition("\n## ")[0].replace(",", "")
    named = {
        "MAX_HEADER_BYTES": "32000 bytes",
        "MAX_HEADER_LINES": "100 lines",
        "HEADER_SECONDS": "10 s however",
        "KEEP_ALIVE_SECONDS": "75 s",
        "MAX_BODY": "8 MB",
        "BODY_SECONDS": "30 s |",
        "MIN_SENT_BYTES": "16 kB",
        "SEND_SECONDS": "every 30 s",
        "SEND_WHILE_RECEIVING_SECONDS": "every 300 s",
        "MAX_PIPELINED": "| 16 |",
        "MAX_UNDER_WAY": "| 2000 |",
        "MAX_CONNECTIONS": "| 10000 |",
        "MAX_CONNECTIONS_PER_PEER": "| 4000 |",
        "MAX_STREAMS_PER_TOKEN_AND_CAMPAIGN": "| 100; 1000; 2000 |",
        "MAX_STREAMS_PER_TOKEN": "; 1000;",
        "MAX_STREAMS": "; 2000 |",
        "MAX_LINE_BYTES": "64000 bytes",
        "STREAM_IDLE_SECONDS": "| 300 s |",
        "MAX_UNREAD_BYTES": "| 16 MB; 256 MB |",
        "MAX_UNREAD_BYTES_IN_ALL": "; 256 MB",
        "UNREAD_SECONDS": "after 5 s",
    }
    private = {"LINGER_SECONDS", "MAX_LINGER_BYTES"}  # how a refused connection ends
    assert {name for name in vars(limits) if re.fullmatch(r"(MAX|MIN)_\w+|\w+_SECONDS", name)} == set(named) | private
    for name, text in named.items():
        assert text in table, name
        value, unit = re.search(r"(\d+)( [kM]B)?", text).groups()
        assert getattr(limits, name) == int(value) * {None: 1, " kB": 1000, " MB": 1_000_000}[unit], name
