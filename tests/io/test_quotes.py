"""Misplaced quotes in a text file: the message names the line in which they stand, and the remedy."""

import gzip

import pytest

import adjudge as adj
from adjudge.io import files
from adjudge.io.quotes import quote_fault

LINES = ["item;worker;label;comment;when", *(f"t{n:04d};w{n % 7};ham;ok;2026-10-05 13:{n % 60:02d}" for n in range(2000))]
FAULTS = {
    'he said "no': r'line 501 has a quote \("\) inside a field that is not quoted: remove it',
    '"he said no': r'line 501: a quote \("\) opens a field, and the next quote is in line 701: remove it, or close it in line 501',
    '"yes" or no': r'line 501 has text after a closing quote \("\): double each quote',
}


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@pytest.mark.parametrize("text", FAULTS)
def test_a_stray_quote_is_named_with_its_line(tmp_path, monkeypatch, text, suffix):
    monkeypatch.setattr(files, "START_BYTES", 1 << 12)  # the fault is beyond the first look
    lines = [*LINES]
    lines[500] = f"t0499;w1;ham;{text};2026-10-05 13:29"
    lines[700] = 't0699;w1;ham;"a; b";2026-10-05 13:29'
    path, whole = tmp_path / f"votes{suffix}", "\n".join(lines).encode()
    path.write_bytes(gzip.compress(whole) if suffix.endswith("gz") else whole)
    with pytest.raises(adj.InputError, match=FAULTS[text]):
        adj.read(path)


def test_a_quote_that_never_closes_is_named_where_it_opens(tmp_path):
    lines = [*LINES]
    lines[1990] = 't1989;w1;ham;"no;2026-10-05 13:29'
    (tmp_path / "votes.csv").write_text("\n".join(lines))
    with pytest.raises(adj.InputError, match=r"line 1991: a quote \(\"\) opens a field and never closes"):
        adj.read(tmp_path / "votes.csv")


def test_quotes_in_place_have_no_fault():
    assert quote_fault(['a,"b, ""c""",d\r\n', '"two\n', 'lines",e,""\n', ",,\n"], ",") is None
