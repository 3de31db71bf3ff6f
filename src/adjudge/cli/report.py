"""`adjudge report`: votes in, one page out that shows what they say."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Final

import typer

from adjudge.cli import aggregate
from adjudge.cli import output as out
from adjudge.cli.command import for_output
from adjudge.cli.questions import each
from adjudge.errors import OptionError, visible

EXAMPLES = (
    ("A page that shows labels in doubt, workers and who answers alike:", "adjudge report votes.csv"),
    ("With accuracy, where truth is known:", "adjudge report votes.csv --truth truth.csv -o crowd.html"),
)
NAME: Final = "report.html"
NOT_HERE: Final = ("context", "to", "workers", "probabilities", "save", "report", "as_json", "resume", "master", "output")
OWN: Final = (
    ("output", Annotated[Path, for_output("-o", "--output", help="Write the page here.")], Path(NAME)),
    ("title", Annotated[str | None, for_output(help="What stands at the top of the page.")], None),
)


def command(**given: Any) -> None:
    """Write a page that shows what the votes say.

    Labels in doubt, who is good and who is not, what is confused with what, who answers alike. One HTML file, which needs no
    network.
    """
    typed = SimpleNamespace(**given, resume=False)
    if typed.question == "all":
        each(command, given)
        return
    if typed.engine == "spark":
        raise OptionError("report does not work with --engine spark: leave it out, or choose cpu or disk")
    out.check({}, aggregate.read_files(typed), others={"-o": typed.output})
    with aggregate.fitted(typed) as result:
        aggregate.write_report(result, typed.output, typed)
    if not typed.quiet:
        if result.understood is not None:
            out.say(out.read_as(typed.votes, result.understood))
        from adjudge.report.views.headline import headline

        out.say(headline(result).sentence)
    typer.echo(visible(str(typed.output)))


def _signature() -> inspect.Signature:
    """Return the options of `aggregate` that say how votes are read and fitted, and those of this command."""
    theirs = inspect.signature(aggregate.command, eval_str=True).parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    own = [inspect.Parameter(name, kind, default=default, annotation=what) for name, what, default in OWN]
    same = [parameter.replace(kind=kind) for parameter in theirs if parameter.name not in NOT_HERE]
    return inspect.Signature([same[0], *own, *same[1:]])


command.__signature__ = _signature()  # type: ignore[attr-defined]
