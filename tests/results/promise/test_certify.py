"""Certificates: the rule against plain loops, the promise over many draws, refusals, and files."""

import hashlib
import json

import numpy as np
import polars as pl
import pytest

import adjudge as adj
import oracle_promise as naive
from adjudge.results.promise.draws import draw_keys, fingerprint
from adjudge.results.promise.walk import allowed_errors
from fitting import aggregate

CROWD = adj.simulate(tasks=1500, workers=25, votes_per_task=4, skill=0.75, seed=4)
TRUTH = dict(CROWD.truth.iter_rows())


@pytest.fixture
def result():
    return aggregate(CROWD.votes)


def answers(draw, truth=TRUTH):
    return {task: truth[task] for task in draw["task"].to_list()}


@pytest.mark.parametrize("floor", [None, 0.0, 0.8])
@pytest.mark.parametrize("error", [0.05, 0.1])
def test_thresholds_are_those_of_plain_loops(result, floor, error):
    labels = result.labels
    confidence = dict(labels.select("task", "confidence").iter_rows())
    wrong = {task: label != TRUTH[task] for task, label in labels.select("task", "label").iter_rows()}
    for seed in range(12):
        draw = result.draw_gold(80, error=error, seed=seed, floor=floor)
        promise = result.certify(answers(draw), error=error)
        allowed = allowed_errors(80, error, 0.1).tolist()
        expected = naive.certify(confidence, draw["task"].to_list(), wrong, error, allowed, draw.floor)
        assert (promise.threshold, promise.accepted, promise.gold, promise.wrong) == expected
        assert promise.share == promise.accepted / 1500
        assert promise.threshold is None or promise.wrong <= promise.allowed


def test_the_promise_holds(result):
    """400 draws: a promise is broken in at most a tenth of them, and three standard errors."""
    labels = result.labels
    confidence = labels["confidence"].to_numpy()
    wrong = np.array([label != TRUTH[task] for task, label in labels.select("task", "label").iter_rows()])
    broken = made = 0
    for seed in range(400):
        draw = result.draw_gold(60, error=0.1, seed=seed)
        threshold = result.certify(answers(draw), error=0.1).threshold
        made += threshold is not None
        broken += threshold is not None and wrong[confidence >= threshold].mean() > 0.1
    assert broken / 400 <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 400)
    assert made > 100


def test_a_draw_is_uniform_and_the_same_everywhere(result, tmp_path):
    shuffled = aggregate(CROWD.votes.sample(fraction=1.0, shuffle=True, seed=2))
    for other in (shuffled, aggregate(CROWD.votes, engine="reference"), aggregate(CROWD.votes, engine="disk")):
        assert other.draw_gold(50, seed=3, floor=0)["task"].to_list() == result.draw_gold(50, seed=3, floor=0)["task"].to_list()
        assert fingerprint(other) == fingerprint(result)
    times = np.zeros(1500)
    for seed in range(400):
        times[np.argsort(draw_keys(result.votes.tasks, seed))[:150]] += 1
    assert abs(times.mean() - 40) < 1e-9
    assert 0.8 < times.var() / (400 * 0.1 * 0.9) < 1.2
    assert len(set(result.draw_gold(1500, floor=0)["task"])) == 1500


def test_a_fingerprint_knows_votes_labels_and_model(result):
    other = "l1" if CROWD.votes["label"][7] == "l0" else "l0"
    changed = CROWD.votes.with_columns(label=pl.when(pl.int_range(pl.len()) == 7).then(pl.lit(other)).otherwise("label"))
    others = [
        aggregate(changed),
        aggregate(CROWD.votes, "mv"),
        aggregate(CROWD.votes, confidence="posterior"),
        aggregate(CROWD.votes, adj.FastDawidSkene(smoothing=0.5)),
        aggregate(CROWD.votes, gold={"t1": TRUTH["t1"]}),
    ]
    assert len({fingerprint(other) for other in (result, *others)}) == 6


def test_gold_comes_from_confident_tasks(result):
    confidence = dict(result.labels.select("task", "confidence").iter_rows())
    draw = result.draw_gold(60, error=0.02, seed=1)
    assert 0 < draw.floor < 1
    assert min(confidence[task] for task in draw["task"]) >= draw.floor
    assert draw.region == sum(value >= draw.floor for value in confidence.values())


