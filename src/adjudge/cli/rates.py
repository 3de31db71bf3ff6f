"""`adjudge rates`: the true share of each label per group of tasks, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from adjudge.cli import reading
from adjudge.cli.command import ANY_MODEL, for_input, for_knowledge, for_model, for_output, one_of
from adjudge.data.options import DEFAULTS, ModelName

if TYPE_CHECKING:
    from adjudge.evaluation.rates.figures import Rates

EXAMPLES = (
    ("The true share of each label per system, from a table of task and group:", "adjudge rates votes.csv --by systems.csv"),
    ("Corrected by known labels of random tasks:", "adjudge rates votes.csv --by systems.csv --gold gold.csv"),
    (
        "Every system against one, on the same prompts:",
        "adjudge rates votes.csv --by systems.csv --item prompt --baseline v1",
    ),
)
MAX_LINES = 40  # of a table on the screen


def command(
    votes: reading.VotesFiles,
    by: Annotated[
        str | None, for_input(help="The group of each task: a column of the votes, or a table of task and group.")
    ] = None,
    gold: Annotated[Path | None, for_knowledge(help="Known labels of random tasks of each group, to correct by.")] = None,
    item: Annotated[
        str | None, for_input(help="What a task is about, to pair groups by: a column of the votes or of --by, or a table.")
    ] = None,
    baseline: Annotated[str | None, for_model(help="The group to compare all others with; else every two are.")] = None,
    confidence: Annotated[float, for_model(help="How often an interval is to hold the truth.")] = 0.9,
    these_tasks: Annotated[
        bool, for_model("--these-tasks", help="Shares among these very tasks, not among what they are a sample of.")
    ] = False,
    model: Annotated[str, for_model("-m", "--model", help=ANY_MODEL, autocompletion=one_of(ModelName))] = DEFAULTS.model,
    seed: Annotated[int, for_model(help="Seed of the model, which decides ties.")] = 0,
    output_path: Annotated[Path | None, for_output("-o", "--output", help="Write the shares here.")] = None,
    differences: Annotated[Path | None, for_output(help="Write the differences between groups here.")] = None,
    gold_needed: Annotated[Path | None, for_output(help="Write how many more known labels would help here.")] = None,
    task: reading.Task = None,
    worker: reading.Worker = None,
    label: reading.Label = None,
    labels: reading.Labels = None,
    wide: reading.Wide = False,
    count: reading.Count = None,
    weight: reading.Weight = None,
    abstain: reading.Abstain = None,
    normalize: reading.Normalize = False,
    strict: reading.Strict = False,
    separator: reading.Separator = None,
    no_header: reading.NoHeader = False,
    duplicates: reading.Duplicates = DEFAULTS.duplicates,
    form: reading.Format = "auto",
    question: reading.Question = None,
    predictions: reading.Predictions = False,
    as_json: Annotated[bool, for_output("--json", help="Print one JSON document instead of tables.")] = False,
    quiet: Annotated[bool, for_output("--quiet", help="Print nothing but warnings.")] = False,
) -> None:
    """Estimate the true share of each label per group of tasks.

    Shares are corrected for what judges get wrong: by the votes alone, or by known labels.
    """
    import adjudge as adj
    from adjudge.cli import console, output
    from adjudge.io.write import write_frame

    written = {"--output": output_path, "--differences": differences, "--gold-needed": gold_needed}
    inputs = {"the votes": votes, "the gold": gold, "the groups": _file(by), "the items": _file(item)}
    output.check(written, inputs, to_stdout=True)
    source = reading.source(votes)
    found = adj.rates(
        source,
        by=by,
        gold=gold,
        item=item,
        baseline=baseline,
        confidence=confidence,
        sample=not these_tasks,
        model=cast(Any, model),
        seed=seed,
        **cast(Any, reading.given(locals())),
    )
    frames = (found.rates_frame, found.differences_frame, found.gold_needed_frame)
    for path, frame in zip(written.values(), frames, strict=True):
        if path is not None:
            write_frame(frame(), path)
    if as_json:
        output.document(found.to_dict() | {"understood": output.summary_of(found.understood)})
    elif not quiet:
        if found.understood is not None:
            console.data().say(output.read_as(votes, found.understood))
        _print(found)


def _file(given: str | None) -> Path | None:
    """Return the file that an option names; None where it names a column."""
    return Path(given) if given is not None and Path(given).exists() else None


def _print(found: Rates) -> None:
    """Print shares, differences and what more known labels would do."""
    from adjudge.cli import console

    out = console.data()
    for sentence in found.sentences():
        out.say(sentence)
    out.print()
    frame = found.rates_frame()
    names = ["group", "label", "share", f"{100 * found.confidence:g}% interval", "of the labels", "tasks", "gold", "by"]
    rows = [
        (
            one["group"],
            one["label"],
            _share(one["share"]),
            _span(one),
            _share(one["naive"]),
            one["tasks"],
            one["gold"],
            one["method"],
        )
        for one in frame.head(MAX_LINES).iter_rows(named=True)
    ]
    out.print(console.table(names, rows, left=2, ids=2))
    _more(len(frame), "-o FILE")
    apart = found.differences_frame()
    if len(apart):
        out.heading("differences of shares, in points")
        names = ["group", "less", "label", "difference", f"{100 * found.confidence:g}% interval", "p-value"]
        names += ["pairs"] if (apart["pairs"] > 0).any() else []
        rows = [
            (
                one["group"],
                one["other"],
                one["label"],
                _points(one["difference"]),
                f"{_points(one['low'])} to {_points(one['high'])}",
                f"{one['p_value']:.2g}" if one["p_value"] >= 1e-4 else "<0.0001",
                *([one["pairs"]] if "pairs" in names else []),
            )
            for one in apart.head(MAX_LINES).iter_rows(named=True)
        ]
        out.print(console.table(names, rows, left=3, ids=3))
        _more(len(apart), "--differences FILE")
    needed = found.gold_needed_frame()
    out.heading("known labels that would halve the widest interval")
    known = needed.select("group", "more", "why").head(MAX_LINES).rows()
    lines = [(group, "–" if more is None else more, why) for group, more, why in known]
    out.print(console.table(["group", "more", "that is"], lines, ids=1))
    _more(len(needed), "--gold-needed FILE")


def _more(lines: int, option: str) -> None:
    from adjudge.cli import console

    if lines > MAX_LINES:
        console.data().say(f"… and {lines - MAX_LINES} more: {option} has all")


def _share(share: float) -> str:
    return f"{100 * share:.1f}%"


def _span(one: dict[str, Any]) -> str:
    return f"{_share(one['low'])} to {_share(one['high'])}"


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"
