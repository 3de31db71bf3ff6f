"""`adjudge check`: exit codes, files, and the steps of action.yml, which run here as GitHub runs them."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml

import adjudge as adj

ACTION = yaml.safe_load((Path(__file__).parents[2] / "action.yml").read_text(encoding="utf-8"))


@pytest.fixture
def crowd(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawn = adj.simulate(tasks=200, workers=7, labels=2, label_names=["fail", "pass"], skill=0.9, seed=5)
    drawn.votes.write_csv("votes.csv")
    drawn.truth.write_csv("gold.csv")
    drawn.truth.head(30).write_csv("some.csv")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "code", "verdict"),
    [
        (["--require", "accuracy>=0.8", "--gold", "gold.csv"], 0, "holds"),
        (["--require", "accuracy<=0.5", "--gold", "gold.csv"], 3, "fails"),
        (["--require", "accuracy>=0.95", "--gold", "some.csv"], 4, "inconclusive"),
        (["--require", "accuracy>=0.8", "--require", "tasks>=1000", "--gold", "gold.csv"], 3, "fails"),
        (["--require", "accuracy>=0.8", "--require", "tasks>=100"], 4, "inconclusive"),
    ],
)
def test_exit_codes(run, crowd, arguments, code, verdict):
    done = run("check", "votes.csv", *arguments)
    assert (done.code, done.err) == (code, "")
    assert f"check: {verdict}" in done.out.splitlines()
    assert run("check", "votes.csv", *arguments, "--quiet") == (code, f"{verdict}\n", "")
    document = json.loads(run("check", "votes.csv", *arguments, "--json").out)
    assert (document["verdict"], document["exit_code"]) == (verdict, code)
    assert document["understood"]["votes"] == 1000


def test_files_say_what_to_label(run, crowd):
    Path("summary.md").write_text("before\n")
    arguments = ["--require", "accuracy>=0.95", "--gold", "some.csv", "--markdown", "summary.md", "--to-label", "label.csv"]
    done = run("check", "votes.csv", *arguments)
    assert done.code == 4
    assert Path("summary.md").read_text().startswith("before\n### adjudge check: inconclusive\n")
    checked = adj.check("votes.csv", "accuracy>=0.95", gold="some.csv")
    assert pl.read_csv("label.csv")["task"].to_list() == list(checked.to_label)
    assert not set(checked.to_label) & set(pl.read_csv("some.csv")["task"])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--require", "accurate>=1"], 1, "require is 'accurate>=1'"),
        (["--require", "accuracy>=0.9", "--gold", "none.csv"], 1, "none.csv"),
        (["--require", "rate(great)>=0.9"], 1, "the labels are fail, pass"),
        ([], 2, "--require"),
    ],
)
def test_bad_input_and_usage(run, crowd, arguments, code, message):
    done = run("check", "votes.csv", "--to-label", "label.csv", "--markdown", "summary.md", *arguments)
    assert done.code == code
    assert message in done.err
    assert not Path("label.csv").exists()
    assert not Path("summary.md").exists()


def run_action(folder, **inputs):
    """Run the steps of action.yml in bash; return the exit code of the last, its outputs and the summary."""
    values = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()} | inputs
    (folder / "bin").mkdir(exist_ok=True)
    command = folder / "bin" / "adjudge"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "from adjudge.cli.main import main; main()" "$@"\n')
    command.chmod(0o755)
    files = {"GITHUB_OUTPUT": folder / "output", "GITHUB_STEP_SUMMARY": folder / "summary.md"}
    env = os.environ | {name: str(path) for name, path in files.items()} | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    done = None
    for step in ACTION["runs"]["steps"]:
        assert (step["shell"], "${{" in step["run"]) == ("bash", False), "inputs are data"
        given = {name: values[text.removeprefix("${{ inputs.").removesuffix(" }}")] for name, text in step["env"].items()}
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(shell, cwd=folder, env=env | given, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            break
    read = {name: path.read_text() if path.exists() else "" for name, path in files.items()}
    return done.returncode, read["GITHUB_OUTPUT"], read["GITHUB_STEP_SUMMARY"]


def test_the_action_holds_and_posts_a_summary(crowd):
    two = "accuracy>=0.8\n  \nrate(pass)>=10%"
    code, output, summary = run_action(crowd, votes="votes.csv", require=two, gold="gold.csv", arguments="--seed\n1")
    assert (code, output) == (0, "verdict=holds\n")
    assert summary.startswith("### adjudge check: holds\n")
    assert summary.count("| holds |") == 2


@pytest.mark.slow
def test_the_action_passes_on_the_exit_code(crowd):
    evil = "accuracy>=0.99\n$(touch evil)"
    assert run_action(crowd, votes="votes.csv", require=evil)[0] == 1
    assert not Path("evil").exists()
    asked = {"votes": "votes.csv", "require": "accuracy>=0.95", "gold": "some.csv"}
    assert run_action(crowd, **asked)[:2] == (4, "verdict=inconclusive\n")
    assert run_action(crowd, **asked, **{"allow-inconclusive": "true"})[0] == 0
    alike = {"votes": "votes.csv", "require": "alpha", "baseline": "votes.csv", "no-worse": "0.3"}
    assert run_action(crowd, **alike)[0] == 0


def test_outputs_of_the_action_exist():
    (value,) = [one["value"] for one in ACTION["outputs"].values()]
    (step,) = [step for step in ACTION["runs"]["steps"] if step.get("id") == "check"]
    assert value == "${{ steps.check.outputs.verdict }}"
    assert "verdict=" in step["run"]
