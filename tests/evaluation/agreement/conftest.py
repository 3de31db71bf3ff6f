import numpy as np
import pytest


@pytest.fixture
def draw():
    """draw(seed, …) -> votes (task, worker, label) of a crowd with gaps, labels 1 … K, at most one vote a task each."""

    def votes(seed, tasks=25, workers=5, labels=4, missing=0.3, noise=0.5):
        rng = np.random.default_rng(seed)
        true = rng.integers(1, labels + 1, size=tasks)
        out = []
        for t in range(tasks):
            for w in range(workers):
                if rng.random() >= missing:
                    wrong = rng.random() < noise
                    out.append((f"t{t}", f"w{w}", int(rng.integers(1, labels + 1) if wrong else true[t])))
        return out

    return votes
