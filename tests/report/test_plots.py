"""`result.plot`: pictures that both renderers draw, hold what their view holds, and survive any name."""

import ast
import json
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import altair as alt
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import adjudge as adj
from adjudge.errors import InputError, OptionError
from adjudge.report import charts
from adjudge.report.views.labels import reliability, shares, tasks, trace
from adjudge.report.views.votes import agreement, confusion
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


def rows_of(picture):
    """All rows in the data of a picture's chart."""
    return [row for rows in picture.altair().to_dict()["datasets"].values() for row in rows]


def drawn_svg(picture):
    """The SVG of a picture, parsed strictly."""
    return ElementTree.fromstring(picture.svg())


def texts_of(picture):
    """All texts that the SVG of a picture prints or shows on hover."""
    return ["".join(one.itertext()) for one in drawn_svg(picture).iter() if one.tag.endswith(("}text", "}title"))]


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
    return SimpleNamespace(best="auto", advice=["Take auto."], level=0.9, models_frame=lambda: models)


def studied(cost):
    floats = {"accuracy": [0.7, 0.8, 0.85], "low": [0.6, 0.75, 0.82], "high": [0.8, 0.86, 0.88]}
    sizes = pl.DataFrame({"size": [1, 3, 5], **floats, "effective_votes": [1.0, 2.6, 3.9], "cost": cost}, strict=False)
    chosen = pl.DataFrame({"size": [1, 1, 3], **floats})
    return SimpleNamespace(
        by="judges",
        enough=3,
        chosen=chosen,
        sizes_frame=lambda: sizes,
        panels_frame=lambda: chosen,
        sentences=lambda: ["3 judges are enough."],
    )


def test_both_renderers_draw_every_picture(result, crowd):
    extra = (plotting.draw("studies:comparison", compared()), plotting.draw("studies:panel", studied([0.01, 0.03, 0.05])))
    for picture in (*drawn(result, crowd.truth), *extra):
        spec = picture.altair().to_dict()  # raises where Vega-Lite does not know something
        assert " ".join(spec["title"]["text"]) == spec["description"] == picture.sentence
        assert len(rows_of(picture)) <= 5000
        root = drawn_svg(picture)
        assert root.get("aria-label").startswith(picture.sentence)
        marks = [one for one in root.iter() if one.tag.rpartition("}")[2] in ("use", "rect", "circle", "line")]
        assert len(marks) > 5


def test_no_place_is_outside_the_plot_and_no_colour_is_unknown(result, crowd):
    for picture in drawn(result, crowd.truth):
        for one in drawn_svg(picture).iter():
            places = [value for name, value in one.attrib.items() if value.endswith("%") and name not in ("width", "height")]
            assert all(-0.01 <= float(value[:-1]) <= 100.31 for value in places)
            assert all("var(" not in value and "nan" not in value for value in one.attrib.values())


def test_a_notebook_shows_svg_without_a_network(result):
    picture = result.plot.workers()
    shown = picture._repr_html_()
    assert "<svg" in shown
    assert "<script" not in shown
    assert "http" not in shown.replace("http://www.w3.org/2000/svg", "")
    assert picture._repr_svg_() == picture.svg()


def test_sentences_are_those_of_the_views(result):
    views = {"workers": workers, "confusion": confusion, "tasks": tasks, "agreement": agreement, "trace": trace, "shares": shares}
    for name, view in views.items():
        assert getattr(result.plot, name)().sentence == view(result).sentence


def test_pictures_are_saved_and_the_same_picture_gives_the_same_file(result, tmp_path):
    for name, look in (("workers", "light"), ("agreement", "dark")):
        for turn in ("a", "b"):
            getattr(result.plot, name)(theme=look).save(tmp_path / f"{turn}.svg")
            charts.save_svg(getattr(result.plot, name)(theme=look).altair(), tmp_path / f"altair-{turn}.svg")
        for made in ("", "altair-"):
            text = (tmp_path / f"{made}a.svg").read_text()
            assert text.startswith("<svg")
            assert text == (tmp_path / f"{made}b.svg").read_text()
            assert ("#14171c" in text) == (look == "dark")  # the dark page
    result.plot.shares().save(tmp_path / "shares.json")
    assert json.loads((tmp_path / "shares.json").read_text())["title"]


def test_workers_are_those_of_the_view(result):
    view, rows = workers(result), rows_of(result.plot.workers())
    dots = pl.DataFrame([row for row in rows if "kind" in row and "interval" in row])
    wanted = view.frame.select("worker", "votes", "accuracy", "verdict", low="accuracy_low", high="accuracy_high")
    assert_frame_equal(dots.select(wanted.columns).unique().sort("worker"), wanted.sort("worker"))
    assert {row["at"] for row in rows if "at" in row} == {view.chance}
    texts = texts_of(result.plot.workers())
    for row in view.frame.iter_rows(named=True):
        assert any(
            text.startswith(f"{row['worker']}: votes {row['votes']}, accuracy {100 * row['accuracy']:.3g}%") for text in texts
        )


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
    pairs = [row["votes"] for row in rows_of(many.plot.confusion()) if "pair" in row]
    assert pairs == confusion(many).worst["votes"].to_list()
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
    assert [(row["first"], row["last"]) for row in rows if "first" in row] == view.rings
    outlined = [one for one in drawn_svg(found.plot.agreement()).iter() if one.get("fill") == "none"]
    assert len(outlined) == len(view.rings)
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
    bars = [row for row in rows_of(why.plot()) if "start" in row]
    assert len(bars) < 45
    assert bars[-1]["end"] == pytest.approx(why.log_odds)
    assert any(row["what"] == "21 more votes" for row in bars)


