"""`adjudge reproduce`, as people run it."""

import polars as pl
import pytest

from adjudge.paper import experiments, grid, plots

PLOTS = {f"{name}.svg" for name in ("figure1", "likelihood", "convergence", "scaling")}


@pytest.fixture
def plain(monkeypatch):
    """As if Altair were not installed: nothing is drawn."""
    monkeypatch.setattr(plots, "find_spec", lambda _: None)


def test_an_interrupted_run_goes_on(adjudge, crowd_data, tmp_path, monkeypatch, plain):
    out = tmp_path / "out"
    run = ("reproduce", "--data", crowd_data, "--sets", "labelme,bm,sp", "--trials", 2, "-o", out)
    real, fits = grid.fit, []

    def counted(*arguments, **options):
        fits.append(arguments[1])
        if len(fits) == 40:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(grid, "fit", counted)
    code, *_ = adjudge(*run)
    assert code != 0
    assert not (out / "report.md").exists()
    kept = len(list((out / ".cells").glob("*.json")))
    assert kept > 10
    code, stdout, err = adjudge(*run)
    assert (code, stdout) == (0, "")
    assert "the report is" in err
    total = len(fits)
    assert adjudge(*run, "--quiet") == (0, "", "")
    assert len(fits) == total, "everything was kept"
    adjudge(*run, "--fresh")
    assert len(fits) > total + 40


def test_everything_is_written(adjudge, crowd_data, tmp_path, monkeypatch):
    out = tmp_path / "out"
    fifth = pl.DataFrame(
        {"set": ["snow_affect_ml50"], "method": ["fds"], "accuracy": [0.9], "seconds": [0.1], "iterations": [2.0]}
    )
    monkeypatch.setattr(experiments, "multi_label_sets", lambda _: ["snow_affect_ml50"])
    monkeypatch.setattr(experiments, "choose_options", lambda *_: fifth)
    assert adjudge("reproduce", "--data", crowd_data, "--sets", "labelme,bm,sp", "--trials", 2, "--quiet", "-o", out) == (
        0,
        "",
        "",
    )
    names = {p.name for p in out.iterdir()}
    for name in (
        "table1",
        "table2",
        "table3",
        "table4",
        "table5",
        "figure1",
        "verdicts",
        "likelihood",
        "switch",
        "convergence",
        "scaling",
        "exponents",
    ):
        assert {f"{name}.csv", f"{name}.md"} <= names
    assert names >= PLOTS
    assert "<svg" in (out / "figure1.svg").read_text()
    report = (out / "report.md").read_text()
    for words in (
        "DAiSEE",
        "AffectAnnotation",
        "never published",
        "Adult2, TREC2010, RTE**: left out",
        "45 to 75%",
        "figure1.svg",
    ):
        assert words in report
    frame = pl.read_csv(out / "figure1.csv")
    assert {"accuracy paper", "accuracy ours", "accuracy difference"} <= set(frame.columns)
    assert set(frame["set"]) == {"bm", "labelme", "sp"}


def test_without_altair_the_rest_is_written(adjudge, crowd_data, tmp_path, plain):
    code, _, err = adjudge(
        "reproduce", "--data", crowd_data, "--sets", "labelme", "--trials", 1, "--subset", "random", "-o", tmp_path / "out"
    )
    assert code == 0
    assert "pip install 'adjudge[report]'" in err
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert "report.md" in names
    assert not names & PLOTS
    report = (tmp_path / "out" / "report.md").read_text()
    assert "drawn at random" in report
    assert ".svg" not in report


def test_the_data_folder_is_that_of_the_environment(adjudge, crowd_data, tmp_path, monkeypatch, plain):
    monkeypatch.setenv("ADJUDGE_DATA", str(crowd_data))
    assert adjudge("reproduce", "--sets", "labelme", "--trials", 1, "--quiet", "-o", tmp_path / "out")[0] == 0
    monkeypatch.delenv("ADJUDGE_DATA")
    monkeypatch.chdir(tmp_path)
    assert adjudge("reproduce", "--sets", "labelme", "--trials", 1, "--quiet", "-o", tmp_path / "out2")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "data lacks adult2, trec2010, rte: adjudge datasets get adult2 trec2010 rte -o data"),
        (["--data", "nowhere", "--sets", "bm"], "nowhere lacks bm: adjudge datasets get bm -o nowhere"),
        (["--sets", "bn"], "unknown data set 'bn': did you mean 'bm'?"),
        (["--sets", "bm", "--subset", "last"], "subset is 'last': accepted are first, random"),
        (["--sets", "bm", "--trials", "0"], "trials is 0: give a whole number of at least 1"),
        (["--sets", "bm", "-o", "file"], "file is a file: name a folder"),
    ],
)
def test_bad_input(adjudge, crowd_data, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ADJUDGE_DATA", raising=False)
    (tmp_path / "file").write_text("")
    code, out, err = adjudge("reproduce", *arguments, *([] if "-o" in arguments else ["-o", "out"]))
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert message in err
    assert not (tmp_path / "out").exists()
