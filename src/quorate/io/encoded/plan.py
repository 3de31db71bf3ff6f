"""How much memory there is, and how votes are divided so that it suffices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from quorate.errors import InputError, OptionError, shown
from quorate.io.files import PACKED, format_of
from quorate.io.memory import available, gib

UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
FLOOR: Final = 300 * 10**6  # what Python, polars and their buffers take before any vote
PER_VOTE: Final = 100  # bytes a vote of the partition at hand takes while it is sorted
SHORTEST: Final = 16  # bytes of a line of text: few votes take less
UNPACKED: Final = 8  # how far packed text unfolds
SHARD: Final = 1 << 22  # votes in a shard


@dataclass(frozen=True)
class Plan:
    """How votes are divided: none of this changes a byte of the outcome but `shard_votes`."""

    bits: int = 6  # 2^bits partitions
    partition_votes: int = 1 << 22  # a larger partition is split
    held_votes: int = 1 << 20  # votes held in memory on their way to partitions
    shard_votes: int = SHARD

    @classmethod
    def of(cls, memory: int, votes: int | None) -> Plan:
        """Returns the plan for about so many votes in so much memory."""
        most = min(max((memory - FLOOR) // PER_VOTE, 1 << 16), 1 << 22)
        bits = 6 if votes is None else min(max((2 * votes // most).bit_length(), 0), 10)
        return cls(bits=bits, partition_votes=most, held_votes=min(most, 1 << 21))


def memory_of(memory: str | int | None) -> int:
    """Returns an amount of memory in bytes; without one, half of what the machine can give.

    >>> memory_of("2GB"), memory_of("1.5 GiB"), memory_of(10**9)
    (2000000000, 1610612736, 1000000000)
    """
    if memory is None:
        return max(available() // 2, FLOOR)
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]i?)?b?\s*", str(memory).lower())
    if found is None or isinstance(memory, bool):
        raise OptionError(f"memory is {shown(memory)}: give a size like '2GB' or '500MB', or a number of bytes")
    size = int(float(found[1]) * UNITS[found[2] or ""])
    if size < FLOOR:
        raise OptionError(f"memory is {shown(memory)}: give at least {gib(FLOOR)}, which goes before the first vote is read")
    return size


def votes_in(paths: Sequence[Path]) -> int:
    """Returns about how many votes these files hold, rather too many than too few: Parquet says, of others the size does."""
    total = 0
    for path in paths:
        try:
            if format_of(path).reader == "parquet":
                total += pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
            else:
                size = path.stat().st_size
                total += size * (UNPACKED if path.suffix.lower() in PACKED else 1) // SHORTEST
        except (
            OSError,
            InputError,
            pl.exceptions.PolarsError,
            pl.exceptions.PanicException,
        ):  # whoever reads the file will say what is wrong with it
            continue
    return total
