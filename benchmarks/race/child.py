"""One contestant in a process of its own, in its own environment: NumPy and the contestant's library are all it may use.

    python child.py LIBRARY METHOD OPTIONS DATA ANSWER

It imports the library, prepares the votes in the library's native form, fits a small part of them as a warm-up, and says so.
Then every line it reads asks for one fit, and its answer tells the time. Where the line asks for them, it tells the memory that
was taken, too, and writes labels and parameters to the file ANSWER. Answers leave on a copy of the standard output, as libraries
print on it.
"""

import ctypes
import gc
import importlib.metadata
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

SMALL = 200  # tasks of the warm-up
WARM = 0.2  # seconds: shorter fits are made twice, and the second is timed
SCRATCH = []  # the folder for files that an engine needs
SAID = ("crowd-kit", "peerannot", "cleanlab", "snorkel", "evalica", "arena-rank", "krippendorff", "adjudge")
SAID_TOO = ("numpy", "pandas", "torch", "jax")  # the libraries they use


class Data:
    """Votes as integer codes."""

    def __init__(self, task, worker, label, sizes):
        self.task, self.worker, self.label = task, worker, label
        _, self.n_tasks, self.n_workers, self.n_labels = (int(x) for x in sizes)

    @classmethod
    def load(cls, path):
        found = np.load(path)
        if "left" in found:
            return Comparisons(found["left"], found["right"], found["outcome"])
        return cls(found["task"], found["worker"], found["label"], found["sizes"])

    def small(self):
        """The votes on the first tasks; workers are renumbered, since some libraries refuse workers without votes."""
        few = self.task < SMALL
        workers, worker = np.unique(self.worker[few], return_inverse=True)
        sizes = (few.sum(), min(SMALL, self.n_tasks), len(workers), self.n_labels)
        return Data(self.task[few], worker, self.label[few], sizes)

    def frame(self):
        import pandas as pd

        return pd.DataFrame({"task": self.task, "worker": self.worker, "label": self.label})

    def matrix(self, absent, dtype):
        """Tasks x workers; of two votes of a worker on a task the last."""
        out = np.full((self.n_tasks, self.n_workers), absent, dtype)
        out[self.task, self.worker] = self.label
        return out

    def shares(self):
        """Vote shares, [tasks, K]."""
        out = np.zeros((self.n_tasks, self.n_labels))
        np.add.at(out, (self.task, self.label), 1)
        return out / np.maximum(out.sum(axis=1, keepdims=True), 1)


class Comparisons:
    """Comparisons of pairs of items by number: 0 where the left one won, 1 where the right one did, 2 for a tie."""

    def __init__(self, left, right, outcome):
        self.left, self.right, self.outcome = left, right, outcome

    def small(self):
        """The first comparisons."""
        few = slice(0, SMALL)
        return Comparisons(self.left[few], self.right[few], self.outcome[few])

    def words(self, left, right, tie):
        """Who won each, in these words."""
        return np.array([left, right, tie])[self.outcome]


def centred(items, strengths):
    """Strengths by number of the item, with mean 0, as an answer."""
    strengths = np.asarray(strengths)[np.argsort(np.asarray(items).astype(int))]
    return {"figures": strengths - strengths.mean()}


def crowd_kit(method):
    import crowdkit.aggregation

    kind = getattr(crowdkit.aggregation, method)

    def prepared(data, options):
        votes = data.frame()

        def fit(**more):
            model = kind(**{**options, **more})
            model.fit_predict(votes)
            return model

        def answer(model):
            out = {"labels": model.labels_.sort_index().to_numpy()}
            errors = getattr(model, "errors_", None)
            if errors is not None:
                out |= {"priors": np.zeros(data.n_labels), "confusion": np.zeros((data.n_workers, data.n_labels, data.n_labels))}
                workers, given = (errors.index.get_level_values(level).to_numpy() for level in (0, 1))
                true = errors.columns.to_numpy().astype(int)
                out["confusion"][workers[:, None], true[None, :], given[:, None]] = errors.to_numpy()
                out["priors"][model.priors_.index.to_numpy().astype(int)] = model.priors_.to_numpy()
            return out

        return fit, answer

    return prepared


def peerannot(method):
    from peerannot.models.aggregation import dawid_skene

    def prepared(data, options):
        answers = {}
        for task, worker, label in zip(data.task.tolist(), data.worker.tolist(), data.label.tolist(), strict=True):
            answers.setdefault(task, {})[worker] = label
        model = getattr(dawid_skene, method)(answers, n_workers=data.n_workers, n_classes=data.n_labels)

        def fit(**more):
            model.run(**{**options, **more})
            return model

        def answer(model):
            return {"labels": model.get_probas().argmax(axis=1), "confusion": model.pi, "priors": model.rho}

        return fit, answer

    return prepared


