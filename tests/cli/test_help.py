"""`--help` of every command: groups, examples that run, summaries in full; and completion in a shell."""

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import polars as pl
import pytest

import adjudge as adj
from adjudge.cli.main import COMMANDS, PANELS
from adjudge.cli.options import HELP_PANELS, MOST_USED
from adjudge.data.options import ModelName
from adjudge.evaluation.ranking.simulate import simulate_comparisons
from live_store import small, stored
from spark_there import missing

ELSEWHERE = (
    "stream",
    "serve",
    "vote",
    "watch",
    "push",
)  # commands that run until they are stopped, or need one: tested by themselves
READS_VOTES = (
    "aggregate",
    "predict",
    "encode",
    "agreement",
    "bias",
    "check",
    "compare",
    "panel",
    "rates",
    "scores",
    "explain",
    "draw-gold",
    "certify",
    "ask-next",
    "report",
    "stream",
)
GROUPS = ("datasets", "token")  # commands with commands of their own
SCREEN_LINES = 24
MODULES = {name: import_module(f"adjudge.cli.{module}") for commands in PANELS.values() for name, module in commands.items()}
EXAMPLES = {name: getattr(getattr(module, name.replace("-", "_")), "examples", ()) for name, module in MODULES.items()}


@pytest.fixture(autouse=True)
def width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("name", [*COMMANDS, "datasets get", "token add", "token list", "token revoke"])
def test_help_has_a_short_name_and_fits(adjudge, name):
    short, long = adjudge(*name.split(), "-h"), adjudge(*name.split(), "--help")
    assert short == long
    assert short[0] == 0
    assert f"Usage: adjudge {name}" in short[1]
    assert max(map(len, short[1].splitlines())) <= 80


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"], ["datasets"]])
def test_every_command_is_summed_up_in_full(adjudge, arguments):
    code, out, err = adjudge(*arguments)
    assert (code, err) == (0, ""), "help was requested"
    assert max(map(len, out.splitlines())) <= 80
    sections = dict(re.findall(r"^(\S.*):\n((?:  .*\n)+)", out.split("Options:\n")[1], re.MULTILINE))
    listed = {panel: [line.split()[0] for line in lines.splitlines()] for panel, lines in sections.items()}
    assert all(line.endswith(".") and not line.endswith("...") for line in "".join(sections.values()).splitlines()), (
        "nothing is cut"
    )
    expected = (
        {"Commands": ["list", "get"]} if arguments == ["datasets"] else {panel: [*names] for panel, names in PANELS.items()}
    )
    assert listed == expected


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_two_screens_and_help_all_has_the_rest(adjudge, name):
    (_, short, _), (code, long, err) = adjudge(name, "-h"), adjudge(name, "--help-all") if name not in GROUPS else (0, "", "")
    assert (code, err) == (0, "")
    assert len(short.splitlines()) <= 2 * SCREEN_LINES
    if name in MOST_USED:
        assert len(re.findall("^  -", _sections(short)["Most used"], re.MULTILINE)) == len(MOST_USED[name]) == 5
        flags = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", long, re.MULTILINE)
        assert {*flags} <= {*re.findall(r"--[a-z-]+", short)}, "options that the short help does not explain are listed"
    elif name not in GROUPS:
        assert short == long


def _sections(out):
    return dict(re.findall(r"^(\S.*):\n((?:  .*\n|\n(?=  ))+)", out, re.MULTILINE))


def test_options_of_aggregate_are_in_groups(adjudge):
    sections = _sections(adjudge("aggregate", "--help-all")[1])
    assert list(sections) == [*HELP_PANELS, "Options", "Examples"]
    homes = {"Input": "--task", "Model": "-m, --model", "What you know": "--gold", "Output": "-o, --output", "Engine": "--engine"}
    for group, option in homes.items():
        assert re.search(rf"^  {option} ", sections[group], re.MULTILINE), option
    assert re.findall(r"--\S+", sections["Options"]) == ["--help-all", "--help"], "the rest are in groups"


