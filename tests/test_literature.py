"""The page for readers of the literature: a fact and a row for every registered model, and the figures of its csv files."""

import importlib.util
import sys
from pathlib import Path

import pytest

from adjudge.models.base import MODELS

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "literature"


def load(name):
    """Load a module of benchmarks/, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


facts = load("literature_facts")


@pytest.fixture(scope="module")
def literature():
    """The script itself, which imports its facts as a neighbour."""
    sys.modules["literature_facts"] = facts
    yield load("literature")
    del sys.modules["literature_facts"]


def test_every_registered_model_has_its_facts():
    assert [model for model in MODELS if model not in facts.FACTS] == []


def test_facts_are_whole_and_cite_papers_that_are_there():
    for model, fact in facts.FACTS.items():
        assert all(fact[:3]), model
        assert set(fact.papers) <= set(facts.PAPERS), model
    assert {key for fact in facts.FACTS.values() for key in fact.papers} == set(facts.PAPERS)


def test_the_page_has_a_row_for_every_model_in_each_table():
    tables = (PAGES / "README.md").read_text().split("\n## ")[1:4]
    for model in MODELS:
        rows = [sum(line.startswith((f"| `{model}` |", f"| [`{model}`](")) for line in part.splitlines()) for part in tables]
        assert rows == [1, 1, 1], model


def test_the_page_is_that_of_its_figures(literature):
    assert literature.page(PAGES) == (PAGES / "README.md").read_text()
