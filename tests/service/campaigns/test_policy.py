"""Policies as documents: what is accepted, what is refused and with which words, and one JSON per policy."""

import json
import re
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge import InputError, OptionError, Policy
from adjudge.service.campaigns.policy import SECTIONS

ROOT = Path(__file__).parents[3]


def test_the_default():
    policy = Policy()
    assert (policy.minimum_votes, policy.maximum_votes, policy.confidence) == (3, 9, 0.9)
    assert (policy.hold, policy.lock, policy.hysteresis) == (0.0, None, 0.0)
    assert policy.escalate.votes_run_out
    assert repr(policy) == "Policy(minimum_votes=3, maximum_votes=9, confidence=0.9)"
    assert Policy.of({}) == Policy.from_json("{}") == policy
    assert Policy.of(policy) is policy
    assert list(policy.__rich_repr__()) == [("minimum_votes", 3), ("maximum_votes", 9), ("confidence", 0.9)]


def test_repr_shows_what_was_chosen_and_gives_it_back():
    policy = Policy(quorum={"groups": 3}, escalate={"tie": True}, lock=0)
    assert eval(repr(policy), {"Policy": Policy}) == policy
    assert "experts" not in repr(policy)
    costs = Policy(costs={"*": {"*": 1}}, maximum_cost=0.1)
    assert eval(repr(costs), {"Policy": Policy}) == costs
    assert "confidence" not in repr(costs)


REFUSED = [
    ({"confidance": 0.9}, r"unknown field of a policy 'confidance': did you mean 'confidence'\?"),
    ({"minimum_votes": 0}, "minimum_votes is 0: give a whole number of at least 1"),
    ({"minimum_votes": 2.5}, "minimum_votes is 2.5: give a whole number"),
    ({"minimum_votes": True}, "minimum_votes is True: give a whole number"),
    ({"minimum_votes": None}, "minimum_votes is None: give a whole number"),
    ({"maximum_votes": "many"}, "maximum_votes is 'many': give a whole number .*, or null"),
    ({"minimum_votes": 10}, "minimum_votes is 10: give at most maximum_votes, which is 9"),
    ({"confidence": 0}, "confidence is 0: give a number above 0 and at most 1, or one per label"),
    ({"confidence": 1.01}, "confidence is 1.01: give a number above 0 and at most 1"),
    ({"confidence": float("nan")}, "confidence is nan: give"),
    ({"confidence": True}, "confidence is True: give"),
    ({"confidence": []}, r"confidence is \[\]: give"),
    ({"confidence": {}}, "confidence names no label"),
    ({"confidence": {"spam": 2}}, "confidence of 'spam' is 2: give a number above 0 and at most 1"),
    ({"confidence": {"spam": {"x": 1}}}, "confidence of 'spam' is .*: give a number"),
    ({"confidence": {1: 0.5}}, "confidence names the label 1: give the ids of labels, which are text"),
    ({"costs": {"a": {"b": 1}}}, "maximum_cost is None: give the expected cost"),
    ({"maximum_cost": 1}, "maximum_cost is 1: give costs with it"),
    ({"costs": {"a": {"b": -1}}, "maximum_cost": 1}, "cost of deciding 'b' where 'a' is true is -1: give a number of at least 0"),
    ({"costs": {"a": 1}, "maximum_cost": 1}, "costs of 'a' is 1: give decided label to cost"),
    ({"costs": {}, "maximum_cost": 1}, "costs is {}: give true label to decided label to cost"),
    ({"costs": {"a": {"b": 1}}, "maximum_cost": 1, "confidence": 0.9}, "confidence is 0.9: leave it out beside costs"),
    ({"hysteresis": -0.1}, "hysteresis is -0.1: give a number of at least 0"),
    ({"hysteresis": 0.5, "confidence": {"a": 0.5, "b": 0.9}}, "hysteresis is 0.5: give a number below every confidence"),
    ({"hold": -1}, "hold is -1: give a number of at least 0"),
    ({"lock": "1h"}, "lock is '1h': give a number of at least 0 .*, or null"),
    ({"escalate": None}, "escalate is None: give an object with any of votes_run_out, disagreement, tie"),
    ({"escalate": {"ties": True}}, "unknown field of escalate 'ties': did you mean 'tie'"),
    ({"escalate": {"tie": 1}}, "escalate.tie is 1: give true or false"),
    ({"escalate": {"disagreement": 1.5}}, "escalate.disagreement is 1.5: give a number of at least 0 and at most 1, or null"),
    ({"quorum": 2}, "quorum is 2: give an object with any of groups, votes"),
    ({"quorum": {"groups": 0}}, "quorum.groups is 0: give a whole number of at least 1"),
    ({"quorum": {"groups": 5, "votes": 2}}, "quorum asks for 10 votes: give at most maximum_votes, which is 9"),
    ({"experts": {"decide": "yes"}}, "experts.decide is 'yes': give true or false"),
    ({"reopen": {"votes": -1}}, "reopen.votes is -1: give a whole number of at least 0"),
    ({"probation": {"accuracy": 70}}, "probation.accuracy is 70: give a number"),
    ({"breakers": {"label_share": None, "disagreement": None, "flip_rate": None}}, "breakers has nothing to watch"),
    ({"breakers": {"window": 0}}, "breakers.window is 0: give a whole number of at least 1"),
    ({"next": {"per_worker_per_hour": 0}}, "next.per_worker_per_hour is 0: give a whole number of at least 1 .*, or null"),
    ([1], r"a policy is \[1\]: give an object with any of minimum_votes"),
    (None, "a policy is None: give an object"),
]


