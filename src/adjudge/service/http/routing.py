"""What a route is, and how a request finds its own: on the raw path, segment by segment, each decoded by itself.

So a task called "a/b" is `a%2Fb` in a path and one segment of it, and "..", "%" or "é" are names like any other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from adjudge.service.http.call import Call
from adjudge.service.http.errors import NotAllowed, NotFound
from adjudge.service.http.parsing import decode_segment
from adjudge.service.http.tokens import Scope

Handler: TypeAlias = Callable[[Call], Awaitable[Any]]
JSON_MEDIA_TYPE: Final = "application/json"


@dataclass(frozen=True)
class Route:
    """One operation.

    - `method`, `path`: of the request; names in braces are ids.
    - `scope`: required of the token; None: no token is required.
    - `handler`: makes the answer; its docstring is the description.
    - `answers`: what the answer holds, by status.
    - `body`: what the request carries; `optional`: whether it may be left out.
    - `query`: the type of the query parameters; None: there are none.
    - `content`, `takes`: media types of the answer and of the body.
    - `everywhere`: whether a token has to reach all campaigns.
    - `streams`: whether the handler reads the body itself.
    - `reads`: whether it changes nothing, although its method is not GET.
    - `long`: whether the handler may take long, and is stopped when the client goes away.
    - `foreign`: whether the body is of another program, most of which is not looked at.
    - `problems`: statuses of this route in addition to the common ones.
    """

    method: str
    path: str
    scope: Scope | None
    handler: Handler
    answers: dict[int, Any]
    body: Any = None
    query: Any = None
    optional: bool = False
    content: str = JSON_MEDIA_TYPE
    takes: str = JSON_MEDIA_TYPE
    everywhere: bool = False
    streams: bool = False
    reads: bool = False
    long: bool = False
    foreign: bool = False
    problems: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Its name in metrics and in the description."""
        return f"{self.method} {self.path}"

    @property
    def stays_open(self) -> bool:
        """Whether the response stays open until the client disconnects."""
        return self.streams or self.content == "text/event-stream"

    @property
    def parameters(self) -> list[str]:
        """Names of the ids in its path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


class Router:
    """Finds the route of a request.

    - `routes`: the table.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        methods: dict[tuple[str, ...], dict[str, Route]] = {}
        for route in routes:
            known = methods.setdefault(tuple("" if part.startswith("{") else part for part in route.path.split("/")), {})
            assert route.method not in known, route.name
            known[route.method] = route
        # By number of segments; "" stands for an id. Earlier segments count more, and literal ones come before ids.
        self._paths: dict[int, list[tuple[tuple[str, ...], dict[str, Route]]]] = {}
        for path, known in sorted(methods.items(), key=lambda row: [part == "" for part in row[0]]):
            self._paths.setdefault(len(path), []).append((path, known))

    def find(self, method: str, raw: bytes) -> tuple[Route, list[str]]:
        """Return the route, and the ids in the path in order.

        - `method`: HEAD is answered as GET, without the body.
        - `raw`: the path, still percent-encoded.
        """
        parts = [decode_segment(part) for part in raw.split(b"/")]
        for path, known in self._paths.get(len(parts), ()) if not parts[0] else ():
            if all(part and wanted in ("", part) for part, wanted in zip(parts[1:], path[1:], strict=True)):
                route = known.get("GET" if method == "HEAD" else method)
                if route is None:
                    raise NotAllowed(", ".join(list_methods(known)))
                return route, [part for part, wanted in zip(parts[1:], path[1:], strict=True) if not wanted]
        raise NotFound("there is nothing at this address")


def list_methods(routes: Iterable[str]) -> list[str]:
    """Return the methods of an address, for the header Allow."""
    return sorted({*routes} | ({"HEAD"} if "GET" in routes else set()))
