"""Ids, labels, paths and messages are text: on every path to the terminal they are shown, and nothing in them is obeyed."""

import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.cli import console
from adjudge.errors import UNSEEN, make_visible

NASTY = [
    "[/x]", "[red]x[/red]", "[link=http://evil]click[/link]", "\x1b]0;pwned\x07", "\x1b[31mred", "a\rb", "a\nadjudge: forged line",
    "\x9b31m", "\u202egnp.exe", "x" * 3000, "漢字かな交じり文", ":smile:", "", "\x00", "tab\there", "\u2028", "\ufeff", "{0}%s",
]  # fmt: skip
NAME = "[red]\x1b]0;pwned\x07\n[x] 漢 :smile: \u202e"  # of files and folders
STYLE = re.compile(r"\r?\x1b\[[0-9;?]*[A-Za-z]")  # what rich itself sends

DRIVER = """
import json, os, sys
from adjudge.cli.main import main
codes = []
for arguments in json.load(open(sys.argv[1])):
    sys.argv = ["adjudge", *arguments]
    try:
        main()
        codes.append(0)
    except SystemExit as leaving:
        codes.append(leaving.code or 0)
    sys.stdout.flush()
json.dump(codes, open("codes.json", "w"))
"""


@pytest.fixture
def crowd(tmp_path, monkeypatch):
    """A folder of votes whose tasks, workers, labels and file names are all nasty."""
    monkeypatch.chdir(tmp_path)
    n = len(NASTY)
    rows = [(NASTY[t], NASTY[(t + w) % n], NASTY[(t + w * (w == 2)) % n]) for t in range(n) for w in range(4)]
    votes = pl.DataFrame(rows, schema=["task", "worker", "label"], orient="row")
    votes.write_parquet("votes.parquet")
    votes.write_csv(f"{NAME}.csv")
    votes.select("task", "label").unique("task", maintain_order=True).write_parquet("truth.parquet")
    votes.filter(pl.col("worker") != "[/x]").write_parquet("some.parquet")
    few = [(NASTY[t], NASTY[w], NASTY[(t * w) % 3]) for t in range(5) for w in range(8)]
    pl.DataFrame(few, schema=["task", "worker", "label"], orient="row").write_parquet("few.parquet")
    adj.aggregate("some.parquet", model=adj.FastDawidSkene(smoothing=0.1)).save("model.adjudge")
    return votes


COMMANDS = [
    (0, ["aggregate", "votes.parquet", "--model", "fds", "--smoothing", "0.1", "--truth", "truth.parquet"]),
    (0, ["aggregate", "votes.parquet", "--json", "--model", "fds", "--smoothing", "0.1", "--quiet"]),
    (0, ["aggregate", "votes.parquet", "-o", f"{NAME}.out.csv", "--workers", "workers.csv", "--probabilities", "p.csv", "--quiet"]),
    (1, ["aggregate", "votes.parquet", "--labels", ",".join(NASTY[:4]), "--quiet"]),
    (1, ["aggregate", f"no {NAME}.csv"]),
    (1, ["aggregate", "votes.parquet", "--task", NAME]),
    (1, ["aggregate", "votes.parquet", "-o", f"{NAME}/l.csv"]),
    (1, ["aggregate", "votes.parquet", "--model", NAME]),
    (2, ["aggregate", "votes.parquet", f"--{NAME}"]),
    (2, ["aggregate", "votes.parquet", "--seed", NAME]),
    (2, [NAME]),
    (0, ["predict", "votes.parquet", "--using", "model.adjudge"]),
    (1, ["predict", "votes.parquet", "--using", NAME]),
    (0, ["encode", "votes.parquet", "-o", f"{NAME}.votes"]),
    (0, ["aggregate", f"{NAME}.votes", "--engine", "disk", "--model", "mv"]),
    (0, ["evaluate", f"{NAME}.out.csv", "--truth", f"{NAME}.out.csv"]),
    (0, ["evaluate", f"{NAME}.out.csv", "--truth", f"{NAME}.out.csv", "--json"]),
    (1, ["evaluate", NAME, "--truth", NAME]),
    (0, ["agreement", "few.parquet", "--resamples", "20"]),
    (0, ["agreement", "votes.parquet", "--resamples", "20", "--json"]),
    (0, ["compare", "votes.parquet", "--refits", "1", "--disagreements", f"{NAME}.disputed.csv"]),
    (0, ["compare", "votes.parquet", "--truth", "truth.parquet", "--models", "fds", "--json"]),
    (1, ["compare", "votes.parquet", "--models", NAME]),
    (0, ["simulate", "-o", f"{NAME}.crowd", "--tasks", "5", "--workers", "3"]),
    (0, ["simulate", "-o", "out[/x]", "--tasks", "5", "--workers", "3"]),
    (0, ["demo", "--keep", f"{NAME}[/x]"]),
    (1, ["reproduce", "-o", f"{NAME}.report", "--data", NAME]),
    (1, ["reproduce", "-o", f"{NAME}.report", "--sets", NAME]),
    (0, ["datasets", "list"]),
    (1, ["datasets", "get", NAME]),
    (1, ["datasets", "get", "bm", "-o", f"{NAME}.csv"]),
    (1, ["stream", NAME, "--labels", "a,b", "--state", "state", "-o", "out.parquet"]),
    (1, ["stream", "in", "--labels", "a,b", "--state", f"in/{NAME}", "-o", "out.parquet"]),
]  # fmt: skip


def harmless(text, *, newlines=True):
    assert "Traceback" not in text, text[-3000:]
    found = UNSEEN.search(text.replace("\r\n", "\n").replace("\n", "") if newlines else text)
    assert not found, text[max(found.start() - 200, 0) : found.end() + 100]
    assert "\nadjudge: forged" not in text