@pytest.mark.parametrize(("document", "message"), REFUSED, ids=[str(document) for document, _ in REFUSED])
def test_what_is_refused(document, message):
    with pytest.raises(OptionError, match=message) as refused:
        Policy.of(document)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "nul", b"\xff", '{"hold": NaN}', "[" * 5000])
def test_what_is_no_json(text):
    with pytest.raises(InputError, match="the policy is not JSON: "):
        Policy.from_json(text)


def test_labels_of_the_campaign_are_known():
    with pytest.raises(OptionError, match=r"confidence names the label 'spma': give labels of the campaign \(spam, ok\), or"):
        Policy(confidence={"spma": 0.9, "*": 0.8}).rule(["spam", "ok"])
    with pytest.raises(OptionError, match="confidence has nothing for the label 'ok': name it, or give"):
        Policy(confidence={"spam": 0.9}).rule(["spam", "ok"])
    for costs in ({"spam": {"okk": 1}}, {"spma": {"ok": 1}}):
        with pytest.raises(OptionError, match="costs names the label 'ok{2}'|costs names the label 'spma'"):
            Policy(costs=costs, maximum_cost=1).rule(["spam", "ok"])
    with pytest.raises(OptionError, match="costs has nothing for deciding 'spam' where 'ok' is true: give it"):
        Policy(costs={"spam": {"ok": 1}}, maximum_cost=1).rule(["spam", "ok"])


def test_a_label_cannot_steer_a_terminal():
    with pytest.raises(OptionError) as refused:
        Policy(confidence={"a\x1b[2J\n": 0.9}).rule(["b"])
    assert "\x1b" not in str(refused.value)
    assert "\n" not in str(refused.value)
    told = Policy().decide({"a\x1b[2J": 0.95, "b": 0.05}, votes=3).why
    assert "\x1b" not in "".join(told)


def test_costs_by_the_nearest_name():
    costs = {"a": {"b": 5, "a": 0.5, "*": 4}, "*": {"b": 3, "*": 2}}
    rule = Policy(costs=costs, maximum_cost=1).rule(["a", "b", "c"])
    assert rule._cost_of == [[0.5, 2, 2], [5, 0, 3], [4, 2, 0]]  # [decided][true]


