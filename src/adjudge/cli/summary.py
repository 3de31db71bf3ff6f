"""The figures of `aggregate`: all of them for JSON, and those that matter on one screen, with what to try next."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from adjudge.cli import output as out
from adjudge.cli.options import list_typed_options
from adjudge.errors import itemize
from adjudge.models.temperature import MIN_CALIBRATION_TASKS
from adjudge.results.overview import (
    REVIEW_CONFIDENCE,
    UNCLEAR_VERDICT,
    LabelShare,
    UncertainTask,
    WorkersInBrief,
    count_below,
    is_few,
    label_shares,
    least_certain,
    workers_in_brief,
)

if TYPE_CHECKING:
    import polars as pl

    from adjudge.data.votes import Understood
    from adjudge.evaluation.evaluate import Evaluation
    from adjudge.results.result import Result

MAX_SUMMARY_LABELS: Final = 5  # whose shares are shown
MAX_SUMMARY_TASKS: Final = 2  # of the least certain
MAX_SUMMARY_VERDICT_VOTES: Final = 100_000  # votes up to which workers are judged for the screen alone: a second or two
MAX_NAMED_WORKERS: Final = 50  # workers to look at that the screen may name
MAX_WHY: Final = 3  # lines that reasons of workers may take on a terminal
MAX_NEXT_STEPS: Final = 3  # things to try next
MEASURED_FACTS: Final = ("chose", "why", "shared_error", "votes_per_task", "effective_votes")  # facts of the votes
IN_SENTENCES: Final = frozenset(
    {"model", "iterations", "converged", "log_likelihood", "votes", "tasks", "workers", "labels", "options", "mean_confidence"}
    | {"expected_wrong_labels", "labels_below_95", "expected_wrong_sets", *MEASURED_FACTS}
)  # figures that people read as sentences, or need not read
REMEDY: Final = "; --gold, --calibrate measure it"  # of labels that nobody has checked
NOT_OF_AGREEMENT: Final = frozenset({"weight", "multi", "set_separator"})  # options of reading that `agreement` has not, or apart
PLURALS: Final = {"copy": "copies", "adversary": "adversaries", "spammer": "spammers"}


class Overview(NamedTuple):
    """The parts of a summary other than figures: each is empty or None if it would be expensive."""

    shares: Sequence[LabelShare] | None
    uncertain: Sequence[UncertainTask] = ()
    workers: WorkersInBrief | None = None
    unjudged: bool = False  # whether workers were not judged because there are too many votes


def overview(result: Any, workers: pl.DataFrame | None, *, as_json: bool) -> Overview:
    """Return the summary's other parts; `workers` is their frame if it was made for another reason.

    Else workers are judged for the screen alone, if people see it, and that takes no longer than they would wait.
    """
    if as_json or not hasattr(result, "fit"):  # the latter for several correct options
        return Overview(label_shares(result))
    in_memory = len(result.fit.outcome.labels) == result.votes.n_tasks and not result.is_on_disk
    is_wanted = workers is None and in_memory and out.is_shown(sys.stderr)
    if is_wanted and len(result.votes) <= MAX_SUMMARY_VERDICT_VOTES:
        workers = result.workers_frame()
    brief = None if workers is None else workers_in_brief(workers, limit=MAX_NAMED_WORKERS)
    return Overview(label_shares(result), least_certain(result), brief, is_wanted and workers is None)


def show(asked: SimpleNamespace, result: Any, facts: Mapping[str, Any], overview: Overview, evaluation: Any) -> None:
    """Print the requested summary to stderr."""
    understood = result.understood
    if understood is not None:
        out.say(out.read_as(asked.votes, understood))
    out.table(["", ""], [*_sentences(facts), *_rows(facts, understood)], left=2)
    if evaluation is not None and not asked.multi and evaluation.calibration.tasks:
        from adjudge.cli import console

        out.talk().print(console.reliability(evaluation.calibration.bins))
    if not asked.multi:
        out.propose_groups(result.votes.workers, asked.knowledge["groups"])
    _show_labels(overview)
    width = get_terminal_size().columns
    _show_workers(overview, width, is_grouped=asked.multi or asked.knowledge["groups"] is not None)
    steps = next_steps(facts, asked, width - 2)
    if steps:
        out.say("try next:")
    for command, why in steps:
        whole = f"  {command}  ({why})"
        out.say(whole if len(whole) <= width else f"  {command}")


def _sentences(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the lines that every run has: the model, the size, what labels and votes are worth."""
    tasks, accuracy = facts["tasks"], facts.get("accuracy")
    lines = [("model", _model(facts)), ("votes", _size(facts))]
    if accuracy is not None and "options" not in facts:  # what was measured comes first
        lines.insert(0, ("accuracy", f"{accuracy:.1%} of {facts['tasks_with_truth']} labels with truth"))
    for what in ("labels", "sets"):
        wrong = facts.get(f"expected_wrong_{what}")
        if wrong is not None:
            is_checked = accuracy is not None or facts.get("gold") or what == "sets"
            share = f"{out.figure(wrong)} of {tasks} ({wrong / tasks:.1%})"
            lines.append((f"expected wrong {what}", share if is_checked else f"{share}{REMEDY}"))
    if facts.get("labels_below_95") is not None:
        lines.append((f"below {REVIEW_CONFIDENCE} confidence", f"{facts['labels_below_95']} of {tasks} labels"))
    votes, effective = facts.get("votes_per_task"), facts.get("effective_votes")
    if votes is not None and effective is not None and tasks > (facts.get("gold") or 0):  # of gold alone nothing is measured
        lines.append(("effective votes", f"{_short(effective)} of {_short(votes)} per task{_together(facts)}"))
    return lines


