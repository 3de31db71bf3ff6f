"""Logs whose beginning was deleted: what they begin with, and how old records of tasks are."""

from __future__ import annotations

from typing import Final

BOTH: Final = (
    # What a log begins with once votes have expired: the state at a position, in parts, and the chain of checksums before it.
    """CREATE TABLE base (campaign {int} PRIMARY KEY, position {int} NOT NULL, begins {int} NOT NULL, expired {int} NOT NULL,
        chain {bytes} NOT NULL, mark {bytes} NOT NULL, labels {bytes} NOT NULL, parts {int} NOT NULL,
        checksum {bytes} NOT NULL)""",
    """CREATE TABLE base_part (campaign {int} NOT NULL, position {int} NOT NULL, part {int} NOT NULL, body {bytes} NOT NULL,
        PRIMARY KEY (campaign, position, part))""",
    # When the task of a record was last touched; 0 where that is unknown, NULL once the record has no votes.
    "ALTER TABLE archive ADD COLUMN touched {int} DEFAULT 0",
    "CREATE INDEX archive_touched ON archive (campaign, touched) WHERE touched IS NOT NULL",
)
SQLITE: Final = ()
POSTGRESQL: Final = ()
