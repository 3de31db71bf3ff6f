"""crowd-kit's aggregators of labels: votes weighted by skill, and adapters over our models.

Every class documents which of our models runs and which settings it maps. Ties go to the first label in sorted order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from adjudge.crowdkit.aggregation.base import BaseClassificationAggregator, ProbabilityAggregator
from adjudge.crowdkit.aggregation.utils import get_accuracy, weigh_votes
from adjudge.crowdkit.frames import Encoded, Floats, encode, first_best, fit_model, keep_labelled, pd, random_state, vote_shares

__all__ = [
    "GLAD",
    "KOS",
    "MACE",
    "MMSR",
    "DawidSkene",
    "GoldMajorityVote",
    "MajorityVote",
    "OneCoinDawidSkene",
    "Wawa",
    "ZeroBasedSkill",
]

FLOOR = 1e-10  # pseudo-votes in every cell of a confusion matrix, in place of crowd-kit's floor under probabilities
MACE_SMOOTHING = 0.01  # pseudo-votes of a worker's strategy in plain EM: crowd-kit ignores `smoothing`
ASSIGNED_VOTES = 1e6  # pseudo-votes that outweigh all others, for errors that replace the first estimate
MAX_STALLED_ITERATIONS = 100  # iterations without progress after which M-MSR gives up


@dataclass(eq=False)
class MajorityVote(ProbabilityAggregator):
    """The label with the most votes, or with the largest sum of worker skills.

    Fitted: `labels_`, `probas_` (shares of the votes or skills) and `skills_` (share of a worker's votes that agree with
    `labels_`). With skills, `on_missing_skill` says what to do with votes of workers without one: "error" raises; "ignore"
    drops them and raises if a task loses all its votes; "value" uses `default_skill`.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": ["cat", "cat", "dog"]})
    >>> MajorityVote().fit_predict(votes).to_dict()
    {'t1': 'cat'}
    """

    default_skill: float | None = None
    on_missing_skill: str = "error"

    def fit(self, data: pd.DataFrame, skills: pd.Series[Any] | None = None) -> Self:
        """Fit the votes of a frame and return self.

        Parameters
        ----------
        data : DataFrame
            Columns task, worker and label.
        skills : Series, optional
            Vote weights by worker; 1 by default.

        """
        votes, weights = weigh_votes(data, skills, self.on_missing_skill, self.default_skill)
        self.probas_, labels = vote_shares(votes, weights)
        self.labels_ = votes.name_labels(labels)
        self.skills_ = votes.workers.series(votes.agreement(labels), "skill", "worker")
        return self


class SkillAggregator(BaseClassificationAggregator):
    """An aggregator that learns skills in `fit`, and predicts by votes weighted with them."""

    shares: ClassVar[str] = "probas_"  # attribute of each label's share of the skills of every task's votes

    def predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Return one label per task, weighting votes by the fitted skills.

        Parameters
        ----------
        data : DataFrame
            Columns task, worker and label; every worker must have a skill.

        """
        self._require_fitted("skills_")
        votes, weights = weigh_votes(data, self.skills_)
        shares, labels = vote_shares(votes, weights)
        setattr(self, self.shares, shares)
        self.labels_ = votes.name_labels(labels)
        return self.labels_

    def fit_predict(self, data: pd.DataFrame, *known: Any, **named: Any) -> pd.Series[Any]:
        """Fit the votes of a frame and return one label per task.

        Parameters
        ----------
        data, *known, **named : arguments of `fit`
            Passed on to `fit`.

        """
        self.fit(data, *known, **named)
        return self.predict(data)


