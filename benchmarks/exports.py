"""Exports against parsing the same JSON alone: a million annotations of Label Studio, and 100,000 samples of an Inspect log."""

from pathlib import Path

from measure import processes, python

LOG = Path(__file__).parent.parent / "docs" / "tutorials" / "arithmetic.eval"  # whose samples have the size of real ones

MAKE = """
import json, random, sys
random.seed(1)
words = "the quick brown fox jumps over a lazy dog while nobody looks at all".split()
with open(sys.argv[1], "w") as file:
    for n in range(250_000):
        truth, found = random.choice("abcd"), []
        for w in random.sample(range(500), 4):
            value = {"choices": [truth if random.random() < 0.7 else random.choice("abcd")]}
            answer = {"id": f"r{n}", "from_name": "mood", "to_name": "text", "type": "choices", "value": value}
            found.append({
                "id": 4 * n + w, "completed_by": {"id": w, "email": f"w{w}@example.org"}, "result": [answer],
                "was_cancelled": False, "ground_truth": False, "lead_time": 7.25, "draft_created_at": None, "project": 3,
                "created_at": "2024-05-01T10:00:00.000000Z", "updated_at": "2024-05-01T10:00:07.250000Z",
            })
        task = {"id": n, "data": {"text": " ".join(random.choices(words, k=40))}, "annotations": found, "predictions": []}
        file.write(("[" if n == 0 else ",") + json.dumps(task))
    file.write("]")
"""
PARSE = "import msgspec; msgspec.json.decode(open({path!r}, 'rb').read())"
READ = "import adjudge as adj; assert len(adj.read({path!r})) == 1_000_000"

MAKE_LOG = """
import json, random, sys
from adjudge.io.formats.archive import _zip_library
zipfile = _zip_library()
random.seed(1)
with zipfile.ZipFile(sys.argv[1]) as log:
    members = {name: log.read(name) for name in log.namelist()}
samples = [json.loads(data) for name, data in members.items() if name.startswith("samples/")]
for sample in samples:
    score = sample["scores"].pop("multi_scorer")
    sample["scores"] = {name: {**score, "metadata": {"length": 12}} for name in ("judge", "judge1", "judge2", "judge3")}
header = json.loads(members["header.json"])
header["eval"]["scorers"] = [{"name": "judge", "options": {}} for _ in range(4)]
with zipfile.ZipFile(sys.argv[2], "w", zipfile.ZIP_ZSTANDARD) as log:
    for n in range(100_000):
        sample, truth = samples[n % len(samples)], random.choice("CI")
        for score in sample["scores"].values():
            score["value"] = truth if random.random() < 0.8 else random.choice("CI")
        log.writestr(f"samples/{n}_epoch_1.json", json.dumps({**sample, "id": n}).replace("NaN", "null"))
    log.writestr("header.json", json.dumps(header))
"""
PARSE_LOG = """
import msgspec
from adjudge.io.formats.archive import _zip_library
with _zip_library().ZipFile({path!r}) as log:
    for info in log.infolist():
        msgspec.json.decode(log.read(info))
"""
READ_LOG = "import adjudge as adj; votes = adj.read({path!r}); assert len(votes) == 400_000"


def run(folder):
    """Rows of (what, figure, bar)."""
    yield from _label_studio(folder)
    yield from _inspect(folder)


def _label_studio(folder):
    path = folder / "export.json"
    processes({"make": [*python(MAKE), path]}, 1)
    size = path.stat().st_size / 2**20
    runs = processes({"parse": python(PARSE.format(path=str(path))), "read": python(READ.format(path=str(path)))}, 3)
    ratio = runs["read"][0] / runs["parse"][0]
    yield "a million annotations of Label Studio JSON: adj.read / msgspec.json.decode of the file", ratio, "at most 3x"
    yield f"the same, peak memory / the file ({size:.0f} MB)", runs["read"][1] / size, "at most 3x"


def _inspect(folder):
    path = folder / "log.eval"
    processes({"make": [*python(MAKE_LOG), LOG, path]}, 1)
    with path.open("rb") as file:
        packed = file.seek(0, 2) / 2**20
    from adjudge.io.formats.archive import _zip_library

    with _zip_library().ZipFile(path) as log:
        size = sum(info.file_size for info in log.infolist()) / 2**20
    runs = processes({"parse": python(PARSE_LOG.format(path=str(path))), "read": python(READ_LOG.format(path=str(path)))}, 3)
    ratio = runs["read"][0] / runs["parse"][0]
    yield "an Inspect log of 100,000 samples x 4 scorers: adj.read / unzip and msgspec.json.decode", ratio, "at most 3x"
    yield f"the same, peak memory / the log unpacked ({size:.0f} MB, packed {packed:.0f})", runs["read"][1] / size, "at most 3x"
