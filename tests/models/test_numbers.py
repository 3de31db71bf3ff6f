"""Every option that is a number, with numbers nobody expects: the right thing, or one clear line."""

import math
import warnings
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.models.base import MODELS, make
from adjudge.models.temperature import apply_temperature

CROWD = adj.simulate(tasks=40, workers=8, labels=3, votes_per_task=4, seed=1)
VOTES = adj.read(CROWD.votes)
BEYOND = 10**400  # a whole number larger than every float
# What each is: a name (for messages), how it is given, and which of the odd values it takes.
ALIENS = [None, True, False, "x", "0.5", 1j, [1], np.array([1.0, 2.0]), math.nan, math.inf, -math.inf, -1, -0.5]
POSITIVE = [0.5, 1, 1e-300, 5e-324, np.float32(0.5), np.int64(2), Fraction(1, 3)]
HUGE = [1e308, 1e13, 2**64, BEYOND]
WHOLE = [1, 2, np.int64(3), 2**64, BEYOND]


def of_model(model, name, values):
    """A setting of a model."""
    return lambda value: MODELS[model](**{name: value}).fit(VOTES).labels, values


def of_history(model):
    def run(value):
        return adj.aggregate(VOTES, model=model, history={"worker": ["w0"], "true": ["l0"], "given": ["l1"], "count": [value]})

    return run


def simulated(name):
    return lambda value: next(adj.simulate(**{"tasks": 20, "workers": 10, name: value}).vote_batches())