def test_numbers_of_any_kind_are_one_policy():
    one = Policy(minimum_votes=2, confidence=0.5, hold=60, costs=None, hysteresis=0, lock=1)
    other = Policy(minimum_votes=np.int64(2), confidence=Fraction(1, 2), hold=np.float32(60), hysteresis=-0.0, lock=1.0)
    assert one == other
    assert one.to_json() == other.to_json()
    assert Policy(confidence={"*": 0.7}) == Policy(confidence=0.7)
    assert Policy(confidence={"b": 1, "a": 0.5}).to_json() == Policy(confidence={"a": 0.5, "b": 1.0}).to_json()
    assert Policy(quorum={}).to_json() == Policy(quorum={"groups": 2, "votes": 1}).to_json()


def test_a_policy_keeps_its_own_copy():
    asked = {"a": 0.8, "*": 0.9}
    policy = Policy(confidence=asked)
    asked["a"] = 5
    assert policy.confidence == {"a": 0.8, "*": 0.9}
    with pytest.raises(AttributeError):
        policy.hold = 5


shares = st.floats(0.3, 1)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "minimum_votes": st.integers(1, 5),
        "maximum_votes": st.none() | st.integers(6, 20),
        "confidence": shares | st.dictionaries(st.text(max_size=3), shares, min_size=1, max_size=3),
        "hysteresis": st.floats(0, 0.2),
        "hold": st.floats(0, 1e6) | st.integers(0, 1000),
        "lock": st.none() | st.floats(0, 1e6),
        "escalate": st.fixed_dictionaries({}, optional={"tie": st.booleans(), "disagreement": st.none() | shares}),
        "quorum": st.none() | st.fixed_dictionaries({}, optional={"groups": st.integers(1, 2), "votes": st.integers(1, 3)}),
        "experts": st.fixed_dictionaries({}, optional={"decide": st.booleans()}),
        "reopen": st.fixed_dictionaries({}, optional={"votes": st.integers(0, 9)}),
        "probation": st.none() | st.fixed_dictionaries({}, optional={"votes": st.integers(1, 50), "accuracy": shares}),
        "breakers": st.none()
        | st.fixed_dictionaries({}, optional={"window": st.integers(1, 9999), "flip_rate": st.none() | shares}),
        "next": st.fixed_dictionaries({}, optional={"per_worker_per_hour": st.none() | st.integers(1, 50)}),
    },
)


@given(DOCUMENTS, st.randoms())
def test_json_gives_the_policy_back_and_is_one_text(document, random):
    policy = Policy.of(document)
    shuffled = list(document.items())
    random.shuffle(shuffled)
    again = Policy.from_json(json.dumps(dict(shuffled)))
    assert policy == again
    assert policy.to_json() == again.to_json()
    assert Policy.of(policy.document()) == policy
    assert Policy.from_json(policy.to_json(indent=2)).to_json() == policy.to_json()
    assert msgspec.json.decode(policy.to_json(), type=Policy) == policy  # as the service reads it


def test_the_service_reads_it_with_the_same_checks():
    with pytest.raises(msgspec.ValidationError, match="minimum_votes is 10: give at most maximum_votes"):
        msgspec.json.decode(b'{"minimum_votes": 10}', type=Policy)
    with pytest.raises(msgspec.ValidationError, match="unknown field `hodl`"):
        msgspec.json.decode(b'{"hodl": 10}', type=Policy)
    assert msgspec.json.schema(Policy)["$defs"]["Policy"]["properties"]["minimum_votes"]["default"] == 3


