"""An engine that lives outside the package: M-steps and sums see a block of three workers at a time, as if each were elsewhere.

A registered name and this file are all there is to it: `register("toy", "toy_engine:make")`. Its passes are the package's.
"""

from functools import partial, reduce
from operator import add
from types import SimpleNamespace

import numpy as np

from adjudge.data.fit import Parameters, Statistics, TableLines
from adjudge.data.votes import WorkerRows
from adjudge.engines.base import FitEstimate, WorkerBlock
from adjudge.engines.local import LocalEngine, MemoryStore
from adjudge.engines.passes import PairSums
from adjudge.engines.session import LocalSession
from adjudge.engines.shard import rules_for
from adjudge.io.answers import gold_codes, read_gold
from adjudge.io.read import as_votes
from adjudge.kernels import reference


def make(threads):
    return SimpleNamespace(name="toy", read=as_votes, load=load)


def load(votes, *, seed, ties, gold=None, history=None):
    rules = rules_for(votes, reference, 1, ties)
    given = None if gold is None else read_gold(gold, votes.labels)
    codes = None if given is None else gold_codes(given, votes.tasks)
    return Toy(MemoryStore(LocalEngine(shard_votes=50), votes, seed, rules, codes), rules, gold=given, history=history)


class Toy(LocalSession):
    glad = None  # which has passes of its own

    def __init__(self, store, rules, *, history, **known):
        super().__init__(store, rules, history=history, **known)
        starts = range(0, self.votes.n_workers, 3)
        self.cuts = [slice(start, min(start + 3, self.votes.n_workers)) for start in starts] or [slice(0, 0)]
        self.blocks = [self.block(cut, history) for cut in self.cuts]

    def block(self, cut, history):
        v, rows = self.votes, self.rows(cut)
        ptr, per_row = v.worker_ptr[cut.start : cut.stop + 1] - v.worker_ptr[cut.start], v.votes_per_row()[rows]
        workers = v.workers.take(np.arange(v.n_workers)[cut])
        here = WorkerRows(worker_ptr=ptr, row_label=v.row_label[rows], workers=workers, labels=v.labels)
        return WorkerBlock(here, lambda: per_row, None if history is None else history(here), reference.confusion_table)

    def rows(self, cut):
        return slice(self.votes.worker_ptr[cut.start], self.votes.worker_ptr[cut.stop])

    def each(self, function, counts):
        return [function(block, counts[self.rows(cut)]) for block, cut in zip(self.blocks, self.cuts, strict=True)]

    def gather(self, function, *, gold=True):
        return reduce(add, self.each(function, self._counted[0] if gold else self._open_counts()))

    def lines(self, recipe, counts, shared):
        made = self.each(lambda block, some: recipe.on(block)(some, shared), counts)
        whole = {name: np.concatenate([getattr(one, name) for one in made]) for name in ("table", "worker_totals")}
        columns = {name: np.concatenate([one.columns[name] for one in made]) for name in made[0].columns}
        penalty = sum(one.penalty for one in made)
        return TableLines(**whole, prior=made[0].prior, penalty=penalty, uses_prior=made[0].uses_prior, columns=columns)

    def m_step(self, recipe, priors):
        counts = self._anchor(recipe.anchor) if recipe.anchor else self._counted[0]
        shared = recipe.shared(priors, lambda function: reduce(add, self.each(function, counts)))
        self._lines = self.lines(recipe, counts, shared)
        self._params = Parameters.of(priors, self._lines)

    def estimate(self, shown=None):
        if shown is None:
            return super().estimate()
        counts, classes = self._counted
        params = Parameters.of(shown.class_priors(classes).priors, self.lines(shown, counts, None))
        return FitEstimate(params, Statistics(counts, classes), {} if self._lines is None else self._lines.columns)

    def joined(self, function, axis, _, counts):  # what a function says of rows, block by block
        return np.concatenate(self.each(function, counts), axis=axis)

    def run(self, job, function):
        return super().run(job, partial(self.joined, function, 2 if isinstance(job, PairSums) else 1))
