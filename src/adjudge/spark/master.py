"""The master of a cluster, as users name it: checked before Java starts, which takes long and says much."""

from __future__ import annotations

import re
import socket
from contextlib import closing
from typing import Final

from adjudge.errors import AdjudgeError, InputError, OptionError, quote

# Threads of this machine, or processes on it: what Spark itself accepts.
LOCAL_MASTER_PATTERN: Final = re.compile(
    r"local(\[\s*(\*|[1-9][0-9]*)\s*(,\s*[0-9]+\s*)?\])?|local-cluster\[\s*[0-9]+\s*(,\s*[0-9]+\s*){2}\]"
)
UNCHECKED_SCHEMES: Final = ("k8s://", "mesos://")  # what answers there is not known before Spark asks
ACCEPTED_MASTERS: Final = "give local[N], spark://HOST:PORT, yarn or k8s://HOST:PORT"
CONNECT_TIMEOUT_S: Final = 5.0  # seconds for a master to take a connection


def check_master(master: str) -> None:
    """Raise if a master is none, or if nobody listens at the address of a standalone one.

    >>> check_master("local[2]")
    >>> check_master("foo")
    Traceback (most recent call last):
    ...
    adjudge.errors.OptionError: 'foo' is no master: give local[N], spark://HOST:PORT, yarn or k8s://HOST:PORT
    """
    if LOCAL_MASTER_PATTERN.fullmatch(master) or master == "yarn":
        return
    if master.startswith("sc://"):
        raise InputError(f"{master} is a server of Spark Connect, which lends no executors: {ACCEPTED_MASTERS}")
    if any(master.startswith(scheme) and master != scheme for scheme in UNCHECKED_SCHEMES):
        return
    addresses = [_address(one) for one in master.removeprefix("spark://").split(",")]
    known = [address for address in addresses if address is not None]
    if not master.startswith("spark://") or len(known) < len(addresses):
        raise OptionError(f"{quote(master)} is no master: {ACCEPTED_MASTERS}")
    silent = [_silence(*address) for address in known]
    reasons = [reason for reason in silent if reason is not None]
    if len(reasons) == len(known):  # of several masters one is enough
        raise AdjudgeError(f"no Spark master at {master}: {reasons[0]}")


def _address(text: str) -> tuple[str, int] | None:
    """Return host and port; None for anything else."""
    host, _, port = text.rpartition(":")
    if not host.strip("[]") or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
        return None
    return host.strip("[]"), int(port)


def _silence(host: str, port: int) -> str | None:
    """Return why nobody takes a connection there; None if somebody does."""
    try:
        with closing(socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)):
            return None
    except TimeoutError:
        return f"no answer within {CONNECT_TIMEOUT_S:g} seconds"
    except (OSError, UnicodeError) as error:  # the latter for a name that cannot be one of a host
        return str(getattr(error, "strerror", None) or error).lower()
