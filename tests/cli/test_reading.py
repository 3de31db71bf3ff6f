"""What was read is on the screen and in JSON; the options of reading reach it; what looks wrong is a line, or the end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CORPUS = Path(__file__).parents[1] / "io" / "corpus"


def run(*arguments, folder, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "adjudge", "aggregate", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == code, done.stderr
    return done


def test_the_abstention_that_a_warning_proposes_is_taken(tmp_path):
    (tmp_path / "votes.csv").write_text("task,worker,label\n1,ann,cat\n1,bob, \n2,ann,dog\n")
    assert "(--abstain ' ')" in run("votes.csv", "-o", "l.csv", folder=tmp_path).stderr
    done = run("votes.csv", "-o", "l.csv", "--abstain", " ", folder=tmp_path)
    assert "2 votes, 1 abstention" in done.stderr
    assert "warning: the label" not in done.stderr


def test_what_was_understood_is_on_the_screen(tmp_path):
    done = run(CORPUS / "judged-response.csv", "--model", "mv", "-o", "l.csv", folder=tmp_path)
    line = done.stderr.splitlines()[0]
    assert line.startswith("read ")
    assert line.endswith("judged-response.csv as a table (csv): task=question, worker=judge, label=score; 4 votes")
    assert run(CORPUS / "plain.csv", "--model", "mv", "-o", "l.csv", "--quiet", folder=tmp_path).stderr == ""


def test_what_was_understood_is_in_json(tmp_path):
    done = run(CORPUS / "repeated.csv", CORPUS / "plain.csv", "--model", "mv", "--json", folder=tmp_path)
    assert json.loads(done.stdout)["understood"] == {
        "format": "table (csv)",
        "columns": {"task": "task", "worker": "worker", "label": "label"},
        "votes": 7,
        "abstentions": 0,
        "repeated": 3,
        "skipped": {},
        "gold": 0,
        "resent": 0,
        "duplicates": "all",
        "ordered_by": "",
    }


@pytest.mark.parametrize(("arguments", "read"), [
    (["wide-with-text.csv", "--wide"], "a wide table (csv): task=item, workers=judge_1, judge_2; 4 votes"),
    (["counts.csv", "--count", "count"], "a table of counts (csv): task=item, worker=(absent), label=label, count=count; 6 votes"),
    (["abstentions.csv", "--abstain", "NA,skip"], "a table (csv): task=task, worker=worker, label=label; 2 votes, 2 abstentions"),
    (["spellings.csv", "--normalize"], "a table (csv): task=task, worker=worker, label=label; 4 votes"),
    (["tilde.csv", "--separator", "~"], "a table (csv, separated by '~'): task=task"),
    (["tabs-in-csv.csv", "--separator", "\\t"], "a table (csv, separated by '\\t'): task=task"),
    (["no-header-turned.csv", "--no-header", "--task", "2", "--worker", "1", "--label", "3"], "a table (csv, without header): task=2, worker=1, label=3"),
    (["sets-by-semicolon.csv", "--multi", "--set-separator", ";"], "a table (csv): task=task, worker=worker, label=labels; 2 votes"),
])  # fmt: skip
def test_options(arguments, read, tmp_path):
    done = run(CORPUS / arguments[0], *arguments[1:], "--model", "mv", "-o", "l.csv", "--strict", folder=tmp_path)
    told = [line for line in done.stderr.splitlines() if line.startswith("read ")]
    assert len(told) == 1
    assert read in told[0]


def test_signs_are_lines_and_strict_ends(tmp_path):
    done = run(CORPUS / "spellings.csv", "--model", "mv", "-o", "l.csv", "--quiet", folder=tmp_path)
    assert "adjudge: warning: labels differ only in case" in done.stderr
    (tmp_path / "l.csv").unlink()
    done = run(CORPUS / "spellings.csv", "--model", "mv", "-o", "l.csv", "--strict", folder=tmp_path, code=1)
    assert done.stderr.startswith("adjudge: labels differ only in case")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "l.csv").exists()


def test_truth_and_gold_that_match_nothing(tmp_path):
    (tmp_path / "other.csv").write_text("task,label\n1,cat\n2,dog\n")
    for option in ("--gold", "--truth"):
        done = run(CORPUS / "plain.csv", "--model", "mv", option, "other.csv", "-o", "l.csv", folder=tmp_path, code=1)
        assert "none of the 2 tasks of the" in done.stderr


def test_disk_says_the_same(tmp_path):
    done = run(CORPUS / "wide-gaps.csv", "--wide", "--engine", "disk", "--model", "mv", "--json", folder=tmp_path)
    found = json.loads(done.stdout)["understood"]
    assert (found["format"], found["votes"], found["repeated"]) == ("wide table (csv)", 4, 0)


def test_spreadsheets_without_their_library(tmp_path, monkeypatch):
    (tmp_path / "votes.xlsx").write_bytes(b"PK\x03\x04")
    (tmp_path / "fastexcel.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run("votes.xlsx", "--model", "mv", folder=tmp_path, code=1)
    assert done.stderr == (
        "adjudge: votes.xlsx is a spreadsheet, which needs the library fastexcel: pip install 'adjudge[excel]', or save it as CSV\n"
    )
