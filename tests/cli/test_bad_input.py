"""Bad input: one line that names the place and the remedy, exit code 1, no partial output."""

import os

import pytest


def cases(folder, votes):
    """(name, arguments, what the line must say)"""
    (folder / "empty.csv").write_text("")
    (folder / "nolabel.csv").write_text("task,worker\na,b\n")
    (folder / "two.csv").write_text("task,worker,label,answer\na,b,c,d\n")
    (folder / "latin.csv").write_bytes("task,worker,label\na,b,c\na,é,c\n".encode("latin-1"))
    (folder / "ragged.csv").write_text("task,worker,label\na,b,c\na,b,c,d,e\n")
    (folder / "votes.xyz").write_text("task,worker,label\n")
    (folder / "broken.jsonl").write_text('{"task": 1, "worker": 2, "label": 3}\n{"task": \n')
    good = folder / "good.parquet"
    import polars as pl

    pl.read_csv(votes).write_parquet(good)
    (folder / "cut.parquet").write_bytes(good.read_bytes()[:-30])
    (folder / "secret.csv").write_text("task,worker,label\na,b,c\n")
    return [
        ("missing file", ["nope.csv"], "cannot read nope.csv: No such file"),
        ("folder", ["folder.csv"], "folder.csv is a folder"),
        ("empty file", ["empty.csv"], "empty.csv is empty: a header line"),
        ("no label column", ["nolabel.csv"], "nolabel.csv: no column looks like the label; say which with label=… (--label"),
        ("two candidates", ["two.csv"], "the label could be any of label, answer"),
        ("no such column", ["votes.csv", "--task", "nope"], "there is no column 'nope' for the task; the columns are: task"),
        ("undeclared label", ["votes.csv", "--labels", "l0,l1"], "is not among the declared labels: l0, l1"),
        ("truncated parquet", ["cut.parquet"], "cannot read cut.parquet"),
        ("invalid UTF-8", ["latin.csv"], "latin.csv: line 3 is not valid UTF-8"),
        ("ragged line", ["ragged.csv"], "cannot read ragged.csv"),
        ("broken json", ["broken.jsonl"], "cannot read broken.jsonl: line 2 is not JSON"),
        ("unknown suffix", ["votes.xyz"], "the suffix '.xyz' names no known format; known are .csv"),
        (
            "negative smoothing",
            ["votes.csv", "--model", "fds", "--smoothing", "-1"],
            "smoothing is -1.0: give a number of at least 0",
        ),
        ("model without tol", ["votes.csv", "--model", "auto", "--tol", "0.1"], "by design; give --model fds, which has it"),
        ("model without switch", ["votes.csv", "--model", "auto", "--switch", "1"], "or --model fds, which needs none"),
        ("zero threads", ["votes.csv", "--threads", "0"], "threads is 0: give a whole number of at least 1"),
        ("unknown model", ["votes.csv", "--model", "fsd"], "unknown model 'fsd': did you mean 'fds'?"),
        ("unknown engine", ["votes.csv", "--engine", "cpuu"], "unknown engine 'cpuu'"),
        ("no output folder", ["votes.csv", "-o", "no/labels.csv"], "the folder no does not exist; make it first"),
        ("output is a folder", ["votes.csv", "-o", "folder.csv"], "cannot write folder.csv: it is a folder"),
        ("output suffix", ["votes.csv", "-o", "labels.doc"], "the suffix '.doc' names no known format"),
        ("truth missing", ["votes.csv", "--truth", "no.csv"], "cannot read no.csv"),
        ("truth without label", ["votes.csv", "--truth", "votes.csv"], "more than one label"),
    ]


