"""Forked processes: what needs the threads of polars raises, everything else works, nothing hangs."""

import multiprocessing
import os
import signal
import subprocess
import sys

import polars as pl
import pytest

import adjudge as adj

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
REMEDY = 'multiprocessing.get_context("spawn")'
CHILD_TIMEOUT_S = 60  # a query that waits for lost threads waits forever


@pytest.fixture(scope="module")
def crowd():
    crowd = adj.simulate(tasks=300, workers=9, votes_per_task=4, seed=1)
    assert len(crowd.votes.group_by("worker").len()) == 9, "the threads of polars run now"
    return crowd


@pytest.fixture(scope="module")
def fitted(crowd):
    return adj.aggregate(crowd.votes, model="fds")


def answer_of_child(act):
    """Run a function in a forked child; return "done", the message of its AdjudgeError, or how it ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(CHILD_TIMEOUT_S)
        try:
            act()
            said = "done"
        except adj.AdjudgeError as error:
            said = str(error)
        except BaseException as error:
            said = repr(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return said if code == 0 else f"ended with {code}: a hang, if by signal {int(signal.SIGALRM)}"


QUERIES = {
    "workers": lambda crowd, fitted, path: fitted.workers,
    "simulated votes": lambda crowd, fitted, path: adj.simulate(tasks=500, workers=7, seed=2).votes,
    "gold": lambda crowd, fitted, path: adj.aggregate(crowd.votes.rows(), gold={"t1": "l0"}),
    "normalize": lambda crowd, fitted, path: adj.read(crowd.votes.rows(), normalize=True),
    "a CSV file with quotation marks": lambda crowd, fitted, path: adj.read(path / "votes.csv"),  # others are read without polars
    "a Parquet file": lambda crowd, fitted, path: adj.read(path / "votes.parquet"),
    "evaluate": lambda crowd, fitted, path: adj.evaluate(fitted, crowd.truth),
    "compare": lambda crowd, fitted, path: adj.compare(crowd.votes, models=["mv", "fds"]),
    "panel": lambda crowd, fitted, path: adj.panel(crowd.votes),
    "rates": lambda crowd, fitted, path: adj.rates(crowd.votes, truth=crowd.truth),
    "predict": lambda crowd, fitted, path: fitted.predict(crowd.votes),
    "explain": lambda crowd, fitted, path: fitted.explain("t1"),
    "join": lambda crowd, fitted, path: fitted.join(crowd.votes),
    "report": lambda crowd, fitted, path: fitted.report(path / "report.html"),
    "encode": lambda crowd, fitted, path: adj.encode(crowd.votes.rows(), path / "encoded"),
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_in_a_forked_child_raises(query, crowd, tmp_path):
    crowd.votes.write_csv(tmp_path / "votes.csv", quote_style="always")
    crowd.votes.write_parquet(tmp_path / "votes.parquet")
    result = adj.aggregate(crowd.votes, model="fds")  # frames of a result are made once: this one has none yet
    assert REMEDY in answer_of_child(lambda: QUERIES[query](crowd, result, tmp_path))


WORKS = {
    "aggregate": lambda crowd, fitted: adj.aggregate(crowd.votes.rows()),
    "fit of a frame": lambda crowd, fitted: adj.DawidSkene().fit(crowd.votes),
    "labels": lambda crowd, fitted: fitted.labels,
    "probabilities": lambda crowd, fitted: fitted.probabilities,
    "confusion": lambda crowd, fitted: fitted.confusion("w1"),
    "stream": lambda crowd, fitted: adj.Online(labels=["l0", "l1"]).learn("t", "w", "l0"),
}


@pytest.mark.parametrize("work", WORKS)
def test_what_needs_no_threads_of_polars_works_in_a_forked_child(work, crowd, fitted):
    assert answer_of_child(lambda: WORKS[work](crowd, fitted)) == "done"


def test_a_csv_file_without_quotation_marks_is_read_in_a_forked_child(crowd, fitted, tmp_path):
    """The compiled core reads it, with threads of its own."""
    crowd.votes.write_csv(tmp_path / "votes.csv")
    adj.read(tmp_path / "votes.csv")  # the threads of the parent have run
    assert answer_of_child(lambda: adj.aggregate(adj.read(tmp_path / "votes.csv"))) == "done"


def test_a_child_of_a_child_raises_too(crowd, fitted):
    def act():
        raise adj.AdjudgeError(answer_of_child(lambda: fitted.workers))

    assert REMEDY in answer_of_child(act)


def test_the_parent_goes_on(crowd):
    result = adj.aggregate(crowd.votes, model="fds")
    assert answer_of_child(lambda: None) == "done"
    assert len(result.workers) == 9


def _workers(rows):
    try:
        return len(adj.aggregate(rows, model="fds").workers)
    except adj.AdjudgeError as error:
        return str(error)


def test_a_pool_of_forked_processes_raises_and_a_pool_of_spawned_ones_works(crowd):
    rows = crowd.votes.rows()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert REMEDY in pool.apply_async(_workers, (rows,)).get(CHILD_TIMEOUT_S)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(_workers, (rows,)).get(CHILD_TIMEOUT_S) == 9


UNTOUCHED = """
import os, signal, sys
import adjudge as adj, polars as pl
child = os.fork()
if not child:
    signal.alarm(60)
    votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t2", "ann", "dog")]
    os._exit(0 if len(adj.aggregate(votes).workers) == 2 else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_forked_before_the_first_query_works():
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", UNTOUCHED], check=False, timeout=CHILD_TIMEOUT_S).returncode == 0


def test_only_calls_of_adjudge_raise(crowd):
    """A query by others is theirs: adjudge leaves it to polars."""
    from adjudge.forks import _wrap

    assert _wrap(pl.LazyFrame.collect)(crowd.votes.lazy()).equals(crowd.votes)
