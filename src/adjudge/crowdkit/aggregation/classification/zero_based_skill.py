"""Zero-Based Skill: votes weighted by skills, which move towards how often their workers agree with the result."""

from __future__ import annotations

import numpy as np

from adjudge.crowdkit.aggregation.classification.wawa import SkillWeighted
from adjudge.crowdkit.frames import encode, first_best, pd, series_of

__all__ = ["ZeroBasedSkill"]


class ZeroBasedSkill(SkillWeighted):
    """Weighted votes and skills in turn: a skill moves towards the share of the worker's votes that agree with the labels.

    All workers start with the skill of a guess, 1/K + `eps`. `n_iter` steps at most, fewer if the skills no longer change. A step
    goes `lr_init` of the way; every `lr_steps_to_reduce` steps this is multiplied by `lr_reduce_factor`. A tie goes to the
    first of its labels in sorted order. Fitted: `skills_`; predicted: `labels_`, `probas_`.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": ["cat", "cat", "dog"]})
    >>> ZeroBasedSkill().fit_predict(votes).to_dict()
    {'t1': 'cat'}
    """

    def __init__(
        self,
        n_iter: int = 100,
        lr_init: float = 1.0,
        lr_steps_to_reduce: int = 20,
        lr_reduce_factor: float = 0.5,
        eps: float = 1e-5,
    ) -> None:
        self.n_iter = n_iter
        self.lr_init = lr_init
        self.lr_steps_to_reduce = lr_steps_to_reduce
        self.lr_reduce_factor = lr_reduce_factor
        self.eps = eps

    def fit(self, data: pd.DataFrame) -> ZeroBasedSkill:
        """Learn the skills of the workers of a frame, and return self.

        - `data`: columns task, worker and label.
        """
        votes = encode(data)
        worker = votes.workers.codes
        skills = np.full(len(votes.workers), 1.0 / max(len(votes.labels), 1) + self.eps)
        labels, rate = first_best(votes.scores(skills[worker])), self.lr_init
        for iteration in range(1, self.n_iter + 1):
            if iteration % self.lr_steps_to_reduce == 0:
                rate *= self.lr_reduce_factor
            before, skills = skills, skills + rate * (votes.agreement(labels) - skills)
            labels = first_best(votes.scores(skills[worker]))
            if np.array_equal(before, skills):
                break
        self.skills_ = series_of(skills, votes.workers.ids, name="skill", index="worker")
        return self
