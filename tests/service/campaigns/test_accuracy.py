"""The accuracy of workers in a live campaign: the library's rule, from the first vote on."""

import numpy as np
import pytest

import adjudge as adj
from adjudge.service.campaigns import snapshot
from adjudge.service.store import events as e
from adjudge.service.store.archive import CopiedArchive
from live_stories import begin

POLICY = {"minimum_votes": 3, "confidence": 0.7}
NEWCOMER_VOTES = (1, 3, 10, 30)  # votes of newcomers


def campaign(labels, votes, *, sweeps=False, model="fds", confidence="honest"):
    """The state after votes (task, worker, label), by number; with `sweeps` decided tasks leave memory now and then."""
    created = e.Created(
        time=0, labels=labels, names=labels, model=model, policy=POLICY, settings={"confidence": confidence, "strength": 0.0}
    )
    state = begin([created])
    state.apply(1, created)
    for at, (task, worker, label) in enumerate(votes):
        state.apply(state.position + 1, e.Vote(time=at, task=task, worker=worker, label=labels.index(label)))
        if sweeps and at % 50 == 49:
            state.apply(state.position + 1, e.Sweep(time=at, decided=max(0, state.tasks.settled - 20)))
        state.changes.clear()
    return state


def refit(state):
    state.apply(state.position + 1, e.RefitBegun(time=state.time))
    state.apply(state.position + 1, e.RefitDone(time=state.time, read=state.position))
    return state


def crowd(seed, labels=2, right=8.0, wrong=2.0, tasks=400, old=40, each=20):
    """Votes in a random order, and the true accuracy of every worker: some who vote much, and newcomers with few votes."""
    rng, names = np.random.default_rng(seed), [f"l{n}" for n in range(labels)]
    truth, votes, accuracy = rng.integers(0, labels, tasks), [], {}

    def vote(worker, task):
        is_right = rng.random() < accuracy[worker]
        label = truth[task] if is_right else (truth[task] + rng.integers(1, labels)) % labels
        votes.append((f"t{task}", worker, names[label]))

    for worker in range(1, old + each * len(NEWCOMER_VOTES) + 1):
        accuracy[worker] = rng.beta(right, wrong)
    for task in range(tasks):
        for worker in rng.choice(np.arange(1, old + 1), 5, replace=False).tolist():
            vote(worker, task)
    for at, worker in enumerate(range(old + 1, len(accuracy) + 1)):
        for task in rng.choice(tasks, NEWCOMER_VOTES[at // each], replace=False).tolist():
            vote(worker, task)
    order = rng.permutation(len(votes)).tolist()
    return names, [votes[at] for at in order], accuracy


@pytest.mark.parametrize("model", ["fds", "ds", "auto"])
@pytest.mark.parametrize("labels", [2, 4, 30])
def test_one_vote_says_little(model, labels):
    names = [f"l{n}" for n in range(labels)]
    state = campaign(names, [("t", 1, "l0")], model=model)
    [first] = state.accuracy_of([state.crowd.all[1]])
    assert 1 / labels < first.mean < 0.8
    assert first.interval[1] - first.interval[0] > 0.5
    # Also on a task on which many agree, or disagree.
    votes = [(f"t{n}", worker, names[n % labels]) for n in range(30) for worker in range(1, 7)]
    state = campaign(names, [*votes, ("t0", 7, "l0"), ("t0", 8, "l1")], model=model)
    mean, agrees, differs = state.accuracy_of([state.crowd.all[number] for number in (1, 7, 8)])
    assert differs.mean < agrees.mean <= mean.mean + 0.02
    assert agrees.mean - differs.mean < 0.25
    assert all(known.interval[1] - known.interval[0] > 0.2 for known in (agrees, differs))
    assert mean.interval[1] - mean.interval[0] < 0.1


@pytest.mark.parametrize(("labels", "right", "wrong"), [(2, 8.0, 2.0), (4, 8.0, 4.0), (2, 20.0, 2.0)])
def test_the_accuracy_is_that_of_a_batch_fit(labels, right, wrong):
    """Within 0.02 in the mean and 0.1 at most; the bounds of intervals within 0.04 and 0.3."""
    names, votes, _ = crowd(1, labels, right, wrong)
    state = refit(campaign(names, votes))
    fitted = adj.aggregate(votes, model="fds", seed=state.online.settings["seed"], labels=names).workers
    workers = [state.crowd.all[worker] for worker in fitted["worker"].to_list()]
    found = state.accuracy_of(workers)
    apart = np.abs(np.array([known.mean for known in found]) - fitted["accuracy"].to_numpy())
    assert apart.mean() < 0.02
    assert apart.max() < 0.1
    for at, name in enumerate(("accuracy_low", "accuracy_high")):
        apart = np.abs(np.array([known.interval[at] for known in found]) - fitted[name].to_numpy())
        assert apart.mean() < 0.04
        assert apart.max() < 0.3


@pytest.mark.parametrize("sweeps", [False, True])
@pytest.mark.parametrize(("labels", "right", "wrong"), [(2, 8.0, 2.0), (4, 8.0, 4.0), (2, 20.0, 2.0)])
def test_intervals_hold_about_as_often_as_they_say(labels, right, wrong, sweeps):
    held = {number: [] for number in NEWCOMER_VOTES}
    for seed in range(4):
        names, votes, accuracy = crowd(seed, labels, right, wrong)
        state = campaign(names, votes, sweeps=sweeps)
        newcomers = [state.crowd.all[worker] for worker in accuracy if worker > 40]
        for worker, known in zip(newcomers, state.accuracy_of(newcomers), strict=True):
            held[worker.votes].append(known.interval[0] <= accuracy[worker.number] <= known.interval[1])
    shares = {number: float(np.mean(each)) for number, each in held.items()}
    assert all(share >= 0.8 for share in shares.values()), shares
    assert np.mean(list(shares.values())) >= 0.88, shares


def test_archived_tasks_are_part_of_it():
    names, votes, _ = crowd(2)
    state = campaign(names, votes)
    workers = list(state.crowd.all.values())
    before = np.array([known.mean for known in state.accuracy_of(workers)])
    state.apply(state.position + 1, e.Sweep(time=state.time, decided=300))
    after = np.array([known.mean for known in state.accuracy_of(workers)])
    assert state.archived_tasks > 200
    assert np.abs(after - before).max() < 0.06
    assert np.abs(after - before).mean() < 0.03
    state.apply(state.position + 1, e.Sweep(time=state.time, decided=1000, others=1000))
    assert len(state.tasks) == 0
    assert all(0.3 < known.mean < 1 for known in state.accuracy_of(workers[:40])), "the mean worker that was measured is left"


def test_the_figures_follow_from_the_state_alone():
    names, votes, _ = crowd(3, tasks=150)
    state = campaign(names, votes, sweeps=True)
    restored = snapshot.from_bytes(snapshot.to_bytes(state), CopiedArchive(state.archive))
    workers, others = ([each.crowd.all[number] for number in sorted(each.crowd.all)] for each in (state, restored))
    assert state.accuracy_of(workers) == restored.accuracy_of(others)


def test_without_honest_confidence_there_is_no_interval():
    names, votes, _ = crowd(4, tasks=60)
    state = campaign(names, votes, confidence="posterior")
    found = state.accuracy_of(list(state.crowd.all.values()))
    assert all(known.interval is None and 0.01 <= known.mean <= 0.99 for known in found)


def test_nobody_has_voted():
    state = campaign(["x", "y"], [])
    worker = state.crowd.get(1)
    assert state.accuracy_of([worker]) == [(None, None)]
    assert state.accuracy_of([]) == []
