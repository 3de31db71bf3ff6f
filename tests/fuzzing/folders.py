"""Encoded folders, checkpoints and interrupted encodings that are damaged or forged at random.

`run(seed)` does one case in a process of its own. What must come out is the right answer or one of adjudge's errors;
after forging (other numbers, right checksums) any answer is right, but no crash, no hang and no other exception.

The cases are forked from a server that has loaded everything and started no thread: a fork of a process that has used
polars would hang. Run as a script, this file is that server.
"""

import atexit
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # where it runs as a script
from fitting import aggregate

SECONDS = 60  # after which a case is taken to hang
SPECIAL = [0, 1, 2, -1, 7, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, -(2**63)]
JUNK = [None, True, -1, 0, 1, 10**30, 0.5, 1e308, "", "x", "string", "integer", [], {}, [1], {"a": 1}, [[[]]], 2**62, 2**63]
MODELS = ("fds", "ds", "iwmv", "glad")
FUZZ_FIT_OPTIONS = {"max_iter": 6}

_servers = []  # one, when there is one


def run(seed: int) -> None:
    """Do the case of a seed; raise AssertionError when it ends in anything but the right answer or a clear error."""
    if not _servers:
        command = [sys.executable, Path(__file__).resolve()]
        _servers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        atexit.register(stop)
    server = _servers[0]
    server.stdin.write(f"{seed}\n")
    server.stdin.flush()
    said = json.loads(server.stdout.readline())
    assert not said, f"seed {seed}: {said}"


def stop() -> None:
    """End the server, which removes its files."""
    while _servers:
        server = _servers.pop()
        server.stdin.close()
        server.stdout.close()
        server.wait(timeout=60)


def serve() -> None:
    """Answer every seed on standard input with what went wrong, as a line of JSON; nothing is an empty text."""
    with tempfile.TemporaryDirectory(prefix="adjudge-fuzz-") as folder:
        _load()
        failed = _forked(lambda: _prepare(Path(folder)))
        for line in sys.stdin:
            seed = int(line)
            print(json.dumps(failed or _forked(lambda seed=seed: _case(seed, Path(folder)))), flush=True)


def _forked(act) -> str:
    """Return what goes wrong in a child process that does this; an empty text where nothing does."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        os.dup2(writer, 1)  # nothing but the server speaks on its standard output
        signal.alarm(SECONDS)
        try:
            act()
        except BaseException:
            os.write(writer, traceback.format_exc()[-4000:].encode())
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        said = file.read().decode(errors="replace")
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}. {said}"
    return said if os.WEXITSTATUS(status) else ""


def _load() -> None:
    """Import all that a case needs, so that every fork has it."""
    from importlib import import_module

    import adjudge as adj

    for name in ("sealed", "adjudge.engines.registry", "adjudge.io.folder.encoded", "adjudge.io.folder.job"):
        import_module(name)
    for name in adj.__all__:
        getattr(adj, name)


# What cases begin with.


def _crowd():
    import adjudge as adj

    return adj.simulate(tasks=60, workers=7, labels=3, votes_per_task=(1, 5), adversaries=0.2, seed=5).votes


def _prepare(folder: Path) -> None:
    """Make whole folders, interrupted fits and an interrupted encoding, and note the right answers."""
    import polars as pl

    from adjudge.io.folder import job
    from adjudge.io.folder.encoded import encode
    from adjudge.io.folder.job import EncodingPlan

    votes = _crowd()
    numbered = votes.with_columns(pl.col("task").str.slice(1).cast(pl.Int64), pl.col("label") == "l0")
    accented = votes.with_columns(pl.col("task") + "é", pl.col("worker") + "ü")
    answers = {}
    for name, source in {"texts": votes, "numbers": numbered, "accents": accented}.items():
        encode(source, folder / name, plan=EncodingPlan(bits=1, shard_votes=60))
        answers[name] = _answer(aggregate(folder / name, model="fds", engine="reference", **FUZZ_FIT_OPTIONS))
    for model in MODELS:
        answers[model] = _answer(
            aggregate(folder / "texts", model=model, engine=_place(folder / model / "whole"), **FUZZ_FIT_OPTIONS)
        )
        seen = 0

        def interrupt(what, done, total):
            nonlocal seen
            seen += what.startswith(("pass 3", "pass 2"))
            if seen > 1:
                raise KeyboardInterrupt

        shutil.rmtree(folder / model)
        with contextlib.suppress(KeyboardInterrupt):
            place = replace(_place(folder / model), report=interrupt)
            aggregate(folder / "texts", model=model, engine=place, **FUZZ_FIT_OPTIONS)
        assert list(folder.glob(f"{model}/run-*/checkpoint.adjudge")), f"no checkpoint of {model}"
    job.BATCH = 20
    votes.write_csv(folder / "v.csv")
    for name, what in {"reading": "reading votes", "sorting": "sorting votes"}.items():
        seen = 0

        def stop_there(now, done, total, what=what):
            nonlocal seen
            seen += now == what
            if seen > 2:
                raise KeyboardInterrupt

        (folder / name).mkdir()
        with contextlib.suppress(KeyboardInterrupt):
            encode(
                folder / "v.csv",
                folder / name / "v",
                progress=stop_there,
                plan=EncodingPlan(bits=2, held_votes=30, shard_votes=60),
            )
        assert (folder / name / ".v.partial" / "state.json").exists()
    (folder / "answers.json").write_text(json.dumps(answers))


def _place(work=None):
    from adjudge.engines.registry import engine_named

    place = engine_named("disk", 1)
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
    return replace(place, batch_votes=0, work=work)


def _answer(result) -> list:
    """Return what a result says, to be compared: [task, label, votes, tie, confidence], by task; and the workers' votes."""
    frame = result.labels_frame().select("task", "label", "votes", "tie", "confidence").sort("task")
    workers = result.workers_frame(trust=False).select("worker", "votes")
    assert len(result.probabilities_frame()) == result.votes.n_tasks
    return [list(map(list, frame.rows())), list(map(list, workers.rows()))]


