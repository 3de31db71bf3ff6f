"""Settings checked against a table: one line of rules per option, one message per fault."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict, get_args

from adjudge.errors import OptionError, choice_error, quote

# The choices of options. Type checkers read them here, and `Choice(get_args(…))` checks them at run time.
OwnModel: TypeAlias = Literal["auto", "mv", "ds", "fds", "hybrid", "one-coin", "iwmv", "glad", "ordinal", "panel"]
FieldModel: TypeAlias = Literal["wawa", "zbs", "goldmv", "catd", "la", "zc", "lfc", "ibcc", "ebcc", "mace", "kos", "mmsr"]
ModelName: TypeAlias = Literal[OwnModel, FieldModel]
StreamedModel: TypeAlias = Literal["auto", "ds", "fds", "hybrid"]
EngineName: TypeAlias = Literal["auto", "reference", "cpu", "disk", "cuda", "spark"]  # `register` adds others: any text is one
Duplicates: TypeAlias = Literal["all", "last", "first", "error"]
Kept: TypeAlias = Literal["last", "all"]  # of a worker's votes on a task in a stream
Ties: TypeAlias = Literal["hash", "prior"]
Stop: TypeAlias = Literal["priors", "labels"]
ScaleName: TypeAlias = Literal["nominal", "ordinal", "interval"]  # what labels are: names, grades or numbers
TraceDetail: TypeAlias = Literal["full", "light"]
Place: TypeAlias = Literal["anywhere", "process", "memory"]  # where a model runs, or an engine has its counts and votes
Confidence: TypeAlias = Literal["honest", "posterior"]
PanelKind: TypeAlias = Literal["auto", "judges", "votes"]  # what a panel is made of
ClassPriors: TypeAlias = Literal["uniform", "estimated"]
Strength: TypeAlias = float | Literal["auto"]
SET_SEPARATOR: Final = "|"  # between the options of a set written as text


class Defaults(NamedTuple):
    """Default values, shared by the fields of models, `aggregate` and the command line."""

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


class ReadOptions(TypedDict, total=False):
    """The options of `adj.read`, which explains them. Every function that reads votes takes them all."""

    task: str | None
    worker: str | None
    label: str | None
    labels: Iterable[object] | None
    duplicates: Duplicates
    wide: bool
    count: str | None
    weight: str | None
    abstain: Iterable[object] | object | None
    normalize: bool
    strict: bool
    separator: str | None
    encoding: str | None
    header: bool
    set_separator: str
    format: str
    question: str | None
    predictions: bool
    show: Iterable[str] | str | None


# Other names of models, in lower case without spaces and punctuation, as people know them from papers and libraries.
OTHER_NAMES: Final[Mapping[ModelName, str]] = {
    "auto": "automodel",
    "mv": "majority majorityvote majorityvoting",
    "ds": "dawidskene",
    "fds": "fastdawidskene fastds",
    "hybrid": "hybriddawidskene hybridds",
    "one-coin": "onecoindawidskene onecoinds",
    "iwmv": "weightedmajority weightedmajorityvote iterativeweightedmajorityvoting",
    "wawa": "workeragreementwithaggregate",
    "zbs": "zerobasedskill",
    "goldmv": "goldmajority goldmajorityvote",
    "catd": "confidenceawaretruthdiscovery",
    "la": "lightaggregation lightweightaggregation",
    "zc": "zencrowd",
    "lfc": "learningfromcrowds",
    "ibcc": "independentbayesianclassifiercombination",
    "ebcc": "enhancedbayesianclassifiercombination",
    "mace": "multiannotatorcompetenceestimation",
    "kos": "kargerohshah",
    "panel": "panelstack",
}
ALIASES: Final = {re.sub("[^a-z]", "", name): name for name in get_args(ModelName)} | {
    other: name for name, others in OTHER_NAMES.items() for other in others.split()
}


def resolve_model_name(given: Any) -> Any:
    """Return the name of the model that a text means, in any case and with any punctuation; anything else as it is.

    >>> resolve_model_name("Dawid-Skene"), resolve_model_name("FDS"), resolve_model_name("one_coin"), resolve_model_name("best")
    ('ds', 'fds', 'one-coin', 'best')
    """
    return ALIASES.get(re.sub("[^a-z]", "", given.lower()), given) if isinstance(given, str) else given


# The largest accepted number of pseudo-votes (or weight): next to more of them, single votes would be lost in rounding.
MOST_VOTES = 1e12


# Options of a model, and of an engine: if one of them is passed elsewhere, the message says where it belongs.
OF_MODELS: Final = dict.fromkeys(("smoothing", "strength", "tol", "max_iter", "stop", "ties", "accelerate"), "DawidSkene") | {
    "switch": "Hybrid"
}
OF_ENGINES: Final = {"threads": "Cpu", "memory": "Disk", "work": "Disk", "resume": "Disk", "devices": "Cuda", "master": "Spark"}


def option_error(name: str, value: object, accepted: Iterable[str]) -> OptionError:
    """Return the error for an option that a function does not take: its home, or a similar name.

    >>> str(option_error("tol", 1e-6, ["task", "label"]))
    'tol is a setting of the model: model=adj.DawidSkene(tol=1e-06)'
    >>> str(option_error("lable", "x", ["task", "label"]))
    "unknown option 'lable': did you mean 'label'? (accepted: task, label)"
    """
    for what, homes in (("model", OF_MODELS), ("engine", OF_ENGINES)):
        if name in homes:
            return OptionError(f"{name} is a setting of the {what}: {what}=adj.{homes[name]}({name}={quote(value)})")
    return choice_error("option", name, accepted)


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
        if not self.accepts(value):
            what = "a whole number" if self.whole else "a number"
            bound = f" of at least {self.least:g}" if self.least > -math.inf else ""
            bound += f" and at most {self.most:g}" if self.most < math.inf else ""
            words = "".join(f", or {word!r}" for word in self.words)
            raise OptionError(f"{name} is {quote(value)}: give {what}{bound}{words}")

    def accepts(self, value: object) -> bool:
        """Return whether the value is such a number."""
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
            raise choice_error(name, value, self.names)


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def check(self, name: str, value: object) -> None:
        """Raise unless the value is one of them."""
        if not isinstance(value, bool):
            raise OptionError(f"{name} is {quote(value)}: give True or False")


def to_python(value: object) -> object:
    """Return a number as Python's own int or float, and anything else as it is.

    >>> from fractions import Fraction
    >>> to_python(Fraction(1, 4)), to_python(3), to_python("auto")
    (0.25, 3, 'auto')
    """
    if type(value) is bool:  # a whole number to Python
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


@dataclass(frozen=True)
class Order:
    """Labels from the lowest to the highest grade, or None if they order themselves."""

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
