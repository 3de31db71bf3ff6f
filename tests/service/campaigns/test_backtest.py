"""Backtests: the same policy changes nothing, another one what it should, and gold judges without deciding."""

from random import Random

import pytest

from adjudge.errors import InputError, OptionError
from adjudge.service.campaigns.backtest import Trial, backtest
from adjudge.service.campaigns.policy import Policy
from adjudge.service.store import events as e
from adjudge.service.store.batch import Batch
from adjudge.service.store.opening import open_store
from live_stories import POLICIES, Story, begin, make_ops

pytestmark = pytest.mark.filterwarnings("ignore::adjudge.errors.NotConverged")
SECOND = 1_000_000


def crowd(*, tasks=80, votes=7, skill=0.8, seed=1, policy=None, gold=0, refits=True):
    """A log of tasks that all get the same number of votes, a second apart; and the truth."""
    random, time = Random(seed), 0
    truth = [random.randrange(2) for _ in range(tasks)]
    log = [e.Created(time=0, labels=["x", "y"], names=["x", "y"], model="fds", policy=policy or {})]
    for number in range(votes):
        for task in range(tasks):
            time += SECOND
            label = truth[task] if random.random() < skill else 1 - truth[task]
            log.append(e.Vote(time=time, task=f"t{task}", worker=1 + (task + 3 * number) % 20, label=label))
        if refits:
            log.append(e.RefitBegun(time=time))
            log.append(e.RefitDone(time=time, read=len(log)))
    log += [e.GoldSet(time=time, task=f"t{task}", label=truth[task]) for task in range(gold)]
    return log, truth


def test_the_same_policy_changes_nothing():
    log, _ = crowd(gold=30)
    found = backtest(log, policy={})
    assert found.changed == 0
    assert found.before == found.after
    assert found.examples == []
    assert (found.position, found.tasks, found.cast) == (len(log), 80, 560)
    assert found.votes_saved == 560 - found.after.votes > 0


