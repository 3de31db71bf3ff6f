"""The root of the project holds what a visitor expects, and nothing that a trial run left there."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
KNOWN = {
    ".ci", ".editorconfig", ".github", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CITATION.cff",
    "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "SECURITY.md", "SKILL.md", "action.yml", "benchmarks", "constraints.txt", "csrc", "deploy", "docs",
    "examples", "pyproject.toml", "src", "tests",
}  # fmt: skip


def strays():
    """Names at the root that git knows, or would take, and that are not expected."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return sorted({line.split("/")[0] for line in listed.stdout.splitlines()} - KNOWN)


def test_the_root_holds_only_known_names():
    assert strays() == []


if __name__ == "__main__":
    if strays():
        raise SystemExit(f"stray files at the root: {', '.join(strays())}")
