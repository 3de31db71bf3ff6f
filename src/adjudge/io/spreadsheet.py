"""Spreadsheets (.xlsx): read whole, and written in the memory of one row; the libraries that do it are extras."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

import polars as pl

from adjudge.errors import InputError, OptionError, one_line, quote

MAX_SHEET_ROWS: Final = (1 << 20) - 1  # in addition to the header
MAX_SHEET_COLUMNS: Final = 1 << 14
MAX_CELL_CHARACTERS: Final = 32_767
MAX_EXACT_NUMBER: Final = 10**15  # a spreadsheet shows fifteen digits: longer ids are text
MISSING_WRITER: Final = "a spreadsheet needs the library xlsxwriter: pip install 'adjudge[excel]', or write .csv"


def read_sheet(path: Path, header: bool, **more: Any) -> pl.DataFrame:
    """Return the first sheet of a spreadsheet; the library that reads it is an extra."""
    logging.getLogger("fastexcel").addHandler(logging.NullHandler())  # it warns of every column that is empty
    try:
        return cast(pl.DataFrame, pl.read_excel(path, engine="calamine", has_header=header, raise_if_empty=False, **more))
    except (ImportError, ModuleNotFoundError) as error:
        raise InputError(
            f"{path.name} is a spreadsheet, which needs the library fastexcel: pip install 'adjudge[excel]', or save it as CSV"
        ) from error
    except Exception as error:  # fastexcel has errors of its own, with no base in common with others
        raise InputError(f"cannot read {path}: it is not a spreadsheet ({one_line(error, 200)})") from error


def sheet_columns(path: Path) -> tuple[str, ...]:
    """Return the columns of a spreadsheet; none where it cannot be read, which reading will say."""
    try:
        return tuple(read_sheet(path, header=True, read_options={"n_rows": 1}).columns)
    except InputError:
        return ()


def require_writer(path: Path) -> None:
    """Raise if the library that writes spreadsheets is not installed."""
    if find_spec("xlsxwriter") is None:
        raise OptionError(f"cannot write {path}: {MISSING_WRITER}")


def write_sheet(batches: Iterable[pl.DataFrame], path: Path, aside: Path) -> None:
    """Write frames one after the other into the sheet of one file at `aside`; errors name `path`, the target.

    Text is never a formula or a link.
    """
    xlsxwriter: Any = import_module("xlsxwriter")  # it has no types
    plain = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    coming = iter(batches)
    first = next(coming, pl.DataFrame())
    if first.width > MAX_SHEET_COLUMNS:
        raise InputError(f"cannot write {path}: {first.width} columns, and a spreadsheet has {MAX_SHEET_COLUMNS}: write .csv")
    with xlsxwriter.Workbook(aside, {"constant_memory": True, **plain}) as book:
        sheet, row = book.add_worksheet(), 0
        for column, name in enumerate(first.columns):
            sheet.write_string(0, column, _fitting(name, path))
        for batch in chain([first], coming):
            if row + len(batch) > MAX_SHEET_ROWS:
                raise InputError(f"cannot write {path}: a spreadsheet has {MAX_SHEET_ROWS} rows at most: write .csv or .parquet")
            for values in batch.iter_rows():
                row += 1
                for column, value in enumerate(values):
                    _write_cell(sheet, row, column, value, path)


def _write_cell(sheet: Any, row: int, column: int, value: object, path: Path) -> None:
    if value is None or value != value:
        return
    if isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif isinstance(value, int | float) and abs(value) < MAX_EXACT_NUMBER:
        sheet.write_number(row, column, value)
    else:
        sheet.write_string(row, column, _fitting(str(value), path))


def _fitting(text: str, path: Path) -> str:
    """Return a text that a cell can hold."""
    if len(text) > MAX_CELL_CHARACTERS:
        beyond = f"has {len(text)} characters, beyond {MAX_CELL_CHARACTERS}"
        raise InputError(f"cannot write {path}: the text {quote(text[:40])} {beyond}: write .csv")
    return text