class SkillShareAggregator(SkillAggregator, ProbabilityAggregator):
    """An aggregator of votes weighted by skill whose shares count as probabilities."""

    def predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Return each label's share of the skills of a task's voters.

        Parameters
        ----------
        data : DataFrame
            As for `predict`.

        """
        self.predict(data)
        return self.probas_


@dataclass(eq=False)
class Wawa(SkillShareAggregator):
    """Votes weighted by how often their workers agree with majority vote.

    Fitted: `skills_`; predicted: `labels_` and `probas_`.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": ["cat", "cat", "dog"]})
    >>> Wawa().fit(votes).skills_.to_dict()
    {'ann': 1.0, 'bob': 1.0, 'eve': 0.0}
    """

    def fit(self, data: pd.DataFrame) -> Self:
        """Learn the skills of a frame's workers and return self.

        Parameters
        ----------
        data : DataFrame
            Columns task, worker and label.

        """
        self.skills_ = MajorityVote().fit(data).skills_
        return self


@dataclass(eq=False)
class GoldMajorityVote(SkillShareAggregator):
    """Votes weighted by their workers' accuracy on gold tasks; every worker needs a vote on one.

    Fitted: `skills_`; predicted: `labels_` and `probas_`.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t2", "t2"], "worker": ["ann", "bob", "ann", "bob"], "label": [*"xyxy"]})
    >>> GoldMajorityVote().fit_predict(votes, pd.Series({"t1": "y"})).to_dict()
    {'t1': 'y', 't2': 'y'}
    """

    def fit(self, data: pd.DataFrame, true_labels: pd.Series[Any]) -> Self:  # type: ignore[override]
        """Learn the skills of a frame's workers and return self.

        Parameters
        ----------
        data : DataFrame
            Columns task, worker and label.
        true_labels : Series
            Labels of the gold tasks, indexed by task.

        """
        self.skills_ = get_accuracy(keep_labelled(data), true_labels, by="worker")
        return self


@dataclass(eq=False)
class ZeroBasedSkill(SkillShareAggregator):
    """Votes weighted by skills that move step by step towards agreement with the weighted vote.

    Skills start at 1/K + `eps`. Each of at most `n_iter` steps goes `lr_init` of the way; every `lr_steps_to_reduce` steps
    this share is multiplied by `lr_reduce_factor`. Fitted: `skills_`; predicted: `labels_` and `probas_`.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": ["cat", "cat", "dog"]})
    >>> ZeroBasedSkill().fit_predict(votes).to_dict()
    {'t1': 'cat'}
    """

    n_iter: int = 100
    lr_init: float = 1.0
    lr_steps_to_reduce: int = 20
    lr_reduce_factor: float = 0.5
    eps: float = 1e-5

    def fit(self, data: pd.DataFrame) -> Self:
        """Learn the skills of a frame's workers and return self.

        Parameters
        ----------
        data : DataFrame
            Columns task, worker and label.

        """
        votes = encode(data)
        skills, rate = np.full(len(votes.workers), 1.0 / max(len(votes.labels), 1) + self.eps), self.lr_init
        for step in range(1, self.n_iter + 1):
            if step % self.lr_steps_to_reduce == 0:
                rate *= self.lr_reduce_factor
            agreement = votes.agreement(first_best(votes.scores(skills[votes.workers.codes])))
            previous, skills = skills, skills + rate * (agreement - skills)
            if np.array_equal(previous, skills):
                break
        self.skills_ = votes.workers.series(skills, "skill", "worker")
        return self


@dataclass(eq=False)
class DawidSkene(ProbabilityAggregator):
    """`adjudge.DawidSkene` with at most `n_iter` iterations; it stops once the priors change by less than `tol` in sum.

    Fitted: `labels_`, `probas_`, `priors_` by label, `errors_` (indexed by worker and given label, with a column per true
    label) and `loss_history_` (log-likelihood per vote after each iteration).

    `initial_error_strategy` says how `fit` uses `initial_error` in its first estimate of the errors: "assign" replaces the
    estimate and needs all workers; "addition" adds numbers of votes to it.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": ["cat", "cat", "dog"]})
    >>> DawidSkene(n_iter=10).fit_predict(votes).to_dict()
    {'t1': 'cat'}
    """

    model: ClassVar[str] = "ds"
    model_settings: ClassVar[Mapping[str, Any]] = {}

    n_iter: int = 100
    tol: float = 1e-5
    initial_error_strategy: Literal["assign", "addition"] | None = None

    def fit(
        self, data: pd.DataFrame, true_labels: pd.Series[Any] | None = None, initial_error: pd.DataFrame | None = None
    ) -> Self:
        """Fit the votes of a frame and return self.

        Parameters
        ----------
        data : DataFrame
            Columns task, worker and label.
        true_labels : Series, optional
            Labels of the gold tasks, indexed by task; these tasks keep them.
        initial_error : DataFrame, optional
            Errors indexed by worker and given label, with a column per true label; see `initial_error_strategy`.

        """
        votes = encode(data, true_labels)
        gold = votes.gold(true_labels)
        shares = votes.scores() / np.bincount(votes.tasks.codes, minlength=len(votes.tasks))[:, None]
        for task, label in gold.items():
            shares[task] = np.arange(shares.shape[1]) == label
        started = counts = votes.expected_votes(shares)
        knows_errors = initial_error is not None and self.initial_error_strategy is not None and len(votes) > 0
        if initial_error is not None and knows_errors:
            counts = self._initial_counts(votes, started, initial_error)
        self.loss_history_ = []
        if self.n_iter < 1 or not len(votes):
            self._set_fit(votes, shares, counts)
            return self
        known: dict[str, Any] = {"gold": gold or None}
        if not knows_errors:
            result, posterior = self._fit_model(votes, self.n_iter, **known)
        else:  # only the first iteration knows the errors
            added = counts.sub(started, fill_value=0.0).clip(lower=0.0)  # the model counts the start itself
            errors = added if self.initial_error_strategy == "addition" else ASSIGNED_VOTES * normalize_errors(counts)
            result, posterior = self._fit_model(votes, 1, history=votes.as_history(errors), **known)
            if self.n_iter > 1:
                result, posterior = self._fit_model(votes, self.n_iter - 1, warm_start=result, **known)
        self.loss_history_ = [row.log_likelihood / len(votes) for row in result.fit.trace]
        self._set_fit(votes, posterior, votes.expected_votes(posterior))
        return self

    def _fit_model(self, votes: Encoded, iterations: int, **known: Any) -> tuple[Any, Floats]:
        """Return the fit of our model after at most this many iterations."""
        settings = {"max_iter": iterations, "tol": max(self.tol, 0.0), "smoothing": FLOOR, **self.model_settings}
        return fit_model(self.model, votes, settings, **known)

    def _set_fit(self, votes: Encoded, posterior: Floats, counts: pd.DataFrame) -> None:
        """Set what follows from a posterior, [tasks, K], and the expected votes by worker, given label and true label."""
        self._set_posterior(votes, posterior)
        self.priors_ = votes.labels.series(posterior.mean(axis=0), "prior", "label") if len(votes) else pd.Series(dtype=float)
        self.errors_ = normalize_errors(counts) if len(votes) else pd.DataFrame()

    def _initial_counts(self, votes: Encoded, counts: pd.DataFrame, errors: pd.DataFrame) -> pd.DataFrame:
        """Return the votes that the first errors are estimated from."""
        if self.initial_error_strategy not in ("assign", "addition"):
            raise ValueError(f"Invalid initial_error_strategy: {self.initial_error_strategy!r}, give 'assign' or 'addition'")
        known = errors.reindex(columns=counts.columns).fillna(0.0).rename_axis(["worker", "label"]).astype(float)
        if self.initial_error_strategy == "addition":
            return counts.add(known, fill_value=0.0)
        missing = ~votes.workers.ids.isin(known.index.get_level_values("worker"))
        if missing.any():
            raise ValueError(f"All the workers in data should be in initial_error: it lacks {int(missing.sum())} workers")
        if not np.allclose(known[counts.columns.intersection(errors.columns)].groupby("worker").sum(), 1.0):
            raise ValueError("The sum of each worker's error matrix in initial_error should be 1.0 for every true label")
        return known


def normalize_errors(counts: pd.DataFrame) -> pd.DataFrame:
    """Return the share of each given label among a worker's expected votes on tasks of a true label."""
    floored = counts.clip(lower=FLOOR)
    return floored / floored.groupby("worker").transform("sum")