WEIGHTS = {"takes": [0, *POSITIVE, 1e12], "refuses": [*ALIENS, *HUGE]}
ANY = {"takes": [0, *POSITIVE, 1e308, 2**64], "refuses": [*ALIENS, BEYOND]}
SHARE = {"takes": [0, 0.5, 1, np.float32(0.5), 5e-324], "refuses": [*ALIENS, *HUGE, 1.5]}
COUNT = {"takes": WHOLE, "refuses": [*ALIENS, 0, 0.5, 1e308, 2.0]}
CASES = {
    **{f"smoothing {m}": of_model(m, "smoothing", WEIGHTS) for m in ("ds", "fds", "hybrid", "one-coin")},
    **{f"strength {m}": of_model(m, "strength", WEIGHTS) for m in ("ds", "fds", "one-coin")},
    **{f"tol {m}": of_model(m, "tol", ANY) for m in ("ds", "fds", "hybrid", "one-coin")},
    "tol glad": (lambda v: adj.GLAD(tol=v, max_iter=3).fit(VOTES), ANY),
    "m_tol": (lambda v: adj.GLAD(m_tol=v, max_iter=3).fit(VOTES), ANY),
    "m_steps": (lambda v: adj.GLAD(m_steps=v, max_iter=3).fit(VOTES), COUNT),
    "switch": of_model("hybrid", "switch", ANY),
    **{f"max_iter {m}": of_model(m, "max_iter", COUNT) for m in ("fds", "iwmv", "glad")},
    "seed": of_model("mv", "seed", {"takes": [0, -1, 2**64, BEYOND], "refuses": [x for x in ALIENS if type(x) is not int]}),
    "threads": (
        lambda v: adj.aggregate(VOTES, engine=adj.AutoEngine(threads=v)),
        {"takes": [None, 1, np.int64(2), 4096], "refuses": [x for x in ALIENS if x is not None] + [0, 0.5, 4097, 2**64, BEYOND]},
    ),
    "memory": (
        lambda v: adj.aggregate(VOTES, engine=adj.AutoEngine(memory=v)),
        {"takes": [None, 2**63], "refuses": [x for x in ALIENS if x is not None] + [0, 1e308, BEYOND]},
    ),
    "priors_weight": (
        lambda v: adj.aggregate(VOTES, priors="uniform", priors_weight=v),
        {**WEIGHTS, "takes": [*WEIGHTS["takes"], None], "refuses": [x for x in WEIGHTS["refuses"] if x is not None]},
    ),
    "priors_weight glad": (
        lambda v: adj.GLAD(max_iter=3).fit(VOTES, priors="uniform", priors_weight=v),
        {"takes": [0, 1e12], "refuses": HUGE},
    ),
    "priors": (
        lambda v: adj.aggregate(VOTES, priors=[v, 0.25, 0.5]),
        {"takes": [0.25, np.float32(0.25), Fraction(1, 4)], "refuses": [*ALIENS, *HUGE, 0, "0.25"]},
    ),
    **{
        f"history {m}": (of_history(m), {"takes": [0, 1, 0.5, 1e12, "3"], "refuses": [None, True, "x", [1], -1, *HUGE, math.nan]})
        for m in ("fds", "ds", "one-coin", "iwmv")
    },
    "temperature": (
        lambda v: apply_temperature(np.array([[0.9, 0.1]]), v),
        {"takes": [1e-6, 0.5, 1, 1e6], "refuses": [*ALIENS, 0, 1e-300, *HUGE]},
    ),
    **{f"simulate {name}": (simulated(name), SHARE) for name in ("skill", "spammers", "adversaries", "colluders", "repeats")},
    "simulate skill_spread": (simulated("skill_spread"), {"takes": [0, 5e-324, 0.5], "refuses": [*ALIENS, *HUGE, 0.6]}),
    "simulate power": (simulated("power"), {"takes": [0, *POSITIVE, 100], "refuses": [*ALIENS, *HUGE]}),
    "simulate ring": (simulated("ring"), {"takes": [2, np.int64(3), 2**31], "refuses": [*ALIENS, 1, 0.5, 2**64, BEYOND]}),
    "simulate tasks": (simulated("tasks"), {"takes": [0, 1, np.int64(2)], "refuses": [*ALIENS, 0.5, *HUGE]}),
    "simulate workers": (simulated("workers"), {"takes": [1, np.int64(2)], "refuses": [*ALIENS, 0, *HUGE, 2**31]}),
    "simulate labels": (simulated("labels"), {"takes": [1, np.int64(2)], "refuses": [*ALIENS, 0, *HUGE, 2**31]}),
    "simulate seed": (simulated("seed"), {"takes": [0, 2**64, BEYOND], "refuses": [*ALIENS, 0.5, 1e308]}),
    "simulate votes_per_task": (
        simulated("votes_per_task"),
        {
            "takes": [1, 2**64, (1, 3), [2, 4], [2]],
            "refuses": [x for x in ALIENS if not isinstance(x, list)] + [0, 0.5, (3, 1), (1, 2, 3), (True, 2)],
        },
    ),
    "simulate label_weights": (
        lambda v: adj.simulate(tasks=20, workers=10, label_weights=[v, 1, 1]).votes,
        {"takes": [0, *POSITIVE, 1e12], "refuses": [*ALIENS, *HUGE]},
    ),
    "agreement resamples": (
        lambda v: adj.agreement(VOTES, resamples=v, model=None, pairs=False),
        {"takes": [0, 2, np.int64(2)], "refuses": [*ALIENS, 0.5, 1e308, BEYOND]},
    ),
    "agreement level": (
        lambda v: adj.agreement(VOTES, level=v, resamples=2, model=None, pairs=False),
        {"takes": [0.5, 0.9999], "refuses": [*ALIENS, 0, 1, *HUGE]},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers(case):
    run, values = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", adj.NotConverged)
        for value in values["takes"]:
            run(value)
        for value in values["refuses"]:
            with pytest.raises((adj.OptionError, adj.InputError, adj.AdjudgeError)) as told:
                run(value)
            assert "\n" not in str(told.value)
            assert "please report" not in str(told.value)


@pytest.mark.parametrize("smoothing", [0, 1e-300, 1.0, 1e12])
@pytest.mark.parametrize("model", ["ds", "fds", "one-coin"])
def test_confusions_are_finite_up_to_the_bounds(model, smoothing):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", adj.NotConverged)
        result = adj.aggregate(VOTES, model=make(model, {"smoothing": smoothing, "strength": smoothing}))
    assert np.isfinite(result.confusion_matrix("w0")).all()
    assert result.labels["confidence"].is_between(0, 1 + 1e-12).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--priors", "l0=0.3,l0=0.5,l1=0.1,l2=0.1"], "priors name the label 'l0' twice: give one probability for each"),
        (["--priors", "l0 =0.3, l0=0.5"], "priors name the label 'l0' twice"),
        (["--priors", "l0=nan,l1=0.5,l2=0.5"], "give probabilities above 0"),
        (["--priors", "l0=1e308,l1=1e308,l2=1e308"], "give probabilities above 0"),
        (["--priors", "l0=,l1=1"], "give label=probability joined by commas"),
        (
            ["--priors", "uniform", "--priors-weight", "1e308"],
            "priors_weight is 1e+308: give a number of at least 0 and at most 1e+12",
        ),
        (["--priors", "uniform", "--priors-weight", "nan"], "priors_weight is nan"),
        (["--strength", "1e308"], "strength is 1e+308: give a number of at least 0 and at most 1e+12, or 'auto'"),
        (["--strength", "nan"], "strength is nan"),
        (["--strength", "true"], "strength is 'true'"),
        (["--smoothing", "1e308"], "smoothing is 1e+308: give a number of at least 0 and at most 1e+12"),
        (["--smoothing", "-1"], "smoothing is -1.0"),
        (["--tol", "inf"], "tol is inf"),
        (["--tol", "-1"], "tol is -1.0"),
        (["--model", "hybrid", "--switch", "nan"], "switch is nan"),
        (["--max-iter", "0"], "max_iter is 0"),
        (["--max-iter", "-5"], "max_iter is -5"),
        (["--threads", "0"], "threads is 0: give a whole number of at least 1 and at most 4096"),
        (["--threads", str(10**30)], "threads is 1000000000000000000000000000000: give"),
        (["--memory", "1e308"], "memory is '1e308'"),
        (["--history", "history.csv"], "count in row 1 of the history is '1e+308': give a number from 0 to 1e+12"),
    ],
)
@pytest.mark.parametrize("model", ["fds", "ds"])
def test_on_the_command_line(adjudge, tmp_path, monkeypatch, arguments, words, model):
    monkeypatch.chdir(tmp_path)
    CROWD.votes.write_csv("votes.csv")
    pl.DataFrame({"worker": ["w0"], "true": ["l0"], "given": ["l1"], "count": [1e308]}).write_csv("history.csv")
    code, out, err = adjudge("aggregate", "votes.csv", *([] if "--model" in arguments else ["--model", model]), *arguments)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert words in err
