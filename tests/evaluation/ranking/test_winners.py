"""Tables of winners and losers, which do not say who was on the left."""

import polars as pl
import pytest

import adjudge as adj
from adjudge.evaluation.ranking.simulate import simulate_comparisons

DRAWN = simulate_comparisons(items=6, comparisons=400, seed=2).comparisons.filter(pl.col("winner").is_in(["left", "right"]))


def test_winners_and_losers_are_the_same_games(tmp_path):
    is_left = pl.col("winner") == "left"
    winner, loser = pl.when(is_left).then("left").otherwise("right"), pl.when(is_left).then("right").otherwise("left")
    table = DRAWN.select(winner=winner, loser=loser, worker="worker")
    table.write_csv(tmp_path / "games.csv")
    wanted = adj.rank(DRAWN, judges=False, position=False).leaderboard.select("item", "strength", "wins", "losses")
    for source in (table, table.to_arrow(), table.to_pandas(), table.to_dict(as_series=False), tmp_path / "games.csv"):
        found = adj.rank(source, judges=False)
        assert found.facts["position"] is False
        board = found.leaderboard_frame().select("item", "strength", "wins", "losses")
        assert board["item"].to_list() == wanted["item"].to_list()
        assert board["strength"].to_list() == pytest.approx(wanted["strength"].to_list(), abs=1e-6)
        assert board["wins"].to_list() == wanted["wins"].to_list()
    with pytest.raises(adj.OptionError, match="columns of winners and losers have none"):
        adj.rank(table, position=True)