@dataclass(eq=False)
class OneCoinDawidSkene(DawidSkene):
    """`adjudge.OneCoin` with estimated class priors: one probability of a right answer per worker.

    Settings and attributes are those of `DawidSkene`, and `skills_`, the probability of each worker. The model takes no
    initial errors: `initial_error_strategy` is ignored.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": ["cat", "cat", "dog"]})
    >>> OneCoinDawidSkene(n_iter=10).fit_predict(votes).to_dict()
    {'t1': 'cat'}
    """

    model: ClassVar[str] = "one-coin"
    model_settings: ClassVar[Mapping[str, Any]] = {"class_priors": "estimated"}

    def fit(self, data: pd.DataFrame) -> Self:  # type: ignore[override]
        """Fit the votes of a frame and return self.

        Parameters
        ----------
        data : DataFrame
            Columns task, worker and label.

        """
        super().fit(data)
        return self

    def _set_fit(self, votes: Encoded, posterior: Floats, counts: pd.DataFrame) -> None:
        super()._set_fit(votes, posterior, counts)
        right = np.bincount(votes.workers.codes, posterior[votes.tasks.codes, votes.labels.codes], len(votes.workers))
        skills = right / np.bincount(votes.workers.codes, minlength=len(votes.workers))
        self.skills_ = votes.workers.series(skills, "skill", "worker")
        if len(votes):
            skill = skills[votes.workers.ids.get_indexer(counts.index.get_level_values("worker"))][:, None]
            own = counts.index.get_level_values("label").to_numpy()[:, None] == votes.labels.ids.to_numpy()
            values = np.where(own, skill, (1.0 - skill) / max(len(votes.labels) - 1, 1))
            self.errors_ = pd.DataFrame(values, counts.index, counts.columns)


