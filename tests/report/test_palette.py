import pytest

from adjudge.report.palette import (
    CATEGORIES,
    LEVELS,
    NAMED,
    VERDICTS,
    colours,
    contrast,
)
from adjudge.results.workers import VERDICT_NAMES as WORDS


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_and_marks_can_be_read(mode):
    for ground in (NAMED["page"], NAMED["card"]):
        page = getattr(ground, mode)
        for text in (NAMED["text"], NAMED["muted"], NAMED["accent"]):
            assert contrast(getattr(text, mode), page) >= 4.5, (text, ground)
        for mark in (*CATEGORIES, NAMED["grey"], NAMED["doubt"], *(sign.colour for sign in VERDICTS.values())):
            assert contrast(getattr(mark, mode), page) >= 3.0, (mark, ground)
    assert contrast(getattr(NAMED["on-accent"], mode), getattr(NAMED["accent"], mode)) >= 4.5


def test_every_verdict_has_a_shape_of_its_own():
    assert set(VERDICTS) == set(WORDS)
    assert len({sign.shape for sign in VERDICTS.values()}) == len(WORDS)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_figures_in_heat_maps_can_be_read(mode):
    known = colours(mode)
    for kind in "hpm":
        for step in range(LEVELS + 1):
            assert contrast(known[f"{kind}{step}"], known[f"{kind}{step}i"]) >= 4.5
    for number in range(len(CATEGORIES)):
        assert contrast(known[f"t{number}"], known["text"]) >= 4.5
