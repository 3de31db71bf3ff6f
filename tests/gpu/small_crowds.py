"""Fits of the contract's small crowds on a CUDA device, for NVIDIA's checkers, which make everything many times slower.

    compute-sanitizer --tool memcheck python tests/gpu/small_crowds.py
    compute-sanitizer --tool racecheck python tests/gpu/small_crowds.py

Every kernel of passes is among them: those of large data are made to take small ones, too.
"""

import sys
import warnings

import adjudge as adj
from adjudge.gpu.engine import cuda_engine
from adjudge.gpu.passes import DeviceKernels


def main(models):
    """Fit each model, and ask for what else runs on the device."""
    warnings.simplefilter("ignore")
    engine = cuda_engine(2)
    crowds = [
        adj.simulate(tasks=200, workers=20, labels=4, votes_per_task=5, seed=3),
        adj.simulate(tasks=60, workers=15, labels=3, votes_per_task=2, seed=8),
    ]
    for large in (False, True):
        if large:  # costs of one byte, and votes sorted by row at once
            DeviceKernels.min_narrow_votes = DeviceKernels.min_sorted_votes = 0
            DeviceKernels.sorted_from_cached = 1
        for crowd in crowds:
            for model in models:
                votes = adj.read(crowd.votes)
                result = adj.aggregate(votes, model=model, engine=engine, trace="light", confidence="honest")
                for frame in (result.labels, result.probabilities, result.workers):
                    assert len(frame)
                print(model, "large" if large else "small", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ["mv", "fds", "ds", "auto", "glad"])