@dataclass(eq=False)
class GLAD(ProbabilityAggregator):
    """`adjudge.GLAD`: workers differ in ability (alpha), tasks in ease (exp beta); both have normal priors N(1, 1).

    At most `n_iter` iterations, fewer if the penalised log-likelihood gains less than `tol` per vote and label. An M-step
    takes at most `m_step_max_iter` steps of L-BFGS and ends once the next promises less than `m_step_tol` of the gain
    so far. `labels_priors` are class priors by label, equal by default. `alphas_priors_mean` and `betas_priors_mean` must be
    None: the means are 1. `silent` is ignored: nothing is printed.

    Fitted: `labels_`, `probas_`, `alphas_` by worker, `betas_` by task, `priors_` by label and `loss_history_` (penalised
    log-likelihood per vote and label after each iteration).

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": ["cat", "cat", "dog"]})
    >>> GLAD(n_iter=10).fit_predict(votes).to_dict()
    {'t1': 'cat'}
    """

    n_iter: int = 100
    tol: float = 1e-5
    silent: bool = True
    labels_priors: pd.Series[Any] | None = None
    alphas_priors_mean: pd.Series[Any] | None = None
    betas_priors_mean: pd.Series[Any] | None = None
    m_step_max_iter: int = 25
    m_step_tol: float = 1e-2

    def fit(self, data: pd.DataFrame) -> Self:
        """Fit the votes of a frame and return self.

        Parameters
        ----------
        data : DataFrame
            Columns task, worker and label.

        """
        for name in ("alphas_priors_mean", "betas_priors_mean"):
            if getattr(self, name) is not None:
                raise NotImplementedError(f"{name} cannot be set: the prior means of abilities and log eases are 1 here")
        votes = encode(data)
        labels, cells = votes.labels, max(len(votes) * len(votes.labels), 1)
        priors = np.full(len(labels), 1.0 / max(len(labels), 1))
        if self.labels_priors is not None:
            given = self.labels_priors.reindex(labels.ids)
            if given.isna().any():
                raise ValueError(f"labels_priors lacks {int(given.isna().sum())} of {len(labels)} labels: give one for each")
            priors = given.to_numpy("float64")
        posterior, ability, difficulty, self.loss_history_ = np.zeros((0, 0)), np.zeros(0), np.ones(0), []
        if len(votes):
            settings = {"m_steps": self.m_step_max_iter, "m_tol": self.m_step_tol, "tol": max(self.tol, 0.0) * cells}
            known = {} if self.labels_priors is None else {"priors": priors.tolist()}
            result, posterior = fit_model("glad", votes, {"max_iter": max(self.n_iter, 1), **settings}, **known)
            ability, difficulty = result.fit.worker_columns["ability"], result.fit.task_columns["difficulty"]
            self.loss_history_ = [row.objective / cells for row in result.fit.trace]
        self._set_posterior(votes, posterior, "variable")
        self.alphas_ = votes.workers.series(ability, "alpha", "worker")
        self.betas_ = votes.tasks.series(-np.log(difficulty), "beta", "task")
        self.priors_ = labels.series(priors, "prior", "label")
        return self


