"""What `rates` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl

from adjudge.data.understood import Understood
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import FrameKind
from adjudge.errors import listed
from adjudge.evaluation.rates.differences import Difference, Needed
from adjudge.evaluation.rates.shares import Floats
from adjudge.io import frames
from adjudge.io.frames import Frame
from adjudge.io.ids import column
from adjudge.results.higher import load
from adjudge.results.plotting import Chart, Theme

MAX_NAMED: Final = 3  # groups in a sentence
DIGITS: Final = 9  # beyond which sums may differ


@dataclass(frozen=True, eq=False)
class GroupRate:
    """The shares of labels in one group."""

    tasks: int
    gold: int  # tasks with a known label
    share: Floats  # [K]
    low: Floats
    high: Floats
    naive: Floats  # [K] shares of the labels that the fit gives
    method: str  # votes, ppi, rogan-gladen or gold
    needed: Needed


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Rates:
    """The true share of each label in each group, with intervals. `print` says what they rest on.

    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=300, workers=9, labels=2, label_weights=[3, 1], skill=0.85, seed=2)
    >>> found = adj.rates(crowd.votes)
    >>> found
    Rates(1 group, 2 labels, 300 tasks, by votes)
    >>> found.rates.columns
    ['group', 'label', 'share', 'low', 'high', 'tasks', 'gold', 'naive', 'method']
    """

    groups: Vocabulary
    labels: Vocabulary
    found: Sequence[GroupRate]  # one per group
    compared: Sequence[Difference]
    confidence: float
    facts: Mapping[str, Any]
    understood: Understood | None = None  # what reading made of the votes' source
    frame_kind: FrameKind = "polars"

    def __repr__(self) -> str:
        tasks, number = sum(one.tasks for one in self.found), len(self.found)
        methods = listed(dict.fromkeys(one.method for one in self.found))
        return f"Rates({number} group{'' if number == 1 else 's'}, {len(self.labels)} labels, {tasks} tasks, by {methods})"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        from adjudge.evaluation.cards import of_rates

        return of_rates(self)

    def plot(self, *, label: object = None, theme: Theme = "light") -> Chart:
        """Return shares with their intervals, a line per group; needs the extra `report`.

        - `label`: the label whose share is shown; by default every label, or the last of two.
        - `theme`: "light", "dark" or "none", which leaves the look to Altair's own themes.
        """
        return load("adjudge.report.plots:rates")(self, label=label, theme=theme)

    @cached_property
    def rates(self) -> Frame:
        """A line per group and label: group, label, share, low, high, tasks, gold, naive, method.

        `share` is the estimated true share, and the truth is to lie between `low` and `high` as often as `confidence` says
        (docs/rates.md has how often it did). `tasks` have votes, and `gold` of them a known label. `naive` is the share of the
        labels as the fit gives them, which judges' errors distort. `method` is "votes" (by votes alone), "ppi" (corrected by the
        group's own gold), "rogan-gladen" (by the gold of all groups) or "gold" (every label is known).
        """
        return self._native(self.rates_frame())

    @cached_property
    def differences(self) -> Frame:
        """A line per two groups and label: group, other, label, difference (of group less other), low, high, p_value, pairs.

        `pairs` is the number of items that both groups have: with `item` given, luck with these cancels out. `p_value` is the
        probability of a difference as large where there is none; many of them at once need a correction, which they do not have.
        """
        return self._native(self.differences_frame())

    @cached_property
    def gold_needed(self) -> Frame:
        """A line per group: group, label (with the widest interval), half_width, gold, more, why.

        `more` is how many known labels more, of tasks drawn at random from the group, would halve that interval; null where no
        number of them would, as the group has too few tasks.
        """
        return self._native(self.gold_needed_frame())

    def rates_frame(self) -> pl.DataFrame:
        """Return `rates` as a polars frame, whatever the caller's kind."""
        k, n = len(self.labels), len(self.found)
        numbers = {
            name: np.concatenate([getattr(one, name) for one in self.found]).round(DIGITS)
            for name in ("share", "low", "high", "naive")
        }
        return pl.DataFrame(
            {
                "group": column(self.groups, np.repeat(np.arange(n), k)),
                "label": column(self.labels, np.tile(np.arange(k), n)),
                **{name: numbers[name] for name in ("share", "low", "high")},
                "tasks": np.repeat([one.tasks for one in self.found], k),
                "gold": np.repeat([one.gold for one in self.found], k),
                "naive": numbers["naive"],
                "method": np.repeat([one.method for one in self.found], k),
            },
            schema_overrides={"method": pl.String},
        )

    def differences_frame(self) -> pl.DataFrame:
        """Return `differences` as a polars frame, whatever the caller's kind."""
        k = len(self.labels)
        one, other = (np.repeat([getattr(two, name) for two in self.compared], k).astype(np.int64) for name in ("one", "other"))
        numbers = {
            out: np.concatenate([np.zeros(0), *(getattr(two, name) for two in self.compared)]).round(DIGITS)
            for out, name in (("difference", "value"), ("low", "low"), ("high", "high"), ("p_value", "p_value"))
        }
        return pl.DataFrame(
            {
                "group": column(self.groups, one),
                "other": column(self.groups, other),
                "label": column(self.labels, np.tile(np.arange(k), len(self.compared))),
                **numbers,
                "pairs": np.repeat([two.pairs for two in self.compared], k).astype(np.int64),
            }
        )

    def gold_needed_frame(self) -> pl.DataFrame:
        """Return `gold_needed` as a polars frame, whatever the caller's kind."""
        needed = [one.needed for one in self.found]
        return pl.DataFrame(
            {
                "group": column(self.groups),
                "label": column(self.labels, np.array([one.label for one in needed], np.int64)),
                "half_width": np.array([one.half_width for one in needed]).round(DIGITS),
                "gold": np.array([one.gold for one in self.found], np.int64),
                "more": pl.Series([one.more for one in needed], dtype=pl.Int64),
                "why": pl.Series([one.why for one in needed], dtype=pl.String),
            }
        )

    def sentences(self) -> list[str]:
        """Return what the figures rest on, as sentences."""
        facts, methods = self.facts, {one.method for one in self.found}
        whose = "the tasks that these are a sample of" if facts["sample"] else "these very tasks"
        out = [f"{100 * self.confidence:g}% intervals of the shares among {whose}; labels by {facts['model']}"]
        if "votes" in methods:
            out.append("by votes alone, intervals allow for some errors that all judges share; only known labels show them")
        if "rogan-gladen" in methods:
            out.append("rogan-gladen takes the known labels of all groups, and judges to err alike in all of them")
        if facts["gold_unused"]:
            out.append(f"{facts['gold_unused']} known labels are of tasks without votes: they are not used")
        if facts["without_group"]:
            out.append(f"{facts['without_group']} of {facts['tasks']} tasks are in no group, and left out")
        if facts["empty_groups"]:
            number, some = len(facts["empty_groups"]), listed(facts["empty_groups"], MAX_NAMED)
            out.append(f"{number} group{'' if number == 1 else 's'} without votes left out: {some}")
        if facts["few_gold"]:
            some = listed(facts["few_gold"], MAX_NAMED)
            out.append(f"fewer than {facts['min_gold']} known labels, which are too few to correct by: {some}")
        if facts["not_compared"]:
            out.append(facts["not_compared"])
        return out

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain Python values, ready for JSON."""
        return {
            "confidence": self.confidence,
            "rates": self.rates_frame().to_dicts(),
            "differences": self.differences_frame().to_dicts(),
            "gold_needed": self.gold_needed_frame().to_dicts(),
            "facts": dict(self.facts),
            "sentences": self.sentences(),
        }

    def _native(self, frame: pl.DataFrame) -> Frame:
        return frames.native(frame, self.frame_kind)
