"""Many labels: seconds of processor time and peak memory of a fit, its workers and predictions.

python benchmarks/labels.py [votes,workers,labels …]
"""

import resource
import subprocess
import sys
import time

SIZES = ("100000,500,1000", "500000,2000,100")
PER_TASK = 5


def crowd(votes, workers, labels):
    """Votes that are right more often than not, as columns."""
    import numpy as np

    draw = np.random.default_rng(0)
    truth = draw.integers(0, labels, votes // PER_TASK)
    task = np.repeat(np.arange(len(truth)), PER_TASK)
    label = np.where(draw.random(len(task)) < 0.6, truth[task], draw.integers(0, labels, len(task)))
    return {"task": task, "worker": draw.integers(0, workers, len(task)), "label": label}


def run(size):
    """Print what each step of the default takes, in this process."""
    import adjudge as adj

    assert len(adj.aggregate(adj.simulate(tasks=50, workers=5).votes).workers)  # loads what is loaded once
    votes = adj.read(crowd(*map(int, size.split(","))))
    result = None

    def fit():
        nonlocal result
        result = adj.aggregate(votes)

    steps = {
        "read": lambda: None,
        "fit": fit,
        "predict": lambda: result.predict(votes),
        "explain": lambda: result.explain(0),
        "workers": lambda: result.workers,
    }
    for name, step in steps.items():
        wall, busy = time.perf_counter(), time.process_time()
        step()
        wall, busy = time.perf_counter() - wall, time.process_time() - busy
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{size:18} {name:8} {wall:7.2f} s  {busy:7.2f} s of processors  peak so far {peak:6.0f} MB", flush=True)


def main(arguments):
    if arguments[:1] == ["--one"]:
        run(arguments[1])
        return
    for size in arguments or SIZES:  # each in a process of its own, whose peak is its own
        subprocess.run([sys.executable, __file__, "--one", size], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
