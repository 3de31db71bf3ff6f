"""Tables of a race in Markdown: a line for each contestant, a column for each cell."""

import re

from contestants import PEERS, ours_of
from summary import seconds

KINDS = {  # what a table shows, and how a figure of it is written
    "seconds": ("Time", seconds),
    "MB": ("Peak memory above the votes, MB", lambda value: f"{value:.3g}" if value < 1000 else f"{value:.0f}"),
    "accuracy": ("Accuracy, %", lambda value: f"{100 * value:.1f}"),
    "log_likelihood": ("Log-likelihood of its parameters", lambda value: f"{value:.1f}"),
}


def markdown(head, rows):
    """Lines of a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(x) for x in line) + " |" for line in lines)


STUDY_KINDS = {**KINDS, "difference": ("Largest difference from our figures", "{:.1g}".format)}


def matrix(cells, names, kind, rivals=None):
    """One table: contestants x cells. Times of peers have behind them how many times ours they are.

    - `rivals`: {peer: ours}; None for those of the race over labels.
    """
    shown = STUDY_KINDS[kind][1]
    rivals = rivals or {peer.name: ours_of(peer) for peer in PEERS}
    rows = []
    for name in names:
        row = [_entry(cell["lines"], name, kind, shown, rivals.get(name)) for cell in cells]
        if any(row):
            rows.append([name, *row])
    return markdown([STUDY_KINDS[kind][0], *(cell["name"] for cell in cells)], rows)


def _entry(lines, name, kind, shown, rival):
    line = lines.get(name, {})
    if kind in line:
        ours = lines.get(rival, {}).get("seconds") if kind == "seconds" and rival else None
        return shown(line[kind]) + (f" ({times(line[kind] / ours)})" if ours else "")
    if kind != "seconds" or "why" not in line:
        return ""
    return "failed" if line["why"].startswith("failed") else line["why"]


def brief(line):
    """The time of a line, or in few words why there is none."""
    if "seconds" in line:
        return seconds(line["seconds"])
    return line.get("why", "").split(":")[0]


def times(ratio):
    """How many times, for people: two digits."""
    return f"{ratio:.2g}x" if ratio < 100 else f"{float(f'{ratio:.2g}'):.0f}x"


def failures(cells):
    """Lines that list the failures with their messages."""
    out = {}
    for cell in cells:
        for name, line in cell["lines"].items():
            if line.get("why", "").startswith(("failed", "its preparation", "not installed")):
                out.setdefault((name, line["why"]), []).append(cell["name"])
    return [f"- {name} ({', '.join(where)}) {why}".replace("`", "'") for (name, why), where in out.items()]


def libraries(cells):
    """A table of versions and import times."""
    found = {}
    for cell in cells:
        for name, line in cell["lines"].items():
            if "versions" in line:
                library = next(x for x in line["versions"] if name.startswith(x)) if line["versions"] else name
                found.setdefault(library, (line["versions"], []))[1].append(line["import"])
    rows = []
    for library, (versions, times_taken) in found.items():
        beside = ", ".join(f"{name} {version}" for name, version in versions.items() if name != library)
        rows.append([f"{library} {versions[library]}", beside, seconds(sorted(times_taken)[len(times_taken) // 2])])
    return markdown(["library", "with", "import (not charged)"], rows)


def equals(races):
    """The table of times to one likelihood."""
    rows = []
    for race in races:
        ours = race["lines"].get("adjudge ds", {}).get("seconds")
        for name, line in race["lines"].items():
            if "seconds" not in line:
                rows.append([race["name"], name, "", line["why"]])
                continue
            lead = f" ({times(line['seconds'] / ours)})" if ours and not name.startswith("adjudge") else ""
            rows.append([race["name"], name, line["iterations"], seconds(line["seconds"]) + lead])
    return markdown(["votes", "contestant", "iterations", "time"], rows)


def stages(rows):
    """Return the table of our own path: what, wanted, measured."""
    lines = []
    for row in rows:
        lines.append([row["what"], row["wanted"], figure(row) + (" (missed)" if missed(row) else "")])
    return markdown(["what", "wanted", "measured"], lines)


def figure(row):
    """What was measured, with its unit."""
    return row["measured"] if isinstance(row["measured"], str) else f"{row['measured']:.3g}{row['unit']}"


def missed(row):
    """Whether a figure is on the wrong side of its bar; one that was not measured has missed nothing."""
    if isinstance(row["measured"], str) or not row["wanted"]:
        return False
    word, bar = re.match(r"(at most|at least) ([\d.]+)", row["wanted"]).groups()
    return row["measured"] > float(bar) if word == "at most" else row["measured"] < float(bar)
