"""A store opened while its writer runs, and the queries of followers of a log."""

import pytest

from adjudge.service.store.archive import StoreArchive
from adjudge.service.store.batch import Batch, OutboxRow
from adjudge.service.store.errors import NotOwner, StoreError
from adjudge.service.store.opening import open_store, open_token_store
from stored_logs import batch_of, log_of


def test_tokens_change_beside_the_writer(store, url):
    beside = open_token_store(url)
    number = beside.tokens.add(b"hash", "ann", ["vote"], None, 1)
    assert [row.name for row in store.tokens.all()] == ["ann"]
    campaign = store.create_campaign("spam")
    store.write(batch_of(campaign, 1, 3))
    assert beside.tokens.revoke(number, 2)
    assert [row.revoked for row in store.tokens.all()] == [2]
    assert len(log_of(beside, campaign)) == 3
    beside.close()
    store.write(batch_of(campaign, 4, 3))
    assert len(log_of(store, campaign)) == 6


def test_beside_a_file_nothing_of_the_log_can_be_written(tmp_path):
    path = tmp_path / "votes.db"
    beside = open_token_store(path)  # created if missing
    for write in (lambda: beside.create_campaign("spam"), lambda: beside.own(1), lambda: beside.write(Batch())):
        with pytest.raises(NotOwner, match="open for tokens only"):
            write()
    beside.close()
    open_store(path).close()
    (tmp_path / "text").write_text("no store at all" * 99)
    with pytest.raises(StoreError, match="not a database"):
        open_token_store(tmp_path / "text")


def test_ends_of_all_logs(store):
    assert store.ends() == []
    first, second = store.create_campaign("first"), store.create_campaign("second")
    store.write(batch_of(first, 1, 5))
    store.write(batch_of(first, 6, 2))
    assert store.ends() == [(first, "first", 7), (second, "second", 0)]
    assert store.others() == {}


def test_workers_after_a_number(store):
    campaign = store.create_campaign("spam")
    batch = batch_of(campaign, 1, 1)
    batch.workers += [(campaign, number, f"w{number}") for number in (1, 2, 3)]
    store.write(batch)
    assert list(store.workers(campaign, after=1)) == [(2, "w2"), (3, "w3")]
    assert list(store.workers(campaign, after=3)) == []


def test_deliveries_of_some_campaigns(store):
    one, two = store.create_campaign("one"), store.create_campaign("two")
    hooks = {campaign: store.webhooks.add(campaign, "https://example.org", "s", {}, 0) for campaign in (one, two)}
    batch = batch_of(one, 1, 1)
    batch.outbox += [OutboxRow(hooks[campaign], campaign, 1, f"key-{campaign}", b"{}", 5) for campaign in (one, two)]
    store.write(batch)
    assert [row.campaign for row in store.webhooks.due(9)] == [one, two]
    assert [row.campaign for row in store.webhooks.due(9, campaigns=[two])] == [two]
    assert store.webhooks.due(9, campaigns=[]) == []


def test_an_archive_that_follows_writes_nothing(store):
    campaign, put = store.create_campaign("spam"), []
    archive = StoreArchive(store, campaign, put.append)
    archive.follow(7)
    archive.put(7, [("t1", b"by the other process")])
    assert put == []
    assert archive.may_have("t1")
    archive.put(8, [("t2", b"ours")])
    assert put == [(campaign, 8, "t2", b"ours", 0)]
