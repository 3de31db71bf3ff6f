"""Many threads on one stream, and many fits at once."""

import random
import threading

import adjudge as adj

LABELS = ["a", "b", "c"]
LIMIT = 240  # seconds after which a thread is taken to wait forever


def in_threads(*works):
    """Runs functions at once, each in its own thread, and raises the first exception of any."""
    failures, ready = [], threading.Barrier(len(works))

    def guarded(work):
        try:
            ready.wait(60)
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    if failures:
        raise failures[0]
    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"


def crowd(tasks, votes, seed=0):
    draw = random.Random(seed)
    return {
        "task": [f"t{draw.randrange(tasks)}" for _ in range(votes)],
        "worker": [f"w{draw.randrange(30)}" for _ in range(votes)],
        "label": [draw.choice(LABELS) for _ in range(votes)],
    }


def read_only(model, rounds, confidence="honest"):
    """Readers alone: each gets the answer that there is when nobody else reads."""
    online = adj.Online(labels=LABELS, model=model, confidence=confidence)
    online.learn_many(crowd(300, 3000))
    labels, workers, one = online.labels(), online.workers(), online.predict("t7")
    confusion = online.confusion("w3")

    def read():
        for _ in range(rounds):
            assert online.labels().equals(labels)
            assert online.predict("t7") == one
            assert online.workers().equals(workers)
            assert online.confusion("w3").equals(confusion)

    in_threads(*[read] * 4)


def write_and_read(model, rounds, folder, confidence="honest"):
    """Writers and readers: nothing is lost, and every read is of one moment, between two changes."""
    online = adj.Online(labels=LABELS, model=model, confidence=confidence)
    online.learn_many(crowd(50, 300))
    begun, kept = len(online), online.labels()["votes"].sum()
    still = threading.Event()

    def single(name):
        for n in range(rounds):
            online.learn(f"{name}{n}", f"{name}w{n % 9}", "a")
            online.learn(f"{name}{n}", f"{name}w{n % 9}", "b")  # in the place of the first

    def several(name):
        for n in range(rounds // 5):
            online.learn_many(
                {"task": [f"{name}{n} {i}" for i in range(10)] * 2, "worker": ["x"] * 10 + ["y"] * 10, "label": ["c"] * 20}
            )

    def back_and_forth():
        for _ in range(rounds):
            online.learn("to and fro", "z", "a")
            assert online.retract("to and fro", "z") == 1

    def learn_and_forget():
        for n in range(rounds):
            online.learn(f"passing {n}", "z", "a")
            online.learn(f"passing {n}", "y", None)
            assert online.forget(f"passing {n}") == 1

    def fix_and_free():
        for n in range(rounds):
            online.gold("t7", LABELS[n % 3])
            online.gold("t7", None)

    def add_labels():
        for label in "def":
            online.add_label(label)
            online.learn("widened", label, label)
            assert online.predict("widened").probabilities.keys() >= {label}

    def refit():
        for n in range(3):
            online.refit(warm=bool(n % 2), engine=adj.AutoEngine(threads=1))

    def read():
        while not still.is_set():
            frame = online.labels()
            whole = frame.filter(frame["task"].str.starts_with("m"))
            assert len(whole) % 10 == 0
            assert (whole["votes"] == 2).all()
            assert online.workers()["votes"].sum() >= kept
            seen = online.predict("t7")
            assert abs(sum(seen.probabilities.values()) - 1) < 1e-9
            assert max(seen.probabilities.values()) == seen.confidence or confidence == "posterior"
            online.save(folder / threading.current_thread().name)
            settled = frame.filter(~frame["task"].str.starts_with("passing"))
            assert len(adj.Online.load(folder / threading.current_thread().name)) >= len(settled)
            assert len(online) >= len(settled)

    def write():
        try:
            in_threads(
                *(lambda: single("s"), lambda: single("u"), lambda: several("m"), lambda: several("mm")),
                *(back_and_forth, learn_and_forget, fix_and_free, add_labels, refit),
            )
        finally:
            still.set()

    in_threads(write, read, read)
    assert len(online) == begun + 2 * rounds + 2 * 10 * (rounds // 5) + 2
    assert online.settings["labels"] == [*LABELS, "d", "e", "f"]
    assert online.predict("widened").votes == 3
    online.renew()  # as a loaded stream does when it is read
    frame = online.labels()
    votes = dict(frame.select("task", "votes").iter_rows())
    assert all(votes[f"{name}{n}"] == 1 for name in "su" for n in range(rounds))
    assert votes["to and fro"] == 0
    assert online.abstentions == rounds
    online.save(folder / "last")
    assert adj.Online.load(folder / "last").labels().equals(frame)  # the counts kept equal those counted again


def fits_at_once(rounds):
    """Fits, files and streams of their own in every thread: each as if it were alone."""
    made = [adj.simulate(tasks=200, workers=12, labels=3, seed=seed).votes for seed in range(4)]
    models = ("fds", "ds", "mv", "iwmv")
    want = [
        adj.aggregate(votes, model=model, engine=adj.AutoEngine(threads=2)).labels
        for votes, model in zip(made, models, strict=True)
    ]
    shared = adj.read(made[0])
    same = adj.aggregate(shared, engine=adj.AutoEngine(threads=2)).labels

    def fit(number):
        for _ in range(rounds):
            mine = adj.aggregate(made[number], model=models[number], engine=adj.AutoEngine(threads=2)).labels
            assert mine.drop("confidence").equals(want[number].drop("confidence"))
            assert adj.aggregate(shared, engine=adj.AutoEngine(threads=2)).labels.equals(same)

    in_threads(*(lambda n=n: fit(n) for n in range(4)))
