"""The gold that an export gives beside its votes."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Votes
from adjudge.io.answers import one_each, read_gold, texts
from adjudge.io.encode import over_labels
from adjudge.io.ids import column, narrowed, sort_order


def with_gold(votes: Votes, gold: pl.DataFrame, *, is_declared: bool) -> Votes:
    """Return votes with the gold that was found beside them; labels that only gold has are added, unless all were declared."""
    gold = one_each(texts(gold), "gold", "label")
    if not is_declared:
        votes = over_labels(votes, _all_labels(votes.labels, gold["label"]), "gold")
    return replace(votes, found_gold=read_gold(gold, votes.labels))


def gold_frame(votes: Votes) -> pl.DataFrame:
    """Return the labels that the source of these votes itself gives, which there must be, as task and label."""
    gold = votes.found_gold
    assert gold is not None
    return pl.DataFrame({"task": column(gold.tasks), "label": column(votes.labels, gold.labels)})


def _all_labels(labels: Vocabulary, more: pl.Series) -> Vocabulary:
    names = dict.fromkeys([*labels.texts(), *more.to_list()])
    if len(names) == len(labels):
        return labels
    ids = narrowed(Vocabulary.of_texts(list(names)))
    return ids.take(sort_order(ids))
