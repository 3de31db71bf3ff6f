"""Forged and damaged container files: each is refused in one line, or works as any model or stream does.

`run(seed)` makes one file: a sound one with a flipped bit, or with other values in the header or the arrays and a
checksum that fits. Loading it may raise a `AdjudgeError`, and nothing else; what was loaded is then used in every way.
"""

import copy
import functools
import json
import math
import random
import tempfile
import warnings
from hashlib import sha256
from pathlib import Path

import numpy as np

import adjudge as adj
from adjudge import errors
from adjudge.spark.stream import Progress, StateFolder

OWN_WARNINGS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.OneLine) and issubclass(kind, Warning)]  # fmt: skip
ODD = [None, True, False, -1, 0, 1, 7, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.5, 1e308, float("nan"), float("inf"), "", "x", "é\ud800", [], {}, [1], {"a": 1}, ["a", "a"], [[]], "<i8", "|u1", "<f8", "|O", "string", "integer", "ds", "hybrid"]  # fmt: skip
NUMBERS = [0, 1, -1, 2, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, -(2**63)]
OWN_WARNINGS = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Warning)]
REALS = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 1e-320, 1e300, -1e300, np.inf, -np.inf, np.nan]


@functools.cache
def sound():
    """(kind, bytes) of sound files of every kind."""
    files = []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "file"
        crowd = adj.simulate(tasks=30, workers=5, labels=3, seed=1).votes
        for model in ("mv", "ds", "fds", "hybrid", "one-coin", "iwmv", "glad"):
            adj.aggregate(crowd, model=model).save(path)
            files.append(("model", path.read_bytes()))
        for workers in ([1, 2, 3], [True, False, True], ["é", "ß", "z"]):
            adj.aggregate([(t, w, "ab"[(t + n) % 2]) for t in range(6) for n, w in enumerate(workers[:2])], model="ds").save(path)
            files.append(("model", path.read_bytes()))
        for model, confidence in (("fds", "posterior"), ("ds", "honest"), ("hybrid", "honest"), ("auto", "honest")):
            online = adj.Online(labels=["a", "b", "ü"], model=model, confidence=confidence)
            online.learn_many([(f"t{n % 7}", f"wé{n % 4}", "abü"[n * n % 3]) for n in range(25)])
            online.learn("gone", "w", "a")
            online.retract("gone", "w")
            online.save(path)
            files.append(("online", path.read_bytes()))
            online.evict("t3")
            online.labels()  # which measures
            online.learn("t3", "wé9", "b")
            online.save(path)
            files.append(("online", path.read_bytes()))
        folder = StateFolder(Path(name) / "state")
        folder.begin(adj.Online(labels=["a"]))
        files.append(("stream", folder.pointer.read_bytes()))
    return files


def taken_apart(data):
    size = int.from_bytes(data[8:16], "little")
    return json.loads(data[16 : 16 + size]), bytearray(data[16 + size : -32])


def put_together(header, body, size=None):
    """A container with this header, a dict or bytes, and a checksum that fits."""
    text = header if isinstance(header, bytes) else json.dumps(header, ensure_ascii=True).encode()
    text += b" " * (-len(text) % 8)
    whole = b"ADJUDGE\n" + (len(text) if size is None else size).to_bytes(8, "little") + text + bytes(body)
    return whole + sha256(whole).digest()


def forged(draw, data):
    """Returns the bytes of a forged file, and how it was made."""
    header, body = taken_apart(data)
    what, steps = [], draw.choice([1, 1, 1, 2, 3])
    for _ in range(steps):
        kind = draw.choice(["header", "header", "values", "values", "values", "array", "size"])
        if kind == "header":
            what.append(_change_header(draw, header))
        elif kind == "values":
            what.append(_change_values(draw, header, body))
        elif kind == "array":
            what.append(_change_entry(draw, header))
        elif draw.random() < 0.5:
            size = draw.choice([0, 8, len(data), 2**40, 2**63, 2**64 - 8])
            return put_together(header, body, size), f"a header of {size} bytes"
        else:
            text = draw.choice([b"", b"[]", b"1", b"{", b"[" * 100_000, b'"x"', b'{"kind": 1}', b"\xff\xfe", b"9" * 5000])
            return put_together(text, body), f"a header {text[:20]!r}"
    return put_together(header, body), "; ".join(what)


def _change_header(draw, header):
    places = []

    def walk(node, path):
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key, f"{path}/{key}"))
            if isinstance(node[key], dict | list):
                walk(node[key], f"{path}/{key}")

    walk(header, "")
    if not places:
        return "nothing"
    node, key, path = draw.choice(places)
    if draw.random() < 0.15:
        del node[key]
        return f"without {path}"
    if draw.random() < 0.1 and isinstance(node, list):
        node.append(copy.deepcopy(node[key]))
        return f"{path} twice"
    node[key] = draw.choice(ODD)
    return f"{path} = {node[key]!r}"


