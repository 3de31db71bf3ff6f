"""Post labels as predictions to the tasks of a Label Studio server that their export came from.

Importing a file makes new tasks; predictions that are posted belong to existing tasks. Those of an earlier push of the same model
are replaced, so that a second push changes labels and adds none.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from adjudge.errors import AdjudgeError, InputError, OptionError, one_line, quote
from adjudge.io.formats import label_studio
from adjudge.io.formats.export import Consensus
from adjudge.io.formats.registry import join_names, recognise
from adjudge.io.sources import Opened, Source

LABEL_STUDIO_TIMEOUT_S: Final = 60.0
MAX_SHOWN_ANSWER: Final = 200  # characters of a response
JWT_DOTS: Final = 2  # in a personal access token, which is exchanged for one that lasts minutes


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it could carry the token to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass
class LabelStudio:
    """A Label Studio server: its address, and the token of somebody who may see and change the project."""

    url: str
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        if not _is_address(self.url):
            raise OptionError(f"url is {quote(self.url)}: give the address of Label Studio, like http://localhost:8080")
        if not self.token.isascii() or not self.token.isprintable() or not self.token.strip():
            raise OptionError("the token is empty, or has characters that no token has: copy it from Account & Settings")
        self.url, self.token = self.url.rstrip("/"), self.token.strip()
        self._open = urllib.request.build_opener(_NoRedirects).open
        self._authority: str | None = None

    def predictions(self, task: int) -> list[dict[str, Any]]:
        """Return the predictions that a task has by now."""
        path = f"/api/predictions/?task={task}"
        listed = self.call("GET", path)
        if not isinstance(listed, list) or not all(isinstance(one, dict) and "id" in one for one in listed):
            raise AdjudgeError(f"{self.url}{path} answers with no list of predictions: is this the address of Label Studio?")
        return listed

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the response as decoded JSON; an unsuccessful one is an error of one line."""
        try:
            return self._send(method, path, body)
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.UNAUTHORIZED or not self._is_personal:
                raise _http_error(self.url, method, path, error) from error
        self._authority = None  # the token that lasts minutes has ended
        try:
            return self._send(method, path, body)
        except urllib.error.HTTPError as error:
            raise _http_error(self.url, method, path, error) from error

    @property
    def _is_personal(self) -> bool:
        return self.token.count(".") == JWT_DOTS

    def _send(self, method: str, path: str, body: object) -> Any:
        if self._authority is None:
            self._authority = f"Token {self.token}"
            if self._is_personal:
                answer = self._request("POST", "/api/token/refresh", {"refresh": self.token}, None)
                if not isinstance(answer, dict) or not isinstance(answer.get("access"), str):
                    raise AdjudgeError(f"{self.url} gives no access token: is this the address of Label Studio?")
                self._authority = f"Bearer {answer['access']}"
        return self._request(method, path, body, self._authority)

    def _request(self, method: str, path: str, body: object, authority: str | None) -> Any:
        headers = {"Content-Type": "application/json"} | ({} if authority is None else {"Authorization": authority})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with self._open(request, timeout=LABEL_STUDIO_TIMEOUT_S) as answer:
                content = answer.read()
            return json.loads(content) if content else None
        except urllib.error.HTTPError:
            raise
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            reason = getattr(error, "reason", error)
            raise AdjudgeError(f"cannot reach Label Studio at {self.url}: {one_line(reason)}") from error


def _is_address(url: str) -> bool:
    """Return whether this is the address of a server, with a path at most."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # out of range, it raises
    except ValueError:
        return False
    is_plain = url.isascii() and url.isprintable() and " " not in url and not parts.query and not parts.fragment
    return is_plain and parts.scheme in ("http", "https") and bool(parts.hostname)


def _http_error(url: str, method: str, path: str, error: urllib.error.HTTPError) -> AdjudgeError:
    """Return the error for an unsuccessful response."""
    try:
        said = " ".join(error.read().decode("utf-8", "replace").split())[:MAX_SHOWN_ANSWER]
    except (OSError, HTTPException):  # the connection broke within the answer
        said = error.reason
    hint = {
        HTTPStatus.UNAUTHORIZED: "; is this the token of Account & Settings?",
        HTTPStatus.NOT_FOUND: "; is this the server that the export came from, and is the task still there?",
    }.get(HTTPStatus(error.code) if error.code in set(HTTPStatus) else HTTPStatus.OK, "")
    return AdjudgeError(f"Label Studio at {url} answers {method} {path} with {error.code} ({said}){hint}")


def predictions_of(consensus: Consensus, source: Source) -> list[tuple[int, dict[str, Any]]]:
    """Return the task and the prediction of every label, as the server takes it, from the export that the votes came from."""
    contents = Opened.of(source).contents
    form = recognise(contents)
    if form is None or form.name != "label-studio":
        what = "an ordinary table" if form is None else f"an export of {form.name}"
        raise InputError(f"{join_names(contents)} is {what}: push label-studio needs an export of Label Studio (JSON)")
    tasks = label_studio.rows(contents, consensus, join_names(contents))
    try:
        return [(int(task.id), msgspec.to_builtins(one)) for task in tasks for one in task.predictions or ()]
    except ValueError as error:
        raise InputError(f"{join_names(contents)} has a task whose id is no whole number: it is not from a server") from error


def push_predictions(
    server: LabelStudio, predictions: list[tuple[int, dict[str, Any]]], progress: Callable[[int, int], object] | None = None
) -> tuple[int, int]:
    """Post predictions to their tasks, and return how many are new and how many replaced an earlier one of the same model.

    A push that fails is continued by another one: what was posted is replaced.
    """
    new = 0
    for done, (task, prediction) in enumerate(predictions):
        earlier = [
            one["id"]
            for one in server.predictions(task)
            if one.get("model_version") == prediction["model_version"] and one.get("task") == task
        ]
        body = {"task": task, **prediction}
        if earlier:
            server.call("PATCH", f"/api/predictions/{earlier[0]}/", body)
        else:
            server.call("POST", "/api/predictions/", body)
        for surplus in earlier[1:]:
            server.call("DELETE", f"/api/predictions/{surplus}/")
        new += not earlier
        if progress is not None:
            progress(done + 1, len(predictions))
    return new, len(predictions) - new
