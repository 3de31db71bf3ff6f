"""The screen after `aggregate`: one screen, what matters on it, and commands that run."""

import json
import os
import re
import shlex
import subprocess
import sys

import polars as pl
import pytest

import adjudge as adj
from adjudge.cli import output, summary
from adjudge.errors import UNSEEN, make_visible
from adjudge.results.overview import label_shares

STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
MAIN = [sys.executable, "-c", "from adjudge.cli.main import main; main()"]


def terminal(arguments, cwd, columns=80):
    """Runs a command on a terminal of its own, whose lines are folded where they end; returns the lines it leaves there."""
    import fcntl
    import pty
    import struct
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")} | {"TERM": "xterm"}
    with subprocess.Popen([*MAIN, *map(str, arguments)], stdout=child, stderr=child, stdin=child, cwd=cwd, env=env) as process:
        os.close(child)
        shown = b""
        while True:
            try:
                block = os.read(parent, 1 << 16)
            except OSError:
                break
            if not block:
                break
            shown += block
    os.close(parent)
    text = shown.decode()
    text = text[text.rfind("\x1b[2K") + 4 :] if "\x1b[2K" in text else text  # what progress wrote, it has removed
    lines = [STYLE.sub("", line) for line in text.replace("\r", "").split("\n")]
    folded = [line[at : at + columns] for line in lines for at in range(0, max(len(line), 1), columns)]
    return process.returncode, folded


