"""Every example of README and docs is run; every link and Makefile target they name is there."""

import doctest
import inspect
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import adjudge as adj
from adjudge.cli.main import COMMANDS
from adjudge.models.base import MODELS, Model
from spark_there import missing

ROOT = Path(__file__).parents[1]
OUTSIDE = ("README.md", "SKILL.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md")
PAGES = [ROOT / name for name in OUTSIDE] + sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ON_SPARK = {"spark.md", "streaming.md"}  # pages whose examples need pyspark and Java
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page, language):
    return [body for kind, body in FENCE.findall(page.read_text()) if kind == language]


def examples(page):
    """The page's python and console blocks in order: (language, body)."""
    return [(kind, body) for kind, body in FENCE.findall(page.read_text()) if kind in ("python", "console")]


def run_python(body, names, where):
    test = doctest.DocTestParser().get_doctest(body, names, str(where), str(where), 0)
    assert test.examples, f"{where}: a python block without >>> shows nothing"
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    report = []
    runner.run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


class Beside:
    """Services that a page starts with `adjudge serve … &`, on port 8000 as it reads: any free one takes its place."""

    def __init__(self):
        self.running, self.port = [], None

    def start(self, command, folder, env):
        """Start one; what it says until it listens."""
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command} --port 0"],
            cwd=folder,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        line = process.stderr.readline()
        assert line.startswith("adjudge listens on "), f"{command}\n{line}{process.stderr.read()}"
        self.port = int(line.rpartition(":")[2])
        threading.Thread(target=process.stderr.read, daemon=True).start()
        return self.as_read(line)

    def as_run(self, text):
        """What a page says, for the port that was free."""
        if self.port is None:
            return text
        text = re.sub(r"^(adjudge (?:vote|watch) .*)", r"\1 --url http://127.0.0.1:8000", text)
        return text.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}")

    def as_read(self, text):
        return text if self.port is None else text.replace(f":{self.port}", ":8000")

    def end(self):
        for process in self.running:
            process.terminate()
            assert process.wait(60) == 0, "a service stops in order"
            process.stderr.close()
        self.running.clear()


def run_console(body, folder, where, beside=None):
    beside = Beside() if beside is None else beside
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "100", "NO_COLOR": "1"}
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n?)*)", body, re.MULTILINE):
        if command.endswith(" &"):
            shown = beside.start(command.removesuffix(" &"), folder, env)
        else:
            done = subprocess.run(
                ["bash", "-c", beside.as_run(command)],
                cwd=folder,
                env=env,
                capture_output=True,
                text=True,
                check=False,
                timeout=240,
            )
            assert done.returncode == 0, f"{where}: {command}\n{done.stderr}"
            shown = beside.as_read(done.stdout + done.stderr)
        if expected.strip():
            assert doctest.OutputChecker().check_output(expected, shown, FLAGS), f"{where}: {command}\n{shown}"


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # py4j leaves sockets to the collector
@pytest.mark.parametrize("page", [p for p in PAGES if examples(p)], ids=lambda p: p.relative_to(ROOT).as_posix())
def test_examples_run(page, tmp_path, monkeypatch):
    if page.name in ON_SPARK and (why := missing()):
        pytest.skip(why)
    if "$ curl" in page.read_text() and shutil.which("curl") is None:
        pytest.skip("curl is not there")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # as in an environment that is activated
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    for data in re.findall(r"\]\(([\w-]+\.(?:eval|csv))\)", page.read_text()):  # files that the page comes with
        shutil.copy(page.parent / data, tmp_path)
    names, beside = {}, Beside()
    try:
        for language, body in examples(page):
            if language == "python":
                run_python(beside.as_run(body), names, page.name)
            else:
                run_console(body, tmp_path, page.name, beside)
    finally:
        beside.end()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_links_to_the_concepts():
    concepts = ROOT / "docs" / "concepts.md"
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page != concepts and not re.match(r"\d", page.name)]  # or a record
    links = {page: re.findall(r"\]\(([^)#]*concepts\.md)", page.read_text()) for page in pages}
    assert [page.name for page in pages if concepts not in [(page.parent / link).resolve() for link in links[page]]] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in blocks(page, "bash"):
        assert set(re.findall(r"\bmake ([a-z-]+)", block)) <= targets


@pytest.mark.parametrize("page", [ROOT / name for name in OUTSIDE], ids=lambda p: p.relative_to(ROOT).as_posix())
def test_named_commands_exist(page):
    named = re.findall(r"`adjudge ([a-z][a-z-]*)|^\$ adjudge ([a-z][a-z-]*)", page.read_text(), re.MULTILINE)
    assert {a or b for a, b in named} <= set(COMMANDS)


def test_skill_has_the_front_matter_that_agents_look_for():
    text = (ROOT / "SKILL.md").read_text()
    name, description = re.fullmatch(r"---\nname: (.*)\ndescription: (.*)\n---\n\n# .*", text, re.DOTALL).groups()
    assert name == "adjudge"
    assert len(description) <= 1024
    assert "\n" not in description
    assert ": " not in description, "YAML would take it for a mapping"
    assert len(text.splitlines()) <= 150


def test_make_alone_lists_every_target():
    shown = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=240).stdout
    for target in ("setup", "demo", "test", "lint", "bench", "docs", "clean"):
        assert f"make {target}" in shown


def test_decisions_are_numbered_once_and_listed():
    records = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    listed = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    assert len({path.name[:3] for path in records}) == len(records)
    assert [path.name for path in records if f"\n- {int(path.name[:3])}: [" not in listed or f"({path.name})" not in listed] == []


@pytest.mark.parametrize("record", sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")), ids=lambda path: path.stem)
def test_a_decision_has_a_date_a_status_and_code_that_exists(record):
    header = record.read_text(encoding="utf-8").splitlines()[2]
    assert re.match(r"\*\*Date\*\* 20\d\d-\d\d-\d\d · \*\*Status\*\* \w.* · \*\*Governs\*\* `", header)
    governed = re.findall(r"`([^`]+)`", header.split("**Governs**")[1])
    assert governed
    assert [path for path in governed if not (ROOT / path).exists()] == []


NUMPYDOC_ENTRY = re.compile(r"^ *((?:\*{0,2}\w+)(?:, \*{0,2}\w+)*)(?: : .*)?$", re.MULTILINE)


def parameters():
    """Every public function, constructor and method: (name, function, what explains it)."""
    for name in adj.__all__:
        thing = getattr(adj, name)
        if inspect.isfunction(thing):
            yield name, thing, thing.__doc__
        elif inspect.isclass(thing) and not issubclass(thing, BaseException):
            if inspect.isfunction(thing.__init__) and (issubclass(thing, Model) or not hasattr(thing, "__dataclass_fields__")):
                kinds = (*thing.mro()[:-1], thing.__init__)
                yield name, thing.__init__, "\n".join(kind.__doc__ or "" for kind in kinds)
            for method, function in inspect.getmembers(thing, inspect.isroutine):
                if not method.startswith("_") and "adjudge" in str(getattr(function, "__module__", "")):
                    yield f"{name}.{method}", function, function.__doc__


@pytest.mark.parametrize(("name", "function", "text"), [pytest.param(*each, id=each[0]) for each in parameters()])
def test_every_parameter_is_explained(name, function, text):
    given = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
    listed = {name for names in NUMPYDOC_ENTRY.findall(text) for name in re.findall(r"\w+", names)}
    assert [p for p in given if p not in listed] == []


def test_help_of_aggregate_names_the_models():
    assert [name for name in MODELS if f'"{name}"' not in adj.aggregate.__doc__] == []
