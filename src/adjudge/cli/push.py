"""`adjudge push`: labels posted as predictions to the tasks that the votes came from."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from adjudge.cli import output as out
from adjudge.cli.options import Flags, command, for_output
from adjudge.errors import choice_error

SERVERS: Final = ("label-studio",)


@command(
    (
        "Show joint labels in the project that the export came from:",
        "adjudge push label-studio export.json --url http://localhost:8080 --token …",
    ),
    without=("using", "multi", "set_separator"),
)
def push(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="label-studio.")],
    file: Annotated[str, typer.Argument(metavar="VOTES", help="The export that the votes are in.")],
    url: Annotated[str, for_output(help="Address of the server, like http://localhost:8080.")],
    token: Annotated[str, for_output(envvar="LABEL_STUDIO_TOKEN", help="Access token of Account & Settings.")],
    as_json: Annotated[bool, for_output("--json", help="Print one JSON document instead of text.")] = False,
    quiet: Annotated[bool, for_output("--quiet", help="Print nothing.")] = False,
    *,
    fit: Flags,
    how_read: Flags,
) -> None:
    """Post labels as predictions to the tasks that the votes came from.

    No task is added. A second push replaces the predictions of the first.
    """
    import adjudge as adj
    from adjudge.engines.registry import AutoEngine
    from adjudge.io.formats.export import Consensus
    from adjudge.io.push import LabelStudio, predictions_of, push_predictions

    if server not in SERVERS:
        raise choice_error("server", server, SERVERS)
    out.require_one_stream({"the votes": file, "the gold": fit["gold"], "the groups": fit["groups"]})
    place = LabelStudio(url, token)
    result = adj.aggregate(file, engine=AutoEngine(threads=fit.pop("threads")), trace="light", **fit, **how_read)
    predictions = predictions_of(Consensus(result.labels_frame(), result.model, result.understood), file)
    new, replaced = push_predictions(place, predictions)
    if as_json:
        out.document({"understood": out.summary_of(result.understood), "new": new, "replaced": replaced})
    elif not quiet:
        if result.understood is not None:
            out.say(out.read_as([file], result.understood))
        out.say(f"posted {new + replaced} predictions to {place.url}: {new} new, {replaced} replaced")
