"""What every model is: frozen settings that fit votes; and the models by name."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Final, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adjudge.data import options
from adjudge.data.extensions import extension_names, load_extension
from adjudge.data.fit import ClassPrior, Fit, Parameters
from adjudge.data.options import DEFAULTS, Choice, Confidence, Number, Place, Rules, Ties, TraceDetail
from adjudge.data.votes import WEIGHT_REMEDY, Votes, WorkerRows, weight_error
from adjudge.engines.base import Engine, Session
from adjudge.engines.memory import NO_EXTRA_ROOM, Room, require_fit
from adjudge.engines.registry import EngineChoice, resolve
from adjudge.engines.session import digest
from adjudge.errors import InputError, NotConverged, OptionError, choice_error, itemize, quote
from adjudge.io.answers import gold_frame
from adjudge.io.encode import over_labels
from adjudge.io.frames import match_ids
from adjudge.io.sources import Opened, Source
from adjudge.kernels.cpu import compiled
from adjudge.models.em import FitOptions, Progress, WarmStart
from adjudge.models.honest import UNMEASURED_DEPENDENCE, Dependence, honest_fit, measure
from adjudge.models.knowledge import Learned, loosen, transfer
from adjudge.models.prior_knowledge import HasLearned, Priors, as_knowledge, as_learned, class_prior, pseudo_votes
from adjudge.results.result import Result

CHECKED: Rules = {"trace": Choice(get_args(TraceDetail)), "confidence": Choice(get_args(Confidence))}
COMMON: Rules = {"seed": Number(whole=True), "ties": Choice(get_args(Ties))}
MODEL_CLASSES: Final[dict[str, str]] = {
    "auto": "auto:AutoModel",
    "mv": "majority:MajorityVote",
    "ds": "dawid_skene:DawidSkene",
    "fds": "dawid_skene:FastDawidSkene",
    "hybrid": "dawid_skene:Hybrid",
    "one-coin": "one_coin:OneCoin",
    "iwmv": "majority:IWMV",
    "glad": "glad:GLAD",
    "wawa": "majority:Wawa",
    "zbs": "majority:ZeroBasedSkill",
    "goldmv": "majority:GoldMajorityVote",
    "catd": "majority:CATD",
    "la": "majority:LightAggregation",
    "zc": "one_coin:ZenCrowd",
    "lfc": "bayesian:LFC",
    "ibcc": "bayesian:IBCC",
    "ebcc": "bayesian:EBCC",
    "mace": "mace:MACE",
    "ordinal": "ordinal:Ordinal",
    "kos": "kos:KOS",
    "mmsr": "mmsr:MMSR",
    "panel": "panel:PanelStack",
}  # adding a model adds a line here, and its name to `ModelName`
# The paper's models and the default: those compared, and shown in the demo, by default.
DEFAULT_COMPARED_MODELS: Final = ("auto", "mv", "ds", "fds", "hybrid", "one-coin", "iwmv", "glad")
PLACES: Final = get_args(Place)


@dataclass(frozen=True, eq=False)
class Knowns:
    """Options of a fit, and prior knowledge of the labels."""

    options: FitOptions
    votes: Votes
    classes: ClassPrior | None = None
    dependence: Dependence = UNMEASURED_DEPENDENCE  # whether workers err together
    exists: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))  # [K] labels that there are
    in_history: NDArray[np.int64] | None = None  # codes of the labels that the history knows, of whomever

    def named(self) -> NDArray[np.bool_]:
        """Return which labels votes, history or priors name, [K]."""
        out = self.votes.given_labels()
        if self.classes is not None:
            out |= self.classes.priors > 0
        if self.in_history is not None:
            out[self.in_history] = True
        return out

    def possible(self, session: Session) -> NDArray[np.bool_]:
        """Return which labels exist, [K]: those given in votes or a history, or named by gold or priors."""
        out = self.votes.given_labels()
        out |= session.start(hard=False).class_counts > 0  # of gold, too
        if self.classes is not None and self.classes.weight != 0:
            out |= self.classes.priors > 0
        if self.in_history is not None:
            out[self.in_history] = True
        return out


@dataclass(frozen=True, kw_only=True)
class Model:
    """Settings, checked on the way in; `fit` leaves them as they are and returns a `Result`.

    `seed` and `ties` decide between labels that score the same: by a "hash" of seed, task and label, or by the "prior".
    """

    name: ClassVar[str]
    title: ClassVar[str]
    rules: ClassVar[Rules] = COMMON
    learns: ClassVar[bool] = True  # whether it estimates parameters beyond the labels
    scoring: ClassVar[str] = "confusion"  # see adjudge.models.knowledge
    takes: ClassVar[frozenset[str]] = frozenset({"history", "priors", "warm_start"})  # accepted knowledge, besides gold
    starts_hard: ClassVar[bool] = False  # whether the first M-step is fed with hard labels, and the first E-step is hard
    is_likelihood: ClassVar[bool] = True  # whether scores are log-probabilities

    is_careful: ClassVar[bool] = False  # whether it asks how far workers err together
    takes_weights: ClassVar[bool] = True  # whether votes may count more or less than once
    needs_gold: ClassVar[bool] = False  # whether it can do nothing without gold
    most_labels: ClassVar[int | None] = None  # for which its method is defined, if there is a limit
    is_ordered: ClassVar[bool] = False  # whether labels are grades, so that their order matters
    # Where it runs: on every engine; where the counts of all workers are in this process; where all votes are in its memory.
    place: ClassVar[Place] = "anywhere"

    lacks: ClassVar[Mapping[str, str]] = {}  # options that only other models have, and why it has none

    room: ClassVar[Room] = NO_EXTRA_ROOM  # memory it takes in addition to that of every model

    seed: int = DEFAULTS.seed
    ties: Ties = DEFAULTS.ties

    def __post_init__(self) -> None:
        options.check({setting.name: getattr(self, setting.name) for setting in fields(self)}, self.rules)
        for name in self.rules:  # NumPy's numbers and fractions as Python's own, which can be saved
            object.__setattr__(self, name, options.to_python(getattr(self, name)))
        if getattr(self, "accelerate", False):
            if "accelerate" in self.lacks:
                raise OptionError(f"accelerate is True, but {self.name} has no accelerate: {self.lacks['accelerate']}")
            from adjudge.models.acceleration import room_of

            object.__setattr__(self, "room", room_of(type(self).room))

    @classmethod
    def options(cls) -> Mapping[str, object]:
        """Return the options this model takes, with their defaults."""
        return {f.name: f.default for f in fields(cls)}

    def require_engine(self, engine: Engine) -> None:
        """Raise if an engine cannot run this model, before votes are read or a cluster is used.

        Parameters
        ----------
        engine : Engine
            The engine that will run the fit.

        Raises
        ------
        OptionError
            If it cannot run this model.

        """
        if PLACES.index(self.place) > PLACES.index(getattr(engine, "place", "anywhere")):
            others = "'cpu', 'disk' or 'reference'" if self.place == "process" else "'cpu' or 'reference'"
            frames = f"; for a Spark frame call adj.aggregate(frame.toArrow(), model={self.name!r})"
            raise OptionError(
                f"engine {engine.name!r} cannot run model {self.name!r}: choose engine={others}"
                f"{frames if engine.name == 'spark' else ''}"
            )
        if getattr(self, "accelerate", False):
            from adjudge.models.acceleration import require_engine

            require_engine(engine)

    def adapt_to(self, votes: Votes) -> Model:
        """Return the settings with what the caller left open filled in from the votes.

        Parameters
        ----------
        votes : Votes
            The votes to fit.

        """
        return self

    def over(self, labels: Sequence[object]) -> Model:
        """Return the settings for labels declared in this order; only ordered models change.

        Parameters
        ----------
        labels : sequence of object
            The labels, in their declared order.

        """
        return self

    def require_votes(self, votes: Votes) -> None:
        """Raise unless the method is defined for these votes.

        Parameters
        ----------
        votes : Votes
            The votes to fit.

        Raises
        ------
        InputError
            If there are more labels than the method can handle.

        """
        if self.most_labels is not None and votes.n_labels > self.most_labels:
            raise InputError(
                f"model {self.name!r} is made for {self.most_labels} labels, and these votes have {votes.n_labels} "
                f"({itemize(votes.labels.ids())}): choose another model"
            )

    def fit(
        self,
        votes: Votes | Source,
        *,
        engine: EngineChoice = DEFAULTS.engine,
        trace: TraceDetail = "full",
        progress: Progress | None = None,
        start: ArrayLike | None = None,
        gold: Source | None = None,
        history: Source | HasLearned | None = None,
        priors: Priors | None = None,
        priors_weight: float | None = None,
        warm_start: HasLearned | Learned | str | os.PathLike[str] | None = None,
        confidence: Confidence = DEFAULTS.confidence,
    ) -> Result:
        """Fit votes and return the result.

        Parameters
        ----------
        votes : Votes or source
            Votes, or anything that `adj.read` takes.
        engine : str or engine, default "auto"
            The engine to run on; described in `adjudge.aggregate`.
        trace : {"full", "light"}, default "full"
            "light" skips the likelihood of each iteration in hard passes, which more than halves their time on the compiled
            engine; labels and the final likelihood are the same.
        progress : callable, optional
            Called after every iteration.
        start : ArrayLike, optional
            Initial label codes, shape (tasks,), for models that otherwise start from majority vote.
        gold, history, priors, priors_weight, warm_start : optional
            Prior knowledge, as for `adjudge.aggregate`.
        confidence : {"honest", "posterior"}, default "honest"
            As for `adjudge.aggregate`.

        Returns
        -------
        Result
            Labels, confidence and workers.

        """
        options.check({"trace": trace, "confidence": confidence}, CHECKED)
        for name, value in (("history", history), ("priors", priors), ("warm_start", warm_start)):
            if value is not None and name not in self.takes:
                raise OptionError(f"model {self.name!r} cannot use {name}: it takes {itemize(sorted({'gold', *self.takes}))}")
        if priors is None and priors_weight is not None:
            raise OptionError(f"priors_weight is {quote(priors_weight)}, without priors: give priors=…, too")
        opened = Opened.of(votes)
        chosen = resolve(engine, source=opened, room=self.room)
        self.require_engine(chosen)
        read = chosen.read(opened)
        gold = self._gold(read, gold)
        if read.row_weight is not None:
            self.require_weights()
        self.require_votes(read)
        past = None if history is None else as_knowledge(history)
        before = None if warm_start is None else as_learned(warm_start, "warm_start")
        if past is not None:
            read = over_labels(read, past.labels, "history", closed=False)
        if before is not None:
            read = over_labels(read, before.knowledge.labels, "saved model")
            if before.scoring != self.scoring and before.model != self.name:
                raise OptionError(f"a fit of {before.model!r} cannot start {self.name!r}: use the same model")
        model = self.adapt_to(read)
        classes = None if priors is None else class_prior(priors, priors_weight, read.labels)
        believed = past is not None or getattr(self, "strength", 0) != 0
        require_fit(chosen, read, self.room, believed=believed, honest=confidence == "honest")
        session = chosen.load(
            read,
            seed=self.seed,
            ties=self.ties,
            gold=gold,
            history=None if past is None else partial(pseudo_votes, past),
        )
        codes = None if start is None else session.labels_to_start(start)
        session.identify({"model": self.name, **asdict(model), "trace": trace, "beliefs": digest((past, before, classes, codes))})
        warm = None
        if before is not None:
            before = before.stored_for(wide=getattr(session, "is_wide", False))
            warm = WarmStart(partial(_carry, loosen(before)), before.priors, before.label_shares(), before.iterations)
        known = Knowns(
            FitOptions(progress, trace == "full", codes, warm),
            read,
            classes,
            in_history=None if past is None else match_ids(past.labels, read.labels)[np.unique(past.row_label)],
        )
        is_measured, core = self.is_careful or confidence == "honest", compiled()
        if is_measured and not hasattr(session, "run"):
            what = f"model {self.name!r}" if self.is_careful else "confidence='honest'"
            raise OptionError(f"{what} does not run on engine {chosen.name!r} yet: use engine='cpu' or engine='disk'")
        with nullcontext() if core is None else core.BlockReuse():
            if is_measured:
                named, (dependence, present) = known.named(), measure(session)
                known = replace(known, dependence=dependence, exists=named | present)
            fit = model._fit(session, known)
            marked, gold_given = session.gold(), session.gold_given
            if confidence == "honest" and fit.stack is None:  # a stack is as sure as its gold says
                fit = honest_fit(fit, session, known.dependence, known.exists)
        if marked is not None:
            fit = replace(fit, task_columns={**fit.task_columns, "gold": marked})
        result = getattr(session, "result", Result)  # an engine far away has results of its own
        of_fit = session.votes, fit, session, self.name, asdict(model), fit.scoring or self.scoring, past, gold_given
        return result(*of_fit, refit=partial(_refit, model, chosen, priors, priors_weight))

    def _gold(self, votes: Votes, given: Source | None) -> Source | None:
        """Return the gold of a fit: the given one, or what votes have found; raise if a model needs some and has none."""
        if given is None and getattr(votes, "found_gold", None) is not None:  # votes on Spark lack it
            given = gold_frame(votes)
        if self.needs_gold and given is None:
            raise OptionError(f"model {self.name!r} needs gold to learn from: give gold=… (--gold FILE)")
        return given

    def fit_predict(self, votes: Votes | Source, **options: Any) -> Any:
        """Fit these votes, and return the label of every task: `fit(votes).labels`.

        Parameters
        ----------
        votes : Votes or source
            Votes, or anything that `adj.read` takes.
        **options : Any
            Those of `fit`.

        Returns
        -------
        Any
            The frame `fit(votes).labels`.

        Examples
        --------
        >>> import adjudge as adj
        >>> adj.MajorityVote().fit_predict([("t1", "ann", "cat"), ("t1", "bob", "cat")])["label"].to_list()
        ['cat']

        """
        return self.fit(votes, **options).labels

    def predict_proba(self, votes: Votes | Source, **options: Any) -> Any:
        """Fit these votes, and return the probabilities of every task's labels: `fit(votes).probabilities`.

        Parameters
        ----------
        votes : Votes or source
            Votes, or anything that `adj.read` takes.
        **options : Any
            Those of `fit`.

        Returns
        -------
        Any
            The frame `fit(votes).probabilities`.

        """
        return self.fit(votes, **options).probabilities

    def require_weights(self) -> None:
        """Raise unless this model takes votes with weights."""
        if not self.takes_weights:
            raise weight_error(f"model {self.name!r}", f"{WEIGHT_REMEDY}, or choose another model")

    def _fit(self, session: Session, known: Knowns) -> Fit:
        raise TypeError(f"{type(self).__name__} names settings but no way to fit them")


def _refit(
    model: Model, engine: Engine, priors: Priors | None, weight: float | None, votes: Votes, *, gold: Any, history: Any
) -> Result:
    """Return a fit of other votes like an earlier one, which has already warned if it did not converge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        known = {"gold": gold, "history": history, "priors": priors, "priors_weight": weight}
        return model.fit(votes, engine=engine, trace="light", confidence="posterior", **known)


