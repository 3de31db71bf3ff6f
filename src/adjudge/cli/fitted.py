"""What commands that look at a result share: the votes fitted, or labelled by a model that was saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from adjudge.cli import reading
from adjudge.data.options import DEFAULTS, SET_SEPARATOR


class Fitting(NamedTuple):
    """The options of a fit that such commands have."""

    using: Path | None
    model: str
    confidence: str | None
    seed: int
    gold: str | None
    groups: str | None
    threads: int | None
    multi: bool = False
    set_separator: str = SET_SEPARATOR


def fitted(votes: list[str], how_read: dict[str, Any], asked: Fitting) -> Any:
    """Return the result of votes: fitted as was asked for, or decided by a saved model.

    `how_read` has options of reading, as `reading.given` returns them.
    """
    import adjudge as adj
    from adjudge.errors import OptionError

    source = reading.source(votes)
    if asked.using is None:
        given = {"confidence": asked.confidence or DEFAULTS.confidence, "threads": asked.threads, "trace": "light"}
        given |= {"gold": asked.gold, "groups": asked.groups, "seed": asked.seed}
        sets = {"multi": True, "set_separator": asked.set_separator} if asked.multi else {}
        return adj.aggregate(source, model=asked.model, **how_read, **given, **sets)  # type: ignore[call-overload]
    taken = {"--model": asked.model != DEFAULTS.model, "--gold": asked.gold, "--groups": asked.groups}
    taken |= {"--seed": asked.seed != DEFAULTS.seed, "--labels": how_read.pop("labels", None), "--multi": asked.multi}
    for option, value in taken.items():
        if value:
            raise OptionError(f"{option} is for a fit, and --using names a model that was fitted: leave one of them out")
    model = adj.load(asked.using)
    sets = {"set_separator": asked.set_separator} if isinstance(model, adj.FittedSets) else {}
    return model.predict(source, threads=asked.threads, confidence=asked.confidence, **how_read, **sets)  # type: ignore[arg-type]
