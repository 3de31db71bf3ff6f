"""Each check of the contract catches what it is there for: an engine or a model with one fault, and the words of the check."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pytest

import adjudge as adj
import contract
from adjudge.engines.local import LocalEngine
from adjudge.engines.passes import Probabilities
from adjudge.io.read import as_votes
from adjudge.io.sources import Opened
from adjudge.models.base import MODELS


@dataclass(frozen=True, eq=False)
class Broken(LocalEngine):
    """The reference with one fault: in its inputs, in the sums of a pass, in outcomes or in probabilities."""

    name: str = "broken"
    reading: Callable = lambda source: source
    votes: Callable = lambda votes: votes
    sums: Callable = lambda sums, passes: sums
    outcome: Callable = lambda outcome, votes: outcome
    shares: Callable = lambda shares: shares
    honest: Callable = lambda shares: shares

    def read(self, source, *how):
        given = Opened.of(source).source
        return as_votes(self.reading(given) if isinstance(given, pl.DataFrame) else given, *how)

    def load(self, votes, **options):
        session, engine = super().load(self.votes(votes), **options), self

        class Session(type(session)):
            def e_step(self, **how):
                return engine.sums(super().e_step(**how), self._passes)

            def finish(self):
                return engine.outcome(super().finish(), self.votes)

            def majority(self):
                return engine.outcome(super().majority(), self.votes)

            def posterior(self):
                return engine.shares(super().posterior())

            def run(self, job, function):
                found = super().run(job, function)
                return engine.honest(found) if isinstance(job, Probabilities) else found

        session.__class__ = Session
        return session


def labels(change):
    """An engine that gives other labels, as told by change(labels, votes)."""
    return Broken(outcome=lambda outcome, votes: replace(outcome, labels=change(outcome.labels, votes).astype(np.int32)))


def confidence(change):
    return Broken(outcome=lambda outcome, votes: replace(outcome, confidence=change(outcome.confidence, votes)))


def tilted(shares):
    return shares + 1e-5 * (np.arange(shares.shape[1]) == 0) - 1e-5 * (np.arange(shares.shape[1]) == 1)


def always_the_first(outcome, votes):
    share = np.add.reduceat(votes.row_label[votes.row] == 0, votes.task_ptr[:-1]) / np.diff(votes.task_ptr)
    return replace(outcome, labels=np.zeros_like(outcome.labels), confidence=share)


def restless(sums, passes):
    """The class counts of the first passes, off by a little."""
    return replace(
        sums, class_counts=sums.class_counts * (1 + 1e-3 * (passes < 9) * (np.arange(len(sums.class_counts)) == passes % 2))
    )


def without_a_task(votes):
    return votes.filter(pl.col("task") != votes["task"][0])


def without_the_first_worker(votes):
    return votes.filter(pl.col("worker") != votes["worker"].min())


def half(votes):
    """Every vote of a task but its first one dropped, as a dictionary that is built row by row would."""
    return votes.unique("task", keep="first", maintain_order=True)


def one_byte(codes, votes):
    return codes.astype(np.uint8)


def last_label_for_who_is_alone(codes, votes):
    return np.full_like(codes, votes.n_labels - 1) if votes.n_workers == 1 else codes


def last_label_for_long_tasks(codes, votes):
    return np.where(np.diff(votes.task_ptr) > 1000, votes.n_labels - 1, codes)


def no_number_for_long_tasks(sure, votes):
    return np.where(np.diff(votes.task_ptr) > 1000, np.nan, sure)


def worse_every_time(sums, passes):
    worse = 1 + passes / 10  # times a negative number
    return replace(sums, log_likelihood=sums.log_likelihood * worse, classification=sums.classification * worse)


def forgetting_the_unvoted(votes):
    return replace(votes, unvoted=votes.unvoted.take(np.zeros(0, np.int64)))


def made_up(votes):
    return votes if len(votes) else as_votes([("t", "w", "x")])


class Remembers:
    """More confident at every call."""

    def __init__(self):
        self.times = 0

    def __call__(self, sure, votes):
        self.times += 1
        return sure * (1 - self.times * 1e-6)


def scribbles(votes):
    rows = votes.row
    rows.flags.writeable = True
    rows[0] = rows[1]
    return votes


def first_of_the_tied(monkeypatch):
    from adjudge.kernels import reference

    monkeypatch.setattr(reference, "mix", lambda x: x * 0)
    return LocalEngine()


def plain_sums(monkeypatch):
    """Take the rounding away that makes sums exact, as if they were those of any floating-point program."""
    from adjudge.data import exact, fit
    from adjudge.kernels import reference
    from adjudge.models import knowledge, one_coin

    for module in (exact, fit, knowledge, reference, one_coin):
        monkeypatch.setattr(module, "round_to_unit", lambda x, unit: x)
    monkeypatch.setattr(reference, "SAME_SCORE_TOLERANCE", 0.0)
    monkeypatch.setattr(reference, "count_shares", lambda *votes_and_counts: reference.recount_soft(*votes_and_counts[:5]))
    monkeypatch.setattr(reference, "restore_counts", lambda *of_counts: None)
    return LocalEngine()


def of_crowd(name, seed):
    """As `plain_sums`, with one crowd: each of them is enough."""

    def broken(monkeypatch):
        monkeypatch.setattr(contract, name, [seed])
        return plain_sums(monkeypatch)

    return broken


def model(kind, **facts):
    """A model under the name "broken", on the reference."""

    def broken(monkeypatch):
        monkeypatch.setattr(contract, "MODELS", {**MODELS, "broken": type("Model", (kind,), facts)})
        return LocalEngine()

    return broken


# Of each check: the model, the engine (or what makes it), and the words that the check must say.
CAUGHT = {
    "every_task_gets_a_label": {
        "a task is lost": ("mv", Broken(reading=without_a_task), "a task is missing or made up"),
        "votes are lost": ("mv", Broken(reading=half), "votes are miscounted"),
        "another label": ("ds", labels(lambda codes, votes: (codes + 1) % 4), "confidence is not the probability of the label"),
        "sure of nothing": ("ds", confidence(lambda sure, votes: sure / 2), "confidence is not the probability of the label"),
        "shares of more than all": ("mv", Broken(shares=lambda shares: shares * 2), "do not sum to one"),
        "shares below nothing": ("mv", Broken(shares=lambda shares: shares * 5 - 1), "below 0 or above 1"),
        "always one label": ("mv", Broken(outcome=always_the_first), "the label is not the most probable one"),
    },
    "fitting_twice_is_the_same": {
        "an engine with a memory": ("mv", confidence(Remembers()), "differs from the first"),
        "votes that are written to": ("mv", Broken(votes=scribbles), "a fit changed the votes"),
    },
    "order_of_rows_does_not_matter": {"the first vote counts": ("mv", Broken(reading=half), "rows in another order")},
    "names_of_workers_do_not_matter": {
        "one name is not counted": ("mv", Broken(reading=without_the_first_worker), "other names of workers"),
    },
    "order_of_labels_does_not_matter": {"the first of the tied wins": ("mv", first_of_the_tied, "labels declared as")},
    "ids_are_their_text": {
        "numbers mean another label": (
            "mv",
            Broken(reading=lambda v: v.with_columns(label=pl.col("label") + 1) if v["label"].dtype == pl.Int64 else v),
            "numbers as ids",
        ),
        "numbers come back as text": ("mv", Broken(reading=lambda v: v.cast(pl.String)), "an id that was int"),
    },
    "engines_agree": {
        "other labels": ("mv", labels(lambda codes, votes: codes[::-1].copy()), "labels differ from the reference"),
        "other probabilities": ("ds", Broken(shares=lambda shares: shares + 1e-5), "probabilities differ"),
        "another likelihood": (
            "ds",
            Broken(outcome=lambda o, v: replace(o, log_likelihood=o.log_likelihood * (1 + 1e-8))),
            "the likelihood differs",
        ),
        "more iterations": ("fds", Broken(sums=restless), "iterations, [0-9]+ of the reference"),
    },
    "honest_confidence_is_the_same_everywhere": {
        "other probabilities": ("mv", Broken(honest=tilted), "honest probabilities differ"),
        "more than all": ("mv", Broken(honest=lambda shares: shares * 2), "honest probabilities do not sum to 1"),
    },
    "likelihood_never_falls": {
        "a soft phase that falls": ("ds", Broken(sums=worse_every_time), " fell to "),
        "a hard phase that falls": ("fds", Broken(sums=worse_every_time), " fell to "),
        "a likelihood of nothing": (
            "mv",
            Broken(outcome=lambda o, v: replace(o, log_likelihood=-1.0)),
            "a likelihood is claimed where none is maximised",
        ),
        "an objective that is no number": (
            "ds",
            Broken(sums=lambda sums, passes: replace(sums, penalty=float("nan"))),
            "an objective is no number",
        ),
    },
    "the_smallest_inputs_work": {
        "a label without votes": ("mv", Broken(votes=made_up), "no vote, and yet a label"),
        "a worker alone": ("mv", labels(last_label_for_who_is_alone), "one worker gets other labels"),
    },
    "long_tasks_do_not_underflow": {
        "another label": ("mv", labels(last_label_for_long_tasks), "the task of 30,000 votes"),
        "no number": ("mv", confidence(no_number_for_long_tasks), "a confidence is no number"),
    },
    "many_labels_work": {"codes of one byte": ("mv", labels(one_byte), "the accuracy is 0.8")},
    "abstentions_are_no_label": {
        "tasks without votes are forgotten": ("mv", Broken(votes=forgetting_the_unvoted), "abstentions became"),
    },
    "below_chance_is_used_not_obeyed": {
        "a model that learns nothing": ("broken", model(adj.MajorityVote, learns=True), "the accuracy is"),
        "a majority that is none": ("mv", labels(lambda codes, votes: (codes + 1) % 3), "that fewer votes gave"),
    },
    "symmetric_crowds_stay_tied": {
        f"sums as they come, crowd {seed}": ("one-coin", of_crowd("MIRRORED_SEEDS", seed), "changed the answer|and as well")
        for seed in contract.MIRRORED_SEEDS[1:]
    }
    | {
        "no ties": ("mv", Broken(outcome=lambda o, v: replace(o, tie=np.zeros_like(o.tie))), "and as well|another answer"),
    },
    "tiny_crowds_have_one_answer": {
        f"sums as they come, crowd {seed}": ("one-coin", of_crowd("TINY_SEEDS", seed), "changed the answer")
        for seed in contract.TINY_SEEDS[1:]
    },
}


def test_every_check_has_something_to_catch():
    assert CAUGHT.keys() == contract.CHECKS.keys()
    assert all(CAUGHT.values())


@pytest.mark.parametrize(("check", "fault"), [(check, fault) for check, faults in CAUGHT.items() for fault in faults])
def test_caught(check, fault, monkeypatch):
    model, engine, words = CAUGHT[check][fault]
    made = engine if isinstance(engine, LocalEngine) else engine(monkeypatch)
    with pytest.raises(AssertionError, match=words):
        contract.CHECKS[check](model, made)


def test_an_engine_without_a_fault_passes():
    contract.check("mv", Broken())
