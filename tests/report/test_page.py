import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import polars as pl
import pytest

import adjudge as adj
from adjudge.models.base import DEFAULT_COMPARED_MODELS, MODELS
from adjudge.report.page import page, write

from .conftest import EVIL, LABEL

VOID = {"meta", "link", "input", "br"}


class Checked(HTMLParser):
    """A page read strictly: every element is closed, ids are unique, and nothing carries a style or a handler."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.tags, self.texts, self.data = [], [], [], [], ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        assert "style" not in named
        assert not [name for name in named if name.startswith("on")]
        assert named.get("href", "#").startswith(("#", "data:,"))
        assert "src" not in named
        self.tags.append(tag)
        if "id" in named:
            self.ids.append(named["id"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.data += data
        else:
            self.texts.append(data)


def checked(text):
    found = Checked(text)
    assert len(found.ids) == len(set(found.ids))
    assert {"img", "iframe", "object", "embed", "base", "form"}.isdisjoint(found.tags)
    return found


def known(text):
    return json.loads(re.search(r'id="page-data">(.*?)</script>', text, re.S)[1])


def test_names_are_data(result, crowd):
    text = page(result, truth=crowd[1], title="<script>alert(1)</script>", source="</title><b>")
    found = checked(text)
    assert found.tags.count("script") == 2
    assert EVIL not in text
    assert EVIL in [one["name"] for one in known(text)["workers"].values()]
    assert LABEL in known(text)["labels"]
    assert any(EVIL in one for one in found.texts)
    assert any(one == "<script>alert(1)</script>" for one in found.texts)


def test_the_policy_allows_the_script_and_the_style_of_the_page_and_nothing_else(result):
    text = page(result)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1].replace("&#x27;", "'")
    rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert rules["default-src"] == "'none'"
    script = re.search(r"<script>(.*?)</script>", text, re.S)[1]
    style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
    for rule, content in (("script-src", script), ("style-src", style)):
        assert rules[rule] == f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
    assert "unsafe" not in policy
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "fetch(",
        "http:",
        "https:",
    ):
        assert forbidden not in script.replace("http://www.w3.org/2000/svg", "")


def test_what_is_known_of_a_worker_is_what_the_result_knows(result, crowd):
    text = page(result, truth=crowd[1])
    data = known(text)
    spam = next(one for one in data["workers"].values() if one["name"] == EVIL)
    assert spam["verdict"] == "spammer"
    assert spam["votes"] == 120
    assert "in 100% of 120 votes" in spam["why"]
    assert [sum(cell[2] for cell in spam["cells"])] == [120]
    truth = dict(crowd[1].iter_rows())
    assert spam["real"] == [sum(label == LABEL for label in truth.values()), 120]
    code = data["labels"].index(LABEL)
    assert next(row for row in spam["bias"] if row[0] == code)[1] == 1.0


@pytest.mark.parametrize(
    ("model", "confidence"),
    [
        *((name, "honest") for name, model in MODELS.items() if model.most_labels is None),
        *((name, "posterior") for name in (*DEFAULT_COMPARED_MODELS, "ebcc")),  # pages differ by how a model scores
    ],
)
def test_every_model_has_a_page(crowd, model, confidence):
    labels = sorted(set(crowd[0]["label"])) if MODELS[model].is_ordered else None
    gold = crowd[1].head(20) if MODELS[model].needs_gold else None
    result = adj.aggregate(crowd[0], model=model, confidence=confidence, labels=labels, gold=gold)
    if (model, confidence) == ("ebcc", "posterior"):
        with pytest.raises(adj.OptionError, match="cannot explain its own posterior: fit with confidence='honest'"):
            page(result)
        return
    text = page(result, truth=crowd[1])
    found = checked(text)
    assert {"trust", "workers", "confusion", "balance", "tasks", "agreement", "truth", "trace"} <= set(found.ids)
    assert "nan" not in " ".join(found.texts).lower().replace("nan%", "")


def test_without_truth_the_page_says_how_to_see_accuracy(result):
    assert "No truth was given" in page(result)
    with pytest.raises(adj.InputError, match="none of the 1 tasks of the truth"):
        page(result, truth={"elsewhere": "cat"})


CASES = {
    "one vote": [("t", "w", "x")],
    "one task": [("t", "a", "x"), ("t", "b", "y"), ("t", "c", "y")],
    "all agree": [(t, w, "x") for t in range(5) for w in "abc"],
    "nobody shares a task": [(1, "a", "x"), (2, "b", "y")],
    "two labels only": [(t, w, t % 2 == 0) for t in range(6) for w in "ab"],
}


@pytest.mark.parametrize("case", CASES)
def test_small_votes_have_a_page(case):
    checked(page(adj.aggregate(CASES[case])))


def test_nothing_but_abstentions_has_a_page():
    with pytest.warns(adj.MissingLabels):
        result = adj.aggregate([("t", "w", None), ("u", "w", None)], labels=["x", "y"], model="mv")
    assert "nothing to show" in page(result)


def test_groups_weights_gold_and_predictions_have_a_page(crowd):
    votes = crowd[0]
    grouped = adj.aggregate(votes, groups={"w1": "twins", "copy of w1": "twins"})
    text = page(grouped)
    data = known(checked(text) and text)
    twins = [one for one in data["workers"].values() if one["group"] == "twins"]
    assert {one["name"] for one in twins} == {"w1", "copy of w1"}
    weighted = votes.with_columns(weight=pl.Series([0.5 + (n % 3) for n in range(len(votes))]))
    assert "weight 0.5" in page(adj.aggregate(weighted, weight="weight"))
    gold = adj.aggregate(votes, gold=crowd[1].head(20))
    checked(page(gold, truth=crowd[1]))
    checked(page(gold.predict(votes.head(200))))


def test_results_on_disk_say_what_is_left_out(crowd, tmp_path):
    path = tmp_path / "votes.csv"
    crowd[0].write_csv(path)
    text = page(adj.aggregate(path, engine="disk"), truth=crowd[1])
    assert "Verdicts are not computed for votes on disk" in text
    assert "Where one more vote is worth most" in text


def test_sets_have_a_page():
    votes = [(t, w, ["joy"] if (t + n) % 3 else ["joy", "fear <b>"]) for t in range(20) for n, w in enumerate("abc")]
    result = adj.aggregate(votes, multi=True)
    found = checked(page(result, truth=[(t, ["joy"]) for t in range(20)]))
    assert {"trust", "workers", "balance", "tasks"} <= set(found.ids)
    assert "sets that are right" in " ".join(found.texts)
    checked(page(adj.aggregate(votes, multi=True, per_option=True)))


def test_size_is_bounded_for_any_names_and_numbers():
    made = adj.simulate(tasks=3000, workers=2500, votes_per_task=5, labels=40, seed=1)
    long = made.votes.with_columns(worker=pl.col("worker") + "x" * 2000, task=pl.col("task") + "y" * 2000)
    result = adj.aggregate(long)
    text = page(result)
    assert len(text) < 3_000_000
    assert len(known(text)["workers"]) == 300
    assert f"{result.votes.n_workers - 300} more are in" in text


def test_a_page_is_written_completely_or_not_at_all(result, tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    target.write_text("before")
    with pytest.raises(adj.InputError, match="would be lost"):
        write(result, target, truth=str(target))
    assert target.read_text() == "before"
    with pytest.raises(adj.InputError, match="does not exist"):
        result.report(tmp_path / "nowhere" / "report.html")
    result.report(target)
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_the_same_result_gives_the_same_page(crowd):
    assert page(adj.aggregate(crowd[0])) == page(adj.aggregate(crowd[0]))


def test_a_comparison_gives_the_accuracy_of_models(result, crowd):
    found = adj.compare(crowd[0], truth=crowd[1], models=["mv", "auto", "iwmv"])
    text = page(result, truth=crowd[1], comparison=found)
    rows = found.models_frame().select("model", "accuracy").rows()
    assert "Accuracy by model: " + "; ".join(f"{name} {share:.0%}" for name, share in rows) in text
    assert "auto (this report)" in text
    assert all(f">{share:.1%}<" in text for _, share in rows)


def test_without_a_comparison_a_few_models_are_fitted(result, crowd):
    text = page(result, truth=crowd[1])
    for model in ("mv", "fds", "auto"):
        accuracy = adj.evaluate(adj.aggregate(crowd[0], model=model), crowd[1]).accuracy
        assert f"{model} {100 * accuracy:.0f}%" in re.search('Accuracy by model: ([^<>"]*)', text)[1]


def test_tasks_in_doubt_come_in_the_order_of_what_one_more_vote_is_worth(result):
    found = re.findall(r'class="id" title="([^"]*)"', page(result))
    wanted = result.ask_next(10)["task"].to_list()
    assert found[:10] == wanted


def test_the_least_certain_task_is_that_of_all_tasks():
    result = adj.aggregate(adj.simulate(tasks=300, workers=12, labels=4, skill=0.5, seed=1).votes)
    first = result.labels.sort("confidence").row(0, named=True)
    text = page(result)
    assert first["task"] not in result.ask_next(30)["task"].to_list()  # so that it is not among those listed first
    assert f"Task ‘{first['task']}’ is the least certain one ({100 * first['confidence']:.0f}%)" in text


def test_tasks_on_executors_are_not_gathered(result):
    outcome = replace(result.fit.outcome, labels=result.fit.outcome.labels[:0])
    remote = replace(result, fit=replace(result.fit, outcome=outcome))
    with pytest.raises(adj.InputError, match="Spark's executors: aggregate the votes.*engine='cpu'"):
        remote.report("report.html")
