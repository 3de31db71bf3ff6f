"""The gain of a vote, against every outcome of votes spelled out."""

from itertools import product

import numpy as np
import pytest

from adjudge.results.ask_next import GAIN_SHARE, LEAST_ALIKE, LOOK_AHEAD, first_vote_right, gain_rate


def spelled_out(belief, said, votes, channel, shared_error):
    """The best rate over all sequences of votes, one by one."""
    alike = max(shared_error, LEAST_ALIKE)
    lent = (1 - alike) / alike
    best = 0.0
    for ahead in range(1, LOOK_AHEAD + 1):
        right = 0.0
        for cast in product(range(3), repeat=ahead):
            joint = []
            for true in (0, 1):
                chance = [(lent * channel[given][true] + said[given]) / (lent + votes) for given in (0, 1)]
                chance.append(max(1 - sum(chance), 0.0))
                joint.append(belief[true] * np.prod([chance[given] for given in cast]))
            right += max(joint)
        best = max(best, (right - belief[0]) / ahead)
    return GAIN_SHARE * best


@pytest.mark.parametrize("labels", [2, 4])
def test_gain_is_that_of_all_outcomes(labels):
    random = np.random.default_rng(labels)
    n = 6
    belief = np.sort(random.dirichlet(np.ones(labels), n), axis=1)[:, :-3:-1]
    said = random.integers(0, 4, (n, 2)).astype(float)
    votes = said.sum(axis=1) + (0 if labels == 2 else random.integers(0, 3, n))
    confusion = random.dirichlet(np.ones(labels), (n, 2))[:, :, :2].transpose(0, 2, 1)
    found = gain_rate(belief, said, votes, confusion, 0.05, two_labels=labels == 2)
    for at in range(n):
        assert found[at] == pytest.approx(spelled_out(belief[at], said[at], votes[at], confusion[at], 0.05), abs=1e-12)


def test_doubt_is_worth_more_and_hopeless_tasks_less():
    able = np.tile([[0.8, 0.2], [0.2, 0.8]], (3, 1, 1))
    belief = np.array([[0.55, 0.45], [0.95, 0.05], [0.55, 0.45]])
    said = np.array([[1.0, 1.0], [3.0, 0.0], [40.0, 40.0]])
    doubt, sure, hopeless = gain_rate(belief, said, said.sum(axis=1), able, 0.0, two_labels=True)
    assert doubt > 2 * sure
    assert doubt > 2 * hopeless
    together = gain_rate(belief, said, said.sum(axis=1), able, 0.5, two_labels=True)
    assert (together <= [doubt, sure, hopeless]).all()


def test_one_vote_cannot_but_three_can():
    weak = np.tile([[0.7, 0.3], [0.3, 0.7]], (1, 1, 1))
    belief, none = np.array([[0.8, 0.2]]), np.zeros((1, 2))
    (gain,) = gain_rate(belief, none, np.zeros(1), weak, 0.0, two_labels=True)
    assert 0.2 * 0.7 < 0.8 * 0.3  # no single vote changes the label
    assert gain > 0


def test_the_first_vote():
    assert first_vote_right(np.array([0.9, 0.1]), np.eye(2)) == pytest.approx(1.0)
    assert first_vote_right(np.array([0.9, 0.1]), np.full((2, 2), 0.5)) == pytest.approx(0.9)
