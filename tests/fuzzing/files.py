"""Damaged files of votes: each is read, or refused in one line; nothing else comes of them.

`run(seed)` tries one case: a small file of some format, changed in a few places. It is read in a process of its own, since
polars may end the process that reads damaged Parquet. That process is forked from a server that has imported everything
and used nothing, which is quick and leaves no threads behind.
"""

import atexit
import gzip
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from adjudge.errors import UNSEEN

KINDS = (
    "csv",
    "tsv",
    "jsonl",
    "parquet",
    "arrow",
    "stream.arrow",
    "csv.gz",
    "jsonl.gz",
    "csv.zst",
    "utf16.csv",
    "utf32.csv",
    "bom.jsonl",
)
ROLES = dict.fromkeys(("task", "worker", "label"))
# Polars ends the whole process when what a damaged file asks for cannot be allocated. Nothing can be done about it here.
UPSTREAM = ("memory allocation of", "panicked at")


def run(seed: int) -> None:
    """Tries the case of this seed; an outcome that nobody should see is an AssertionError."""
    rng = random.Random(seed)
    kind = rng.choice(KINDS)
    data = bytearray(_bases()[kind])
    for _ in range(rng.choice((0, 1, 1, 2, 5, 20))):
        _change(data, rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"votes.{kind}"
        path.write_bytes(data)
        found = _ask(path)
    where = f"seed {seed}, {kind}"
    if found["outcome"] == "ended":
        typed = kind.endswith(("parquet", "arrow"))
        assert typed, f"{where}: {found}"
        assert found["signal"] == signal.SIGABRT, f"{where}: {found}"
        assert any(word in found["said"] for word in UPSTREAM), f"{where}: {found}"
    else:
        assert found["outcome"] in ("votes", "refused"), f"{where}: {found}"
    if found["outcome"] == "refused":
        assert not UNSEEN.search(found["message"]), f"{where}: {found}"
    if found["outcome"] == "votes":
        assert found["explained"], f"{where}: {found}"


def _change(data: bytearray, rng: random.Random) -> None:
    """Flips, replaces, removes, repeats or inserts some bytes."""
    if not data:
        return
    at = rng.randrange(len(data))
    end = min(at + rng.randrange(1, 40), len(data))
    how = rng.randrange(7)
    if how == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif how == 1:
        data[at] = rng.choice(b'\x00\xff\n\r",\t{}[]:\x1b' + bytes([rng.randrange(256)]))
    elif how == 2:
        data[at:end] = rng.randbytes(end - at)
    elif how == 3:
        del data[at:end]
    elif how == 4:
        data[at:at] = data[at:end]
    elif how == 5:
        del data[at:]
    else:
        data[at:at] = rng.choice((b'"', b"\n", b"\r\n", b"\0", b"\xef\xbb\xbf", b"\x1b]0;x\x07", b'{"task":1}\n', b",,,,"))


_known: dict[str, bytes] = {}


def _bases() -> dict[str, bytes]:
    """Returns a sound file of every kind."""
    if not _known:
        import polars as pl

        n = range(240)
        frame = pl.DataFrame(
            {
                "task": [f"t{i % 40}" for i in n],
                "worker": [f"wörker {i % 7}" for i in n],
                "label": ["cat", "dog", "a|b"] * 80,
                "note": "x",
            }
        )
        plain = {"csv": frame.write_csv(), "tsv": frame.write_csv(separator="\t"), "jsonl": frame.write_ndjson()}
        _known.update({name: text.encode() for name, text in plain.items()})
        for name, write in (
            ("parquet", frame.write_parquet),
            ("arrow", frame.write_ipc),
            ("stream.arrow", frame.write_ipc_stream),
        ):
            file = io.BytesIO()
            write(file)
            _known[name] = file.getvalue()
        for name in ("csv", "jsonl"):
            _known[f"{name}.gz"] = gzip.compress(_known[name], mtime=0)
        with tempfile.TemporaryDirectory() as folder:
            frame.lazy().sink_csv(Path(folder) / "v.csv.zst", compression="zstd")
            _known["csv.zst"] = (Path(folder) / "v.csv.zst").read_bytes()
        _known["utf16.csv"] = plain["csv"].encode("utf-16")
        _known["utf32.csv"] = plain["csv"].encode("utf-32")
        _known["bom.jsonl"] = plain["jsonl"].encode("utf-8-sig")
    return _known


_server: subprocess.Popen[str] | None = None


def _ask(path: Path) -> dict[str, object]:
    """Returns what came of reading a file, in a process forked by the server."""
    global _server  # noqa: PLW0603
    if _server is None or _server.poll() is not None:
        _server = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(_stop, _server)
    _server.stdin.write(f"{path}\n")
    _server.stdin.flush()
    return json.loads(_server.stdout.readline())


def _stop(server: subprocess.Popen[str]) -> None:
    server.communicate(timeout=60)


def _serve() -> None:
    """Read the files named on standard input, each in its own process, and report each outcome."""
    import adjudge.io.sources  # noqa: F401

    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as folder:
            said, told = Path(folder) / "said", Path(folder) / "told"
            child = os.fork()
            if not child:
                signal.alarm(60)  # a hanging reader ends the child, and is reported as a crash
                os.dup2(os.open(said, os.O_CREAT | os.O_WRONLY), 2)
                told.write_text(json.dumps(_try(line.rstrip("\n"))))
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            if os.WIFSIGNALED(status):
                found = {"outcome": "ended", "signal": os.WTERMSIG(status), "said": said.read_text(errors="replace")[:2000]}
            else:
                found = json.loads(told.read_text())
        print(json.dumps(found), flush=True)


def _try(path: str) -> dict[str, object]:
    import warnings

    import adjudge as adj

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            votes = adj.read(path)
    except adj.AdjudgeError as error:
        return {"outcome": "refused", "message": str(error)}
    except BaseException as error:
        return {"outcome": "raised", "error": f"{type(error).__name__}: {error}"}
    return {"outcome": "votes", **_explained(path, votes)}


def _explained(path: str, votes: object) -> dict[str, object]:
    """Returns whether polars, told all that a reader has to find out by itself, reads the same votes."""
    import polars as pl

    from adjudge.io.columns import find
    from adjudge.io.frames import frame_of

    data = Path(path).read_bytes()
    if path.endswith(".gz"):
        data = gzip.decompress(data)
    for mark, encoding in (
        (b"\xff\xfe\0\0", "utf-32"),
        (b"\0\0\xfe\xff", "utf-32"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if data.startswith(mark) and not path.endswith(("parquet", "arrow", "zst")):
            data = data.decode(encoding).encode()
            break
    try:
        if path.endswith((".jsonl", ".jsonl.gz")):
            frame = pl.read_ndjson(data.removeprefix(b"\xef\xbb\xbf"), infer_schema_length=None)
        elif path.endswith("parquet"):
            frame = pl.read_parquet(data, columns=_wanted(pl.read_parquet_schema(io.BytesIO(data))))
        elif path.endswith("arrow"):
            read = pl.read_ipc if data.startswith(b"ARROW1") else pl.read_ipc_stream
            frame = read(data, columns=_wanted(read(data, n_rows=0).columns))
        else:
            frame = pl.read_csv(data, infer_schema=False, separator="\t" if path.endswith("tsv") else ",")
    except BaseException as error:
        return {"explained": False, "why": f"polars: {type(error).__name__}: {str(error)[:300]}"}
    columns = find(frame.columns, ROLES, path)
    wanted = frame.select(pl.col(name).cast(pl.String).alias(role) for role, name in columns.items()).drop_nulls("label")
    got = frame_of(votes).with_columns(pl.all().cast(pl.String))
    rows, own = sorted(wanted.rows(), key=repr), sorted(got.rows(), key=repr)
    return {"explained": rows == own, "why": f"{len(own)} votes, {len(rows)} by polars"}


def _wanted(names: Iterable[str]) -> list[str]:
    """Returns the columns that are read; damage elsewhere does no harm."""
    from adjudge.io.columns import find

    return list(find(list(names), ROLES, "the file").values())


if __name__ == "__main__":
    _serve()
