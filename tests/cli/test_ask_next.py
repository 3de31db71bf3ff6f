"""`adjudge ask-next`: tasks to ask about next, on stdout, in files, and in the form of the tool."""

import json

import polars as pl
import pytest

import adjudge as adj
import exports

CROWD = adj.simulate(tasks=60, workers=8, labels=2, votes_per_task=(1, 4), seed=6)


@pytest.fixture
def votes(tmp_path):
    path = tmp_path / "votes.csv"
    CROWD.votes.write_csv(path)
    return path


def test_the_tasks_are_those_of_the_result(adjudge, votes, tmp_path):
    out = tmp_path / "next.csv"
    status, stdout, stderr = adjudge("ask-next", votes, "-n", "7", "-o", out)
    assert (status, stdout) == (0, "")
    expected = adj.aggregate(votes).ask_next(7)
    assert pl.read_csv(out)["task"].to_list() == expected["task"].to_list()
    assert f"7 of 60 tasks: one more vote on each is expected to put {expected['expected_gain'].sum():.3g} of" in stderr
    _, stdout, _ = adjudge("ask-next", votes, "-n", "7", "--quiet")
    assert stdout == out.read_text()
    found = json.loads(adjudge("ask-next", votes, "-n", "7", "--json")[1])
    assert found["tasks"] == expected.to_dicts()
    assert found["expected_gain"] == pytest.approx(expected["expected_gain"].sum())


def test_whom_to_ask_for_what(adjudge, votes, tmp_path):
    prices, people = tmp_path / "prices.csv", tmp_path / "people.txt"
    prices.write_text("worker,cost\n" + "".join(f"w{n},{0.1 * (n + 1):.1f}\n" for n in range(8)))
    people.write_text("w1\nw2\n")
    by_file = adjudge("ask-next", votes, "--ask", people, "--cost", prices, "--budget", "2", "--quiet")
    typed = adjudge("ask-next", votes, "--ask", "w1, w2", "--cost", "w1=0.2,w2=0.3", "--budget", "2", "--quiet")
    assert by_file[0] == 0
    assert typed == by_file
    found = pl.read_csv(by_file[1].encode())
    assert set(found["worker"]) <= {"w1", "w2"}
    assert found["cost"].sum() <= 2
    status, stdout, stderr = adjudge("ask-next", votes, "--ask", "any", "--cost", "0.5", "-n", "4")
    assert status == 0
    assert len(stdout.splitlines()) == 5
    assert "each for 2 is expected" in stderr


def test_label_studio_gets_tasks_without_annotations(adjudge, tmp_path):
    path, out = exports.label_studio(tmp_path), tmp_path / "next.json"
    status, _, _ = adjudge("ask-next", path, "-n", "4", "--to", "label-studio", "-o", out)
    assert status == 0
    chosen = adj.aggregate(path).ask_next(4)["task"].to_list()
    assert json.loads(out.read_text()) == [{"id": task, "data": {"text": f'text, "quoted" {task}', "id": 5}} for task in chosen]


@pytest.mark.parametrize(
    ("make", "name"),
    [(exports.argilla, "next.jsonl"), (exports.argilla_flat, "next.json"), (exports.argilla_parquet, "next.parquet")],
)
def test_argilla_gets_records_without_responses(adjudge, tmp_path, make, name):
    path, out = make(tmp_path), tmp_path / name
    assert adjudge("ask-next", path, "-n", "4", "--to", "auto", "-o", out)[0] == 0
    chosen = adj.aggregate(path).ask_next(4)["task"].cast(pl.String).to_list()
    read = {"next.parquet": pl.read_parquet, "next.json": pl.read_json, "next.jsonl": pl.read_ndjson}[name](out)
    assert [str(task) for task in read["id"]] == chosen
    assert not [column for column in read.columns if "response" in column or "suggestion" in column]
    assert len(read.columns) > 1  # what is shown of a record stays


def test_tables_lose_their_votes(adjudge, tmp_path):
    long, wide, out = tmp_path / "long.csv", tmp_path / "wide.csv", tmp_path / "next.csv"
    long.write_text(
        "item,text,annotator,label\n1,one,ann,x\n1,one,bob,y\n2,two,ann,x\n2,two,bob,x\n3,three,ann,y\n3,three,bob,y\n"
    )
    assert adjudge("ask-next", long, "-n", "1", "--to", "table", "-o", out)[0] == 0
    assert out.read_text() == "item,text\n1,one\n"
    wide.write_text("item,ann,bob,eve\n1,x,y,\n2,x,x,\n3,y,y,x\n")
    assert adjudge("ask-next", wide, "--wide", "-n", "1", "--to", "table", "-o", out)[0] == 0
    assert out.read_text() == "item,ann,bob,eve\n1,x,y,\n"


def test_sets(adjudge, tmp_path):
    path = tmp_path / "sets.csv"
    path.write_text("task,worker,label\nt1,ann,fear\nt1,bob,joy\nt2,ann,fear\nt2,bob,fear\n")
    status, stdout, stderr = adjudge("ask-next", path, "--multi", "-n", "1")
    assert status == 0
    assert stdout.splitlines()[1].startswith("t1,")
    assert "wrong options right" in stderr
    status, _, stderr = adjudge("ask-next", path, "--multi", "--ask", "any")
    assert status == 1
    assert "for votes with one label" in stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["-n", "0"], "n is 0"),
        (["--budget", "3"], "unknown cost"),
        (["--cost", "x"], "--cost is 'x'"),
        (["--cost", "w1=x"], "--cost is 'w1=x'"),
        (["--ask", "w1,,w2"], "--ask is 'w1,,w2'"),
        (["--to", "label-studio"], "say where with -o"),
        (["--to", "label-studio", "-o", "next.json"], "cannot be written as label-studio"),
        (["-o", "next.xyz"], "next.xyz"),
        (["--cost", "w1=1"], "cost has no price"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(adjudge, votes, tmp_path, monkeypatch, given, message):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    status, stdout, stderr = adjudge("ask-next", votes, *given)
    assert (status, stdout) == (1, "")
    assert message in stderr
    assert len(stderr.splitlines()) == 1
    assert set(tmp_path.iterdir()) == before


def test_the_votes_are_not_written_over(adjudge, votes):
    before = votes.read_bytes()
    status, _, stderr = adjudge("ask-next", votes, "-o", votes)
    assert status == 1
    assert "would be lost" in stderr
    assert votes.read_bytes() == before


def test_the_table_of_groups_is_not_written_over(adjudge, votes, tmp_path):
    groups = tmp_path / "groups.csv"
    groups.write_text("worker,group\nw0,first\nw1,first\n")
    status, _, stderr = adjudge("ask-next", votes, "--groups", groups, "-o", groups)
    assert status == 1
    assert "is read as well, as the groups" in stderr
    assert groups.read_text().startswith("worker,group\n")


def test_tasks_without_votes_are_counted_apart(adjudge, tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text(
        "task,worker,label\n" + "".join(f"{t},w{w},{'ab'[(t + w) % 2]}\n" for t in range(4) for w in range(3)) + "9,w0,NA\n"
    )
    _, _, stderr = adjudge("ask-next", path, "--abstain", "NA")
    gain = adj.aggregate(path, abstain="NA").ask_next(9).filter(pl.col("votes") > 0)["expected_gain"].sum()
    assert f"5 of 5 tasks, 1 of them without votes so far: one more vote on each is expected to put {gain:.3g} of" in stderr
