import json

import polars as pl
import pytest

import adjudge as adj
from adjudge.evaluation.ranking.simulate import simulate_comparisons, simulate_jury


@pytest.fixture
def battles(tmp_path):
    drawn = simulate_comparisons(items=5, comparisons=400, judges=4, position=0.4, reliability_spread=0.3, seed=1)
    drawn.comparisons.write_csv(tmp_path / "battles.csv")
    return tmp_path / "battles.csv"


def test_a_leaderboard_on_the_screen(adjudge, battles):
    code, out, err = adjudge("rank", battles)
    assert (code, err) == (0, "")
    assert f"read {battles} as a table (csv): left=left, right=right, winner=winner, judge=worker; 400 votes" in out
    assert "400 comparisons of 5 items by 4 judges" in out
    assert "strengths are corrected for it" in out
    board = adj.rank(battles).leaderboard
    at = [out.index(f"\n{item} ") for item in board["item"]]
    assert at == sorted(at)
    assert f"{board['strength'][0]:.2f}" in out
    assert "judges: 1 is the mean one" in out
    sure = adjudge("rank", battles, "--level", 0.999)[1]
    assert "99.9% interval" in sure, "no interval is one of 100%"


def test_files_and_json(adjudge, battles, tmp_path):
    files = [tmp_path / name for name in ("board.parquet", "judges.csv", "next.jsonl")]
    code, out, _ = adjudge(
        "rank", battles, "-o", files[0], "--judges", files[1], "--neighbours", files[2], "--json", "--level", 0.8
    )
    document = json.loads(out)
    found = adj.rank(battles, level=0.8)
    assert code == 0
    assert document["facts"] == found.facts
    assert document["leaderboard"] == found.leaderboard.to_dicts() == pl.read_parquet(files[0]).to_dicts()
    assert len(pl.read_csv(files[1])) == 4
    assert len(pl.read_ndjson(files[2])) == 4
    assert document["understood"]["columns"]["judge"] == "worker"


def test_choices_reach_the_model(adjudge, battles):
    facts = [
        json.loads(adjudge("rank", battles, "--json", *options)[1])["facts"]
        for options in ((), ("--weigh-judges", "no", "--position", "no", "--prior", "2"))
    ]
    assert (facts[0]["judges"], facts[0]["position"]) == (True, True)
    assert (facts[1]["judges"], facts[1]["position"], facts[1]["prior"]) == (False, False, 2)
    assert adjudge("rank", battles, "--quiet")[:2] == (0, "")


def test_prompts_are_clusters(adjudge, tmp_path):
    jury = simulate_jury(prompts=40, prompt_spread=1.0, seed=1).comparisons
    jury.write_csv(tmp_path / "jury.csv")
    jury.rename({"prompt": "topic"}).write_csv(tmp_path / "other.csv")
    out = adjudge("rank", tmp_path / "jury.csv")[1]
    assert "judge=worker, cluster=prompt; 640 votes" in out
    assert "intervals are cluster-robust: comparisons with one prompt depend on each other (40 clusters)" in out
    facts = [
        json.loads(adjudge("rank", tmp_path / name, "--json", *options)[1])["facts"]["clusters"]
        for name, options in (
            ("jury.csv", ()),
            ("jury.csv", ("--cluster", "")),
            ("other.csv", ()),
            ("other.csv", ("--cluster", "topic")),
        )
    ]
    assert facts == [40, None, None, 40]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--weigh-judges", "maybe"), "unknown --weigh-judges 'maybe'"),
        (("--prior", "x"), "prior is 'x': give a number of at least 0"),
        (("--cluster", "nope"), "there is no column 'nope' for the cluster"),
        (("--winner", "nope"), "there is no column 'nope' for the winner"),
    ],
)
def test_bad_options_end_in_one_line(adjudge, battles, tmp_path, options, message):
    code, out, err = adjudge("rank", battles, *options, "-o", tmp_path / "out.csv")
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


def test_ids_do_not_steer_the_terminal(adjudge, tmp_path):
    (tmp_path / "g.csv").write_text('left,right,winner\n"\x1b[31mred",b,left\nb,"\x1b[31mred",left\n')
    code, out, _ = adjudge("rank", tmp_path / "g.csv")
    assert code == 0
    assert "\x1b" not in out
    assert "\\x1b[31mred" in out


def test_covariates_and_how_firm_ranks_are(adjudge, tmp_path):
    drawn = simulate_comparisons(items=5, comparisons=800, judges=3, length_effect=0.8, seed=2)
    drawn.comparisons.write_csv(tmp_path / "battles.csv")
    files = [tmp_path / name for name in ("effects.csv", "moves.csv", "cycles.csv")]
    to_files = ("--effects", files[0], "--volatility", files[1], "--cycles", files[2])
    code, out, err = adjudge("rank", tmp_path / "battles.csv", "--covariate", "length", *to_files)
    assert (code, err) == (0, "")
    assert "more length helps: the side with it wins" in out
    assert "within the errors" in out
    assert "triples of items beat each other in a circle" in out
    assert pl.read_csv(files[0])["covariate"].to_list() == ["length"]
    assert pl.read_csv(files[1]).height == 5
    assert pl.read_csv(files[2]).columns[:3] == ["first", "second", "third"]
    code, _, err = adjudge("rank", tmp_path / "battles.csv", "--effects", files[0])
    assert code != 0
    assert "--effects writes the effects of covariates: name some with --covariate" in err
    code, _, err = adjudge("rank", tmp_path / "battles.csv", "--covariate", "width")
    assert code == 1
    assert "covariate 'width' needs a column of that name" in err
