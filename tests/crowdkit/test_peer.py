"""The drop-in against crowd-kit itself, within documented tolerances; needs its environment (benchmarks/peers.py)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PEER = Path(__file__).parents[2] / "benchmarks" / ".peers" / "bin" / "python"
# Largest difference of a fitted figure, by class: those of docs/moving-from-crowd-kit.md.
TOLERANCE = {
    "MajorityVote": 1e-9,
    "Wawa": 1e-9,
    "ZeroBasedSkill": 1e-9,
    "DawidSkene": 1e-8,
    "OneCoinDawidSkene": 1e-8,
    "MACE": 1e-9,
    "KOS": 0.0,
    "MMSR": 1e-8,
    "GLAD": 1e-4,  # at convergence: M-steps end elsewhere
    "BradleyTerry": 1e-8,
}
# Ids are numbered in order of first votes, so that the order of names and that of rows are the same. A negative tol makes
# crowd-kit take all iterations.
CODE = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, pandas as pd
here = importlib.import_module(sys.argv[1] + ".aggregation")
random, out = np.random.RandomState(0), {}
attributes = ("labels_", "probas_", "skills_", "alphas_", "betas_", "priors_", "errors_", "scores_", "spamming_", "thetas_")
def note(case, model):
    for name in attributes:
        found = getattr(model, name, None)
        if found is not None:
            values = found.sort_index() if hasattr(found, "sort_index") else found
            out[f"{type(model).__name__} {name} of case {case}"] = np.asarray(values, float).ravel().tolist()
for case in range(6):
    tasks, workers, labels = 30, 6, case % 3 + 2
    truth, skill = random.randint(0, labels, tasks), random.uniform(0.6, 0.95, workers)
    rows = [(t, w, truth[t] if random.rand() < skill[w] else random.randint(labels)) for t in range(tasks) for w in range(workers) if random.rand() < 0.8]
    votes = pd.DataFrame(rows, columns=["task", "worker", "label"]).apply(lambda column: pd.factorize(column)[0])
    models = [here.MajorityVote(), here.Wawa(), here.ZeroBasedSkill(3, lr_init=0.5), here.DawidSkene(7, tol=-1), here.OneCoinDawidSkene(4, tol=-1), here.MACE(1, 6), here.MACE(1, 3, method="em"), here.MMSR(), here.GLAD(60, tol=-1, m_step_tol=1e-5)]
    for model in [*models, *([here.KOS(5)] if labels == 2 else [])]:
        model.fit_predict(votes)
        note(case, model)
    pairs = [random.choice(5, 2, replace=False) for _ in range(60)]
    games = pd.DataFrame([(random.randint(4), a, b, a if random.rand() < 0.7 else b) for a, b in pairs], columns=["worker", "left", "right", "label"])
    note(case, here.BradleyTerry(200, tol=0).fit(games))
print(json.dumps(out))
"""


@pytest.mark.skipif(not PEER.exists(), reason="no crowd-kit here: make bench makes an environment for it")
def test_figures_are_within_tolerance_of_crowd_kit():
    theirs, ours = (
        json.loads(subprocess.run([python, "-c", CODE, module], capture_output=True, text=True, check=True, timeout=200).stdout)
        for python, module in ((str(PEER), "crowdkit"), (sys.executable, "adjudge.crowdkit"))
    )
    assert theirs.keys() <= ours.keys()
    for name, values in theirs.items():
        assert ours[name] == pytest.approx(values, abs=TOLERANCE[name.partition(" ")[0]], rel=0), name