@dataclass(eq=False)
class MACE(ProbabilityAggregator):
    """`adjudge.MACE` from crowd-kit's random starts: workers know the label, or spam by a strategy of their own.

    Each of `n_restarts` fits takes `n_iter` iterations, and the one with the largest likelihood is kept. An integer
    `random_state` starts all restarts alike, so that one is enough. `method` is "vb", with beta priors `alpha` (spamming)
    and `beta` (knowing), or "em". Starts are uniform from 1 to 2 + `default_noise`, then normalised. `smoothing` and
    `verbose` are ignored: crowd-kit's EM always smooths by 0.01 / K, and nothing is printed.

    Fitted: `labels_`, `probas_`, `spamming_` ([workers, 2]: spamming, knowing) and `thetas_` ([workers, K]: a spammer's
    answers), with workers and labels in order of first appearance; also `smoothing_`, and the pseudo-votes of the priors,
    `theta_priors_` and `strategy_priors_`.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": ["cat", "cat", "dog"]})
    >>> MACE().fit_predict(votes).to_dict()
    {'t1': 'cat'}
    """

    n_restarts: int = 10
    n_iter: int = 50
    method: str = "vb"
    smoothing: float = 0.1
    default_noise: float = 0.5
    alpha: float = 0.5
    beta: float = 0.5
    random_state: int = 0
    verbose: int = 0

    def fit(self, data: pd.DataFrame) -> Self:
        """Fit the votes of a frame and return self.

        Parameters
        ----------
        data : DataFrame
            Columns task, worker and label.

        """
        votes = encode(data)
        workers, labels = votes.workers, votes.labels
        self.smoothing_ = MACE_SMOOTHING / max(len(labels), 1)
        if not len(votes):
            self._set_posterior(votes, np.zeros((0, 0)))
            self.spamming_, self.thetas_ = np.zeros((0, 2)), np.zeros((0, 0))
            return self
        from adjudge.models import mace

        model = mace.MACE(
            method="vb" if self.method == "vb" else "em", alpha=self.alpha, beta=self.beta, smoothing=self.smoothing_
        )
        self.theta_priors_ = np.tile([float(self.alpha), float(self.beta)], (len(workers), 1))
        self.strategy_priors_ = np.full((len(workers), len(labels)), model.strategy_prior)
        alike = self.random_state is not None and not hasattr(self.random_state, "uniform")
        starts = [self._start(votes) for _ in range(1 if alike else max(self.n_restarts, 1))]
        best = mace.fit_from(votes.votes, starts, model, iterations=self.n_iter)
        self._set_posterior(votes, best.posterior, None)
        self.spamming_, self.thetas_ = best.spamming[workers.seen], best.strategies[np.ix_(workers.seen, labels.seen)]
        return self

    def _start(self, votes: Encoded) -> tuple[Floats, Floats]:
        """Return random probabilities of spamming and knowing, [workers, 2], and of a spammer's answers, [workers, K]."""
        workers, labels = np.argsort(votes.workers.seen), np.argsort(votes.labels.seen)  # drawn in order of appearance
        shapes = (len(workers), 2), (len(workers), len(labels))
        draws = (1.0 + (1.0 + self.default_noise) * random_state(self.random_state).uniform(size=shape) for shape in shapes)
        spamming, strategies = (draw / draw.sum(axis=1, keepdims=True) for draw in draws)
        return spamming[workers], strategies[np.ix_(workers, labels)]


