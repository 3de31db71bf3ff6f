"""`adjudge draw-gold` and `adjudge certify`: from votes to a sentence, a certificate that can be checked, and bad input."""

import json

import polars as pl
import pytest

import adjudge as adj
import exports


@pytest.fixture
def crowd(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = adj.simulate(tasks=600, workers=20, votes_per_task=5, skill=0.8, seed=2)
    made.votes.write_csv("votes.csv")
    return made


def fill(path, truth, to=None):
    """Answer a file of drawn tasks from the truth."""
    frame = pl.read_csv(path, infer_schema=False).drop("label").join(truth, on="task", how="left", maintain_order="left")
    frame.write_csv(to or path)


def test_from_votes_to_a_certificate(crowd, run, tmp_path):
    done = run("draw-gold", "votes.csv", "-n", 80, "--error", 0.1, "-o", "gold.csv", "--draw-seed", 5)
    assert done.code == 0
    assert "80 of " in done.err
    draw = adj.aggregate("votes.csv").draw_gold(80, error=0.1, seed=5)
    assert pl.read_csv("gold.csv")["task"].to_list() == draw["task"].to_list()
    fill("gold.csv", crowd.truth)
    arguments = ("votes.csv", "--gold", "gold.csv", "--error", 0.1, "--risk", 0.1)
    files = ("-o", "certificate.json", "--accepted", "accepted.csv", "--report", "report.html")
    done = run("certify", *arguments, *files)
    promise = adj.aggregate("votes.csv").certify("gold.csv", draw, error=0.1)
    assert (done.code, done.out) == (0, f"{promise.sentence}\n")
    assert promise.threshold is not None
    accepted = pl.read_csv("accepted.csv")
    assert len(accepted) == promise.accepted
    assert accepted["confidence"].min() >= promise.threshold
    content = json.loads((tmp_path / "certificate.json").read_text())
    assert content["figures"] == pytest.approx(promise.figures())
    page = (tmp_path / "report.html").read_text()
    assert "What can be promised?" in page
    assert promise.sentence.partition(" (")[0] in page
    assert json.loads(run("certify", *arguments, "--json").out) == promise.figures() | {"sentence": promise.sentence}
    assert len(adj.Draw.read("gold.csv").looks) == 1


@pytest.fixture
def certificate(crowd, run, tmp_path):
    run("draw-gold", "votes.csv", "-n", 60, "-o", "gold.csv", "--model", "ds", "--smoothing", 0.1, "--labels", "l2,l1,l0")
    fill("gold.csv", crowd.truth)
    settings = ("--model", "ds", "--smoothing", 0.1, "--labels", "l2,l1,l0")
    done = run("certify", "votes.csv", "--gold", "gold.csv", *settings, "-o", "certificate.json")
    assert done.code == 0
    return tmp_path / "certificate.json"


def test_a_certificate_is_checked_against_its_files(certificate, run, tmp_path, monkeypatch):
    looks = (tmp_path / "gold.draw.json").read_text()
    done = run("certify", "--verify", "certificate.json")
    assert done.code == 0
    assert done.out.strip() == json.loads(certificate.read_text())["sentence"]
    assert "2 files are unchanged" in done.err
    assert (tmp_path / "gold.draw.json").read_text() == looks
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run("certify", "--verify", "../certificate.json", "--quiet") == (0, done.out, "")


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda folder: (folder / "votes.csv").write_text((folder / "votes.csv").read_text() + "t1,w1,l0\n"), "has changed"),
        (lambda folder: (folder / "gold.csv").unlink(), "cannot read"),
        (lambda folder: (folder / "gold.draw.json").write_text("{}"), "is not the record of a draw"),
        (lambda folder: edit(folder, lambda content: content["figures"].update(wrong=0, accepted=600)), "but the files give"),
        (lambda folder: edit(folder, lambda content: content.update(sentence="All is well.")), "another sentence"),
        (lambda folder: edit(folder, lambda content: content["figures"].update(answers="x")), "no record of"),
        (lambda folder: edit(folder, lambda content: content.pop("command")), "is damaged"),
        (lambda folder: edit(folder, lambda content: content["command"].pop("draw")), "is damaged"),
        (lambda folder: edit(folder, lambda content: content["command"]["settings"].update(smoothing=0.9)), "fingerprint"),
    ],
)
def test_a_certificate_that_does_not_hold_ends_in_one_line(certificate, run, tmp_path, damage, match):
    damage(tmp_path)
    done = run("certify", "--verify", "certificate.json")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert match in done.err