NAMES = [
    "missing file", "folder", "empty file", "no label column", "two candidates", "no such column", "undeclared label",
    "truncated parquet", "invalid UTF-8", "ragged line", "broken json", "unknown suffix", "negative smoothing",
    "model without tol", "model without switch", "zero threads", "unknown model", "unknown engine", "no output folder", "output is a folder", "output suffix", "truth missing",
    "truth without label",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_bad_input(name, adjudge, votes_csv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    table = {case: (arguments, message) for case, arguments, message in cases(tmp_path, votes_csv)}
    assert list(table) == NAMES
    arguments, message = table[name]
    before = sorted(p.name for p in tmp_path.iterdir())
    out_file = [] if "-o" in arguments else ["-o", "out.csv"]
    code, out, err = adjudge("aggregate", *arguments, *out_file)
    assert code == 1
    assert out == ""
    assert err.startswith("adjudge: ")
    assert err.count("\n") == 1, err
    assert message in err
    assert sorted(p.name for p in tmp_path.iterdir()) == before, "nothing may be left behind"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission(adjudge, votes_csv, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    code, _, err = adjudge("aggregate", votes_csv, "-o", tmp_path / "locked" / "l.csv")
    assert code == 1
    assert "no permission" in err


def test_full_disk(adjudge, votes_csv, tmp_path, monkeypatch):
    import polars as pl

    def full(self, path, **kw):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_csv", full)
    code, _, err = adjudge("aggregate", votes_csv, "-o", tmp_path / "l.csv", "--quiet")
    assert code == 1
    assert "No space left on device" in err
    assert {p.name for p in tmp_path.iterdir()} == {"votes.csv", "truth.csv"}


def test_memory_is_foreseen(adjudge, votes_csv, monkeypatch):
    from adjudge.engines import memory

    monkeypatch.setattr(memory, "free_memory", lambda: 1000)
    monkeypatch.setattr(memory, "UNCHECKED_BYTES", 0)
    code, _, err = adjudge("aggregate", votes_csv)
    assert code == 1
    assert "this fit needs about" in err
    monkeypatch.setattr(memory, "require", lambda *_: None)


def test_out_of_memory_is_one_line(adjudge, votes_csv, monkeypatch):
    def greedy(*_, **__):
        raise MemoryError

    monkeypatch.setattr("adjudge.engines.local.as_votes", greedy)
    code, _, err = adjudge("aggregate", votes_csv)
    assert (code, err.count("\n")) == (1, 1)


@pytest.mark.parametrize("form", [[], ["--json"], ["--quiet"], ["--multi"]])
@pytest.mark.parametrize("lines", ["", "other,l0\n"])
def test_nothing_to_evaluate_is_an_error(adjudge, tmp_path, form, lines):
    (tmp_path / "labels.csv").write_text("task,label\nt1,l0\nt2,l1\n")
    (tmp_path / "truth.csv").write_text(f"task,label\n{lines}")
    code, out, err = adjudge("evaluate", tmp_path / "labels.csv", "--truth", tmp_path / "truth.csv", *form)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "none of the 1 tasks of the truth" in err if lines else "no task has both a label and truth" in err


def test_evaluate_and_demo(adjudge, votes_csv):
    code, _, err = adjudge("evaluate", "nope.csv", "--truth", votes_csv)
    assert (code, err.count("\n")) == (1, 1)
    code, _, err = adjudge("demo", "--keep", votes_csv)
    assert (code, err.count("\n")) == (1, 1)


def test_a_list_that_is_given_twice_is_refused(run, votes_csv):
    done = run("aggregate", votes_csv, "--abstain", "l0", "--abstain", "l1")
    assert (done.code, done.out) == (2, "")
    assert "--abstain is given 2 times: give it once, its values joined by commas" in done.err


def test_the_last_value_of_an_option_counts(run, votes_csv):
    overridden, once = (run("aggregate", votes_csv, *models, "mv") for models in (["-m", "ds", "--model"], ["--model"]))
    assert overridden.out == once.out


def test_flags_and_lists_may_be_repeated(run, votes_csv):
    done = run("check", votes_csv, "--require", "tasks>=1", "--require", "tasks<=99", "--quiet", "--quiet")
    assert (done.code, done.out) == (0, "holds\n")


@pytest.mark.parametrize("command", [("aggregate", "-", "--gold", "-"), ("push", "label-studio", "-", "--gold", "-")])
def test_standard_input_is_not_read_twice(run, command):
    server = ("--url", "http://127.0.0.1:9", "--token", "x") if command[0] == "push" else ()
    done = run(*command, *server)
    assert done.code == 1
    assert "- is given twice, for the votes and for the gold" in done.err


def test_a_file_cannot_be_standard_output(run, votes_csv):
    done = run("aggregate", votes_csv, "-o", "-")
    assert (done.code, done.out) == (1, "")
    assert "-o is -: that is standard output, and this goes to a file" in done.err