@pytest.mark.filterwarnings("ignore::adjudge.errors.NotConverged")
def test_in_a_pipe(crowd, adjudge):
    for code, arguments in COMMANDS:
        got, out, err = adjudge(*arguments)
        assert got == code, (arguments, got, err)
        is_data = arguments[0] in ("aggregate", "predict") and "-o" not in arguments and "--json" not in arguments
        harmless(err)
        if not is_data:
            harmless(out)
        if code == 1:
            assert err.count("\n") == 1, err
    assert sorted(pl.read_csv(f"{NAME}.out.csv", infer_schema=False, glob=False)["task"].fill_null("")) == sorted(NASTY), (
        "data stay as they are"
    )
    _, out, _ = adjudge("aggregate", "votes.parquet", "--model", "fds", "--smoothing", 0.1, "--quiet")
    assert sorted(pl.read_csv(out.encode(), infer_schema=False)["task"].fill_null("")) == sorted(NASTY)
    _, out, _ = adjudge(*COMMANDS[1][1])
    assert sorted(row["task"] for row in json.loads(out)["result"]) == sorted(NASTY), "JSON says the same, escaped"


def test_on_a_terminal(crowd, tmp_path):
    """All commands in one process on a terminal of 200 columns; what is shown is what the ids are."""
    import pty

    (tmp_path / "commands.json").write_text(json.dumps([arguments for _, arguments in COMMANDS]))
    parent, child = pty.openpty()
    env = os.environ | {"COLUMNS": "200", "TERM": "xterm-256color"}
    command = [sys.executable, "-c", DRIVER, "commands.json"]
    with subprocess.Popen(command, stdout=child, stderr=child, stdin=subprocess.DEVNULL, cwd=tmp_path, env=env):
        os.close(child)
        shown = b""
        while True:
            try:
                block = os.read(parent, 1 << 16)
            except OSError:
                break
            if not block:
                break
            shown += block
    os.close(parent)
    text = STYLE.sub("", shown.decode())
    harmless(text)
    assert json.loads((tmp_path / "codes.json").read_text()) == [code for code, _ in COMMANDS]
    for name in NASTY:
        if len(name) < 100:
            assert make_visible(name) in text, name
    assert "x" * 50 in text
    assert make_visible(f"{NAME}.crowd") in text


def test_warnings_and_log_lines_are_text_too(adjudge, crowd, monkeypatch):
    import logging
    import warnings

    from adjudge.data.votes import Votes
    from adjudge.engines import local
    from adjudge.io.sources import Opened

    real = local.as_votes

    def telling(source, *how):
        if not isinstance(Opened.of(source).source, Votes):
            warnings.warn(f"of a library: {NAME}", RuntimeWarning, stacklevel=2)
            logging.getLogger("adjudge.io").warning("odd: %s", NAME)
        return real(source, *how)

    monkeypatch.setattr(local, "as_votes", telling)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, _, err = adjudge("aggregate", "votes.parquet", "--quiet", "-o", "l.csv", "--model", "fds", "--smoothing", 0.1)
    assert code == 0
    harmless(err)
    told = [line for line in err.splitlines() if "normalize=True" not in line and "abstain=" not in line]
    assert told == [f"adjudge: warning: of a library: {make_visible(NAME)}", f"adjudge: odd: {make_visible(NAME)}"]


def test_errors_are_one_line_by_themselves():
    for kind in (adj.AdjudgeError, adj.InputError, adj.OptionError, adj.NotConverged, adj.MissingLabels, adj.CopiedVotes):
        message = str(kind(f"a {NAME}\r\x9b"))
        assert not UNSEEN.search(message)
        assert "\\x1b]0;pwned\\x07\\n" in message
    from adjudge.errors import itemize, quote

    assert not UNSEEN.search(itemize(NASTY, 100) + quote(NASTY, 10000))


def drawn(thing, width):
    screen = console.Screen(width=width, record=True, file=io.StringIO())
    screen.print(thing)
    return screen.export_text()


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("length", [1, 8, 9, 40, 4000])
def test_a_matrix_never_cuts_a_number(width, length):
    names = [f"{n:x}" + "-judge" * length for n in range(12)] if length > 1 else list("abcdefghijkl")
    names = [name[:length] for name in names]
    matrix = np.arange(144).reshape(12, 12) / 143
    text = drawn(console.heat_map(names, matrix, corner=""), width)
    assert max(map(len, text.splitlines())) <= width
    figures = re.findall(r"(?<![\w-])(\d+)%", text)
    assert sorted(map(int, figures)) == sorted(int(f"{share * 100:.0f}") for share in matrix.ravel())
    if length > 8:
        folded = re.sub(r"\s", "", text)
        assert all(name[:400] in folded for name in names), "the legend has the names"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_table_never_cuts_a_number(width):
    rows = [["[red]" * 50, "漢" * 100, 0.123456789, 123456789012, -1.5e-300, True], ["", "b", None, 7, 1.0, False]]
    text = drawn(console.table(["task", "label", "confidence", "votes", "a rather long heading", "tie"], rows, ids=2), width)
    for figure in ("0.1235", "123456789012", "-1.5e-300", "True", "–", "7", "1", "False"):
        assert figure in re.split(r"\s+", text), figure
    from rich.cells import cell_len

    assert max(map(cell_len, text.splitlines())) <= width


def test_a_curve_fits(tmp_path):
    bins = {name: np.array([0.25, 1.0]) for name in console.CURVE} | {"tasks": np.array([10, 123456])}
    for width in (40, 80, 200):
        text = drawn(console.reliability(bins), width)
        assert "123456" in text
        assert "0.250 – 0.250" in text
        assert ("█" in text) == (width > 60)
