import pytest

from quorate.report.palette import ACCENT, CARD, CATEGORIES, DOUBT, GREY, MUTED, ON_ACCENT, PAGE, TEXT, VERDICTS, contrast
from quorate.results.trust.verdicts import VERDICTS as WORDS


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