def test_tasks_given_as_gold_are_neither_drawn_nor_promised():
    given = dict(CROWD.truth.head(700).iter_rows())
    fit = aggregate(CROWD.votes, gold=given)
    draw = fit.draw_gold(200, floor=0)
    assert not given.keys() & set(draw["task"])
    promise = fit.certify(answers(draw), error=0.1)
    assert promise.tasks == draw.region == 800


def test_missing_answers_count_as_wrong(result):
    draw = result.draw_gold(100, error=0.1, seed=1)
    some = answers(draw)
    missing = draw["task"].to_list()[:5]
    assert {TRUTH[task] for task in missing} <= set(some.values())
    promise = result.certify({task: None if task in missing else label for task, label in some.items()}, error=0.1)
    other = {task: "another" if task in missing else label for task, label in some.items()}
    draw = aggregate(CROWD.votes).draw_gold(100, error=0.1, seed=1)
    with pytest.warns(adj.SuspiciousVotes, match=r"5 gold answers are labels that no vote has.*'another'"):
        wrong = result.certify(other, draw, error=0.1)
    assert promise.missing == 5
    assert (promise.threshold, promise.wrong) == (wrong.threshold, wrong.wrong)
    assert "5 of them unanswered and counted as wrong" in promise.sentence


def test_nothing_can_be_certified(result):
    draw = result.draw_gold(60, error=0.05)
    with pytest.warns(adj.SuspiciousVotes, match="59 gold answers"):
        promise = result.certify(dict.fromkeys(draw["task"], "never") | {draw["task"][0]: "l0"})
    assert (promise.threshold, promise.share, promise.accepted, promise.gold) == (None, 0.0, 0, 0)
    assert promise.sentence.startswith("Nothing can be certified")


def test_too_little_gold_names_the_smallest_number_and_takes_no_look(result):
    draw = result.draw_gold(44)
    with pytest.raises(adj.InputError, match="44 gold tasks cannot certify an error of 0.05 at a risk of 0.1.*at least 45"):
        result.certify(answers(draw))
    assert draw.looks == []
    result.certify(answers(result.draw_gold(45)))


def test_looks_share_the_risk(result, tmp_path):
    draw = result.draw_gold(120, looks=2)
    draw.write(tmp_path / "gold.csv")
    first = result.certify(answers(draw), draw, error=0.05)
    assert first.looks == 2
    assert result.certify(answers(draw), draw, error=0.05) == first  # the same question is the same look
    again = adj.Draw.read(tmp_path / "gold.csv")
    assert len(again.looks) == 1
    result.certify(answers(draw), again, error=0.1)
    third = adj.Draw.read(tmp_path / "gold.draw.json")
    assert [look.error for look in third.looks] == [0.05, 0.1]
    with pytest.raises(adj.InputError, match="look 3 at this draw.*spent a risk of 0.1"):
        result.certify(answers(draw), third, error=0.2)
    assert len(adj.Draw.read(tmp_path / "gold.csv").looks) == 2


def test_a_second_look_at_full_risk_is_refused(result):
    draw = result.draw_gold(100)
    result.certify(answers(draw))
    with pytest.raises(adj.InputError, match="look 2 at this draw"):
        result.certify(answers(draw), error=0.1)
    late = answers(draw) | {draw["task"][0]: None}
    with pytest.raises(adj.InputError, match="look 2 at this draw"):
        result.certify(late)


def test_what_is_refused(result):
    fresh = aggregate(CROWD.votes)
    with pytest.raises(adj.InputError, match="no gold was drawn from this result"):
        fresh.certify({"t1": "l0"})
    draw = result.draw_gold(60)
    known = answers(draw)
    stranger = next(task for task in TRUTH if task not in known)
    with pytest.raises(adj.InputError, match=f"1 tasks that were not drawn \\({stranger}\\)"):
        result.certify(known | {stranger: "l0"})
    with pytest.raises(adj.InputError, match="answers none of the 60 drawn tasks"):
        result.certify(dict.fromkeys(known))
    with pytest.raises(adj.InputError, match="fitted with 60 gold tasks of this draw"):
        aggregate(CROWD.votes, gold=known).certify(known, draw)
    with pytest.raises(adj.InputError, match="other votes, labels or settings"):
        aggregate(CROWD.votes, "mv").certify(known, draw)
    with pytest.raises(adj.InputError, match="certify the fit without calibrate"):
        aggregate(CROWD.votes, calibrate=known).certify(known, draw)
    for setting, match in (({"error": 0}, "error is 0"), ({"risk": 1.5}, "risk is 1.5"), ({"looks": 0}, "looks is 0")):
        with pytest.raises(adj.OptionError, match=match):
            result.certify(known, draw, **setting)
    with pytest.raises(adj.InputError, match="n is 1501, but only 1500 tasks"):
        result.draw_gold(1501, floor=0)
    with pytest.raises(adj.OptionError, match="floor is 2"):
        result.draw_gold(10, floor=2)
    assert draw.looks == []


