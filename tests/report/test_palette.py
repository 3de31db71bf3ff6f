import pytest

from adjudge.report.palette import ACCENT, CARD, CATEGORIES, DOUBT, GREY, MUTED, ON_ACCENT, PAGE, TEXT, VERDICTS, contrast
from adjudge.report.style import LEVELS, variables
from adjudge.results.trust.verdicts import VERDICTS as WORDS


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_and_marks_can_be_read(mode):
    for ground in (PAGE, CARD):
        page = getattr(ground, mode)
        for text in (TEXT, MUTED, ACCENT):
            assert contrast(getattr(text, mode), page) >= 4.5, (text, ground)
        for mark in (*CATEGORIES, GREY, DOUBT, *(sign.colour for sign in VERDICTS.values())):
            assert contrast(getattr(mark, mode), page) >= 3.0, (mark, ground)
    assert contrast(getattr(ON_ACCENT, mode), getattr(ACCENT, mode)) >= 4.5


def test_every_verdict_has_a_shape_of_its_own():
    assert set(VERDICTS) == set(WORDS)
    assert len({sign.shape for sign in VERDICTS.values()}) == len(WORDS)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_figures_in_heat_maps_can_be_read(mode):
    known = dict(variables(mode))
    for kind in "hpm":
        for step in range(LEVELS + 1):
            assert contrast(known[f"--{kind}{step}"], known[f"--{kind}{step}i"]) >= 4.5
    for number in range(len(CATEGORIES)):
        assert contrast(known[f"--t{number}"], known["--text"]) >= 4.5
