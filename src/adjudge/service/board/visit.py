"""One request to the page: who asks, for what, with which form."""

from __future__ import annotations

from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from adjudge.service.http.call import Context
from adjudge.service.http.campaign import Campaign
from adjudge.service.http.errors import Forbidden, Invalid, Malformed
from adjudge.service.http.parsing import Headers
from adjudge.service.http.tokens import Grant, Permit, Scope
from adjudge.service.http.types import MAX_ID_CHARACTERS, MAX_TEXT_CHARACTERS, Label

if TYPE_CHECKING:
    from adjudge.service.board.board import Board
    from adjudge.service.board.sessions import BrowserSession

FORM_MEDIA_TYPE: Final = b"application/x-www-form-urlencoded"
MAX_FORM_FIELDS: Final = 5000  # a policy may name a threshold for each label
LOCAL_NAME: Final = "local"  # who acts while no token is needed


def parse_fields(raw: bytes) -> dict[str, str]:
    """Return the fields of a query or of a form.

    >>> parse_fields(b"id=a%2Fb&label=")
    {'id': 'a/b', 'label': ''}
    """
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS, errors="strict")
    except ValueError:
        raise Malformed("the fields are not percent-encoded UTF-8, or too many") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise Invalid("a field is sent twice")
        if "\0" in value:
            raise Invalid("texts must not have NUL characters")
        found[name] = value
    return found


def parse_cookies(values: list[bytes]) -> dict[str, str]:
    """Return the cookies of a request; what cannot be read is left out.

    >>> parse_cookies([b"adjudge_session=abc; theme=dark"])
    {'adjudge_session': 'abc', 'theme': 'dark'}
    """
    found: dict[str, str] = {}
    for value in values:
        try:
            found.update((name, morsel.value) for name, morsel in SimpleCookie(value.decode("latin-1")).items())
        except CookieError:
            continue
    return found


def address(path: str, **query: object) -> str:
    """Return a root-relative address; empty values are left out.

    >>> address("/c/default/task", id="a/b", after=None)
    '/c/default/task?id=a%2Fb'
    """
    named = {name: str(value) for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(named)}" if named else path


@dataclass(slots=True)
class PageRequest:
    """One request.

    - `board`, `context`: the page, and what all requests share.
    - `headers`, `cookies`: of the request.
    - `grant`, `session`: what its token allows, and the session that it began.
    - `ids`: those in the path; the campaign's name is the first.
    - `query`, `form`: fields, as text.
    - `path`: address of the view, with its query.
    - `permit`: whether all of this still holds.
    """

    board: Board
    context: Context
    headers: Headers
    grant: Grant
    session: BrowserSession
    ids: list[str]
    query: dict[str, str]
    path: str
    request_id: str
    permit: Permit
    cookies: dict[str, str] = field(default_factory=dict)
    form: dict[str, str] = field(default_factory=dict)

    @property
    def campaign(self) -> Campaign:
        """The campaign that the path names, or `NotFound`."""
        return self.context.campaigns.get(self.ids[0])

    @property
    def campaigns(self) -> list[str]:
        """The campaigns that the token reaches."""
        only = self.grant.campaign
        return [name for name in self.context.campaigns.names() if only is None or name == only]

    @property
    def name(self) -> str:
        """Who acts, as the log has it."""
        return self.grant.name or LOCAL_NAME

    @property
    def labels(self) -> list[Label]:
        """The labels that the token may decide."""
        only = self.grant.labels
        return [label for label in self.campaign.labels if only is None or label.id in only]

    def label(self) -> str:
        """Return the label that the form names, if the token may decide it."""
        label = self.identity("label")
        self.grant.check_label(label)
        return label

    def may(self, scope: Scope) -> bool:
        """Return whether the token allows something in this campaign."""
        try:
            self.grant.check(scope, self.ids[0] if self.ids else None)
        except Forbidden:
            return False
        return True

    def here(self, view: str, **query: object) -> str:
        """Return the address of a view of this campaign."""
        return address(f"/c/{quote(self.ids[0], safe='')}/{view}", **query)

    def start_of(self, campaign: str) -> str:
        """Return the address of the first view of a campaign."""
        return address(f"/c/{quote(campaign, safe='')}/now")

    def text(self, name: str, *, most: int = MAX_TEXT_CHARACTERS) -> str:
        """Return a field of the form, "" where it is missing."""
        value = self.form.get(name, "")
        if len(value) > most:
            raise Invalid(f"{name} has {len(value)} characters: at most {most} are taken")
        return value

    def identity(self, name: str = "id") -> str:
        """Return an id from the form, or else from the query.

        In forms it is percent-encoded once more, because browsers change line breaks in form values.
        """
        value = unquote(self.form[name]) if self.form.get(name) else self.query.get(name, "")
        if not 1 <= len(value) <= MAX_ID_CHARACTERS:
            raise Invalid(f"{name} has {len(value)} characters: give 1 to {MAX_ID_CHARACTERS}")
        return value

    def position(self) -> int:
        """Return the position that the form was made at."""
        text = self.form.get("position", "")
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise Invalid("position is missing: reload the page and try again")
        return int(text)
