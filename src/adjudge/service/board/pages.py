"""Pages from templates: all values are escaped, and the security headers stop browsers from loading anything else.

This is the only home of Jinja2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

from adjudge.errors import make_visible
from adjudge.report import palette, words
from adjudge.report.page import MODES
from adjudge.report.svg import data_table, inline, shapes
from adjudge.service.http.errors import Problem

if TYPE_CHECKING:
    from adjudge.report.picture import Picture
    from adjudge.service.board.visit import PageRequest

THEMES: Final = ("system", "light", "dark")
VIEWS: Final = (("now", "Now"), ("queue", "Needs a person"), ("workers", "Reviewers"), ("policy", "Policy"), ("log", "Log"))
SURE, LEANING = 0.9, 0.7
MEDIA_TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
ASSETS: Final = ("style.css", "board.js", "mark.svg")
ONE_YEAR_S: Final = 31_536_000
PAGE_HEADERS: Final = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def redirect(to: str) -> Response:
    """Return the answer that leads to another page, to be fetched with GET."""
    return Response(status_code=303, headers={"location": to, **PAGE_HEADERS})


def security_policy(image_hosts: Sequence[str] = ()) -> str:
    """Return what a page may load: its own style, script and data, and images from some hosts.

    >>> security_policy(["img.example.org"]).split("; ")[3]
    "img-src 'self' https://img.example.org"
    """
    images = " ".join(["'self'", *(host if "://" in host else f"https://{host}" for host in image_hosts)])
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self'; img-src {images}; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    )


class Pages:
    """The templates with their filters and functions."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("adjudge.service.board"),
            autoescape=True,
            auto_reload=False,
            undefined=StrictUndefined,
            finalize=_as_text,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "percent": words.percent,
            "count": words.count,
            "short": words.shorten,
            "when": when,
            "lines": lines,
            "certainty": certainty,
            "duration": duration,
            "link": link,
            "enc": encode_text,
        }
        self._environment.globals |= {
            "tally": words.tally,
            "picture": picture,
            "data_of": lambda drawn: Markup(data_table(drawn)),
            "shapes": Markup(shapes()),
        }

    def render(self, template: str, visit: PageRequest | None, values: Mapping[str, Any]) -> str:
        """Return a template as text."""
        theme = "system" if visit is None else visit.cookies.get("theme", "system")
        known = {
            "visit": visit,
            "views": VIEWS,
            "theme": theme if theme in THEMES else "system",
            "themes": THEMES,
            "version": self.version,
            "part": visit is not None and visit.query.get("part") == "1",
        }
        return self._environment.get_template(template).render({**known, **values})

    def page(
        self, template: str, visit: PageRequest | None, values: Mapping[str, Any], *, status: int = 200, hosts: Sequence[str] = ()
    ) -> Response:
        """Return a template as an answer."""
        return as_page(self.render(template, visit, values), status=status, hosts=hosts)

    def problem(self, problem: Problem, visit: PageRequest | None, request_id: str) -> Response:
        """Return the page that says what is wrong."""
        known = visit if visit is not None and visit.ids and visit.ids[0] in visit.campaigns else None
        values = {"detail": str(problem), "code": problem.code, "request": request_id, "here": visit}
        return self.page("problem.html", known, values, status=problem.status or 500)

    @cached_property
    def assets(self) -> dict[str, bytes]:
        """Style, script and mark by name."""
        here = files("adjudge.service.board").joinpath("assets")
        found = {name: here.joinpath(name).read_bytes() for name in ASSETS if name != "style.css"}
        report = files("adjudge.report").joinpath("page.css").read_text(encoding="utf-8")
        own = here.joinpath("board.css").read_text(encoding="utf-8")
        return found | {"style.css": f"{tokens()}\n{report}\n{own}".encode()}

    @cached_property
    def version(self) -> str:
        """A digest of style and script, so that browsers keep them until they change."""
        return sha256(b"".join(self.assets[name] for name in ASSETS)).hexdigest()[:16]

    def asset(self, name: str) -> Response | None:
        """Return a file of the page, None if there is none of that name."""
        content = self.assets.get(name)
        if content is None:
            return None
        headers = PAGE_HEADERS | {"cache-control": f"public, max-age={ONE_YEAR_S}, immutable"}
        return Response(content, headers=headers, media_type=MEDIA_TYPES[name.rpartition(".")[2]])