def _model(facts: Mapping[str, Any]) -> str:
    """Return the model, what it chose and how its fit ended."""
    name = facts["model"] if facts.get("why") is None else f"{facts['model']} chose {facts['why']}"
    ended = f"; {facts['iterations']} iterations" if facts.get("iterations") else ""
    if facts.get("converged", True):
        return f"{name}{ended}"
    likelihood = facts.get("log_likelihood")
    return f"{name}{ended}, not converged{'' if likelihood is None else f' (log likelihood {out.figure(likelihood)})'}"


def _size(facts: Mapping[str, Any]) -> str:
    what, number = ("options", facts["options"]) if "options" in facts else ("labels", facts["labels"])
    return f"{facts['votes']} by {facts['workers']} workers on {facts['tasks']} tasks, {number} {what}"


def _together(facts: Mapping[str, Any]) -> str:
    """Explain the effective votes: how they were measured, and the remedy if they are few."""
    if not is_few(facts):
        return ", measured without truth"
    remedy = "ask judges who differ more"
    if not facts.get("groups") and "options" not in facts:  # sets have no groups
        remedy += ", or let those of one kind vote once (--groups)"
    return f", measured without truth; workers err together: {remedy}"


def is_spark(asked: SimpleNamespace) -> bool:
    """Return whether the engine is Spark, which cannot look at single tasks."""
    return bool(asked.resources["engine"] == "spark")


def _rows(facts: Mapping[str, Any], understood: Understood | None) -> list[tuple[str, str]]:
    """Return the figures that only some runs have, by name."""
    told = {"abstentions"} if understood is not None and understood.abstentions else set()
    told |= set() if facts.get("ties") else {"ties"}
    told |= set() if "options" in facts or facts.get("accuracy") is None else {"accuracy", "tasks_with_truth"}
    shown = {name: value for name, value in facts.items() if value is not None and name not in IN_SENTENCES | told}
    return [(name.replace("_", " "), out.figure(value)) for name, value in shown.items()]


def _show_labels(overview: Overview) -> None:
    """Print the shares of the most frequent labels, and the least certain tasks."""
    if overview.shares:
        most = MAX_SUMMARY_LABELS if len(overview.shares) <= MAX_SUMMARY_LABELS else MAX_SUMMARY_LABELS - 1
        rows = [(share.label, f"{share.of_votes:.1%}", f"{share.of_labels:.1%}") for share in overview.shares[:most]]
        hidden = len(overview.shares) - most
        rows += [(f"… and {hidden} more", "", "")] if hidden > 0 else []
        out.table(["label", "given", "chosen"], rows, ids=1)
    if overview.uncertain:
        out.table(["least certain", "label", "confidence", "votes"], overview.uncertain[:MAX_SUMMARY_TASKS], ids=2)