def _require_same(found: list, right: list) -> None:
    assert [row[:4] for row in found[0]] == [row[:4] for row in right[0]], "wrong labels"
    assert found[1] == right[1], "wrong workers"
    near = [abs(a[4] - b[4]) < 1e-6 for a, b in zip(found[0], right[0], strict=True)]
    assert all(near), "wrong confidence"


def _require_one_line(error: Exception) -> None:
    assert "\n" not in str(error), f"more than a line: {error}"


# The cases.


def _case(seed: int, template: Path) -> None:
    random_ = random.Random(seed)
    kinds = [_folder_damaged, _folder_forged, _manifest_forged, _fit_damaged, _fit_forged, _encoding_damaged, _encoding_forged]
    case = random_.choices(kinds, weights=[4, 5, 3, 3, 3, 2, 1])[0]
    answers = json.loads((template / "answers.json").read_text())
    from adjudge.errors import AdjudgeError

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(dir=template) as folder:
        try:
            case(random_, template, Path(folder), answers)
        except AdjudgeError as error:
            _require_one_line(error)


def _folder_damaged(random_, template, folder, answers) -> None:
    name = random_.choice(["texts", "numbers", "accents"])
    shutil.copytree(template / name, folder / "v")
    _damage(random_, random_.choice(sorted((folder / "v").iterdir())))
    _aggregate(random_, folder / "v", answers[name])


def _folder_forged(random_, template, folder, _) -> None:
    from sealed import forge, items_of, manifest_of

    shutil.copytree(template / random_.choice(["texts", "numbers", "accents"]), folder / "v")
    body = manifest_of(folder / "v")
    arrays = {}
    names = [name for name in sorted(body["files"]) if name != "unvoted"] + ["row", "task_ptr", "worker_ptr", "row_label"]
    for name in random_.choices(names, k=random_.choice([1, 1, 2])):
        arrays[name] = _changed(random_, items_of(folder / "v", name))
    forge(folder / "v", **arrays)
    _aggregate(random_, folder / "v", None)


def _manifest_forged(random_, template, folder, _) -> None:
    from sealed import forge, manifest_of, write_manifest

    shutil.copytree(template / random_.choice(["texts", "numbers", "accents"]), folder / "v")
    body = manifest_of(folder / "v")
    _change_json(random_, body)
    if random_.random() < 0.3:
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            forge(folder / "v", body)
    write_manifest(folder / "v", body)
    _aggregate(random_, folder / "v", None)


def _fit_damaged(random_, template, folder, answers) -> None:
    from adjudge.engines import checkpoint

    model = random_.choice(MODELS)
    shutil.copytree(template / model, folder / "work")
    [noted] = folder.glob("work/run-*/checkpoint.adjudge")
    beside = noted.with_name(f"{'vector' if model == 'glad' else 'labels'}-{checkpoint.load(noted.parent).file}")
    if random_.random() < 0.6:  # another label that there is, or another ability
        data = bytearray(beside.read_bytes())
        for _ in range(random_.choice([1, 5])):
            at = random_.randrange(len(data))
            data[at] = random_.choice([n for n in range(3) if n != data[at]])
        beside.write_bytes(data)
    else:
        _damage(random_, random_.choice(sorted(path for path in noted.parent.iterdir() if path.is_file())))
    _require_same(_resumed(template, folder, model), answers[model])


def _fit_forged(random_, template, folder, _) -> None:
    from sealed import forge_checkpoint

    model = random_.choice(MODELS)
    shutil.copytree(template / model, folder / "work")
    [path] = folder.glob("work/run-*/checkpoint.adjudge")

    def change(meta, arrays) -> None:
        if random_.random() < 0.5:
            _change_json(random_, meta)
        else:
            name = random_.choice(sorted(arrays))
            arrays[name] = _changed(random_, arrays[name])

    forge_checkpoint(path, change)
    _resumed(template, folder, model)


