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


@dataclass(frozen=True)
class Reproduction:
    """What was measured at every point of Figure 1, and whether plots could be drawn."""

    grid: dict[tuple[str, str, int], Spot]
    drawn: bool


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
    spots, made, gaps = _measure(folder, names, plan, CellFolder(out / CACHE, done or (lambda _: None)))
    for name, frame in made.items():
        tables.write(frame, out, name)
    drawn = plots.available()
    if drawn:
        plots.figure1(made["figure1"], out)
        plots.likelihoods(made["likelihood"], out)
        plots.gaps(gaps, out)
        plots.scaling(made["scaling"], experiments.PAPER_EXPONENTS, out)
    tables.write_text(report.text(made, plan, names, drawn=drawn), out / "report.md")
    return Reproduction(spots, drawn)


def _measure(
    folder: Path, names: list[str], plan: GridPlan, cells: CellFolder
) -> tuple[dict[tuple[str, str, int], Spot], dict[str, pl.DataFrame], pl.DataFrame]:
    """Return the grid, the tables by name, and the gaps to the limit."""
    spots: dict[tuple[str, str, int], Spot] = {}
    parts, made = [], dict[str, pl.DataFrame]()
    for name in names:
        questions = grid.load(folder, name)
        spots |= grid.run_grid(questions, plan, cells)
        parts.append([part(questions, cells) for part in (experiments.likelihoods, experiments.switches, experiments.gaps)])
        if name == experiments.STREAMED_SET:
            online = experiments.stream_questions(questions, cells)
            made = {"table3": tables.table3(online), "table4": tables.table4(spots, online)}
    made["likelihood"], made["switch"], gaps = (pl.concat(frames) for frames in zip(*parts, strict=True))
    made["scaling"] = experiments.measure_scaling(cells)
    if experiments.multi_label_sets(folder):
        made["table5"] = tables.table5(experiments.choose_options(folder, cells))
    made |= {"figure1": tables.figure1(spots), "table1": tables.table1(spots), "table2": tables.table2(spots)}
    made |= {"verdicts": report.judge(spots, plan.subset), "convergence": experiments.rates(gaps)}
    return spots, made | {"exponents": experiments.exponents(made["scaling"])}, gaps