def test_commands_that_read_votes_show_examples(adjudge):
    for name in READS_VOTES:
        shown = adjudge(name, "--help-all")[1].split("\nExamples:\n")[1]
        assert EXAMPLES[name]
        assert all(f"    {command}\n" in shown for _, command in EXAMPLES[name])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with every file that an example names."""
    monkeypatch.chdir(tmp_path)
    crowd = adj.simulate(tasks=60, workers=8, labels=2, label_names=["yes", "no"], seed=3)
    crowd.votes.write_csv("votes.csv")
    crowd.votes.write_csv("new.csv")
    crowd.truth.write_csv("truth.csv")
    labelled = adj.aggregate("votes.csv")
    drawn = labelled.draw_gold(50, seed=1)
    drawn.write("gold.csv")  # and answered: the labels are right, so that some can be certified
    drawn.frame.select("task").join(labelled.labels.select("task", "label"), on="task").write_csv("gold.csv")
    systems = crowd.truth.select("task", group=pl.int_range(pl.len()) % 2, prompt=pl.int_range(pl.len()) // 2)
    systems.with_columns(group=pl.format("v{}", pl.col("group") + 1)).write_csv("systems.csv")
    length = crowd.votes.with_columns(length=pl.col("task").str.slice(1).cast(pl.Int64) % 7)
    odd = pl.when(pl.int_range(pl.len()) % 9 == 0).then(pl.lit("NA")).otherwise("label")
    crowd.votes.select(item="task", judge="worker", score=odd).with_columns(length["length"]).write_csv("rows.csv")
    crowd.votes.pivot("worker", index="task", values="label", aggregate_function="first").write_csv("judges.csv")
    battles = simulate_comparisons(items=4, comparisons=60, length_effect=0.5, seed=1).comparisons
    battles.write_csv("battles.csv")
    battles.rename({"left": "home", "right": "away"}).write_csv("games.csv")
    scored = crowd.votes.select(
        "task", "worker", score=pl.int_range(pl.len()) % 7 + pl.col("task").str.slice(1).cast(pl.Int64) % 5
    )
    scored.write_csv("s.csv")
    scored.unique("task", maintain_order=True).head(9).select("task", "score").write_csv("g.csv")
    crowd.workers.select("worker", group=pl.int_range(pl.len()) // 2).write_csv("groups.csv")
    stored("votes.db", small())
    Path("policy.json").write_text('{"minimum_votes": 4}')
    for name in ("one", "two"):
        Path("sets", name).mkdir(parents=True)
        crowd.votes.write_csv(f"sets/{name}/votes.csv")
        crowd.truth.write_csv(f"sets/{name}/truth.csv")
    Path("in").mkdir()
    crowd.votes.write_csv("in/monday.csv")
    return tmp_path


@pytest.mark.parametrize("name", [name for name, examples in EXAMPLES.items() if examples and name not in ELSEWHERE])
def test_examples_run(adjudge, folder, name):
    for what, command in EXAMPLES[name]:
        program, *arguments = shlex.split(command)
        code, _, err = adjudge(*arguments)
        verdicts = (0, 3, 4) if name == "check" else (0,)
        assert program == "adjudge", command
        assert code in verdicts, f"{command}\n{err}"
        if "-o" in arguments:
            assert Path(arguments[arguments.index("-o") + 1]).exists()
        assert what.endswith(":")


def test_a_model_has_a_short_option(adjudge, folder):
    short = adjudge("aggregate", "votes.csv", "-m", "mv", "--quiet")
    assert short == adjudge("aggregate", "votes.csv", "--model", "mv", "--quiet")
    assert adjudge("agreement", "votes.csv", "-m", "mv", "--resamples", 0, "--quiet")[0] == 0


COMPLETE = """
eval "$(_ADJUDGE_COMPLETE=source_bash adjudge)"
complete -p adjudge
tried() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _adjudge_completion adjudge; echo "${COMPREPLY[*]}"; }
tried adjudge agg
tried adjudge aggregate --model ""
tried adjudge aggregate votes.csv -m o
tried adjudge aggregate --engine d
tried adjudge aggregate --confidence ""
tried adjudge agreement --scale o
tried adjudge aggregate --format docc
tried adjudge aggregate --warm
"""


def bash(script, folder):
    """Runs a script with the command `adjudge` of this environment; returns its lines."""
    (folder / "adjudge").write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "from adjudge.cli.main import main; main()" "$@"\n'
    )
    (folder / "adjudge").chmod(0o755)
    env = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}
    return subprocess.run(
        ["bash", "--norc", "-c", script], cwd=folder, env=env, capture_output=True, text=True, check=True, timeout=120
    ).stdout.splitlines()


@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_examples_of_streams_run(folder, monkeypatch):
    """In a process of their own: Spark's session is the process's."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    bash("set -e\n" + "\n".join(command for _, command in EXAMPLES["stream"]), folder)
    assert list(folder.glob("out.csv/**/*.csv"))


def test_bash_completes_commands_options_and_values(tmp_path):
    lines = bash(COMPLETE, tmp_path)
    assert lines[0] == "complete -o default -F _adjudge_completion adjudge"
    models = " ".join(ModelName.__args__)
    assert lines[1:] == [
        "aggregate",
        models,
        "one-coin ordinal",
        "disk",
        "honest posterior",
        "ordinal",
        "doccano",
        "--warm-start",
    ]


def test_the_script_for_bash_is_shown_and_installed(tmp_path):
    shown = bash("adjudge --show-completion; exit", tmp_path)
    assert shown[0] == "_adjudge_completion() {"
    assert shown[-1] == "complete -o default -F _adjudge_completion adjudge"
    assert "completion installed" in "".join(bash("adjudge --install-completion; exit", tmp_path))
    assert (tmp_path / ".bash_completions" / "adjudge.sh").read_text().strip().splitlines() == shown
