"""Formats of other packages: an installed entry point is loaded for its own exports, and for nothing else."""

import json
import sys

import pytest

import adjudge as adj
from adjudge.data import extensions
from adjudge.io.formats import registry

READER = """
from adjudge.io.formats.export import AnswerCollector
from adjudge.io.formats.registry import JSON_KINDS

NEEDS = "runs with judge and verdicts"


def recognise(content):
    if "break" in content.fields:
        raise KeyError("break")
    return content.kind in JSON_KINDS and content.has("run", "judge", "verdicts")


def read(content, ask):
    answers = AnswerCollector(ask, content.name)
    for record in content.records:
        for task, verdict in record["verdicts"].items():
            answers.vote(task, record["judge"], [verdict])
    return answers.extract({"task": "verdicts", "worker": "judge", "label": "verdicts"})
"""
RUNS = [{"run": n, "judge": f"j{n}", "verdicts": {"t1": "good", "t2": "bad" if n else "good"}} for n in range(3)]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with an entry point, as pip installs it: a module, and its metadata."""
    packages = tmp_path / "site-packages"
    info = packages / "verdicts-1.0.dist-info"
    info.mkdir(parents=True)
    (packages / "verdicts_reader.py").write_text(READER)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: verdicts\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[adjudge.formats]\nverdicts = verdicts_reader\nabsent = no_such_module\n")
    monkeypatch.syspath_prepend(str(packages))
    for cached in (extensions._entry_points, extensions.load_extension, registry._load_installed):
        cached.cache_clear()
    yield
    sys.modules.pop("verdicts_reader", None)
    for cached in (extensions._entry_points, extensions.load_extension, registry._load_installed):
        cached.cache_clear()


@pytest.fixture
def runs(tmp_path):
    path = tmp_path / "runs.json"
    path.write_text(json.dumps(RUNS))
    return path


@pytest.mark.parametrize("form", ["auto", "verdicts"])
def test_an_installed_format_is_read(installed, runs, form, caplog):
    votes = adj.read(runs, format=form)
    assert str(votes.understood) == "verdicts: task=verdicts, worker=judge, label=verdicts; 6 votes"
    assert adj.aggregate(runs, model="mv", format=form).labels["label"].to_list() == ["good", "bad"]
    assert adj.read(RUNS, format=form).tasks.ids() == ["t1", "t2"]
    assert ("format absent is not used to read" in caplog.text) == (form == "auto")


def test_nothing_is_loaded_for_ordinary_tables_and_known_exports(installed, tmp_path):
    table = tmp_path / "votes.csv"
    table.write_text("item,annotator,choice\n1,a,x\n1,b,y\n")
    assert len(adj.read(table)) == 2
    (tmp_path / "answers.json").write_text('{"t1": {"a": 1, "b": 2}}')
    assert adj.read(tmp_path / "answers.json").understood.format == "peerannot"
    assert "verdicts_reader" not in sys.modules
    assert extensions._entry_points.cache_info().currsize == 0


def test_what_is_not_its_own_is_refused(installed, runs, tmp_path):
    other = tmp_path / "other.json"
    other.write_text('[{"run": 1, "score": 2}]')
    with pytest.raises(adj.InputError, match="does not look like verdicts: runs with judge and verdicts are expected"):
        adj.read(other, format="verdicts")
    with pytest.raises(adj.OptionError, match=r"unknown format 'verdict': did you mean 'verdicts'\?"):
        adj.read(runs, format="verdict")
    with pytest.raises(
        adj.OptionError, match=r"format 'absent' of verdicts \(no_such_module\) cannot be loaded: ModuleNotFoundError"
    ):
        adj.read(runs, format="absent")


def test_a_test_that_fails_is_passed_over(installed, tmp_path, caplog):
    path = tmp_path / "other.json"
    path.write_text('[{"break": 1, "score": 2}]')
    with pytest.raises(adj.InputError, match="no column looks like the task"):
        adj.read(path)
    assert "format verdicts is not used to read" in caplog.text
