"""Multi-annotator competence estimation (MACE): a vote is either the true label or spam, drawn from the worker's own habit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT, round_to_unit, sums_of
from adjudge.data.fit import ClassPrior, Fit, Parameters, TableLines
from adjudge.data.options import MOST_VOTES, Choice, Number, Rules
from adjudge.data.votes import Votes, WorkerRows
from adjudge.engines import memory
from adjudge.engines.base import PassSums, Session, WorkerBlock
from adjudge.engines.registry import resolve
from adjudge.engines.shard import hashes
from adjudge.kernels import reference
from adjudge.kernels.reference import mix
from adjudge.kernels.special import digamma, log_gamma
from adjudge.models import em
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.dawid_skene import ConfusionPrior, EMRecipe

Floats = NDArray[np.float64]
Method = Literal["vb", "em"]
MIN_PSEUDO_VOTES = 1e-6  # of a beta or Dirichlet prior
BETTER = 1e-9  # relative gain from which an objective counts as higher, beyond rounding
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # steps of this size visit all 64-bit numbers


@dataclass(frozen=True, kw_only=True)
class MACE(Model):
    """Hovy et al. 2013: a worker either knows the label, or spams from a habit of its own.

    `result.workers` has the probability of `spamming`, and its complement `trust`. Labels are equally likely a priori, unless
    priors are given. The fit with the highest objective wins: the bound of the log-evidence ("vb", then also
    `result.log_likelihood`), or the likelihood with the term of smoothing ("em"). Starts depend on the seed and on the answers of
    a worker, not on its name.

    Parameters
    ----------
    method : str, default "vb"
        "vb" is variational Bayes; "em" is expectation-maximisation.
    restarts, max_iter, tol : optional
        Number of random starts; each runs until the objective gains less than `tol`, at most `max_iter` iterations.
    alpha, beta : optional
        Prior of spamming and of knowing ("vb").
    strategy_prior : float, default 10.0
        Pseudo-answers per label in a worker's habit ("vb").
    smoothing : float, default 0.1
        Added to all counts ("em").
    default_noise : float, default 0.5
        Starts are drawn uniformly from 1 to 2 + this, then normalised.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = adj.MACE().fit(votes)
    >>> result.labels["label"].to_list()
    ['cat', 'dog']
    >>> result.workers.sort("spamming")["worker"].to_list()[-1]
    'eve'

    """

    name: ClassVar[str] = "mace"
    title: ClassVar[str] = "competence estimation (MACE)"
    room: ClassVar[memory.Room] = memory.COMPETENCE
    place: ClassVar[Literal["process"]] = "process"
    takes: ClassVar[frozenset[str]] = frozenset({"priors"})
    rules: ClassVar[Rules] = {
        **COMMON,
        "method": Choice(get_args(Method)),
        "restarts": Number(least=1, whole=True),
        "max_iter": Number(least=1, whole=True),
        "smoothing": Number(least=0, most=MOST_VOTES),
        "alpha": Number(least=MIN_PSEUDO_VOTES, most=MOST_VOTES),
        "beta": Number(least=MIN_PSEUDO_VOTES, most=MOST_VOTES),
        "strategy_prior": Number(least=MIN_PSEUDO_VOTES, most=MOST_VOTES),
        "tol": Number(least=0),
        "default_noise": Number(least=0, most=MOST_VOTES),
    }

    method: Method = "vb"
    restarts: int = 10
    max_iter: int = 50
    smoothing: float = 0.1
    alpha: float = 0.5
    beta: float = 0.5
    strategy_prior: float = 10.0
    tol: float = 1e-4
    default_noise: float = 0.5

    def _fit(self, session: Session, known: Knowns) -> Fit:
        possible, options = known.possible(session), replace(known.options, start=None, warm=None)
        classes = known.classes or ClassPrior(possible / max(int(possible.sum()), 1))
        best: Restart | None = None
        for restart in range(self.restarts):
            recipe = MaceRecipe(self, ConfusionPrior(classes=classes), settings=self, possible=possible, restart=restart)
            found = _restart(session, recipe, options)
            if best is None or found.objective > best.objective + BETTER * abs(best.objective):
                best = found
        assert best is not None  # there is at least one restart
        session.adopt(lambda _: best.params, best.params.priors)
        outcome = session.finish()
        likelihood = best.objective if self.method == "vb" else outcome.log_likelihood
        _, statistics, _ = session.estimate()
        shown, shares = best.step.means(), recipe.class_priors(statistics.class_counts).shares
        return Fit(
            replace(outcome, log_likelihood=likelihood),
            replace(best.params, table=shown.table, priors=shares if known.classes is None else best.params.priors),
            statistics,
            best.run.trace,
            True,
            worker_columns=shown.columns,
            scored_by=best.params.priors,
        )


class WorkerCompetence(NamedTuple):
    """Parameters of some workers: probabilities, or exp of their expected logarithms."""

    spamming: Floats  # [workers]
    knowing: Floats  # [workers]
    strategy: Floats  # [rows] of giving the row's label when spamming
    absent: Floats  # [workers] of giving one label that the worker never gave, when spamming


class Restart(NamedTuple):
    """A fit from one start."""

    run: em.Run
    objective: float
    params: Parameters
    step: MaceStep


def _restart(session: Session, recipe: MaceRecipe, options: em.FitOptions) -> Restart:
    """Return the fit of a session from the start of a recipe."""
    ended = em.repeat(session, recipe, lambda: _first(session, recipe), options)
    return Restart(ended, ended.trace[-1].objective, session.estimate().params, recipe.steps[0])


def _first(session: Session, recipe: MaceRecipe) -> PassSums:
    """Return the sums of an E-step under the parameters that a recipe starts with."""
    begun = session.start(hard=False)
    session.m_step(recipe, recipe.class_priors(begun.class_counts).priors)
    return session.e_step(hard=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class MaceRecipe(EMRecipe):
    """Competences from the counts of an E-step and from the competences before; the first M-step only starts."""

    settings: MACE
    possible: NDArray[np.bool_]  # [K] labels that there are
    restart: int = 0
    start: tuple[Floats, Floats] | None = None  # [workers, 2] spamming and knowing, [workers, K] strategies; None: drawn
    steps: list[MaceStep] = field(default_factory=list)  # the M-step of this fit, once it has begun

    def __post_init__(self) -> None:
        super().__post_init__()
        tol = self.settings.tol if self.start is None else -np.inf  # starts that were given run all iterations
        # Starts are random, so a symmetric crowd need not stay so; the trace says which method ran.
        vars(self).update(stop="objective", tol=tol, phase=self.settings.method)

    def on(self, block: WorkerBlock) -> MaceStep:
        """Return the M-step of these workers."""
        self.steps.append(MaceStep(block, self))
        return self.steps[-1]


class MaceStep:
    """The M-step of all workers. It keeps their competences, which say how many of the right answers were known."""

    def __init__(self, block: WorkerBlock, recipe: MaceRecipe) -> None:
        panel = self._panel = block.panel
        self._model = recipe.settings
        self._labels = int(recipe.possible.sum())
        self._votes = np.asarray(block.row_votes(), np.float64)
        self._own = np.arange(panel.n_rows), panel.row_label
        self._worker = panel.row_worker()
        self._unused = self._labels - np.diff(panel.worker_ptr)  # labels that a worker never gave
        self._start: tuple[Floats, Floats] | None = recipe.start
        if self._start is None:
            self._start = draw_start(panel, self._votes, recipe.possible, recipe.settings, recipe.restart)
        self._known = np.zeros(panel.n_rows)  # answers of each row that were known, expected in the last E-step
        spamming, knowing = self._start[0].T
        self.now = WorkerCompetence(spamming, knowing, self._start[1][self._worker, panel.row_label], np.zeros(panel.n_workers))
        self._begun = False

    def __call__(self, counts: Any, shared: Any = None) -> TableLines:
        """Return the log-probabilities of answers by true label, [rows, K], and the priors' part of the objective."""
        if not self._begun:
            self._begun = True
            return self._lines(self.now, 0.0)
        now, worker = self.now, self._worker
        with np.errstate(invalid="ignore"):
            share = now.knowing[worker] / (now.spamming[worker] * now.strategy + now.knowing[worker])
        self._known = np.asarray(counts[self._own], np.float64) * np.nan_to_num(share)
        self.now, penalty = self._estimate() if self._model.method == "em" else self._expect()
        return self._lines(self.now, penalty)

    def means(self) -> TableLines:
        """Return the lines of the mean competences, [rows, K], for predictions and people."""
        return self._lines(self._mean() if self._model.method == "vb" and self._begun else self.now, 0.0)

    def strategies(self, labels: int) -> Floats:
        """Return the probability of every answer when spamming, [workers, K]."""
        if not self._known.any() and self._start is not None:
            return self._start[1]
        out = np.repeat(self.now.absent[:, None], labels, axis=1)
        out[self._worker, self._panel.row_label] = self.now.strategy
        return out

    def _counted(self) -> tuple[Floats, Floats, Floats]:
        """Return the answers expected to be spam by row, [rows], and by worker those that are and those known, [workers] each."""
        spam = np.maximum(self._votes - self._known, 0.0)
        starts = self._panel.worker_ptr[:-1]
        return spam, sums_of(spam, starts), sums_of(self._known, starts)

    def _estimate(self) -> tuple[WorkerCompetence, float]:
        """Return the most likely competences under smoothing, and the smoothing's term of the objective."""
        s, (spam, spammed, known) = self._model.smoothing, self._counted()
        total = _above_zero(spammed + known + 2.0 * s)
        answers = _above_zero(spammed + self._labels * s)
        now = WorkerCompetence((spammed + s) / total, (known + s) / total, (spam + s) / answers[self._worker], s / answers)
        if s == 0.0:
            return now, 0.0
        logs = [np.log(part).sum() for part in now[:3]]
        return now, s * float(sum(logs) + (self._unused * np.log(now.absent)).sum())

    def _expect(self) -> tuple[WorkerCompetence, float]:
        """Return exp of the expected log-competences, and minus the divergence of the posteriors from their priors."""
        model, (spam, spammed, known) = self._model, self._counted()
        a, b, c = model.alpha, model.beta, model.strategy_prior
        every, answers = digamma(spammed + known + a + b), digamma(spammed + self._labels * c)
        log_spam, log_know = digamma(spammed + a) - every, digamma(known + b) - every
        log_strategy = digamma(spam + c) - answers[self._worker]
        prior = np.array([a, b, a + b, c, self._labels * c])
        of_a, of_b, of_both, of_c, of_all = (float(one) for one in log_gamma(np.maximum(prior, MIN_PSEUDO_VOTES)))
        gained = np.vdot(spammed, log_spam) + np.vdot(known, log_know) + np.vdot(spam, log_strategy)
        norms = log_gamma(spammed + known + a + b) - log_gamma(spammed + a) - log_gamma(known + b) - (of_both - of_a - of_b)
        habits = log_gamma(spammed + self._labels * c).sum() - log_gamma(spam + c).sum()
        habits -= self._panel.n_workers * of_all - self._panel.n_rows * of_c  # labels never given cancel
        now = WorkerCompetence(np.exp(log_spam), np.exp(log_know), np.exp(log_strategy), np.exp(digamma(np.array([c])) - answers))
        return now, -float(gained + norms.sum() + habits)

    def _mean(self) -> WorkerCompetence:
        """Return the means of the posteriors."""
        model, (spam, spammed, known) = self._model, self._counted()
        every, answers = spammed + known + model.alpha + model.beta, spammed + self._labels * model.strategy_prior
        c = model.strategy_prior
        return WorkerCompetence(
            (spammed + model.alpha) / every, (known + model.beta) / every, (spam + c) / answers[self._worker], c / answers
        )

    def _lines(self, now: WorkerCompetence, penalty: float) -> TableLines:
        panel, worker = self._panel, self._worker
        spam = now.spamming[worker] * now.strategy
        with np.errstate(divide="ignore"):
            other, own = (round_to_unit(np.log(p), LOG_UNIT) for p in (spam, spam + now.knowing[worker]))
        table = np.repeat(other[:, None], panel.n_labels, axis=1)
        table[self._own] = own
        trust = now.knowing / _above_zero(now.spamming + now.knowing)
        columns = {"spamming": 1.0 - trust, "trust": trust}
        return TableLines(table, np.zeros((panel.n_workers, panel.n_labels)), penalty=penalty, columns=columns)


