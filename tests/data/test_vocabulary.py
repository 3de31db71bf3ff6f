import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.data.vocabulary import Vocabulary

IDS = st.one_of(
    st.lists(st.text(), unique=True),
    st.lists(st.integers(-(2**63) + 1, 2**63 - 1), unique=True),
    st.lists(st.booleans(), unique=True),
)


@given(IDS, st.data())
def test_ids_to_codes_and_back(ids, data):
    v = Vocabulary.of(ids)
    assert v.ids() == ids
    assert [v[i] for i in range(len(v))] == ids
    assert v.codes(ids).tolist() == list(range(len(ids)))
    assert v.codes(["not there, surely"]).tolist() == [-1]
    some = data.draw(st.lists(st.sampled_from(range(len(ids))), unique=True)) if ids else []
    assert v.take(np.array(some, np.int64)).ids() == [ids[i] for i in some]
    offsets, text = v.text_buffers()
    assert [bytes(text[a:b]).decode() for a, b in itertools.pairwise(offsets)] == v.texts()


def test_numpy_scalars_are_ids():
    assert Vocabulary.of([np.str_("a"), np.str_("b")]).ids() == ["a", "b"]


def test_negative_codes_count_from_the_end_and_strangers_are_refused():
    v = Vocabulary.of(["a", "b"])
    assert v[-1] == "b"
    with pytest.raises(IndexError):
        v[2]


@pytest.mark.parametrize("mixed", [["a", 1], [1, True], [1.5], [None]])
def test_mixed_types_are_refused(mixed):
    with pytest.raises(adj.InputError, match="row"):
        Vocabulary.of(mixed)


def test_it_is_immutable():
    with pytest.raises(ValueError, match="read-only"):
        Vocabulary.of([1, 2]).values[0] = 5


def test_repr():
    assert repr(Vocabulary.of(["a", "b"])) == "Vocabulary(2 string ids: 'a', 'b')"
    assert repr(Vocabulary.of([])) == "Vocabulary(0 string ids)"
