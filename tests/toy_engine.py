"""An engine that lives outside the package: counts and table are kept per block of three workers, as if each were elsewhere.

A registered name and this file are all there is to it: `register("toy", "toy_engine:make")`.
"""

from functools import reduce
from operator import add
from types import SimpleNamespace

import numpy as np

from quorate.data.counts import Lines, Parameters, Statistics
from quorate.data.fit import Outcome
from quorate.data.votes import Panel
from quorate.engines.base import Estimate, PassSums, WorkerBlock
from quorate.engines.shard import hashes
from quorate.io.sources import as_votes
from quorate.kernels import reference


def make(threads):
    return SimpleNamespace(name="toy", read=as_votes, load=Toy)


class Toy:
    gold_given = 0

    def __init__(self, votes, *, seed, ties, gold=None, history=None):
        self.votes, self.labels, self.seed = votes, np.zeros(votes.n_tasks, np.int32), seed
        self.ids = reference.tie_keys(hashes(reference, votes.tasks), seed), hashes(reference, votes.labels)
        self.cuts = [slice(a, min(a + 3, votes.n_workers)) for a in range(0, votes.n_workers, 3)] or [slice(0, 0)]
        self.blocks = [self.block(cut, history) for cut in self.cuts]

    def block(self, cut, history):
        v, rows = self.votes, self.rows(cut)
        ptr, per_row = v.worker_ptr[cut.start : cut.stop + 1] - v.worker_ptr[cut.start], v.votes_per_row()[rows]
        here = Panel(
            worker_ptr=ptr, row_label=v.row_label[rows], workers=v.workers.take(np.arange(v.n_workers)[cut]), labels=v.labels
        )
        return WorkerBlock(here, lambda: per_row, None if history is None else history(here), reference.confusion_table)

    def rows(self, cut):
        return slice(self.votes.worker_ptr[cut.start], self.votes.worker_ptr[cut.stop])

    def identify(self, settings): ...
    def checkpoint(self, point): ...
    def restore(self): ...
    def gold(self): ...

    def count(self, function, *arrays, hard, **given):  # a pass over all votes; what it counts goes to the blocks
        kind, shape = (np.int64 if hard else np.float64), (self.votes.n_rows, self.votes.n_labels)
        counts, self.classes = np.zeros(shape, kind), np.zeros(shape[1], kind)
        into = {"labels": self.labels, "counts": counts, "class_counts": self.classes}
        given |= {"hard": hard} if function is reference.em_pass else {"soft": not hard, "tie_weights": None}
        rests = {} if hard else {"rest": np.zeros_like(counts), "class_rest": np.zeros_like(self.classes)}
        sums = function(self.votes.task_ptr, self.votes.row, *arrays, *self.ids, **into, **rests, **given)
        for soft, rest in zip((counts, self.classes), rests.values(), strict=False):
            reference.restore_counts(soft, rest)
        self.counts = [counts[self.rows(cut)] for cut in self.cuts]
        return sums

    def start(self, *, hard):
        self.count(reference.majority, self.votes.row_label, hard=hard)
        return PassSums(self.classes)

    def gather(self, function):
        return reduce(add, [function(*one) for one in zip(self.blocks, self.counts, strict=True)])

    def make(self, recipe, shared):
        return [recipe.on(block)(counts, shared) for block, counts in zip(self.blocks, self.counts, strict=True)]

    def m_step(self, recipe, priors):
        self.lines, self.priors = self.make(recipe, recipe.shared(priors, self.gather)), priors

    def joined(self, lines, priors):
        whole = {name: np.concatenate([getattr(one, name) for one in lines]) for name in ("table", "worker_totals")}
        return Parameters.of(priors, Lines(**whole, prior=lines[0].prior, uses_prior=lines[0].uses_prior))

    def adopt(self, parameters, priors):
        self.lines, self.priors = [parameters(block.panel) for block in self.blocks], priors

    def e_step(self, *, hard, likelihood=True, **out):
        p = self.joined(self.lines, self.priors)
        sums = self.count(reference.em_pass, p.table, p.log_prior, hard=hard, by_prior=False, **out)
        return PassSums(self.classes, *sums, penalty=sum(one.penalty for one in self.lines))

    def fingerprint(self):
        return b"".join(counts.tobytes() for counts in self.counts)

    def finish(self):
        self.shares, decided = np.zeros((self.votes.n_tasks, self.votes.n_labels)), self.decided()
        kept = self.counts, self.classes
        found = self.e_step(hard=False, posterior=self.shares, **decided)
        outcome = self.outcome(decided, found.log_likelihood)
        self.counts, self.classes = kept
        return outcome

    def majority(self):
        self.shares, decided = np.zeros((self.votes.n_tasks, self.votes.n_labels)), self.decided()
        self.count(reference.majority, self.votes.row_label, hard=True, posterior=self.shares, **decided)
        return self.outcome(decided, float("nan"))

    def weighted_majority(self):
        decided, v = self.decided(), self.votes
        self.e_step(hard=True, **decided)
        self.shares = reference.weight_shares(v.task_ptr, v.row, v.row_label, self.joined(self.lines, self.priors).table)
        return self.outcome({**decided, "confidence": self.shares[np.arange(v.n_tasks), self.labels]}, float("nan"))

    def decided(self):
        return {"confidence": np.zeros(self.votes.n_tasks), "tie": np.zeros(self.votes.n_tasks, np.bool_)}

    def outcome(self, decided, likelihood):
        right = np.concatenate(self.counts)[np.arange(self.votes.n_rows), self.votes.row_label].astype(float)
        return Outcome(self.labels.copy(), decided["confidence"], decided["tie"], right, likelihood)

    def posterior(self):
        return self.shares

    def estimate(self, shown=None):
        own = getattr(self, "lines", None) or [Lines(None, None)]
        lines, priors = own, getattr(self, "priors", None)
        if shown is not None:
            lines, priors = self.make(shown, None), shown.class_priors(self.classes).priors
        columns = {name: np.concatenate([one.columns[name] for one in own]) for name in own[0].columns}
        return Estimate(self.joined(lines, priors), Statistics(np.concatenate(self.counts), self.classes), columns)
