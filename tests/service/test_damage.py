"""Flipped bits in a store: `doctor` finds each, and no answer of the service changes without an error."""

import asyncio
import json
import random
import shutil
import sqlite3
import warnings

import msgspec
import pytest

import postgres
from adjudge.cli.doctor import store_findings
from adjudge.errors import AdjudgeError
from adjudge.service.campaigns.tasks import Archived
from adjudge.service.http.campaigns import Campaigns
from adjudge.service.http.loading import load
from adjudge.service.http.types import CampaignSpec, VoteIn
from adjudge.service.store import ids
from adjudge.service.store.batch import AnnotatedTaskRow, AnnotationRow, Batch, ItemRow, OutboxRow
from adjudge.service.store.errors import DamagedStore
from adjudge.service.store.opening import open_store
from adjudge.service.store.rows import TABLES
from adjudge.service.store.verify import verify, verify_shared

DAY = 86_400 * 1_000_000_000  # nanoseconds
FLIPS_PER_COLUMN = 3
# Columns of keys: with another value the row is no longer found, which only a reader of the whole table notices.
KEYS = {
    "archive": {"campaign", "task", "position"},
    "annotated_task": {"campaign", "task"},
    "annotation": {"campaign", "task"},
    "item": {"campaign", "task"},
    "decision": {"campaign", "first"},
    "log": {"campaign"},
    "webhook": {"campaign"},
}


class Time:
    """A clock that a test sets, for wall and monotonic time alike."""

    def __init__(self):
        self.now = 1_700_000_000_000_000_000

    def __call__(self):
        self.now += 1_000_000
        return self.now


@pytest.fixture(scope="module")
def small_pages():
    """Few ids make a generation, so that a small store has several."""
    patch = pytest.MonkeyPatch()
    patch.setattr(ids, "IDS_PER_GENERATION", 40)
    patch.setattr(ids, "IDS_PER_PAGE", 15)
    yield
    patch.undo()


async def fill(url):
    """A campaign with everything that is stored: archived tasks, ids, an erased name, a snapshot, votes that have expired."""
    clock = Time()
    campaigns = await opened(url, clock)
    retention = {"tasks": 5, "votes_days": 10, "days": 4}
    spec = CampaignSpec(labels=["spam", "ok"], retention=retention, policy={"minimum_votes": 3, "confidence": 0.6})
    campaign, _ = await campaigns.put("default", spec)
    await campaigns.put("other", CampaignSpec(labels=["a", "b"]))
    for day in range(20):
        clock.now += DAY
        for task in range(2):
            for worker in range(3):
                mark = f"{day}-{task}-{worker}"
                await campaign.vote([VoteIn(task=f"t{day}-{task}", worker=f"w{worker}", label="spam", id=mark)])
        await campaign.duties.sweep()
    await expire(campaign, clock)
    for day in range(20, 24):
        clock.now += DAY
        for worker in range(3):
            await campaign.vote([VoteIn(task=f"t{day}-0", worker=f"w{worker}", label="ok", id=f"{day}-{worker}")])
        await campaign.duties.sweep()
    await campaign.set_worker("ghost", group="g")
    await campaign.erase("ghost")
    store, number = campaigns.store, campaign.number
    hook = await campaigns.in_writer(campaigns.store.webhooks.add, number, "http://x.test/", "secret", {}, 1)
    await campaigns.in_writer(campaigns.store.tokens.add, b"h" * 32, "ann", ["vote"], "default", 1)
    batch = Batch()
    batch.outbox.append(OutboxRow(hook, number, 5, "key", b"{}", 1 << 50))
    batch.annotations.append(AnnotationRow(number, "a1", "t23-0", 1, 1, truth=False, deleted=False, updated=5, seen=6))
    batch.items.append(ItemRow(number, "t23-0", b'{"text":"what people see"}', 6))
    batch.annotated_tasks.append(AnnotatedTaskRow(number, "t23-0", 1, claimed=5, deleted=False, seen=6))
    await campaigns.in_writer(campaigns.store.write, batch)
    await campaign.duties.save_snapshot()
    await campaigns.close()
    return store


async def opened(url, clock):
    from adjudge.service.http.clock import Clock

    campaigns = await Campaigns.open(url, clock=Clock(clock, clock))
    await asyncio.sleep(0)
    for task in campaigns._endless:
        task.cancel()
    return campaigns


async def expire(campaign, clock):
    campaign.now()
    clock.now += DAY // 24
    await campaign.duties.expiry.run()
    await campaign.on_disk_now()


