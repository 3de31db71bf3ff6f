import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
import oracle_trust as naive
from adjudge.results.trust.posterior import Ballots, compare, expected, kinds, mutual_information, of_labels, settle, tally
from strategies import crowds


def drawn(votes, seed):
    shape = votes.n_labels, votes.n_tasks
    posterior = np.random.default_rng(seed).dirichlet(np.ones(shape[0]), shape[1]).T.astype(np.float32)
    tasks, labels = votes.tasks.ids(), votes.labels.ids()
    return posterior, {t: {label: float(posterior[c, q]) for c, label in enumerate(labels)} for q, t in enumerate(tasks)}


def in_order(votes):
    """The votes as (task, worker, label) in the order of the arrays."""
    ballots = Ballots.of(votes)
    tasks, workers, labels = votes.tasks.ids(), votes.workers.ids(), votes.labels.ids()
    return [(tasks[t], workers[w], labels[c]) for t, w, c in zip(ballots.task(), ballots.worker(), ballots.label(), strict=True)]


@given(crowds(), st.integers(0, 2**32 - 1))
def test_votes_beside_the_others_equal_the_naive_ones(rows, seed):
    votes = adj.read(rows)
    posterior, as_dict = drawn(votes, seed)
    ballots = Ballots.of(votes)
    seen = compare(ballots, tally(ballots, posterior))
    labels, rows = votes.labels.ids(), in_order(votes)
    usual = {label: n / len(rows) for label, n in Counter(v[2] for v in rows).items()}
    given_by, of_worker = Counter((w, label) for _, w, label in rows), Counter(w for _, w, _ in rows)
    for n, (task, worker, label) in enumerate(rows):
        others = naive.without(rows, as_dict, labels, (task, worker, label))
        guess = (given_by[worker, label] - 1 + usual[label]) / of_worker[worker]
        assert seen.right[n] == pytest.approx(as_dict[task][label], abs=1e-5)
        assert seen.guess[n] == pytest.approx(guess, rel=1e-4)
        assert seen.others[n] == pytest.approx(others[label], rel=1e-3, abs=1e-5)


@given(crowds(), st.integers(0, 2**32 - 1))
def test_bits_equal_the_naive_ones(rows, seed):
    votes = adj.read(rows)
    posterior, as_dict = drawn(votes, seed)
    ballots = Ballots.of(votes)
    bits = mutual_information(ballots, tally(ballots, posterior))
    for n, worker in enumerate(votes.workers.ids()):
        joint = defaultdict(float)
        mine = [v for v in rows if v[1] == worker]
        for task, _, label in mine:
            for true, p in as_dict[task].items():
                joint[true, label] += p / len(mine)
        true_side, given_side = defaultdict(float), defaultdict(float)
        for (true, label), p in joint.items():
            true_side[true] += p
            given_side[label] += p
        plain = sum(p * math.log2(p / (true_side[c] * given_side[g])) for (c, g), p in joint.items() if p > 1e-9)
        met = min(sum(p * len(mine) > 0.5 for p in true_side.values()), len(mine))
        chance = max(met - 1, 0) * (len(given_side) - 1) / (2 * len(mine) * math.log(2))
        assert bits[n] == pytest.approx(max(plain - chance, 0), abs=1e-4)


def look(crowd, model="fds"):
    result = adj.aggregate(crowd.votes, model=model)
    ballots = Ballots.of(result.votes)
    belief = tally(ballots, settle(ballots, of_labels(result.fit.outcome.labels, result.votes.n_labels)))
    order = np.argsort(result.votes.workers.codes(crowd.worker_names))  # from the crowd's order to the codes'
    return ballots, belief, crowd.crowd.kinds[order], crowd.confusions[order]


def test_bits_come_near_the_truth_and_few_votes_do_not_look_informative():
    def information(confusion):
        joint = confusion / len(confusion)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nansum(joint * np.log2(confusion / joint.sum(axis=0)))

    crowd = adj.simulate(tasks=2400, workers=40, labels=3, votes_per_task=5, spammers=0.25, seed=3)
    ballots, belief, kind, confusions = look(crowd)
    bits, truth = mutual_information(ballots, belief), np.array([information(c) for c in confusions])
    assert np.abs(bits - truth).mean() < 0.05
    assert bits[kind == "spammer"].max() < 0.05
    few = adj.simulate(tasks=80, workers=80, labels=3, votes_per_task=5, spammers=0.25, seed=3)  # five votes each
    ballots, belief, kind, _ = look(few)
    assert mutual_information(ballots, belief)[kind == "spammer"].mean() < 0.1


def test_evidence_speaks_for_those_who_look_or_evade_and_against_those_who_guess():
    crowd = adj.simulate(tasks=600, workers=30, labels=3, votes_per_task=5, spammers=0.2, adversaries=0.2, seed=5)
    ballots, belief, kind, _ = look(crowd)
    found = kinds(ballots, compare(ballots, belief))
    assert np.median(found.bits[kind == "ordinary"]) > 15
    assert found.bits[kind != "spammer"].min() > 0
    assert found.bits[kind == "spammer"].max() < 0
    assert found.looks[kind == "ordinary"].mean() > 0.5
    assert found.evades[kind == "adversary"].mean() > 0.5
    assert (found.evader + found.guesser <= 1 + 1e-9).all()


def test_chances_of_votes_are_those_with_which_they_come():
    crowd = adj.simulate(tasks=2000, workers=40, labels=3, votes_per_task=5, spammers=0.1, adversaries=0.1, seed=6)
    ballots, belief, _, _ = look(crowd)
    seen = compare(ballots, belief)
    chance = expected(ballots, seen, kinds(ballots, seen))
    # If these are the probabilities of the answers, the mean of 1 / chance is the number of labels.
    assert np.mean(1 / chance) == pytest.approx(3, rel=0.07)
