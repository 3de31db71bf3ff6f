"""A server whose wall clock a test can move: `python _clocked_server.py STORE OFFSET_FILE`; the offset is in seconds."""

import struct
import sys
import time
from pathlib import Path


def main():
    store, offset = sys.argv[1], Path(sys.argv[2])
    real = time.time_ns

    def moved_ns():
        return real() + int(struct.unpack("<d", offset.read_bytes())[0] * 1e9)

    time.time_ns, time.time = moved_ns, lambda: moved_ns() / 1e9  # before anything of the service is imported

    from quorate.service.server import serve
    from quorate.service.settings import Settings

    serve(Settings(store=store, port=0, labels=("a", "b", "c"), log_level="error", grace=2.0))


if __name__ == "__main__":
    main()
