"""Annotations of Label Studio in a store: found by their task, replaced, copied, and checked."""

import sqlite3
from contextlib import closing

import pytest

import postgres
from adjudge.service.store.backup import restore
from adjudge.service.store.batch import AnnotatedTaskRow, AnnotationRow, Batch
from adjudge.service.store.errors import DamagedStore, NotOwner
from adjudge.service.store.opening import open_store
from adjudge.service.store.verify import verify


def annotation(number, task="t", worker=1, label=0, **more):
    fields = {"truth": False, "deleted": False, "updated": number, "seen": number} | more
    return AnnotationRow(1, f"a{number}", task, worker, label, **fields)


def written(store, annotations=(), tasks=()):
    if not store.campaigns():
        store.create_campaign("spam")
    store.write(Batch(annotations=list(annotations), annotated_tasks=list(tasks)))


def test_rows_are_found_by_id_by_task_and_by_pair(store):
    rows = [annotation(n, task=f"t{n % 7}", worker=n % 3 + 1, label=None if n % 5 == 0 else 1) for n in range(1500)]
    written(store, rows, [AnnotatedTaskRow(1, "t1", None, 5, False, 9)])
    index = store.annotations
    assert sorted(index.find(1, [f"a{n}" for n in range(2000)])) == sorted(rows)
    assert index.find(2, ["a1"]) == []
    assert sorted(index.of_tasks(1, ["t3", "none"])) == sorted(row for row in rows if row.task == "t3")
    pairs = [("t3", 1), ("t4", 2), ("t4", 9), *((f"x{n}", n) for n in range(1000))]
    assert sorted(index.of_pairs(1, pairs)) == sorted(row for row in rows if (row.task, row.worker) in pairs)
    assert index.find_tasks(1, ["t1", "t2"]) == [AnnotatedTaskRow(1, "t1", None, 5, False, 9)]
    assert index.find_truths(1, ["t1"]) == []
    truth = rows[1]._replace(truth=True, label=None)
    written(store, [truth], [AnnotatedTaskRow(1, "t1", 1, 6, True, 10)])
    assert index.find_truths(1, ["t1"]) == index.find(1, ["a1"]) == [truth]
    assert index.find_tasks(1, ["t1"])[0].gold == 1


def test_rows_are_listed_by_age_and_removed(store):
    rows = [annotation(n, seen=n // 2) for n in range(5000)]
    written(store, rows, [AnnotatedTaskRow(1, f"t{n}", None, 0, False, n) for n in range(3)])
    old = [row for page in store.annotations.seen_before(1, 2100) for row in page]
    assert sorted(old) == sorted(rows[:4200])
    assert [row.task for page in store.annotations.tasks_seen_before(1, 2) for row in page] == ["t0", "t1"]
    store.annotations.remove(1, [row.annotation for row in old], ["t0"])
    assert sorted(row for page in store.annotations.seen_before(1, 1 << 62) for row in page) == sorted(rows[4200:])


def test_rows_travel_with_backups(store, url, tmp_path):
    rows = [annotation(n, task="tä\ud800") for n in range(3)]
    written(store, rows, [AnnotatedTaskRow(1, "t", 1, 2, False, 3)])
    store.backup(tmp_path / "copy.db")
    store.close()
    target = str(tmp_path / "new.db") if "://" not in url else postgres.server().fresh("other")
    restore(tmp_path / "copy.db", target)
    with closing(open_store(target)) as again:
        assert sorted(again.annotations.of_tasks(1, ["tä\ud800"])) == rows
        assert again.annotations.find_tasks(1, ["t"]) == [AnnotatedTaskRow(1, "t", 1, 2, False, 3)]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("UPDATE annotation SET label = 1", "table annotation of campaign 1: annotation 'a1'"),
        ("UPDATE annotation SET worker = worker + 1", "table annotation of campaign 1: annotation 'a1'"),
        ("UPDATE annotation SET annotation = x'6132'", "table annotation of campaign 1: annotation 'a2'"),
        ("UPDATE annotated_task SET gold = NULL", "table annotated_task of campaign 1: task 't'"),
    ],
)
def test_damage_is_found(tmp_path, change, named):
    with closing(open_store(tmp_path / "votes.db")) as store:
        written(store, [annotation(1)], [AnnotatedTaskRow(1, "t", 1, 2, False, 3)])
        assert verify(store)[0].problems == []
    with closing(sqlite3.connect(tmp_path / "votes.db")) as connection:
        connection.execute(change)
        connection.commit()
    with closing(open_store(tmp_path / "votes.db")) as store:
        assert verify(store)[0].problems == [f"{named} is damaged: the checksum differs; restore a backup"]
        with pytest.raises(DamagedStore):
            store.annotations.of_tasks(1, ["t"]), store.annotations.find_tasks(1, ["t"])


@pytest.mark.slow
def test_only_the_owner_writes_them():
    url = postgres.server().fresh()
    with closing(open_store(url)) as owner, closing(open_store(url)) as other:
        written(owner, [annotation(1)])
        with pytest.raises(NotOwner):
            other.write(Batch(annotations=[annotation(2)]))
