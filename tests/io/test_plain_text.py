"""Plain text is read as polars reads it, and anything else is left to polars."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adjudge as adj
from adjudge.io import files
from adjudge.io.columns import VOTE_ROLES
from adjudge.kernels.cpu import compiled

COLUMNS = {"task": "task", "label": "label"}
FIELDS = st.sampled_from(
    ["", "a", "t1760285", "eleven byte", "twelve bytes", "more than twelve bytes", "é", "日本語", " ", "\0", "\r", '"', '"x"']
)
LINES = st.one_of(
    st.lists(FIELDS, min_size=3, max_size=3).map(",".join), st.sampled_from(["", "\r", ",,", "a,b", "a,b,c,d", "x"])
)
TEXTS = st.tuples(st.lists(LINES, max_size=30), st.sampled_from(["\n", "\r\n"]), st.booleans())

core = compiled()
pytestmark = pytest.mark.skipif(not hasattr(core, "PlainCsv"), reason="the core does not read text here")


def scan(path):
    return pl.scan_csv(path, infer_schema=False, glob=False).select(pl.col(c).alias(r) for r, c in COLUMNS.items())


def header_of(path):
    return files._plain_header(path, path.read_bytes(), files.FILE_FORMATS[".csv"])


def tables(path, piece=1 << 20):
    """Return the tables of the plain lines, and whether these are all."""
    with path.open("rb") as file:
        reader = core.PlainCsv(file.fileno(), ",", 3, [0, 2], list(COLUMNS), 2, piece)
        return [pl.DataFrame(table) for table in iter(reader.next, None)], reader.is_whole


def read(path, piece=1 << 20):
    """Return the plain lines, and whether these are all."""
    found, is_whole = tables(path, piece)
    return pl.concat([pl.DataFrame(schema=dict.fromkeys(COLUMNS, pl.String)), *found]), is_whole


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS)
@pytest.mark.parametrize("piece", [1 << 6, 1 << 20])
def test_as_polars(tmp_path, piece, text):
    lines, end, is_ended = text
    path = tmp_path / "votes.csv"
    path.write_bytes(end.join(["task,worker,label", *lines, *([""] if is_ended else [])]).encode())
    table, is_whole = read(path, piece)
    if is_whole:
        expected = scan(path).filter(~pl.all_horizontal(pl.all().is_null())).collect()
        assert table.equals(expected)
    else:
        assert '"' in str(lines) or any(line.removesuffix("\r").count(",") != 2 for line in lines)


@pytest.mark.parametrize("odd", ['t9,"w,9",l1', "t9,w9", 't9,w9,"l1"'])
def test_rest_by_polars(tmp_path, odd):
    """Lines that are not plain end the plain ones; none is lost, and none is read twice."""
    path = tmp_path / "votes.csv"
    plain = [f"t{n},w{n % 7},l{n % 3}" for n in range(300_000)]
    path.write_text("\n".join(["task,worker,label", *plain, "", odd, "last,w1,l1"]))
    found = pl.concat(files.batches(path, dict.fromkeys(VOTE_ROLES)))
    expected = pl.read_csv(path, infer_schema=False).filter(~pl.all_horizontal(pl.all().is_null()))
    assert found.equals(expected)


def test_errors_name_the_line(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_bytes(b"task,worker,label\n" + b"t1,w1,l1\n" * 50_000 + b"t1,w1,l1,more\n")
    with pytest.raises(adj.InputError, match="line 50002 has 4 fields, the header 3"):
        adj.read(path)
    path.write_bytes(b"task,worker,label\n" + b"t1,w1,l1\n" * 50_000 + b"t1,w1,l\xff\n")
    with pytest.raises(adj.InputError, match="line 50002 is not valid UTF-8"):
        adj.read(path)


@pytest.mark.parametrize(
    "bad", [b"\x80", b"\xc0\xaf", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80", b"\xe2\x82"]
)
def test_not_utf8(tmp_path, bad):
    path = tmp_path / "votes.csv"
    path.write_bytes(b"task,worker,label\nt1,w1,12345678" + bad + b"\n")
    assert read(path)[1] is False


@pytest.mark.parametrize(
    "character", ["\x7f", "\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"]
)
def test_utf8(tmp_path, character):
    path = tmp_path / "votes.csv"
    path.write_bytes(f"task,worker,label\nt1,w1,{character}\n".encode())
    assert read(path)[0].rows() == [("t1", character)]


@pytest.mark.parametrize(
    "header", [b"task,task,label", b"task,,label", b'"task",worker,label', b"", b"task,w\x01,label", b"task,\xff,l"]
)
def test_odd_headers(tmp_path, header):
    path = tmp_path / "votes.csv"
    path.write_bytes(header + b"\nt1,w1,l1\n")
    assert header_of(path) is None


def test_tables_outlive_reader(tmp_path):
    """Memory is used again only once nothing points into it."""
    path = tmp_path / "votes.csv"
    path.write_text("task,worker,label\n" + "".join(f"a long name of task {n},w1,l1\n" for n in range(100_000)))
    kept, _ = tables(path)
    assert len(kept) > 1
    assert pl.concat(kept)["task"].to_list() == [f"a long name of task {n}" for n in range(100_000)]


def test_byte_order_mark(tmp_path):
    path = Path(tmp_path, "votes.csv")
    path.write_bytes("\ufefftask,worker,label\r\nt1,w1,cat\r\n".encode())
    assert read(path)[0].rows() == [("t1", "cat")]


def test_lines_are_numbered_with_blank_ones(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("ann,bob\ncat,dog\n\ndog,dog\n")
    assert adj.read(path, wide=True, task="").tasks.ids() == [0, 2]