def cleanlab(method):
    from cleanlab import multiannotator

    function = getattr(multiannotator, method)

    def prepared(data, options):
        matrix, shares = data.matrix(np.nan, np.float64), data.shares()  # there is no classifier: vote shares stand for it
        if method == "get_majority_vote_label":
            return (lambda: function(matrix, verbose=False)), (lambda labels: {"labels": labels})
        return (
            lambda: function(matrix, shares, verbose=False, **options),
            lambda found: {"labels": found["label_quality"]["consensus_label"].to_numpy()},
        )

    return prepared


def snorkel(method):
    from snorkel.labeling.model import label_model

    def prepared(data, options):
        matrix = data.matrix(-1, np.int64)

        def fit():
            model = getattr(label_model, method)(cardinality=data.n_labels, verbose=False)
            model.fit(matrix, seed=0, progress_bar=False, **options)
            return model, model.predict_proba(matrix)

        def answer(found):
            model, posterior = found
            given = model.get_conditional_probs()[:, 1:, :]  # [workers, given, true], without abstentions
            confusion = (given / np.maximum(given.sum(axis=1, keepdims=True), 1e-300)).transpose(0, 2, 1)
            return {"labels": posterior.argmax(axis=1), "confusion": confusion, "priors": np.asarray(model.p)}

        return fit, answer

    return prepared


def evalica(method):
    import evalica

    def ranked(data, options):
        left, right = data.left.tolist(), data.right.tolist()
        winners = [(evalica.Winner.X, evalica.Winner.Y, evalica.Winner.Draw)[outcome] for outcome in data.outcome.tolist()]

        def answer(found):
            return centred(found.scores.index, np.log(found.scores.to_numpy()))

        return (lambda: getattr(evalica, method)(left, right, winners, **options)), answer

    def agreed(data, options):
        import pandas as pd

        matrix = pd.DataFrame(data.matrix(np.nan, np.float64).T)
        return (lambda: evalica.alpha(matrix, distance="nominal", **options)), (lambda found: {"figures": [found.alpha]})

    return agreed if method == "alpha" else ranked


def arena_rank(method):
    import pandas as pd
    from arena_rank.models import bradley_terry
    from arena_rank.utils.data_utils import PairDataset

    def prepared(data, options):
        words = data.words("model_a", "model_b", "tie")
        pairs = PairDataset.from_pandas(pd.DataFrame({"model_a": data.left, "model_b": data.right, "winner": words}))

        def fit():
            model = getattr(bradley_terry, method)(len(pairs.competitors), scale=1.0, base=np.e, **options)
            return {name: np.asarray(found) for name, found in model.compute_ratings_and_cis(pairs).items()}

        return fit, (lambda found: centred(found["competitors"], found["ratings"]))

    return prepared


def krippendorff(method):
    import krippendorff

    def prepared(data, options):
        counts = np.zeros((data.n_tasks, data.n_labels))
        np.add.at(counts, (data.task, data.label), 1)

        def fit():
            return getattr(krippendorff, method)(value_counts=counts, level_of_measurement="nominal", **options)

        return fit, (lambda found: {"figures": [found]})

    return prepared


def adjudge(method):
    import adjudge as adj

    if method == "rank":
        return ranked_by_us
    if method == "agreement":
        return agreed_by_us
    from adjudge.engines.registry import resolve
    from adjudge.models.base import MODELS

    def votes_of(data, engine, framed):
        """Votes as this engine has them, and the engine."""
        if engine == "disk":
            import polars as pl

            path = Path(tempfile.mkdtemp(dir=SCRATCH[0])) / "votes.parquet"
            pl.DataFrame({"task": data.task, "worker": data.worker, "label": data.label}).write_parquet(path)
            on_disk = resolve(adj.Disk(memory="2GB"))
            return on_disk.read(path), on_disk
        if engine == "spark":
            from adjudge.spark import session
            from adjudge.spark import votes as spark_votes

            running = session.session(f"local[{os.cpu_count()}]")
            running.sparkContext.setLogLevel("FATAL")
            return spark_votes.read(running.createDataFrame(data.frame())), "auto"
        return data.frame() if framed else adj.read({"task": data.task, "worker": data.worker, "label": data.label}), engine

    def prepared(data, options):
        settings = dict(options)
        confidence, framed = settings.pop("confidence", "posterior"), settings.pop("frame", False)
        votes, engine = votes_of(data, settings.pop("engine", "cpu"), framed)

        def fit(**more):
            model = MODELS[method](**{**settings, **more})
            result = adj.aggregate(votes, model=model, engine=engine, confidence=confidence)
            if framed:
                result.labels  # noqa: B018
            return result

        return fit, lambda result: answer_of(result, data)

    return prepared