def _show_workers(overview: Overview, width: int, *, is_grouped: bool) -> None:
    """Print how many workers have which verdict, and why of the gravest."""
    if overview.unjudged:
        out.say(
            f"workers to look at: not searched among more than {MAX_SUMMARY_VERDICT_VOTES} votes; "
            "--workers workers.csv judges all"
        )
    if overview.workers is None:
        return
    counts = dict(overview.workers.verdicts)
    unclear = counts.pop(UNCLEAR_VERDICT, 0)
    what = ", ".join(f"{number} {verdict if number == 1 else PLURALS[verdict]}" for verdict, number in counts.items())
    told = f"workers to look at: {what or 'none'} of {overview.workers.workers}{f' ({unclear} unclear)' if unclear else ''}"
    names = [out.shorten(worker.worker) for worker in overview.workers.flagged]
    fitting = [n for n in range(1, len(names) + 1) if len(f"{told}: {itemize(names, n)}") <= width]
    out.say(f"{told}: {itemize(names, fitting[-1])}" if len(names) > 1 and fitting else told)
    rows: list[tuple[str, str, str]] = []
    lines = 0
    for worker in overview.workers.flagged:
        lines += -(-len(worker.why) // (width * 5 // 8))  # as words wrap next to ids
        if not rows or lines <= MAX_WHY:
            rows.append((out.shorten(worker.worker), worker.verdict, out.shorten(worker.why, 160)))
    if rows:
        out.table(["", "", ""], rows, left=3)
    if overview.workers.alike is not None and not is_grouped:
        first, second, tasks = overview.workers.alike
        more = f", {overview.workers.others_alike} more like another" if overview.workers.others_alike else ""
        names = f"{out.shorten(first)} and {out.shorten(second)}"
        out.say(f"{names} answer alike ({tasks} tasks){more}: --groups answers_like lets them vote once")


def next_steps(facts: Mapping[str, Any], asked: SimpleNamespace, width: int) -> list[tuple[str, str]]:
    """Return what to try next: commands with the user's own files, most useful first, and what each gives.

    A command that is wider than `width` is not repeated in full.
    """

    def extend_command(*options: str) -> str:
        whole = shlex.join(["adjudge", *sys.argv[1:], *options])
        return whole if len(whole) <= width else f"adjudge aggregate … {shlex.join(options)}"

    if not facts["votes"]:
        return []
    steps = []
    if not facts.get("converged", True):
        steps.append((extend_command("--max-iter", str(10 * facts["iterations"])), "let it converge"))
    if (facts.get("gold") or 0) >= MIN_CALIBRATION_TASKS and not asked.knowledge["calibrate"] and not is_spark(asked):
        steps.append((extend_command("--calibrate"), "confidence that fits the gold"))
    if asked.output is None:
        more = () if asked.workers is not None else ("--workers", "workers.csv")
        steps.append((extend_command("-o", "labels.csv", *more), "all labels, and every worker" if more else "all labels"))
    elif asked.workers is None:
        steps.append((extend_command("--workers", "workers.csv"), "every worker, and why"))
    if is_few(facts) and facts.get("groups") is None and "options" not in facts:
        steps.append((extend_command("--groups", "answers_like"), "those who answer alike vote once"))
    reading, question = list_typed_options(asked.context, "Input"), asked.how_read["question"]
    if facts["workers"] > 1 and "options" not in facts and not reading.keys() & NOT_OF_AGREEMENT:
        reading |= {} if question is None else {"question": ("--question", question)}
        command = shlex.join(["adjudge", "agreement", *asked.votes, *(text for typed in reading.values() for text in typed)])
        if len(command) <= width:
            steps.append((command, "how far workers agree"))
    if asked.knowledge["gold"] is None:
        steps.append((extend_command("--gold", "gold.csv", "--calibrate"), "learn from labels that you know"))
    return steps[:MAX_NEXT_STEPS]


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.2g}"


