"""Labels posted to a Label Studio server: what is sent, and one line for every answer that no Label Studio gives."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import adjudge as adj
from adjudge.io.push import LabelStudio, push_predictions


@contextmanager
def serve(answer):
    """Yield the address of a server that answers with the bytes of `answer(method, path, body)`, and then hangs up."""

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self):
            self.raw_requestline = self.rfile.readline()
            if self.parse_request():
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.wfile.write(answer(self.command, self.path, body))
            self.close_connection = True

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def document(content):
    body = json.dumps(content).encode()
    return b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def test_earlier_predictions_of_the_model_are_replaced():
    asked = []
    stored = {1: [], 2: [{"id": 7, "task": 2, "model_version": "m"}, {"id": 8, "task": 2, "model_version": "m"}]}

    def answer(method, path, body):
        asked.append((method, path))
        return document(stored[int(path.rpartition("=")[2])] if method == "GET" else {})

    with serve(answer) as url:
        posted = push_predictions(LabelStudio(url + "/", "token"), [(1, {"model_version": "m"}), (2, {"model_version": "m"})])
    assert posted == (1, 1)
    listed = "/api/predictions/?task="
    assert asked == [
        ("GET", f"{listed}1"),
        ("POST", "/api/predictions/"),
        ("GET", f"{listed}2"),
        ("PATCH", "/api/predictions/7/"),
        ("DELETE", "/api/predictions/8/"),
    ]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"nonsense\r\n\r\n", "cannot reach Label Studio"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\n[", "cannot reach Label Studio"),
        (b"HTTP/1.0 500 Oops\r\nContent-Length: 99\r\n\r\nhalf", "with 500"),
        (b"", "cannot reach Label Studio"),
        (b"HTTP/1.0 200 OK\r\n\r\n<html>", "cannot reach Label Studio"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 100_000, "cannot reach Label Studio"),
        (document({"results": []}), "no list of predictions"),
        (document([1]), "no list of predictions"),
        (b"HTTP/1.0 204 No Content\r\n\r\n", "no list of predictions"),
    ],
)
def test_other_answers_end_in_one_line(answer, message):
    with serve(lambda *_: answer) as url, pytest.raises(adj.AdjudgeError) as raised:
        push_predictions(LabelStudio(url, "token"), [(1, {"model_version": "m"})])
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_personal_token_needs_a_server_that_exchanges_it():
    with serve(lambda *_: document({})) as url, pytest.raises(adj.AdjudgeError, match="gives no access token"):
        LabelStudio(url, "a.b.c").predictions(1)


@pytest.mark.parametrize(
    "url", ["ftp://x", "http://", "http://[::1", "http://x:99999", "http://x/ y", "http://x?y=1", "http://x\ny"]
)
def test_addresses_that_are_none(url):
    with pytest.raises(adj.OptionError, match="give the address of Label Studio"):
        LabelStudio(url, "token")
