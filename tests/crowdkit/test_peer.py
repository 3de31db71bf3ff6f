"""The drop-in beside crowd-kit itself, where the benchmarks have made an environment for it (benchmarks/peers.py)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PEER = Path(__file__).parents[2] / "benchmarks" / ".peers" / "bin" / "python"
# Ids are numbers in order of their first votes, so that the order of names and that of rows are one; MACE has others as well.
CODE = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, pandas as pd
here = importlib.import_module(sys.argv[1] + ".aggregation")
random, out = np.random.RandomState(0), {}
for case in range(3):
    tasks, workers, labels = 12, 6, case + 2
    truth, skill = random.randint(0, labels, tasks), random.uniform(0.5, 0.95, workers)
    rows = [(t, w, truth[t] if random.rand() < skill[w] else random.randint(labels)) for t in range(tasks) for w in range(workers) if random.rand() < 0.8]
    votes = pd.DataFrame(rows, columns=["task", "worker", "label"]).apply(lambda column: pd.factorize(column)[0])
    models = [here.DawidSkene(7), here.OneCoinDawidSkene(4), here.Wawa(), here.ZeroBasedSkill(3, lr_init=0.5), here.GLAD(3), here.MACE(1, 6), here.MMSR(4)]
    models += [here.KOS(5)] if labels == 2 else []
    shuffled = votes.sample(frac=1, random_state=case)
    for at, model in enumerate([*models, here.MACE(2, 6), here.MACE(1, 3, method="em")]):
        model.fit_predict(votes if at < len(models) else shuffled)
        for name in ("labels_", "probas_", "skills_", "alphas_", "betas_", "priors_", "errors_", "scores_", "loss_history_", "spamming_", "thetas_"):
            found = getattr(model, name, None)
            if found is not None:
                values = found.sort_index() if hasattr(found, "sort_index") else found
                out[f"{case} {at} {type(model).__name__} {name}"] = np.asarray(values, float).ravel().tolist()
for case in range(4):
    pairs = [random.choice(5, 2, replace=False) for _ in range(30)]
    games = pd.DataFrame([(random.randint(4), a, b, a if random.rand() < 0.7 else b) for a, b in pairs], columns=["worker", "left", "right", "label"])
    for n in (0, 1, 10, 100):
        for model in (here.BradleyTerry(n), here.BradleyTerry(n, tol=0), here.NoisyBradleyTerry(n, random_state=case)):
            model.fit(games)
            for name in ("scores_", "skills_", "biases_"):
                if hasattr(model, name):
                    out[f"{case} {n} {getattr(model, 'tol', 0)} {type(model).__name__} {name}"] = getattr(model, name).sort_index().tolist()
print(json.dumps(out))
"""


@pytest.mark.skipif(not PEER.exists(), reason="no crowd-kit here: make bench makes an environment for it")
def test_figures_are_those_of_crowd_kit():
    theirs, ours = (
        json.loads(subprocess.run([python, "-c", CODE, module], capture_output=True, text=True, check=True, timeout=200).stdout)
        for python, module in ((str(PEER), "crowdkit"), (sys.executable, "adjudge.crowdkit"))
    )
    assert theirs.keys() <= ours.keys()
    for name, values in theirs.items():
        assert ours[name] == pytest.approx(values, abs=1e-6), name
