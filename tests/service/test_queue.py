"""The next task for a worker, at sizes that a queue has to bear."""

import numpy as np
import pytest

from adjudge.service.http import queue, views
from adjudge.service.http.queue import Queue
from service.serving import serving


def test_the_value_is_the_same_in_one_piece_and_in_many(monkeypatch):
    random = np.random.default_rng(1)
    likely, answers = random.dirichlet(np.ones(4), 9), random.dirichlet(np.ones(4), 4)
    whole = (likely[:, :, None] * answers).max(axis=1).sum(axis=1) - likely.max(axis=1)
    for cells in (1, 16, 33, 10**6):
        monkeypatch.setattr(queue, "QUEUE_CHUNK_CELLS", cells)
        assert Queue._value(likely, answers) == pytest.approx(whole, abs=1e-15)


def test_a_worker_who_has_voted_on_the_least_certain_tasks_gets_others(tmp_path, monkeypatch):
    monkeypatch.setattr(queue, "QUEUE_PAGE_TASKS", 3)
    with serving(tmp_path) as client:
        client("POST", "tasks", {"tasks": [f"t{n}" for n in range(10)]})
        for n in range(9):
            client.vote(f"t{n}", "ann", "spam")
        for n in range(3, 10):
            client.vote(f"t{n}", "bob", "spam")  # t9 is as certain as the first three, and the others more so
        monkeypatch.setattr(queue, "PAGES", 1)
        assert [row["task"] for row in client("GET", "next?worker=ann").json["tasks"]] == []
        monkeypatch.setattr(queue, "PAGES", 10)
        assert [row["task"] for row in client("GET", "next?worker=ann").json["tasks"]] == ["t9"]
        assert client("GET", "next?worker=ann").json["tasks"] == [], "it was given a moment ago"


def test_a_thousand_labels_are_looked_at_in_pieces(tmp_path):
    with serving(tmp_path) as client:
        path = "/v1/campaigns/many"
        client("PUT", path, {"labels": [f"l{n}" for n in range(1000)]})
        client("POST", f"{path}/tasks", {"tasks": [f"t{n}" for n in range(2000)]})
        answer = client("GET", f"{path}/next?worker=w&n=2")  # 16 GB in one piece
        assert (answer.status, len(answer.json["tasks"])) == (200, 2)


def test_names_that_come_once_are_forgotten(server, monkeypatch):
    monkeypatch.setattr(queue, "REMEMBERED", 2)
    server("POST", "tasks", {"tasks": ["only"]})
    asked = [[row["task"] for row in server("GET", f"next?worker={name}").json["tasks"]] for name in ("a", "b", "c", "b", "a")]
    assert asked == [["only"], ["only"], ["only"], [], ["only"]]


def test_pages_of_workers_with_many_labels_are_short(server, monkeypatch):
    for name in "abcde":
        server.vote("crowd", f"w{name}", "spam")
    monkeypatch.setattr(views, "MAX_CONFUSION_CELLS_PER_PAGE", 9)  # two workers of two labels
    after, pages = 0, []
    while after is not None:
        page = server("GET", f"workers?limit=100&after={after}").json
        pages.append([row["worker"] for row in page["workers"]])
        after = page["next"]
    assert pages == [["wa", "wb"], ["wc", "wd"], ["we"]]
