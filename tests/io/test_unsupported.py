"""What adjudge does not do is recognised where it arrives, and named; ordinary labels are not taken for it."""

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import adjudge as adj
from adjudge.io.unsupported import kind_of

BOX = {"x": 1, "y": 2, "width": 5, "height": 7}
SPAN = {"start": 3, "end": 9, "label": "PER"}
SOFT = {"cat": 0.7, "dog": 0.3}


@pytest.mark.parametrize(("value", "kind"), [
    (BOX, "boxes"), ({"bbox": [0, 1, 2, 3]}, "boxes"), ([[0, 1], [5, 1], [5, 9]], "boxes"), ([0.5, 1.5, 3.0, 4.0], "boxes"),
    ([BOX], "boxes"), (SPAN, "spans"), ([SPAN, SPAN], "spans"), ({"start_offset": 1, "end_offset": 4}, "spans"),
    (SOFT, "probabilities"), ({"x": 0.7, "y": 0.3}, "probabilities"), ({"x": 0.1, "y": 0.2, "w": 0.3, "h": 0.4}, "boxes"),
    ([0.2, 0.8], "probabilities"), (np.array([0.25, 0.25, 0.5]), "probabilities"),
    ([1.5, 2.5], "numbers"), ({"text": "good", "why": "so"}, "objects"),
    ("cat", None), (3, None), (["joy", "fear"], None), ([3, 17], None), ([], None), ({"joy"}, None), ([True, False], None),
    ([1.0, 2.0], None), ([0, 10, 30, 40], None),
])  # fmt: skip
def test_kinds(value, kind):
    assert kind_of(value) == kind


@pytest.mark.parametrize(("value", "message"), [
    (BOX, "looks like a box or a shape, but adjudge chooses among labels"),
    ([0, 10, 30, 40], r"looks like a box or a shape, .* if they are options of a set: multi=True"),
    (SPAN, "looks like a span of text, .*: make every token"),
    ([SPAN], "looks like a span of text"),
    (SOFT, "soft votes are not supported: give the likeliest label of each vote"),
    ([0.7, 0.3], "soft votes are not supported"),
    ([1.5, 2.5], r"adj.scores \(adjudge scores\) merges numbers"),
])  # fmt: skip
def test_values_that_are_not_labels(value, message, tmp_path):
    columns = {"task": ["t", "t"], "worker": ["ann", "bob"], "label": [value, value]}
    pl.DataFrame(columns).write_parquet(tmp_path / "votes.parquet")
    sources = [columns, pl.DataFrame(columns), pd.DataFrame(columns), tmp_path / "votes.parquet", [("t", "ann", value)]]
    sources += [{**columns, "label": [json.dumps(value)] * 2}]  # as text files hold it
    for source in sources:
        with pytest.raises(adj.InputError, match=message):
            adj.read(source)
    if value != [0, 10, 30, 40]:  # which may be a set of options
        for source in sources[:-1]:
            with pytest.raises(adj.InputError, match="label"):
                adj.aggregate(source, multi=True)


def test_the_row_is_named():
    votes = [("t", "ann", "cat"), ("t", "bob", "dog"), ("t", "eve", SOFT)]
    with pytest.raises(adj.InputError, match="label in row 3 is {'cat': 0.7, 'dog': 0.3}, which looks like probabilities"):
        adj.read(votes)
    with pytest.raises(
        adj.InputError, match=r"label in row 2 is 4.5: a label is a name .*; adj.scores .*; or round them to a few steps"
    ):
        adj.read([("t", "ann", 4.0), ("t", "bob", 4.5)])
    with pytest.raises(adj.InputError, match="task in row 1 is 1.5: give text or whole numbers"):
        adj.read([(1.5, "ann", "cat")])


def test_boxes_as_sets():
    boxes = [(f"t{n}", w, [n, n + 1, n + 50, n + 60 + len(w)]) for n in range(20) for w in ("ann", "robin")]
    with pytest.warns(adj.SuspiciousVotes, match="every vote has four of 56 whole numbers, which looks like boxes"):
        adj.aggregate(boxes, "mv", multi=True)
    assert signs([(f"t{n}", w, [n % 5, 7, 8, 9]) for n in range(20) for w in "ab"], multi=True) == []


