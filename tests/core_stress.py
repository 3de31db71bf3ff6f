"""Many threads in the compiled core, without polars (which does not run under ThreadSanitizer): for `make sanitize`.

Every function that releases the GIL is called from several threads at once: on one stream, which has a lock
of its own; and on arrays and dictionaries that callers share for reading only, or keep to themselves.
"""

import numpy as np
import pyarrow as pa

from adjudge.kernels import cpu, methods_cpu, reference
from thread_stress import in_threads

K = 3


def table(draw, votes, prefix=""):
    return pa.table(
        {
            "task": [f"{prefix}task {n}" for n in draw.integers(0, 200, votes)],
            "worker": [f"worker {n}" for n in draw.integers(0, 20, votes)],
        }
    )


def on_one_stream(core, rounds, *, hard):
    online = core.Online([11, 22, 33], seed=1, hard=hard, strength=1.0, replace=True)
    begin = table(np.random.default_rng(0), 500)
    online.learn_many(begin, np.zeros(500, np.uint32), False, False)

    def learn(seed):
        draw = np.random.default_rng(seed)
        for n in range(rounds * 20):
            online.learn(f"{seed} task {n}", f"worker {draw.integers(30)}", int(draw.integers(K)), False, False)
            if n % 7 == 0:
                online.retract(f"{seed} task {n}", f"worker {draw.integers(30)}")
            if n % 5 == 0:
                online.set_gold(f"{seed} task {n}", int(draw.integers(K)))
                assert online.set_gold(f"{seed} task {n}", -1)
            if n % 4 == 0:
                record = online.evict(f"{seed} task {n}")
                assert online.votes_of(f"{seed} task {n}") is None
                online.bring_back(f"{seed} task {n}", record)
                assert online.votes_of(f"{seed} task {n}") == record[0]
            if n % 11 == 0:
                online.vote(f"{seed} task {n}", "worker 1", 1, 2)
                assert online.voted(f"{seed} task {n}", "worker 1") == 1
            if n % 3 == 0:
                online.abstain(f"{seed} unsure {n}", "worker 1", False, False)
                assert online.forget(f"{seed} unsure {n}") == 0

    def learn_many(seed):
        draw = np.random.default_rng(seed)
        for _ in range(rounds):
            online.learn_many(table(draw, 200, f"{seed} "), draw.integers(0, K, 200).astype(np.uint32), False, False)

    def renew():
        pairs, given, _, tasks, votes, changes = online.measure(True)
        assert len(pairs) == 5
        k = len(tasks)
        assert len(given) == k * k
        online.install(np.ones((k, k)), 5.0, np.zeros(k), np.full(k, 1 / k), 0.1, 0.9, votes, changes)

    def renewed(read):
        while (found := read()) is False:  # a vote names a label that was added
            renew()
        return found

    def read(kind):
        for _ in range(rounds * 4):
            renew()
            (offsets, texts), _, label, confidence, _, votes, _ = renewed(lambda: online.task_table(kind))
            assert len(offsets) - 1 == len(label) == len(confidence) == len(votes)
            assert offsets[-1] == len(texts)
            *_, posterior = renewed(lambda: online.predict("task 1", kind))
            assert abs(sum(posterior) - 1) < 1e-9
            assert len(online.confusion("worker 1")) >= len(posterior)
            assert len(renewed(lambda: online.worker_table(kind))[2]) <= online.workers
            assert len(renewed(lambda: online.predict_many(["task 1", "nobody asked"], kind))[4]) == 2
            assert len(online.tasks_of("worker 1"))
            assert online.tasks >= len(label) - 4  # what the two learners have forgotten or evicted since

    def refit():
        for _ in range(rounds):
            now = online.snapshot()
            shares = now["shares"]
            assert len(now["task_offsets"]) == len(now["task_ptr"]) == len(shares) + 1
            marks = np.minimum(now["labels"] + 1, 1).astype(np.uint8)
            soft = {} if hard else {"units": shares}
            soft["gold"] = now["task_gold"]
            fitted = (now[name] for name in ("task_offsets", "task_texts", "task_ptr", "row"))
            online.adopt(*fitted, winners=now["labels"], fitted=marks, **soft)

    def add_labels():
        for n in range(3):
            online.add_label(44 + n)
            online.learn("widened", f"worker {n}", K + n, False, False)

    in_threads(
        add_labels,
        *(lambda s=s: learn(s) for s in (1, 2)),
        *(lambda s=s: learn_many(s) for s in (3, 4)),
        *(lambda k=k: read(k) for k in (0, 2, 2)),
        refit,
    )