def _carry(before: Learned, panel: WorkerRows) -> Parameters:
    return transfer(before, panel).params


class Models(Mapping[str, type[Model]]):
    """The classes of the models by name; each module is loaded on first use."""

    def __getitem__(self, name: str) -> type[Model]:
        module, _, model = MODEL_CLASSES[name].partition(":")
        found: type[Model] = getattr(import_module(f"adjudge.models.{module}"), model)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(MODEL_CLASSES)

    def __len__(self) -> int:
        return len(MODEL_CLASSES)

    def __contains__(self, name: object) -> bool:
        return name in MODEL_CLASSES


MODELS: Final = Models()


def as_model(model: Any, seed: int = DEFAULTS.seed) -> Model:
    """Return the model of this name with its default settings, or the model itself; `seed` decides ties.

    A name is one of ours or of an entry point; an object of another kind that has `fit(votes)` is wrapped.

    >>> as_model("fds", seed=3)
    FastDawidSkene(seed=3, ...)
    """
    if isinstance(model, str):
        name = _known_name(model)
        if name in MODELS:
            return MODELS[name](seed=seed)
        model = load_extension("models", name)
        model = model() if isinstance(model, type) else model
    if not isinstance(model, Model):
        return _wrap_object(model, seed)
    if _is_default(seed, DEFAULTS.seed) or model.seed == seed:
        return model
    if model.seed != DEFAULTS.seed:
        raise OptionError(f"seed is {quote(seed)}, but the model has its own, {model.seed}: give one of them")
    return replace(model, seed=seed)


