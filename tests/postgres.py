"""A PostgreSQL of the tests' own: started once per process, in a temporary folder, reached through a socket there."""

import atexit
import os
import pwd
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

WAIT_S = 60

STORES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]  # kinds of stores, as parameters of tests


def programs():
    """The folder of PostgreSQL's programs, or None."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    found = shutil.which("initdb")
    return Path(found).parent if found else None


class Server:
    """An instance. `fresh()` empties a database; `stop` and `start` are for tests of a server that goes away."""

    def __init__(self, folder, binaries):
        self.folder, self.binaries = folder, binaries
        self.user = None
        if os.geteuid() == 0:  # initdb refuses to run as root
            self.user = next((name for name in ("postgres", "nobody") if _known(name)), None)
            if self.user is None:
                pytest.skip("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
            shutil.chown(folder, self.user)
        folder.chmod(0o755)
        self._run("initdb", "--auth=trust", "--username=tests", "--encoding=UTF8", "--locale=C", "--no-sync")
        # Durable as a real one is: fsync and synchronous_commit stay on.
        with (folder / "data" / "postgresql.conf").open("a") as file:
            file.write(f"listen_addresses = ''\nunix_socket_directories = '{folder}'\nshared_buffers = '32MB'\n")
            file.write("max_connections = 60\nautovacuum = off\n")
        self.start()

    def _run(self, program, *arguments, wait=True):
        command = [self.binaries / program, "-D", self.folder / "data", *arguments]
        drop = {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []} if self.user else {}
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            cwd=self.folder,
            check=False,
            stdin=subprocess.DEVNULL,
            **drop,
        )
        if done.returncode and wait:
            raise RuntimeError(f"{program}: {done.stdout}{done.stderr}")

    def start(self):
        self._run("pg_ctl", "-w", "-l", self.folder / "log", "start")

    def stop(self, mode="immediate"):
        self._run("pg_ctl", "-w", "-m", mode, "stop", wait=False)

    def url(self, database):
        return f"postgresql://tests@/{database}?host={self.folder}"

    def fresh(self, name="tests"):
        """The address of an empty database: the same one, emptied, for each test. (Making another takes longer.)"""
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchall():
                connection.execute(f"CREATE DATABASE {name}")
            connection.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", [name])
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            connection.execute("SET client_min_messages = warning")
            connection.execute("DROP SCHEMA IF EXISTS adjudge CASCADE")
        return self.url(name)


def _known(name):
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


@cache
def server():
    """The instance of this process; skips the test where PostgreSQL is not there."""
    pytest.importorskip("psycopg")
    binaries = programs()
    if binaries is None:
        pytest.skip("the programs of PostgreSQL are not there")
    folder = Path(tempfile.mkdtemp(prefix="adjudge-pg-"))
    started = Server(folder, binaries)

    def end():
        started.stop()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return started
