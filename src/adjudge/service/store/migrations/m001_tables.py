"""The tables. The column `checksum` of a row is explained in rows.py, that of the log in pages.py."""

from __future__ import annotations

from typing import Final

BOTH: Final = (
    "CREATE TABLE campaign (number {serial}, name {text} NOT NULL UNIQUE, checksum {bytes} NOT NULL)",
    # The log: a row per campaign and commit.
    """CREATE TABLE log (campaign {int} NOT NULL, first {int} NOT NULL, count {int} NOT NULL, body {bytes} NOT NULL,
        checksum {bytes} NOT NULL, PRIMARY KEY (campaign, first))""",
    # Decisions, a row per campaign and commit as well. `part` tells rows apart that begin at the same position.
    """CREATE TABLE decision (campaign {int} NOT NULL, first {int} NOT NULL, part {int} NOT NULL, last {int} NOT NULL,
        body {bytes} NOT NULL, checksum {bytes} NOT NULL, PRIMARY KEY (campaign, first, part))""",
    # The only place of workers' names; NULL where the name was erased.
    """CREATE TABLE worker (campaign {int} NOT NULL, number {int} NOT NULL, name {bytes}, checksum {bytes} NOT NULL,
        PRIMARY KEY (campaign, number))""",
    # `touched`: when the task of a record was last touched; 0 where that is unknown, NULL once the record has no votes.
    """CREATE TABLE archive (campaign {int} NOT NULL, task {bytes} NOT NULL, position {int} NOT NULL, record {bytes} NOT NULL,
        touched {int}, checksum {bytes} NOT NULL, PRIMARY KEY (campaign, task, position))""",
    "CREATE INDEX archive_touched ON archive (campaign, touched) WHERE touched IS NOT NULL",
    # Annotations of Label Studio: what each says now, and of their tasks the gold that came with them.
    """CREATE TABLE annotation (campaign {int} NOT NULL, annotation {bytes} NOT NULL, task {bytes} NOT NULL,
        worker {int} NOT NULL, label {int}, truth {int} NOT NULL, deleted {int} NOT NULL, updated {int} NOT NULL,
        seen {int} NOT NULL, checksum {bytes} NOT NULL, PRIMARY KEY (campaign, annotation))""",
    "CREATE INDEX annotation_pair ON annotation (campaign, task, worker)",
    "CREATE INDEX annotation_truth ON annotation (campaign, task) WHERE truth = 1",
    "CREATE INDEX annotation_seen ON annotation (campaign, seen)",
    """CREATE TABLE annotated_task (campaign {int} NOT NULL, task {bytes} NOT NULL, gold {int}, claimed {int} NOT NULL,
        deleted {int} NOT NULL, seen {int} NOT NULL, checksum {bytes} NOT NULL, PRIMARY KEY (campaign, task))""",
    "CREATE INDEX annotated_task_seen ON annotated_task (campaign, seen)",
    # What a log begins with once votes have expired: the state at a position, in parts, and the chain of checksums before it.
    """CREATE TABLE base (campaign {int} PRIMARY KEY, position {int} NOT NULL, begins {int} NOT NULL, expired {int} NOT NULL,
        chain {bytes} NOT NULL, mark {bytes} NOT NULL, labels {bytes} NOT NULL, parts {int} NOT NULL, content {bytes} NOT NULL,
        checksum {bytes} NOT NULL)""",
    """CREATE TABLE base_part (campaign {int} NOT NULL, position {int} NOT NULL, part {int} NOT NULL, body {bytes} NOT NULL,
        PRIMARY KEY (campaign, position, part))""",
    # Ids of clients: full generations, each in pages sorted by hash. New ones go to the end of the index. A page has the
    # hashes from `first` up to `until`, where the next one begins; empty: from the least, up to the greatest.
    """CREATE TABLE id_generation (campaign {int}, generation {int}, until {int} NOT NULL, checksum {bytes} NOT NULL,
        PRIMARY KEY (campaign, generation))""",
    """CREATE TABLE id_page (campaign {int} NOT NULL, generation {int} NOT NULL, first {bytes} NOT NULL, until {bytes} NOT NULL,
        body {bytes} NOT NULL, checksum {bytes} NOT NULL, PRIMARY KEY (campaign, generation, first))""",
    """CREATE TABLE token (number {serial}, hash {bytes} NOT NULL UNIQUE, name {text} NOT NULL, scopes {text} NOT NULL,
        campaign {text}, created {int} NOT NULL, revoked {int}, checksum {bytes} NOT NULL)""",
    """CREATE TABLE webhook (number {serial}, campaign {int} NOT NULL, url {text} NOT NULL, secret {text} NOT NULL,
        settings {text} NOT NULL, created {int} NOT NULL, removed {int}, checksum {bytes} NOT NULL)""",
    """CREATE TABLE outbox (number {serial}, webhook {int} NOT NULL, campaign {int} NOT NULL, position {int} NOT NULL,
        key {text} NOT NULL, body {bytes} NOT NULL, due {int} NOT NULL, attempts {int} NOT NULL, error {text}, dead {int},
        checksum {bytes} NOT NULL)""",
    "CREATE INDEX outbox_due ON outbox (due) WHERE dead IS NULL",
    "CREATE INDEX outbox_dead ON outbox (campaign, number) WHERE dead IS NOT NULL",
)
SQLITE: Final = ()
POSTGRESQL: Final = (
    # Snapshots of SQLite stores are files beside the store.
    """CREATE TABLE snapshot (campaign {int}, position {int}, header {bytes} NOT NULL, checksum {bytes} NOT NULL,
        PRIMARY KEY (campaign, position))""",
    """CREATE TABLE snapshot_part (campaign {int}, position {int}, part {int}, body {bytes} NOT NULL,
        PRIMARY KEY (campaign, position, part))""",
)
