"""The pictures of the docs: the script that draws them, the files, and the page that shows them."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "plots"


def script():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "benchmarks" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_script_files_and_page_agree():
    names = set(script().PICTURES)
    assert {path.stem for path in FOLDER.iterdir()} == names
    assert set(re.findall(r"\(plots/(.+)\.svg\)", (ROOT / "docs" / "plots.md").read_text())) == names


def test_pictures_are_small():
    for path in FOLDER.iterdir():
        assert path.read_text().startswith("<svg")
        assert path.stat().st_size < 150_000, path.name


def test_a_picture_is_drawn(monkeypatch, tmp_path):
    pictures = script()
    monkeypatch.setattr(pictures, "FOLDER", tmp_path / "plots")
    pictures.main(["shares"])
    assert (tmp_path / "plots" / "shares.svg").read_text().startswith("<svg")
