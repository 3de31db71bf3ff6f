"""Settings checked against a table: one line of rules per option, one message per fault."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from adjudge.errors import OptionError, shown, unknown

# The choices of options. Type checkers read them here, and `Choice(get_args(…))` checks them at run time.
ModelName: TypeAlias = Literal[
    "auto",
    "mv",
    "ds",
    "fds",
    "hybrid",
    "one-coin",
    "iwmv",
    "glad",
    "wawa",
    "zbs",
    "goldmv",
    "catd",
    "la",
    "zc",
    "lfc",
    "ibcc",
    "ebcc",
    "mace",
    "ordinal",
    "kos",
    "mmsr",
]
StreamedModel: TypeAlias = Literal["auto", "ds", "fds", "hybrid"]
EngineName: TypeAlias = Literal["auto", "reference", "cpu", "disk", "cuda", "spark"]  # `register` adds others: any text is one
Duplicates: TypeAlias = Literal["all", "last", "first", "error"]
Kept: TypeAlias = Literal["last", "all"]  # of a worker's votes on a task in a stream
Ties: TypeAlias = Literal["hash", "prior"]
Stop: TypeAlias = Literal["priors", "labels"]
Level: TypeAlias = Literal["nominal", "ordinal", "interval"]  # of measurement
TraceDetail: TypeAlias = Literal["full", "light"]
Place: TypeAlias = Literal["anywhere", "process", "memory"]  # where a model runs, or an engine has its counts and votes
Confidence: TypeAlias = Literal["honest", "posterior"]
PanelKind: TypeAlias = Literal["auto", "judges", "votes"]  # what a panel is made of
ClassPriors: TypeAlias = Literal["uniform", "estimated"]
Strength: TypeAlias = float | Literal["auto"]
SET_SEPARATOR: Final = "|"  # between the options of a set written as text


class Defaults(NamedTuple):
    """What is done where nothing is said: the fields of models, `aggregate` and the command line take it from here."""

    model: ModelName = "auto"
    engine: EngineName = "auto"
    duplicates: Duplicates = "all"
    seed: int = 0
    ties: Ties = "hash"
    tol: float = 1e-4
    max_iter: int = 100
    smoothing: float = 0.0
    strength: Strength = 0.0
    stop: Stop = "priors"
    switch: float = 0.005
    accelerate: bool = False
    confidence: Confidence = "honest"


DEFAULTS: Final = Defaults()


class StreamedDefaults(NamedTuple):
    """The same of streams. The docstrings of `Online` and `aggregate` say why three are others."""

    model: StreamedModel = "fds"
    duplicates: Kept = "last"
    seed: int = DEFAULTS.seed
    strength: float = 1.0
    confidence: Confidence = DEFAULTS.confidence


STREAMED_DEFAULTS: Final = StreamedDefaults()

# Other names of models, in lower case without spaces and punctuation, as people know them from papers and libraries.
ALIASES: Final[Mapping[str, str]] = {
    "automodel": "auto",
    "majority": "mv",
    "majorityvote": "mv",
    "majorityvoting": "mv",
    "dawidskene": "ds",
    "fastdawidskene": "fds",
    "fastds": "fds",
    "hybriddawidskene": "hybrid",
    "hybridds": "hybrid",
    "onecoindawidskene": "one-coin",
    "onecoinds": "one-coin",
    "weightedmajority": "iwmv",
    "weightedmajorityvote": "iwmv",
    "iterativeweightedmajorityvoting": "iwmv",
    "workeragreementwithaggregate": "wawa",
    "zerobasedskill": "zbs",
    "goldmajority": "goldmv",
    "goldmajorityvote": "goldmv",
    "confidenceawaretruthdiscovery": "catd",
    "lightaggregation": "la",
    "lightweightaggregation": "la",
    "zencrowd": "zc",
    "learningfromcrowds": "lfc",
    "independentbayesianclassifiercombination": "ibcc",
    "enhancedbayesianclassifiercombination": "ebcc",
    "multiannotatorcompetenceestimation": "mace",
    "kargerohshah": "kos",
} | {re.sub("[^a-z]", "", name): name for name in get_args(ModelName)}


def model_name(given: Any) -> Any:
    """Return the name of the model that a text means, in any case and with any punctuation; anything else as it is.

    >>> model_name("Dawid-Skene"), model_name("FDS"), model_name("one_coin"), model_name("best")
    ('ds', 'fds', 'one-coin', 'best')
    """
    return ALIASES.get(re.sub("[^a-z]", "", given.lower()), given) if isinstance(given, str) else given


# The most pseudo-votes (or weight) that may be asked for: beside more of them, single votes would be lost in rounding.
MOST_VOTES = 1e12


@dataclass(frozen=True)
class Number:
    """A number between `least` and `most`, whole where asked; or one of a few words."""

    least: float = -math.inf
    most: float = math.inf
    whole: bool = False
    words: tuple[str, ...] = ()

    def check(self, name: str, value: object) -> None:
        """Raise unless the value is such a number."""
        if isinstance(value, str) and value in self.words:
            return
        if not self._holds(value):
            what = "a whole number" if self.whole else "a number"
            bound = f" of at least {self.least:g}" if self.least > -math.inf else ""
            bound += f" and at most {self.most:g}" if self.most < math.inf else ""
            words = "".join(f", or {word!r}" for word in self.words)
            raise OptionError(f"{name} is {shown(value)}: give {what}{bound}{words}")

    def _holds(self, value: object) -> bool:
        kind = Integral if self.whole else Real  # NumPy's numbers are such, too
        if isinstance(value, bool) or not isinstance(value, kind):
            return False
        number: Any = value
        try:
            finite = self.whole or math.isfinite(float(number))
        except OverflowError:  # a whole number, or a fraction, beyond all floats
            return False
        return finite and bool(self.least <= number <= self.most)


@dataclass(frozen=True)
class Choice:
    """One of a few names."""

    names: tuple[str, ...]

    def check(self, name: str, value: object) -> None:
        """Raise unless the value is one of the names."""
        if not isinstance(value, str) or value not in self.names:
            raise unknown(name, value, self.names)


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def check(self, name: str, value: object) -> None:
        """Raise unless the value is one of them."""
        if not isinstance(value, bool):
            raise OptionError(f"{name} is {shown(value)}: give True or False")


def plain(value: object) -> object:
    """Return a number as Python's own int or float, and anything else as it is.

    >>> from fractions import Fraction
    >>> plain(Fraction(1, 4)), plain(3), plain("auto")
    (0.25, 3, 'auto')
    """
    if type(value) is bool:  # a whole number to Python
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


@dataclass(frozen=True)
class Order:
    """Labels from the lowest to the highest grade, or None where they order themselves."""

    def check(self, name: str, value: object) -> None:
        """Raise unless the value is a list of distinct labels, or None."""
        from adjudge.data.grades import check_order

        if value is not None:
            check_order(value, name)


Rules = Mapping[str, Number | Choice | Order | Flag]


def check(settings: Mapping[str, object], rules: Rules) -> None:
    """Raise an `OptionError` for the first setting that breaks its rule."""
    for name, rule in rules.items():
        rule.check(name, settings[name])
