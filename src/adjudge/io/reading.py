"""What a caller says about a source of votes: the options of `adj.read`, and the record they are checked into."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np
import polars as pl

from adjudge.data.options import DEFAULTS, SET_SEPARATOR, Duplicates, ReadOptions, option_error
from adjudge.data.vocabulary import text_of
from adjudge.errors import OptionError, itemize, list_values, quote
from adjudge.io.frames import prepare_ids

Wanted = Mapping[str, str | None]  # role -> the column the caller named, if any
DUPLICATES: Final = ("all", "last", "first", "error")
ABOUT_VOTES: Final = ("task", "worker", "label", "labels", "duplicates")  # of which no export or layout depends
TABLE_OPTIONS: Final = ("wide", "count", "separator", "header")  # how the lines of an ordinary table are laid out
ASCII_WHITE_SPACE: Final = "\t\n\v\f\r "  # as polars strips it; Python takes four more characters for it
WHITE_RUN_PATTERN: Final = re.compile(f"[{ASCII_WHITE_SPACE}]+")
WHOLE_NUMBER_PATTERN: Final = re.compile(r"(-?[0-9]+)\.0+")
DERIVED: Final = ("table_option", "spelling", "remembered")


@dataclass(frozen=True)
class Reading:
    """How a source is read: the options of `adj.read`, checked and in their final types."""

    task: str | None = None
    worker: str | None = None
    label: str | None = None
    labels: tuple[object, ...] | str | None = None
    duplicates: Duplicates = DEFAULTS.duplicates
    wide: bool = False
    count: str | None = None
    weight: str | None = None
    abstain: frozenset[str] = frozenset()  # texts of labels
    normalize: bool = False
    strict: bool = False
    separator: str | None = None
    encoding: str | None = None  # Python's name of it
    header: bool = True
    set_separator: str = SET_SEPARATOR
    format: str = "auto"
    question: str | None = None
    predictions: bool = False
    show: tuple[str, ...] = ()  # columns with the content of tasks
    table_option: str | None = None  # one of TABLE_OPTIONS that is given: no export is recognised then
    spelling: Mapping[str, str] = field(default_factory=dict)  # normal form -> the declared label
    remembered: Mapping[str, str] = field(default_factory=dict)  # role -> its column in the votes of a saved model

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Reading:
        """Return the record of these options; an unknown one, or nonsense, is an error.

        >>> Reading.of({"task": "item", "abstain": [-1, "NA"]}).given() == {"task": "item", "abstain": frozenset({"-1", "NA"})}
        True
        """
        for name, value in options.items():
            if name not in ReadOptions.__annotations__:
                raise option_error(name, value, ReadOptions.__annotations__)
        given = dict(options)
        for name in ("count", "weight"):
            column = given.get(name)
            if column is not None and given.get("wide"):
                raise OptionError(f"wide=True and {name}=… do not go together: a wide table has one vote per cell")
            if column is not None and not isinstance(column, str):
                raise OptionError(f"{name} is {quote(column)}: name the column of {name}s")
        separator = given.get("separator")
        if separator is not None and (not isinstance(separator, str) or len(separator.encode()) != 1):
            raise OptionError(f"separator is {quote(separator)}: give one character, like ';' or a tab")
        given["encoding"] = _encoding(given.get("encoding"))
        labels = given.get("labels")
        if labels is not None and not isinstance(labels, str):
            given["labels"] = labels = tuple(list_values("labels", labels, "['no', 'yes']"))
        for name in ("wide", "normalize", "strict", "header", "predictions"):
            if name in given:
                if isinstance(given[name], str):  # "no" is true to Python
                    raise OptionError(f"{name} is {quote(given[name])}: give True or False")
                given[name] = bool(given[name])
        show = given.get("show")
        given["show"] = (show,) if isinstance(show, str) else tuple(list_values("show", show, "['review_text']") if show else ())
        if not all(isinstance(name, str) for name in given["show"]):
            raise OptionError(f"show is {quote(show)}: name columns, like ['review_text']")
        given["abstain"] = _abstentions(given.get("abstain"))
        check_duplicates(given.get("duplicates", DEFAULTS.duplicates))
        given["table_option"] = next((n for n in TABLE_OPTIONS if n in given and given[n] != getattr(cls, n)), None)
        return cls(**given, spelling=_spelling(labels) if given.get("normalize") and labels is not None else {})

    def given(self) -> dict[str, Any]:
        """Return the options that are not as by default."""
        values = {f.name: (getattr(self, f.name), getattr(PLAIN_READING, f.name)) for f in fields(self) if f.name not in DERIVED}
        return {name: value for name, (value, default) in values.items() if value is not default and value != default}

    def recall(self, columns: Mapping[str, str]) -> Reading:
        """Return this reading with the columns of earlier votes, which a table is read by unless the caller names others."""
        return replace(self, remembered=columns) if columns else self

    def over(self, wanted: Wanted, columns: Iterable[object]) -> Wanted:
        """Return the columns that are wanted, with those remembered that a table has and that serve nothing else."""
        if not self.remembered or self.wide or not self.header:
            return wanted
        free = set(columns) - set(wanted.values())
        known = {role: name for role, name in self.remembered.items() if name in free and wanted.get(role, "") in (None, "")}
        return {**wanted, **known}

    def refuse(self, by: str) -> None:
        """Raise if votes that `by` has already read are to be read in some way; that they are not judged again is fine."""
        given = self.given().keys() - {"strict"}
        if given:
            about_votes = f"{itemize(ABOUT_VOTES[:-1])} and duplicates"
            options = "options about their table or their labels" if given.isdisjoint(ABOUT_VOTES) else about_votes
            raise OptionError(f"these votes have already been read: give {options} to {by}()")

    def clean(self, batch: pl.DataFrame, role: str = "label") -> pl.DataFrame:
        """Return a batch whose labels are normalised, and missing if they are words for abstentions."""
        if not (self.abstain or self.normalize) or role not in batch.columns or isinstance(batch[role].dtype, pl.List):
            return batch
        label = batch[role]
        if label.dtype in (pl.Categorical, pl.Enum):
            label = label.cast(pl.String)
        if self.normalize and label.dtype == pl.String:
            label = normalize(label)
        if self.abstain:
            texts = prepare_ids(label, role).cast(pl.String) if label.dtype != pl.String else label
            words = {*self.abstain, *normalize(pl.Series(list(self.abstain)))} if self.normalize else self.abstain
            is_abstention = texts.is_in(list(words)).fill_null(False)
            label = label.set(is_abstention, None) if is_abstention.any() else label
        if self.spelling and label.dtype == pl.String:
            label = label.replace(dict(self.spelling))
        return batch.with_columns(label.alias(role))


PLAIN_READING: Final = Reading()


def check_duplicates(rule: str) -> None:
    """Raise unless this is a rule for repeated votes."""
    if rule not in DUPLICATES:
        raise OptionError(f"duplicates is {quote(rule)}: choose one of {itemize(DUPLICATES)}")


def _encoding(name: object) -> str | None:
    """Return an encoding of text by the name that Python has for it."""
    if name is None:
        return None
    try:
        found = codecs.lookup(name) if isinstance(name, str) else None
    except (LookupError, ValueError):  # a NUL
        found = None
    if found is None or not found._is_text_encoding:  # as open() asks
        raise OptionError(f"encoding is {quote(name)}: give the name of a text encoding, like 'cp1252', 'latin-1' or 'utf-16'")
    return found.name


def _spelling(labels: Iterable[object]) -> dict[str, str]:
    """Return the declared label of every normal form."""
    texts = [text_of(label) for label in labels]
    forms = normalize_texts(texts)
    if len(set(forms)) < len(forms):
        twice = next(text for n, text in enumerate(texts) if forms[n] in forms[:n])
        raise OptionError(f"labels name {quote(twice)} in two spellings, which normalize=True joins: leave one out")
    return dict(zip(forms, texts, strict=True))


def _abstentions(given: object) -> frozenset[str]:
    """Return the labels that are abstentions, as texts: one, or several."""
    if given is None:
        return frozenset()
    if isinstance(given, str | int | float | np.generic):
        given = [given]
    if not isinstance(given, Iterable):
        raise OptionError(f"abstain is {quote(given)}: give the labels that are abstentions, like ['NA', 'skip'] or -1")
    whole = [int(v) if isinstance(v, float) and v.is_integer() else v for v in given]
    return frozenset(text_of(value) for value in whole)


def normalize(labels: pl.Series) -> pl.Series:
    """Return labels without what hardly distinguishes two: case, white space around and repeated within, ".0" of numbers.

    >>> normalize(pl.Series(["Cat ", "new  York", "1.0"])).to_list()
    ['cat', 'new york', '1']
    """
    plain = pl.col("label").str.normalize("NFC").str.strip_chars().str.replace_all(r"\s+", " ").str.to_lowercase()
    form = plain.str.replace(r"^(-?[0-9]+)\.0+$", "${1}")
    return labels.to_frame("label").select(form).to_series().alias(labels.name)  # in one query: each costs more than few labels


def normalize_texts(texts: list[str]) -> list[str]:
    """Return the same of a list of labels: without polars where all are ASCII, as a query costs more than a few labels.

    >>> normalize_texts(["Cat ", "new  York", "1.0"]), normalize_texts(["É "])
    (['cat', 'new york', '1'], ['é'])
    """
    if not all(map(str.isascii, texts)):
        return list(normalize(pl.Series(texts, dtype=pl.String)))
    plain = [WHITE_RUN_PATTERN.sub(" ", text.strip(ASCII_WHITE_SPACE)).lower() for text in texts]
    return [number[1] if (number := WHOLE_NUMBER_PATTERN.fullmatch(text)) else text for text in plain]
