"""The judge: how often a contestant is right, and how likely its parameters are; one code for all, after the clock stopped."""

import numpy as np

import adjudge as adj
from adjudge.data.exact import LOG_UNIT, round_to_unit
from adjudge.data.fit import Parameters
from adjudge.engines.registry import resolve


class Judge:
    """Votes and truth of one cell."""

    def __init__(self, data):
        found = np.load(data)
        self.truth = found["truth"]
        self.votes = adj.read({name: found[name] for name in ("task", "worker", "label")})
        self._session = None

    def __call__(self, contestant, answer):
        """Judge an answer: {"accuracy", "log_likelihood"}, each if it can be computed."""
        with np.load(answer) as said:
            out = {"accuracy": self.accuracy(said["labels"])}
            if contestant.family and "confusion" in said:
                out["log_likelihood"] = self.log_likelihood(said["confusion"], said["priors"])
        return {name: value for name, value in out.items() if value is not None}

    def accuracy(self, labels):
        """The share of tasks with truth whose label is the true one; None without truth."""
        known = self.truth != -1
        return float((labels[known] == self.truth[known]).mean()) if known.any() else None

    def log_likelihood(self, confusion, priors):
        """The marginal log-likelihood of the votes: confusion is [workers, K true, K given], priors [K], all by code."""
        votes = self.votes
        workers, labels = (np.array([int(x) for x in ids.ids()]) for ids in (votes.workers, votes.labels))
        with np.errstate(divide="ignore"):
            lines = np.log(confusion[workers[votes.row_worker()], :, labels[votes.row_label]][:, labels])
        table, totals = np.ascontiguousarray(round_to_unit(lines, LOG_UNIT)), np.zeros((votes.n_workers, votes.n_labels))
        of = Parameters(np.asarray(priors, float)[labels], table, totals)
        if self._session is None:
            self._session = resolve("cpu").load(votes, seed=0, ties="hash")
        self._session.adopt(lambda _: of, of.priors)
        return float(self._session.e_step(hard=False).log_likelihood)
