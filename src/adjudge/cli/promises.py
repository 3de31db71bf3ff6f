"""Promises: `adjudge draw-gold` draws tasks for a person to answer, `adjudge certify` says what their answers allow to sign."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from adjudge.cli import output as out
from adjudge.cli.options import VOTES_HELP, DataOnly, Flags, VotesFiles, command, for_knowledge, for_model, for_output
from adjudge.data.options import DEFAULTS
from adjudge.errors import InputError, OptionError, make_visible

if TYPE_CHECKING:
    from adjudge.results.promise.certify import Promise

DEFAULT_ERROR, DEFAULT_RISK = 0.05, 0.1
NOTHING_CERTIFIED: Final = 3  # exit code
WITHOUT_GOLD: Final = ("gold", "calibrate")  # what a fit that is certified must not have learned from
DRAW_TO_HELP: Final = (
    "Write -o in the format of the votes (auto), ready to import: label-studio, argilla or argilla-flat (tasks "
    "without votes), table (a line per task)."
)
Mode = Annotated[str, for_model("--confidence", help="posterior (the model's own), or honest.")]
Error = Annotated[float, for_knowledge("--error", help="Maximum share of wrong labels to promise.")]
Looks = Annotated[int, for_knowledge("--looks", help="How often you plan to look at the answers: the looks share the risk.")]


@command(
    ("Fifty tasks to answer, drawn at random:", "adjudge draw-gold votes.csv -n 50 --error 0.05 -o drawn.csv"),
    ("In the format of the votes:", "adjudge draw-gold judges.csv --wide -n 50 --to auto -o tasks.csv"),
    without=WITHOUT_GOLD,
)
def draw_gold(
    votes: VotesFiles,
    number: Annotated[int, typer.Option("-n", "--number", help="How many tasks.")],
    output: Annotated[Path, for_output("-o", "--output", help="Write the tasks here, and the record of the draw next to it.")],
    to: Annotated[str | None, for_output(help=DRAW_TO_HELP)] = None,
    error: Error = DEFAULT_ERROR,
    draw_seed: Annotated[
        int | None, for_knowledge(help="Seed of the draw, to repeat it; it is recorded.", show_default="random")
    ] = None,
    floor: Annotated[
        float | None,
        for_knowledge(help="Draw only tasks with this confidence or more; 0 draws from all.", show_default="by --error"),
    ] = None,
    looks: Looks = 1,
    confidence: Mode = DEFAULTS.confidence,
    quiet: DataOnly = False,
    *,
    knowledge: Flags,
    settings: Flags,
    resources: Flags,
    how_read: Flags,
) -> None:
    """Draw tasks at random for a person to answer.

    With the answers `adjudge certify` says which labels can be accepted. The record of the draw (gold.draw.json for gold.csv)
    has its seed, its fingerprint, and every look at the answers: keep it next to the tasks.
    """
    from adjudge.cli.aggregate import fit_votes
    from adjudge.results.promise.draws import record_path
    from adjudge.results.promise.walk import smallest_sample

    asked = _fit_arguments(locals())
    table = out.table_target(votes, str(output), to, how_read["format"], {"--no-header": not how_read["header"]})
    record = record_path(output)
    out.check({"-o": table}, _inputs(asked), others={"-o": output, "the record of the draw": record})
    if record.exists():
        raise InputError(f"{record} is the record of an earlier draw, with its looks: name another file with -o, or remove it")
    with fit_votes(asked) as result:
        draw = result.draw_gold(number, error=error, seed=draw_seed, floor=floor, looks=looks)
        draw.write(output, None if to is None else asked.source, form=to or "auto")
    if quiet:
        return
    if result.understood is not None:
        out.say(out.read_as(votes, result.understood))
    where = f" with a confidence of at least {draw.floor:.4g}" if draw.region < result.votes.n_tasks else ""
    out.say(f"{len(draw)} of {draw.region} tasks{where} drawn with seed {draw.seed}: {output}, recorded in {record}")
    least = smallest_sample(error, DEFAULT_RISK / looks)
    if number < least:
        out.say(f"{number} tasks cannot certify an error of {error:g} at a risk of {DEFAULT_RISK:g}: that takes at least {least}")


@command(
    (
        "The promise that the answers support, as a sentence to sign:",
        "adjudge certify votes.csv --gold gold.csv --error 0.05 --risk 0.1",
    ),
    (
        "With a certificate, and the accepted labels:",
        "adjudge certify votes.csv --gold gold.csv -o promise.json --accepted yes.csv",
    ),
    ("Check a certificate against its files:", "adjudge certify --verify promise.json"),
    without=WITHOUT_GOLD,
)
def certify(
    votes: Annotated[list[str] | None, typer.Argument(metavar="VOTES", help=VOTES_HELP)] = None,
    gold: Annotated[str | None, for_knowledge(help="The drawn tasks with their answers; or the export of the tool.")] = None,
    draw: Annotated[
        Path | None, for_knowledge(help="The record of the draw.", show_default="next to the gold: gold.draw.json")
    ] = None,
    error: Error = DEFAULT_ERROR,
    risk: Annotated[float, for_knowledge(help="Probability that the promise fails.")] = DEFAULT_RISK,
    looks: Looks = 1,
    output: Annotated[Path | None, for_output("-o", "--output", help="Write the certificate here, as JSON.")] = None,
    accepted: Annotated[Path | None, for_output(help="Write the accepted labels here.")] = None,
    report: Annotated[Path | None, for_output(help="Write a report with the promise here.")] = None,
    verify: Annotated[Path | None, for_knowledge(help="Check this certificate against the files that it names.")] = None,
    confidence: Mode = DEFAULTS.confidence,
    as_json: Annotated[bool, for_output("--json", help="Print one JSON document instead of sentences.")] = False,
    quiet: Annotated[bool, for_output("--quiet", help="Print only the sentence to sign.")] = False,
    *,
    knowledge: Flags,
    settings: Flags,
    resources: Flags,
    how_read: Flags,
) -> None:
    """Certify that at most a share of the accepted labels is wrong.

    The labels must come from the same votes and settings as the draw. It ends with the sentence to sign. Exit codes: 0 if
    labels are certified, 3 if none can be; 1 for bad input, 2 for bad usage.
    """
    asked = _fit_arguments(locals())
    if verify is not None:
        if votes or gold is not None or output is not None:
            raise OptionError("--verify reads the files that the certificate names: leave out VOTES, --gold and -o")
        _verify(asked, verify)
        return
    if not votes or gold is None:
        raise OptionError("certify needs VOTES and --gold: adjudge certify votes.csv --gold gold.csv")
    from adjudge.cli.aggregate import fit_votes, write_report
    from adjudge.results.promise.certificates import write_certificate
    from adjudge.results.promise.draws import Draw, record_path

    record = draw or record_path(Path(gold))
    inputs = {**_inputs(asked), "the gold": gold, "the draw": record}
    out.check({"--accepted": accepted}, inputs, others={"-o": output, "--report": report})
    if output is not None and "-" in (*votes, gold):
        raise OptionError("-o writes a certificate that names its files, and standard input has no name: give files")
    if draw is None and not record.exists():
        raise InputError(
            f"there is no record of a draw at {record}: name the record that `draw-gold` wrote with --draw. Labels that you had "
            "before cannot be certified: see 'I have known labels already' in docs/promises.md"
        )
    known = Draw.read(record)
    with fit_votes(asked) as result:
        promise = result.certify(gold, known, error=error, risk=risk, looks=looks)
        if accepted is not None:
            frame = result.labels_frame()
            kept = frame["confidence"] >= (2.0 if promise.threshold is None else promise.threshold)
            out.write_frames([accepted], [lambda: frame.filter(kept.fill_null(False))])
        if report is not None:
            asked.truth = {"truth": None, "truth_task": None, "truth_label": None}
            write_report(asked, result, report)
    if output is not None and promise.threshold is not None:
        write_certificate(promise, output, _sources(asked, gold), _command(asked, record, output))
    if as_json:
        out.document({**promise.figures(), "sentence": promise.sentence})
        raise typer.Exit(_exit_code(promise))
    if not quiet and result.understood is not None:
        out.say(out.read_as(votes, result.understood))
    typer.echo(make_visible(promise.sentence))
    if output is not None and promise.threshold is None:
        out.say(f"{output} is not written")
    raise typer.Exit(_exit_code(promise))


def _exit_code(promise: Promise) -> int:
    return NOTHING_CERTIFIED if promise.threshold is None else 0


def _fit_arguments(given: dict[str, Any]) -> SimpleNamespace:
    """Return the arguments of a command as `fit_votes` takes them."""
    asked = SimpleNamespace(**given, multi=False, per_option=False)
    if asked.resources["engine"] == "spark":
        raise OptionError("promises look at all labels together, which --engine spark does not allow: choose cpu or disk")
    asked.source = None if not asked.votes else out.source_of(asked.votes)
    return asked


def _inputs(asked: SimpleNamespace) -> dict[str, Any]:
    """Return the files that a command reads, by the name that users know them by."""
    from adjudge.io.workers import ANSWERS_LIKE

    known = asked.knowledge
    return {
        "the votes": asked.votes,
        "the history": known["history"],
        "the warm start": known["warm_start"],
        "the groups": None if known["groups"] == ANSWERS_LIKE else known["groups"],
        "the excluded workers": known["exclude"] if isinstance(known["exclude"], Path) else None,
    }


def _sources(asked: SimpleNamespace, gold: str) -> dict[str, Any]:
    """Return the inputs of a certificate by name, without those that were not given."""
    others = {name.removeprefix("the "): source for name, source in _inputs(asked).items() if source is not None}
    return {**others, "votes": asked.source, "gold": gold}


def _command(asked: SimpleNamespace, record: Path, certificate: Path) -> dict[str, object]:
    """Return the options that produced the labels, as JSON has them; paths are relative to the certificate."""
    near = {"history", "warm_start", "exclude"}

    def plain(name: str, value: object) -> object:
        return os.path.relpath(value, certificate.parent) if name in near and isinstance(value, Path) else value

    groups = asked.knowledge["groups"]
    if groups is not None and Path(groups).exists():
        groups = os.path.relpath(groups, certificate.parent)
    return {
        "settings": asked.settings,
        "knowledge": {**{name: plain(name, value) for name, value in asked.knowledge.items()}, "groups": groups},
        "how_read": asked.how_read,
        "confidence": asked.confidence,
        "draw": os.path.relpath(record, certificate.parent),
    }


def _verify(asked: SimpleNamespace, certificate: Path) -> None:
    """Check a certificate against its files: nothing changed, and the same figures come out again."""
    from adjudge.cli.aggregate import fit_votes
    from adjudge.results.promise.certificates import files_of, read_certificate, require_same_figures, require_same_files
    from adjudge.results.promise.draws import Draw

    content = read_certificate(certificate)
    require_same_files(content, certificate)
    stated, command = content["figures"], content["command"]
    try:
        base = certificate.parent
        asked.settings, asked.how_read, asked.confidence = command["settings"], command["how_read"], command["confidence"]
        asked.knowledge = {name: _seen_from(base, name, value) for name, value in command["knowledge"].items()}
        draw = Draw.read(base / command["draw"])
        asked.votes, gold = files_of(content, "votes", certificate), files_of(content, "gold", certificate)
        asked.source = out.source_of(asked.votes)
        terms = {name: stated[name] for name in ("error", "risk", "looks")}
    except (KeyError, TypeError, IndexError) as error:
        raise InputError(f"{certificate} is damaged: it lacks {error}") from error
    if not any(look.answers == stated.get("answers") for look in draw.looks):
        raise InputError(f"{certificate} rests on a look that the draw has no record of: it does not hold")
    draw.detach()
    with fit_votes(asked) as result:
        promise = result.certify(gold if len(gold) > 1 else gold[0], draw, **terms)
    require_same_figures(content, promise, certificate)
    if asked.as_json:
        out.document({"holds": True, **promise.figures(), "sentence": promise.sentence})
        raise typer.Exit(_exit_code(promise))
    if not asked.quiet:
        files = sum(len(listed) for listed in content["files"].values())
        out.say(f"{certificate}: {files} files are unchanged, and the same figures come out again")
    typer.echo(make_visible(promise.sentence))
    raise typer.Exit(_exit_code(promise))


def _seen_from(base: Path, name: str, value: object) -> object:
    """Return an option of a certificate; the path of a file as it is seen from here."""
    is_path = name in ("history", "warm_start", "exclude", "groups") and isinstance(value, str)
    return str(base / str(value)) if is_path and (base / str(value)).exists() else value
