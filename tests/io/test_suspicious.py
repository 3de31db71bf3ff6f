"""Signs of misreading: each is found where it is, and only there; they cost little."""

import warnings

import numpy as np
import polars as pl
import pytest

import adjudge as adj

CROWD = adj.simulate(tasks=60, workers=6, votes_per_task=4, seed=3).votes
MANY = [(f"t{n}", w, "xy"[(n * 7 + ord(w)) % 2]) for n in range(40) for w in "abc"]


def signs(source, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        adj.read(source, **options)
    return [str(one.message) for one in caught if issubclass(one.category, adj.SuspiciousVotes)]


def test_ordinary_votes_are_not_suspicious():
    assert signs(CROWD) == []
    assert signs(MANY) == []
    assert signs([("t", "ann", "x"), ("u", "bob", "y")]) == []  # few votes may look like anything


@pytest.mark.parametrize(("source", "message"), [
    ([(n, "abc"[n % 3], "xy"[n % 2]) for n in range(20)], "every one of 20 tasks has one vote"),
    ([(n // 2, "ab"[n % 2], f"text {n}") for n in range(40)], "every vote has a label of its own"),
    ([(n // 3, "abc"[n % 3], f"text {n // 2}" if n % 3 else f"other {n}") for n in range(60)], "there are .* labels in 60 votes"),
    ([(n, w, "xyz"[n % 3]) for n in range(30) for w in "ab"], "no task with several votes has two different ones"),
    ([(n // 4, "a", "xy"[n % 2]) for n in range(40)], "30 votes repeat their worker's vote on a task"),
    ([*MANY, ("t0", "d", "X")], r"differ only in case, white space or '.0' \('X' and 'x'\): normalize=True \(--normalize\) joins them"),
    ([*MANY, ("t0", "d", "x ")], "differ only in case"),
    ([*MANY, ("t0", "d", "N/A"), ("t1", "d", "Refused")], r"the labels 'N/A', 'Refused' look like abstentions: abstain=\['N/A', 'Refused'\]"),
    ([(t, w, "xy".index(label) - (t == "t0")) for t, w, label in MANY], r"the label -1 looks like abstentions: abstain=\[-1\]"),
    ([*MANY, ("t0", "d", "x|y"), ("t1", "d", "y|z"), ("t2", "d", "x|z")], r"3 labels look like sets of options .* multi=True"),
])  # fmt: skip
def test_signs(source, message):
    with pytest.warns(adj.SuspiciousVotes, match=message):
        adj.read(source)
    with pytest.raises(adj.InputError, match=message + r".*\(strict\)"):
        adj.read(source, strict=True)
    with pytest.raises(adj.InputError, match=message):
        adj.aggregate(source, strict=True)
    with pytest.raises(adj.InputError, match=message):
        adj.aggregate(source, strict=True, engine="disk")


@pytest.mark.parametrize("name", ["weight", "Weights", "sample_weight", "confidence", "Certainty"])
def test_a_column_that_looks_like_weights_and_is_not_used(name, tmp_path):
    frame = pl.DataFrame(MANY, schema=["task", "worker", "label"], orient="row").with_columns(pl.lit(0.5).alias(name))
    message = f"the column '{name}' is not used: aggregate counts votes by it with weight='{name}' (--weight '{name}')"
    frame.write_csv(tmp_path / "votes.csv")
    for source in (frame, frame.lazy(), frame.to_dicts(), frame.to_dict(as_series=False), tmp_path / "votes.csv"):
        assert signs(source) == [message]
        assert signs(source, weight=name) == []
    with pytest.warns(adj.SuspiciousVotes, match="is not used"):
        adj.encode(tmp_path / "votes.csv", tmp_path / "folder")
    with pytest.raises(adj.InputError, match=r"is not used.*\(strict\)"):
        adj.aggregate(frame, strict=True)


def test_a_column_with_a_role_is_not_ignored():
    frame = pl.DataFrame(MANY, schema=["task", "worker", "label"], orient="row")
    assert signs(frame.with_columns(weight=pl.lit(1)), count="weight") == []
    assert signs(frame.rename({"label": "confidence"}), label="confidence") == []
    assert signs(frame.with_columns(weight=pl.lit(2.0), confidence=pl.lit(0.5)), weight="weight") == []
    assert signs(frame.with_columns(score=pl.lit(2.0), label_confidence=pl.lit(0.5))) == []


def test_one_vote_less_is_enough():
    assert signs([(n, "abc"[n % 3], "xy"[n % 2]) for n in range(19)]) == []
    assert signs([(n, w, "xyz"[n % 3]) for n in range(29) for w in "ab"]) == []
    disagreed = [(n, w, "xyz"[n % 3]) for n in range(300) for w in "ab"]
    assert len(signs(disagreed)) == 1
    assert signs([*disagreed[:-1], (299, "b", "other")]) == []


def test_declared_labels_are_meant():
    for labels in (["x", "X", "y"], ["x", "y", "NA"], ["x", "y", "none", "x|y", "y|x", "x|x"]):
        votes = [*MANY, *((f"t{n}", "d", label) for n, label in enumerate(labels))]
        assert signs(votes) != []
        assert signs(votes, labels=labels) == []


@pytest.mark.parametrize(
    ("numbers", "odd"), [((-1, 1), False), ((-1, 0, 1), True), ((-2, -1, 0), False), ((-1, 1, 2, 3), True), ((0, 1), False)]
)
def test_minus_one(numbers, odd):
    votes = [(n, w, numbers[(n * 5 + ord(w)) % len(numbers)]) for n in range(40) for w in "abc"]
    assert bool(signs(votes)) == odd


def test_options_do_what_they_say():
    votes = [*MANY, ("t0", "d", "X"), ("t1", "d", "NA")]
    with warnings.catch_warnings():
        warnings.simplefilter("error", adj.SuspiciousVotes)
        warnings.simplefilter("ignore", adj.MissingLabels)
        found = adj.read(votes, normalize=True, abstain=["NA"])
    assert found.labels.ids() == ["x", "y"]
    assert found.abstentions == 1


def test_a_file_named_twice(tmp_path):
    CROWD.write_csv(tmp_path / "a.csv")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    for other in ("a.csv", "sub/../a.csv", "link.csv"):
        with pytest.warns(adj.SuspiciousVotes, match="is named twice, so its votes count twice"):
            adj.read([tmp_path / "a.csv", tmp_path / other])
    with pytest.raises(adj.InputError, match="named twice"):
        adj.encode([tmp_path / "a.csv", tmp_path / "a.csv"], tmp_path / "v", strict=True)
    assert not (tmp_path / "v").exists()


def test_gold_of_other_tasks():
    gold = {f"t{n}": "l0" for n in range(20)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", adj.SuspiciousVotes)
        adj.aggregate(CROWD, gold=gold)
        adj.aggregate(CROWD, gold={**gold, "typo": "l0"})
        adj.aggregate(CROWD, gold={f"t{n}": "l0" for n in range(1000)})  # of more tasks than there are
    few = {**{f"T{n}": "l0" for n in range(30)}, "t0": "l0"}
    for engine in ("cpu", "disk"):
        with pytest.warns(
            adj.SuspiciousVotes, match="30 of the 31 tasks of the gold have no votes: the gold has tasks like 'T0'"
        ):
            adj.aggregate(CROWD, gold=few, engine=engine)
        with pytest.raises(
            adj.InputError,
            match="none of the 2 tasks of the gold has votes: the gold has tasks like '001', '002', the votes like 't",
        ):
            adj.aggregate(CROWD, gold={"001": "l0", "002": "l1"}, engine=engine)
    with pytest.raises(adj.InputError, match="30 of the 31"):
        adj.aggregate(CROWD, gold=few, strict=True)


def test_truth_of_other_tasks():
    labels = {f"t{n}": "x" for n in range(10)}
    with pytest.raises(adj.InputError, match="none of the 2 tasks of the truth has labels"):
        adj.evaluate(labels, {"1": "x", "2": "y"})
    with pytest.warns(adj.SuspiciousVotes, match="9 of the 10 tasks of the truth have no labels"):
        adj.evaluate(labels, {"t0": "x", **{f"T{n}": "x" for n in range(9)}})
    assert adj.evaluate(labels, {}).tasks == 0


def test_sets_joined_otherwise():
    votes = [("t1", "ann", "fear,joy"), ("t1", "bob", "joy"), ("t2", "ann", "joy,fear,awe")]
    with pytest.warns(adj.SuspiciousVotes, match=r"2 options look like sets joined by ',' .*: set_separator=','"):
        adj.aggregate(votes, model="mv", multi=True)
    pairs = [("t", "ann", "x;y"), ("t", "bob", "x;z"), ("u", "ann", "y;z")]  # no option comes alone, and all come again
    with pytest.warns(adj.SuspiciousVotes, match=r"3 options look like sets joined by ';'"):
        adj.aggregate(pairs, model="mv", multi=True)
    found = adj.aggregate(votes, model="mv", multi=True, set_separator=",")
    assert found.votes.options.ids() == ["awe", "fear", "joy"]
    with pytest.raises(adj.OptionError, match="set_separator works only with multi=True"):
        adj.aggregate(votes, model="mv", set_separator=",")


def test_repeats_against_a_plain_count():
    rng = np.random.default_rng(5)
    for size in (0, 1, 50, 3000):
        votes = pl.DataFrame({name: rng.integers(0, 1 + size // 10, size) for name in ("task", "worker", "label")})
        found = adj.read(votes)
        assert found.understood.repeated == size - votes.select("task", "worker").n_unique()
        for rule in ("last", "first"):
            assert adj.read(votes, duplicates=rule).understood.repeated == found.understood.repeated