def _change_entry(draw, header):
    entries = [e for e in header["arrays"] if isinstance(e, dict)] if isinstance(header.get("arrays"), list) else []
    if not entries:
        return "nothing"
    entry = draw.choice(entries)
    field = draw.choice(["offset", "shape", "dtype", "name"])
    if field == "offset":
        entry["offset"] = draw.choice([0, 8, -8, 4, 2**40, draw.randrange(4000)])
    elif field == "dtype":
        entry["dtype"] = draw.choice(["<i8", "<u4", "<i4", "<f8", "|u1", "|b1", ">i8", "<U4", "|O", "V8"])
    elif field == "name":
        entry["name"] = draw.choice([e.get("name") for e in entries] + ["other"])
    else:
        entry["shape"] = draw.choice(
            [[], [0], [1], [-1], [2**62, 4], [3, 2**61], [1, 1, 1], [draw.randrange(50)], [draw.randrange(20), 3]]
        )
    return f"{entry.get('name')}: {field} = {entry[field]!r}"


def _change_values(draw, header, body):
    entries = header.get("arrays")
    try:
        entry = draw.choice([e for e in entries if 0 not in e["shape"]])
        dtype = np.dtype(entry["dtype"])
        if dtype.kind not in "iufb":
            return "nothing"
        count = math.prod(entry["shape"])
        array = np.frombuffer(body, dtype, count, offset=entry["offset"])
        at = draw.randrange(len(array))
    except (LookupError, TypeError, ValueError, OverflowError):  # an earlier step has left nothing to change
        return "nothing"
    before = array[at]
    if draw.random() < 0.3 and len(array) > 1:
        other = draw.randrange(len(array))
        array[at], array[other] = array[other], before
        return f"{entry.get('name')}[{at}] swapped with [{other}]"
    if dtype.kind == "f":
        array[at] = draw.choice([*REALS, draw.uniform(-10, 10)])
    elif dtype.kind == "b":
        body[entry["offset"] + at] = draw.choice([0, 1, 2, 255])
    else:
        wide = draw.choice([*NUMBERS, int(before) + 1, int(before) - 1, count, len(body)])
        array[at] = np.array(wide % 2**64, np.uint64).astype(dtype)
    return f"{entry.get('name')}[{at}]: {before} -> {array[at]}"


def use(kind, path):
    """Load a file and use it as users would; a nonsensical number is an error."""
    if kind == "model":
        model = adj.load(path)
        labels = model.priors["label"].to_list()
        some = model.workers["worker"].to_list()
        assert (model.workers["votes"] >= 0).all()
        votes = [(f"t{n % 3}", w, labels[n % len(labels)]) for n, w in enumerate([*some, *some])] if labels else []
        if votes:
            _check(model.predict(votes))
            if model.model not in ("mv", "glad"):
                _check(adj.aggregate(votes, model=model.model, labels=labels, warm_start=model))
        for worker in some[:2]:
            assert np.isfinite(model.confusion_matrix(worker)).all()
        merged = adj.merge(model, path)
        merged.save(path)
        adj.load(path)
    elif kind == "online":
        online = adj.Online.load(path)
        frame, labels = online.labels(), online.settings["labels"]
        assert frame["confidence"].drop_nulls().is_between(0, 1 + 1e-9).all()
        assert online.workers()["accuracy"].is_between(0, 1 + 1e-9).all()
        for task in frame["task"].head(3):
            assert abs(sum(online.predict(task).probabilities.values()) - 1) < 1e-9
            online.learn(task, "somebody", labels[0])
            online.retract(task, "somebody")
            online.bring_back(online.evict(task))
        online.learn("another", "somebody", labels[-1])
        assert len(online) == len(frame) + ("another" not in set(map(str, frame["task"])))
        online.refit(engine=adj.AutoEngine(threads=1))
        online.save(path)
        assert adj.Online.load(path).labels().equals(online.labels())
    else:
        folder = StateFolder(path.parent)
        path.rename(folder.pointer)
        assert isinstance(folder.progress(), Progress)


def _check(result):
    probabilities = result.probabilities.drop("task").to_numpy()
    assert np.isfinite(probabilities).all()
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert result.labels["label"].null_count() == 0


def run(seed: int) -> None:
    """Tries one file; raises when it is not refused as it should be."""
    draw = random.Random(seed)
    kind, data = draw.choice(sound())
    flipped = draw.random() < 0.2
    if flipped:
        changed = bytearray(data)
        if draw.random() < 0.2:
            changed, what = changed[: draw.randrange(len(data))], "cut off"
        else:
            place, bit = draw.randrange(len(data)), draw.randrange(8)
            changed[place] ^= 1 << bit
            what = f"bit {bit} of byte {place} flipped"
    else:
        changed, what = forged(draw, data)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        for own in OWN_WARNINGS:
            warnings.simplefilter("ignore", own)
        path = Path(folder) / "file"
        path.write_bytes(changed)
        try:
            use(kind, path)
        except adj.AdjudgeError as error:
            if "\n" in str(error):
                raise AssertionError(f"seed {seed}, {kind}: {what}: more than one line: {error}") from error
            return
        except BaseException as error:
            raise AssertionError(f"seed {seed}, {kind}: {what}: {type(error).__name__}: {error}") from error
    assert not flipped, f"seed {seed}, {kind}: {what}: nothing was noticed"