def test_reading_a_file(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(Policy(hold=5).to_json(indent=2))
    assert Policy.read(path) == Policy.read(str(path)) == Policy(hold=5)
    path.write_text('{"hold": -1}')
    with pytest.raises(OptionError, match=r"policy\.json: hold is -1"):
        Policy.read(path)
    path.write_text("{")
    with pytest.raises(InputError, match=r"policy\.json: the policy is not JSON"):
        Policy.read(path)
    with pytest.raises(InputError, match="cannot read the policy .*missing.json': No such file"):
        Policy.read(tmp_path / "missing.json")
    with pytest.raises(InputError, match="cannot read the policy"):
        Policy.read("a\0b")


def test_decide_by_hand():
    outcome = Policy().decide({"spam": 0.94, "ok": 0.06}, votes=3)
    assert (outcome.status, outcome.label, outcome.reason) == ("decided", "spam", "confidence")
    assert repr(outcome) == "Outcome(status='decided', label='spam', confidence=0.94, reason='confidence')"
    assert outcome.why == ["3 of at least 3 votes, at most 9", "0.94 of 0.90 confidence for spam", "decided: spam"]
    assert Policy().decide({"spam": 0.94, "ok": 0.06}, votes={"spam": 1, "ok": 1}).status == "open"
    assert Policy().decide({"ok": 0.5, "spam": 0.5}, votes=9).status == "escalated"
    assert Policy().decide({"ok": 0.9, "spam": 0.1}, votes=0, gold="spam").label == "spam"


def test_decide_goes_on_from_before():
    policy = Policy(hold=60, lock=600)
    first = policy.decide({"a": 0.95, "b": 0.05}, votes=3, time=100)
    assert (first.status, first.until) == ("held", 160)
    second = policy.decide({"a": 0.95, "b": 0.05}, votes=4, time=170, before=first)
    assert (second.status, second.until) == ("decided", 760)
    third = policy.decide({"b": 0.99, "a": 0.01}, votes=40, time=760, before=second)
    assert (third.status, third.label) == ("locked", "a")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"probabilities": {}}, "probabilities is {}: give label to probability"),
        ({"probabilities": {"a": 0.5, "b": 0.6}}, "probabilities sum to 1.1"),
        ({"probabilities": {"a": 1.5, "b": -0.5}}, "probability of 'a' is 1.5: give a number"),
        ({"probabilities": {1: 1.0}}, "label 1 of probabilities"),
        ({"votes": -1}, "votes is -1: give a whole number"),
        ({"votes": {"c": 1}}, "label 'c' is not among the declared labels: a, b"),
        ({"votes": {"a": 1.5}}, "votes for 'a' is 1.5: give a whole number"),
        ({"groups": {"left": {"c": 1}}}, "label 'c' is not among the declared labels"),
        ({"experts": ["c"]}, "label 'c' is not among the declared labels"),
        ({"gold": "c"}, "label 'c' is not among the declared labels"),
        ({"time": -1}, "time is -1: give a number"),
        (
            {"before": Policy().decide({"x": 1.0}, votes=1)},
            "probabilities are of the labels .*: give those of the outcome before",
        ),
    ],
)
def test_decide_refuses(given, message):
    with pytest.raises(adj.AdjudgeError, match=message):
        Policy().decide(**({"probabilities": {"a": 0.6, "b": 0.4}, "votes": 3} | given))


def test_disagreement_needs_votes_per_label():
    policy = Policy(escalate={"disagreement": 0.4})
    with pytest.raises(OptionError, match="votes is 5: give votes per label, as escalate.disagreement looks at them"):
        policy.decide({"a": 0.95, "b": 0.05}, votes=5)
    assert policy.decide({"a": 0.95, "b": 0.05}, votes={"a": 3, "b": 2}).status == "decided"
    assert policy.decide({"a": 0.95, "b": 0.05}, votes={"a": 5, "b": 4}).reason == "disagreement"


def test_every_field_is_documented():
    page, parts = (ROOT / "docs" / "policy.md").read_text(), Policy.__doc__
    rows = set(re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE))
    for field in Policy.__struct_fields__:
        assert f"- `{field}`: " in parts
        inner = [f"{field}.{each}" for each in SECTIONS[field].__struct_fields__] if field in SECTIONS else []
        assert field in rows or inner
        assert field in rows or set(inner) <= rows, field
    for kind in SECTIONS.values():
        for field in kind.__struct_fields__:
            assert f"- `{field}`: " in kind.__doc__
            assert f'{field}"' in page or f".{field}`" in page
