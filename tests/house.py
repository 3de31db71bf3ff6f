"""How large the package is, how far a reader walks through it, and which names mean two things.

    python tests/house.py    prints every figure

A code line has a token that is neither a comment nor part of a docstring. A walk lists the files whose functions a call
enters for the first time, in order; a return is a stop in a file that the walk has left before.
"""

import ast
import inspect
import io
import json
import subprocess
import sys
import tempfile
import tokenize
import tomllib
from collections import defaultdict
from pathlib import Path

import adjudge

PACKAGE = Path(adjudge.__file__).resolve().parent
ROOT = Path(__file__).resolve().parents[1]
TINY_LINES = 25
BLANK = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
WALKS = {
    "aggregate(path).labels": "TRACE\nadj.aggregate(folder + '/v.csv', model='fds').labels",
    "command line": (
        "from adjudge.cli.main import main\n"
        "sys.argv = ['adjudge', 'aggregate', folder + '/v.csv', '-o', folder + '/l.csv', '--model', 'fds', '--quiet']\n"
        "TRACE\ntry: main()\nexcept SystemExit: pass"
    ),
    "result.workers": "result = adj.aggregate(crowd.votes)\nTRACE\nresult.workers",
    "result.report(path)": "result = adj.aggregate(crowd.votes)\nTRACE\nresult.report(folder + '/r.html')",
    "agreement(frame)": "TRACE\nadj.agreement(crowd.votes)",
    "aggregate(path, engine='disk').labels": "TRACE\nadj.aggregate(folder + '/v.csv', model='fds', engine='disk').labels",
    "Online.learn": "online = adj.Online(labels=['a', 'b']); online.learn('t', 'w', 'a')\nTRACE\nonline.learn('u', 'x', 'b')",
}
BEFORE = """
import json, pathlib, sys, warnings
warnings.simplefilter("ignore")
import adjudge as adj
folder = sys.argv[1]
crowd = adj.simulate(tasks=60, workers=8, seed=1); crowd.votes.write_csv(folder + "/v.csv")
root = str(pathlib.Path(adj.__file__).resolve().parent); seen, stops = set(), []
def watch(frame, event, arg):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(root) and code.co_name[0] != "<" and code not in seen:
        seen.add(code)
        if not stops or stops[-1] != code.co_filename: stops.append(code.co_filename)
"""
AFTER = """
sys.setprofile(None)
print("WALK" + json.dumps([len(set(stops)), len(stops) - len(set(stops))]))
"""


def walk(name):
    """(files, returns) of one of the walks, in a fresh interpreter that has made the same call once untraced."""
    body = WALKS[name]
    code = BEFORE + body.replace("TRACE\n", "") + "\n" + body.replace("TRACE", "sys.setprofile(watch)") + AFTER
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=False, timeout=300)
    line = next((line for line in done.stdout.splitlines() if line.startswith("WALK")), None)
    assert line is not None, done.stderr
    return tuple(json.loads(line[4:]))


def docstring_lines(tree):
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                lines |= set(range(first.lineno, first.end_lineno + 1))
    return lines


def code_lines(text, tree):
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in BLANK:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(tree))


def measure():
    """Every figure that needs no walk, by name."""
    lines, tiny, files, reading = 0, 0, 0, 0
    classes, constants = defaultdict(set), defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        count = code_lines(text, tree)
        lines, files, tiny = lines + count, files + 1, tiny + (count < TINY_LINES and path.name != "__init__.py")
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name.lstrip("_")].add(path)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                reading += "normalize" in [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
        for node in tree.body:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(target, ast.Name) and target.id.lstrip("_").isupper() and node.value is not None:
                constants[target.id.lstrip("_")].add(ast.unparse(node.value))
    kept = [path for path in PACKAGE.iterdir() if path.suffix not in (".so", ".pyd", ".typed") and not path.name.startswith("__")]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    parameters = inspect.signature(adjudge.aggregate).parameters.values()
    return {
        "code lines": lines,
        "files": files,
        "tiny files": tiny,
        "names at the top": len(kept),
        "layers": len(settings["tool"]["importlinter"]["contracts"][0]["layers"]),
        "parameters of aggregate": sum(one.kind is not one.VAR_KEYWORD for one in parameters),
        "functions that spell reading options": reading,
        "class names in several files": sum(len(paths) > 1 for paths in classes.values()),
        "constants with several values": sum(len(values) > 1 for values in constants.values()),
    }


if __name__ == "__main__":
    for name, figure in measure().items():
        print(f"{figure:7,}  {name}")
    for name in WALKS:
        files, returns = walk(name)
        print(f"{files:7}  files, {returns} returns: {name}")
