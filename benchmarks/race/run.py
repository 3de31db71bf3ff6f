"""`make race`: adjudge against everything a user might choose instead, on the same votes, in one run.

    python benchmarks/race/run.py [--quick] [--again] [--limit SECONDS] [--no-stages] [--dry] [--only CELL… [--write]]
    python benchmarks/race/run.py --studies [--quick] [--write]

Every contestant fits in a process of its own, in the environment of its library, which is made at first use. What is done is kept
after every cell: a race that was interrupted continues where it stopped, unless `--again` is given. At the end results.json,
benchmarks/measured/race is written. `--quick` takes small sizes and short limits (5 minutes) and only prints, as do
`--dry` and, without `--write`, `--only`.
"""

import argparse
import json
import shlex
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1]))  # measure and environments are those of all benchmarks

import cells
import contestants
import environments
import equal
import pages
import studies
import turns
from likelihood import Judge
from measure import machine

HERE = Path(__file__).parent
KEPT = HERE / ".cells"  # what an interrupted race has done
LIMIT, QUICK_LIMIT = 20.0, 5.0  # seconds of a fit
TOGETHER = 1_000_000  # votes up to which all contestants are loaded at once, and take turns


class Kept:
    """Pieces of a race that are done, each a file; those of a race with other settings are thrown away."""

    def __init__(self, folder, settings, again=False):
        self.folder, mark = folder, folder / "settings.json"
        if again or not mark.exists() or json.loads(mark.read_text()) != settings:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            mark.write_text(json.dumps(settings))

    def get(self, name, make):
        """A piece that is there, or is made and kept now."""
        path = self.folder / f"{name.replace(' ', '')}.json"
        if path.exists():
            print(f"{name}: kept from before", file=sys.stderr)
        else:
            found = make()
            aside = path.with_suffix(".tmp")
            aside.write_text(json.dumps(found))
            aside.rename(path)
        return json.loads(path.read_text())


def pythons(entrants):
    """{library: its Python, or a path that is not there}, and {library: why not}, of those who race."""
    out, missing = {"adjudge": Path(sys.executable)}, {}
    for library in dict.fromkeys(one.library for one in entrants if one.library in contestants.PACKAGES):
        packages = contestants.PACKAGES[library]
        try:
            out[library] = environments.environment(f".peers-{library}", packages)
        except environments.UnavailableError as error:
            out[library], missing[library] = HERE / "none", f"not installed: {error}"
            print(f"{library}: {missing[library]}", file=sys.stderr)
    return out, missing


def race_cell(field, folder, limit, done, where, missing):
    """One cell with the lines of all contestants."""
    cell = field.cell
    lines, entrants = turns.admit(contestants.contestants(), cell, done, where, missing)
    together = len(entrants) if cell["votes"] <= TOGETHER else 1
    data = field.data()
    lines |= turns.take_turns(entrants, cell, data, folder, limit, together, Judge(data))
    return {**cell, "lines": lines}


class Field(NamedTuple):
    """A cell, the file of its votes, and what writes that file; sets are written at once, since that tells their sizes."""

    cell: dict
    path: Path
    write: object = None

    def data(self):
        if self.write and not self.path.exists():
            self.write(self.path)
        return self.path


def fields(folder, quick):
    """All cells, smaller ones first, so that who was stopped is not asked for more."""
    out = []
    for name in cells.sets(quick):
        path = folder / f"{name}.npz"
        out.append(Field({"name": name, **cells.shared(path, name)}, path))
    for name, votes, labels in cells.crowds(quick):
        sizes = {"votes": votes, "tasks": votes // cells.PER_TASK, "workers": cells.workers_of(votes), "labels": labels}
        write = partial(cells.simulated, votes=votes, labels=labels)
        out.append(Field({"name": name, **sizes}, folder / f"{votes}-{labels}.npz", write))
    return sorted(out, key=lambda one: (one.cell["votes"], one.cell["labels"]))


def raced(folder, kept, limit, quick, where, missing, only=()):
    """(cells with their lines, races to equal likelihood)."""
    done, equals = [], []
    for field in fields(folder, quick):
        if only and field.cell["name"] not in only:
            continue
        began, name = time.perf_counter(), field.cell["name"]
        done.append(kept.get(name, partial(race_cell, field, folder, limit, list(done), where, missing)))
        if name in (*equal.SETS, equal.CROWD):
            equals.append(kept.get(f"equal {name}", partial(equal.race, field, folder, limit, where)))
        field.path.unlink(missing_ok=True)
        print(f"{name} ({time.perf_counter() - began:.0f} s)", file=sys.stderr, flush=True)
    return done, equals


def staged(kept):
    """Rows of our own path; a failure is reported and does not end the race."""
    import stages

    try:
        return kept.get("stages", stages.measured)
    except Exception:
        traceback.print_exc()
        return []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes and short limits; nothing is written")
    parser.add_argument("--again", action="store_true", help="forget what an interrupted race has done")
    parser.add_argument("--no-stages", action="store_true", help="leave our own path out")
    parser.add_argument("--limit", type=float, help=f"seconds of a fit, after which it is stopped (default: {LIMIT:g})")
    parser.add_argument("--dry", action="store_true", help="print, and write nothing")
    parser.add_argument("--only", nargs="+", metavar="CELL", help="cells to race, as 'rte' or '1M x 4'")
    parser.add_argument("--write", action="store_true", help="write the page from these cells alone, which it then says")
    parser.add_argument("--studies", action="store_true", help="race over rankings and agreement alone; --write adds them")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    limit = given.limit or (QUICK_LIMIT if given.quick else LIMIT)
    dry = given.dry or (given.quick and not given.studies) or ((given.only or given.studies) and not given.write)
    kind = "some" if given.only else "studies" if given.studies else "quick" if given.quick else "full"
    kept = Kept(KEPT / kind, {"machine": machine(), "limit": limit, "quick": given.quick}, given.again)
    peers = [] if given.studies else contestants.PEERS
    rankers = [] if given.only else [one for study in studies.STUDIES.values() for one in study]
    where, missing = pythons([*peers, *rankers])
    studied = {}
    with tempfile.TemporaryDirectory(prefix="adjudge-race-") as folder:
        if not given.studies:
            done, equals = raced(Path(folder), kept, limit, given.quick, where, missing, given.only or ())
        if not given.only:
            studied = studies.race(Path(folder), kept, limit, given.quick, where, missing)
    said = {"machine": machine(), "command": shlex.join(["python", "benchmarks/race/run.py", *sys.argv[1:]])}
    studied = {study: {**said, "cells": found} for study, found in studied.items()}
    if given.studies:
        finish({**json.loads((HERE / "results.json").read_text()), "studies": studied}, dry, studied)
        shutil.rmtree(kept.folder)
        return
    rows = [] if dry or given.no_stages else staged(kept)
    command = "make race QUICK=1" if given.quick else "make race"
    if given.only or given.no_stages or given.limit:  # what was left out is to be seen
        command = shlex.join(["python", "benchmarks/race/run.py", *sys.argv[1:]])
    results = {"machine": machine(), "command": command, "limit": limit, "cells": done, "equal": equals, "stages": rows}
    finish({**results, "studies": studied}, dry)
    shutil.rmtree(kept.folder)


def finish(results, dry, shown=None):
    """Print the blocks of the page, or those that are `shown`, and write them unless this is a dry run."""
    for name, block in pages.blocks(results).items():
        if shown is None or name in shown:
            print(f"\n## {name}\n\n{block}")
    if not dry:
        (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        pages.write(results)


if __name__ == "__main__":
    main()