def signs(votes, *, multi=False, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        adj.aggregate(votes, "mv", multi=multi, **options)
    return [str(one.message) for one in caught if issubclass(one.category, adj.SuspiciousVotes)]


def test_decimals_as_text():
    stars = [(f"t{n}", w, str((n * 7 + ord(w)) % 6 / 2 + 0.5)) for n in range(40) for w in "abc"]
    (sign,) = signs(stars)
    assert sign.startswith("3 labels are numbers with decimals (0.5, 1.5, 2.5); a label is a name that comes again")
    assert signs(stars, labels=[str(n / 2) for n in range(1, 7)]) == []
    scores = [(f"t{n}", w, f"{(n * 37 + ord(w) * 11) % 101 / 10}") for n in range(60) for w in "abc"]
    with pytest.raises(adj.InputError, match=r"[0-9]+ labels are numbers with decimals .* says that they are labels"):
        adj.read(scores)
    assert len(adj.read(scores, labels=[str(n / 10) for n in range(101)])) == 180
    assert not any("decimals" in sign for sign in signs([(t, w, label.replace(".", "-")) for t, w, label in scores]))


def test_measurements():
    rng = np.random.default_rng(1)
    true = rng.integers(0, 100, 200)
    near = [(n, w, int(true[n] + rng.integers(-4, 5))) for n in range(200) for w in "abc"]
    assert any("different whole numbers, and votes on one task are near each other" in sign for sign in signs(near))
    codes = rng.permutation(400)  # of categories: none is near another
    assert signs([(n, w, int(codes[100 + label])) for n, w, label in near]) == []
    few = [(n, w, label // 10) for n, w, label in near]
    assert not any("whole numbers" in sign for sign in signs(few, abstain=-1))


def test_free_text():
    texts = [(n // 3, "abc"[n % 3], f"a man walks dog number {n * 7 % 401}") for n in range(900)]
    assert any("401 different texts in 900 votes look like free text" in sign for sign in signs(texts))
    names = [(t, w, label.replace(" ", "_")) for t, w, label in texts]
    assert not any("free text" in sign for sign in signs(names))
    again = [(n // 30, f"w{n % 30}", f"a man walks dog number {n * 7 % 401}") for n in range(9000)]
    assert not any("free text" in sign for sign in signs(again))


def test_rankings():
    orders = ("a > b > c", "b > a > c", "c > a > b")
    assert "look like rankings (a > b > c, b > a > c, c > a > b)" in signs([("t", str(n), o) for n, o in enumerate(orders)])[0]
    assert signs([("t", str(n), o) for n, o in enumerate(("a > b", "b > a", "a > c"))]) == []


@pytest.mark.parametrize("mark", [",", ";", "|", ", "])
def test_sets_without_saying_so(mark):
    votes = [("t", "ann", "A"), ("t", "bob", f"A{mark}B"), ("u", "ann", f"B{mark}C"), ("u", "bob", f"A{mark}C")]
    (sign,) = signs(votes)
    assert "3 labels look like sets of options" in sign
    assert ("set_separator" in sign) == (mark != "|")
    assert signs([(t, w, label.replace("B", f"B{w}{t}")) for t, w, label in votes]) == []  # parts that do not come again


def test_sets_as_json():
    votes = [("t", "ann", '["A"]'), ("t", "bob", '["A", "B"]'), ("u", "ann", "[]")]
    assert any("labels look like sets written as JSON" in sign for sign in signs(votes))


@pytest.mark.parametrize(("name", "text", "message"), [
    ("boxes.xml", "<annotations/>", "XML, as CVAT and Pascal VOC write boxes and shapes, but adjudge chooses among labels"),
    ("coco.json", '{"images": [], "annotations": [{"bbox": [1, 2, 3, 4]}], "categories": []}', "this looks like COCO"),
])  # fmt: skip
def test_files_of_boxes(name, text, message, tmp_path):
    texts = [text, json.dumps(json.loads(text), indent=2)] if name.endswith(".json") else [text]
    for written in texts:
        (tmp_path / name).write_text(written)
        with pytest.raises(adj.InputError, match=message):
            adj.read(tmp_path / name)
