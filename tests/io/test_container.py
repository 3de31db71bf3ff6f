"""Container files: any content loads correctly, or raises a one-line error that names the file."""

import json
import os

import numpy as np
import pytest

import adjudge as adj
from adjudge.io import container
from adjudge.io import stream_file as stream_file_module
from adjudge.io.container import Array, Bounds
from adjudge.online import stream as online_module
from fitting import aggregate
from fuzzing import containers


@pytest.fixture(autouse=True)
def _no_wait_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_forged_and_damaged_files(first):
    for seed in range(first, first + 50):
        containers.run(seed)


def model_file(path, **options):
    aggregate(adj.simulate(tasks=40, workers=6, seed=1).votes, **options).save(path)
    return path


def stream_file(path, model="fds"):
    online = adj.Online(labels=["a", "b"], model=model)
    online.learn_many([(f"t{n % 5}", f"w{n % 3}", "ab"[n % 2]) for n in range(20)])
    online.save(path)
    return path


def change(path, name, index, value):
    """Puts another value into an array of a file, and a checksum that fits."""
    header, body = containers.taken_apart(path.read_bytes())
    [entry] = [e for e in header["arrays"] if e["name"] == name]
    array = np.frombuffer(body, entry["dtype"], int(np.prod(entry["shape"])), offset=entry["offset"])
    array[index] = value
    path.write_bytes(containers.put_together(header, body))


MODEL = {
    ("worker_offsets", 1): (10**9, "worker_offsets falls from 1000000000 to 4 at index 2"),
    ("worker_offsets", 0): (-1, "worker_offsets begins with -1: it must begin with 0"),
    ("worker_offsets", -1): (10**9, "worker_offsets ends with 1000000000: it must end with 12"),
    ("worker_ids", 0): (0xFF, "worker_texts are not UTF-8"),
    ("worker_ids", 1): (ord("1"), "two of its workers have the same name"),
    ("worker_ptr", 2): (2**40, "worker_ptr falls from 1099511627776 to 9 at index 3"),
    ("worker_ptr", 1): (0, "worker_ptr stays at 0 at index 1"),
    ("row_label", 3): (99, "row_label holds 99 at index 3: give numbers from 0 to 2"),
    ("row_label", 0): (-1, "row_label holds -1 at index 0: give numbers from 0 to 2"),
    ("counts", 4): (np.nan, "counts has nan at item 4, not a number from 0 to"),
    ("table", 5): (np.inf, "table has inf at item 5"),
    ("table", 6): (-1e300, "table has -1e.300 at item 6"),
    ("priors", 0): (0.99, "its priors sum to"),
}
STREAM = {
    ("task_offsets", 2): (10**9, "task_offsets falls from 1000000000"),
    ("task_texts", 1): (ord("1"), "two of its tasks have the same name"),
    ("task_ptr", 1): (-5, "task_ptr falls from 0 to -5 at index 1"),
    ("task_ptr", -1): (3, "task_ptr falls from 12 to 3 at index 5"),
    ("row", 0): (2**32 - 1, "row holds 4294967295 at index 0: give numbers from 0 to 5"),
    ("row_worker", 0): (77, "row_worker holds 77 at index 0: give numbers from 0 to 2"),
    ("row_label", 0): (2, "row_label holds 2 at index 0: give numbers from 0 to 1"),
    ("shares", 0): (2, "shares has 2 at item 0, not a number from -1 to 1"),
    ("shares", 1): (-1, "a task with votes has no label"),
}


@pytest.mark.parametrize(("name", "index"), MODEL)
def test_models_with_bad_numbers(name, index, tmp_path):
    path, (value, message) = model_file(tmp_path / "model"), MODEL[name, index]
    change(path, name, index, value)
    with pytest.raises(adj.InputError, match=f"model is not valid: {message}"):
        adj.load(path)


@pytest.mark.parametrize(("name", "index"), STREAM)
@pytest.mark.parametrize("kernels", ["compiled", "reference"])
def test_streams_with_bad_numbers(name, index, kernels, tmp_path, monkeypatch):
    path, (value, message) = stream_file(tmp_path / "stream"), STREAM[name, index]
    if kernels == "reference":
        monkeypatch.setattr(online_module, "compiled", lambda: None)
    change(path, name, index, value)
    with pytest.raises(adj.InputError, match=f"stream is not valid: {message}"):
        adj.Online.load(path)


@pytest.mark.parametrize("kernels", ["compiled", "reference"])
def test_streams_with_a_row_twice(kernels, tmp_path, monkeypatch):
    path = stream_file(tmp_path / "stream")
    if kernels == "reference":
        monkeypatch.setattr(online_module, "compiled", lambda: None)
    change(path, "row_worker", slice(0, 2), 0)
    change(path, "row_label", slice(0, 2), 0)
    with pytest.raises(adj.InputError, match=r"stream is not valid: a \(worker, label\) pair has two rows"):
        adj.Online.load(path)


def test_shares_that_do_not_sum_to_one(tmp_path):
    path = stream_file(tmp_path / "stream", "ds")
    change(path, "shares", 0, 5)
    with pytest.raises(adj.InputError, match="the shares of a task do not sum to one"):
        adj.Online.load(path)
    change(path, "shares", 0, -5)
    with pytest.raises(adj.InputError, match="shares has -5 at item 0, not a number from 0 to 4294967296"):
        adj.Online.load(path)