def _wrap_object(model: Any, seed: int) -> Model:
    """Return an object of another package as a model; raise unless it has `fit(votes)`."""
    if isinstance(model, type) and hasattr(model, "fit"):
        raise OptionError(f"model is the class {model.__name__}: give an object of it, as {model.__name__}()")
    if not callable(getattr(model, "fit", None)):
        raise choice_error("model", model, MODELS)
    from adjudge.models.objects import wrap

    return wrap(model, seed)


def make(model: str, given: Mapping[str, Any], chosen_by: str = 'model="{}"') -> Model:
    """Return the model of this name with these settings; those that it does not have must be the default.

    `chosen_by` is how another model would be chosen here, for messages.

    >>> make("fds", {"tol": 0.01}).tol
    0.01
    """
    model, defaults = _known_name(model), DEFAULTS._asdict()
    if model not in MODELS:
        refused_options = [name for name, value in given.items() if name != "seed" and not _is_default(value, defaults[name])]
        if refused_options:
            raise OptionError(f"{refused_options[0]} is not an option of model {model!r}: its package sets it up")
        return as_model(model, given.get("seed", DEFAULTS.seed))
    takes = MODELS[model].options()
    for name, value in given.items():
        if name not in takes and not _is_default(value, defaults[name]):
            why = MODELS[model].lacks.get(name)
            if why is None:
                here = itemize(option for option in takes if option in defaults)  # its class may have more
                raise OptionError(f"{name} is {quote(value)}, but model {model!r} takes only: {here}")
            raise OptionError(f"{name} is {quote(value)}, but {model} has no {name}: {why}; {_who_has(name, chosen_by)}")
    return MODELS[model](**{name: value for name, value in given.items() if name in takes})


def _known_name(given: object) -> str:
    """Return the short name of a model; raise if there is none of this name."""
    if isinstance(given, str) and given in MODELS:
        return given
    name = options.resolve_model_name(given)
    if isinstance(name, str) and name in MODELS:
        return name
    installed = extension_names("models", MODELS)
    if not isinstance(name, str) or name not in installed:
        error = choice_error("model", name, [*installed, *MODELS])
        raise OptionError(f"{error}; a model of your own needs an entry point, as docs/extending.md shows")
    return name


def _who_has(option: str, chosen_by: str) -> str:
    """Return which of the paper's models has an option, for a message that always names the fast one."""
    fast, hybrid = (chosen_by.format(name) for name in ("fds", "hybrid"))
    if option in MODELS["fds"].options():
        return f"give {fast}, which has it"
    return f"give {hybrid}, which has it, or {fast}, which needs none"


def _is_default(value: object, default: object) -> bool:
    return type(value) in (bool, int, float, str) and value == default  # of an array "equal" would be an array, too
