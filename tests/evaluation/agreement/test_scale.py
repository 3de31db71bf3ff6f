"""What labels mean: order, numbers, and errors where they mean neither."""

import math

import pytest

import adjudge as adj
from adjudge.data.vocabulary import Vocabulary
from adjudge.evaluation.agreement.coefficients import scale_of


def ranks(labels):
    return scale_of(Vocabulary.of(labels), "ordinal").values.tolist()


def test_order_of_labels():
    assert ranks([1, 2, 10]) == [0, 1, 2]
    assert ranks(["1", "10", "2"]) == [0, 2, 1]  # text order: nobody declared that
    assert ranks(["2", "10", "1"]) == [0, 1, 2]  # declared
    assert ranks(["bad", "fair", "good"]) == [0, 1, 2]
    assert ranks(["poor", "fair", "good"]) == [0, 1, 2]
    assert ranks(["-1.5", "-2", "0.25"]) == [1, 0, 2]
    assert ranks([False, True]) == [0, 1]


def test_a_declared_order_is_kept(draw):
    names = {1: "poor", 2: "fair", 3: "good", 4: "best"}
    votes = draw(1)
    words = [(t, w, names[k]) for t, w, k in votes]
    expected = adj.agreement(votes, scale="ordinal").alpha
    assert adj.agreement(words, scale="ordinal", labels=list(names.values())).alpha == pytest.approx(expected)
    assert adj.agreement(words, scale="ordinal").alpha != pytest.approx(expected)  # best, fair, good, poor
    texts = [(t, w, str(k * 5)) for t, w, k in votes]  # 5, 10, 15, 20
    assert adj.agreement(texts, scale="ordinal").alpha == pytest.approx(expected)
    assert adj.agreement(texts, scale="interval").alpha == pytest.approx(adj.agreement(votes, scale="interval").alpha)


@pytest.mark.parametrize("label", ["good", "nan", "inf", "1_0", ""])
def test_interval_needs_numbers(label):
    votes = [(1, "a", "1"), (1, "b", label)]
    with pytest.raises(
        adj.InputError, match=f"scale 'interval' needs numbers as labels, but '{label}' is none: take scale 'ordinal'"
    ):
        adj.agreement(votes, scale="interval")


def test_an_order_of_too_many_labels():
    votes = [(t, w, t) for t in range(600) for w in "ab"]
    with pytest.raises(adj.InputError, match="at most 512 labels, and these votes have 600: take scale 'interval'"):
        adj.agreement(votes, scale="ordinal")
    assert adj.agreement(votes, scale="interval", resamples=10).alpha == 1


def test_labels_of_equal_value():
    votes = [(1, "a", "1"), (1, "b", "1.0"), (2, "a", "1"), (2, "b", "1")]
    found = adj.agreement(votes, scale="interval")
    assert math.isnan(found.alpha)
    assert math.isnan(found.ac2_linear)
    assert found.percent == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": "ratio"}, "unknown scale 'ratio'"),
        ({"resamples": -1}, "resamples is -1"),
        ({"level": 1.5}, "level is 1.5"),
        ({"seed": -1}, "seed is -1"),
        ({"model": "fdz"}, "unknown model 'fdz'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(adj.OptionError, match=message):
        adj.agreement([(1, "a", "x"), (1, "b", "x")], **options)


@pytest.mark.parametrize("votes", [[], [(1, "a", "x")], [(1, "a", "x"), (2, "b", "x")]])
def test_without_two_votes_nothing_can_be_said(votes):
    with pytest.raises(adj.InputError, match=f"none of the {len(votes)} tasks has two votes"):
        adj.agreement(votes)