HEADERS = {
    "no JSON": (lambda h: b"{nope", "its header is not JSON"),
    "half a character": (lambda h: json.dumps(h).replace("auto", "\\ud800").encode(), "its header is not JSON in UTF-8"),
    "too deep": (lambda h: b"[" * 10**6, "its header is not JSON"),
    "no object": (lambda h: [1], "its header is not an object"),
    "no kind": (lambda h: h.pop("kind") and h, "its header has no 'kind'"),
    "version": (lambda h: {**h, "version": "1"}, "its header has version '1', which is not of type int"),
    "true": (lambda h: {**h, "version": True}, "its header has version True, which is not of type int"),
    "zero": (lambda h: {**h, "version": 0}, "it has the format 0"),
    "meta": (lambda h: {**h, "meta": []}, r"its header has meta \[\], which is not of type dict"),
    "labels": (lambda h: {**h, "meta": {**h["meta"], "labels": ["a", "a", "b"]}}, "label 'a' is listed twice"),
    "fewer labels": (lambda h: {**h, "meta": {**h["meta"], "labels": ["a"]}}, "it has priors of 3 labels and names of 1"),
    "scoring": (lambda h: {**h, "meta": {**h["meta"], "scoring": "magic"}}, "its votes are scored by 'magic'"),
    "kind of workers": (lambda h: {**h, "meta": {**h["meta"], "worker_kind": "float"}}, "its workers are of kind 'float'"),
    "numbers": (lambda h: {**h, "meta": {**h["meta"], "worker_kind": "integer"}}, r"worker_ids is of type \|u1, not <i8"),
    "seed": (lambda h: {**h, "meta": {**h["meta"], "settings": {"seed": "x", "ties": "hash"}}}, "seed is 'x'"),
    "facts": (lambda h: {**h, "meta": {**h["meta"], "facts": {**h["meta"]["facts"], "votes": []}}}, r"its facts have votes \[\]"),
    "temperature": (lambda h: {**h, "meta": {**h["meta"], "temperature": 0.0}}, "temperature is 0.0"),
    "an object": (lambda h: _entry(h, dtype="|O"), r"is of type '\|O'; known are"),
    "negative": (lambda h: _entry(h, shape=[-1]), r"has the shape \[-1\]"),
    "beyond": (lambda h: _entry(h, offset=2**40), "is not within the file"),
    "odd place": (lambda h: _entry(h, offset=4), "is not within the file"),
    "on another": (lambda h: _entry(h, offset=16), "two of its arrays overlap"),
    "unknown": (lambda h: _entry(h, name="other"), "it has an array 'other' that nothing uses"),
    "missing": (lambda h: {**h, "arrays": h["arrays"][:-1]}, "the array priors is missing"),
    "skill": (lambda h: {**h, "meta": {**h["meta"], "scoring": "coin"}}, "votes scored by coin need the array skill"),
}


def _entry(header, **fields):
    header["arrays"][-1].update(fields)
    return header


@pytest.mark.parametrize("name", HEADERS)
def test_headers(name, tmp_path):
    path, (make, message) = model_file(tmp_path / "model"), HEADERS[name]
    header, body = containers.taken_apart(path.read_bytes())
    path.write_bytes(containers.put_together(make(header), body))
    with pytest.raises(adj.InputError, match=message) as caught:
        adj.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


STREAM_META = {
    "options": ({"magic": 1}, "its model has no option 'magic'"),
    "model": ("mv", "unknown model 'mv'"),
    "strength": (-1, "strength is -1"),
    "seed": (1.5, "its meta has seed 1.5, which is not of type int"),
    "numbers": ({}, "its meta has no 'task'"),
    "hard": (False, "shares is of type <i4|a stream of fds keeps labels"),
    "labels": ([], "labels is empty"),
}


@pytest.mark.parametrize("name", STREAM_META)
def test_meta_of_streams(name, tmp_path):
    path, (value, message) = stream_file(tmp_path / "stream"), STREAM_META[name]
    header, body = containers.taken_apart(path.read_bytes())
    header["meta"][name] = value
    path.write_bytes(containers.put_together(header, body))
    with pytest.raises(adj.InputError, match=message):
        adj.Online.load(path)


def test_more_workers_and_labels_than_memory_holds(tmp_path, monkeypatch):
    path = stream_file(tmp_path / "stream")
    monkeypatch.setattr(stream_file_module, "free_memory", lambda: 10)
    with pytest.raises(adj.InputError, match="3 workers and 2 labels would take .* of memory"):
        adj.Online.load(path)


def test_what_a_container_holds_is_what_was_saved(tmp_path):
    arrays = {"a": np.arange(5), "b": np.zeros((0, 3)), "c": np.array([True, False]), "d": np.zeros((2, 2), np.uint32)}
    container.save(tmp_path / "file", "kind", 1, {"x": 1}, arrays)
    shapes = {"a": Array("<i8", ("n",)), "b": Array("<f8", (0, "m")), "c": Array("|b1", (2,)), "d": Array(None, ("m+-1", 2))}
    meta, loaded = container.load(tmp_path / "file", "kind", 1, {"x": int}, shapes)
    assert meta == {"x": 1}
    assert all(np.array_equal(loaded[name], array) for name, array in arrays.items())
    assert not loaded["a"].flags.writeable


@pytest.mark.parametrize(
    ("offsets", "text", "fine"),
    [([0, 1, 3], "aé", True), ([0, 2, 3], "aé", False), ([0, 0, 3, 3], "aé", True), ([0], "", True), ([0, 4, 4], "aé", False)],
)
def test_texts_are_cut_between_characters(offsets, text, fine):
    data, bounds = np.frombuffer(text.encode(), np.uint8), Bounds("here")
    if fine:
        bounds.texts("task", np.array(offsets), data)
        return
    with pytest.raises(adj.InputError, match="here is not valid: task_"):
        bounds.texts("task", np.array(offsets), data)