def edit(folder, change):
    content = json.loads((folder / "certificate.json").read_text())
    change(content)
    (folder / "certificate.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["certify", "votes.csv"], "needs VOTES and --gold"),
        (["certify", "votes.csv", "--gold", "none.csv"], "there is no record of a draw at none.draw.json"),
        (["certify", "votes.csv", "--gold", "gold.csv"], "answers none of the 50 drawn tasks"),
        (["certify", "votes.csv", "--gold", "gold.csv", "--engine", "spark"], "choose cpu or disk"),
        (["certify", "votes.csv", "--verify", "c.json"], "leave out VOTES"),
        (["draw-gold", "votes.csv", "-n", 50, "-o", "gold.csv"], "record of an earlier draw"),
        (["draw-gold", "votes.csv", "-n", 50, "-o", "more.csv", "--draw-seed", 1], "gold.draw.json has this draw already"),
        (["certify", "votes.csv", "--gold", "votes.csv"], "I have known labels already"),
        (["draw-gold", "votes.csv", "-n", 601, "-o", "more.csv"], "n is 601"),
        (["draw-gold", "votes.csv", "-n", 50, "-o", "gold.pdf"], "names no known format"),
        (["draw-gold", "votes.csv", "-n", 50, "-o", "votes.csv"], "would be lost"),
    ],
)
def test_bad_input_is_one_line(crowd, run, tmp_path, arguments, match):
    assert run("draw-gold", "votes.csv", "-n", 50, "-o", "gold.csv", "--draw-seed", 1, "--quiet") == (0, "", "")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    done = run(*arguments)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert match in done.err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_too_little_gold_is_reported_when_it_is_drawn(crowd, run):
    assert "that takes at least 45" in run("draw-gold", "votes.csv", "-n", 30, "-o", "gold.csv").err


def test_nothing_certified_has_its_own_exit_code_and_no_certificate(crowd, run, tmp_path):
    assert run("draw-gold", "votes.csv", "-n", 60, "-o", "gold.csv", "--draw-seed", 1).code == 0
    wrong = crowd.truth.with_columns(label=pl.when(label="l0").then(pl.lit("l1")).otherwise(pl.lit("l0")))
    fill("gold.csv", wrong)
    done = run("certify", "votes.csv", "--gold", "gold.csv", "-o", "certificate.json", "--accepted", "accepted.csv", "--quiet")
    assert done.code == 3
    assert done.out.startswith("Nothing can be certified")
    assert done.err == "certificate.json is not written\n"
    assert not (tmp_path / "certificate.json").exists()
    assert len(pl.read_csv("accepted.csv")) == 0
    assert run("certify", "votes.csv", "--gold", "gold.csv", "--json").code == 3


def studio_export(votes):
    """A project of Label Studio with these votes, under its own numbers."""
    numbers = {task: 1000 + at for at, task in enumerate(votes["task"].unique(maintain_order=True))}
    made = []
    for task, number in numbers.items():
        given = votes.filter(task=task)
        annotations = [exports.annotation(at, [exports.result(label)]) for at, label in enumerate(given["label"])]
        made.append({"id": number, "data": {"text": task}, "annotations": annotations, "predictions": []})
    return numbers, made


