"""The size of the package, the walks through it and its duplicate names stay within the limits below.

`python tests/house.py` prints the figures. Lower a limit when its figure falls. Walks, parameters, layers and duplicate names may
never rise. A feature may raise lines and files, if its decision record gives the new figure.
"""

import ast
from pathlib import Path

import pytest

import house

LIMITS = {
    # figure: limit,  # bar
    "code lines": 65_130,  # 50,000
    "files": 403,  # 430
    "tiny files": 7,  # 12
    "names at the top": 17,  # 17
    "layers": 15,  # 15
    "parameters of aggregate": 17,  # 20
    "functions that spell reading options": 0,  # 2
    "class names in several files": 14,  # 30
    "constants with several values": 29,  # 60
}
WALK_LIMITS = {
    # walk: (files, returns),  # bar
    "aggregate(path).labels": (27, 90),  # 28, 90
    "command line": (32, 100),  # 34, 105
    "result.workers": (12, 46),  # 12 files
    "result.report(path)": (45, 210),  # 45 files
    "agreement(frame)": (28, 104),  # 28 files
    "aggregate(path, engine='disk').labels": (34, 129),  # 36, 130
    "Online.learn": (1, 0),  # 1 file
}


@pytest.fixture(scope="module")
def figures():
    return house.measure()


def test_every_figure_has_a_limit(figures):
    assert (list(figures), list(house.WALKS)) == (list(LIMITS), list(WALK_LIMITS))


@pytest.mark.parametrize("name", LIMITS)
def test_a_figure_stays_within_its_limit(figures, name):
    assert figures[name] <= LIMITS[name]


@pytest.mark.parametrize("name", WALK_LIMITS)
def test_a_walk_stays_within_its_limit(name):
    walked, limits = house.walk(name), WALK_LIMITS[name]
    measures = zip(("files", "returns"), walked, limits, strict=True)
    assert [f"{figure} {what}, limit {limit}" for what, figure, limit in measures if figure > limit] == []


def test_a_line_with_a_token_counts_and_comments_and_docstrings_do_not():
    text = '"""What\nit does."""\n\n# A comment.\nA = (\n    1,\n    # Another.\n    2,\n)\n\n\ndef f():\n    """Do it."""\n    return A\n'
    assert house.code_lines(text, ast.parse(text)) == 6


def test_a_walk_counts_files_and_returns_to_a_file_already_left(monkeypatch):
    calls = "from adjudge.data import options\nfrom adjudge import errors\nTRACE\n"
    calls += "errors.itemize([1])\noptions.resolve_model_name('ds')\nerrors.quote(1)\n"
    monkeypatch.setitem(house.WALKS, "three calls", calls)
    files, returns = house.walk("three calls")
    assert (files, returns) == (2, 1)


def test_the_table_of_packages_has_them_all():
    package = Path(house.__file__).parent.parent / "src" / "adjudge"
    table = (package.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folders = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    modules = {path.name for path in package.glob("*.py") if not path.name.startswith("_")}
    assert [name for name in sorted(folders | modules) if f"| `{name}` |" not in table] == []
