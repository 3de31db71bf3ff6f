"""Encoded folders and checkpoints with other content and right checksums: what only a check of the numbers can find."""

import json
import zlib

import numpy as np

from adjudge.io import container
from adjudge.io.folder.arrays import HEADER, header, sharded_files
from adjudge.io.folder.manifest import digest

LEADING = ("task_ptr", "tasks_offsets")  # files whose first item no checksum covers


def items_of(folder, name):
    """Return the items of a file of an encoded folder, to be changed."""
    return np.load(folder / f"{name}.npy").copy()


def manifest_of(folder):
    """Return the body of a manifest, without its checksum."""
    body = json.loads((folder / "manifest.json").read_text())
    del body["sha256"]
    return body


def write_manifest(folder, body):
    """Write a manifest with a valid checksum."""
    (folder / "manifest.json").write_text(json.dumps(body | {"sha256": digest(body)}))


def forge(folder, body=None, **arrays):
    """Write other arrays into an encoded folder, and the manifest (or this one) with all checksums made right."""
    body = manifest_of(folder) if body is None else body
    for name, given in arrays.items():
        items = np.asarray(given)
        (folder / f"{name}.npy").write_bytes(header(items.dtype, len(items)) + items.tobytes())
        body["files"][name] |= {"dtype": items.dtype.str, "length": len(items)}
    sharded = sharded_files(body["kinds"]["task"])
    for name, entry in body["files"].items():
        data = (folder / f"{name}.npy").read_bytes()[HEADER:]
        if name not in sharded:
            entry["crc32"] = zlib.crc32(data)
            continue
        size = np.dtype(entry["dtype"]).itemsize
        at = size if name in LEADING else 0
        for span in body["shards"]:
            count = {"row": span["votes"], "tasks": span["text"] if body["kinds"]["task"] == "string" else span["tasks"]}
            end = at + size * count.get(name, span["tasks"])
            span["crc32"][name] = zlib.crc32(data[at:end])
            at = end
    write_manifest(folder, body)


def forge_checkpoint(path, change):
    """Write a checkpoint whose meta and arrays were changed by `change(meta, arrays)`, with a right checksum."""
    meta, arrays = container.load(path, "checkpoint", 1)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(meta, arrays)
    container.save(path, "checkpoint", 1, meta, arrays)