@pytest.mark.parametrize("seed", range(12))
def test_one_stream_for_two_is_as_good_as_two(seed):
    """Of any log: decisions under a policy are those that a trial by itself makes."""
    story = Story(policy=POLICIES[seed % len(POLICIES)]).tell(make_ops(seed, 200))
    policy = Policy.of(POLICIES[(seed // 2) % len(POLICIES)])
    before, alone = Trial(story.log[0]), Trial(story.log[0], policy=policy)
    after = Trial(story.log[0], policy=policy, leader=before)
    for position, event in enumerate(story.log, 1):
        after.prepare(event)
        for trial in (before, after, alone):
            trial.step(position, event)
    assert after.endings == alone.endings
    assert [(task.name, task.standing, task.flips) for task in after.state.tasks] == [
        (task.name, task.standing, task.flips) for task in alone.state.tasks
    ]


def test_a_stricter_policy_needs_more_votes_and_is_right_more_often():
    log, _ = crowd(tasks=300, skill=0.65, gold=300, seed=3, policy={"confidence": 0.6})
    found = backtest(log, policy={"confidence": 0.8})
    assert found.after.votes > found.before.votes
    assert found.after.accuracy > found.before.accuracy > 0.6
    assert found.after.decided < found.before.decided
    for side in (found.before, found.after):
        assert side.decided + side.escalated + side.open == found.tasks
        assert side.gold == side.decided  # none of them by its gold
    assert 0 < len(found.examples) <= 20
    for was, would in found.examples:
        assert was.task == would.task
        assert (was.status, was.label) != (would.status, would.label)


def test_figures_are_those_of_a_count_by_hand():
    log, truth = crowd(tasks=40, votes=5, gold=25, refits=False)
    policy = {"minimum_votes": 2, "confidence": 0.6, "maximum_votes": None}
    state, ended, cast = begin([log[0]]), {}, {}
    created = e.Created(time=0, labels=["x", "y"], names=["x", "y"], model="fds", policy=policy)
    state = begin([created])
    state.apply(1, created)
    for position, event in enumerate(log[1:], 2):
        if isinstance(event, e.Vote):
            state.apply(position, event)
            cast.setdefault(event.task, []).append((position, event.time))
            for change in state.changes:
                ended[change.task] = (change.status, change.label, position, event.time)
            state.changes.clear()
    found = backtest(log, policy=policy).after
    decided = {task: end for task, end in ended.items() if end[0] == "decided"}
    assert found.decided == len(decided)
    assert found.votes == sum(
        sum(at <= (ended[task][2] if task in decided else 10**9) for at, _ in votes) for task, votes in cast.items()
    )
    times = sorted(end[3] - cast[task][0][1] for task, end in decided.items())
    middle = (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2
    assert found.seconds == middle / SECOND
    judged = [task for task in decided if int(task[1:]) < 25]
    assert found.gold == len(judged)
    assert found.accuracy == sum(decided[t][1] == "xy"[truth[int(t[1:])]] for t in judged) / len(judged)


def test_another_model():
    log, _ = crowd(tasks=120, skill=0.7)
    found = backtest(log, model="ds")
    assert found.before == backtest(log, policy={}).before
    assert found.after.votes != found.before.votes


def test_policies_of_the_past_are_skipped_or_hold():
    log, _ = crowd(tasks=30, votes=3, refits=False)
    log.append(e.PolicySet(time=log[-1].time, policy={"minimum_votes": 8}))
    assert backtest(log, model="hybrid").after.decided == 0
    found = backtest(log, policy={"minimum_votes": 2, "confidence": 0.6})
    assert found.before.decided == 0
    assert found.after.decided > 20


def test_holds_end_without_ticks_in_the_log():
    log, _ = crowd(tasks=1, votes=3, skill=1.0, refits=False)
    log.append(e.Erase(time=log[-1].time + 100 * SECOND, worker=1))
    found = backtest(log, policy={"confidence": 0.6, "hold": 60})
    assert (found.before.decided, found.after.decided) == (1, 1)
    assert (found.before.seconds, found.after.seconds) == (2, 62)  # until the third vote, and the hold
    assert found.after.votes == 3


def test_overrides_stay_and_are_not_judged():
    log, truth = crowd(tasks=5, votes=2, refits=False, gold=5)
    log.append(e.Override(time=log[-1].time, task="t0", label=1 - truth[0]))
    found = backtest(log, policy={"minimum_votes": 9})
    assert (found.after.decided, found.after.gold, found.after.accuracy, found.after.seconds) == (1, 0, None, None)


def test_labels_that_came_later_may_be_named():
    log, _ = crowd(tasks=10, votes=3, refits=False)
    added = [*log, e.LabelAdded(time=log[-1].time, id="z", name="z")]
    for policy in ({"confidence": {"z": 0.99, "*": 0.6}}, {"costs": {"z": {"*": 9}, "*": {"*": 1, "z": 2}}, "maximum_cost": 0.3}):
        assert backtest(added, policy=policy).after.decided > 0
        with pytest.raises(OptionError, match="names the label 'z'"):
            backtest(log, policy=policy)


def test_a_breaker_that_would_have_tripped_is_told():
    log, _ = crowd(tasks=100, votes=3, skill=1.0, refits=False)
    time = log[-1].time
    log += [e.Vote(time=time, task=f"s{n}", worker=w, label=0) for n in range(100) for w in (41, 42, 43)]
    found = backtest(log, policy={"confidence": 0.6, "breakers": {"window": 40}})
    assert found.before.breaker is None
    assert found.after.breaker.startswith("the share of 'x' in the last 40 decisions")
    assert found.after.open > 20


def test_logs_in_stores(tmp_path):
    log, _ = crowd(tasks=10, votes=3)
    store, batch = open_store(tmp_path / "votes.db"), Batch()
    number = store.create_campaign("one")
    for position, event in enumerate(log, 1):
        batch.extend(number, position, [event])
    store.write(batch)
    whole = backtest(log, policy={"confidence": 0.7})
    assert backtest(store, policy={"confidence": 0.7}) == whole
    assert backtest(store, policy={"confidence": 0.7}, campaign="one") == whole
    store.create_campaign("two")
    assert backtest(store, policy={"confidence": 0.7}, campaign=number, until=20).position == 20
    with pytest.raises(InputError, match="campaign is None: give one of one, two"):
        backtest(store, policy={})
    with pytest.raises(InputError, match="campaign 'three' is unknown: give one of one, two"):
        backtest(store, policy={}, campaign="three")
    with pytest.raises(InputError, match="has no events"):
        backtest(store, policy={}, campaign="two")
    store.close()
    assert backtest(tmp_path / "votes.db", policy={"confidence": 0.7}, campaign="one") == whole


def test_bad_input():
    log, _ = crowd(tasks=2, votes=1)
    with pytest.raises(OptionError, match="give a policy or a model"):
        backtest(log)
    with pytest.raises(OptionError, match="unknown model 'glad'"):
        backtest(log, model="glad")
    with pytest.raises(InputError, match="begins with Vote"):
        backtest(log[1:], policy={})


AUDIT = {"share": 0.3, "error": 0.05, "risk": 0.1, "run": 5000, "deadline_days": 0.001}


def test_what_audits_would_have_found():
    """Those that are drawn are the ones that a campaign draws, and what is known of them judges them."""
    policy = {"minimum_votes": 2, "confidence": 0.6, "maximum_votes": None}
    log, truth = crowd(tasks=200, votes=5, gold=120, refits=False, policy=policy)
    audited = e.Created(time=0, labels=["x", "y"], names=["x", "y"], model="fds", policy={**policy, "audit": AUDIT})
    drawn, state = [], begin([audited])
    for position, event in enumerate([audited, *log[1:]], 1):
        if isinstance(event, e.GoldSet):
            break
        state.apply(position, event)
        if state.audits.waiting:
            drawn += state.audits.take_waiting()
    found = backtest(log, policy={**policy, "audit": AUDIT})
    assert found.before.audits is None
    known = [(task, label) for task, label in drawn if int(task[1:]) < 120]
    audits = found.after.audits
    assert (audits.drawn, audits.known) == (len(drawn), len(known))
    assert audits.wrong == sum(label != truth[int(task[1:])] for task, label in known) > 0
    assert audits.interval[0] < audits.wrong / audits.known < audits.interval[1]
    assert audits.decisions >= found.after.decided > audits.drawn > 20
    assert found.after.breaker is None, "nobody is asked in a backtest: no audit expires"


def test_answers_of_audits_and_overrides_judge_what_a_backtest_draws():
    policy = {"minimum_votes": 1, "confidence": 0.5, "audit": {**AUDIT, "share": 1.0}}
    log = [e.Created(time=0, labels=["x", "y"], names=["x", "y"], model="fds", policy=policy)]
    log += [e.Vote(time=n, task=f"t{n}", worker=1, label=0) for n in range(40)]
    log += [e.AuditAnswer(time=50, task=f"t{n}", label=int(n < 12), by="mo") for n in range(15)]
    log += [
        e.Override(time=50, task="t20", label=1),
        e.GoldSet(time=50, task="t21", label=0),
        e.GoldSet(time=50, task="t0", label=0),
    ]
    found = backtest(log, policy=policy)
    assert found.before == found.after
    audits = found.after.audits
    assert (audits.decisions, audits.drawn, audits.known, audits.wrong) == (40, 40, 17, 12)
    assert audits.alarmed
    assert backtest(log, policy={**policy, "audit": None}).after.audits is None


def test_a_policy_without_audits_drops_what_was_drawn_in_a_backtest_as_well():
    policy = {"minimum_votes": 1, "confidence": 0.5}
    audited = {**policy, "audit": {**AUDIT, "share": 1.0}}
    log = [e.Created(time=0, labels=["x", "y"], names=["x", "y"], model="fds", policy=audited)]
    log += [e.Vote(time=n, task=f"t{n}", worker=1, label=0) for n in range(4)]
    log += [e.PolicySet(time=5, policy=policy), e.PolicySet(time=5, policy=audited)]
    log += [e.Vote(time=n, task=f"t{n}", worker=1, label=0) for n in range(6, 9)]
    log += [e.GoldSet(time=9, task=f"t{n}", label=1) for n in (0, 1, 2, 3, 7)]
    audits = backtest(log, policy=policy).before.audits
    assert (audits.decisions, audits.drawn, audits.known, audits.wrong) == (3, 3, 1, 1)
