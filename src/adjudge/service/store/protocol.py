"""What every store does, whatever it keeps its tables in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from typing import NamedTuple, Protocol

from adjudge.service.store.annotations import Annotations
from adjudge.service.store.bases import Bases
from adjudge.service.store.batch import ArchiveRow, Batch, DecisionRow
from adjudge.service.store.errors import DamagedStore
from adjudge.service.store.events import Event
from adjudge.service.store.link import Row
from adjudge.service.store.pages import StoredPage
from adjudge.service.store.tokens import Tokens
from adjudge.service.store.webhooks import Webhooks


class CampaignRow(NamedTuple):
    """A campaign: its number, which never changes, and its name."""

    number: int
    name: str


class Snapshots(Protocol):
    """The snapshots of one campaign's state: derived from the log, and only there to make a restart quick.

    Each is bound to the log that it was made from: where the log is another (an older backup was restored), it is not used.
    Two are kept. Any thread may use them.
    """

    def save(self, position: int, chunks: Iterable[bytes]) -> None:
        """Keep the state at a position.

        - `position`: up to which the log has been applied; that much of it must be stored.
        - `chunks`: the state, in pieces.
        """

    def latest(self, *, until: int | None = None) -> tuple[int, bytes] | None:
        """Return the newest snapshot that is whole: its position and the state. None where there is none.

        - `until`: no newer than this position.
        """

    def check(self) -> tuple[int, list[str]]:
        """Read all snapshots; return how many are usable, and what is wrong with those that are damaged."""

    def forget(self, before: int) -> None:
        """Remove the snapshots of earlier positions.

        - `before`: the position of the first that stays.
        """


class Store(Protocol):
    """Logs of campaigns, and what belongs to them.

    One thread writes: `create_campaign`, `own`, `release`, `write`, `replace_records`, `tidy` and what changes tokens, webhooks,
    bases and annotations (`Writer` owns that thread). Everything else reads, from any thread, and sees what is committed.
    """

    url: str  # what was opened, without a password
    readonly: bool
    is_shared: bool  # whether several processes can write, each campaigns of its own
    tokens: Tokens
    webhooks: Webhooks
    bases: Bases
    annotations: Annotations

    def campaigns(self) -> list[CampaignRow]:
        """Return all campaigns, by number."""

    def create_campaign(self, name: str) -> int:
        """Return the number of a new campaign, which this process owns. Its `Created` event follows in a batch.

        - `name`: what no other campaign is called.
        """

    def own(self, campaign: int) -> None:
        """Make this process the one that writes a campaign; raise `NotOwner` where another is. Repeated calls do nothing.

        - `campaign`: its number.
        """

    def release(self, campaign: int) -> None:
        """Let another process own a campaign.

        - `campaign`: its number.
        """

    def owner(self, campaign: int) -> str | None:
        """Return which process owns a campaign, in words; None where none does.

        - `campaign`: its number.
        """

    def others(self) -> dict[int, str]:
        """Return the campaigns that other processes own, by number, and which processes, in words."""

    def held(self) -> frozenset[int]:
        """Return the campaigns whose locks this process holds now, and has held without a break since it called `own`.

        This is a round trip to the database, from any thread, and does not wait for a commit under way.
        """

    def write(self, batch: Batch) -> None:
        """Write a batch in one transaction: it is on disk when this returns. After an error nothing of it is.

        (When the connection to a server breaks during the commit, nobody knows: read the log again.)

        - `batch`: what to write. Each page must begin where the log ends, else this raises `OutOfStep`.
        """

    def committed(self, campaign: int) -> int:
        """Return the last position that this process knows to be on disk, without asking the disk: 0 where none is known.

        - `campaign`: its number.
        """

    def read(
        self, campaign: int, *, after: int = 0, until: int | None = None, left: bool = False
    ) -> Iterator[tuple[int, list[Event]]]:
        """Yield the log in pieces, each the position of its first event and the events; checksums are checked.

        Where wanted events have expired and are deleted, also while they are being read, this raises `Expired`: whoever
        folds the log begins again from `bases`.

        - `campaign`: its number.
        - `after`: the position before the first that is wanted.
        - `until`: the last position that is wanted; None for all that is stored.
        - `left`: whether to be content with what is left of it: nothing is raised.
        """

    def begins(self, campaign: int) -> int:
        """Return the first position of a log that is kept: 1 where nothing has expired.

        - `campaign`: its number.
        """

    def pages(self, campaign: int) -> Iterator[StoredPage]:
        """Yield the pages of a log that are kept, as they are stored, unchecked.

        - `campaign`: its number.
        """

    def last(self, campaign: int) -> int:
        """Return the last position of a log: 0 where it is empty.

        - `campaign`: its number.
        """

    def ends(self) -> list[tuple[int, str, int]]:
        """Return number, name and last position of every campaign, with one query."""

    def mark(self, campaign: int, position: int) -> bytes | None:
        """Return the checksum of a log up to a position, which tells it from every other log.

        None where it ends before, and where it was deleted up to a later position.

        - `campaign`: its number.
        - `position`: any.
        """

    def workers(self, campaign: int, *, after: int = -1) -> Iterator[tuple[int, str | None]]:
        """Yield the number and the name of every worker, by number; None where the name was erased.

        - `campaign`: its number.
        - `after`: the number before the first that is wanted.
        """

    def decisions(
        self, campaign: int, *, after: int = 0, limit: int | None = None, task: str | None = None
    ) -> Iterator[DecisionRow]:
        """Yield decisions in the order of their positions.

        - `campaign`: its number.
        - `after`: the position before the first that is wanted.
        - `limit`: about how many: the decisions of one position are never parted, so that a cursor can be a position.
        - `task`: of this task only.
        """

    def archived(self, campaign: int, task: str, *, until: int) -> bytes | None:
        """Return the newest record of a task at or before a position; None where there is none.

        - `campaign`: its number.
        - `task`: its id.
        - `until`: the position.
        """

    def archived_tasks(self, campaign: int) -> Iterator[str]:
        """Yield the tasks that have records.

        - `campaign`: its number.
        """

    def archived_page(self, campaign: int, *, after: str, until: int, limit: int) -> list[ArchiveRow]:
        """Return the newest record of some tasks at or before a position, by task.

        - `campaign`: its number.
        - `after`: the task before the first that is wanted; "": from the first on.
        - `until`: the position.
        - `limit`: at most so many.
        """

    def records_before(self, campaign: int, touched: int, *, limit: int) -> list[ArchiveRow]:
        """Return records with votes whose tasks were last touched before a time, the oldest first.

        - `campaign`: its number.
        - `touched`: the time, in microseconds since 1970. Records that do not say it come first.
        - `limit`: at most so many.
        """

    def replace_records(self, rows: Iterable[ArchiveRow]) -> None:
        """Put records in the place of those with the same task and position, in the writer's thread.

        - `rows`: the new records.
        """

    def id_generations(self, campaign: int) -> list[tuple[int, int]]:
        """Return the number of every stored generation of ids, and the position until which it goes: see `IdIndex`.

        - `campaign`: its number.
        """

    def id_pages(self, campaign: int, generation: int) -> Iterator[bytes]:
        """Yield the pages of a generation, in order.

        - `campaign`, `generation`: their numbers.
        """

    def id_candidates(self, campaign: int, key: bytes, start: int, end: int) -> list[bytes]:
        """Return, of each of some generations, the page that has a hash if that generation does.

        - `campaign`: its number.
        - `key`: the hash of an id.
        - `start`, `end`: the first generation, and the one behind the last.
        """

    def scan(self, table: str, campaign: int | None = None) -> Iterator[Row | DamagedStore]:
        """Yield every row of a table whose rows have checksums, in the order of its key, or what is wrong with it.

        - `table`: one of `adjudge.service.store.rows.KEY_COLUMNS`.
        - `campaign`: only rows of this campaign; None: all.
        """

    def strays(self) -> list[str]:
        """Return in words which tables have rows of campaigns that do not exist."""

    def snapshots(self, campaign: int) -> Snapshots:
        """Return the snapshots of a campaign.

        - `campaign`: its number.
        """

    def backup(self, path: str | PathLike[str]) -> None:
        """Write all that is committed now into one file, while the store is in use: a SQLite store, from any store.

        - `path`: of the new file; an earlier backup there is replaced.
        """

    def tidy(self, *, idle: bool = False) -> None:
        """Do what keeps commits quick, if it is time for it: the writer asks after each commit, and when it is idle.

        - `idle`: nothing else waits.
        """

    def close(self) -> None:
        """Let go of everything; the store cannot be used any more."""
