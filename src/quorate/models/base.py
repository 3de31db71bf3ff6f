"""What every model is: frozen settings that fit votes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quorate import settings
from quorate.beliefs import HasLearned, Priors, as_knowledge, as_learned, class_prior, pseudo_votes
from quorate.em import How, Progress, Warm
from quorate.engines.base import Engine, Resumable, Session
from quorate.engines.identity import digest
from quorate.engines.memory import NOTHING, Room, require_fit
from quorate.engines.registry import resolve, votes_for
from quorate.engines.spark import SparkPasses
from quorate.engines.spark_layout import NO_START
from quorate.engines.spark_wide import WidePasses
from quorate.errors import OptionError, listed, shown
from quorate.fit import Fit
from quorate.io.answers import read_gold
from quorate.io.encode import over_labels
from quorate.io.ids import matched
from quorate.io.sources import Source
from quorate.io.spark_gold import read_gold as far_gold
from quorate.io.spark_votes import SparkVotes, WideVotes
from quorate.knowledge import Knowledge
from quorate.models.blocks import FarFit
from quorate.params import Parameters
from quorate.prior import ClassPrior, Others
from quorate.result import Result
from quorate.settings import Choice, Number, Rules
from quorate.spark_result import SparkResult, WideResult
from quorate.transfer import Learned, loosened, possible_labels, transfer
from quorate.votes import Panel, Votes

COMMON: Rules = {"seed": Number(whole=True), "ties": Choice(("hash", "prior"))}
NOT_HERE = "this engine cannot run model {!r}: choose engine='cpu', 'disk' or 'reference'"


@dataclass(frozen=True, eq=False)
class Watch:
    """How a fit is begun and watched, and what is believed beforehand."""

    how: How
    history: Others | None = None  # pseudo-votes of the workers at hand
    classes: ClassPrior | None = None
    told: NDArray[np.int64] | None = None  # codes of the labels that the history knows, of whomever

    def possible(self, panel: Panel, session: Session | WidePasses) -> NDArray[np.bool_]:
        """Returns which labels there are, [K]: those that votes or a history give, and those that gold or priors name."""
        expected = session.start(hard=False).class_counts  # of gold, too
        if self.classes is not None and self.classes.weight != 0:
            expected = expected + self.classes.priors
        out = possible_labels(panel, expected)
        if isinstance(panel, WideVotes):
            out[panel.given > 0] = True
        if self.told is not None:
            out[self.told] = True
        return out


@dataclass(frozen=True, kw_only=True)
class Model:
    """Settings, checked on the way in; `fit` leaves them as they are and returns a `Result`."""

    name: ClassVar[str]
    title: ClassVar[str]
    rules: ClassVar[Rules] = COMMON
    learns: ClassVar[bool] = True  # whether it estimates parameters beyond the labels
    scoring: ClassVar[str] = "confusion"  # see quorate.transfer
    takes: ClassVar[frozenset[str]] = frozenset({"history", "priors", "warm_start"})  # of what callers may know, beside gold

    room: ClassVar[Room] = NOTHING  # that it takes in memory beside what all models take

    seed: int = 0
    ties: str = "hash"

    def __post_init__(self) -> None:
        settings.check(asdict(self), self.rules)
        for name in self.rules:  # NumPy's numbers and fractions as Python's own, which can be saved
            object.__setattr__(self, name, settings.plain(getattr(self, name)))

    @classmethod
    def options(cls) -> Mapping[str, object]:
        """Returns the options this model takes, with their defaults."""
        return {f.name: f.default for f in fields(cls)}

    def fit(
        self,
        votes: Votes | Source,
        *,
        engine: str | Engine = "auto",
        threads: int | None = None,
        trace: str = "full",
        progress: Progress | None = None,
        start: ArrayLike | None = None,
        gold: Source | None = None,
        history: Source | HasLearned | None = None,
        priors: Priors | None = None,
        priors_weight: float | None = None,
        warm_start: HasLearned | Learned | str | os.PathLike[str] | None = None,
    ) -> Result:
        """Returns the labels, the workers and the rest, decoded.

        `trace="light"` spares hard passes the likelihood, which more than halves their time on the compiled engine;
        labels and the final likelihood are the same. `progress` is called after every iteration. `start` gives label
        codes to begin with, [tasks] whole numbers, for models that would else begin with majority vote. What callers
        know beforehand (`gold`, `history`, `priors`, `warm_start`) is told in `quorate.aggregate`.
        """
        settings.check({"trace": trace}, {"trace": Choice(("full", "light"))})
        for name, value in (("history", history), ("priors", priors), ("warm_start", warm_start)):
            if value is not None and name not in self.takes:
                raise OptionError(f"model {self.name!r} cannot use {name}: it takes {listed(sorted({'gold', *self.takes}))}")
        place = resolve(engine, threads, source=votes, room=self.room)
        known: Any = votes_for(place, votes)  # Votes, or where Spark has them
        told = None if history is None else as_knowledge(history)
        before = None if warm_start is None else as_learned(warm_start, "warm_start")
        if told is not None:
            known = over_labels(known, told.labels, "history", closed=False)
        if before is not None:
            known = over_labels(known, before.knowledge.labels, "saved model")
        if start is not None and isinstance(known, SparkVotes):
            raise OptionError(NO_START)
        if start is not None:
            start = _codes(start, known.n_tasks, known.n_labels)
        if before is not None and before.scoring != self.scoring:
            raise OptionError(f"a fit of {before.model!r} cannot start {self.name!r}: use the same kind of model")
        wide = isinstance(known, WideVotes)  # what is known of workers goes to where these are
        warm = None if before is None or wide else Warm(transfer(loosened(before), known).params, before.iterations)
        watch = Watch(
            How(progress, trace == "full", start, warm),
            None if told is None or wide else pseudo_votes(told, known),
            None if priors is None else class_prior(priors, priors_weight, known.labels),
            None if told is None else matched(told.labels, known.labels)[np.unique(told.row_label)],
        )
        if priors is None and priors_weight is not None:
            raise OptionError(f"priors_weight is {shown(priors_weight)}, but there are no priors: give priors=…, too")
        far = isinstance(known, SparkVotes)
        standards: Any = None if gold is None else far_gold(gold, known) if far else read_gold(gold, known.labels)
        require_fit(place, known, self.room, believed=told is not None or getattr(self, "strength", 0) != 0)
        session = place.load(known, seed=self.seed, ties=self.ties, gold=standards)
        if isinstance(session, Resumable):
            beliefs = (told, before, watch.classes, None if standards is None else (standards.tasks, standards.labels), start)
            session.identify({"model": self.name, **asdict(self), "trace": trace, "beliefs": digest(beliefs)})
        rest = self.name, asdict(self), self.scoring, told, 0 if standards is None else len(standards)
        if isinstance(session, WidePasses):
            far_fit = self._fit_blocks(known, session, _told_blocks(session, watch, told, before))
            return WideResult(session.votes, far_fit.fit, session, *rest, asked=far_fit)
        fit = self._fit(known, session, watch)
        marked = session.gold()
        if marked is not None:
            fit = replace(fit, task_columns={**fit.task_columns, "gold": marked})
        if isinstance(session, SparkPasses):
            return SparkResult(session.votes, fit, session, *rest)
        return Result(known, fit, session, *rest)

    def _fit(self, panel: Votes, session: Session, watch: Watch) -> Fit:
        raise TypeError(f"{type(self).__name__} names settings but no way to fit them")

    def _fit_blocks(self, votes: WideVotes, session: WidePasses, watch: Watch) -> FarFit:
        raise OptionError(NOT_HERE.format(self.name))


def _told_blocks(session: WidePasses, watch: Watch, told: Knowledge | None, before: Learned | None) -> Watch:
    """Returns a watch over rows that are on the executors, after telling these what is known of their workers."""
    if told is not None:
        session.remember(partial(pseudo_votes, told))
    if before is None:
        return watch
    params = session.given(before.priors, partial(_carried, loosened(before)))
    return replace(watch, how=replace(watch.how, warm=Warm(params, before.iterations)))


def _carried(before: Learned, panel: Panel) -> Parameters:
    return transfer(before, panel).params


def _codes(start: ArrayLike, tasks: int, labels: int) -> NDArray[np.int32]:
    """Return label codes that a caller gives, [tasks], as the passes want them; nothing else is cast to codes."""
    try:
        given = np.asarray(start)
    except ValueError:  # lines of unlike lengths
        given = np.asarray(None)
    if given.shape == (0,) and not isinstance(start, np.ndarray):
        given = given.astype(np.int32)  # an empty list has no type of its own
    right = f"give the code of a label, 0 to {labels - 1}, for each of the {tasks} tasks, as whole numbers"
    if given.dtype.kind not in "iu" or given.shape != (tasks,):
        raise OptionError(f"start is {shown(start)}: {right}")
    wrong = (given < 0) | (given >= labels)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise OptionError(f"start holds {given[at]} at index {at}: {right}")
    return np.array(given, np.int32, order="C")
