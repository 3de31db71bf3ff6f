import numpy as np
import pytest

from adjudge.gpu.device import device_at, device_count
from adjudge.gpu.votes import DeviceLayout
from gpu.emulated import EmulatedDevice, compiler
from gpu.strict import StrictDevice


@pytest.fixture(scope="session")
def emulated():
    """The processor as a device, over plain arrays of NumPy."""
    if compiler() is None:
        pytest.skip("no g++ to compile the kernels for the processor")
    return EmulatedDevice()


@pytest.fixture(scope="session", params=["emulated", "cuda"])
def device(request):
    """A device: the processor, with arrays as strict as CuPy's, and a CUDA device where there is one."""
    if request.param == "emulated":
        request.getfixturevalue("emulated")  # or a word of why not
        return StrictDevice()
    if not device_count():
        pytest.skip("no CUDA device")
    return device_at(0)


class RandomVotes:
    """Random votes as the kernels see them, on the host: workers of different skill, rows by worker and label."""

    def __init__(self, seed=0, tasks=50, workers=12, labels=4, votes=(1, 9), long_tasks=(), weights=False):
        rng = np.random.default_rng(seed)
        length = rng.integers(votes[0], votes[1] + 1, tasks)
        for at, size in enumerate(long_tasks):  # the lengths of the last tasks but one, and so on
            length[tasks - 2 - 2 * at] = size
        self.n_labels, self.n_tasks = labels, tasks
        self.task_ptr = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
        task = np.repeat(np.arange(tasks), length)
        worker = rng.integers(0, max(workers, 1), len(task))
        truth, skill = rng.integers(0, labels, tasks), rng.uniform(0.2, 1.0, max(workers, 1))
        right = rng.random(len(task)) < skill[worker]
        given = np.where(right, truth[task], rng.integers(0, labels, len(task)))
        weight = rng.choice([0.25, 0.5, 1.0, 3.0], len(task)) if weights else np.ones(len(task))
        key = np.stack([worker, given, weight], axis=1)
        rows, row = np.unique(key, axis=0, return_inverse=True)
        self.row = row.reshape(-1).astype(np.uint32)
        self.row_label = rows[:, 1].astype(np.int32)
        self.row_weight = np.ascontiguousarray(rows[:, 2]) if weights else None
        _, self.row_worker = np.unique(rows[:, 0], return_inverse=True)
        self.row_worker = self.row_worker.reshape(-1).astype(np.int64)
        workers_seen = int(self.row_worker[-1]) + 1 if len(rows) else 0
        self.worker_ptr = np.searchsorted(self.row_worker, np.arange(workers_seen + 1)).astype(np.int64)
        self.labels = rng.integers(0, labels, tasks).astype(np.int32)  # some labels
        self.labels[: tasks // 2] = truth[: tasks // 2]

    @property
    def n_rows(self):
        return len(self.row_label)

    def layout(self, device):
        """Return the votes on a device."""
        return DeviceLayout.of(device, self.task_ptr, self.row)


@pytest.fixture(scope="session")
def random_votes():
    """random_votes(seed, tasks, workers, labels, votes, long_tasks, weights): see RandomVotes."""
    return RandomVotes
