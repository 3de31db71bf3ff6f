"""What a type checker knows of the public interface: README's examples and a script of assertions, under mypy --strict."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from quorate.data.options import DEFAULTS, EngineName, ModelName
from quorate.engines.registry import ENGINES
from quorate.models.base import MODELS, USUAL

README = Path(__file__).parent.parent / "README.md"

# No expression here may hold an Any: frames of the caller's own kind are named, and not looked into.
DOOR = """\
# mypy: disallow-any-expr
from pathlib import Path
from typing import assert_type

import polars as pl

import quorate as qr
from quorate.io.frames import Frame

votes = [("t1", "ann", "cat"), ("t1", "bob", "dog")]
frame = pl.DataFrame({"task": ["t1"], "worker": ["ann"], "label": ["cat"]})
flag = len(votes) > 1

result = qr.aggregate(votes)
assert_type(result, qr.Result)
assert_type(qr.aggregate("votes.csv", "ds", multi=False), qr.Result)
assert_type(qr.aggregate(Path("votes.csv"), qr.DawidSkene(tol=1e-6)), qr.Result)
assert_type(qr.aggregate(frame, engine="my engine", strength="auto", gold={1: "cat"}), qr.Result)
assert_type(qr.aggregate(qr.read(frame), priors={"cat": 0.3, "dog": 0.7}, ties="prior", stop="labels"), qr.Result)
assert_type(qr.aggregate(frame, history=result, warm_start=qr.load("a.quorate"), priors="uniform"), qr.Result)
assert_type(qr.aggregate(frame, groups={"ann": "team", "bob": "team"}, exclude=["eve"]), qr.Result)
assert_type(qr.aggregate(frame, groups="answers_like", exclude={7, 8}), qr.Result)
assert_type(qr.aggregate(frame, groups=Path("groups.csv"), exclude=frame), qr.Result)
sets = qr.aggregate(votes, multi=True, per_option=True)
assert_type(sets, qr.MultiResult)
assert_type(qr.aggregate(votes, multi=flag), qr.Result | qr.MultiResult)

policy = qr.Policy(confidence={"cat": 0.95, "*": 0.8}, quorum={"groups": 2}, escalate={"tie": True, "disagreement": 0.4}, lock=None)
assert_type(policy, qr.Policy)
assert_type(policy.to_json(indent=2), str)
assert_type(policy.decide({"cat": 0.9, "dog": 0.1}, votes=3).label, str | None)
assert_type(qr.Policy.read("policy.json").hold, float)

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
assert_type(result.predict(votes, duplicates="first"), qr.Result)
assert_type(qr.merge(result, "a.quorate"), qr.FittedModel)
model = qr.load("a.quorate")
assert_type(model, qr.FittedModel | qr.FittedSets)
assert_type(qr.merge(model, model), qr.FittedModel)
assert_type(model.predict(votes), qr.Result | qr.MultiResult)
assert_type(model.predict(votes).labels, Frame)
assert_type(model.predict(votes).expected_errors, float)
assert_type(model.workers, pl.DataFrame)
assert_type(sets.predict(votes, set_separator=";"), qr.MultiResult)
assert_type(sets.priors, Frame)
assert_type(sets.expected_wrong_options, float)
assert_type(qr.MajorityVote().fit(votes), qr.Result)

assert_type(qr.evaluate(result, {"t1": "cat"}), qr.Evaluation)
assert_type(qr.evaluate(result.labels, Path("truth.csv")), qr.Evaluation)
assert_type(qr.evaluate({"t1": "cat"}, frame, truth_task="item"), qr.Evaluation)
assert_type(qr.evaluate(sets, "truth.csv"), qr.SetEvaluation)
assert_type(qr.evaluate("labels.csv", "truth.csv", multi=True), qr.SetEvaluation)
assert_type(qr.evaluate("labels.csv", "truth.csv", multi=flag), qr.Evaluation | qr.SetEvaluation)
assert_type(qr.evaluate(result, frame).accuracy, float)
assert_type(qr.evaluate(result, frame).confusion, Frame)

assert_type(qr.read(votes, duplicates="last"), qr.Votes)
online = qr.Online.from_result(result)
online.learn("t1", "eve", "cat")
assert_type(online.predict("t1"), qr.Prediction)
assert_type(online.labels(), Frame)
assert_type(online.labels_frame(), pl.DataFrame)
assert_type(qr.evaluate(online, frame), qr.Evaluation)
encoded: qr.Votes = qr.encode(frame, "folder")
assert_type(qr.simulate(tasks=10), qr.Simulation)
assert_type(result.join(frame), Frame)
assert_type(result.understood, qr.Understood | None)
assert_type(online.refit(warm=True), qr.Result)
assert_type(qr.simulate(tasks=10).votes, pl.DataFrame)
assert_type(qr.agreement(frame), qr.Agreement)
"""

# Each of these is an error of types, too: an ignore that is not needed would be one.
WRONG = """\
import quorate as qr

votes = [("t1", "ann", "cat")]
qr.aggregate(votes, "dds")  # type: ignore[call-overload]
qr.aggregate(votes, stop="never")  # type: ignore[call-overload]
qr.aggregate(votes, tolerance=1.0)  # type: ignore[call-overload]
qr.aggregate(votes, multi=True).iterations_before  # type: ignore[attr-defined]
qr.aggregate(votes).lables  # type: ignore[attr-defined]
qr.read(votes, duplicates="lst")  # type: ignore[arg-type]
qr.read(3)  # type: ignore[arg-type]
qr.Online(labels=["cat"], model="mv")  # type: ignore[arg-type]
qr.DawidSkene(ties="none")  # type: ignore[arg-type]
"""


def test_a_type_checker_knows_what_comes_back(tmp_path):
    pytest.importorskip("mypy")
    lines = re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", README.read_text(), re.M)
    assert any("qr.aggregate" in line for line in lines)
    scripts = {"readme.py": "\n".join(lines) + "\n", "door.py": DOOR, "wrong.py": WRONG}
    for name, text in scripts.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", "--config-file=", *scripts]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_names_that_type_checkers_know_are_those_there_are():
    assert set(get_args(ModelName)) == set(MODELS)
    assert set(get_args(EngineName)) == {"auto", *ENGINES}


def test_every_default_of_a_model_stands_in_the_table():
    for model in (MODELS[name] for name in USUAL):  # the field's other methods have defaults of their own
        shared = model.options().keys() & DEFAULTS._fields
        assert {name: model.options()[name] for name in shared} == {name: getattr(DEFAULTS, name) for name in shared}
