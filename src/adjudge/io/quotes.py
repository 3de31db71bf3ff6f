"""Describe misplaced quotes in a text file, for messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

QUOTED_TEXT: Final = re.compile('(?:[^"]|"")*')


def quote_fault(lines: Iterable[str], separator: str) -> str | None:
    """Return the first misplaced quote of a file and the remedy; None if all quotes are in place.

    >>> quote_fault(["task;worker;label", 't1;ann;he said "no'], ";")
    'line 2 has a quote (") inside a field that is not quoted: remove it, or quote the whole field and double it ("")'
    >>> quote_fault(['t1;"ann;yes', 't2;"bob";no'], ";")
    'line 1: a quote (") opens a field, and the next quote is in line 2: remove it, or close it in line 1'
    """
    opened = 0  # line of the quote that is open
    for number, end_of_line in enumerate(lines, 1):
        line, at = end_of_line.rstrip("\r\n"), 0
        while at <= len(line):
            if opened or line.startswith('"', at):
                start, at = opened or number, QUOTED_TEXT.match(line, at if opened else at + 1).end()  # type: ignore[union-attr]
                if at == len(line):
                    opened = start
                    break
                opened, at = 0, at + 1
                if at == len(line) or line.startswith(separator, at):
                    at += len(separator)
                elif start < number:
                    where = f"and the next quote is in line {number}: remove it, or close it in line {start}"
                    return f'line {start}: a quote (") opens a field, {where}'
                else:
                    return f'line {number} has text after a closing quote ("): double each quote inside a quoted field ("")'
                continue
            end = line.find(separator, at)
            end = len(line) if end < 0 else end
            if '"' in line[at:end]:
                remedy = 'remove it, or quote the whole field and double it ("")'
                return f'line {number} has a quote (") inside a field that is not quoted: {remedy}'
            at = end + len(separator)
    return f'line {opened}: a quote (") opens a field and never closes: remove it, or close it' if opened else None
