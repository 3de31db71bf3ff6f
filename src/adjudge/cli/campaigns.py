"""Campaigns of a store, by the names that commands are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adjudge.store.protocol import CampaignRow, Store


def every(store: Store, name: str | None) -> list[CampaignRow]:
    """Return the campaigns that are meant: the one of this name, or all; raise where there is none.

    - `store`: where they are.
    - `name`: as it was typed; None: all.
    """
    from adjudge.errors import InputError, unknown

    rows = store.campaigns()
    if not rows:
        raise InputError(f"the store {store.url} has no campaign yet")
    if name is not None and name not in [row.name for row in rows]:
        raise unknown("campaign", name, [row.name for row in rows])
    return [row for row in rows if name is None or row.name == name]


def only(store: Store, name: str | None) -> CampaignRow:
    """Return the one campaign that is meant; raise where there are several and none is named.

    - `store`, `name`: as for `every`.
    """
    from adjudge.errors import OptionError, listed

    rows = every(store, name)
    if len(rows) > 1:
        names = listed(row.name for row in rows)
        raise OptionError(f"the store has {len(rows)} campaigns: say which one with --campaign ({names})")
    return rows[0]
