"""A backtest of a running campaign, in a thread that yields to its requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from adjudge.errors import InputError, OptionError
from adjudge.service.campaigns.backtest import compare
from adjudge.service.campaigns.replay import read_kept_log
from adjudge.service.http.errors import Invalid, Unavailable
from adjudge.service.http.types import BacktestAnswer, Changed, Outcome
from adjudge.service.store.errors import Expired
from adjudge.service.store.events import Event
from adjudge.service.store.store import Store

EVENTS_PER_SLICE: Final = 64  # events, after which requests come first
SLICE_PAUSE_S: Final = 1e-4  # seconds


def answer(
    store: Store,
    campaign: int,
    policy: dict[str, Any] | None,
    model: str | None,
    stop: threading.Event,
    progress: Callable[[int], None] | None = None,
) -> BacktestAnswer:
    """Return how the past of a campaign would have gone; for a thread of its own. It ends soon after `stop` is set.

    - `progress`: called with positions that were replayed.
    """
    try:
        result = compare(_pace(store, campaign, stop, progress), policy, model)
    except Expired as error:
        raise Unavailable(f"{error}; try again", retry_after=1) from None
    except (InputError, OptionError) as error:
        raise Invalid(error) from None
    return BacktestAnswer(
        position=result.position,
        tasks=result.tasks,
        cast=result.cast,
        changed=result.changed,
        votes_saved=result.votes_saved,
        before=Outcome(**msgspec.structs.asdict(result.before)),
        after=Outcome(**msgspec.structs.asdict(result.after)),
        examples=[Changed(before, after) for before, after in result.examples],
    )


def _pace(
    store: Store, campaign: int, stop: threading.Event, progress: Callable[[int], None] | None
) -> Iterator[tuple[int, Event]]:
    """Yield position and event of a log; the thread of the requests gets its turn every so often."""
    for number, entry in enumerate(read_kept_log(store, campaign)):
        if not number % EVENTS_PER_SLICE:
            time.sleep(SLICE_PAUSE_S)
            if stop.is_set():
                raise Unavailable("the backtest was stopped, as nobody waits for it any more")
            if progress is not None:
                progress(entry[0])
        yield entry
