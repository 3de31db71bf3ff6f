"""Small tables are read without what takes longer than they do: queries, threads, wrapping a frame again and again."""

import sys

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest

import adjudge as adj
from adjudge.data.vocabulary import Vocabulary
from adjudge.io import encode, frames
from adjudge.io.read import PLAIN_NAME_PATTERN, WHITE_SPACE
from adjudge.io.reading import normalize

COLUMNS = {
    "task": [f"t{n // 3}" for n in range(60)],
    "worker": [f"w{n % 7}" for n in range(60)],
    "label": [f"l{n * n % 5}" for n in range(60)],
}


def queries(action):
    """Return how many queries of polars an action runs."""
    seen = []

    def watch(_frame, event, called):
        if event == "c_call" and called.__name__ == "collect":
            seen.append(called)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        action()
    finally:
        sys.setprofile(before)
    return len(seen)


def test_small_frame_needs_no_query():
    frame = pl.DataFrame(COLUMNS)
    assert queries(lambda: frame.select(pl.col("task").str.len_bytes())) == 1
    assert queries(lambda: adj.aggregate(frame, model="fds", confidence="posterior").labels) == 0


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frame_is_wrapped_once(monkeypatch, kind):
    wrapped, from_native = [], nw.from_native

    def counted(source, **options):
        wrapped.append(source)
        return from_native(source, **options)

    monkeypatch.setattr(nw, "from_native", counted)
    assert len(adj.read(kind(COLUMNS))) == 60
    assert len(wrapped) == 1


def test_named_index_of_wrapped_frame_is_a_column():
    indexed = pd.DataFrame(COLUMNS).set_index("task")
    assert repr(adj.read(indexed)) == repr(adj.read(COLUMNS))


def test_white_space_is_what_polars_strips():
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    stripped = pl.Series(every).str.strip_chars()
    assert {character for character, left in zip(every, stripped, strict=True) if not left} == set(WHITE_SPACE)


@pytest.mark.parametrize(
    "texts",
    [["cat", "dog"], ["a_b-2", "0"], ["Cat", "cat"], ["1.0", "1"], ["a b", "a  b"], ["caf\u0065\u0301", "caf\u00e9"], [""]],
)
def test_plain_names_are_their_own_normal_forms(texts):
    forms = normalize(pl.Series(texts, dtype=pl.String)).to_list()
    assert forms == texts or not all(map(PLAIN_NAME_PATTERN.fullmatch, texts))


def test_few_texts_are_sorted_as_many_are(monkeypatch):
    texts = Vocabulary.of(["b", "", "\u00e9", "a", "ab", "Z", "\U0001f600", "\uffff", "a\x00"])
    few = encode.sort_order(texts)
    monkeypatch.setattr(encode, "MAX_SORTED_TEXTS", 0)
    many = encode.sort_order(texts)
    assert few.tolist() == many.tolist()
    assert few.dtype == many.dtype == np.uint32


@pytest.mark.parametrize("values", [["a", 1], ["a", b"b", 2], ["a", ["b"]]])
def test_texts_followed_by_something_else_are_refused(values):
    with pytest.raises(adj.InputError, match="row 2|row 3"):
        frames.series_of(values, "worker")


def test_texts_with_missing_ones_and_bytes_are_texts():
    assert frames.series_of(["a", None, b"b", float("nan")], "worker").to_list() == ["a", None, "b", None]


@pytest.mark.parametrize("kind", ["string", "integer", "boolean"])
def test_nothing_taken_is_an_empty_vocabulary_of_the_kind(kind):
    whole = Vocabulary.of({"string": ["a", "b"], "integer": [1, 2], "boolean": [True, False]}[kind]).declared()
    none = whole.take(np.zeros(0, np.int64))
    assert (none.kind, none.ids(), none.is_declared, none.values.dtype) == (kind, [], True, whole.values.dtype)