@pytest.mark.parametrize(
    "damage",
    [
        {"kind": "x"},
        {"version": 2},
        {"tasks": []},
        {"tasks": ["a", "a"]},
        {"looks": [{}]},
        {"floor": 2},
        {"seed": "x"},
        {"region": 1},
    ],
)
def test_a_damaged_record_is_refused(result, tmp_path, damage):
    result.draw_gold(30).write(tmp_path / "gold.csv")
    record = tmp_path / "gold.draw.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | damage))
    with pytest.raises(adj.InputError, match=r"gold\.draw\.json"):
        adj.Draw.read(record)


def test_a_draw_comes_back_from_its_files(result, tmp_path):
    draw = result.draw_gold(70, seed=9, error=0.03, looks=3)
    draw.write(tmp_path / "gold.csv")
    assert pl.read_csv(tmp_path / "gold.csv")["task"].to_list() == draw["task"].to_list()
    same = adj.Draw.read(tmp_path / "gold.csv")
    for name in ("seed", "floor", "region", "error", "planned_looks", "fingerprint", "looks", "path"):
        assert getattr(same, name) == getattr(draw, name)
    pl.read_csv(tmp_path / "gold.csv").with_columns(label=pl.Series([TRUTH[task] for task in draw["task"]])).write_csv(
        tmp_path / "answered.csv"
    )
    assert result.certify(tmp_path / "answered.csv", same).drawn == 70
    with pytest.raises(adj.InputError, match=r"cannot read .*other\.draw\.json"):
        adj.Draw.read(tmp_path / "other.csv")


def test_a_certificate_has_all_figures(result, tmp_path):
    promise = result.certify(answers(result.draw_gold(100)))
    CROWD.votes.write_csv(tmp_path / "votes.csv")
    promise.write(tmp_path / "certificate.json", {"votes": tmp_path / "votes.csv"})
    content = json.loads((tmp_path / "certificate.json").read_text())
    assert content["figures"] == promise.figures()
    assert content["sentence"] == str(promise)
    assert content["adjudge"] == adj.__version__
    digest = hashlib.sha256((tmp_path / "votes.csv").read_bytes()).hexdigest()
    assert content["files"] == {"votes": [["votes.csv", digest]]}


def test_a_second_draw_with_the_same_seed_keeps_its_looks(result, tmp_path):
    draw = result.draw_gold(100, seed=3)
    known = answers(draw)
    result.certify(known)
    with pytest.raises(adj.InputError, match="look 2 at this draw"):
        result.certify(known, result.draw_gold(100, seed=3), error=0.1)
    draw.write(tmp_path / "gold.csv")
    again = aggregate(CROWD.votes).draw_gold(100, seed=3)
    for name in ("gold.csv", "other.csv"):
        with pytest.raises(adj.InputError, match=r"gold\.draw\.json has this draw already: seed 3 of these votes, with 1 look"):
            again.write(tmp_path / name)
    result.draw_gold(100).write(tmp_path / "other.csv")


def test_draws_without_a_seed_differ(result):
    first, second = result.draw_gold(100), result.draw_gold(100)
    assert first.seed != second.seed
    assert set(first["task"]) != set(second["task"])
    assert result.draw_gold(100, seed=first.seed)["task"].to_list() == first["task"].to_list()


def test_gold_spelled_unlike_the_votes_is_refused_and_takes_no_look(result):
    draw = result.draw_gold(100, seed=4)
    known = answers(draw)
    with pytest.raises(adj.InputError, match="the gold has the label 'L0 ', and the votes have 'l0'"):
        result.certify({task: label.upper() + " " for task, label in sorted(known.items(), key=lambda pair: pair[1])})
    with pytest.raises(adj.InputError, match="no answer of the gold is a label of the votes: it has 'never'"):
        result.certify(dict.fromkeys(known, "never"))
    with pytest.raises(adj.InputError, match="the gold has the label"):
        result.accuracy_interval(dict.fromkeys(known, " l0"), draw=draw)
    assert draw.looks == []
