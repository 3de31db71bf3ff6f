"""Spreadsheets that are written: text stays text, ids keep all digits, and what does not fit is an error."""

import polars as pl
import pytest

import adjudge as adj
from adjudge.io import spreadsheet
from adjudge.io.write import write_batches, write_frame

pytest.importorskip("xlsxwriter")


def test_cells_come_back(tmp_path):
    """Formulas and addresses are text, names that differ only in case are two columns, and long ids are exact."""
    path = tmp_path / "out.xlsx"
    frame = pl.DataFrame({"Yes": ["=1+1", "https://x.org", "007"], "yes": [0.5, None, 2.0], "id": [2**60, 2**60 + 1, 2**60 + 2]})
    write_frame(frame, path)
    back = pl.read_excel(path)
    assert back["Yes"].to_list() == frame["Yes"].to_list()
    assert back["id"].to_list() == [str(n) for n in frame["id"]]
    assert back.columns[:2] == ["Yes", "yes"]


def test_labels_and_sets(tmp_path):
    crowd = adj.simulate(tasks=30, workers=5, seed=1)
    labels = adj.aggregate(crowd.votes).labels
    write_batches([labels[:10], labels[10:]], tmp_path / "labels.xlsx")
    assert pl.read_excel(tmp_path / "labels.xlsx")["label"].to_list() == labels["label"].to_list()


def test_what_does_not_fit_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "out.xlsx"
    path.write_text("old")
    with pytest.raises(adj.InputError, match="has 40000 characters"):
        write_frame(pl.DataFrame({"text": ["x" * 40_000]}), path)
    monkeypatch.setattr(spreadsheet, "MAX_SHEET_ROWS", 2)
    with pytest.raises(adj.InputError, match="a spreadsheet has 2 rows at most"):
        write_frame(pl.DataFrame({"n": [1, 2, 3]}), path)
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["out.xlsx"]
