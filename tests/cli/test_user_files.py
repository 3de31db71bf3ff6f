"""The files of the user: outputs never replace inputs or each other, links stay, pipes and devices are written into."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import polars as pl
import pytest

import adjudge as adj
from adjudge.io import write as writing

MAIN = "from adjudge.cli.main import main; main()"


def run(*arguments, shell=None, **options):
    if shell is not None:
        command = ["bash", "-c", shell.replace("adjudge", f"{sys.executable} -m adjudge")]
    else:
        command = [sys.executable, "-m", "adjudge", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)


@pytest.fixture
def here(votes_csv, tmp_path, monkeypatch):
    """A folder with votes, truth, a model, an encoded folder, and other ways to name the votes."""
    monkeypatch.chdir(tmp_path)
    adj.aggregate("votes.csv").save("model.adjudge")
    adj.encode("votes.csv", "encoded")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.csv").symlink_to("votes.csv")
    os.link("votes.csv", "hard.csv")
    (tmp_path / "folder").symlink_to(".")
    return tmp_path


OVER_INPUT = [
    ["aggregate", "votes.csv", "-o", "votes.csv"],
    ["aggregate", "votes.csv", "-o", "sub/../votes.csv"],
    ["aggregate", "votes.csv", "-o", "link.csv"],
    ["aggregate", "votes.csv", "-o", "hard.csv"],
    ["aggregate", "vot*.csv", "--workers", "folder/votes.csv"],
    ["aggregate", "hard.csv", "--probabilities", "link.csv"],
    ["aggregate", "votes.csv", "--save", "votes.csv"],
    ["aggregate", "votes.csv", "--gold", "truth.csv", "-o", "truth.csv"],
    ["aggregate", "votes.csv", "--truth", "truth.csv", "--workers", "./truth.csv"],
    ["aggregate", "votes.csv", "--history", "model.adjudge", "--save", "model.adjudge"],
    ["aggregate", "votes.csv", "--warm-start", "model.adjudge", "--save", "folder/model.adjudge"],
    ["aggregate", "encoded", "--save", "encoded/row.npy"],
    ["aggregate", "encoded", "-o", "encoded/labels.csv"],
    ["predict", "votes.csv", "--using", "model.adjudge", "-o", "votes.csv"],
    ["agreement", "votes.csv", "--pairs", "votes.csv"],
    ["agreement", "votes.csv", "--truth", "truth.csv", "--matrix", "truth.csv"],
    ["encode", "encoded/votes.csv", "-o", "encoded"],
    ["encode", "folder/encoded/votes.csv", "-o", "sub/../encoded"],
    ["reproduce", "-o", "data", "--data", "folder/data", "--sets", "bm"],
    ["stream", "in", "--labels", "a,b", "--state", "state", "-o", "in/out.csv"],
    ["stream", "in/*.csv", "--labels", "a,b", "--state", "in", "-o", "out.csv"],
    ["stream", "in", "--labels", "a,b", "--state", "state", "-o", "state/out.csv"],
]


@pytest.mark.parametrize("arguments", OVER_INPUT, ids=" ".join)
def test_an_output_is_never_an_input(arguments, here, adjudge):
    (here / "encoded" / "votes.csv").write_bytes((here / "votes.csv").read_bytes())
    (here / "in").mkdir()
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    code, out, err = adjudge(*arguments)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert any(words in err for words in ("would be lost", "is read as", "would be read", "that are read", "overlap")), err
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("other", ["l.csv", "./sub/../l.csv", "folder/l.csv", "l-link.csv", "l-hard.csv"])
def test_two_outputs_are_never_one_file(other, here, adjudge):
    (here / "l.csv").write_text("old")
    (here / "l-link.csv").symlink_to(here / "l.csv")
    os.link("l.csv", "l-hard.csv")
    for option in ("--workers", "--probabilities", "--save"):
        code, _, err = adjudge("aggregate", "votes.csv", "-o", "l.csv", option, other)
        assert (code, "two outputs have the same path" in err) == (1, True)
    assert Path("l.csv").read_text() == "old"
    assert adjudge("aggregate", "votes.csv", "-o", "/dev/null", "--workers", "/dev/null", "--quiet")[0] == 0, (
        "nothing is lost there"
    )


def test_simulate_and_demo_do_not_write_two_tables_into_one_file(here, adjudge):
    (here / "votes.link").mkdir()
    (here / "votes.link" / "truth.csv").symlink_to("votes.csv")
    for command in (["simulate", "-o"], ["demo", "--keep"]):
        code, _, err = adjudge(*command, "votes.link")
        assert (code, "two outputs have the same path" in err) == (1, True)


def test_standard_streams_are_files_too(here):
    before = Path("votes.csv").read_bytes()
    for shell in ("adjudge aggregate - -o votes.csv < votes.csv", "adjudge aggregate votes.csv >> votes.csv"):
        done = run(shell=shell)
        assert (done.returncode, "would be lost" in done.stderr) == (1, True)
    assert Path("votes.csv").read_bytes() == before


def test_the_library_knows_its_inputs(here):
    result = adj.aggregate("encoded")
    with pytest.raises(adj.InputError, match="is inside encoded"):
        result.save("encoded/row.npy")
    (here / "encoded" / "more.csv").write_bytes((here / "votes.csv").read_bytes())
    with pytest.raises(adj.InputError, match="would be lost"):
        adj.encode("encoded/more.csv", "encoded")


def test_a_link_stays_and_its_target_is_replaced(here, adjudge):
    (here / "sub" / "real.csv").write_text("old")
    (here / "out.csv").symlink_to("sub/real.csv")
    (here / "new.csv").symlink_to("sub/absent.csv")
    (here / "round.csv").symlink_to("round.csv")
    for link, real in (("out.csv", "sub/real.csv"), ("new.csv", "sub/absent.csv")):
        assert adjudge("aggregate", "votes.csv", "-o", link, "--quiet") == (0, "", "")
        assert Path(link).is_symlink()
        assert Path(real).read_text().startswith("task,label")
    code, _, err = adjudge("aggregate", "votes.csv", "-o", "round.csv")
    assert (code, "cannot write round.csv" in err) == (1, True)
    assert not list(here.rglob(".adjudge-*"))


@pytest.mark.parametrize("name", ["pipe", "pipe.csv", "pipe.parquet"])
def test_a_pipe_is_written_into(name, here, adjudge):
    os.mkfifo(name)
    got = []
    reader = threading.Thread(target=lambda: got.append(Path(name).read_bytes()), daemon=True)
    reader.start()
    assert adjudge("aggregate", "votes.csv", "-o", name, "--quiet") == (0, "", "")
    assert Path(name).is_fifo()
    reader.join(60)
    wanted = adj.aggregate("votes.csv").labels
    assert (pl.read_parquet if name.endswith("parquet") else pl.read_csv)(got[0]).equals(wanted)


def test_devices_and_substituted_processes(here, adjudge):
    whole = adjudge("aggregate", "votes.csv", "--quiet")[1]
    for shell in (
        "adjudge aggregate votes.csv --quiet -o /dev/stdout > l.csv; cat l.csv",
        "adjudge aggregate votes.csv --quiet -o >(cat) | cat",
        "adjudge aggregate <(cat votes.csv) --quiet",
        "adjudge aggregate <(gzip -c votes.csv) --gold <(head -1 truth.csv) --quiet 2>w.txt | sed 's/,gold$//; s/,false$/&/; s/,false,false$/,false/'",
        "adjudge aggregate /dev/stdin --quiet < votes.csv",
    ):
        done = run(shell=shell)
        assert done.stderr == "", shell
        assert done.stdout == whole, shell
    done = run(shell="adjudge aggregate votes.csv --quiet --save model.q -o /dev/full")
    assert (done.returncode, "cannot write /dev/full: No space left on device" in done.stderr) == (1, True)
    assert run(shell="adjudge encode <(cat votes.csv) -o enc && adjudge aggregate enc --quiet | sort").stdout == "".join(
        sorted(whole.splitlines(keepends=True))
    )


CLOSED = {
    "stdout": ("adjudge aggregate votes.csv --quiet >&-", 1, "standard output is closed"),
    "stdout unused": ("adjudge aggregate votes.csv --quiet -o l.csv >&-", 0, None),
    "stdin": ("adjudge aggregate - <&-", 1, "standard input is closed"),
    "all": ("adjudge aggregate votes.csv -o l.csv <&- >&- 2>&-", 0, None),
    "full": ("adjudge aggregate votes.csv --quiet > /dev/full", 1, "No space left on device"),
    "full, a table": ("adjudge evaluate truth.csv --truth truth.csv > /dev/full", 1, "No space left on device"),
    "full stderr": ("adjudge aggregate votes.csv 2> /dev/full > /dev/null", 1, None),
    "broken pipe": ("{ adjudge aggregate votes.csv --quiet; echo $? >&2; } | true", 0, None),
}


@pytest.mark.parametrize("name", CLOSED)
def test_streams_that_cannot_be_used(name, here):
    shell, code, message = CLOSED[name]
    done = run(shell=shell)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if message is not None:
        assert done.stderr.startswith("adjudge: ")
        assert done.stderr.count("\n") == 1
        assert message in done.stderr
    if "l.csv" in shell:
        assert Path("l.csv").read_text().startswith("task,label"), "no stream was taken for the file"


SLOW = """
import sys, time, polars as pl
real = pl.DataFrame.write_csv
def write(self, path, **kw):
    real(self, path, **kw); print("writing", file=sys.stderr, flush=True); time.sleep(60)
