"""What a race writes: its page and the plot."""

import re
from pathlib import Path

import plot
import studies
import tables
from contestants import OURS, PEERS, contestants
from summary import sentence

from adjudge.io.write import write_aside

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "benchmarks" / "measured" / "race" / "README.md"
SIMULATED = " x "  # in the names of simulated cells
SHOWN = ("crowd-kit DawidSkene", "peerannot DawidSkene", "snorkel LabelModel", "adjudge ds", "adjudge fds")  # in the short table


def replaced(text, name, block):
    """A text with another block between the markers `<!-- NAME -->` and `<!-- /NAME -->`."""
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    out, n = marked.subn(lambda match: match[1] + block.strip("\n") + "\n" + match[2], text)
    if n != 1:
        raise ValueError(f"markers <!-- {name} --> and <!-- /{name} --> are there {n} times: give them once")
    return out


def blocks(results):
    """{marker: Markdown} of the page."""
    cells, names = results["cells"], [one.name for one in contestants()]
    simulated = [cell for cell in cells if SIMULATED in cell["name"]]
    shared = [cell for cell in cells if SIMULATED not in cell["name"]]
    studied = results.get("studies", {})
    others = [cell for study in studied.values() for cell in study["cells"]]
    return {
        "summary": sentence(cells) if cells else "",
        "short": short_block(cells),
        "machine": f"{results['machine']}; `{results['command']}`, limit {results['limit']:g} s a fit.",
        "simulated": all_kinds(simulated, names),
        "sets": all_kinds(shared, names),
        "failures": "\n".join(tables.failures([*cells, *others])) or "Nothing failed.",
        "libraries": tables.libraries([*cells, *others]),
        **{study: study_block(study, studied.get(study)) for study in studies.STUDIES},
        "equal": tables.equals(results["equal"]) if results["equal"] else "Not measured in this run.",
        "stages": tables.stages(results["stages"]) if results["stages"] else "Not measured in this run.",
    }


def all_kinds(cells, names):
    """Tables of all kinds of figures, with the sizes of the cells below."""
    if not cells:
        return "Not measured in this run."
    sizes = [f"{c['name']} ({c['votes']:,} votes, {c['workers']:,} workers, {c['labels']} labels)" for c in cells]
    return "\n\n".join([*(tables.matrix(cells, names, kind) for kind in tables.KINDS), f"Cells: {', '.join(sizes)}."])


def study_block(study, results):
    """Tables of a race over rankings or agreement."""
    if not results:
        return "Not measured in this run."
    names = [one.name for one in studies.STUDIES[study]]
    kinds = ("seconds", "MB", "difference")
    rows = [tables.matrix(results["cells"], names, kind, studies.rivals(study)) for kind in kinds]
    return "\n\n".join([*rows, f"{results['machine']}; `{results['command']}`."])


def short_block(cells):
    """The short table: Dawid-Skene over four labels, by votes."""
    cells = [cell for cell in cells if SIMULATED in cell["name"] and cell["labels"] == 4]
    rows = [[f"{cell['votes']:,}", *(tables.brief(cell["lines"].get(name, {})) for name in SHOWN)] for cell in cells]
    names = [name.replace("adjudge ds", "`ds`").replace("adjudge fds", "`fds`") for name in SHOWN]
    return tables.markdown(["votes", *names], rows)


def write(results):
    """Write the page and the plot."""
    text = PAGE.read_text()
    for name, block in blocks(results).items():
        text = replaced(text, name, block)
    write_aside(PAGE, lambda aside: aside.write_text(text))
    simulated = [cell for cell in results["cells"] if SIMULATED in cell["name"] and cell["labels"] == 4]
    plot.draw(simulated, [one for one in (*PEERS, *OURS) if one.family], PAGE.with_name("time.svg"))
