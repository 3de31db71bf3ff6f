"""The notebooks in examples/ run from the first cell to the last, and are kept without outputs."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
MISSING = [name for name in ("nbclient", "nbformat", "ipykernel") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"notebooks need {', '.join(MISSING)}: pip install 'adjudge[dev]'")


def opened(path):
    import nbformat

    return nbformat.read(path, as_version=4)


def ids(path):
    return path.name


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # of the kernel's client
@pytest.mark.parametrize("path", NOTEBOOKS, ids=ids)
def test_every_cell_runs(path, tmp_path, monkeypatch):
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell

    for folder in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):  # nothing of the user's
        monkeypatch.setenv(folder, str(tmp_path / folder))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    work = tmp_path / "work"
    work.mkdir()
    notebook = opened(path)
    notebook.cells.append(new_code_cell("import sys; print(sys.executable, end='')"))
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(work)}}).execute()
    assert notebook.cells[-1].outputs[0].text == sys.executable, "another interpreter ran the notebook"
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("text/html" in output.get("data", {}) for output in shown), "no cell shows a frame"
    pages = [output.get("data", {}).get("text/html", "") for output in shown]
    assert any("<svg" in page for page in pages), "no cell shows a plot"
    assert not any("<script" in page for page in pages), "a plot needs a script, and so perhaps the network"
    assert (work / "report.html").exists()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=ids)
def test_outputs_are_not_kept(path):
    for cell in opened(path).cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


def test_three_notebooks_are_there():
    assert [path.name for path in NOTEBOOKS] == ["crowd.ipynb", "judges.ipynb", "moderation.ipynb"]