def _above_zero(total: Floats) -> Floats:
    return np.where(total > 0, total, 1.0)


def draw_start(
    panel: WorkerRows, row_votes: Floats, possible: NDArray[np.bool_], model: MACE, restart: int
) -> tuple[Floats, Floats]:
    """Return a random start: spamming and knowing, [workers, 2], and strategies, [workers, K].

    Numbers are drawn by a hash of seed, restart, and how often the worker gave which label: names, and any order, have no part
    in it. `row_votes` is [rows].
    """
    label_hash = hashes(reference, panel.labels)
    votes = row_votes.view(np.uint64)
    with np.errstate(over="ignore"):
        seed = mix(np.array([model.seed % 2**64], np.uint64)) + GOLDEN * np.uint64(restart + 1)
        worker = (
            mix(panel.by_worker(mix(label_hash[panel.row_label] ^ mix(votes))) + seed) if panel.n_rows else np.zeros(0, np.uint64)
        )
        pair = mix(worker[:, None] + GOLDEN * np.arange(1, 3, dtype=np.uint64))
        habit = mix(worker[:, None] ^ label_hash)
    two, every = (1.0 + _uniform(bits) * (1.0 + model.default_noise) for bits in (pair, habit))
    every[:, ~possible] = 0.0
    return two / two.sum(axis=1, keepdims=True), every / _above_zero(every.sum(axis=1, keepdims=True))


