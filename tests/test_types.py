"""What a type checker knows of the public interface: README's examples and a script of assertions, under mypy --strict."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from adjudge.data.options import DEFAULTS, EngineName, ModelName
from adjudge.engines.registry import ENGINES
from adjudge.models.base import DEFAULT_COMPARED_MODELS, MODELS

README = Path(__file__).parent.parent / "README.md"

# No expression here may hold an Any: frames of the caller's own kind are named, and not looked into.
DOOR = """\
# mypy: disallow-any-expr
from pathlib import Path
from typing import assert_type

import polars as pl

import adjudge as adj
from adjudge.io.frames import Frame

votes = [("t1", "ann", "cat"), ("t1", "bob", "dog")]
frame = pl.DataFrame({"task": ["t1"], "worker": ["ann"], "label": ["cat"]})
flag = len(votes) > 1

result = adj.aggregate(votes)
assert_type(result, adj.Result)
assert_type(adj.aggregate("votes.csv", "ds", multi=False), adj.Result)
assert_type(adj.aggregate(Path("votes.csv"), adj.DawidSkene(tol=1e-6)), adj.Result)
assert_type(adj.aggregate(frame, engine="my engine", model=adj.DawidSkene(strength="auto"), gold={1: "cat"}), adj.Result)
assert_type(adj.aggregate(adj.read(frame), priors={"cat": 0.3, "dog": 0.7}, engine=adj.Disk(memory="2GB"), strict=True), adj.Result)
assert_type(adj.aggregate(frame, history=result, warm_start=adj.load("a.adjudge"), priors="uniform"), adj.Result)
assert_type(adj.aggregate(frame, groups={"ann": "team", "bob": "team"}, exclude=["eve"]), adj.Result)
assert_type(adj.aggregate(frame, groups="answers_like", exclude={7, 8}), adj.Result)
assert_type(adj.aggregate(frame, groups=Path("groups.csv"), exclude=frame), adj.Result)
sets = adj.aggregate(votes, multi=True, per_option=True)
assert_type(sets, adj.MultiResult)
assert_type(adj.aggregate(votes, multi=flag), adj.Result | adj.MultiResult)

policy = adj.Policy(confidence={"cat": 0.95, "*": 0.8}, quorum={"groups": 2}, escalate={"tie": True, "disagreement": 0.4}, lock=None)
assert_type(policy, adj.Policy)
assert_type(policy.to_json(indent=2), str)
assert_type(policy.decide({"cat": 0.9, "dog": 0.1}, votes=3).label, str | None)
assert_type(adj.Policy.read("policy.json").hold, float)

assert_type(result.labels, Frame)
assert_type(result.workers, Frame)
assert_type(result.groups, Frame)
assert_type(result.probabilities, Frame)
assert_type(result.priors, Frame)
assert_type(result.trace, Frame)
assert_type(result.confusion("ann"), Frame)
assert_type(sets.labels, Frame)
assert_type(sets.confusion("ann"), Frame)
assert_type(result.labels_frame(), pl.DataFrame)
assert_type(result.iterations, int)
assert_type(result.converged, bool)
assert_type(result.log_likelihood, float)
assert_type(result.expected_errors, float)
assert_type(result.predict(votes, duplicates="first"), adj.Result)
assert_type(adj.merge(result, "a.adjudge"), adj.FittedModel)
model = adj.load("a.adjudge")
assert_type(model, adj.FittedModel | adj.FittedSets)
assert_type(adj.merge(model, model), adj.FittedModel)
assert_type(model.predict(votes), adj.Result | adj.MultiResult)
assert_type(model.predict(votes).labels, Frame)
assert_type(model.predict(votes).expected_errors, float)
assert_type(model.workers, pl.DataFrame)
assert_type(sets.predict(votes, set_separator=";"), adj.MultiResult)
assert_type(sets.priors, Frame)
assert_type(sets.expected_wrong_options, float)
assert_type(adj.MajorityVote().fit(votes), adj.Result)

assert_type(adj.evaluate(result, {"t1": "cat"}), adj.Evaluation)
assert_type(adj.evaluate(result.labels, Path("truth.csv")), adj.Evaluation)
assert_type(adj.evaluate({"t1": "cat"}, frame, truth_task="item"), adj.Evaluation)
assert_type(adj.evaluate(sets, "truth.csv"), adj.SetEvaluation)
assert_type(adj.evaluate("labels.csv", "truth.csv", multi=True), adj.SetEvaluation)
assert_type(adj.evaluate("labels.csv", "truth.csv", multi=flag), adj.Evaluation | adj.SetEvaluation)
assert_type(adj.evaluate(result, frame).accuracy, float)
assert_type(adj.evaluate(result, frame).confusion, Frame)

assert_type(adj.read(votes, duplicates="last"), adj.Votes)
online = adj.Online.from_result(result)
online.learn("t1", "eve", "cat")
assert_type(online.predict("t1"), adj.Prediction)
assert_type(online.labels(), Frame)
assert_type(online.labels_frame(), pl.DataFrame)
assert_type(adj.evaluate(online, frame), adj.Evaluation)
encoded: adj.Votes = adj.encode(frame, "folder")
assert_type(adj.simulate(tasks=10), adj.Simulation)
assert_type(result.join(frame), Frame)
assert_type(result.understood, adj.Understood | None)
assert_type(online.refit(warm=True), adj.Result)
assert_type(adj.simulate(tasks=10).votes, pl.DataFrame)
assert_type(adj.agreement(frame), adj.Agreement)
"""

# Each of these is an error of types, too: an ignore that is not needed would be one.
WRONG = """\
import adjudge as adj

votes = [("t1", "ann", "cat")]
adj.aggregate(votes, "dds")  # type: ignore[call-overload]
adj.aggregate(votes, stop="never")  # type: ignore[call-overload]
adj.aggregate(votes, tolerance=1.0)  # type: ignore[call-overload]
adj.aggregate(votes, multi=True).iterations_before  # type: ignore[attr-defined]
adj.aggregate(votes).lables  # type: ignore[attr-defined]
adj.read(votes, duplicates="lst")  # type: ignore[arg-type]
adj.read(3)  # type: ignore[arg-type]
adj.Online(labels=["cat"], model="mv")  # type: ignore[arg-type]
adj.DawidSkene(ties="none")  # type: ignore[arg-type]
"""


def test_a_type_checker_knows_what_comes_back(tmp_path):
    pytest.importorskip("mypy")
    lines = re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", README.read_text(), re.M)
    assert any("adj.aggregate" in line for line in lines)
    scripts = {"readme.py": "\n".join(lines) + "\n", "door.py": DOOR, "wrong.py": WRONG}
    for name, text in scripts.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", "--config-file=", *scripts]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_names_that_type_checkers_know_are_those_there_are():
    assert set(get_args(ModelName)) == set(MODELS)
    assert set(get_args(EngineName)) == {"auto", *ENGINES}


def test_every_default_of_a_model_is_in_the_table():
    """Of the usual models; the field's other methods have the defaults of their papers, which `aggregate` leaves them."""
    for model in (MODELS[name] for name in DEFAULT_COMPARED_MODELS):
        shared = model.options().keys() & DEFAULTS._fields
        assert {name: model.options()[name] for name in shared} == {name: getattr(DEFAULTS, name) for name in shared}
