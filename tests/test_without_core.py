"""Without a compiler everything works on the reference, with one clear warning."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).parents[1]
HIDE = "import sys; sys.modules['adjudge._core'] = None\n"


def run(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", HIDE + code, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_one_warning_and_the_same_labels(tmp_path):
    code = (
        "import adjudge as adj\n"
        "crowd = adj.simulate(tasks=400, workers=20, seed=3)\n"
        "crowd.votes.write_csv(sys.argv[1] + '/votes.csv')\n"
        "for source in (crowd.votes, sys.argv[1] + '/votes.csv'):\n"
        "    adj.aggregate(source).labels.write_csv(sys.argv[1] + '/slow.csv')\n"
    )
    _, err = run(code, tmp_path)
    assert err.count("runs without its compiled core") == 1
    import adjudge as adj

    fast, slow = adj.aggregate(tmp_path / "votes.csv").labels, pl.read_csv(tmp_path / "slow.csv")
    assert fast.drop("confidence").equals(slow.drop("confidence"))
    assert fast["confidence"].to_list() == pytest.approx(slow["confidence"].to_list())


@pytest.mark.parametrize("model", ["mv", "fds"])
def test_the_contract_holds(model):
    code = "import warnings; warnings.simplefilter('ignore'); sys.path.append(sys.argv[1])\nfrom contract import check; check(sys.argv[2])"
    run(code, ROOT / "tests", model)


def test_the_compiled_engine_says_that_it_is_not_there():
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import adjudge as adj\n"
        "try: adj.aggregate([('t', 'w', 'x')], engine='cpu')\n"
        "except adj.AdjudgeError as error: print(error)\n"
    )
    assert "the compiled core was not built" in run(code)[0]


def test_a_wheel_can_be_built_without_a_compiler(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    for name in ("src", "csrc"):  # without what an editable install built in place
        shutil.copytree(
            ROOT / name, tree / name, ignore=shutil.ignore_patterns("*.so", "CMakeCache.txt", "CMakeFiles", "__pycache__")
        )
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--quiet", "-w", tmp_path, tree],
        env={"PATH": "/usr/bin:/bin", "CXX": "/bin/false", "HOME": str(tmp_path)},
        check=True,
        capture_output=True,
        timeout=240,
    )
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "adjudge/kernels/reference.py" in names
    assert "adjudge/paper/figures.json" in names
    assert not any("_core" in name and name.endswith(".so") for name in names)
