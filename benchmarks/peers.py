"""Against crowd-kit, in an environment of its own: one iteration, and from pandas to labels."""

import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

import polars as pl
from measure import interleaved

import quorate as qr
from quorate.engines.registry import resolve

ENVIRONMENT = Path(__file__).parent / ".peers"
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


def environment():
    """The peer's Python, made when it is not there."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        print(f"making an environment for {PACKAGES[0]} (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True, stderr=subprocess.DEVNULL)
    return python


def run(folder):
    """Rows of (what, figure, bar)."""
    crowd = qr.simulate(tasks=200_000, workers=20_000, labels=4, votes_per_task=5, seed=1)
    crowd.votes.write_parquet(folder / "peer.parquet")
    found = subprocess.run([environment(), "-c", PEER, folder / "peer.parquet"], check=True, capture_output=True, text=True)
    peer = json.loads(found.stdout.splitlines()[-1])
    yield "crowd-kit: import, seconds", peer["import"], ""
    yield "crowd-kit: one iteration on 1 million votes, seconds", peer["iteration"], ""
    votes = qr.read(crowd.votes)
    session = resolve("cpu", 2).load(votes, seed=0, ties="hash")
    params = qr.aggregate(votes, model="fds").fit.params
    ours = interleaved(
        {
            "soft": lambda: session.step(params, hard=False),
            "first": lambda: session.step(params, hard=True, likelihood=False),
            "hard": lambda: session.step(params, hard=True, likelihood=False),
        },
        15,
    )
    yield "crowd-kit's iteration / our soft pass", peer["iteration"] / ours["soft"], "at least 100x"
    yield "crowd-kit's iteration / our hard pass", peer["iteration"] / ours["hard"], "at least 300x"
    frame = pl.read_parquet(folder / "peer.parquet").to_pandas()
    warnings.simplefilter("ignore", qr.NotConverged)
    for model, bar in (("ds", "at least 20x"), ("fds", "at least 30x")):
        times = []
        for _ in range(5):
            began = time.perf_counter()
            qr.aggregate(frame, model=model, max_iter=10, tol=0.0).labels  # noqa: B018
            times.append(time.perf_counter() - began)
        yield f"pandas to labels, 10 iterations: crowd-kit / our {model}", peer["ten"] / sorted(times)[2], bar