def ranked_by_us(data, options):
    """The preparation of a ranking by ours, from a frame."""
    import polars as pl

    import adjudge as adj

    frame = pl.DataFrame({"left": data.left, "right": data.right, "winner": data.words("left", "right", "tie")})

    def answer(found):
        board = found.leaderboard_frame()
        return centred(board["item"].to_numpy(), board["strength"].to_numpy())

    return (lambda: adj.rank(frame, **options)), answer


def agreed_by_us(data, options):
    """The preparation of agreement by ours, from encoded votes."""
    import adjudge as adj

    votes = adj.read({"task": data.task, "worker": data.worker, "label": data.label})
    return (lambda: adj.agreement(votes, **options)), (lambda found: {"figures": [found.alpha]})


def answer_of(result, data):
    """Labels and parameters of a result of ours, by codes."""
    labels = result.labels_frame()
    out = {"labels": np.full(data.n_tasks, -1)}
    out["labels"][labels["task"].cast(int).to_numpy()] = labels["label"].cast(int).to_numpy()
    params, votes = result.fit.params, result.votes
    if getattr(params, "table", None) is None or not hasattr(votes, "row_label"):
        return out
    k = data.n_labels
    workers, labels = (np.array([int(x) for x in ids.ids()]) for ids in (votes.workers, votes.labels))
    confusion, priors = np.zeros((data.n_workers, k, k)), np.zeros(k)
    if result.fit.skill is None:
        rows, given = workers[votes.row_worker()], labels[votes.row_label]
        confusion[rows[:, None], labels[None, :], given[:, None]] = np.exp(params.table)
    else:  # one accuracy scores the votes of a worker; the table is for people
        skill = result.fit.skill[:, None, None]
        confusion[workers] = np.where(np.eye(k, dtype=bool), skill, (1 - skill) / max(k - 1, 1))
    priors[labels] = params.priors
    return {**out, "confusion": confusion, "priors": priors}


LIBRARIES = {
    "crowd-kit": crowd_kit,
    "peerannot": peerannot,
    "cleanlab": cleanlab,
    "snorkel": snorkel,
    "evalica": evalica,
    "arena-rank": arena_rank,
    "krippendorff": krippendorff,
    "adjudge": adjudge,
}


def status(name):
    """A line of this process's status, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def measured(fit, more):
    """(seconds, MB above what there was before, what the fit returned): the first fit, which finds no memory at hand."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what the preparation has freed must not be counted as room
    Path("/proc/self/clear_refs").write_text("5")  # the peak is what there is now
    before = status("VmRSS")
    seconds, found = timed(fit, more)
    return seconds, max(status("VmHWM") - before, 0) / 1e6, found


def timed(fit, more):
    """(seconds, what the fit returned)."""
    began = time.perf_counter()
    found = fit(**more)
    return time.perf_counter() - began, found


def warm(fit, more, last):
    """(seconds, what the fit returned): other processes have had the caches, so a short fit is made twice, and timed once."""
    gc.collect()
    if last < WARM:
        fit(**more)
    return timed(fit, more)


def versions():
    """Versions of the installed libraries that matter."""
    out = {}
    for name in (*SAID, *SAID_TOO):
        try:
            out[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return out


def main(library, method, options, data, answer):
    said = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    Path("/proc/self/oom_score_adj").write_text("1000")  # short of memory, this process goes, not the one that asks it
    began = time.perf_counter()
    prepare = LIBRARIES[library](method)
    imported = time.perf_counter() - began
    given, whole = json.loads(options), Data.load(data)
    SCRATCH.append(Path(answer).parent)
    prepare(whole.small(), given)[0]()
    fit, answered = prepare(whole, given)
    said.write(json.dumps({"import": imported, "versions": versions()}) + "\n")
    seconds = WARM
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["answer"]:
            seconds, taken, found = measured(fit, asked["options"])
            said.write(json.dumps({"seconds": seconds, "MB": taken}) + "\n")  # at once: the limit is that of the fit
            np.savez(answer, **answered(found))
            said.write(json.dumps({"answered": True}) + "\n")
        else:
            seconds, found = warm(fit, asked["options"], seconds)
            said.write(json.dumps({"seconds": seconds}) + "\n")
        del found


if __name__ == "__main__":
    main(*sys.argv[1:])