def passes(rounds):
    draw = np.random.default_rng(5)
    tasks, rows, votes = 4000, 60, 20_000
    cuts = np.sort(draw.integers(0, votes, tasks - 1))
    task_ptr = np.concatenate([[0], cuts, [votes]]).astype(np.int64)
    row = draw.integers(0, rows, votes).astype(np.uint32)
    row_label, row_worker = (np.arange(rows) % K).astype(np.int32), (np.arange(rows) // K).astype(np.int32)
    table_, prior = np.log(draw.dirichlet(np.ones(K), rows)), np.log(np.full(K, 1 / K))
    keys, hashes = draw.integers(0, 2**63, tasks).astype(np.uint64), np.array([1, 2, 3], np.uint64)

    def one(hard):
        labels, tie, counts = (
            np.zeros(tasks, np.int32),
            np.zeros(tasks, np.bool_),
            np.zeros((rows, K), np.int64 if hard else float),
        )
        classes = np.zeros(K, counts.dtype)
        options = {"labels": labels, "tie": tie, "counts": counts, "class_counts": classes, "threads": 2}
        cpu.majority(task_ptr, row, row_label, keys, hashes, tie_weights=None, soft=not hard, **options)
        cpu.em_pass(task_ptr, row, table_, prior, keys, hashes, hard=hard, by_prior=False, **options)
        cpu.confusion_table(counts, np.arange(0, rows + 1, K), 0.1, threads=2)
        if hard:
            cpu.classification(counts, classes, table_, prior, 2)
        return labels

    want = [one(hard) for hard in (True, False)]

    def again():
        for n in range(rounds):
            assert np.array_equal(one(n % 2 == 0), want[n % 2])

    def glad():
        right, by_worker, by_task = np.zeros(votes), np.zeros(rows // K), np.zeros(tasks)
        model = row_worker, np.ones(rows // K), np.ones(tasks)
        for _ in range(rounds):
            labels = np.zeros(tasks, np.int32)
            methods_cpu.glad_expect(
                task_ptr, row, model[0], row_label, *model[1:], prior, np.log(K - 1.0), keys, hashes, by_prior=False,
                labels=labels, right=right, class_counts=np.zeros(K), threads=2,
            )  # fmt: skip
            methods_cpu.glad_gradient(
                task_ptr, row, *model, right, np.log(K - 1.0), by_worker=by_worker, by_task=by_task,
                worker_curvature=np.zeros(rows // K), task_curvature=np.zeros(tasks), threads=2,
            )  # fmt: skip

    in_threads(again, again, again, glad)


def encoding(core, rounds):
    source = table(np.random.default_rng(2), 5000)
    offsets, data = np.arange(0, 5001, 5, dtype=np.int64), np.frombuffer(b"12345" * 1000, np.uint8)

    def encode():
        for _ in range(rounds):
            stream = core.Stream(source.__arrow_c_stream__())
            dictionaries, codes = [core.TextDictionary() for _ in range(2)], [core.Codes() for _ in range(2)]
            while (batch := stream.next()) is not None:
                core.encode(batch, [0, 1], dictionaries, codes, 2)
            task, worker = (c.finish() for c in codes)
            label = (np.arange(len(task)) % K).astype(np.uint32)
            ranks = [np.arange(n, dtype=np.uint32) for n in (len(dictionaries[1]), K)]
            core.assemble(task, worker, label, len(dictionaries[0]), *ranks, K, 2)
            core.group_by_task(task, worker, len(dictionaries[0]), 2)
            assert (cpu.hash_texts(offsets, data, 2) == reference.hash_texts(offsets, data)).all()
            cpu.tie_keys(cpu.hash_integers(np.arange(1000), 2), 3, 2)
            assert core.whole_numbers(offsets, data)[0] == 12345

    in_threads(*[encode] * 3)


def main(core, rounds=6):
    for hard in (True, False):
        on_one_stream(core, rounds, hard=hard)
    passes(rounds)
    encoding(core, rounds)
