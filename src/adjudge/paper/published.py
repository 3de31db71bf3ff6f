"""The paper's own figures: its tables, and Figure 1 as curves over the number of annotators."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal

Measure = Literal["accuracy", "seconds", "iterations"]
# Our names and the paper's, in the order of its Table 1; DAiSEE's votes were never published.
PAPER_SET_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"adult2": "Adult2", "bm": "BM", "trec2010": "TREC2010", "labelme": "LabelMe", "rte": "RTE", "sp": "SP"}
)
METHODS: Final[Mapping[str, str]] = MappingProxyType(
    {"mv": "MV", "ds": "DS", "fds": "FDS", "hybrid": "Hybrid", "iwmv": "IWMV", "glad": "GLAD"}
)
EM_METHODS: Final = ("ds", "fds", "hybrid")  # those of Tables 2, 3 and 5
SPEEDUPS: Final = (("fds_over_ds", "ds", "fds"), ("fds_over_iwmv", "iwmv", "fds"), ("hybrid_over_ds", "ds", "hybrid"))
SWITCH: Final = (0.45, 0.75)  # share of the Hybrid's iterations before its switch


@cache
def figures() -> dict[str, Any]:
    """Return everything the paper prints, as `figures.json` holds it."""
    text = files("adjudge.paper").joinpath("figures.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def annotators(name: str) -> int:
    """Return the most annotators per question that Table 1 gives a set.

    >>> annotators("rte")
    10
    """
    return int(figures()["table1"][PAPER_SET_NAMES[name]]["annotators"])


def questions(name: str) -> int:
    """Return the number of questions that Table 1 gives a set."""
    return int(figures()["table1"][PAPER_SET_NAMES[name]]["questions"])


def is_binary(name: str) -> bool:
    """Return whether a set has two options; the paper runs GLAD on these alone."""
    return int(figures()["table1"][PAPER_SET_NAMES[name]]["options"]) == 2


def curve(measure: Measure, name: str, model: str) -> list[float] | None:
    """Return a curve of Figure 1, from one annotator on; None if the paper has none.

    >>> curve("accuracy", "bm", "ds")
    [0.685, 0.68, 0.699, 0.698, 0.712]
    """
    found: list[float] | None = figures()["figure1"][measure][PAPER_SET_NAMES[name]].get(METHODS[model])
    return found


def point(measure: Measure, name: str, model: str, k: int) -> float | None:
    """Return Figure 1 at k annotators; None if the paper has nothing."""
    found = curve(measure, name, model)
    return None if found is None else found[k - 1]
