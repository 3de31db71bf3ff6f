import pytest


@pytest.fixture
def files(votes_csv):
    return votes_csv.parent


def test_report_writes_a_page_and_prints_its_path(adjudge, files):
    page = files / "crowd.html"
    code, out, err = adjudge("report", files / "votes.csv", "-o", page, "--truth", files / "truth.csv", "--title", "The <crowd>")
    assert (code, out.strip()) == (0, str(page))
    text = page.read_text(encoding="utf-8")
    assert "The &lt;crowd&gt;" in text
    assert "How good are the labels?" in text
    assert "expected to be wrong" in err
    assert adjudge("report", files / "votes.csv", "-o", page, "--quiet")[2] == ""


@pytest.mark.parametrize(("command", "option"), [("report", "-o"), ("aggregate", "--report")])
def test_a_page_is_not_written_under_the_name_of_another_format(adjudge, files, command, option):
    code, _, err = adjudge(command, files / "votes.csv", option, files / "crowd.pdf")
    assert code == 1
    assert "crowd.pdf: the page is HTML; name it crowd.html" in err
    assert not (files / "crowd.pdf").exists()


def test_report_has_the_model_options_of_aggregate(adjudge, files):
    page = files / "crowd.html"
    code, _, _ = adjudge("report", files / "votes.csv", "-o", page, "-m", "ds", "--smoothing", "0.5", "--engine", "disk")
    assert code == 0
    assert "smoothing=0.5" in page.read_text(encoding="utf-8")
    assert {one.name for one in files.iterdir()} == {"votes.csv", "truth.csv", "crowd.html"}


def test_aggregate_writes_a_page_beside_the_labels(adjudge, files):
    code, _, err = adjudge("aggregate", files / "votes.csv", "-o", files / "labels.csv", "--report", files / "r.html")
    assert code == 0
    assert "r.html" in err
    assert "votes.csv" in (files / "r.html").read_text(encoding="utf-8")


def test_what_cannot_be_written_is_reported_before_any_work(adjudge, files):
    votes = files / "votes.csv"
    for arguments, word in (
        (["report", votes, "-o", votes], "would be lost"),
        (["aggregate", votes, "--report", votes], "would be lost"),
        (["aggregate", votes, "-o", files / "x.csv", "--report", files / "x.csv"], "one file"),
        (["report", votes, "-o", files / "nowhere" / "r.html"], "does not exist"),
        (["report", votes, "--engine", "spark"], "--engine spark"),
        (["aggregate", votes, "--engine", "spark", "--report", files / "r.html"], "--report does not work with --engine spark"),
    ):
        code, _, err = adjudge(*arguments)
        assert code == 1
        assert word in err
        assert err.count("\n") == 1
    assert {one.name for one in files.iterdir()} == {"votes.csv", "truth.csv"}


def test_the_demo_ends_with_a_page(adjudge, tmp_path):
    code, out, _ = adjudge("demo", "--keep", tmp_path)
    assert code == 0
    assert str(tmp_path / "report.html") in out.replace("\n", "")
    assert "mixes-up" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_page_does_not_go_to_a_file_called_minus(adjudge, files, monkeypatch):
    monkeypatch.chdir(files)
    for asked in (("report", "votes.csv", "-o", "-"), ("aggregate", "votes.csv", "--report", "-")):
        code, _, err = adjudge(*asked)
        assert code == 1
        assert "is -: that is standard output" in err
    assert not (files / "-").exists()
