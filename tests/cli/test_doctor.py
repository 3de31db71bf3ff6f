"""`adjudge doctor`: a line per thing, what to do, and 1 where anything fails."""

import json
import shutil
import sqlite3
import sys
import time

import pytest

from adjudge.cli import doctor
from adjudge.service.store.opening import open_store
from live_store import cut, fill, small, stored


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def findings(adjudge, *arguments):
    code, out, err = adjudge("doctor", *arguments, "--json")
    assert err == ""
    return code, {(one["state"], one["what"]): one["text"] for one in json.loads(out)}


def test_a_good_installation_is_ok_line_by_line(adjudge):
    code, out, err = adjudge("doctor")
    assert (code, err) == (0, "")
    words = [line.split()[0] for line in out.splitlines()]
    assert set(words) <= {"ok", "off", "warn"}
    assert "ok    compiled core" in out
    assert "ok    extra serve" in out
    assert "SQLite" in out


def test_what_is_not_installed_says_how_to(adjudge, monkeypatch):
    import importlib.metadata

    real = importlib.metadata.version

    def version(name):
        if name in ("altair", "vl-convert-python", "uvicorn"):
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    code, found = findings(adjudge)
    assert code == 0
    assert found["off", "extra report"] == "not installed; plots needs it: pip install 'adjudge[report]'"
    assert found["warn", "extra serve"].endswith("but no uvicorn: pip install 'adjudge[serve]'")


def test_a_core_that_was_not_built_is_a_warning(adjudge, monkeypatch):
    from adjudge.kernels import cpu

    monkeypatch.setattr(cpu, "compiled", lambda: None)
    assert "missing" in findings(adjudge)[1]["warn", "compiled core"]


def test_a_full_disk_a_slow_one_and_a_wrong_clock(adjudge, monkeypatch):
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10**6))
    monkeypatch.setattr(doctor, "SLOW_SYNC_S", 0.0)
    monkeypatch.setattr(doctor, "EARLIEST_TIME", doctor.datetime(2999, 1, 1, tzinfo=doctor.UTC))
    code, found = findings(adjudge)
    assert code == 1
    assert found["fail", "free disk"] == "0.0 GB: make room, or votes will be refused"
    assert "a faster disk helps" in found["warn", "disk"]
    assert "set it" in found["fail", "clock"]


@pytest.mark.skipif(sys.platform == "win32", reason="rights of another kind")
def test_a_folder_that_cannot_be_written(adjudge, tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    code, found = findings(adjudge)
    assert code == 1
    assert "cannot be written" in found["fail", "folder"]
    assert findings(adjudge, "none/votes.db")[1]["fail", "folder"] == f"{tmp_path / 'none'} is not there: make it"


def test_a_store_is_read_whole_while_it_is_written(adjudge):
    writer = open_store("votes.db")
    number = fill(writer, small())
    writer.snapshots(number).save(40, b"state")
    code, out, err = adjudge("doctor")  # votes.db is there
    assert (code, err) == (0, "")
    assert "49 events in 1 pages" in out
    assert "every checksum is right" in out
    assert "written by process" in out
    assert "snapshot at position 40, 9 events behind" in out
    assert "last event at 2023-11-14" in out
    assert "none: this machine is answered, no other" in out
    writer.close()
    assert "no process writes it now" in adjudge("doctor", "votes.db")[1]


def test_damage_fails_and_is_named(adjudge, tmp_path):
    stored("votes.db", small())
    data = (tmp_path / "votes.db").read_bytes()
    assert b'"t3"' in data
    (tmp_path / "votes.db").write_bytes(data.replace(b'"t3"', b'"t4"', 1))
    code, found = findings(adjudge)
    assert code == 1
    assert "positions 1 to" in found["fail", "campaign 'default'"]
    assert "restore a backup" in found["fail", "campaign 'default'"]


def test_a_damaged_snapshot_fails(adjudge, tmp_path):
    writer = open_store("votes.db")
    number = fill(writer, small())
    writer.snapshots(number).save(40, b"state")
    writer.close()
    [snapshot] = (tmp_path / "votes.db.snapshots").iterdir()
    snapshot.write_bytes(snapshot.read_bytes()[:-3])
    code, found = findings(adjudge)
    assert code == 1
    assert "the snapshot of campaign 1 at position 40 is damaged" in found["fail", "campaign 'default'"]


def test_a_clock_that_was_set_back_is_a_warning(adjudge, monkeypatch):
    import live_store

    monkeypatch.setattr(live_store, "START", time.time_ns() // 1000 + 3600 * 10**6)
    stored("votes.db", small())
    code, found = findings(adjudge)
    assert code == 0
    assert "ahead of the clock" in found["warn", "campaign 'default'"]


@pytest.mark.parametrize(
    ("store", "says"),
    [("none.db", "there is no store none.db"), ("other.db", "another program"), ("postgresql://127.0.0.1:1/x", "refused")],
)
def test_what_is_not_a_store_fails(adjudge, store, says):
    connection = sqlite3.connect("other.db")
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    code, found = findings(adjudge, store)
    assert code == 1
    assert says in found["fail", "store"]


def test_names_are_data(adjudge):
    stored("votes.db", small(), name="a'b\\ü")
    code, out, _ = adjudge("doctor")
    assert code == 0
    assert "campaign \"a'b" in out


def test_a_log_whose_votes_have_expired_says_where_it_begins(adjudge):
    store = open_store("votes.db")
    number = fill(store, small(), per_page=10)
    cut(store, number, begins=31)
    store.close()
    code, out, _ = adjudge("doctor", "votes.db")
    assert code == 0
    assert "19 events in 2 pages from position 31 on: what was before has expired" in out
    assert "base at position 49, 0 events behind" in out
    connection = sqlite3.connect("votes.db")
    connection.execute("UPDATE base_part SET body = ?", (b"x",))
    connection.commit()
    connection.close()
    code, out, _ = adjudge("doctor", "votes.db")
    assert code == 1
    assert "the base of campaign 1 at position 49 is damaged" in out
