"""What an encoded folder holds is checked in full before any of it is used, also where its checksums are right."""

import hashlib
import warnings

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.io.folder.encoded import encode, open_encoded
from adjudge.io.folder.job import EncodingPlan
from sealed import forge, items_of, manifest_of, write_manifest


@pytest.fixture(params=["texts", "numbers"])
def folder(request, tmp_path):
    votes = adj.simulate(tasks=200, workers=15, labels=3, seed=7).votes
    if request.param == "numbers":
        votes = votes.with_columns(pl.col("task").str.slice(1).cast(pl.Int64))
    encode(votes, tmp_path / "v", plan=EncodingPlan(bits=2, shard_votes=400))
    return tmp_path / "v"


@pytest.fixture
def texts(tmp_path):
    encode(
        adj.simulate(tasks=200, workers=15, labels=3, seed=7).votes, tmp_path / "v", plan=EncodingPlan(bits=2, shard_votes=400)
    )
    return tmp_path / "v"


def refused(folder, words):
    """Every way into a folder refuses it, in one line."""
    for engine in ("cpu", "disk", "reference"):
        with pytest.raises(adj.InputError, match=words) as said:
            adj.aggregate(folder, engine=engine)
        assert "\n" not in str(said.value)


@pytest.mark.parametrize("name", ["task_ptr", "tasks_offsets"])
@pytest.mark.parametrize("value", [1, 2, -1, 10**8, -(10**8), 2**62])
def test_the_first_item_has_no_checksum_and_is_checked(texts, name, value):
    items = items_of(texts, name)
    items[0] = value
    np.save(texts / f"{name}.npy", items)
    refused(texts, f"{name}.npy is damaged: it begins with {value}, not 0")


def test_every_byte_of_every_file_is_checked(texts):
    for path in sorted(texts.glob("*.npy")):
        whole = path.read_bytes()
        for at in {0, 7, 60, 127, 128, 135, len(whole) // 2, len(whole) - 1}:
            if at < len(whole):
                path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
                with pytest.raises(adj.InputError, match=f"{path.name} is damaged"):
                    open_encoded(texts)
        path.write_bytes(whole)
    assert len(open_encoded(texts)) == len(items_of(texts, "row"))


def changed(at, value):
    def change(items):
        items[at] = value
        return items

    return change


FORGED = {
    "row": [
        (changed(3, 2**32 - 1), "holds 4294967295, but there are only 45 rows"),
        (changed(-1, 45), "but there are only 45 rows"),
    ],
    "task_ptr": [
        (changed(0, 1), "begins with 1"),
        (changed(5, -3), "do not rise"),
        (changed(5, 10**9), "do not rise"),
        (changed(-1, 10**9), "ends with 1000000000"),
        (lambda items: np.sort(items)[::-1].copy(), "begins with"),
    ],
    "task_hash": [(changed(3, 0), "hashes of its tasks are not ascending")],
    "worker_ptr": [
        (changed(0, 1), "begins with 1"),
        (changed(2, 1000), "falls from"),
        (changed(2, -1), "falls from"),
        (changed(-1, 46), "ends with 46"),
        (changed(1, 0), "no part may be empty"),
    ],
    "row_label": [
        (changed(0, 3), "holds 3 at index 0: give numbers from 0 to 2"),
        (changed(0, -1), "holds -1"),
        (changed(1, 0), "must be sorted and distinct"),
    ],
    "row_votes": [(changed(0, -1), "holds -1"), (changed(0, 2**62), "holds"), (changed(0, 0), "does not count 1000 votes")],
    "workers": [(changed(0, 255), "not UTF-8"), (changed(slice(0, 4), np.frombuffer(b"w0w0", np.uint8)), "twice")],
    "workers_offsets": [
        (changed(0, 1), "begins with 1"),
        (changed(1, 10**9), "falls from"),
        (changed(-1, 10**9), "ends with 1000000000"),
        (changed(3, -1), "falls from"),
    ],
    "labels": [(changed(1, ord("2")), "twice")],
    "labels_offsets": [(changed(-1, 5), "ends with 5"), (changed(1, 7), "falls from")],
    "unvoted_offsets": [(changed(0, 8), "begins with 8")],
}


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [(name, *one) for name, many in FORGED.items() for one in many],
    ids=lambda v: v[:30] if isinstance(v, str) else "",
)
def test_forged_numbers_are_refused(texts, name, change, words):
    forge(texts, **{name: change(items_of(texts, name))})
    refused(texts, rf"\b{name.removesuffix('_offsets')}(_offsets)?\b.*{words}")


@pytest.mark.parametrize(
    ("at", "value", "words"), [(0, 3, "begins with 3"), (5, 10**9, "fall, or point beyond"), (6, -1, "fall, or point beyond")]
)
def test_forged_places_of_ids_are_refused(texts, at, value, words):
    forge(texts, tasks_offsets=changed(at, value)(items_of(texts, "tasks_offsets")))
    refused(texts, rf"tasks_offsets\.npy is .*{words}")


def test_forged_texts_are_refused(tmp_path):
    votes = [(f"t{n}é", "w", "x") for n in range(9)]
    encode(votes, tmp_path / "v")
    values, offsets = items_of(tmp_path / "v", "tasks"), items_of(tmp_path / "v", "tasks_offsets")
    forge(tmp_path / "v", tasks_offsets=changed(3, offsets[3] - 1)(offsets.copy()))
    refused(tmp_path / "v", r"tasks\.npy is not valid in shard 0: an id begins within a character")
    forge(tmp_path / "v", tasks_offsets=offsets, tasks=changed(0, 0xFF)(values))
    refused(tmp_path / "v", r"tasks\.npy is not valid in shard 0: an id is not UTF-8")


