"""The whole reproduction: every experiment that the data and this version allow, its tables, plots and report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from adjudge.errors import InputError, OptionError
from adjudge.paper import experiments, grid, plots, published, report, tables
from adjudge.paper.grid import CellFolder, GridPlan, Spot

CACHE = ".cells"  # below the folder of results
PER_SET = 3  # cells of a set besides its part of the grid: likelihoods, switches, gaps


@dataclass
class Reproduction:
    """What was measured; None where this version or the data folder cannot."""

    plan: GridPlan
    sets: list[str]
    grid: dict[tuple[str, str, int], Spot]
    likelihoods: pl.DataFrame
    switches: pl.DataFrame
    gaps: pl.DataFrame
    scaling: pl.DataFrame
    online: pl.DataFrame | None
    multiple: pl.DataFrame | None
    drawn: bool = False


def cells_of(sets: Iterable[str], folder: Path) -> int:
    """Return the number of cells of a run, for its progress."""
    count = sum(len(values) for values in experiments.SWEEPS.values())
    for name in sets:
        count += published.annotators(name) * len(grid.methods(name)) + PER_SET
        if name == experiments.STREAMED_SET:
            count += len(experiments.STREAMED_ANNOTATOR_COUNTS) * len(published.EM_METHODS)
    return count + len(experiments.multi_label_sets(folder)) * len(published.EM_METHODS)


def reproduce(
    folder: Path,
    out: Path,
    sets: Iterable[str] | None = None,
    plan: GridPlan | None = None,
    *,
    fresh: bool = False,
    done: Callable[[str], object] | None = None,
) -> Reproduction:
    """Run the paper's experiments on the sets in `folder` and write tables, plots and report.md into `out`.

    Finished cells are kept in out/.cells, and used again unless `fresh`.
    """
    plan = plan or GridPlan()
    names = grid.choose(sets)
    if plan.subset not in grid.SUBSET_NAMES:
        raise OptionError(f"subset is {plan.subset!r}: accepted are {', '.join(grid.SUBSET_NAMES)}")
    if plan.trials < 1:
        raise OptionError(f"trials is {plan.trials}: give a whole number of at least 1")
    grid.require(folder, names)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: name a folder")
    out.mkdir(parents=True, exist_ok=True)
    if fresh:
        for path in (out / CACHE).glob("*.json"):
            path.unlink()
    found = _measure(folder, names, plan, CellFolder(out / CACHE, done or (lambda _: None)))
    _write(found, out)
    return found


def _measure(folder: Path, names: list[str], plan: GridPlan, cells: CellFolder) -> Reproduction:
    spots: dict[tuple[str, str, int], Spot] = {}
    parts, online = [], None
    for name in names:
        questions = grid.load(folder, name)
        spots |= grid.run_grid(questions, plan, cells)
        parts.append([part(questions, cells) for part in (experiments.likelihoods, experiments.switches, experiments.gaps)])
        if name == experiments.STREAMED_SET:
            online = experiments.stream_questions(questions, cells)
    likelihoods, switches, gaps = (pl.concat(some) for some in zip(*parts, strict=True))
    scaling = experiments.measure_scaling(cells)
    multiple = experiments.choose_options(folder, cells) if experiments.multi_label_sets(folder) else None
    return Reproduction(plan, names, spots, likelihoods, switches, gaps, scaling, online, multiple)


def _write(found: Reproduction, out: Path) -> None:
    made: dict[str, pl.DataFrame] = {
        "figure1": tables.figure1(found.grid),
        "table1": tables.table1(found.grid),
        "table2": tables.table2(found.grid),
        "verdicts": report.judge(found.grid, found.plan.subset),
        "likelihood": found.likelihoods,
        "switch": found.switches,
        "convergence": experiments.rates(found.gaps),
        "scaling": found.scaling,
        "exponents": experiments.exponents(found.scaling),
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
        plots.scaling(found.scaling, experiments.PAPER_EXPONENTS, out)
    text = report.text(made, found.plan, found.sets, drawn=found.drawn)
    tables.write_text(text, out / "report.md")
