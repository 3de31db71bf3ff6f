"""Models, formats and engines of other packages: the modules of docs/extending.md, installed as pip would leave them."""

import importlib
import json
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from polars.testing import assert_frame_equal

import adjudge as adj
import contract
from adjudge.data import extensions
from adjudge.io.formats import registry

PAGE = (Path(__file__).parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
MODULES = dict(re.findall(r"```py\n# (\w+)\.py\n(.*?)```", PAGE, re.DOTALL))
ENTRY_POINTS = re.search(r"```toml\n.*?(\[project\.entry-points.*?)```", PAGE, re.DOTALL).group(1)
RUNS = [{"run": n, "judge": f"j{n}", "verdicts": {"t1": "good", "t2": "bad" if n else "good"}} for n in range(3)]
VOTES = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs a package of some modules and entry points, by its name."""
    before = set(sys.modules)
    caches = (extensions._entry_points, extensions.load_extension, registry._load_installed)

    def into(package, entry_points, modules):
        site = tmp_path / package
        info = site / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        for name, body in modules.items():
            (site / f"{name}.py").write_text(body, encoding="utf-8")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        monkeypatch.syspath_prepend(str(site))
        for cached in caches:
            cached.cache_clear()

    yield into
    for name in {*MODULES, "broken", "said"} & (set(sys.modules) - before):
        del sys.modules[name]
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def documented(install):
    """The package of the page."""
    points = re.sub(r'\[project\.entry-points\."(.*?)"\]', r"[\1]", ENTRY_POINTS).replace('"', "")
    install("documented", points, MODULES)


def test_each_of_the_page_has_about_thirty_lines():
    assert {name: body.count("\n") <= 40 for name, body in MODULES.items()} == dict.fromkeys(
        ("first_impression", "verdict_runs", "stopwatch", "audited"), True
    )


def test_the_package_of_the_page_works_by_name(documented, tmp_path, adjudge):
    runs = tmp_path / "runs.json"
    runs.write_text(json.dumps(RUNS))
    result = adj.aggregate(runs, model="first-impression", engine="stopwatch")
    assert result.labels["label"].to_list() == ["good", "bad"]
    assert result.model == "first-impression"
    assert sys.modules["stopwatch"].SECONDS
    code, _, said = adjudge("aggregate", runs, "--model", "first-impression", "--engine", "stopwatch", "-o", tmp_path / "out.csv")
    assert code == 0, said
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith("t1,good")


@pytest.mark.parametrize("engine", ["stopwatch", "audited"])
@pytest.mark.parametrize("model", ["mv", "ds", "fds", "auto"])
def test_the_engines_of_the_page_give_the_answers_of_the_compiled_one(documented, model, engine):
    votes = adj.simulate(tasks=60, workers=9, seed=4).votes
    ours, theirs = (adj.aggregate(votes, model=model, engine=name) for name in ("cpu", engine))
    assert ours.labels.equals(theirs.labels)


def test_an_engine_of_the_page_keeps_the_contract(documented):
    audited = importlib.import_module("audited")
    contract.check("fds", audited.make(2))
    assert len(audited.SIZES) > 50


def test_a_text_format_reads_all_bytes(install, tmp_path):
    body = """
from adjudge.io.formats.export import AnswerCollector
NEEDS = "lines of judge said verdict about task"
def recognise(content):
    return content.kind == "table" and b" said " in content.start
def read(content, ask):
    answers = AnswerCollector(ask, content.name)
    for line in content.data.decode().splitlines():
        judge, _, verdict, _, task = line.split(" ")
        answers.vote(task, judge, [verdict])
    return answers.extract({"task": "about", "worker": "judge", "label": "said"})
"""
    install("talk", "[adjudge.formats]\nsaid = said\n", {"said": body})
    (tmp_path / "log.txt").write_text("ann said good about t1\nbob said good about t1\nann said bad about t2\n")
    result = adj.aggregate(tmp_path / "log.txt", model="mv")
    assert result.labels.select("task", "label", "votes").rows() == [("t1", "good", 2), ("t2", "bad", 1)]


class Shares:
    """Majority vote, written as a stranger would."""

    def fit(self, votes):
        shares = np.zeros((votes.n_tasks, votes.n_labels))
        task = np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))
        np.add.at(shares, (task, votes.row_label[votes.row]), 1.0)
        return shares / shares.sum(axis=1, keepdims=True)


class Says:
    """A model that always returns the same value."""

    def __init__(self, answer):
        self.answer = answer

    def fit(self, votes):
        return self.answer


@pytest.mark.parametrize("confidence", ["honest", "posterior"])
def test_an_object_gives_what_the_model_it_imitates_gives(confidence):
    votes = adj.simulate(tasks=80, workers=9, seed=7).votes
    theirs = adj.aggregate(votes, model=Shares(), confidence=confidence)
    ours = adj.aggregate(votes, model="mv", confidence=confidence)
    assert theirs.labels.select("task", "label", "votes", "tie").equals(ours.labels.select("task", "label", "votes", "tie"))
    np.testing.assert_allclose(theirs.labels["confidence"], ours.labels["confidence"], rtol=0, atol=1e-12)
    assert_frame_equal(theirs.posterior, ours.posterior, abs_tol=1e-12)
    assert theirs.workers["worker"].to_list() == ours.workers["worker"].to_list()


def test_gold_keeps_its_label_and_labels_may_be_a_dict():
    result = adj.aggregate(VOTES, model=Says({"t1": "dog", "t2": "dog"}), gold={"t2": "cat"}, confidence="posterior")
    assert result.labels.select("label", "confidence", "gold").rows() == [("dog", 1.0, False), ("cat", 1.0, True)]


def test_a_result_of_an_object_survives_pickling():
    result = pickle.loads(pickle.dumps(adj.aggregate(VOTES, model=Shares())))
    assert result.labels["label"].to_list() == ["cat", "dog"]
    assert result.model == "Shares"


def test_objects_are_compared_with_names():
    crowd = adj.simulate(tasks=60, workers=9, seed=4)
    compared = adj.compare(crowd.votes, models=[Shares(), Says({}), "ds"], truth=crowd.truth)
    rows = {row["model"]: row for row in compared.models.iter_rows(named=True)}
    assert set(rows) == {"Shares", "Says", "ds", "mv"}
    assert rows["Shares"]["accuracy"] == rows["mv"]["accuracy"]
    assert "returned no label for 60 tasks" in rows["Says"]["refused"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"t1": "cat"}, "'Says' returned no label for 1 tasks, 't2' first"),
        ({"t1": "cat", "t2": "dog", "t3": "dog"}, "returned task 't3', which no vote names"),
        ({"t1": "cat", "t2": "cow"}, r"returned label 'cow', which no vote names \(accepted: cat, dog\)"),
        (np.ones((2, 3)), r"array of shape \(2, 3\): \(2, 2\) was expected"),
        (np.ones((2, 2)), r"\[1.0, 1.0\] for task 't1': probabilities of sum 1"),
        (np.full((2, 2), np.nan), "probabilities of sum 1"),
        (None, "returned"),
        ("cat", "a dict task -> label, or an array"),
    ],
)
def test_what_an_object_must_not_return(answer, message):
    with pytest.raises(adj.InputError, match=message):
        adj.aggregate(VOTES, model=Says(answer))


def test_what_an_object_cannot_use_is_refused():
    with pytest.raises(adj.OptionError, match="'Says' cannot use priors: it takes gold"):
        adj.aggregate(VOTES, model=Says({}), priors="uniform")
    with pytest.raises(adj.OptionError, match=r"model is the class Says: give an object of it, as Says\(\)"):
        adj.aggregate(VOTES, model=Says)
    with pytest.raises(adj.OptionError, match="unknown model 3"):
        adj.aggregate(VOTES, model=3)
    with pytest.raises(adj.OptionError, match="engine 'disk' cannot run model 'Says'"):
        adj.aggregate(VOTES, model=Says({}), engine="disk")


def test_a_built_in_name_means_the_built_in(install):
    install("taker", "[adjudge.models]\nds = broken:Model\n[adjudge.engines]\ncpu = broken:make\n", {"broken": "1 / 0"})
    assert adj.aggregate(VOTES, model="ds", engine="cpu").labels["label"].to_list() == ["cat", "dog"]
    assert "broken" not in sys.modules


def test_a_broken_package_is_named(install, adjudge, tmp_path):
    install("shaky", "[adjudge.models]\nodd = broken:Model\n[adjudge.engines]\nfar = broken:make\n", {"broken": "1 / 0"})
    with pytest.raises(adj.OptionError, match=r"model 'odd' of shaky \(broken:Model\) cannot be loaded: ZeroDivisionError"):
        adj.aggregate(VOTES, model="odd")
    with pytest.raises(adj.OptionError, match=r"engine 'far' of shaky \(broken:make\) cannot be loaded"):
        adj.aggregate(VOTES, engine="far")
    with pytest.raises(adj.OptionError, match="unknown model 'od'"):
        adj.aggregate(VOTES, model="od")
    (tmp_path / "votes.csv").write_text("task,worker,label\nt1,a,x\n")
    code, _, said = adjudge("aggregate", tmp_path / "votes.csv", "--model", "odd")
    assert code == 1
    assert "model 'odd' of shaky (broken:Model) cannot be loaded" in said


def test_two_packages_with_one_name_are_both_named(install):
    for package in ("early", "late"):
        install(package, "[adjudge.models]\nodd = broken:Model\n", {"broken": "class Model:\n    fit = None\n"})
    with pytest.raises(adj.OptionError, match=r"'odd' is defined by several packages, (late|early) .*, (late|early) "):
        adj.aggregate(VOTES, model="odd")


def test_unknown_models_are_compared_with_installed_ones(documented):
    with pytest.raises(adj.OptionError, match="did you mean 'first-impression'") as found:
        adj.aggregate(VOTES, model="first_impresion")
    assert str(found.value).endswith("; a model of your own needs an entry point, as docs/extending.md shows")


def test_an_explanation_does_not_claim_decisive_votes_for_an_object():
    class Contrary:
        name = "contrary"

        def fit(self, votes):
            first = votes.row_label[votes.row][votes.task_ptr[:-1]]
            return np.eye(votes.n_labels)[1 - first] * 0.2 + 0.4

    why = adj.aggregate(VOTES, model=Contrary()).explain("t1")
    assert "decisive votes are not known for a model of your own" in str(why)
    assert "no single vote" not in str(why)
    assert {vote.flips_if_removed for vote in why.evidence} == {None}
    assert why.votes["flips_if_changed"].null_count() == 3
    assert not any(vote.is_decisive for vote in why.evidence)
    assert "no single vote" not in why._repr_html_()
    assert "could change" not in why.plot().sentence
