"""`result.plot`: charts that validate, hold what their view holds, and survive any name."""

import ast
import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import altair as alt
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import adjudge as adj
from adjudge.errors import InputError, OptionError
from adjudge.report import plots, theme
from adjudge.report.charts import parts
from adjudge.report.views.agreement import agreement
from adjudge.report.views.confusion import confusion
from adjudge.report.views.reliability import reliability
from adjudge.report.views.shares import shares
from adjudge.report.views.tasks import tasks
from adjudge.report.views.trace import trace
from adjudge.report.views.workers import workers
from adjudge.results import plotting

METHODS = ("workers", "confusion", "tasks", "agreement", "trace", "shares")
HOSTILE_LABELS = ["a.b[0]:Q", "</script><script>alert(1)</script>", 'it\'s "quoted" \\', "<!--", "x" * 80]
HOSTILE_WORKERS = ["<img src=x onerror=alert(1)>", "w.1", "w[2]", "w:N", "'", "datum.worker", "a\nb", "é" * 50]


@pytest.fixture(scope="module")
def crowd():
    return adj.simulate(tasks=200, workers=14, labels=3, power=1.0, spammers=0.2, seed=2)


@pytest.fixture(scope="module")
def result(crowd):
    return adj.aggregate(crowd.votes, model="ds")


@pytest.fixture(scope="module")
def hostile():
    crowd = adj.simulate(tasks=120, workers=8, labels=5, seed=2, label_names=HOSTILE_LABELS, worker_names=HOSTILE_WORKERS)
    named = crowd.votes.with_columns(task=pl.format("</ScRiPt>{}", "task"))
    truth = crowd.truth.with_columns(task=pl.format("</ScRiPt>{}", "task"))
    return adj.aggregate(named), truth


def rows_of(chart):
    """All rows in the data of a chart."""
    return [row for rows in chart.to_dict()["datasets"].values() for row in rows]


def drawn(result, truth):
    yield from (getattr(result.plot, name)() for name in METHODS)
    yield result.plot.confusion(result.votes.workers[0])
    yield result.plot.reliability(truth)
    yield result.plot.explain(result.votes.tasks[0])


def compared():
    models = pl.DataFrame(
        {
            "model": ["ds", "auto", "mv"],
            "accuracy": [0.9, 0.89, 0.8],
            "accuracy_low": [0.87, 0.86, 0.76],
            "accuracy_high": [0.93, 0.92, 0.84],
            "below_highest": [False, False, True],
            "stable_workers": [0.9, 0.92, 0.91],
            "stable_tasks": [0.97, 0.99, 1.0],
        }
    )
    return SimpleNamespace(best="auto", advice=["Take auto."], confidence=0.9, models_frame=lambda: models)


def studied(cost):
    floats = {"accuracy": [0.7, 0.8, 0.85], "low": [0.6, 0.75, 0.82], "high": [0.8, 0.86, 0.88]}
    sizes = pl.DataFrame({"size": [1, 3, 5], **floats, "effective_votes": [1.0, 2.6, 3.9], "cost": cost}, strict=False)
    chosen = pl.DataFrame({"size": [1, 1, 3], **floats})
    return SimpleNamespace(
        by="judges", enough=3, sizes_frame=lambda: sizes, panels_frame=lambda: chosen, sentences=lambda: ["3 judges are enough."]
    )


def test_every_chart_is_valid_small_and_says_what_it_shows(result, crowd):
    for chart in drawn(result, crowd.truth):
        spec = chart.to_dict()  # raises where Vega-Lite does not know something
        assert spec["title"]["text"]
        assert spec["description"] == " ".join(spec["title"]["text"])
        assert len(rows_of(chart)) <= 5000


def test_titles_are_the_sentences_of_the_views(result):
    views = {"workers": workers, "confusion": confusion, "tasks": tasks, "agreement": agreement, "trace": trace, "shares": shares}
    for name, view in views.items():
        assert " ".join(getattr(result.plot, name)().title.text) == view(result).sentence


def test_charts_render_and_the_same_chart_gives_the_same_file(result, tmp_path):
    for name, look in (("workers", "light"), ("agreement", "dark")):
        for turn in ("a", "b"):
            theme.save_svg(getattr(result.plot, name)(theme=look), tmp_path / f"{turn}.svg")
        text = (tmp_path / "a.svg").read_text()
        assert text.startswith("<svg")
        assert text == (tmp_path / "b.svg").read_text()
    assert "#14171c" in text  # the dark page


def test_workers_are_those_of_the_view(result):
    view, rows = workers(result), rows_of(result.plot.workers())
    dots = pl.DataFrame([row for row in rows if "kind" in row and "right" in row])
    wanted = view.frame.select("worker", "votes", "accuracy", "verdict", low="accuracy_low", high="accuracy_high")
    assert_frame_equal(dots.select(wanted.columns).unique().sort("worker"), wanted.sort("worker"))
    assert {row["chance"] for row in rows if "chance" in row} == {view.chance}


