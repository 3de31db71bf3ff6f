"""A fit at another temperature: the same labels, with probabilities that are less (or more) sure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from quorate.engines.base import Session
from quorate.fit import Fit
from quorate.temperature import tempered
from quorate.votes import piece

Floats = NDArray[np.float64]


def posterior_pieces(fit: Fit, session: Session) -> Iterator[tuple[slice, Floats]]:
    """Yields (some tasks, their T_qc, [tasks, K]) of a fit, in task order; all at once where they are in memory."""
    found = session.posterior() if fit.posterior is None else fit.posterior()
    at = 0
    for part in (found,) if isinstance(found, np.ndarray) else found:
        yield slice(at, at + len(part)), part
        at += len(part)


def posterior_of(fit: Fit, session: Session) -> Floats:
    """Returns T_qc of a fit, [tasks, K]."""
    pieces = [part for _, part in posterior_pieces(fit, session)]
    return pieces[0] if len(pieces) == 1 else np.concatenate([np.zeros((0, len(fit.params.priors))), *pieces])


def tempered_fit(fit: Fit, session: Session, temperature: float) -> Fit:
    """Returns a fit whose posteriors are raised to 1 / temperature; gold stays certain."""
    if temperature == 1.0:
        return fit
    given, labels = fit.task_columns.get("gold"), fit.outcome.labels

    def posterior() -> Iterator[Floats]:
        for cut, plain in posterior_pieces(fit, session):
            out = tempered(plain, temperature)
            if given is not None:
                certain = given[cut]
                out[certain] = plain[certain]
            yield out

    def confidence() -> Iterator[Floats]:
        at = 0
        for part in posterior():
            yield part[np.arange(len(part)), piece(labels, slice(at, at + len(part)))]
            at += len(part)

    outcome = replace(fit.outcome, confidence=session.keep(confidence()))
    return replace(fit, outcome=outcome, posterior=posterior, temperature=temperature)