def test_forged_booleans_are_refused(tmp_path):
    encode([(True, "w", "x"), (False, "w", "x")], tmp_path / "v")
    forge(tmp_path / "v", tasks=items_of(tmp_path / "v", "tasks").view(np.uint8) + np.uint8(5))
    body = manifest_of(tmp_path / "v")
    body["files"]["tasks"]["dtype"] = "|b1"
    path = tmp_path / "v" / "tasks.npy"
    path.write_bytes(path.read_bytes().replace(b"|u1", b"|b1"))
    write_manifest(tmp_path / "v", body)
    refused(tmp_path / "v", "neither 0 nor 1")


def edits():
    yield r"`int` >= 0 - at `\$.votes`", lambda b: b.update(votes=-1)
    yield r"`int`, got `str` - at `\$.votes`", lambda b: b.update(votes="1000")
    yield "do not add up", lambda b: b.update(votes=b["votes"] + 1)
    yield "do not add up", lambda b: b.update(tasks=b["tasks"] - 1)
    yield "missing required field `shards`", lambda b: b.pop("shards")
    yield "unknown field `more`", lambda b: b.update(more=1)
    yield r"at `\$.shards`", lambda b: b.update(shards=None)
    yield r"at `\$.shards\[0\]`", lambda b: b["shards"].insert(0, [])
    yield "shard 1 is", lambda b: b["shards"][1].update(tasks=0)
    yield "too few", lambda b: b["shards"][1].pop("crc32")
    yield "fields that nothing uses", lambda b: b["files"]["row"].update(more=1)
    yield "shard 0 is", lambda b: b["shards"][0]["crc32"].pop("row")
    yield r"at `\$.shards\[0\].text`", lambda b: b["shards"][0].update(text=1.5)
    yield r"at `\$.kinds", lambda b: b["kinds"].update(task="float")
    yield r"at `\$.kinds", lambda b: b["kinds"].update(task=["string"])
    yield "kinds is", lambda b: b["kinds"].pop("label")
    yield r"at `\$.duplicates`", lambda b: b.update(duplicates={})
    yield "its files are", lambda b: b["files"].pop("row_label")
    yield r"at `\$.files`", lambda b: b.update(files=[])
    yield r"at `\$.files", lambda b: b["files"].update(row=7)
    yield "the file row is", lambda b: b["files"]["row"].update(dtype="<i8")
    yield r"at `\$.files\[...\].length`", lambda b: b["files"]["row"].update(length=-1)
    yield "the file labels is", lambda b: b["files"]["labels"].pop("crc32")
    yield "row has", lambda b: b["files"]["row"].update(length=5)
    yield "worker_ptr has|has 0|workers_offsets has", lambda b: b["files"]["worker_ptr"].update(length=0)
    yield "row_votes has", lambda b: b["files"]["row_label"].update(length=2**40)


@pytest.mark.parametrize(("words", "edit"), list(edits()))
def test_a_forged_manifest_is_refused(texts, words, edit):
    body = manifest_of(texts)
    edit(body)
    write_manifest(texts, body)
    refused(texts, rf"manifest\.json is not valid: .*({words})")


def test_a_manifest_that_is_not_a_manifest_is_refused(texts):
    path = texts / "manifest.json"
    for text in ("[" * 100_000, '{"format": "adjudge votes", "version": 1' + "1" * 5000 + "}", "\udcff"):
        path.write_bytes(text.encode(errors="surrogateescape"))
        refused(texts, "manifest.json is damaged")
    for version in (None, "1", 1.5, True):
        write_manifest(texts, manifest_of_version(version))
        with pytest.raises(adj.AdjudgeError, match="newer adjudge"):
            adj.read(texts)


def manifest_of_version(version):
    return {"format": "adjudge votes", "version": version}


def test_whole_folders_are_what_they_were(folder):
    """A forgery that changes nothing opens: the checks ask for no more than `encode` writes."""
    before = adj.aggregate(folder).labels
    forge(folder)
    assert adj.aggregate(folder).labels.equals(before)


def test_the_bytes_of_version_1_are_pinned(tmp_path):
    votes = [(f"t{n % 7}é", f"w{n % 3}", "cat" if n % 2 == 0 or n == 9 else "dog") for n in range(20)] + [("u", "w0", None)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.MissingLabels)
        assert encode(votes, tmp_path / "v").abstained.tolist() == [1, 0, 0]
    assert manifest_of(tmp_path / "v")["version"] == 1
    whole = hashlib.sha256()
    for path in sorted((tmp_path / "v").iterdir()):
        if path.name != "source.json":
            whole.update(path.name.encode() + path.read_bytes())
    assert whole.hexdigest() == "c320218b990051008113246a67ca88f39991596b4c9518c03b4672dca887bb54"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda items: items[:-1], "manifest.json is not valid: abstained has 14 items, not 15"),
        (lambda items: items - 1, "abstained holds -1"),
        (lambda items: items + 2, "abstained holds 2"),
    ],
)
def test_forged_abstentions_are_refused(tmp_path, change, words):
    votes = adj.simulate(tasks=200, workers=15, labels=3, seed=7).votes.rows()
    encode([*votes, ("t0", "w3", "skip")], tmp_path / "v", abstain="skip")
    forge(tmp_path / "v", abstained=change(items_of(tmp_path / "v", "abstained")))
    refused(tmp_path / "v", words)


@pytest.mark.parametrize("votes", [[], [("t", "w", "x")], [(1, 2, 3)], [("t", 1, True), ("u", 2, False)]], ids=str)
def test_small_folders_open(tmp_path, votes):
    frame = pl.DataFrame(votes, schema=["task", "worker", "label"], orient="row")
    encode(frame, tmp_path / "v")
    assert len(adj.read(tmp_path / "v")) == len(votes)
