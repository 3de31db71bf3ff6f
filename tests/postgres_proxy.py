"""A proxy in front of PostgreSQL that can lose the reply to a commit: the server has committed, and the client never hears of it."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

SOCKET = ".s.PGSQL.5432"


class Proxy:
    """Forwards connections from a socket in `folder` to the instance; `lose_next` cuts the connection of the next commit."""

    def __init__(self, instance, folder):
        self._target = str(Path(instance.folder) / SOCKET)
        self.folder = Path(folder)
        self.folder.mkdir()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self.folder / SOCKET))
        self._listening.listen(64)
        self._sockets = [self._listening]
        self._threads = []
        self._armed = threading.Event()
        self.lost = threading.Event()
        self._start(self._accept)

    def _start(self, work, *arguments):
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def url(self, database="tests"):
        return f"postgresql://tests@/{database}?host={self.folder}"

    def lose_next(self):
        self.lost.clear()
        self._armed.set()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                self._sockets += [client, server]
                losing = threading.Event()
                for source, target, is_client in ((client, server, True), (server, client, False)):
                    self._start(self._pump, source, target, is_client, losing)

    def _pump(self, source, target, is_client, losing):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if is_client and b"COMMIT" in data and self._armed.is_set():
                    self._armed.clear()
                    losing.set()
                if not is_client and losing.is_set():  # the reply to the commit: it took place
                    self.lost.set()
                    break
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self):
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for each in self._sockets:
            each.close()
