"""The commands, as people run them."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

import adjudge as adj


def test_labels_go_to_stdout_as_csv_and_talk_to_stderr(adjudge, votes_csv):
    code, out, err = adjudge("aggregate", votes_csv)
    assert code == 0
    assert pl.read_csv(out.encode()).equals(adj.aggregate(votes_csv).labels)
    assert "iterations" in err


def test_quiet_is_quiet(adjudge, votes_csv, tmp_path):
    assert adjudge("aggregate", votes_csv, "--quiet", "-o", tmp_path / "l.csv") == (0, "", "")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_files_are_written_in_the_format_of_their_suffix(adjudge, votes_csv, tmp_path, suffix):
    names = {name: tmp_path / f"{name}.{suffix}" for name in ("labels", "workers", "probs")}
    code, out, _ = adjudge(
        "aggregate", votes_csv, "--model", "ds", "-o", names["labels"], "--workers", names["workers"], "--probabilities", names["probs"]
    )  # fmt: skip
    assert (code, out) == (0, "")
    read = {
        "csv": pl.read_csv,
        "tsv": lambda p: pl.read_csv(p, separator="\t"),
        "jsonl": pl.read_ndjson,
        "json": pl.read_json,
        "parquet": pl.read_parquet,
    }[suffix]
    result = adj.aggregate(votes_csv, model="ds")
    assert read(names["labels"])["label"].to_list() == result.labels["label"].to_list()
    assert read(names["workers"])["accuracy"].to_list() == pytest.approx(result.workers["accuracy"].to_list())
    assert read(names["probs"]).columns == result.probabilities.columns
    left = {p.name for p in tmp_path.iterdir()} - {p.name for p in names.values()}
    assert left == {"votes.csv", "truth.csv"}, "nothing else is left behind"


def test_options_reach_the_library(adjudge, votes_csv):
    _, out, _ = adjudge(
        "aggregate", votes_csv, "--json", "--model", "hybrid", "--seed", 3, "--smoothing", 0.1, "--tol", 1e-6, "--max-iter", 50,
        "--switch", 0.01, "--labels", "l2,l1,l0", "--truth", votes_csv.with_name("truth.csv"), "--threads", 1, "--engine", "reference",
    )  # fmt: skip
    document = json.loads(out)
    result = adj.aggregate(
        votes_csv, model=adj.Hybrid(smoothing=0.1, tol=1e-6, max_iter=50, switch=0.01), seed=3, labels=["l2", "l1", "l0"]
    )
    assert list(document["priors"]) == ["l2", "l1", "l0"]
    assert document["iterations"] == result.iterations
    assert document["log_likelihood"] == pytest.approx(result.log_likelihood)
    for got, wanted in zip(document["result"], result.labels.to_dicts(), strict=True):
        assert got == wanted | {"confidence": pytest.approx(wanted["confidence"])}  # soft sums differ in their last bits
    assert document["evaluation"]["accuracy"] == adj.evaluate(result, votes_csv.with_name("truth.csv")).accuracy


def test_a_fit_can_be_accelerated(adjudge, votes_csv):
    _, out, _ = adjudge("aggregate", votes_csv, "--json", "--model", "ds", "--accelerate", "--tol", 1e-6, "--max-iter", 500)
    result = adj.aggregate(votes_csv, model=adj.DawidSkene(tol=1e-6, max_iter=500, accelerate=True))
    assert "extrapolated" in result.trace["phase"].to_list()
    assert json.loads(out)["iterations"] == result.iterations
    assert json.loads(out)["log_likelihood"] == pytest.approx(result.log_likelihood)
    code, _, err = adjudge("aggregate", votes_csv, "--model", "fds", "--accelerate")
    assert (code, err.count("\n")) == (1, 1)
    assert "fds has no accelerate: all of its passes are hard" in err


def test_columns_can_be_named(adjudge, tmp_path):
    (tmp_path / "v.csv").write_text("a,b,c\nt,w,x\n")
    code, out, _ = adjudge("aggregate", tmp_path / "v.csv", "--task", "a", "--worker", "b", "--label", "c", "--model", "mv")
    assert (code, out.splitlines()[1]) == (0, "t,x,1.0,1,false")


def test_many_files_are_one_source(adjudge, votes_csv, tmp_path):
    frame = pl.read_csv(votes_csv)
    for n, part in enumerate(frame.iter_slices(50)):
        part.write_csv(tmp_path / f"part-{n}.csv")
    parts = sorted(tmp_path.glob("part-*.csv"))
    whole = adjudge("aggregate", votes_csv, "--quiet")[1]
    assert adjudge("aggregate", *parts, "--quiet")[1] == whole
    assert adjudge("aggregate", tmp_path / "part-*.csv", "--quiet")[1] == whole


def test_warnings_are_one_line(adjudge, votes_csv):
    code, _, err = adjudge("aggregate", votes_csv, "--model", "ds", "--max-iter", 1, "--quiet")
    assert code == 0
    assert err.startswith("adjudge: warning: ds did not converge in 1 iterations")
    assert err.count("\n") == 1


def test_evaluate(adjudge, votes_csv, tmp_path):
    adjudge("aggregate", votes_csv, "-o", tmp_path / "l.csv")
    truth = votes_csv.with_name("truth.csv")
    expected = adj.evaluate(tmp_path / "l.csv", truth)
    code, out, _ = adjudge("evaluate", tmp_path / "l.csv", "--truth", truth)
    assert code == 0
    assert f"accuracy {expected.accuracy:.4f}" in out
    assert "left out" not in out, "nothing is"
    known = pl.read_csv(truth).head(10)
    known.write_csv(tmp_path / "known.csv")
    some = adjudge("evaluate", tmp_path / "l.csv", "--truth", tmp_path / "known.csv")[1]
    assert re.search(r"left out: \d+ labels without truth\n", some)
    assert json.loads(adjudge("evaluate", tmp_path / "l.csv", "--truth", truth, "--json")[1]) == expected.summary()
    assert float(adjudge("evaluate", tmp_path / "l.csv", "--truth", truth, "--quiet")[1]) == expected.accuracy


def test_demo_shows_every_model_and_three_workers(adjudge, tmp_path):
    code, out, _ = adjudge("demo", "--keep", tmp_path / "demo")
    assert code == 0
    for word in ("mv", "ds", "fds", "hybrid", "expert", "spammer", "mixes-up", "true \\ said"):
        assert word in out
    assert adjudge("aggregate", tmp_path / "demo" / "votes.csv", "--quiet")[0] == 0
    assert adjudge("demo")[0] == 0


def test_version_help_and_usage(adjudge):
    assert adjudge("--version")[1].strip() == adj.__version__
    assert "aggregate" in adjudge("--help")[1]
    assert adjudge("aggregate")[0] == 2
    assert adjudge("nonsense")[0] == 2


def terminal(command, cwd):
    """Runs a command on a terminal of its own; returns what it shows."""
    import pty

    parent, child = pty.openpty()
    process = subprocess.Popen(command, stdout=child, stderr=child, stdin=subprocess.DEVNULL, cwd=cwd)
    os.close(child)
    shown = b""
    while True:
        try:
            block = os.read(parent, 4096)
        except OSError:
            break
        if not block:
            break
        shown += block
    process.wait(timeout=60)
    os.close(parent)
    return process.returncode, shown.decode()


def test_on_a_terminal_a_preview_is_shown(votes_csv):
    command = [sys.executable, "-c", "from adjudge.cli.main import main; main()", "aggregate", str(votes_csv)]
    code, shown = terminal(command, votes_csv.parent)
    assert code == 0
    assert "and 20 more: write them all with -o labels.csv" in shown


def test_ctrl_c_leaves_nothing_half_written(votes_csv, tmp_path):
    """An interrupt while writing keeps the old file and leaves no other."""
    target = tmp_path / "labels.csv"
    target.write_text("old")
    slow = (
        "import sys, time, polars as pl\n"
        "real = pl.DataFrame.write_csv\n"
        "def write(self, path, **kw):\n"
        "    real(self, path, **kw); print('writing', flush=True); time.sleep(30)\n"
        "pl.DataFrame.write_csv = write\n"
        "from adjudge.cli.main import main; main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", slow, "aggregate", str(votes_csv), "-o", str(target)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"writing\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert target.read_text() == "old"
    assert {p.name for p in tmp_path.iterdir()} == {"votes.csv", "truth.csv", "labels.csv"}


def test_a_reader_that_leaves_ends_the_command_without_a_word(votes_csv):
    main = "import sys; from adjudge.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", main, "aggregate", str(votes_csv), "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 1


@pytest.mark.parametrize("engine", ["auto", "cpu", "reference", "disk"])
def test_one_command_chooses_its_engine_once(monkeypatch, votes_csv, tmp_path, engine):
    from adjudge.engines import registry

    calls = []

    def counted(name, real):
        return lambda *given, **options: calls.append(name) or real(*given, **options)

    for name in ("_load", "in_memory", "free_memory"):
        monkeypatch.setattr(registry, name, counted(name, getattr(registry, name)))
    monkeypatch.setattr(
        sys, "argv", ["adjudge", "aggregate", str(votes_csv), "-o", str(tmp_path / "o.csv"), "--engine", engine, "--quiet"]
    )
    from adjudge.cli.main import main

    main()
    assert sorted(calls) == (["_load", "free_memory", "in_memory"] if engine == "auto" else ["_load"])
