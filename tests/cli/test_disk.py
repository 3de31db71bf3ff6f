"""`adjudge encode`, and the other commands on its folder."""

import io
import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import polars.selectors as cs
import pytest

import adjudge as adj


def test_encode_and_aggregate(adjudge, votes_csv, tmp_path):
    code, out, err = adjudge("encode", votes_csv, "-o", tmp_path / "votes")
    assert (code, out) == (0, "")
    assert "120 votes on 40 tasks by 6 workers are in" in err
    assert adjudge("encode", votes_csv, "-o", tmp_path / "votes", "--quiet", "--memory", "1GB", "--resume") == (0, "", "")
    code, out, _ = adjudge("aggregate", tmp_path / "votes", "-o", tmp_path / "labels.csv", "--quiet")
    assert (code, out) == (0, "")
    here = pl.read_csv(tmp_path / "labels.csv").sort("task")
    assert here.drop("confidence").equals(adj.aggregate(votes_csv).labels.sort("task").drop("confidence"))


def test_encode_says_in_one_line_what_is_wrong(adjudge, votes_csv, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    for arguments, words in {
        (votes_csv, "-o", tmp_path / "a", "--memory", "1MB"): "memory is '1MB': give at least 286.1 MiB",
        (votes_csv, "-o", tmp_path / "a", "--labels", "l0,,l1"): "joined by commas, none of them empty",
        (votes_csv, "-o", tmp_path / "a", "--labels", "l0"): "is not among the declared labels: l0",
        (votes_csv, "-o", tmp_path / "full"): "exists and holds no encoded votes",
        (tmp_path / "none.csv", "-o", tmp_path / "a"): "cannot read",
        (tmp_path / "full", "-o", tmp_path / "a"): "is a folder that is no known export",
    }.items():
        code, out, err = adjudge("encode", *arguments)
        assert (code, out) == (1, "")
        assert err.count("\n") == 1
        assert words in err


@pytest.mark.parametrize(("suffix", "model"), [("csv", "fds"), ("parquet", "fds"), ("jsonl", "fds"), ("csv", "glad")])
def test_aggregate_on_disk_writes_what_memory_does(adjudge, votes_csv, tmp_path, suffix, model):
    outputs = {}
    for engine in ("cpu", "disk"):
        paths = {name: tmp_path / f"{engine}-{name}.{suffix}" for name in ("labels", "workers", "probabilities")}
        code, out, err = adjudge(
            "aggregate", votes_csv, "--engine", engine, *(["--memory", "1GB"] if engine == "disk" else []), "-o", paths["labels"],
            "--workers", paths["workers"], "--probabilities", paths["probabilities"], "--truth", tmp_path / "truth.csv", "--gold",
            tmp_path / "truth.csv", "--save", tmp_path / f"{engine}.model", "--model", model,
        )  # fmt: skip
        assert (code, out) == (0, "")
        outputs[engine] = [_read(path) for path in paths.values()], err
    for here, in_memory in zip(outputs["disk"][0], outputs["cpu"][0], strict=True):
        there = in_memory.select(here.columns)  # verdicts on workers look at all votes together: in memory alone
        assert here.drop(cs.float()).equals(there.drop(cs.float()))
        assert np.allclose(here.select(cs.float()), there.select(cs.float()))
    figures = {
        engine: re.split("\n(?:least certain|workers to|try next)|$", err)[0].strip() for engine, (_, err) in outputs.items()
    }
    assert figures["disk"] == figures["cpu"], "the same summary, but for verdicts, and the order of tasks"
    assert "label  given  chosen\n" in figures["disk"]
    if model == "fds":  # whose counts are integers
        assert (tmp_path / "cpu.model").read_bytes() == (tmp_path / "disk.model").read_bytes()
    assert not list(tmp_path.glob(".*"))


def _read(path):
    read = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".jsonl": pl.read_ndjson}[path.suffix]
    frame = read(path)
    return frame.sort(frame.columns[0])