def _encoding_damaged(random_, template, folder, answers) -> None:
    from adjudge.io.folder.encoded import encode

    shutil.copytree(template / random_.choice(["reading", "sorting"]), folder, dirs_exist_ok=True)
    _damage(random_, random_.choice(sorted(path for path in (folder / ".v.partial").rglob("*") if path.is_file())))
    encode(template / "v.csv", folder / "v", resume=True)
    _aggregate(random_, folder / "v", answers["texts"])


def _encoding_forged(random_, template, folder, _) -> None:
    from adjudge.io.folder.encoded import encode
    from adjudge.io.folder.manifest import digest

    shutil.copytree(template / random_.choice(["reading", "sorting"]), folder, dirs_exist_ok=True)
    path = folder / ".v.partial" / "state.json"
    body = json.loads(path.read_text())
    del body["sha256"]
    _change_json(random_, body)
    path.write_text(json.dumps(body | {"sha256": digest(body)}))
    encode(template / "v.csv", folder / "v", resume=True)
    _aggregate(random_, folder / "v", None)


def _resumed(template: Path, folder: Path, model: str) -> list:

    return _answer(
        aggregate(template / "texts", model=model, engine=replace(_place(folder / "work"), resume=True), **FUZZ_FIT_OPTIONS)
    )


def _aggregate(random_, folder: Path, right: list | None) -> None:
    """Open a folder and fit its votes with every engine; where the right answer is known, each must give it."""
    from adjudge.errors import AdjudgeError

    for engine in random_.sample(["cpu", "disk", "reference"], 3):
        try:
            found = _answer(aggregate(folder, model="fds", engine=_place() if engine == "disk" else engine, **FUZZ_FIT_OPTIONS))
        except AdjudgeError as error:
            _require_one_line(error)
            continue
        if right is not None:
            _require_same(found, right)


# Damage.


def _damage(random_, path: Path) -> None:
    """Change some bytes of a file, cut it, lengthen it, or remove it."""
    data = bytearray(path.read_bytes())
    how = random_.random()
    if how < 0.75 and data:
        for _ in range(random_.choice([1, 1, 1, 2, 8])):
            at = random_.randrange(min(len(data), random_.choice([8, 136, 160, len(data)])))
            data[at] ^= 1 << random_.randrange(8) if random_.random() < 0.7 else random_.randrange(1, 256)
    elif how < 0.85:
        del data[random_.randrange(len(data) + 1) :]
    elif how < 0.95:
        data += random_.randbytes(random_.choice([1, 8, 64]))
    else:
        path.unlink()
        if random_.random() < 0.3:
            path.mkdir()
        elif random_.random() < 0.3:
            os.mkfifo(path)
        return
    path.write_bytes(data)


def _changed(random_, items):
    """Return an array with other items of the same type, at times of another length or type."""
    import numpy as np

    items = items.copy()
    how = random_.random()
    if how < 0.6 and items.size:
        for _ in range(random_.choice([1, 1, 3])):
            at = random_.choice([0, -1, random_.randrange(items.size)])
            value = random_.choice([*SPECIAL, random_.randrange(300), random_.getrandbits(64)])
            if items.dtype.kind == "f":
                items.reshape(-1)[at] = random_.choice([float("nan"), float("inf"), -0.5, value])
            else:  # as much of it as an item holds
                bits = (value % 2**64).to_bytes(8, "little")[: items.itemsize]
                items.reshape(-1)[at] = np.frombuffer(bits, items.dtype)[0]
    elif how < 0.7:
        items = items[::-1].copy()
    elif how < 0.8:
        items = items[: random_.randrange(len(items) + 1)]
    elif how < 0.9:
        items = np.concatenate([items, items[:3]])
    elif items.dtype.kind in "iu":
        with np.errstate(all="ignore"):
            items += items.dtype.type(random_.choice([1, 3, 100]))
    else:
        items = items.astype(random_.choice(["<f4", "<i8", "<u1", "|S3"]))
    return items


def _change_json(random_, body) -> None:
    """Change a value somewhere in a document, remove it, or add one."""
    at = body
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = random_.choice(keys)
        if isinstance(at[key], dict | list) and at[key] and random_.random() < 0.85:
            at = at[key]
            continue
        break
    how = random_.random()
    if how < 0.75:
        number = at[key] if type(at[key]) is int else 0
        at[key] = random_.choice([*JUNK, number + 1, number - 1, number * 1000, float(number)])
    elif how < 0.9:
        del at[key]
    elif isinstance(at, dict):
        at["more"] = random_.choice(JUNK)
    else:
        at.append(random_.choice(JUNK))


if __name__ == "__main__":
    serve()