def test_judges_with_equal_votes_are_ranked():
    votes = adj.simulate(tasks=60, workers=4, votes_per_task=4, seed=1).votes
    rows = rows_of(adj.aggregate(votes).plot.workers())
    assert sorted(row["rank"] for row in rows if "rank" in row) == [1, 2, 3, 4]


def test_thousands_of_workers_become_cells(monkeypatch, result):
    monkeypatch.setattr("adjudge.report.views.workers.MAX_DOTS", 5)
    view, rows = workers(result), rows_of(result.plot.workers())
    assert sum(row["workers"] for row in rows if "workers" in row) == len(view.frame)
    named = {row["worker"] for row in rows if "worker" in row}
    assert named == set(view.frame.filter(pl.col("verdict").is_in(["spammer", "adversary", "copy"]))["worker"])
    assert 0 < len(named) < len(view.frame)


def test_confusion_is_that_of_the_view_and_lists_pairs_of_many_labels(result):
    worker = result.votes.workers[3]
    cells = [row for row in rows_of(result.plot.confusion(worker)) if "share" in row]
    assert [(r["true"], r["given"], r["votes"]) for r in cells] == confusion(result, worker).cells.drop("share").rows()
    many = adj.aggregate(adj.simulate(tasks=200, workers=6, labels=22, skill=0.5, seed=1).votes, model="mv")
    assert [row["votes"] for row in rows_of(many.plot.confusion())] == confusion(many).worst["votes"].to_list()
    with pytest.raises(InputError, match="'nobody' has no votes here"):
        result.plot.confusion("nobody")


def test_tasks_shares_trace_and_reliability_are_those_of_the_views(result, crowd):
    rows = rows_of(result.plot.tasks())
    assert [r["tasks"] for r in rows if "in_doubt" in r] == tasks(result).bins["tasks"].to_list()
    assert [r["task"] for r in rows if "task" in r] == tasks(result).listed(tasks(result).uncertain[:12])["task"].to_list()
    top = shares(result).top
    assert [(r["label"], r["given"], r["chosen"]) for r in rows_of(result.plot.shares()) if "given" in r] == top.rows()
    changed = trace(result).frame["labels_changed"].to_list()
    assert [r["labels_changed"] for r in rows_of(result.plot.trace())] == changed
    bins = reliability(adj.evaluate(result, crowd.truth)).bins
    found = [r for r in rows_of(result.plot.reliability(crowd.truth)) if "tasks" in r]
    assert [(r["tasks"], r["accuracy"]) for r in found] == bins.select("tasks", "accuracy").rows()
    assert all(r["low"] <= r["accuracy"] <= r["high"] + 1e-12 for r in found)


def test_agreement_outlines_rings():
    found = adj.aggregate(adj.simulate(tasks=200, workers=12, votes_per_task=8, colluders=0.34, ring=4, seed=2).votes)
    view, rows = agreement(found), rows_of(found.plot.agreement())
    assert view.rings
    assert len([row for row in rows if "low" in row]) == len(view.rings)
    kappa = {(row["a"], row["b"]): row["kappa"] for row in rows if "kappa" in row}
    wanted = view.cells.filter(pl.col("row") != pl.col("column"))
    assert kappa == {(a, b): k for a, b, k in wanted.select("a", "b", "kappa").rows()}


def test_the_waterfall_ends_at_the_log_odds(result):
    for task in result.labels.sort("confidence")["task"].to_list()[:3]:
        why = result.explain(task)
        bars = [row for row in rows_of(why.plot()) if "start" in row]
        assert bars[-1]["end"] == pytest.approx(why.log_odds)
        assert all(a["end"] == b["start"] for a, b in zip(bars[:-2], bars[1:-1], strict=True))
        assert len(bars) == len(list(why.bars())) + 1


def test_a_waterfall_of_many_votes_adds_up():
    votes = adj.simulate(tasks=30, workers=50, votes_per_task=45, seed=1).votes
    why = adj.aggregate(votes, model="mv").explain("t0")
    bars = [row for row in rows_of(plots.explanation(why)) if "start" in row]
    assert len(bars) < 45
    assert bars[-1]["end"] == pytest.approx(why.log_odds)
    assert any(row["full"] == "15 more votes" for row in bars)


def test_nothing_to_draw_is_said():
    one = adj.aggregate([("t", "w", "x")], model="mv")
    assert "nothing to converge" in one.plot.trace().title.text[0]
    assert "one worker" in one.plot.agreement().title.text[0]
    assert "no other label" in one.plot.explain("t").title.text[0]
    known = adj.aggregate([("t", "w", "x"), ("t", "v", "y")], model="ds", gold={"task": ["t"], "label": ["x"]})
    assert "is known" in known.plot.explain("t").title.text[0]