def test_nothing_to_draw_is_reported():
    one = adj.aggregate([("t", "w", "x")], model="mv")
    for picture, said in (
        (one.plot.trace(), "nothing to converge"),
        (one.plot.agreement(), "one worker"),
        (one.plot.explain("t"), "no other label"),
    ):
        assert said in picture.sentence
        assert said in " ".join(texts_of(picture))
        assert said in " ".join(picture.altair().title.text)
    known = adj.aggregate([("t", "w", "x"), ("t", "v", "y")], model="ds", gold={"task": ["t"], "label": ["x"]})
    assert "is known" in known.plot.explain("t").sentence


def test_names_are_data(hostile):
    result, truth = hostile
    for picture in drawn(result, truth):
        page = picture.altair().to_html()
        assert page.lower().count("</script>") == page.lower().count("<script")  # of the page itself
        assert "<!--" not in page
        assert "alert(1)</" not in json.dumps(picture.altair().to_dict())
        kinds = {one.tag.rpartition("}")[2] for one in drawn_svg(picture).iter()}
        assert kinds <= {"svg", "defs", "g", "path", "rect", "text", "title", "line", "use", "circle", "polygon"}
    label = next(row for row in rows_of(result.plot.shares()) if "alert" in row.get("label", ""))["label"]
    assert label.replace(charts.JOINER, "") == HOSTILE_LABELS[1]
    given = {row["given"] for row in rows_of(result.plot.confusion()) if "given" in row}
    assert len(given) == len(HOSTILE_LABELS)
    assert any(HOSTILE_LABELS[1] in text for text in texts_of(result.plot.shares()))


def test_hostile_names_render(hostile, tmp_path):
    path = tmp_path / "confusion.svg"
    charts.save_svg(hostile[0].plot.confusion().altair(), path)
    text = path.read_text()
    assert "a.b[0]:Q" in text
    assert "<script" not in text.lower()


def test_every_chart_begins_with_inert_texts():
    calls = [n for n in ast.walk(ast.parse(Path(charts.__file__).read_text())) if isinstance(n, ast.Call)]
    assert len([n for n in calls if ast.unparse(n.func) == "alt.Chart"]) == 1


def test_comparisons(tmp_path):
    found = compared()
    rows = rows_of(plotting.draw("studies:comparison", found))
    kinds = {row["model"]: row["kind"] for row in rows if "kind" in row}
    assert kinds == {"ds": "not significantly below the most accurate", "auto": "advised", "mv": "significantly below it"}
    unjudged = found.models_frame().with_columns(accuracy=pl.lit(None, pl.Float64))
    found.models_frame = lambda: unjudged
    picture = plotting.draw("studies:comparison", found)
    assert sorted(row["share"] for row in rows_of(picture)) == [0.9, 0.91, 0.92, 0.97, 0.99, 1.0]
    assert any("truth=" in note for note in picture.notes)


def test_panels():
    picture = plotting.draw("studies:panel", studied([0.01, 0.03, 0.05]))
    text = " ".join(texts_of(picture))
    for words in ("at random: 3 are enough", "0.03", "the cost of a task", "independent"):
        assert words in text
    points = [row for row in rows_of(picture) if row.get("kind", "").startswith("panels chosen")]
    assert [(row["size"], row["accuracy"]) for row in points] == [(1, 0.8), (3, 0.85)]  # the best one of each size
    assert "the cost of" not in json.dumps(
        plotting.draw("studies:panel", studied([None, None, None])).altair().to_dict()["vconcat"]
    )


def test_comparisons_panels_and_explanations_draw_themselves(result, crowd):
    models = adj.compare(crowd.votes, truth=crowd.truth, models=["mv", "auto"], resamples=20)
    study = adj.panel(crowd.votes, subsets=2, sizes=[1, 2], model="mv")
    why = result.explain(result.labels_frame()["task"][0])
    for found, view in ((models, "studies:comparison"), (study, "studies:panel"), (why, "votes:waterfall")):
        assert found.plot(theme="dark").svg() == plotting.draw(view, found, theme="dark").svg()


def test_themes(result):
    light, dark, none = (result.plot.shares(theme=look) for look in ("light", "dark", "none"))
    assert light.altair().to_dict()["config"]["background"] == "#ffffff"
    assert dark.altair().to_dict()["config"]["background"] == "#14171c"
    assert "#14171c" in dark.svg()
    assert 'width="100%" height="100%" fill' not in none.svg()
    both = charts.apply_theme(none.altair() | none.altair(), "dark")
    assert both.to_dict()["config"]["background"] == "#14171c"
    with pytest.raises(OptionError, match="unknown theme 'blue': accepted: light, dark, none"):
        result.plot.shares(theme="blue")
    assert {"adjudge", "adjudge-dark"} <= set(alt.theme.names())
    assert alt.theme.active not in ("adjudge", "adjudge-dark")  # nobody's own charts change


def test_every_picture_is_named_and_described(result):
    offered = {name: member for name, member in vars(plotting.Plots).items() if not name.startswith("_") and callable(member)}
    assert len(offered) == 8
    assert all(name in repr(result.plot) and member.__doc__ for name, member in offered.items())


def test_a_result_that_was_plotted_is_pickled(result):
    assert result.plot.shares()
    assert pickle.loads(pickle.dumps(result)).labels.equals(result.labels)


def test_without_altair():
    code = (
        "import sys; sys.modules['altair'] = None\n"
        "import adjudge as adj\n"
        "picture = adj.aggregate([('t', 'w', 'x')], model='mv').plot.shares()\n"
        "print(picture.svg()[:4])\n"
        "try: picture.altair()\n"
        "except adj.AdjudgeError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert out == "<svg\nplots need altair: pip install 'adjudge[report]'\n"