def _uniform(bits: NDArray[np.uint64]) -> Floats:
    """Return numbers between 0 and 1, evenly distributed as the bits are."""
    out: Floats = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return out


class Competences(NamedTuple):
    """The best of several fits from given starts."""

    spamming: Floats  # [workers, 2] of spamming and of knowing, as the last M-step left them
    strategies: Floats  # [workers, K] of every answer when spamming
    posterior: Floats  # [tasks, K]
    log_likelihood: float  # of the last E-step under these


def fit_from(votes: Votes, starts: Sequence[tuple[Floats, Floats]], model: MACE, *, iterations: int) -> Competences:
    """Return the fit with the highest likelihood of all starts: for those who draw their own.

    - `votes`: the votes.
    - `starts`: of each fit, spamming and knowing, [workers, 2], and strategies, [workers, K].
    - `model`: the settings; its own restarts and iterations have no part in it.
    - `iterations`: of each fit, after the E-step under its start; 0 leaves it at that.
    """
    session = resolve("auto").load(votes, seed=model.seed, ties=model.ties)
    possible = votes.given_labels()
    beliefs = ConfusionPrior(classes=ClassPrior(possible / max(int(possible.sum()), 1)))
    settings = replace(model, max_iter=max(iterations, 1))
    best: Competences | None = None
    for start in starts:
        recipe = MaceRecipe(settings, beliefs, settings=settings, possible=possible, start=start)
        likelihood = (
            _restart(session, recipe, em.FitOptions()).run.trace[-1] if iterations else _first(session, recipe)
        ).log_likelihood
        if best is None or likelihood > best.log_likelihood:
            step = recipe.steps[0]
            competence = np.stack([step.now.spamming, step.now.knowing], axis=1)
            posterior = np.asarray(session.posterior())
            best = Competences(competence, step.strategies(votes.n_labels), posterior, likelihood)
    assert best is not None, "give at least one start"
    return best
