"""Models of other people: any object with a method `fit(votes)`, used like one of ours."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import Fit
from adjudge.data.options import DEFAULTS, Place, Ties
from adjudge.data.votes import Votes
from adjudge.engines.base import OffersWhole, Session
from adjudge.errors import InputError, itemize, quote
from adjudge.models.base import Knowns, Model
from adjudge.models.dawid_skene import ConfusionRecipe

Floats = NDArray[np.float64]
ANSWERS = "a dict task -> label, or an array of probabilities [tasks, labels]"


class FitsVotes(Protocol):
    """An object that `adj.aggregate` and `adj.compare` take as a model."""

    def fit(self, votes: Votes, /) -> Any:
        """Return a dict task -> label, or probabilities, [tasks, labels] in the order of `votes.tasks` and `votes.labels`."""
        ...


class ObjectModel(Model):
    """A model whose labels come from an object's `fit(votes)`; `wrap` makes one.

    Each wrapped object has a class of its own, so that its name is where the name of any model is.
    """

    takes: ClassVar[frozenset[str]] = frozenset()
    takes_weights: ClassVar[bool] = False
    is_likelihood: ClassVar[bool] = False
    place: ClassVar[Place] = "memory"
    wrapped: ClassVar[FitsVotes]

    def __reduce__(self) -> tuple[Any, ...]:
        return wrap, (self.wrapped, self.seed, self.ties)

    def _fit(self, session: Session, known: Knowns) -> Fit:
        here = cast(OffersWhole, session)  # as its place says
        whole = here.whole()
        shares = self._probabilities(self.wrapped.fit(whole.votes), whole.votes)
        if whole.gold is not None:
            tasks = np.flatnonzero(whole.gold >= 0)
            shares[tasks] = 0.0
            shares[tasks, whole.gold[tasks]] = 1.0
        outcome = here.decided(shares, shares)
        params, statistics, _ = session.estimate(ConfusionRecipe(self))
        return Fit(outcome, params, statistics, posterior=partial(np.asarray, shares), is_opaque=True)

    def _probabilities(self, given: Any, votes: Votes) -> Floats:
        """Return what the object's `fit` returned as probabilities, [tasks, K]; anything else than promised is an error."""
        shape = votes.n_tasks, votes.n_labels
        if isinstance(given, Mapping):
            return self._from_labels(given, votes)
        try:
            shares = np.array(given, np.float64)
        except (TypeError, ValueError):
            raise InputError(f"model {self.name!r} returned {type(given).__name__}: {ANSWERS} was expected") from None
        if shares.shape != shape:
            raise InputError(f"model {self.name!r} returned an array of shape {shares.shape}: {shape} was expected")
        totals = shares.sum(axis=1)
        bad = np.flatnonzero(~(np.isfinite(shares).all(axis=1) & (shares >= 0).all(axis=1) & (np.abs(totals - 1) < 1e-6)))
        if len(bad):
            where = f"task {quote(votes.tasks[int(bad[0])])}"
            raise InputError(
                f"model {self.name!r} returned {shares[bad[0]].tolist()} for {where}: probabilities of sum 1 are expected"
            )
        return cast(Floats, shares / totals[:, None])

    def _from_labels(self, given: Mapping[Any, Any], votes: Votes) -> Floats:
        """Return labels by task as probabilities of 1, [tasks, K]."""
        tasks, labels = (ids.codes(texts) for ids, texts in ((votes.tasks, given), (votes.labels, given.values())))
        for codes, names, known in ((tasks, given, "task"), (labels, given.values(), "label")):
            if (codes < 0).any():
                stranger = list(names)[int(np.argmin(codes))]
                among = f" (accepted: {itemize(votes.labels.ids())})" if known == "label" else ""
                raise InputError(f"model {self.name!r} returned {known} {quote(stranger)}, which no vote names{among}")
        missing = np.setdiff1d(np.arange(votes.n_tasks), tasks)
        if len(missing):
            first = quote(votes.tasks[int(missing[0])])
            raise InputError(f"model {self.name!r} returned no label for {len(missing)} tasks, {first} first: each needs one")
        shares = np.zeros((votes.n_tasks, votes.n_labels))
        shares[tasks, labels] = 1.0
        return shares


def wrap(model: FitsVotes, seed: int = DEFAULTS.seed, ties: Ties = DEFAULTS.ties) -> ObjectModel:
    """Return an object with `fit(votes)` as a model; its attribute `name`, or else its class, gives the name."""
    name = getattr(model, "name", None)
    name = name if isinstance(name, str) else type(model).__name__
    kind = type("ObjectModel", (ObjectModel,), {"name": name, "title": name, "wrapped": model})
    return cast(ObjectModel, kind(seed=seed, ties=ties))