def test_label_studio_takes_the_tasks_and_gives_the_answers_back(crowd, run, tmp_path):
    numbers, tasks = studio_export(crowd.votes)
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    truth = dict(crowd.truth.iter_rows())
    done = run("draw-gold", "export.json", "-n", 60, "-o", "tasks.json", "--to", "auto", "--error", 0.1, "--draw-seed", 1)
    assert done.code == 0, done.err
    drawn = json.loads((tmp_path / "tasks.json").read_text())
    assert len(drawn) == 60
    assert not any(task.get("annotations") or task.get("predictions") for task in drawn)
    back = [  # an import gives the tasks new numbers
        {**task, "id": at, "annotations": [exports.annotation("me", [exports.result(truth[task["data"]["text"]])])]}
        for at, task in enumerate(drawn)
    ]
    (tmp_path / "answers.json").write_text(json.dumps(back))
    done = run("certify", "export.json", "--gold", "answers.json", "--draw", "tasks.draw.json", "--error", 0.1, "--json")
    assert done.code == 0, done.err
    promise = json.loads(done.out)
    assert (promise["drawn"], promise["missing"]) == (60, 0)
    result = adj.aggregate("export.json")
    known = {str(numbers[task]): label for task, label in truth.items()}
    draw = result.draw_gold(60, error=0.1, seed=1)
    same = result.certify({task: known[task] for task in map(str, draw["task"])}, error=0.1)
    assert promise == pytest.approx(same.figures() | {"sentence": same.sentence})
    back[0]["annotations"].append(exports.annotation("you", [exports.result("l9")]))
    (tmp_path / "answers.json").write_text(json.dumps(back))
    refused = run("certify", "export.json", "--gold", "answers.json", "--draw", "tasks.draw.json", "--error", 0.1)
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "several labels" in refused.err


def test_argilla_takes_the_records_and_gives_the_answers_back(crowd, run, tmp_path):
    truth = dict(crowd.truth.iter_rows())
    records = [
        {
            "id": task[0],
            "fields": {"text": task[0]},
            "suggestions": {},
            "responses": {
                "label": [{"user_id": w, "value": v, "status": "submitted"} for w, v in given.select("worker", "label").rows()]
            },
        }
        for task, given in crowd.votes.group_by("task", maintain_order=True)
    ]
    (tmp_path / "records.json").write_text(json.dumps(records))
    assert run("draw-gold", "records.json", "-n", 60, "-o", "gold.json", "--to", "argilla", "--error", 0.1).code == 0
    drawn = json.loads((tmp_path / "gold.json").read_text())
    assert not any("responses" in record for record in drawn)
    back = [
        {
            **record,
            "suggestions": {},
            "responses": {"label": [{"user_id": "me", "value": truth[record["id"]], "status": "submitted"}]},
        }
        for record in drawn
    ]
    (tmp_path / "answers.json").write_text(json.dumps(back))
    arguments = ("records.json", "--gold", "answers.json", "--draw", "gold.draw.json", "--error", 0.1, "--json")
    done = run("certify", *arguments)
    assert done.code == 0, done.err
    promise = json.loads(done.out)
    assert (promise["drawn"], promise["missing"]) == (60, 0)
    assert promise["accepted"] > 0


def test_a_table_keeps_what_a_person_needs_to_answer(crowd, run, tmp_path):
    rows = crowd.votes.with_columns(text=pl.format("text of {}", "task"), item=pl.col("task")).drop("task")
    rows.write_csv("rows.csv")
    assert run("draw-gold", "rows.csv", "-n", 60, "-o", "gold.csv", "--to", "auto", "--error", 0.1).code == 0
    table = pl.read_csv("gold.csv", infer_schema=False)
    assert table.columns[:2] == ["task", "label"]
    assert (table["text"] == "text of " + table["task"]).all()
    fill("gold.csv", crowd.truth)
    assert json.loads(run("certify", "rows.csv", "--gold", "gold.csv", "--error", 0.1, "--json").out)["missing"] == 0


def test_a_renamed_record_is_read_and_deep_json_refused(crowd, run, tmp_path):
    assert run("draw-gold", "votes.csv", "-n", 80, "--error", 0.1, "-o", "gold.csv").code == 0
    fill("gold.csv", crowd.truth)
    (tmp_path / "gold.draw.json").rename("renamed.json")
    done = run("certify", "votes.csv", "--gold", "gold.csv", "--draw", "renamed.json", "--error", 0.1, "--quiet")
    assert (done.code, done.err) == (0, "")
    assert len(json.loads((tmp_path / "renamed.json").read_text())["looks"]) == 1
    (tmp_path / "deep.json").write_text("[" * 100_000 + "]" * 100_000)
    for arguments in (["--verify", "deep.json"], ["votes.csv", "--gold", "gold.csv", "--draw", "deep.json"]):
        done = run("certify", *arguments)
        assert (done.code, done.err.count("\n")) == (1, 1)
        assert "it is nested too deeply" in done.err
