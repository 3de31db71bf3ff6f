"""The project's former name occurs in one line of the changelog, and nowhere else."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
FORMER = "quo" + "rate"
ALLOWED = ("CHANGELOG.md", f"The project was developed as {FORMER}; that name belongs to another program on PyPI.")


def files():
    """Return the paths, relative to the root, that git tracks or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return [path for path in listed.stdout.split("\0") if path and (ROOT / path).is_file()]


def test_no_path_has_the_former_name():
    assert [path for path in files() if FORMER in path.lower()] == []


def test_one_line_of_the_changelog_has_the_former_name():
    found = [
        (path, line.strip())
        for path in files()
        for line in (ROOT / path).read_text(encoding="utf-8", errors="replace").splitlines()
        if FORMER in line.lower()
    ]
    assert found == [ALLOWED]
