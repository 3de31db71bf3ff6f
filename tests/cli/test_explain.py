"""`adjudge explain`: on the screen, as data, and what cannot be explained."""

import json

import pytest

import adjudge as adj

CROWD = adj.simulate(tasks=40, workers=6, labels=3, votes_per_task=(2, 5), seed=2)


@pytest.fixture
def votes(tmp_path):
    path = tmp_path / "votes.csv"
    CROWD.votes.write_csv(path)
    return path


def test_the_text_is_that_of_the_result(adjudge, votes):
    status, stdout, stderr = adjudge("explain", votes, "t3")
    assert status == 0
    assert stdout.strip() == str(adj.aggregate(votes).explain("t3"))
    assert "read " in stderr
    assert adjudge("explain", votes, "t3", "--quiet") == (0, stdout, "")


def test_several_tasks_as_data(adjudge, votes):
    status, stdout, _ = adjudge("explain", votes, "t3", "t9", "--json", "-m", "ds", "--settled", "0.9")
    found = json.loads(stdout)
    assert status == 0
    assert found["understood"]["votes"] == len(CROWD.votes)
    result = adj.aggregate(votes, model="ds")
    assert found["tasks"] == [json.loads(json.dumps(result.explain(task, settled=0.9).to_dict())) for task in ("t3", "t9")]


def test_by_the_model_or_its_posterior(adjudge, votes):
    by_model = json.loads(adjudge("explain", votes, "t3", "--json", "--by", "model")[1])["tasks"][0]
    posterior = json.loads(adjudge("explain", votes, "t3", "--json", "--confidence", "posterior")[1])["tasks"][0]
    assert by_model["confidence_by"] == posterior["confidence_by"] == "posterior"
    assert by_model["log_odds"] == pytest.approx(posterior["log_odds"])


def test_a_saved_model_decides(adjudge, votes, tmp_path):
    saved = tmp_path / "crowd.adjudge"
    adj.aggregate(votes, model="ds").save(saved)
    new = tmp_path / "new.csv"
    new.write_text("task,worker,label\nn1,w1,l0\nn1,w2,l1\nn1,zoe,l0\n")
    status, stdout, _ = adjudge("explain", new, "--using", saved, "n1", "--json")
    assert status == 0
    assert {vote["worker"] for vote in json.loads(stdout)["tasks"][0]["votes"]} == {"w1", "w2", "zoe"}
    status, _, stderr = adjudge("explain", new, "--using", saved, "n1", "--model", "mv")
    assert status == 1
    assert "--model is for a fit" in stderr


def test_sets(adjudge, tmp_path):
    path = tmp_path / "sets.csv"
    path.write_text("task,worker,label\nt1,ann,fear|joy\nt1,bob,joy\nt1,eve,joy\nt2,ann,fear\nt2,bob,fear\n")
    status, stdout, _ = adjudge("explain", path, "--multi", "t1")
    assert status == 0
    assert stdout.startswith("task t1: joy")
    assert "option fear" in stdout
    assert [one["option"] for one in json.loads(adjudge("explain", path, "--multi", "t1", "--json")[1])["tasks"][0]["options"]]


def test_an_unknown_task_is_one_line_and_nothing_is_shown(adjudge, votes):
    status, stdout, stderr = adjudge("explain", votes, "t3", "t3x")
    assert (status, stdout) == (1, "")
    assert stderr.splitlines()[-1].startswith("adjudge: task 't3x' has no votes here: did you mean ")
    assert adjudge("explain", votes)[0] == 2


def test_ids_cannot_steer_the_terminal(adjudge, tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("task,worker,label\nt\x1b[31m,w\x07,x\nt\x1b[31m,v,y\nu,v,x\n")
    _, stdout, stderr = adjudge("explain", path, "t\x1b[31m")
    assert "\x1b" not in stdout + stderr
    assert "\x07" not in stdout + stderr
    assert "\x1b" not in adjudge("explain", path, "t\x1b[31m", "--json")[1]
