"""deploy/adjudge.service: systemd accepts it, finds it hardened, and the service works under its restrictions."""

import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from service.serving import Client

UNIT = Path(__file__).parents[2] / "deploy" / "adjudge.service"
PAGE = (UNIT.parents[1] / "docs" / "deploying.md").read_text()
DROP_INS = re.findall(r"^```ini\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
CONFINED = Path(__file__).parent / "confined.py"
ANALYZE = shutil.which("systemd-analyze")
CALL_NUMBERS = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
pytestmark = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed: apt-get install systemd")


def analyze(*arguments):
    return subprocess.run([ANALYZE, "--no-pager", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)


def settings():
    """The values of the unit, a list for each name."""
    values = {}
    for line in UNIT.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            values.setdefault(name, []).append(value)
    return values


def filtered_calls():
    """Names of the system calls that the unit allows."""
    allowed = set()
    for value in settings()["SystemCallFilter"]:
        names = set().union(*(members(group) for group in value.removeprefix("~").split()))
        allowed = allowed - names if value.startswith("~") else allowed | names
    return allowed


def members(group):
    """Names of the system calls in a group of systemd, and in the groups within it."""
    done = analyze("syscall-filter", group)
    assert done.returncode == 0, done.stderr
    names = {line.strip() for line in done.stdout.splitlines()[1:] if line.strip() and not line.strip().startswith("#")}
    inner = {name for name in names if name.startswith("@")}
    return (names - inner).union(*map(members, inner))


@pytest.mark.parametrize("drop_in", ["", *DROP_INS], ids=["alone", "no network", "postgresql"])
def test_systemd_accepts_the_unit(tmp_path, drop_in):
    installed = "/opt/adjudge/bin/adjudge"
    assert (UNIT.read_text().count(installed), drop_in.count(installed)) in ((1, 0), (1, 1))
    copy = tmp_path / "adjudge.service"
    (tmp_path / "adjudge.service.d").mkdir()
    for file, text in ((copy, UNIT.read_text()), (tmp_path / "adjudge.service.d" / "override.conf", drop_in)):
        file.write_text(text.replace(installed, str(Path(sys.executable).parent / "adjudge")))
    done = analyze("verify", "--man=no", copy)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_exposure_is_as_low_as_the_page_says():
    documented = float(re.search(r"an exposure of ([\d.]+) on its scale", PAGE)[1])
    assert documented < 1.5
    done = analyze("security", "--offline=true", f"--threshold={round(documented * 10)}", UNIT)
    assert done.returncode == 0, done.stdout[-200:]


@pytest.mark.skipif(platform.machine() != "x86_64" or not CALL_NUMBERS.exists(), reason="needs x86-64 and linux-libc-dev")
def test_the_service_works_under_the_restrictions(tmp_path):
    numbers = dict(re.findall(r"#define __NR_(\w+) (\d+)", CALL_NUMBERS.read_text()))
    allowed = ",".join(sorted(numbers[name] for name in filtered_calls() if name in numbers))
    program, *options = shlex.split(settings()["ExecStart"][0])
    assert program == "/opt/adjudge/bin/adjudge"
    options = [option.replace("/var/lib/adjudge", str(tmp_path)) for option in options]
    adjudge = Path(sys.executable).parent / "adjudge"
    under = [sys.executable, CONFINED, allowed, adjudge]
    env = os.environ | dict(value.split("=") for value in settings()["Environment"])
    added = [*under, "token", "add", "admin", "--scope", "admin", "--store", tmp_path / "votes.db"]
    done = subprocess.run(added, capture_output=True, text=True, check=False, env=env, timeout=60)
    if "prctl 65" in done.stderr:
        pytest.skip("this kernel cannot deny memory that is writable and executable: Linux 6.3 can")
    assert done.returncode == 0, done.stderr
    with subprocess.Popen(
        [*under, *options, "--port", "0", "--labels", "spam,ok", "--log-level", "error"],
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        cwd=tmp_path,
    ) as process:
        try:
            line = process.stderr.readline()
            assert line.startswith("adjudge listens on "), line + process.stderr.read()
            client = Client(line.split()[-1], done.stdout.strip())
            votes = [{"task": f"t{n % 50}", "worker": f"w{n // 50}", "label": ("spam", "ok")[n % 2]} for n in range(500)]
            assert client("POST", "votes", votes).status == 200
            assert client("POST", "refit").status == 202
            assert client("GET", "/sign-in").status == 200
            assert client("GET", "/metrics").status == 200
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
