import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.report.views import workers as workers_module
from adjudge.report.views.labels import headline, reliability, shares, tasks, trace
from adjudge.report.views.votes import agreement, confusion
from adjudge.report.views.workers import workers

from .conftest import EVIL, LABEL


def test_workers_are_those_of_the_result_and_the_sentence_counts_them(result):
    view, frame = workers(result), result.workers_frame()
    assert view.frame["worker"].to_list() == frame["worker"].cast(pl.String).to_list()
    assert view.frame["accuracy"].to_list() == frame["accuracy"].to_list()
    assert view.is_judged
    assert view.verdicts["spammer"] == (frame["verdict"] == "spammer").sum() > 0
    assert view.sentence == "Of 8 workers, 2 copy each other's answers and 1 answers without looking."
    assert view.notable["verdict"].to_list()[:3] == ["copy", "copy", "spammer"]
    assert view.notable["worker"][2] == EVIL


def test_many_workers_are_binned_and_none_is_lost(monkeypatch, result):
    monkeypatch.setattr(workers_module, "MAX_DOTS", 5)
    monkeypatch.setattr(workers_module, "MAX_NOTABLE", 3)
    view = workers(result)
    assert view.is_binned
    assert view.cells["workers"].sum() == 8
    assert len(view.dots) == 3
    for low, high, bottom, top, number in view.cells.iter_rows():
        inside = view.frame.filter(
            pl.col("votes").is_between(low, high, closed="left") & pl.col("accuracy").is_between(bottom, top + 1e-12)
        )
        assert len(inside) >= number


def test_beyond_the_limit_nobody_is_judged_and_the_page_says_so(monkeypatch, result):
    monkeypatch.setattr(workers_module, "MAX_JUDGED", 10)
    view = workers(result)
    assert not view.is_judged
    assert not view.verdicts
    assert "Verdicts are not computed" in view.sentence


def test_chance_is_a_guess_at_the_rates_of_the_labels():
    votes = [(t, w, "x" if t < 3 else "y") for t in range(4) for w in "abc"]
    assert workers(adj.aggregate(votes, model="mv")).chance == pytest.approx(0.75**2 + 0.25**2)


def test_confusion_counts_votes_by_chosen_and_given_label(result, crowd):
    view = confusion(result)
    chosen = result.labels_frame().select("task", chosen="label")
    counted = crowd[0].join(chosen, on="task").group_by("chosen", "label").len()
    expected = {(a, b): n for a, b, n in counted.iter_rows()}
    found = {(view.labels[t], view.labels[g]): n for t, g, n in zip(view.true, view.given, view.votes, strict=True)}
    assert found == expected
    one = confusion(result, EVIL)
    assert {one.labels[g] for g in one.given} == {LABEL}
    assert np.nansum(one.matrix[:, list(one.labels).index(LABEL)]) == (one.support > 0).sum()
    with pytest.raises(adj.InputError, match="no votes here"):
        confusion(result, "nobody")


def test_many_labels_are_listed_as_the_worst_pairs():
    view = confusion(adj.aggregate(adj.simulate(tasks=300, workers=12, labels=30, seed=1).votes))
    assert not view.is_matrix
    assert len(view.cells) == 20
    assert (view.worst["votes"].diff().drop_nulls() <= 0).all()
    assert (view.worst["true"] != view.worst["given"]).all()


def test_tasks_are_counted_in_equal_bins_and_the_least_certain_come_first(result):
    view, confidence = tasks(result), result.labels_frame()["confidence"].to_numpy()
    assert view.bins["tasks"].sum() == 120
    assert view.doubtful == (confidence < 0.7 - 1e-9).sum() == view.bins.filter("in_doubt")["tasks"].sum()
    assert view.expected_wrong == pytest.approx(result.expected_errors)
    least = view.listed(view.uncertain)
    assert least["confidence"].to_list() == sorted(confidence)[: len(least)]
    votes, labels = result.votes, result.fit.outcome.labels
    against = [
        int((votes.row_label[votes.row[votes.task_ptr[t] : votes.task_ptr[t + 1]]] != labels[t]).sum()) for t in range(120)
    ]
    assert view.against.tolist() == sorted(against, reverse=True)[: len(view.against)]
    assert [against[t] for t in view.disputed] == view.against.tolist()


def test_agreement_puts_rings_side_by_side_and_is_that_of_the_pairs(crowd):
    result = adj.aggregate(crowd[0])
    view = agreement(result)
    pairs = adj.agreement(result.votes, resamples=0, model=None).pairs_frame()
    known = {(a, b): kappa for a, b, kappa in pairs.select("worker_a", "worker_b", "kappa").iter_rows()}
    for i, a in enumerate(view.workers):
        for j, b in enumerate(view.workers):
            if (a, b) in known and known[a, b] is not None:
                assert view.kappa[i, j] == view.kappa[j, i] == pytest.approx(known[a, b])
    assert view.ring_sizes == (2,)
    (span,) = view.rings
    assert set(view.workers[slice(*span)]) == {"w1", "copy of w1"}
    assert "2 workers answer alike" in view.sentence


def test_agreement_of_a_few_tasks_says_what_to_do():
    assert "ask several workers per task" in agreement(adj.aggregate([(1, "a", "x"), (2, "b", "y")])).sentence
    assert "one worker" in agreement(adj.aggregate([(1, "a", "x"), (2, "a", "y")])).sentence


def test_a_panel_is_recognised_by_its_judges():
    votes = [(t, f"j{j}", "x" if (t * 7) % 5 < 3 or (t + j) % 11 == 0 else "y") for t in range(80) for j in range(12)]
    view = agreement(adj.aggregate(votes))
    assert view.sentence.startswith("12 judges carry the weight of")


def test_the_other_sentences_follow_from_the_data(result, crowd):
    assert "votes" in shares(result).sentence
    frame = shares(result).frame
    assert frame["given"].sum() == pytest.approx(1.0)
    assert frame["chosen"].sum() == pytest.approx(1.0)
    assert trace(result).frame["labels_changed"].to_list() == [row.labels_changed for row in result.fit.trace]
    with pytest.warns(adj.NotConverged):
        unfinished = adj.aggregate(crowd[0], model=adj.DawidSkene(max_iter=2))
    assert "NOT converged" in trace(unfinished).sentence
    found = adj.evaluate(result, crowd[1])
    view = reliability(found)
    assert view.wrong == found.calibration.errors
    assert str(view.wrong) in view.sentence
    top = headline(result)
    low, high = top.wrong_range
    assert low < top.expected_wrong < high <= 120
    assert headline(adj.aggregate(crowd[0], confidence="posterior")).wrong_range is None
