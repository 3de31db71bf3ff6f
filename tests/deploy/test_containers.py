"""deploy/Dockerfile and deploy/compose.yaml: no container is built, but their steps and commands run."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

import postgres
from server_process import WAIT_S
from service.proxies import free_port

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
HOME = "/opt/adjudge"
NOT_RUN = ("apt-get ", "useradd ")  # steps that change the system, and so run in a container alone


def instructions():
    """The instructions of the Dockerfile: (name, rest of the line)."""
    lines = re.sub(r"\\\n", "", DOCKERFILE.read_text()).splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if line and not line.startswith("#")]


def stages():
    """Instructions by stage, without FROM."""
    found = []
    for name, rest in instructions():
        if name == "FROM":
            found.append([])
        else:
            found[-1].append((name, rest))
    return found


def last(name):
    return [rest for kind, rest in instructions() if kind == name][-1]


def ignored(path):
    """Whether .dockerignore keeps a path out of the build."""
    lines = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().split()
    out = False
    for line in lines:
        pattern = line.removeprefix("!")
        parts = Path(path).parts
        prefixes = ["/".join(parts[: n + 1]) for n in range(len(parts))]
        if any(fnmatch(prefix, pattern) or fnmatch(f"/{prefix}", pattern.replace("**", "*")) for prefix in prefixes):
            out = not line.startswith("!")
    return out


def test_every_source_of_a_copy_is_there_and_not_ignored():
    copied = [shlex.split(rest) for name, rest in stages()[0] if name == "COPY"]
    sources = [source for words in copied for source in words[:-1]]
    assert {"pyproject.toml", "constraints.txt", "src", "csrc"} <= set(sources)
    for source in sources:
        assert (ROOT / source).exists(), source
        assert not ignored(source), source
    assert ignored(".venv/bin/python")
    assert ignored("src/adjudge/_core.abi3.so")
    assert ignored("src/adjudge/cli/__pycache__/main.pyc")
    assert not ignored("csrc/CMakeLists.txt")


def test_the_service_does_not_run_as_root():
    final = stages()[-1]
    users = [rest for name, rest in final if name == "USER"]
    assert users == ["adjudge"]
    assert [rest for name, rest in final if name == "RUN" and "useradd" in rest]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_steps_make_an_environment_that_serves(tmp_path):
    """Runs the build stage in an empty folder, then the entry point and the health check in the environment it built."""
    work, home = tmp_path / "src", tmp_path / "opt"
    work.mkdir()
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    if subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", tmp_path, "six"], env=env, check=False
    ).returncode:
        pytest.skip("no package index can be reached")

    def here(text):
        return text.replace(HOME, str(home)).replace("/src/", f"{work}/")

    ran = []
    for name, rest in stages()[0]:
        if name == "COPY":
            *sources, target = shlex.split(rest)
            for source in sources:
                copy(ROOT / source, work / target / (source if target == "./" else ""))
        elif name == "ENV":
            env |= dict(word.split("=", 1) for word in shlex.split(here(rest)))
        elif name == "RUN" and not rest.startswith(NOT_RUN):
            command = re.sub(r"^python ", f"{shlex.quote(sys.executable)} ", here(rest))
            done = subprocess.run(["sh", "-ec", command], cwd=work, env=env, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{rest}\n{done.stdout}{done.stderr}"
            ran.append(rest)
    assert len(ran) == 4
    versions = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    for folder in home.glob("lib/python*/site-packages/*.dist-info"):
        name, version = folder.name.removesuffix(".dist-info").split("-", 1)
        known = {key.lower().replace("-", "_"): value for key, value in versions.items()}
        assert name in ("adjudge", "setuptools") or version == known[name.lower().replace("-", "_").replace(".", "_")], (
            folder.name
        )

    (program,), options = json.loads(last("ENTRYPOINT")), json.loads(last("CMD"))
    data, port = tmp_path / "data", free_port()
    data.mkdir()
    installed = {**env, "PATH": f"{home}/bin:{env['PATH']}"}
    added = [home / "bin" / program, "token", "add", "admin", "--scope", "admin"]
    subprocess.run(added, cwd=data, env=installed, check=True, capture_output=True, timeout=WAIT_S)
    options = [option.replace("0.0.0.0", "127.0.0.1") for option in options]
    with subprocess.Popen(
        [home / "bin" / program, *options, "--port", str(port)], cwd=data, env=installed, stderr=subprocess.DEVNULL
    ) as served:
        try:
            until_healthy(health_check(port), installed)
        finally:
            served.terminate()
            assert served.wait(WAIT_S) == 0
    assert subprocess.run(health_check(port), env=installed, check=False, capture_output=True, timeout=WAIT_S).returncode != 0


def copy(source, target):
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.so", "build"))
    else:
        shutil.copy(source, target)


def health_check(port):
    """The command of HEALTHCHECK, for another port."""
    words = last("HEALTHCHECK").partition(" CMD ")[2]
    command = json.loads(words)
    assert command[-1].count("8000") == 1
    return [*command[:-1], command[-1].replace("8000", str(port))]


def until_healthy(command, env):
    end = time.monotonic() + WAIT_S
    while subprocess.run(command, env=env, check=False, capture_output=True, timeout=WAIT_S).returncode:
        assert time.monotonic() < end, "the health check never succeeded"
        time.sleep(0.2)


def test_compose_names_the_files_and_the_password():
    service, database = COMPOSE["services"]["adjudge"], COMPOSE["services"]["database"]
    folder = ROOT / "deploy"
    assert (folder / service["build"]["context"]).resolve() == ROOT
    assert (folder / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == DOCKERFILE
    assert service["environment"]["PGPASSWORD"] == database["environment"]["POSTGRES_PASSWORD"]
    assert service["ports"] == ["127.0.0.1:8000:8000"], "only this machine reaches a service without TLS"
    user = re.search(r"--uid (\d+)", DOCKERFILE.read_text())[1]
    assert any(f"uid={user}" in place for place in service["tmpfs"])
    assert set(COMPOSE["volumes"]) == {"database"}
    grace = 20  # of adjudge serve
    assert int(service["stop_grace_period"].removesuffix("s")) > grace


@pytest.mark.slow
def test_compose_serves_over_postgresql(tmp_path):
    """The command of the service, with the tests' database in place of the container's."""
    command = COMPOSE["services"]["adjudge"]["command"]
    given = command[command.index("--store") + 1]
    assert given == "postgresql://adjudge@database/adjudge"
    store = postgres.server().fresh()
    port = free_port()
    options = [option.replace(given, store).replace("0.0.0.0", "127.0.0.1") for option in command]
    program = [sys.executable, "-m", "adjudge"]
    refused = subprocess.run(
        [*program, *options, "--host", "0.0.0.0"], capture_output=True, text=True, check=False, timeout=WAIT_S
    )
    assert "there are no tokens: make one first" in refused.stderr
    added = [*program, "token", "add", "admin", "--scope", "admin", "--store", store]
    subprocess.run(added, check=True, capture_output=True, timeout=WAIT_S)
    with subprocess.Popen([*program, *options, "--port", str(port)], cwd=tmp_path, stderr=subprocess.DEVNULL) as served:
        try:
            until_healthy([sys.executable, *health_check(port)[1:]], os.environ)
        finally:
            served.terminate()
            assert served.wait(WAIT_S) == 0
