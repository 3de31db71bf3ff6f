"""A fit at another temperature: the same labels, with probabilities that are less (or more) sure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from quorate.engines.base import Session
from quorate.fit import Fit
from quorate.temperature import tempered


def posterior_of(fit: Fit, session: Session) -> NDArray[np.float64]:
    """Returns T_qc of a fit, [tasks, K]."""
    return session.posterior(fit.params) if fit.posterior is None else fit.posterior()


def tempered_fit(fit: Fit, session: Session, temperature: float) -> Fit:
    """Returns a fit whose posteriors are raised to 1 / temperature; gold stays certain."""
    if temperature == 1.0:
        return fit
    given = fit.task_columns.get("gold")

    def posterior() -> NDArray[np.float64]:
        plain = posterior_of(fit, session)
        out = tempered(plain, temperature)
        if given is not None:
            out[given] = plain[given]
        return out

    labels = fit.outcome.labels
    confidence = posterior()[np.arange(len(labels)), labels]
    return replace(fit, outcome=replace(fit.outcome, confidence=confidence), posterior=posterior, temperature=temperature)