pl.DataFrame.write_csv = write
"""


def begin(folder):
    """Starts a command that stops in the middle of writing l.csv."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW + MAIN, "aggregate", "votes.csv", "-o", "l.csv", "--quiet"],
        stderr=subprocess.PIPE,
        cwd=folder,
    )
    assert process.stderr.readline() == b"writing\n"
    return process


def end(process, number):
    process.send_signal(number)
    process.wait(timeout=20)
    process.stderr.close()
    return process.returncode


def test_told_to_end_it_leaves_nothing(here):
    Path("l.csv").write_text("old")
    process = begin(here)
    time.sleep(0.1)
    assert end(process, signal.SIGTERM) == 128 + signal.SIGTERM
    assert Path("l.csv").read_text() == "old"
    assert not list(here.glob(".adjudge-*"))


def test_what_a_killed_write_left_is_taken_over_and_a_living_one_is_let_alone(here, adjudge):
    killed = [begin(here) for _ in range(3)]
    for process in killed:
        end(process, signal.SIGKILL)
    assert len(list(here.glob(".adjudge-*"))) == 3
    alive = begin(here)
    (taken,) = here.glob(".adjudge-*")  # one is taken over, the others are gone
    size = taken.stat().st_size
    assert size > 0
    assert adjudge("aggregate", "votes.csv", "-o", "l.csv", "--quiet")[0] == 0
    assert [p.stat().st_size for p in here.glob(".adjudge-*")] == [size]
    assert Path("l.csv").read_text().startswith("task,label")
    end(alive, signal.SIGKILL)
    assert adjudge("aggregate", "votes.csv", "-o", "l.csv", "--quiet")[0] == 0
    assert not list(here.glob(".adjudge-*"))


def test_many_writers_at_once(tmp_path):
    """More threads than names, all writing one file: each write is whole, and nothing is left."""
    target, texts = tmp_path / "x.txt", [str(n) * 10_000 for n in range(10)]

    def write(text):
        for _ in range(20):
            writing.write_aside(target, lambda aside: aside.write_text(text))
            assert target.read_text() in texts

    threads = [threading.Thread(target=write, args=(text,), daemon=True) for text in texts + texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]


def test_a_planted_file_or_link_is_not_written_into(tmp_path):
    """Somebody else's file under the name aside, or a link to another file, is let alone."""
    target, victim = tmp_path / "x.txt", tmp_path / "victim"
    victim.write_text("mine")
    with writing._aside(target) as first:
        pass
    first.symlink_to(victim)
    writing.write_aside(target, lambda aside: aside.write_text("new"))
    first.unlink()
    os.link(victim, first)
    writing.write_aside(target, lambda aside: aside.write_text("newer"))
    assert (target.read_text(), victim.read_text()) == ("newer", "mine")


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    import errno

    def none(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(writing.fcntl, "flock", none)
    writing.write_aside(tmp_path / "x.txt", lambda aside: aside.write_text("new"))
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]
    assert (tmp_path / "x.txt").read_text() == "new"
