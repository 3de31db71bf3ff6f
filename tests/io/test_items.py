"""Items: what was judged comes along where a format holds it or `show` names it, and is read on demand."""

import json
import pickle
from pathlib import Path

import polars as pl
import pytest

import adjudge as adj
from adjudge.io import items as reading_items

ATTACK = "<script>alert('x')</script>\x1b[31m " + "long " * 200
TABLE = {
    "review_id": ["r1", "r1", "r2", "r2", "r3", "r3"],
    "worker": ["a", "b"] * 3,
    "label": ["x", "y", "x", "x", "y", "y"],
    "review_text": [ATTACK, "another copy", "good", "good", None, None],
    "stars_given": [1, 1, 5, 5, 3, 3],
}


def sources(tmp_path):
    frame = pl.DataFrame(TABLE)
    frame.write_csv(tmp_path / "votes.csv")
    frame.write_parquet(tmp_path / "votes.parquet")
    (tmp_path / "votes.json").write_text(json.dumps(frame.to_dicts()))
    return [
        tmp_path / "votes.csv",
        tmp_path / "votes.parquet",
        tmp_path / "votes.json",
        frame,
        frame.to_pandas(),
        frame.to_dicts(),
        TABLE,
    ]


def test_columns_of_a_table(tmp_path):
    for source in sources(tmp_path):
        found = adj.read(source, show=["review_text", "stars_given"])
        items = pl.DataFrame(found.items)
        assert items.columns == ["task", "review_text", "stars_given"]
        assert items["task"].to_list() == ["r1", "r2", "r3"]
        assert items["review_text"].to_list() == [ATTACK, "good", None]
        assert items["stars_given"].to_list() == ["1", "5", "3"]
        assert adj.read(source).items is None


def test_what_cannot_be_shown(tmp_path):
    path = sources(tmp_path)[0]
    with pytest.raises(adj.InputError, match="there is no column 'nope' to show; the columns are: review_id"):
        adj.read(path, show="nope")
    with path.open("rb") as file, pytest.raises(adj.OptionError, match="can be read only once"):
        adj.read(file, show="review_text")
    with pytest.raises(adj.OptionError, match="show is"):
        adj.read(path, show=[7])


def test_people_see_the_item_as_text(tmp_path):
    """Explanation, tasks to ask about, card and report show it; markup in it is text, and long text folds."""
    result = adj.aggregate(sources(tmp_path)[0], model="mv", show="review_text")
    why = result.explain("r1")
    assert why.item == {"review_text": ATTACK}
    first = str(why).splitlines()[0]
    assert first.startswith("review_text: <script>")
    assert "\x1b" not in first
    assert len(first) < 400
    assert why.to_dict()["item"] == {"review_text": ATTACK}
    assert result.explain("r3").item == {}
    asked = result.ask_next(3)
    assert dict(zip(asked["task"], asked["review_text"], strict=True))["r2"] == "good"
    for page in (result._repr_html_(), _report(result, tmp_path)):
        assert "&lt;script&gt;alert" in page
        assert "<script>alert" not in page
        assert "\x1b" not in page


def _report(result, folder):
    result.report(folder / "report.html")
    return (folder / "report.html").read_text()


def test_nothing_is_read_before_it_is_asked_for(tmp_path, monkeypatch):
    path = sources(tmp_path)[0]
    result = adj.aggregate(path, show="review_text", groups={"a": "g", "b": "g"})
    monkeypatch.setattr(reading_items, "open_table", lambda *_: pytest.fail("items were read"))
    assert len(result.labels) == 3
    assert pickle.loads(pickle.dumps(result.votes)).item_source is not None


def test_items_of_votes_in_memory_stay_where_they_are():
    votes = pickle.loads(pickle.dumps(adj.read(TABLE, show="review_text")))
    assert votes.items["task"].to_list() == []


@pytest.mark.filterwarnings("ignore::adjudge.MissingLabels")
def test_exports_carry_items():
    """A log of an evaluation has its items without `show`, which then picks among them."""
    path = Path(__file__).parent / "corpus" / "tools" / "promptfoo.json.gz"
    votes = adj.read(path)
    items = votes.items
    assert set(items["task"]) >= set(map(str, votes.tasks.ids()))
    assert len(items.columns) > 1
    name = items.columns[1]
    assert adj.read(path, show=name).items.columns == ["task", name]
    with pytest.raises(adj.InputError, match="have no 'nope' to show"):
        adj.read(path, show="nope").items  # noqa: B018
    assert adj.aggregate(path, model="mv").explain(votes.tasks[0]).item
