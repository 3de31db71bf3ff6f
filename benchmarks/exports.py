"""An export of an annotation tool: reading a million annotations of Label Studio JSON against parsing the same JSON alone."""

from measure import processes, python

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


def run(folder):
    """Rows of (what, figure, bar)."""
    path = folder / "export.json"
    processes({"make": [*python(MAKE), path]}, 1)
    size = path.stat().st_size / 2**20
    runs = processes({"parse": python(PARSE.format(path=str(path))), "read": python(READ.format(path=str(path)))}, 3)
    ratio = runs["read"][0] / runs["parse"][0]
    yield "a million annotations of Label Studio JSON: adj.read / msgspec.json.decode of the file", ratio, "at most 3x"
    yield f"the same, peak memory / the file ({size:.0f} MB)", runs["read"][1] / size, "at most 3x"
