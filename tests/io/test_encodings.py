"""Text files as people save them: byte order marks, UTF-16 and UTF-32, Latin-1; and files that are not what they seem."""

import gzip
import io
import sys
import tracemalloc

import polars as pl
import pytest

import adjudge as adj
from adjudge.io import files

CSV = "task,worker,label\n" + "".join(f"t{n // 3},wörker {n % 3} 漢,{'äb'[n % 2]}\n" for n in range(9000))
LINES = pl.read_csv(CSV.encode()).write_ndjson()
WANTED = adj.aggregate(pl.read_csv(CSV.encode())).labels


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("form", ["csv", "csv.gz", "tsv", "jsonl", "jsonl.gz", "-"])
def test_a_byte_order_mark_tells_the_encoding(tmp_path, monkeypatch, encoding, form):
    text = LINES if "jsonl" in form else CSV.replace(",", "\t") if form == "tsv" else CSV
    data = (("\ufeff" if encoding.endswith(("le", "be")) else "") + text).encode(encoding)
    if form == "-":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert adj.aggregate("-").labels.equals(WANTED)
        return
    path = tmp_path / f"v.{form}"
    path.write_bytes(gzip.compress(data) if form.endswith("gz") else data)
    assert adj.aggregate(path).labels.equals(WANTED)
    if not form.startswith("jsonl"):
        assert adj.aggregate(adj.encode(path, tmp_path / "v")).labels.sort("task").equals(WANTED.sort("task"))


def test_without_a_final_newline(tmp_path):
    (tmp_path / "u.csv").write_bytes("task,worker,label\nt1,a,x\nt1,b,y".encode("utf-16"))
    assert adj.read(tmp_path / "u.csv").workers.ids() == ["a", "b"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_without_a_mark_the_message_says_what_it_is(tmp_path, encoding):
    for name, text in (("u.csv", CSV), ("u.jsonl", LINES), ("u.csv.gz", CSV)):
        data = text.encode(encoding)
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        with pytest.raises(
            adj.InputError, match="first line has NUL bytes, as in UTF-16 without a byte order mark; save the file as UTF-8"
        ):
            adj.read(tmp_path / name)


def test_what_is_cut_or_mixed_is_reported(tmp_path):
    (tmp_path / "odd.csv").write_bytes(CSV.encode("utf-16")[:-1])
    with pytest.raises(adj.InputError, match="odd.csv is not valid UTF-16"):
        adj.read(tmp_path / "odd.csv")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(CSV.encode("utf-16"))[:-30])
    with pytest.raises(adj.InputError, match="cannot read .*cut.csv.gz"):
        adj.read(tmp_path / "cut.csv.gz")


def test_latin_1_is_named_with_the_remedy(tmp_path):
    (tmp_path / "v.csv").write_bytes(b"task,worker,label\na,b,c\na,\xe9,c\n")
    with pytest.raises(adj.InputError, match=r"line 3 is not valid UTF-8 .*--encoding cp1252"):
        adj.read(tmp_path / "v.csv")
    (tmp_path / "v.jsonl").write_bytes('{"task":"a","worker":"é","label":"c"}\n'.encode("latin-1"))
    with pytest.raises(adj.InputError, match=r"line 1 is not valid UTF-8 .*--encoding cp1252"):
        adj.read(tmp_path / "v.jsonl")