def figures(result: Result, evaluation: Evaluation | None) -> dict[str, object]:
    """Return the figures of a run, for people and for JSON alike."""
    from adjudge.data.votes import total_weight

    if not hasattr(result, "fit"):  # several correct options
        return _set_figures(result, evaluation)
    votes, grouping, measured = result.votes, result.grouping, result.facts
    return {
        "model": result.model,
        **{name: measured.get(name) for name in MEASURED_FACTS},
        "votes": len(votes),
        "weight": total_weight(votes),
        "votes_cast": None if grouping is None else len(grouping.members),
        "tasks": votes.n_tasks,
        "workers": votes.n_workers if grouping is None else grouping.members.n_workers,
        "groups": measured.get("groups"),
        "labels": votes.n_labels,
        "excluded_workers": measured.get("excluded_workers"),
        "excluded_votes": measured.get("excluded_votes"),
        "abstentions": votes.abstentions or None,
        "ties_within_groups": measured.get("ties_within"),
        "tasks_without_votes": result.unvoted or None,
        "gold": result.gold_given - result.gold_without_votes if result.gold_given else None,
        "gold_without_votes": result.gold_without_votes or None,
        "strength": result.strength or None,
        "iterations": result.iterations,
        "iterations_before": result.iterations_before or None,
        "converged": result.converged,
        "temperature": None if result.temperature == 1.0 else result.temperature,
        "log_likelihood": None if result.log_likelihood != result.log_likelihood else result.log_likelihood,
        "mean_confidence": 1.0 - result.expected_errors / votes.n_tasks if votes.n_tasks else None,
        "expected_wrong_labels": result.expected_errors if votes.n_tasks else None,
        "labels_below_95": count_below(result) if votes.n_tasks else None,
        "ties": result.ties,
        **_measure(evaluation, votes.n_tasks),
    }


def _measure(evaluation: Evaluation | None, tasks: int) -> dict[str, object]:
    """Return the figures that need truth."""
    if evaluation is None or not evaluation.tasks:
        return {"accuracy": None, "tasks_with_truth": None if evaluation is None else 0}
    calibration = evaluation.calibration
    figures = {name: getattr(calibration, name) for name in ("expected_calibration_error", "brier", "log_loss")}
    return {
        "accuracy": evaluation.accuracy,
        "tasks_with_truth": evaluation.tasks,
        "wrong_labels": calibration.errors if calibration.tasks else None,
        "expected_among_these": calibration.expected_errors if 0 < calibration.tasks < tasks else None,
        **{name: value if value == value else None for name, value in figures.items()},
    }


def _set_figures(result: Any, evaluation: Any) -> dict[str, object]:
    votes, tasks = result.votes, len(result.votes.tasks)
    measured = {} if evaluation is None else {k: v for k, v in evaluation.summary().items() if "accuracy" in k}
    facts = result.facts if len(result.results) == 1 else {}  # each option has its own where it was fitted apart
    return {
        "model": result.model,
        **{name: facts.get(name) for name in MEASURED_FACTS},
        "votes": votes.n_votes,
        "tasks": tasks,
        "workers": votes.binary.n_workers,
        "options": len(votes.options),
        "abstentions": votes.abstentions or None,
        "tasks_without_votes": result.unvoted or None,
        "iterations": result.iterations,
        "converged": result.converged,
        "mean_confidence": 1.0 - result.expected_errors / tasks if tasks else None,
        "expected_wrong_sets": result.expected_errors if tasks else None,
        "expected_wrong_options": result.expected_wrong_options if tasks else None,
        "ties": result.ties,
        **measured,
        "tasks_with_truth": None if evaluation is None else evaluation.tasks,
    }


def document(
    result: Any, facts: Mapping[str, object], overview: Overview, evaluation: Evaluation | None, *, with_labels: bool
) -> dict[str, object]:
    """Return everything as one JSON document has it."""
    content = dict(facts)
    content["understood"] = out.summary_of(result.understood)
    shares = overview.shares
    content["label_shares"] = (
        None if shares is None else {str(one.label): {"votes": one.of_votes, "labels": one.of_labels} for one in shares}
    )
    names, priors = (
        (result.votes.labels, result.fit.params.priors)
        if hasattr(result, "fit")
        else (result.votes.options, result.option_priors())  # several correct options
    )
    content["priors"] = dict(zip(names.texts(), priors.tolist(), strict=True))
    if evaluation is not None:
        content["evaluation"] = evaluation.summary()
    if with_labels:
        content["result"] = result.labels_frame().to_dicts()
    return content
