import os
import signal
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import settings

from spark_there import CONF, JAVA

settings.register_profile("adjudge", deadline=None, max_examples=40, derandomize=True, print_blob=True)
settings.load_profile("adjudge")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of a shell's background job, and inherited: tests interrupt commands
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Do not override the user's settings.
os.environ.setdefault("SPARK_CONF_DIR", str(CONF))
os.environ.setdefault("SPARK_LAUNCHER_OPTS", JAVA)

collect_ignore_glob = ["io/corpus/*", "inspect_runs.py"]  # scripts that need tools which the tests do not

SETS = ["adult2", "anesthesia", "bm", "labelme", "llmbar_natural", "rte", "snow_temp", "sp", "trec2010", "zencrowd_in"]


# What `make test-slow` runs: other engines, servers, browsers and kernels than the ones a contributor needs. Single tests and
# parameters outside of these files carry the mark themselves.
SLOW = (
    "spark/",
    "gpu/",
    "fuzzing/",
    "test_online_interrupts.py",
    "test_site.py",
    "crowdkit/test_old_pandas.py",
    "report/test_browser.py",
    "service/board/test_accessibility.py",
    "service/board/test_browser.py",
    "service/test_crash.py",
    "service/test_faults.py",
    "service/test_following.py",
    "service/test_leases.py",
    "service/test_loop_budget.py",
    "service/test_uvicorn_versions.py",
    "service/store/test_postgres.py",
    "test_examples.py",
)
# Files that take long go first: two processes that take file after file then end at about the same time.
LONG = (
    "spark/test_cluster.py",
    "spark/",
    "test_docs.py",
    "evaluation/test_contract.py",
    "test_online_interrupts.py",
    "engines/",
    "gpu/",
    "models/",
    "test_same_answer.py",
    "results/",
    "kernels/",
    "test_",
    "report/",
    "service/",
    "io/",
    "cli/",
    "evaluation/agreement/",
    "paper/",
)
IN_ONE_JVM = (
    *(f"tests/spark/test_{name}.py" for name in ("auto", "distributed", "streaming", "same_labels", "frames", "predict")),
    *(f"tests/spark/test_{name}.py" for name in ("cli", "evaluate", "errors", "garbage")),
    *(f"tests/test_docs.py::test_examples_run[docs/{name}.md]" for name in ("spark", "streaming")),
)


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by mark
def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    names = {item: item.path.relative_to(here).as_posix() if item.path.is_relative_to(here) else "" for item in items}
    for item, name in names.items():
        if name.startswith(SLOW) or item.nodeid.startswith(IN_ONE_JVM):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: next((at for at, start in enumerate(LONG) if names[item].startswith(start)), len(LONG)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Files by process, as --dist loadfile has it, and all that needs Spark's session in one: a JVM is slow until it is warm."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneJvm(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return "in one JVM" if nodeid.startswith(IN_ONE_JVM) else super()._split_scope(nodeid)

    return OneJvm(config, log)


@pytest.fixture(scope="session")
def data_dir():
    """The folder of real votes; tests that need it skip without it."""
    folder = os.environ.get("ADJUDGE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("ADJUDGE_DATA names no folder of real votes")
    return Path(folder)


@pytest.fixture(scope="session")
def paper_votes(data_dir):
    """paper_votes(name, k): the first k votes of every question of the paper, and the truth."""

    def load(name, k):
        votes = pl.read_csv(data_dir / name / "votes.csv", infer_schema=False)
        truth = pl.read_csv(data_dir / name / "truth.csv", infer_schema=False)
        enough = votes.group_by("task").len().filter(pl.col("len") >= k).join(truth, on="task", how="semi")
        kept = votes.join(enough, on="task", how="semi", maintain_order="left")
        return kept.filter(pl.int_range(pl.len()).over("task") < k), truth

    return load


@pytest.fixture(params=SETS)
def real_votes(request, data_dir):
    """Each set of real votes, as a path."""
    return data_dir / request.param / "votes.csv"


@pytest.fixture
def crowd_data(tmp_path, monkeypatch):
    """A data folder with small made-up crowds under the names bm, labelme and sp, and sweeps that take no time."""
    import adjudge as adj
    from adjudge.paper import experiments

    for name, labels, votes in (("bm", 2, 5), ("labelme", 8, 3), ("sp", 2, 5)):
        crowd = adj.simulate(tasks=40, workers=8, labels=labels, votes_per_task=votes, seed=5)
        (tmp_path / "data" / name).mkdir(parents=True)
        crowd.votes.write_csv(tmp_path / "data" / name / "votes.csv")
        crowd.truth.write_csv(tmp_path / "data" / name / "truth.csv")
    monkeypatch.setattr(experiments, "BASE_SIZES", {"tasks": 60, "votes_per_task": 3, "workers": 10, "labels": 2})
    monkeypatch.setattr(
        experiments, "SWEEPS", {"tasks": (50, 100), "votes_per_task": (2, 4), "workers": (8, 16), "labels": (2, 4)}
    )
    monkeypatch.setattr(experiments, "TIMED_FITS", 1)
    return tmp_path / "data"


@pytest.fixture
def adjudge(monkeypatch, capsysbinary):
    """adjudge(*arguments) -> (exit code, stdout, stderr), in this process."""
    from adjudge.cli.main import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["adjudge", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = leaving.code or 0
        out, err = capsysbinary.readouterr()
        return code, out.decode(), err.decode()

    return run