def test_a_header_that_is_not_utf8_names_the_encoding(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_bytes("Fall,Prüfer,Urteil\n1,ann,a\n".encode("cp1252"))
    with pytest.raises(adj.InputError, match="no column 'Prüfer' for the worker.*Pr�fer.*--encoding cp1252"):
        adj.read(path, task="Fall", worker="Prüfer", label="Urteil")


def test_decoding_takes_little_memory(tmp_path):
    path = tmp_path / "v.csv"
    path.write_bytes((CSV + CSV.partition("\n")[2] * 40).encode("utf-16"))
    tracemalloc.start()
    try:
        spool = files._decode(path, files.FILE_FORMATS[".csv"], "v.csv", files.start_of(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert spool.path.stat().st_size > 5_000_000
    assert peak < 12_000_000  # a few pieces of a megabyte, for a file of any size
    folder = spool.path.parent
    del spool
    assert not folder.exists()


def test_repeated_keys_are_told(tmp_path):
    (tmp_path / "v.jsonl").write_text('{"task":1,"worker":1,"label":"a"}\n{"task":1,"worker":2,"label":"a","label":"b"}\n')
    with pytest.raises(adj.InputError, match="the key 'label' occurs twice in line 2"):
        adj.read(tmp_path / "v.jsonl")


def test_a_line_with_too_many_fields_is_reported_where_other_columns_are_there(tmp_path):
    """A comma in a column that nobody asks for shifts all that follow it."""
    (tmp_path / "v.csv").write_text("text,task,worker,label,note\nhello,t1,a,x,n\nHello, world,t1,b,y,n\n")
    with pytest.raises(adj.InputError, match="line 3 has 6 fields, the header 5"):
        adj.read(tmp_path / "v.csv")


def test_a_bomb_is_refused_in_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_EXPANDED_LINE_BYTES", 1 << 20)
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"task,worker,label\nt1,a," + b"x" * (4 << 20)))
    with pytest.raises(adj.InputError, match="bomb.csv.gz expands into a line of more than 1 MiB: it is not a file of votes"):
        adj.read(tmp_path / "bomb.csv.gz")
    (tmp_path / "dense.csv.gz").write_bytes(gzip.compress(b"task,worker,label\n" + b"t1,a,x\n" * 500_000))
    assert len(adj.read(tmp_path / "dense.csv.gz")) == 500_000


def test_a_panic_of_the_reader_is_an_input_error(tmp_path, monkeypatch):
    class Panicking:
        def __getattr__(self, name):
            raise pl.exceptions.PanicException("called `Option::unwrap()` on\na `None` value")

    pl.DataFrame({"task": [1], "worker": [1], "label": [1]}).write_parquet(tmp_path / "v.parquet")
    monkeypatch.setattr(files, "_scan", lambda *_: Panicking())
    with pytest.raises(adj.InputError, match=r"v.parquet: it is damaged \(called `Option::unwrap\(\)` on a `None` value\)"):
        adj.read(tmp_path / "v.parquet")
    from adjudge.io.folder import job as plan

    monkeypatch.setattr(plan.pl, "scan_parquet", lambda *_, **__: Panicking())
    with pytest.raises(adj.InputError, match="it is damaged"):
        adj.encode(tmp_path / "v.parquet", tmp_path / "v")


MARKS = "task,worker,label\n1,Zoë,schön\n1,Bob,häßlich\n"


@pytest.mark.parametrize("how", ["cp1252", "latin-1", "utf-16-le", "utf-16", "cp037"])
def test_an_encoding_that_is_named(tmp_path, how):
    """Tables, packed or not, open files and JSON are read in the encoding that the caller names."""
    plain, packed = tmp_path / "votes.csv", tmp_path / "votes.csv.gz"
    plain.write_bytes(MARKS.encode(how))
    packed.write_bytes(gzip.compress(MARKS.encode(how)))
    (tmp_path / "votes.jsonl").write_bytes('{"task": 1, "worker": "Zoë", "label": "schön"}\n'.encode(how))
    with plain.open("rb") as file:
        sources = [adj.read(source, encoding=how) for source in (plain, packed, file)]
    for votes in sources:
        assert (votes.workers.ids(), votes.labels.ids()) == (["Bob", "Zoë"], ["häßlich", "schön"])
    assert adj.read(tmp_path / "votes.jsonl", encoding=how).workers.ids() == ["Zoë"]
    assert len(adj.encode(plain, tmp_path / "encoded", encoding=how)) == 2


def test_an_encoding_that_does_not_fit(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_bytes(MARKS.encode("utf-8-sig"))
    for how, said in (
        ("cp1252", "byte order mark of UTF-8"),
        ("rot13", "like 'cp1252'"),
        ("nope", "like 'cp1252'"),
        (7, "is 7: give"),
    ):
        with pytest.raises(adj.AdjudgeError, match=said):
            adj.read(path, encoding=how)
    path.write_bytes(MARKS.encode("latin-1"))
    with pytest.raises(adj.InputError, match="is not valid ASCII"):
        adj.read(path, encoding="ascii")
    for source in ([(1, 2, 3)], io.StringIO(MARKS)):
        with pytest.raises(adj.OptionError, match="encoding"):
            adj.read(source, encoding="latin-1")
