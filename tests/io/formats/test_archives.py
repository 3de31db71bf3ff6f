"""Archives and compressed files of strangers: one line each, and never more memory than the limit."""

import gzip
import json
import stat
import struct
import zipfile

import pytest

import adjudge as adj
import exports
from adjudge.io.formats import archive
from exports import VOTES, WORKERS

LINE = json.dumps({"id": 1, "text": "s", "label": ["x"]}) + "\n"


def packed(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members:
            file.writestr(name, data)
    return path


def refused(path, message):
    with pytest.raises(adj.InputError, match=message) as raised:
        adj.read(path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["../evil.jsonl", "a/../../evil.jsonl", "/etc/evil.jsonl", "..\\evil.jsonl", "C:\\evil.jsonl"])
def test_members_that_point_outside(tmp_path, name):
    refused(packed(tmp_path / "a.zip", [(name, LINE)]), "points outside the archive")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zip"]


def test_nested_archives(tmp_path):
    inner = packed(tmp_path / "inner.zip", [("ann.jsonl", LINE)]).read_bytes()
    refused(packed(tmp_path / "a.zip", [("inner.zip", inner)]), "'inner.zip' is an archive itself: unpack it first")
    refused(packed(tmp_path / "b.zip", [("ann.jsonl", inner), ("bob.jsonl", LINE)]), "'ann.jsonl' is an archive itself")
    refused(packed(tmp_path / "c.zip", [("ann.jsonl.gz", gzip.compress(LINE.encode()))]), "is an archive itself")


def test_bombs(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "FREE", 1 << 20)
    zeros = b" " * (4 << 20)
    refused(packed(tmp_path / "a.zip", [("ann.jsonl", zeros)]), r"expands beyond 1 MiB \(the limit: 1 MiB, or 100 times")
    many = [(f"{n}.jsonl", b" " * (1 << 19)) for n in range(40)]
    refused(packed(tmp_path / "b.zip", many), r"expands beyond \d MiB \(the limit: 1 MiB")
    bomb = tmp_path / "c.json.gz"
    bomb.write_bytes(gzip.compress(b'[{"id":1,"data":{},"annotations":[' + zeros))
    refused(bomb, "expands beyond 1 MiB")
    # A header that lies about the size of its member.
    path = packed(tmp_path / "d.zip", [("ann.jsonl", zeros)])
    data = path.read_bytes()
    assert data.count(struct.pack("<I", len(zeros))) == 2
    path.write_bytes(data.replace(struct.pack("<I", len(zeros)), struct.pack("<I", 100)))
    refused(path, "cannot be unpacked|no documents|damaged")
    monkeypatch.setattr(archive, "MAX_MEMBERS", 3)
    refused(packed(tmp_path / "e.zip", many[:4]), "has 4 members, more than 3")


def test_encrypted_members_links_and_twins(tmp_path):
    path = packed(tmp_path / "a.zip", [("ann.jsonl", LINE)])
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    path.write_bytes(data)
    refused(path, "'ann.jsonl' is encrypted: unpack the archive, and name the folder")
    link = zipfile.ZipInfo("ann.jsonl")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    refused(packed(tmp_path / "b.zip", [(link, "/etc/passwd")]), "is a link")
    with pytest.warns(UserWarning, match="Duplicate name"):
        packed(tmp_path / "c.zip", [("ann.jsonl", LINE), ("ann.jsonl", LINE)])
    refused(tmp_path / "c.zip", "two members of one name")


def test_damaged_members(tmp_path):
    path = exports.doccano_zip(tmp_path)
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(data)
    refused(path, "cannot be unpacked")
    refused(packed(tmp_path / "b.zip", [("notes.txt", "x"), ("more.txt", "y")]), r"an archive of 2 files \(more.txt, notes.txt\)")
    refused(packed(tmp_path / "c.zip", []), "an archive of 0 files")


def test_what_file_managers_add_is_ignored(tmp_path):
    members = [(f"out/{w}.jsonl", LINE.replace('"x"', f'"{w}"')) for w in WORKERS]
    path = packed(tmp_path / "a.zip", [("__MACOSX/._ann.jsonl", "x"), ("out/.DS_Store", "x"), ("out/", ""), *members])
    assert adj.read(path).workers.ids() == sorted(WORKERS)


def test_an_archive_of_one_file_is_that_file(tmp_path):
    for name in ("community-notes", "label-studio", "crowdflower"):
        path = exports.EXPORTS[name][1](tmp_path)
        votes = adj.read(packed(tmp_path / f"{name}.zip", [(path.name, path.read_bytes())]))
        assert len(votes) == len(VOTES)
    plain = packed(tmp_path / "plain.zip", [("votes.csv", "task,worker,label\n1,ann,x\n")])
    assert len(adj.read(plain)) == 1
    assert len(adj.encode(plain, tmp_path / "encoded")) == 1