def test_names_are_data(hostile):
    result, truth = hostile
    for chart in drawn(result, truth):
        page = chart.to_html()
        assert page.lower().count("</script>") == page.lower().count("<script")  # of the page itself
        assert "<!--" not in page
        assert "alert(1)</" not in json.dumps(chart.to_dict())
    label = next(row for row in rows_of(result.plot.shares()) if "alert" in row.get("label", ""))["label"]
    assert label.replace(parts.JOINER, "") == HOSTILE_LABELS[1]
    given = {row["given"] for row in rows_of(result.plot.confusion()) if "given" in row}
    assert len(given) == len(HOSTILE_LABELS)


def test_hostile_names_render(hostile, tmp_path):
    path = tmp_path / "confusion.svg"
    theme.save_svg(hostile[0].plot.confusion(), path)
    text = path.read_text()
    assert "a.b[0]:Q" in text
    assert "<script" not in text.lower()


def test_every_chart_begins_with_inert_texts():
    for path in Path(parts.__file__).parent.glob("*.py"):
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        made = [n for n in calls if ast.unparse(n.func) == "alt.Chart"]
        assert len(made) == (path.name == "parts.py"), path.name


def test_comparisons(tmp_path):
    found = compared()
    rows = rows_of(plots.comparison(found))
    kinds = {row["model"]: row["kind"] for row in rows if "kind" in row}
    assert kinds == {"ds": "not significantly below the most accurate", "auto": "advised", "mv": "significantly below it"}
    unjudged = found.models_frame().with_columns(accuracy=pl.lit(None, pl.Float64))
    found.models_frame = lambda: unjudged
    chart = plots.comparison(found)
    assert sorted(row["share"] for row in rows_of(chart)) == [0.9, 0.91, 0.92, 0.97, 0.99, 1.0]
    assert any("truth=" in line for line in chart.title.subtitle)


def test_panels(tmp_path):
    chart = plots.panel(studied([0.01, 0.03, 0.05]))
    theme.save_svg(chart, tmp_path / "panel.svg")
    text = (tmp_path / "panel.svg").read_text()
    for words in ("at random: 3 are enough", "0.03", "the cost of a task", "independent"):
        assert words in text
    points = [row for row in rows_of(chart) if row.get("kind", "").startswith("panels chosen")]
    assert [(row["size"], row["accuracy"]) for row in points] == [(1, 0.8), (3, 0.85)]  # the best one of each size
    assert "cost" not in json.dumps(plots.panel(studied([None, None, None])).to_dict()["vconcat"])


def test_comparisons_panels_and_explanations_draw_themselves(result, crowd):
    models = adj.compare(crowd.votes, truth=crowd.truth, models=["mv", "auto"], resamples=20)
    study = adj.panel(crowd.votes, subsets=2, sizes=[1, 2], model="mv")
    why = result.explain(result.labels_frame()["task"][0])
    for found, draw in ((models, plots.comparison), (study, plots.panel), (why, plots.explanation)):
        assert found.plot(theme="dark").to_dict() == draw(found, theme="dark").to_dict()


def test_themes(result):
    light, dark, none = (result.plot.shares(theme=look) for look in ("light", "dark", "none"))
    assert light.to_dict()["config"]["background"] == "#ffffff"
    assert dark.to_dict()["config"]["background"] == "#14171c"
    both = theme.themed(none | none, "dark")
    assert both.to_dict()["config"]["background"] == "#14171c"
    with pytest.raises(OptionError, match="unknown theme 'blue': accepted: light, dark, none"):
        result.plot.shares(theme="blue")
    assert {"adjudge", "adjudge-dark"} <= set(alt.theme.names())
    assert alt.theme.active not in ("adjudge", "adjudge-dark")  # nobody's own charts change


def test_what_results_promise_is_there(result):
    promised = {name: member for name, member in vars(plotting.Plots).items() if not name.startswith("_")}
    for name, member in promised.items():
        own = inspect.signature(getattr(plots.Plots, name))
        assert list(own.parameters) == list(inspect.signature(member).parameters)
    assert all(name in repr(result.plot) for name in promised)


def test_a_result_that_was_plotted_is_pickled(result):
    assert result.plot.shares()
    assert pickle.loads(pickle.dumps(result)).labels.equals(result.labels)


def test_without_altair():
    code = (
        "import sys; sys.modules['altair'] = None\n"
        "import adjudge as adj\n"
        "result = adj.aggregate([('t', 'w', 'x')], model='mv')\n"
        "try: result.plot\n"
        "except adj.AdjudgeError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert out == "plots need altair: pip install 'adjudge[report]'\n"
