"""What an import costs, and which way imports point."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import adjudge

SOURCE = Path(adjudge.__file__).parent
HEAVY = {"polars", "narwhals", "pandas", "pyarrow", "pyspark", "typer", "click", "rich"}


def loaded(code):
    """Top-level modules loaded by running this code in a fresh interpreter."""
    script = f"import sys\n{code}\nimport json; print(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120).stdout
    return set(json.loads(out.splitlines()[-1]))


def test_import_adjudge_loads_nothing_heavy():
    assert not loaded("import adjudge") & HEAVY
    assert not loaded("import adjudge; adjudge.Votes, adjudge.Vocabulary") & HEAVY


def test_no_small_fit_loads_cupy(tmp_path):
    (tmp_path / "cupy.py").write_text("raise SystemExit('cupy is loaded')")
    code = f"sys.path.insert(0, {str(tmp_path)!r})\nimport adjudge as adj; adj.aggregate([('t', 'w', 'x')]).labels"
    assert "cupy" not in loaded(code)
    assert "cupy" not in loaded(
        f"{code}\nadj.aggregate(adj.read({{'task': range(9), 'worker': range(9), 'label': range(9)}})).labels"
    )


def test_tuples_need_neither_pandas_nor_pyarrow():
    code = "import adjudge as adj; adj.aggregate([('t', 'w', 'x')]).labels"
    assert not loaded(code) & {"pandas", "pyarrow", "pyspark", "typer", "rich"}


def test_help_loads_no_data_library():
    code = "sys.argv = ['adjudge', '--help']\nfrom adjudge.cli.main import main\ntry: main()\nexcept SystemExit: pass"
    assert not loaded(code) & {"polars", "narwhals", "pandas", "pyarrow"}


OPTIONAL = {
    "pandas": {"io/frames.py", "crowdkit/frames.py"},
    "pyarrow": set(),
    "altair": {"report/charts.py"},
    "pyspark": {"spark/session.py"},
    "httpx2": {"service/client/transport.py"},
    "httpcore2": {"service/client/transport.py"},
    "jinja2": {"service/board/pages.py"},
    "h11": {"service/client/transport.py"},
    "inspect_ai": {"evaluation/inspect.py"},
}


@pytest.mark.parametrize("library", OPTIONAL)
def test_each_optional_library_has_one_home(library):
    homes = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(n.split(".")[0] == library for n in names):
                homes.add(path.relative_to(SOURCE).as_posix())
    assert homes == OPTIONAL[library]


def test_every_public_name_is_there_and_documented():
    for name in adjudge.__all__:
        assert getattr(adjudge, name).__doc__, name
    assert set(adjudge.__all__) == set(adjudge._MODULE_OF_NAME)
    assert set(adjudge.__all__) < set(dir(adjudge))
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        adjudge.nope  # noqa: B018


def test_no_public_name_hides_a_module():
    modules = {p.stem for p in SOURCE.iterdir()}
    assert not modules & set(adjudge.__all__)


def test_files_stay_small():
    long = {p.name: n for p in SOURCE.rglob("*.py") if (n := len(p.read_text().splitlines())) > 600}
    assert not long


def test_aggregate_loads_only_what_it_uses():
    code = "import adjudge as adj; adj.aggregate([('t', 'w', 'x'), ('t', 'v', 'x')]).labels"
    script = f"import sys\n{code}\nprint(*(m for m in sys.modules if m.startswith('adjudge.')))"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120).stdout
    modules = out.split()
    assert len(modules) <= 69
    unused = (
        "spark",
        "gpu",
        "engines.disk",
        "engines.glad",
        "results.trust",
        "evaluation",
        "paper",
        "report",
        "models.glad",
        "results.sets",
        "results.calibrate",
    )
    assert not [m for m in modules if m.removeprefix("adjudge.").startswith(unused)]


def test_nothing_but_the_command_line_imports_an_engine():
    """Engines are loaded by name: models, results and io know what a session is, and none of those who are one."""
    engines = ("adjudge.spark", "adjudge.gpu", "adjudge.engines.local", "adjudge.engines.disk")
    known = {"cli", "spark", "gpu", "evaluation"}  # evaluation reads frames of Spark
    for path in SOURCE.rglob("*.py"):
        home = path.relative_to(SOURCE)
        if home.parts[0] in known or home.parts[0] == "engines" or home.as_posix() == "__init__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(engines):
                raise AssertionError(f"{home} imports {node.module}")


def test_a_command_loads_only_what_it_uses(tmp_path):
    votes = tmp_path / "votes.csv"
    votes.write_text("task,worker,label\n1,ann,cat\n1,bob,cat\n2,ann,dog\n")
    code = (
        f"sys.argv = ['adjudge', 'aggregate', {str(votes)!r}, '-o', {str(tmp_path / 'labels.csv')!r}]\n"
        "from adjudge.cli.main import main\nmain()\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    unused = {"pydantic", "rich", "narwhals", "pandas", "pyarrow", "numpy.ma", "adjudge.engines.disk"}
    assert not modules & unused
    assert {m for m in modules if m.startswith("adjudge.cli.")} == {
        f"adjudge.cli.{m}" for m in ("main", "options", "output", "aggregate", "summary")
    }
    assert (tmp_path / "labels.csv").read_text().count("\n") == 3