def test_labels_go_to_stdout(adjudge, votes_csv):
    code, out, _ = adjudge("aggregate", votes_csv, "--engine", "disk", "--quiet")
    assert code == 0
    assert sorted(out.splitlines()) == sorted(adjudge("aggregate", votes_csv, "--quiet")[1].splitlines())
    code, out, _ = adjudge("aggregate", votes_csv, "--engine", "disk", "--json")
    assert (code, json.loads(out)["tasks"]) == (0, 40)


def test_a_disk_run_says_in_one_line_what_is_wrong(adjudge, votes_csv, tmp_path):
    out = tmp_path / "labels.csv"
    for arguments, words in {
        ("--engine", "cpu", "--resume"): "--resume is for --engine disk",
        ("--engine", "disk", "--resume"): "--resume needs a run that writes to a file",
        ("--engine", "cpu", "--memory", "2GB"): "memory is for engine='disk'",
        ("--engine", "disk", "--memory", "2 herds"): "give a size like '2GB'",
        ("--engine", "disk", "--labels", "l0", "-o", out): "is not among the declared labels",
    }.items():
        code, _, err = adjudge("aggregate", votes_csv, *arguments)
        assert code == 1
        assert err.count("\n") == 1
        assert words in err
    assert not list(tmp_path.glob(".*"))
    (tmp_path / "votes").mkdir()
    (tmp_path / "votes" / "manifest.json").write_text("{}")
    assert "holds no encoded votes" in adjudge("aggregate", tmp_path / "votes")[2]


KILLED = """
import os, signal, sys
from adjudge.cli import console, main
from contextlib import contextmanager
what = sys.argv.pop()
@contextmanager
def passes(_):
    def report(name, done, total):
        if name.startswith(what):
            os.kill(os.getpid(), SIGNAL)
    yield report
console.passes = passes
main.main()
"""


@pytest.mark.parametrize(
    ("model", "what", "how"),
    [
        *(("fds", what, how) for what in ("reading", "pass 2", "last pass", "probabilities") for how in (signal.SIGKILL, signal.SIGINT)),
        ("glad", "M-step 3, slope 2", signal.SIGINT),
        ("glad", "probabilities", signal.SIGKILL),
    ],
)  # fmt: skip
def test_broken_off_and_resumed(adjudge, tmp_path, model, what, how):
    crowd = adj.simulate(tasks=400, workers=12, votes_per_task=3, adversaries=0.2, seed=3)
    crowd.votes.write_parquet(tmp_path / "v.parquet")
    outputs = (
        "-o",
        tmp_path / "labels.csv",
        "--probabilities",
        tmp_path / "p.parquet",
        "--tol",
        "0",
        "--max-iter",
        "5",
        "--quiet",
        "--model",
        model,
    )
    command = ["aggregate", tmp_path / "v.parquet", "--engine", "disk", *outputs]
    code = KILLED.replace("SIGNAL", str(int(how)))
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, command), what], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode != 0
    assert not (tmp_path / "labels.csv").exists()
    assert (tmp_path / ".labels.csv.work").is_dir()
    code, _, err = adjudge(*command, "--resume")
    assert code == 0, err
    assert not (tmp_path / ".labels.csv.work").exists()
    resumed = (tmp_path / "labels.csv").read_bytes(), (tmp_path / "p.parquet").read_bytes()
    assert adjudge(*command)[0] == 0
    assert resumed == ((tmp_path / "labels.csv").read_bytes(), (tmp_path / "p.parquet").read_bytes())


def test_progress_is_shown_on_a_terminal():
    from rich.console import Console

    from adjudge.cli import console

    screen = Console(file=io.StringIO(), force_terminal=True, width=120)
    with console.passes(screen) as report:
        for done in range(200):
            report("pass 1 (hard)", done * 10_000, 2_000_000)
            if "votes/s" in screen.file.getvalue():
                break
            time.sleep(0.05)  # until the screen is drawn again
        report("pass 2 (hard)", 1, 0)
    shown = screen.file.getvalue()
    assert "pass 1 (hard)" in shown
    assert "votes/s" in shown
    assert "pass 2 (hard)" in shown
