"""Against crowd-kit, in an environment of its own: one iteration, and from pandas to labels."""

import json
import subprocess
import time
import warnings

import environments
import numpy as np
import polars as pl
from measure import interleaved

import adjudge as adj
from adjudge.engines.base import GladModel
from adjudge.engines.registry import engine_named
from adjudge.models.base import make

PACKAGES = ("crowd-kit==1.4.2", "scikit-learn<1.6", "pandas<3", "pyarrow")
PEER = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
began = time.perf_counter()
from crowdkit.aggregation import DawidSkene
imported = time.perf_counter() - began
import pandas as pd
votes = pd.read_parquet(sys.argv[1])
def seconds(n):
    began = time.perf_counter()
    DawidSkene(n_iter=n, tol=-1e30).fit_predict(votes)
    return time.perf_counter() - began
one, ten = seconds(1), seconds(10)
print(json.dumps({"import": imported, "iteration": (ten - one) / 9, "ten": ten}))
"""

GLAD = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
from crowdkit.aggregation import GLAD
import pandas as pd
model = GLAD(n_iter=2, tol=-1e30)
votes = pd.read_parquet(sys.argv[1])
began = time.perf_counter()
model.fit(votes)
seconds = time.perf_counter() - began
print(json.dumps({"iteration": seconds / 2, "ability": model.alphas_.to_dict(), "log_ease": model.betas_.to_dict()}))
"""


def environment():
    """The peer's Python, made when it is not there."""
    return environments.environment(".peers", PACKAGES)


def run(folder):
    """Rows of (what, figure, bar)."""
    yield from dawid_skene(folder)
    yield from glad(folder)


def peer_says(code, path):
    """What the peer printed last, run on the votes in this file."""
    found = subprocess.run([environment(), "-c", code, path], check=True, capture_output=True, text=True)
    return json.loads(found.stdout.splitlines()[-1])


def glad(folder):
    """One iteration with its M-step, and the penalised log-likelihood that is reached."""
    votes = adj.simulate(tasks=20_000, workers=1_000, labels=4, votes_per_task=5, seed=1).votes
    votes.write_parquet(folder / "glad.parquet")
    peer = peer_says(GLAD, folder / "glad.parquet")
    known, times = adj.read(votes), []
    for _ in range(5):
        began = time.perf_counter()
        result = adj.aggregate(known, model="glad", confidence="posterior", engine=adj.AutoEngine(threads=2))
        times.append((time.perf_counter() - began) / result.iterations)
    ability = np.array([peer["ability"][w] for w in known.workers.ids()])
    log_ease = np.array([peer["log_ease"][t] for t in known.tasks.ids()])
    passes = engine_named("cpu", 2).load(known, seed=0, ties="hash").glad()
    at = passes.expect(GladModel(np.concatenate([ability, log_ease]), np.log(np.full(4, 0.25)), np.log(3.0)))
    theirs = at.log_likelihood - (((ability - 1) ** 2).sum() + ((log_ease - 1) ** 2).sum()) / 2
    yield "GLAD, 100 thousand votes: crowd-kit's iteration, seconds", peer["iteration"], ""
    yield f"crowd-kit's iteration / ours ({result.iterations} to the end)", peer["iteration"] / sorted(times)[2], "at least 100x"
    yield (
        "our penalised log-likelihood at the end, above crowd-kit's after 2",
        result.fit.trace[-1].objective - theirs,
        "at least 0",
    )


def dawid_skene(folder):
    """One pass, and from pandas to labels."""
    crowd = adj.simulate(tasks=200_000, workers=20_000, labels=4, votes_per_task=5, seed=1)
    crowd.votes.write_parquet(folder / "peer.parquet")
    peer = peer_says(PEER, folder / "peer.parquet")
    yield "crowd-kit: import, seconds", peer["import"], ""
    yield "crowd-kit: one iteration on 1 million votes, seconds", peer["iteration"], ""
    votes = adj.read(crowd.votes)
    session = engine_named("cpu", 2).load(votes, seed=0, ties="hash")
    params = adj.aggregate(votes, model="fds", confidence="posterior").fit.params
    session.adopt(lambda _: params, params.priors)
    ours = interleaved(
        {
            "soft": lambda: session.e_step(hard=False),
            "first": lambda: session.e_step(hard=True, likelihood=False),
            "hard": lambda: session.e_step(hard=True, likelihood=False),
        },
        15,
    )
    yield "crowd-kit's iteration / our soft pass", peer["iteration"] / ours["soft"], "at least 100x"
    yield "crowd-kit's iteration / our hard pass", peer["iteration"] / ours["hard"], "at least 300x"
    frame = pl.read_parquet(folder / "peer.parquet").to_pandas()
    warnings.simplefilter("ignore", adj.NotConverged)
    for model, bar in (("ds", "at least 20x"), ("fds", "at least 30x")):
        times = []
        for _ in range(5):
            began = time.perf_counter()
            adj.aggregate(frame, model=make(model, {"max_iter": 10, "tol": 0.0}), confidence="posterior").labels  # noqa: B018
            times.append(time.perf_counter() - began)
        yield f"pandas to labels, 10 iterations: crowd-kit / our {model}", peer["ten"] / sorted(times)[2], bar
