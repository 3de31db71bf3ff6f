"""Whether labels are used as grades, so that `auto` fits them as such: by their names, and by what workers confuse with what.

Workers who grade confuse neighbours. So in the coincidences of votes on the same tasks the order of the labels must be short: the
mean distance of two different votes is well below that of votes that differ at random, and no swap of two labels makes it
smaller. docs/grades.md has what the rule was measured on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import Fit
from adjudge.data.grades import grades_of, numbers_of
from adjudge.data.vocabulary import Vocabulary
from adjudge.engines.base import Session
from adjudge.models.base import Knowns, Model
from adjudge.models.careful import pooled_votes
from adjudge.models.ordinal import Ordinal

WHY: Final = "ordinal grades: workers who differ give neighbouring grades"
MIN_GRADES: Final = 3
MAX_GRADES: Final = 20
MIN_GRADED_TASKS: Final = 40  # with fewer, neighbours are confused by luck
MAX_GRADE_DISTANCE_RATIO: Final = 0.82  # simulated grades mostly .55 to .8, names .86 and more
Floats = NDArray[np.float64]


def fit_if_grades(model: Model, session: Session, known: Knowns) -> Fit | None:
    """Return the fit of ordinal grades where labels are used as such, else None."""
    labels = session.votes.labels
    if session.votes.n_tasks < MIN_GRADED_TASKS or not may_be_grades(labels):
        return None
    session.start(hard=False)
    if not are_grades(labels, session.gather(pooled_votes)):  # counts of vote shares: coincidences
        return None
    graded = Ordinal(seed=model.seed, ties=model.ties).adapt_to(known.votes)
    return replace(graded._fit(session, known), scoring=graded.scoring, facts={"chose": graded.name, "why": WHY})


def may_be_grades(labels: Vocabulary) -> bool:
    """Return whether labels can be grades: a few numbers at equal steps, or words in a declared order.

    >>> may_be_grades(Vocabulary.of([1, 2, 3, 4, 5])), may_be_grades(Vocabulary.of([1, 2, 7]))
    (True, False)
    >>> words = Vocabulary.of(["poor", "fair", "good"])
    >>> may_be_grades(words), may_be_grades(words.declared())
    (False, True)
    """
    if not MIN_GRADES <= len(labels) <= MAX_GRADES:
        return False
    values = numbers_of(labels.texts())
    if values is None:
        return labels.is_declared
    steps = np.diff(np.sort(values))
    return bool(steps[0] > 0 and np.allclose(steps, steps[0]))


def are_grades(labels: Vocabulary, coincidences: Floats) -> bool:
    """Return whether labels that can be grades are used as such, by the coincidences of votes on the same tasks, [K, K].

    >>> neighbours = np.array([[9.0, 2.0, 0.0], [2.0, 9.0, 2.0], [0.0, 2.0, 9.0]])
    >>> are_grades(Vocabulary.of([1, 2, 3]), neighbours), are_grades(Vocabulary.of([1, 2, 3]), np.ones((3, 3)))
    (True, False)
    """
    if not may_be_grades(labels):
        return False
    order = grades_of(labels.texts(), is_declared=True).codes
    apart = coincidences[np.ix_(order, order)].astype(np.float64)
    apart = apart + apart.T
    np.fill_diagonal(apart, 0.0)
    given = np.flatnonzero(apart.sum(axis=0) > 0)  # a grade that nobody gave makes a scale no longer
    if len(given) < MIN_GRADES:
        return False
    apart, k = apart[np.ix_(given, given)], len(given)
    distance = np.abs(np.subtract.outer(given, given)).astype(np.float64)
    seen, at_random = float((apart * distance).sum()), float(distance.sum()) / (k * (k - 1))
    if seen > MAX_GRADE_DISTANCE_RATIO * at_random * float(apart.sum()):
        return False
    for i in range(k):
        for j in range(i):
            swapped = np.arange(k)
            swapped[[i, j]] = j, i
            if float((apart * distance[np.ix_(swapped, swapped)]).sum()) < seen * (1.0 - 1e-12):
                return False
    return True
