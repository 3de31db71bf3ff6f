"""A source is looked at once, whichever engine then reads it."""

import pytest

import adjudge as adj
from adjudge.cli.options import READING_HELP
from adjudge.data.options import ReadOptions
from adjudge.io import sources
from adjudge.io.reading import DERIVED, PLAIN_READING, Reading

VOTES = "task,worker,label\n1,a,x\n1,b,x\n2,a,y\n2,b,x\n"


@pytest.mark.parametrize("engine", ["auto", "cpu", "disk"])
def test_files_are_looked_at_once(tmp_path, monkeypatch, engine):
    for name in "pq":
        (tmp_path / f"{name}.csv").write_text(VOTES)
    calls = []
    for name in ("look", "_matches"):
        real = getattr(sources, name)
        monkeypatch.setattr(sources, name, lambda *given, name=name, real=real: calls.append(name) or real(*given))
    result = adj.aggregate(str(tmp_path / "*.csv"), model="mv", engine=engine)
    assert len(result.votes) == 8
    assert sorted(calls) == ["_matches", "look", "look"]


def test_what_was_opened_is_opened_as_it_is():
    opened = sources.Opened.of([("t", "w", "x")])
    assert sources.Opened.of(opened) is opened
    assert (opened.home, opened.folder, opened.paths, opened.is_read) == (None, None, None, False)
    assert len(adj.read(opened)) == 1


def test_every_option_of_reading_has_one_home():
    assert READING_HELP.keys() == ReadOptions.__annotations__.keys()
    assert Reading.__dataclass_fields__.keys() == {*ReadOptions.__annotations__, *DERIVED}
    assert PLAIN_READING.given() == {}
    assert Reading.of({"labels": iter("ab"), "normalize": 1}).given() == {"labels": ("a", "b"), "normalize": True}
