"""The race: who is named as faster, who is not asked again, what tables and pages say, and one small child of ours."""

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import adjudge as adj

ROOT = Path(__file__).parents[1]
FOLDERS = (str(ROOT / "benchmarks" / "race"), str(ROOT / "benchmarks"))


@pytest.fixture(scope="module")
def race():
    """The modules of benchmarks/race, which import each other as neighbours and leave nothing behind."""
    before = set(sys.modules)
    sys.path[:0] = FOLDERS
    try:
        yield SimpleNamespace(
            **{
                name: importlib.import_module(name)
                for name in (
                    "contestants",
                    "summary",
                    "tables",
                    "pages",
                    "turns",
                    "cells",
                    "equal",
                    "likelihood",
                    "child",
                    "run",
                    "stages",
                    "studies",
                )
            }
        )
    finally:
        for folder in FOLDERS:
            while folder in sys.path:
                sys.path.remove(folder)
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(ROOT / "benchmarks")):
                del sys.modules[name]


def cell(name="1k x 4", votes=1_000, labels=4, **seconds):
    """A cell where these took so long, and everything else is not there."""
    sizes = {"votes": votes, "tasks": votes // 5, "workers": 10, "labels": labels}
    return {
        "name": name,
        **sizes,
        "lines": {who.replace("_", " ").replace("crowdkit", "crowd-kit"): {"seconds": s} for who, s in seconds.items()},
    }


def ours(race, seconds=0.01):
    """Lines of all of ours."""
    return {one.name: {"seconds": seconds} for one in race.contestants.OURS}


def test_a_faster_peer_is_named_with_both_times(race):
    one = cell(crowdkit_DawidSkene=0.001, crowdkit_MajorityVote=5.0)
    one["lines"] |= ours(race)
    assert race.summary.exceptions([one]) == [("crowd-kit DawidSkene", "1k x 4", 0.001, 0.01)]
    said = race.summary.sentence([one])
    assert "**no**, exceptions: crowd-kit DawidSkene on 1k x 4 (1.00 ms against 10.0 ms)." in said


def test_yes_needs_our_answers_everywhere(race):
    one = cell(crowdkit_DawidSkene=1.0)
    one["lines"] |= ours(race)
    assert race.summary.sentence([one]).count("**yes**") == 2
    one["lines"]["adjudge ds"] = {"why": "failed: KeyError"}
    said = race.summary.sentence([one])
    assert "crowd-kit DawidSkene on 1k x 4 (1.00 s against none)" in said
    assert "adjudge ds on 1k x 4 gave no answer (failed: KeyError)" in said


def test_a_tie_is_an_exception(race):
    one = cell(cleanlab_majority_vote=0.01)
    one["lines"] |= ours(race)
    assert len(race.summary.exceptions([one])) == 1


def test_frames_are_compared_with_peers_that_take_one(race):
    one = cell(cleanlab_majority_vote=0.02, crowdkit_MajorityVote=0.02)
    one["lines"] |= ours(race) | {"adjudge mv, frame to labels": {"seconds": 0.03}}
    assert race.summary.exceptions([one]) == []
    assert [who for who, *_ in race.summary.exceptions([one], framed=True)] == ["crowd-kit MajorityVote"]


def test_every_peer_has_a_rival_that_races(race):
    raced = {one.name for one in race.contestants.OURS}
    assert {race.contestants.ours_of(peer) for peer in race.contestants.PEERS} <= raced
    assert {race.contestants.ours_of(peer, framed=True) for peer in race.contestants.PEERS} - {None} <= raced


@pytest.mark.parametrize(
    ("votes", "labels", "tried"), [(1_000, 4, False), (1_000, 2, True), (500, 4, True), (10_000, 16, False), (10_000, 2, True)]
)
def test_who_was_stopped_is_not_asked_for_as_much_or_more(race, votes, labels, tried):
    past = [(cell(), {"why": "stopped at 20 s"})]
    why = race.turns.not_tried(past, {"votes": votes, "labels": labels})
    assert why is None if tried else why == "not tried: 1,000 votes stopped at 20 s"


def test_who_failed_is_asked_again(race):
    assert race.turns.not_tried([(cell(), {"why": "failed: MemoryError"})], {"votes": 10_000, "labels": 4}) is None


def test_matrices_beyond_the_bound_are_not_filled(race):
    snorkel = next(one for one in race.contestants.PEERS if one.library == "snorkel")
    small = {"votes": 1_000, "tasks": 200, "workers": 10, "labels": 4}
    assert race.contestants.unfit(snorkel, small) is None
    large = {"votes": 1_000_000, "tasks": 200_000, "workers": 10_000, "labels": 4}
    assert race.contestants.unfit(snorkel, large) == "not run: its matrix takes 134 GiB"


@pytest.mark.parametrize(("first", "fits"), [(0.5, 5), (1.0, 3), (6.9, 3), (7.0, 1)])
def test_slow_fits_are_repeated_less_often(race, first, fits):
    assert race.turns.rounds(first) == fits


def test_last_words_name_the_error(race):
    said = "Traceback\n  File x\nValueError: no votes\n  of worker 3\n"
    assert race.turns.last_words(said, 1) == "failed: ValueError: no votes"
    assert race.turns.last_words(said, -9) == "failed: ended by signal 9"
    assert race.turns.last_words("", 3) == "failed: ended with code 3"


def test_tables_tell_times_leads_and_reasons(race):
    first, second = cell(crowdkit_DawidSkene=0.5), cell("1M x 4", 1_000_000)
    first["lines"] |= ours(race)
    second["lines"]["crowd-kit DawidSkene"] = {"why": "stopped at 20 s"}
    names = ["crowd-kit DawidSkene", "crowd-kit GLAD"]
    assert race.tables.matrix([first, second], names, "seconds").splitlines() == [
        "| Time | 1k x 4 | 1M x 4 |",
        "| --- | --- | --- |",
        "| crowd-kit DawidSkene | 500 ms (50x) | stopped at 20 s |",  # and no line for one that was never there
    ]


@pytest.mark.parametrize(
    ("value", "said"), [(12.3456, "12.3 s"), (1.0, "1.00 s"), (0.0123, "12.3 ms"), (4.69e-4, "469 µs"), (3e-8, "0.0300 µs")]
)
def test_seconds_have_three_digits(race, value, said):
    assert race.summary.seconds(value) == said


@pytest.mark.parametrize(("wanted", "measured", "missed"), [
    ("at most 2.8x", 2.7, False), ("at most 2.8x", 2.9, True), ("at least 80x", 81.0, False), ("at least 80x", 79.0, True),
    ("at most 1.5 ms", 1.6, True), ("", 5.0, False), ("at most 1x", "failed: KeyError", False),
])  # fmt: skip
def test_bars_are_missed_on_their_side_alone(race, wanted, measured, missed):
    assert race.tables.missed(race.stages.row("what", wanted, measured)) is missed


def test_markers_are_replaced_once_and_nothing_else(race):
    text = "a\n<!-- x -->\nold\nold\n<!-- /x -->\nb <!-- y -->\n<!-- /y -->\n"
    new = race.pages.replaced(text, "x", "\\1 new\n")
    assert new == "a\n<!-- x -->\n\\1 new\n<!-- /x -->\nb <!-- y -->\n<!-- /y -->\n"
    assert race.pages.replaced(new, "x", "\\1 new") == new
    with pytest.raises(ValueError, match="0 times"):
        race.pages.replaced(text, "z", "new")


def test_the_pages_have_the_markers_that_a_race_fills(race, tmp_path, monkeypatch):
    one = cell(crowdkit_DawidSkene=0.5)
    one["lines"] |= ours(race)
    results = {"machine": "m", "command": "make race", "limit": 20.0, "cells": [one], "equal": [], "stages": []}
    copy = tmp_path / "PAGE.md"
    copy.write_text(race.pages.PAGE.read_text())
    monkeypatch.setattr(race.pages, "PAGE", copy)
    race.pages.write(results)
    assert "| crowd-kit DawidSkene | 500 ms (50x) |" in copy.read_text()
    assert "| 1,000 | 500 ms |" in copy.read_text()


def test_pieces_are_kept_until_settings_change(race, tmp_path):
    def never():
        raise AssertionError("made twice")

    kept = race.run.Kept(tmp_path / "kept", {"limit": 20})
    assert kept.get("1k x 4", lambda: {"lines": 1}) == {"lines": 1}
    assert race.run.Kept(tmp_path / "kept", {"limit": 20}).get("1k x 4", never) == {"lines": 1}
    assert race.run.Kept(tmp_path / "kept", {"limit": 5}).get("1k x 4", lambda: {"lines": 2}) == {"lines": 2}
    assert race.run.Kept(tmp_path / "kept", {"limit": 5}, again=True).get("1k x 4", lambda: {"lines": 3}) == {"lines": 3}


def test_near_the_final_likelihood_is_within_a_millionth(race):
    assert race.equal.near(-1_000_000.5, -1_000_000.0)
    assert not race.equal.near(-1_000_002.0, -1_000_000.0)
    assert race.equal.enough([-3e6, -1_000_002.0, -1_000_000.5, -1_000_000.0], -1_000_000.0) == 3


def test_a_child_of_ours_is_judged_as_its_result_says(race, tmp_path):
    sizes = race.cells.simulated(tmp_path / "votes.npz", 500, 3)
    assert sizes == {"votes": 500, "tasks": 100, "workers": 10, "labels": 3}
    judge = race.likelihood.Judge(tmp_path / "votes.npz")
    with pytest.warns(adj.NotConverged):
        result = adj.DawidSkene(max_iter=10, tol=0.0).fit(judge.votes, confidence="posterior")
    ds = next(one for one in race.contestants.OURS if one.name == "adjudge ds")
    broken = ds._replace(method="no such model", title="broken")
    lines = race.turns.take_turns(
        [(ds, sys.executable), (broken, sys.executable)], {"name": "x"}, tmp_path / "votes.npz", tmp_path, 60.0, 2, judge
    )
    assert lines["adjudge ds"]["log_likelihood"] == pytest.approx(result.log_likelihood, rel=1e-9)
    assert lines["adjudge ds"]["accuracy"] == judge.accuracy(np.load(next(tmp_path.glob("*/answer.npz")))["labels"])
    assert len(lines["adjudge ds"]["times"]) == 5
    assert lines["adjudge broken"]["why"] == "failed: KeyError: 'no such model'"


@pytest.mark.parametrize("study", ["ranking", "agreement"])
def test_figures_of_ours_are_those_of_the_judge(race, tmp_path, study):
    ours = race.studies.STUDIES[study][-1]
    assert set(race.studies.rivals(study).values()) == {ours.name}
    cell, write = race.studies.fields(study, quick=True)[0]
    write(tmp_path / "data.npz")
    judge, ready = race.studies.StudyJudge(tmp_path / "data.npz"), [(ours, sys.executable)]
    lines = race.turns.take_turns(ready, cell, tmp_path / "data.npz", tmp_path, 60.0, 1, judge)
    assert lines[ours.name]["difference"] < 1e-9
    studied = {study: {"machine": "m", "command": "c", "cells": [{**cell, "lines": lines}]}}
    results = {"machine": "m", "command": "c", "limit": 1.0, "cells": [], "equal": [], "stages": [], "studies": studied}
    assert f"| {ours.name} | " in race.pages.blocks(results)[study]


def test_a_fit_over_the_limit_is_stopped_and_the_rest_goes_on(race, tmp_path):
    race.cells.simulated(tmp_path / "votes.npz", 500, 3)
    mv = next(one for one in race.contestants.OURS if one.name == "adjudge mv")
    judge = race.likelihood.Judge(tmp_path / "votes.npz")
    lines = race.turns.take_turns([(mv, sys.executable)], {"name": "x"}, tmp_path / "votes.npz", tmp_path, 1e-9, 1, judge)
    assert lines["adjudge mv"]["why"] == "stopped at 1e-09 s"
    assert "seconds" not in lines["adjudge mv"]


def test_the_page_is_that_of_its_figures(race):
    found = ROOT / "benchmarks" / "race" / "results.json"
    if not found.exists():
        pytest.skip("no race was run")
    results, text = json.loads(found.read_text()), race.pages.PAGE.read_text()
    for name, block in race.pages.blocks(results).items():
        assert race.pages.replaced(text, name, block) == text, name
