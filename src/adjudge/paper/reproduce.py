"""The whole reproduction: every experiment that the data and this version allow, its tables, plots and report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from adjudge.errors import InputError, OptionError
from adjudge.paper import convergence, grid, multiple, plots, protocol, published, report, scaling, streaming, tables
from adjudge.paper import report as verdict
from adjudge.paper.grid import Cells, Plan, Spot

CACHE = ".cells"  # below the folder of results
PER_SET = 3  # cells of a set besides its part of the grid: likelihoods, switches, gaps


@dataclass
class Findings:
    """What was measured; None where this version or the data folder cannot."""

    plan: Plan
    sets: list[str]
    grid: dict[tuple[str, str, int], Spot] = field(default_factory=dict)
    likelihoods: pl.DataFrame = field(default_factory=pl.DataFrame)
    switches: pl.DataFrame = field(default_factory=pl.DataFrame)
    gaps: pl.DataFrame = field(default_factory=pl.DataFrame)
    scaling: pl.DataFrame = field(default_factory=pl.DataFrame)
    online: pl.DataFrame | None = None
    multiple: pl.DataFrame | None = None
    drawn: bool = False


def cells_of(sets: Iterable[str], folder: Path) -> int:
    """Return the number of cells of a run, for its progress."""
    count = sum(len(values) for values in scaling.SWEEPS.values())
    for name in sets:
        count += published.annotators(name) * len(protocol.methods(name)) + PER_SET
        if name == streaming.SET:
            count += len(streaming.ANNOTATORS) * len(published.FAMILY)
    return count + len(multiple.at_hand(folder)) * len(published.FAMILY)


def reproduce(
    folder: Path,
    out: Path,
    sets: Iterable[str] | None = None,
    plan: Plan | None = None,
    *,
    fresh: bool = False,
    done: Callable[[str], object] | None = None,
) -> Findings:
    """Run the paper's experiments on the sets in `folder` and writes tables, plots and report.md into `out`.

    Finished cells are kept in out/.cells, and used again unless `fresh`.
    """
    plan = plan or Plan()
    names = protocol.choose(sets)
    if plan.subset not in protocol.SUBSETS:
        raise OptionError(f"subset is {plan.subset!r}: accepted are {', '.join(protocol.SUBSETS)}")
    if plan.trials < 1:
        raise OptionError(f"trials is {plan.trials}: give a whole number of at least 1")
    protocol.require(folder, names)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: name a folder")
    out.mkdir(parents=True, exist_ok=True)
    if fresh:
        for path in (out / CACHE).glob("*.json"):
            path.unlink()
    found = _measure(folder, names, plan, Cells(out / CACHE, done or (lambda _: None)))
    _write(found, out)
    return found


def _measure(folder: Path, names: list[str], plan: Plan, cells: Cells) -> Findings:
    found = Findings(plan, names)
    parts: dict[str, list[pl.DataFrame]] = {"likelihoods": [], "switches": [], "gaps": []}
    for name in names:
        questions = protocol.load(folder, name)
        found.grid |= grid.run(questions, plan, cells)
        parts["likelihoods"].append(convergence.likelihoods(questions, cells))
        parts["switches"].append(convergence.switches(questions, cells))
        parts["gaps"].append(convergence.gaps(questions, cells))
        if name == streaming.SET:
            found.online = streaming.run(questions, cells)
    found.likelihoods, found.switches, found.gaps = (pl.concat(parts[key]) for key in parts)
    found.scaling = scaling.run(cells)
    if multiple.at_hand(folder):
        found.multiple = multiple.run(folder, cells)
    return found


def _write(found: Findings, out: Path) -> None:
    made: dict[str, pl.DataFrame] = {
        "figure1": tables.figure1(found.grid),
        "table1": tables.table1(found.grid),
        "table2": tables.table2(found.grid),
        "verdicts": verdict.judge(found.grid, found.plan.subset),
        "likelihood": found.likelihoods,
        "switch": found.switches,
        "convergence": convergence.rates(found.gaps),
        "scaling": found.scaling,
        "exponents": scaling.exponents(found.scaling),
    }
    if found.online is not None:
        made |= {"table3": tables.table3(found.online), "table4": tables.table4(found.grid, found.online)}
    if found.multiple is not None:
        made["table5"] = tables.table5(found.multiple)
    for name, frame in made.items():
        tables.write(frame, out, name)
    found.drawn = plots.available()
    if found.drawn:
        plots.figure1(made["figure1"], out)
        plots.likelihoods(found.likelihoods, out)
        plots.gaps(found.gaps, out)
        plots.scaling(found.scaling, scaling.PAPER, out)
    text = report.text(made, found.plan, found.sets, drawn=found.drawn)
    tables.write_text(text, out / "report.md")