@dataclass(eq=False)
class KOS(BaseClassificationAggregator):
    """`adjudge.KOS`, for two labels: `n_iter` rounds of messages between tasks and workers.

    Messages start at 1, not at random: `random_state` is ignored. Fitted: `labels_`.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": [*"abcabc"], "label": ["x", "x", "y", "y", "y", "x"]})
    >>> KOS().fit_predict(votes).to_dict()
    {1: 'x', 2: 'y'}
    """

    n_iter: int = 100
    random_state: int = 0

    def fit(self, data: pd.DataFrame) -> Self:
        """Fit the votes of a frame and return self.

        Parameters
        ----------
        data : DataFrame
            Columns task, worker and label, with two distinct labels.

        """
        votes = encode(data)
        if len(votes) and len(votes.labels) != 2:
            raise ValueError(f"KOS aggregation method is for binary classification only: there are {len(votes.labels)} labels")
        posterior = fit_model("kos", votes, {"max_iter": max(self.n_iter, 1)})[1] if len(votes) else np.zeros((0, 2))
        self.labels_ = votes.name_labels(first_best(posterior))
        return self


@dataclass(eq=False)
class MMSR(SkillAggregator):
    """The rank-one factor of `adjudge.MMSR` with crowd-kit's start, trimming and bounds.

    Skills start at uniform random numbers from `random_state`. At most `n_iter` steps, fewer if the factor moves by less
    than `tol`. A vote weighs log((K - 1) p / (1 - p)), where p is the probability that its worker is right. Fitted:
    `skills_` (these weights) and `loss_history_` (how far each step moved); predicted: `labels_` and `scores_` (shares of
    the weights).

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": [*"abcabc"], "label": ["x", "x", "y", "y", "y", "y"]})
    >>> MMSR().fit_predict(votes).to_dict()
    {1: 'x', 2: 'y'}
    """

    shares: ClassVar[str] = "scores_"

    n_iter: int = 10000
    tol: float = 1e-10
    random_state: int | None = 0

    def fit(self, data: pd.DataFrame) -> Self:
        """Learn the skills of a frame's workers and return self.

        Parameters
        ----------
        data : DataFrame
            Columns task, worker and label.

        """
        votes = encode(data)
        start = random_state(self.random_state).uniform(size=len(votes.workers))[np.argsort(votes.workers.seen)]
        self.loss_history_, weights = [], np.ones(len(votes.workers))
        if len(votes.labels) > 1:
            weights = self._weights(votes, start)
        self.skills_ = votes.workers.series(weights, "skill", "worker")
        return self

    def _weights(self, votes: Encoded, start: Floats) -> Floats:
        """Return the weights of votes, [workers], from the skills that explain how often workers agree."""
        from adjudge.kernels import methods_cpu as kernels
        from adjudge.models import mmsr

        k = len(votes.labels)
        casts = mmsr.casts_of(votes.votes)
        mmsr.require_room(casts)
        pairs = kernels.worker_pairs(casts)
        degree = np.diff(pairs.ptr)
        trim = np.full(len(degree), max(int(degree.min()) // 2 - 1, 0))
        limits: dict[str, Any] = {"max_iter": self.n_iter, "tol": self.tol, "patience": MAX_STALLED_ITERATIONS}
        agreement = mmsr.beyond_chance(pairs, k)
        found = mmsr.factor(pairs, agreement, trim=trim, start=start, kernels=kernels, **limits)
        self.loss_history_ = list(found.changes)
        # All pairs of workers count alike for the signs, however many tasks they share: the evidence is K times X.
        alike: Any = {"common": np.full(len(agreement), k), "agreed": 1.0 + agreement}
        signs = mmsr.signs(pairs._replace(**alike), k)
        skill = np.sqrt(found.left * found.right) * np.where(signs == 0, 1.0, signs)
        margin = 1.0 / np.sqrt(len(votes.tasks))  # what this many tasks can tell
        return mmsr.log_odds(np.maximum(np.minimum(skill, 1.0 - margin), margin - 1.0 / (k - 1)), k)

    def predict_score(self, data: pd.DataFrame) -> pd.DataFrame:
        """Return each label's share of the weights of a task's voters.

        Parameters
        ----------
        data : DataFrame
            As for `predict`.

        """
        self.predict(data)
        return self.scores_

    def fit_predict_score(self, data: pd.DataFrame) -> pd.DataFrame:
        """Fit the votes of a frame and return each label's share of the weights of a task's voters.

        Parameters
        ----------
        data : DataFrame
            As for `fit`.

        """
        return self.fit(data).predict_score(data)