async def answers(url):
    """The service's answers on every task, worker, id and vote."""
    clock = Time()
    clock.now += 24 * DAY
    campaigns = await opened(url, clock)
    try:
        campaign = campaigns.get("default")
        tasks = [f"t{day}-{task}" for day in range(24) for task in range(2)]
        told = {}
        for task in tasks:
            record = campaign.state.find(task)
            told[task] = None if record is None else repr(await campaign.task(task))
        told["workers"] = repr(await campaign.workers(100, 0))
        told["votes"] = repr(await campaign.votes(0, 1000))
        told["decisions"] = repr(list(campaigns.store.decisions(campaign.number)))
        told["tokens"] = repr(campaigns.store.tokens.all())
        told["webhooks"] = repr(campaigns.store.webhooks.targets())
        told["annotations"] = repr(campaigns.store.annotations.of_tasks(campaign.number, tasks))
        told["annotated tasks"] = repr(campaigns.store.annotations.find_tasks(campaign.number, tasks))
        told["names"] = campaigns.names()
        for day in range(20):
            for worker in range(3):
                mark = f"{day}-0-{worker}"
                told[mark] = campaign.ids.look_up(mark, ids.content_of(f"t{day}-0", worker + 1, 0))
        return told
    finally:
        campaigns._broken = "closed"  # nothing is to be written to a damaged store
        await campaigns.close()


def flip(value, bit):
    """A value with one bit flipped; bytes and text become bytes."""
    if isinstance(value, int):
        return value ^ (1 << bit % 63)
    data = bytearray(value.encode() if isinstance(value, str) else value)
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    return bytes(data)


def flips(connection, chance, tables):
    """Yield table, column, rowid and the flipped value, for some rows of every column that has a value."""
    for table, columns in tables.items():
        for column, kind in columns.items():
            rows = connection.execute(f"SELECT rowid, {column} FROM {table} WHERE {column} IS NOT NULL").fetchall()
            rows = [row for row in rows if row[1] != b""]
            for rowid, value in chance.sample(rows, min(FLIPS_PER_COLUMN, len(rows))):
                changed = flip(value, chance.randrange(1 << 20))
                if kind == "text":
                    changed = changed.decode("utf-8", "replace")
                yield table, column, rowid, changed


def doctor(url):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {finding.state for finding in store_findings(url)}


@pytest.fixture(scope="module")
def damaged(tmp_path_factory, small_pages):
    """A store in a file, the service's answers from it, and all of its tables."""
    path = tmp_path_factory.mktemp("damage") / "votes.db"
    asyncio.run(fill(str(path)))
    connection = sqlite3.connect(path)
    empty = [table for table in TABLES if not connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]]
    connection.close()
    assert empty == []
    return path, asyncio.run(answers(str(path)))


def test_a_sound_store_is_sound(damaged):
    path, told = damaged
    assert doctor(str(path)) <= {"ok", "warn"}
    assert asyncio.run(answers(str(path))) == told
    store = open_store(path, readonly=True)
    [found, _] = verify(store)
    assert found.records > 10
    assert found.ids >= 80
    assert (found.workers, found.snapshots) == (4, 1)
    assert found.begins > 1
    assert verify_shared(store) == ({"campaign": 2, "token": 1, "webhook": 1, "outbox": 1}, [])
    store.close()


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_flipped_bit_is_found(damaged, table, tmp_path):
    source, told = damaged
    chance = random.Random(table)
    reader = sqlite3.connect(source)
    found = list(flips(reader, chance, {table: TABLES[table]}))
    reader.close()
    assert found
    path = tmp_path / "votes.db"
    for table, column, rowid, value in found:
        shutil.copy(source, path)
        connection = sqlite3.connect(path)
        try:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, rowid))
        except sqlite3.IntegrityError:
            continue
        finally:
            connection.commit()
            connection.close()
        where = f"{table}.{column} of row {rowid} is now {value!r}"
        assert "fail" in doctor(str(path)), where
        if column in KEYS.get(table, ()):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                now = asyncio.run(answers(str(path)))
        except AdjudgeError:
            continue  # it says so
        assert now == told, where


