"""A disk that is full after a given number of writes."""

import errno
import os

from adjudge.io.folder import arrays


def fill_disk(monkeypatch, fail_at, *modules):
    """Lets the write of this number fail, and every later one, in modules that write arrays."""
    written, real = [], arrays.write_all

    def full(file, data):
        written.append(1)
        if len(written) >= fail_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file, data)

    for module in modules:
        monkeypatch.setattr(module, "write_all", full)