@pytest.fixture
def crowd(tmp_path, monkeypatch):
    """A crowd with spammers; returns its votes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    crowd = adj.simulate(tasks=400, workers=20, labels=4, spammers=0.2, seed=5)
    crowd.votes.write_csv("votes.csv")
    crowd.truth.write_csv("truth.csv")
    crowd.truth.head(50).write_csv("gold.csv")
    return crowd.votes


def test_it_is_one_screen_on_a_terminal(crowd, tmp_path):
    code, lines = terminal(["aggregate", "votes.csv", "-o", "labels.csv"], tmp_path)
    text = "\n".join(lines)
    assert code == 0
    assert len(lines) <= 24, text
    assert all(len(line) <= 80 for line in lines)
    result = adj.aggregate("votes.csv")
    verdicts = dict(result.workers["verdict"].value_counts().iter_rows())
    assert lines[0].startswith("read votes.csv as a table (csv): task=task, worker=worker, label=label; 2000")
    for words in (
        "votes                  2000 by 20 workers on 400 tasks, 4 labels",
        f"expected wrong labels  {result.expected_errors:.4g} of 400",
        "effective votes        ",
        "label  given  chosen",
        "least certain  label  confidence  votes",
        f"workers to look at: {verdicts['spammer']} spammers of 20",
        "try next:",
        "  adjudge aggregate votes.csv -o labels.csv --workers workers.csv",
        "  adjudge agreement votes.csv",
    ):
        assert words in text, words
    worst = result.labels.sort("confidence").row(0)
    assert re.search(rf"{worst[0]} +{worst[1]} +{worst[2]:.4g} +{worst[3]}\n", text)
    for word in ("converged", "log likelihood", "repeated", "abstention", "skipped", "ties  "):
        assert word not in text, f"{word} is of no interest here"


def test_labels_come_first_and_the_summary_stays(crowd, tmp_path):
    _, lines = terminal(["aggregate", "votes.csv"], tmp_path)
    text = "\n".join(lines)
    assert text.index("and 380 more") < text.index("expected wrong labels")
    assert "  adjudge aggregate votes.csv -o labels.csv --workers workers.csv" in text


def test_it_is_the_same_in_a_pipe_but_for_verdicts(crowd, run):
    piped = run("aggregate", "votes.csv", "-o", "labels.csv").err
    assert "label  given  chosen" in piped
    assert "least certain" in piped
    assert "workers to look at" not in piped, "nobody waits for them"
    judged = run("aggregate", "votes.csv", "-o", "labels.csv", "--workers", "workers.csv").err
    flagged = pl.read_csv("workers.csv").filter(pl.col("verdict") == "spammer").sort("votes", descending=True)
    assert f"workers to look at: {len(flagged)} spammers of 20" in judged
    assert flagged["why"][0] in judged
    assert f"spammers of 20: {', '.join(flagged['worker'])}\n" in judged


def test_workers_of_many_votes_are_not_judged_for_the_screen(crowd, monkeypatch, run):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(summary, "MAX_SUMMARY_VERDICT_VOTES", 1999)
    monkeypatch.setattr(adj.Result, "workers_frame", None)
    err = run("aggregate", "votes.csv", "-o", "labels.csv").err
    assert "workers to look at: not searched among more than 1999 votes; --workers workers.csv judges all" in err


def test_what_went_wrong_is_reported(crowd, run):
    err = run("aggregate", "votes.csv", "-m", "ds", "--max-iter", 2, "-o", "labels.csv").err
    assert re.search(r"\nmodel +ds; 2 iterations, not converged \(log likelihood -\d", err)
    assert "  adjudge aggregate votes.csv -m ds --max-iter 2 -o labels.csv --max-iter 20" in err


def test_abstentions_and_repeated_votes_are_said_once(crowd, run):
    odd = pl.concat([crowd, crowd.head(3), crowd.head(2).with_columns(label=pl.lit(None, pl.String))])
    odd.write_csv("odd.csv")
    err = run("aggregate", "odd.csv", "-o", "labels.csv").err
    first = next(line for line in err.splitlines() if line.startswith("read "))
    assert "; 2003 votes, 2 abstentions, 3 repeated votes (all of them count: --duplicates last " in first
    assert "\nabstentions" not in err


@pytest.mark.parametrize("labels", [1, 5, 6, 40])
def test_shares_of_many_labels_are_cut_with_a_count(tmp_path, monkeypatch, run, labels):
    monkeypatch.chdir(tmp_path)
    votes = [(t, w, f"l{t % labels}") for t in range(80) for w in "abc"]
    pl.DataFrame(votes, schema=["task", "worker", "label"], orient="row").write_csv("v.csv")
    block = (
        run("aggregate", "v.csv", "-o", "l.csv").err.split("label  ")[1].split("\ntry next")[0].split("\nleast")[0].splitlines()
    )
    assert len(block) == 1 + min(labels, 5)
    assert ("… and" in block[-1]) == (labels > 5)
    if labels > 5:
        assert block[-1].startswith(f"… and {labels - 4} more")


def steps(err):
    """The commands to try next, without what each gives."""
    return [line.strip().split("  (")[0] for line in err.split("try next:\n")[1].splitlines() if line.startswith("  ")]


@pytest.mark.parametrize(
    "arguments",
    [
        ["votes.csv"],
        ["votes.csv", "-o", "out.csv"],
        ["my votes.csv", "--task", "the task", "--duplicates", "last", "-o", "out.csv", "--workers", "w.csv"],
        ["votes.csv", "--gold", "gold.csv", "-o", "out.csv", "--workers", "w.csv"],
        ["votes.csv", "--format", "table"],
    ],
)
def test_what_to_try_next_runs(crowd, run, arguments):
    crowd.rename({"task": "the task"}).write_csv("my votes.csv")
    commands = steps(run("aggregate", *arguments).err)
    assert 1 <= len(commands) <= 3
    assert any(f"adjudge agreement {shlex.quote(arguments[0])}" in command for command in commands)
    for command in commands:
        if "…" not in command:
            assert run(*shlex.split(command)[1:]).code == 0, command


def test_calibration_is_suggested_with_gold(crowd, run):
    plain = adj.aggregate("votes.csv").labels.select("task", "label")
    plain.head(10).write_csv("gold.csv")
    plain.head(9).write_csv("few.csv")
    offered = steps(run("aggregate", "votes.csv", "--gold", "gold.csv", "-o", "out.csv").err)
    assert "adjudge aggregate votes.csv --gold gold.csv -o out.csv --calibrate" in offered
    for others in (["--gold", "few.csv"], ["--gold", "gold.csv", "--calibrate"]):
        steps_offered = steps(run("aggregate", "votes.csv", "-o", "o.csv", *others).err)
        assert not [step for step in steps_offered if step.endswith("calibrate")]


def test_agreement_is_suggested_as_it_reads(crowd, run):
    crowd.pivot("worker", index="task", values="label").write_csv("wide.csv")
    assert "adjudge agreement wide.csv --wide" in steps(run("aggregate", "wide.csv", "--wide", "-o", "out.csv").err)
    crowd.with_columns(weight=2.0).write_csv("weighted.csv")  # agreement has no weights
    commands = steps(run("aggregate", "weighted.csv", "--weight", "weight", "-o", "out.csv").err)
    assert not [command for command in commands if "agreement" in command]
    assert [command for command in commands if "--gold gold.csv" in command]


def test_no_votes_have_no_summary_to_speak_of(crowd, run):
    crowd.head(0).write_csv("none.csv")
    err = run("aggregate", "none.csv", "-o", "out.csv").err
    assert "votes  0 by 0 workers on 0 tasks, 0 labels" in err
    assert not [words for words in ("effective", "expected", "try next", "given") if words in err]


def test_long_commands_are_not_repeated(crowd, run):
    name = "a-rather-long-name-of-a-file-that-nobody-wants-to-read-twice-on-a-screen.csv"
    crowd.write_csv(name)
    commands = steps(run("aggregate", name, "-o", "out.csv").err)
    assert commands[0] == "adjudge aggregate … --workers workers.csv"


def test_ids_are_data(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    bad = "[red]\x1b]0;pwned\x07\n[x]"
    votes = [(bad, w, bad if w != "c" else "b") for w in "abc"] + [(n, bad, bad) for n in "xyz" * 9]
    pl.DataFrame(votes, schema=["task", "worker", "label"], orient="row").write_parquet("v.parquet")
    done = run("aggregate", "v.parquet", "-o", "l.csv", "--workers", "w.csv")
    assert done.code == 0
    assert make_visible(bad) in done.err
    assert not UNSEEN.search(done.err.replace("\n", ""))
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = STYLE.sub("", run("aggregate", "v.parquet", "-o", "l.csv", "--workers", "w.csv").err)
    assert make_visible(bad) in shown
    assert not UNSEEN.search(re.sub(r"[\r\n]", "", shown))


def test_several_options_have_shares(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.csv").write_text("task,worker,label\n1,a,x|y\n1,b,x\n2,a,y\n2,b,y\n")
    err = run("aggregate", "v.csv", "--multi", "-m", "mv", "-o", "l.csv").err
    assert re.search(r"votes +4 by 2 workers on 2 tasks, 2 options", err)
    assert re.search(r"y +75.0% +\d+.\d%\n", err)


def test_json_has_the_shares(crowd, run):
    document = json.loads(run("aggregate", "votes.csv", "--json", "-o", "labels.csv").out)
    shares = label_shares(adj.aggregate("votes.csv"))
    wanted = {share.label: {"votes": share.of_votes, "labels": share.of_labels} for share in shares}
    assert document["label_shares"] == {label: pytest.approx(both) for label, both in wanted.items()}
    assert {"converged", "log_likelihood", "mean_confidence", "ties", "priors", "understood"} <= document.keys()


def test_labels_for_another_look_are_counted(crowd, run):
    confidence = adj.aggregate("votes.csv").labels["confidence"]
    count = (confidence < 0.95).sum()
    assert 0 < count < 400
    ended = run("aggregate", "votes.csv", "--json", "-o", "labels.csv")
    assert json.loads(ended.out)["labels_below_95"] == count
    assert f"below 0.95 confidence  {count} of 400 labels" in run("aggregate", "votes.csv", "-o", "labels.csv").err


def test_workers_who_answer_alike_are_named(tmp_path, monkeypatch, run):
    """Once, unless they vote in groups, or are called copies."""
    monkeypatch.chdir(tmp_path)
    crowd = adj.simulate(tasks=300, workers=5, votes_per_task=5, labels=2, skill=0.85, seed=2)
    number = pl.int_range(pl.len())
    labels = pl.when(number % 33 == 0).then(pl.lit("l0")).otherwise("label")  # some answers of its own
    copy = crowd.votes.filter(worker="w0").with_columns(worker=pl.lit("w0-copy"), label=labels)
    pl.concat([crowd.votes, copy]).write_csv("votes.csv")
    workers = adj.aggregate("votes.csv").workers.filter(pl.col("answers_like").is_not_null())
    assert workers["verdict"].to_list() == ["informative", "informative"]
    same = copy.join(crowd.votes.filter(worker="w0"), on=["task", "label"]).height
    said = f"w0 and w0-copy answer alike ({same} of 300 tasks): --groups answers_like lets them vote once"
    arguments = ["aggregate", "votes.csv", "-o", "labels.csv", "--workers", "workers.csv"]
    assert run(*arguments).err.count(said) == 1
    assert "answer alike" not in run(*arguments, "--groups", "answers_like").err


def test_log_lines_are_said_once(run, crowd, monkeypatch):
    import logging

    from adjudge.engines import local

    real = local.as_votes

    def telling(*given, **options):
        for number in (1, 1, 2, 1):
            logging.getLogger("adjudge.results").warning("searched in %d tasks", number)
        return real(*given, **options)

    monkeypatch.setattr(local, "as_votes", telling)
    err = run("aggregate", "votes.csv", "--quiet", "-o", "labels.csv").err
    assert err.splitlines() == ["adjudge: searched in 1 tasks", "adjudge: searched in 2 tasks"]


def test_plain_tables_cut_ids_and_never_numbers(capsys):
    output.table(["task", "n"], [("x" * 100, 123456789), ("y", 1.0)], ids=1)
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == f"{'x' * (output.MAX_SHOWN_ID_CHARACTERS - 1)}…  123456789"
    assert lines[2].split() == ["y", "1"]
