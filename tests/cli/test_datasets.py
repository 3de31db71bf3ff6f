"""`adjudge datasets`, as people run it."""

import pytest

from adjudge.evaluation.datasets import SETS
from loopback import serving


def test_list(adjudge):
    code, out, _ = adjudge("datasets", "list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == list(SETS)
    code, out, _ = adjudge("datasets", "list", "--files")
    assert len(out.splitlines()) == sum(len(s.files) for s in SETS.values())
    assert all(line.split("\t")[1].startswith("https://raw.githubusercontent.com/") for line in out.splitlines())


def test_get(adjudge, data_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("ADJUDGE_DATA", str(tmp_path / "data"))
    with serving(data_dir / "raw") as (address, _):
        code, out, err = adjudge("datasets", "get", "bm", "labelme", "bm", "--base-url", address)
        assert (code, out) == (0, "")
        assert [line.split(":")[0] for line in err.splitlines()] == ["bm", "labelme"]
        assert adjudge("datasets", "get", "all", "--base-url", address, "-o", tmp_path / "all", "--quiet") == (0, "", "")
    assert (tmp_path / "data" / "bm" / "votes.csv").is_file()
    assert {p.name for p in (tmp_path / "all").iterdir()} == {*SETS, "raw"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bmm"], "unknown data set 'bmm': did you mean 'bm'? (accepted: adult2, bm"),
        (["bm", "-o", "file"], "file is a file: name a folder"),
        (["bm", "--base-url", "mirror"], "base-url is 'mirror': give an address that begins with http"),
    ],
)
def test_bad_input(adjudge, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    code, out, err = adjudge("datasets", "get", *arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert message in err
