"""The item of a task as a page shows it: text, a link, an image, and all other fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from adjudge.service.board.pages import link
from adjudge.service.http import items
from adjudge.service.http.campaign import Campaign


class Item(NamedTuple):
    """An item, taken apart.

    - `text`: what is read.
    - `url`: an address that may be followed; None if there is none.
    - `image`: an address of an image on a host that the campaign allows; `image_host`: the host of one that it does not.
    - `others`: every other field, as name and JSON.
    """

    text: str | None
    url: str | None
    image: str | None
    image_host: str | None
    others: list[tuple[str, str]]


def open_item(data: Any, hosts: Sequence[str]) -> Item | None:
    """Return an item from its JSON value; None without one.

    >>> open_item({"text": "Buy now", "image_url": "https://img.example/a.png"}, [])
    Item(text='Buy now', url=None, image=None, image_host='img.example', others=[])
    """
    if data is None:
        return None
    if isinstance(data, str):
        return Item(data, None, None, None, [])
    if not isinstance(data, dict):
        return Item(_written(data), None, None, None, [])
    known = dict(data)
    text = known.pop("text") if isinstance(known.get("text"), str) else None
    url = known.pop("url") if link(known.get("url")) is not None else None
    image, host = None, None
    if (address := link(known.get("image_url"))) is not None:
        known.pop("image_url")
        host = urlsplit(address).netloc
        if address.startswith("https://") and host in hosts:
            image, host = address, None
    return Item(text, link(url), image, host, [(str(name), _written(value)) for name, value in known.items()])


def _written(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


async def item_of(campaign: Campaign, task: str) -> Item | None:
    """Return the item of a task; None without one."""
    content = await items.find(campaign, task)
    return None if content is None else open_item(msgspec.json.decode(content), campaign.state.image_hosts)
