"""Real proxies in front of a server on loopback: nginx and Caddy, as Debian packages them."""

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager

import pytest

from service.serving import Client

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
CADDY = shutil.which("caddy") or shutil.which("caddy", path="/usr/sbin:/usr/local/sbin")
AROUND_NGINX = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {inner}
}}
"""

# No administration port, no certificates, nothing stored outside of the folder, and no wait for open streams at the end.
OF_CADDY = "\tadmin off\n\tauto_https off\n\tgrace_period 1s\n\tstorage file_system {folder}/storage\n"


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def nginx(folder, port, inner):
    """Yield a client of an nginx whose `http` block contains `inner`, which listens on `port`."""
    if NGINX is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    command = [NGINX, "-e", folder / "error.log", "-p", folder, "-c", write_nginx(folder, inner)]
    with _running(command, port, folder / "stderr") as client:
        yield client


def write_nginx(folder, inner):
    """Write the whole configuration of an nginx, and return its path."""
    folder.mkdir(exist_ok=True)
    file = folder / "nginx.conf"
    user = "user root;\n" if os.geteuid() == 0 else ""
    file.write_text(user + AROUND_NGINX.format(folder=folder, inner=inner))
    return file


@contextmanager
def caddy(folder, port, file, **environment):
    """Yield a client of a Caddy with the configuration in `file`, which listens on `port`."""
    if CADDY is None:
        pytest.skip("Caddy is not installed: apt-get install caddy")
    folder.mkdir(exist_ok=True)
    outer = folder / "Caddyfile"
    outer.write_text(f"{{\n{OF_CADDY.format(folder=folder)}}}\nimport {file}\n")
    env = os.environ | environment | {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    with _running([CADDY, "run", "--config", outer, "--adapter", "caddyfile"], port, folder / "stderr", env) as client:
        yield client


@contextmanager
def _running(command, port, log, env=None):
    with log.open("w") as stderr:
        process = subprocess.Popen(command, stderr=stderr, stdout=subprocess.DEVNULL, env=env)
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                break
            except OSError:
                assert process.poll() is None, log.read_text()
                time.sleep(0.05)
        yield Client(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(20)
