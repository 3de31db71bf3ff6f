"""Models, streams and encoded folders that version 0.1.0 wrote still load, and say what they said then."""

import json
from pathlib import Path

import numpy as np
import pytest

import adjudge as adj

FILES = Path(__file__).parent / "saved_by_0_1_0"
EXPECTED = json.loads((FILES / "expected.json").read_text())


@pytest.mark.parametrize("name", sorted(EXPECTED.keys() - {"encoded"}))
def test_saved_file(name):
    if name.startswith("online"):
        frame = adj.Online.load(FILES / name).labels()
    else:
        with pytest.warns(adj.PosteriorConfidence, match="saved without what honest confidence needs: fit it again"):
            frame = adj.load(FILES / name).predict(adj.read(FILES / "votes.csv")).labels
        chosen = adj.load(FILES / name).predict(adj.read(FILES / "votes.csv"), confidence="posterior")  # which warns of nothing
        assert chosen.labels.equals(frame)
    assert frame["label"].to_list() == EXPECTED[name]["label"]
    assert np.allclose(frame["confidence"].to_numpy(), EXPECTED[name]["confidence"], atol=1e-8)


def test_honest_confidence_needs_what_0_1_0_did_not_save():
    with pytest.raises(adj.OptionError, match="confidence is 'honest', but the model was saved without") as found:
        adj.load(FILES / "fds.adjudge").predict(adj.read(FILES / "votes.csv"), confidence="honest")
    assert "\n" not in str(found.value)


def test_encoded_folder():
    frame = adj.aggregate(FILES / "encoded", model="fds").labels
    assert frame["task"].to_list() == EXPECTED["encoded"]["task"]
    assert frame["label"].to_list() == EXPECTED["encoded"]["label"]
