"""Fingerprints of what adjudge answers, to compare before and after a change that must not change them.

    python tests/golden.py before.json
    python tests/golden.py after.json --against before.json

Models x engines x (labels, probabilities, workers, confusions, saved models, predictions), options, encoded folders,
streams, and the live service (decisions and states, stored tables, answers over HTTP). Floats count to nine digits; files
count byte by byte. Fingerprints are of one machine: libraries differ in the
last bits of a logarithm.
"""

import argparse
import json
import sys
import tempfile
import warnings
from hashlib import sha256
from pathlib import Path

import polars as pl

import adjudge as adj
from adjudge.engines.registry import engine_with
from adjudge.models.base import DEFAULT_COMPARED_MODELS, make
from golden_service import service_fingerprints

CROWDS = {
    "plain": {"tasks": 120, "workers": 15, "labels": 3, "votes_per_task": 3, "seed": 1},
    "two": {"tasks": 200, "workers": 12, "labels": 2, "votes_per_task": 5, "adversaries": 0.2, "seed": 2},
    "many": {"tasks": 90, "workers": 10, "labels": 12, "votes_per_task": 4, "spammers": 0.2, "seed": 3},
}
OPTIONS = ({"strength": "auto"}, {"smoothing": 0.5}, {"ties": "prior"}, {"stop": "labels"}, {"seed": 3})
ONE_THREAD = adj.AutoEngine(threads=1)
SETS = [("a", "x", ["p", "q"]), ("a", "y", ["p"]), ("b", "x", ["q"]), ("b", "y", ["q", "r"]), ("c", "x", [])]


def of_bytes(content):
    return sha256(content).hexdigest()[:16]


def of_file(path):
    return of_bytes(path.read_bytes())


def of_frame(frame):
    floats = pl.col(pl.Float64).round_sig_figs(9).fill_nan(-9.0)
    frame = frame.sort(frame.columns[0]).with_columns(floats)
    frame = frame.with_columns(pl.when(pl.col(pl.Float64).abs() < 1e-12).then(0.0).otherwise(pl.col(pl.Float64)).name.keep())
    return of_bytes(frame.write_ndjson().encode())


def fits(name, crowd, folder):
    for model in DEFAULT_COMPARED_MODELS:
        for engine in ("cpu", "reference", "disk"):
            for gold in (None, crowd.truth.head(10)):
                result = adj.aggregate(crowd.votes, model=model, engine=engine_with(engine, threads=1), gold=gold)
                key = f"{name} {model} {engine}{' gold' if gold is not None else ''}"
                yield f"{key} labels", of_frame(result.labels)
                yield f"{key} probabilities", of_frame(result.probabilities)
                yield f"{key} figures", [result.iterations, result.converged, f"{result.log_likelihood:.9g}"]
                if engine == "disk":
                    continue
                yield f"{key} workers", of_frame(result.workers)
                yield f"{key} confusion", of_frame(result.confusion(crowd.votes["worker"][0]))
                result.save(folder / "model.adjudge")
                yield f"{key} saved", of_file(folder / "model.adjudge")
                yield f"{key} predicted", of_frame(adj.load(folder / "model.adjudge").predict(crowd.votes.head(50)).labels)
    for model in ("ds", "fds", "hybrid", "one-coin"):
        for options in OPTIONS:
            result = adj.aggregate(crowd.votes, model=make(model, options), engine=ONE_THREAD)
            yield f"{name} {model} {options}", [of_frame(result.labels), f"{result.log_likelihood:.9g}"]
    before = adj.aggregate(crowd.votes, model="ds", engine=ONE_THREAD)
    for option in ("warm_start", "history"):
        yield (
            f"{name} {option}",
            of_frame(adj.aggregate(crowd.votes, model="ds", engine=ONE_THREAD, **{option: before}).labels),
        )
    tempered = adj.aggregate(crowd.votes, model="ds", gold=crowd.truth.head(40), calibrate=True, engine=ONE_THREAD)
    yield f"{name} calibrate", of_frame(tempered.labels)
    yield f"{name} evaluate", repr(adj.evaluate(before, crowd.truth).accuracy)


def streams(name, crowd, folder):
    for model in ("ds", "fds", "hybrid"):
        online = adj.Online(labels=sorted(set(crowd.votes["label"])), model=model)
        for vote in crowd.votes.head(150).iter_rows():
            online.learn(*vote)
        online.learn_many(crowd.votes.slice(150, 200))
        online.retract(*crowd.votes.row(3)[:2])
        yield f"{name} {model} stream labels", of_frame(online.labels())
        yield f"{name} {model} stream workers", of_frame(online.workers())
        for moment in ("learned", "refitted"):
            online.save(folder / "stream.adjudge")
            yield f"{name} {model} stream {moment}", of_file(folder / "stream.adjudge")
            online.refit(engine=ONE_THREAD)


def fingerprints(folder):
    for name, settings in CROWDS.items():
        crowd = adj.simulate(**settings)
        yield from fits(name, crowd, folder)
        yield from streams(name, crowd, folder)
        adj.encode(crowd.votes, folder / name)
        for path in sorted(p for p in (folder / name).rglob("*") if p.is_file()):
            yield f"{name} encoded {path.name}", of_file(path)
    for per_option in (False, True):
        sets = adj.aggregate(SETS, multi=True, per_option=per_option, model="ds", engine=ONE_THREAD).labels
        yield f"sets per_option={per_option}", of_frame(sets.with_columns(pl.col("label").list.join("|")))
    yield from service_fingerprints(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--against", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        found = dict(fingerprints(Path(folder)))
    given.output.write_text(json.dumps(found, indent=0))
    before = found if given.against is None else json.loads(given.against.read_text())
    other = sorted(key for key in found.keys() | before.keys() if found.get(key) != before.get(key))
    print(f"{len(found)} fingerprints, {len(other)} differ", *other, sep="\n  ")
    sys.exit(bool(other))


if __name__ == "__main__":
    main()
