"""A server of raw files on loopback: with ranges, and with every fault a test asks for."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit


@contextmanager
def serving(root, *, cut_at=None, cuts=10**9, ranges=True, status=None, change=None):
    """Yields (address, requests seen): `cut_at` breaks the first `cuts` answers after that many bytes; `change` edits them."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.path, self.headers.get("Range")))
            path = Path(root) / unquote(urlsplit(self.path).path).lstrip("/")
            if status is not None or not path.is_file():
                self.send_error(status or 404)
                return
            body = path.read_bytes() if change is None else change(path.read_bytes())
            begin, asked = 0, self.headers.get("Range")
            if ranges and asked:
                begin = int(asked.removeprefix("bytes=").removesuffix("-"))
            rest = body[begin:]
            self.send_response(206 if begin else 200)
            if begin:
                self.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            self.wfile.write(rest[:cut_at] if cut_at is not None and len(seen) <= cuts else rest)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)