def page_headers(hosts: Sequence[str] = ()) -> dict[str, str]:
    """Return the headers of every page."""
    return {"content-security-policy": security_policy(hosts), "content-type": "text/html; charset=utf-8", **PAGE_HEADERS}


def as_page(text: str, *, status: int = 200, hosts: Sequence[str] = ()) -> Response:
    """Return a rendered page as an answer."""
    return Response(text.encode("utf-8", "replace"), status, headers=page_headers(hosts))


def tokens() -> str:
    """Return the palette as variables: light, dark by the system's setting, and either by choice."""
    light, dark = ("".join(f"--{name}:{value};" for name, value in palette.colours(mode).items()) for mode in MODES)
    steps = "".join(f".h{step}{{background:var(--h{step});color:var(--h{step}i)}}" for step in range(palette.LEVELS + 1))
    squares = "".join(f".c{at}{{background:var(--t{at});border-color:var(--c{at})}}" for at in range(len(palette.CATEGORIES)))
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\n"
        f":root[data-theme=light]{{color-scheme:light}}\n"
        f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}\n{steps}{squares}"
    )


# --- what templates call


def _as_text(value: object) -> object:
    """Return a value as a page shows it: characters that cannot be seen as escapes."""
    return make_visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def encode_text(text: str) -> str:
    r"""Return text as a form carries it: percent-encoded, as browsers change line breaks in form values.

    >>> encode_text("a\n/b")
    'a%0A%2Fb'
    """
    return quote(text, safe="")


def lines(text: object) -> Markup:
    r"""Return text of several lines, each of them visible.

    >>> str(lines("<b>\nnext\x00"))
    '&lt;b&gt;\nnext\\x00'
    """
    return Markup("\n").join(make_visible(line) for line in str(text).replace("\r\n", "\n").split("\n"))


def picture(drawn: Picture) -> Markup:
    """Return the plots of a picture; the page prints its sentence."""
    return Markup(inline(drawn))


def link(url: object) -> str | None:
    """Return an address if people may follow it: http or https, with a host.

    >>> link("https://example.org/a"), link("javascript:alert(1)"), link("//example.org")
    ('https://example.org/a', None, None)
    """
    if not isinstance(url, str) or make_visible(url) != url or any(letter.isspace() for letter in url):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return None
    return quote(url, safe=":/?#[]@!$&'()*+,;=%~") if parts.scheme in ("http", "https") and host else None


def certainty(confidence: float) -> str:
    """Return how sure a label is, as a word.

    >>> certainty(0.97), certainty(0.8), certainty(0.55)
    ('sure', 'leaning', 'split')
    """
    return "sure" if confidence >= SURE else "leaning" if confidence >= LEANING else "split"


def duration(seconds: float) -> str:
    """Return a time span in its largest unit.

    >>> duration(42), duration(3 * 3600 + 5), duration(0.4)
    ('42 s', '3 h', '0 s')
    """
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{words.THIN}{unit}".replace(words.THIN, " ")
    return f"{int(max(seconds, 0))} s"


def when(moment: datetime | int | None) -> Markup:
    """Return a time as how long ago it was; the exact time is its title and its accessible name.

    - `moment`: a time, or microseconds since 1970.
    """
    if not moment:
        return Markup("–")
    exact = datetime.fromtimestamp(moment / 1e6, UTC) if isinstance(moment, int) else moment.astimezone(UTC)
    seconds = (datetime.now(UTC) - exact).total_seconds()
    ago = "just now" if -5 < seconds < 5 else f"{duration(seconds)} ago" if seconds > 0 else f"in {duration(-seconds)}"
    iso = exact.isoformat(timespec="seconds")
    shown = f"{exact:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(iso, shown, ago)