def test_flipped_bits_of_a_snapshot_are_found(damaged, tmp_path):
    source, told = damaged
    [snapshot] = source.with_name("votes.db.snapshots").glob("1-*")
    chance = random.Random(5)
    path = tmp_path / "votes.db"
    shutil.copy(source, path)
    folder = tmp_path / "votes.db.snapshots"
    folder.mkdir()
    for _ in range(20):
        (folder / snapshot.name).write_bytes(flip(snapshot.read_bytes(), chance.randrange(1 << 24)))
        assert "fail" in doctor(str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert asyncio.run(answers(str(path))) == told  # from the base and the log behind it


def test_rows_that_are_missing_are_found(damaged, tmp_path):
    source, _ = damaged
    path = tmp_path / "votes.db"
    for what in (
        "log WHERE campaign = 1 AND first = (SELECT min(first) + 1 FROM log WHERE campaign = 1)",
        "worker WHERE number = 2",
        "id_page WHERE rowid = (SELECT min(rowid) FROM id_page)",
        "id_page WHERE rowid = (SELECT max(rowid) FROM id_page)",
        "id_generation WHERE generation = 1",
        "base_part",
        "campaign WHERE number = 1",
    ):
        shutil.copy(source, path)
        connection = sqlite3.connect(path)
        assert connection.execute(f"DELETE FROM {what}").rowcount == 1
        connection.commit()
        connection.close()
        assert "fail" in doctor(str(path)), what


def test_a_missing_page_of_ids_is_noticed_when_an_id_is_looked_up(damaged, tmp_path):
    source, _ = damaged
    path = tmp_path / "votes.db"
    shutil.copy(source, path)
    shutil.copytree(source.with_name("votes.db.snapshots"), tmp_path / "votes.db.snapshots")
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM id_page WHERE first <> x''")
    connection.commit()
    connection.close()
    store = open_store(path)
    loaded = load(store, 1, lambda _: None)
    with pytest.raises(DamagedStore, match="table id_page of campaign 1: a page of generation"):
        [loaded.ids.look_up(f"{day}-0-0", b"") for day in range(20)]
    store.close()


def test_replay_fails_on_a_record_that_is_missing_or_forged(adjudge, tmp_path):
    from adjudge.service.store.rows import HASHED_COLUMNS, row_checksum

    async def story():
        clock = Time()
        campaigns = await opened(str(tmp_path / "votes.db"), clock)
        spec = CampaignSpec(labels=["spam", "ok"], retention={"tasks": 2}, policy={"minimum_votes": 1, "confidence": 0.5})
        campaign, _ = await campaigns.put("default", spec)
        for task in range(9):
            await campaign.vote([VoteIn(task=f"t{task}", worker="w", label="spam")])
        await campaign.duties.sweep()
        await campaigns.close()

    asyncio.run(story())
    path = str(tmp_path / "votes.db")
    assert adjudge("replay", path)[0] == 0
    connection = sqlite3.connect(path)
    kept = connection.execute(
        f"SELECT {', '.join(HASHED_COLUMNS['archive'])}, checksum FROM archive WHERE task = 't2'"
    ).fetchone()
    assert kept is None
    [*kept, check] = connection.execute(
        f"SELECT {', '.join(HASHED_COLUMNS['archive'])}, checksum FROM archive WHERE task = CAST('t2' AS BLOB)"
    ).fetchone()
    campaign, task, position, record, touched = kept
    known = Archived.from_bytes(record)
    forged = msgspec.structs.replace(known, answer=(1 - known.answer[0], *known.answer[1:])).to_bytes()
    change = "UPDATE archive SET record = ?, checksum = ? WHERE task = ?"
    with connection:
        connection.execute(change, (forged, check, task))
    code, _, err = adjudge("replay", path)
    assert code == 1
    assert "table archive of campaign 1: task 't2'" in err
    with connection:
        connection.execute(change, (forged, row_checksum("archive", (campaign, task, position, forged, touched)), task))
    code, out, _ = adjudge("replay", path, "--json")
    assert code == 1
    assert json.loads(out)[0]["difference"]["task"] == "t2"
    with connection:
        connection.execute("DELETE FROM archive WHERE task = ?", (task,))
    connection.close()
    code, out, _ = adjudge("replay", path)
    assert code == 1
    assert "the archived record of task 't2' is missing" in out


@pytest.mark.slow
def test_flipped_bits_in_postgresql_are_found(small_pages):
    import psycopg

    url = postgres.server().fresh()
    asyncio.run(fill(url))
    assert doctor(url) <= {"ok", "warn"}
    chance = random.Random(7)
    kinds = {"snapshot": {"header": "bytes", "checksum": "bytes"}, "snapshot_part": {"part": "int", "body": "bytes"}}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = adjudge")
        for table, columns in {**TABLES, **kinds}.items():
            for column, kind in columns.items():
                rows = connection.execute(f"SELECT ctid::text, {column} FROM {table} WHERE {column} IS NOT NULL").fetchall()
                rows = [row for row in rows if row[1] != b""]
                if not rows or (table, column) == ("log", "campaign"):
                    continue
                place, value = chance.choice(rows)
                changed = flip(value, chance.randrange(1 << 20))
                if kind == "text":
                    changed = changed.decode("utf-8", "replace").replace("\0", "x")
                back = connection.execute(
                    f"UPDATE {table} SET {column} = %s WHERE ctid = %s::tid RETURNING ctid::text", (changed, place)
                ).fetchone()[0]
                assert "fail" in doctor(url), f"{table}.{column} is now {changed!r}"
                connection.execute(f"UPDATE {table} SET {column} = %s WHERE ctid = %s::tid", (value, back))
    assert doctor(url) <= {"ok", "warn"}
