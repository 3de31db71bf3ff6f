"""Figures and names as people read them: the digits that mean something, and no more."""

from __future__ import annotations

from typing import Final

from adjudge.errors import make_visible

THIN: Final = "\u202f"  # a narrow space that no line is broken at
MAX_NAME: Final = 32  # characters of a name in a picture


def count(number: float) -> str:
    """Return a whole number, with thousands apart from ten thousand on.

    >>> count(9876), count(1234567) == f"1{THIN}234{THIN}567"
    ('9876', True)
    """
    whole = round(number)
    return str(whole) if abs(whole) < 10_000 else f"{whole:,}".replace(",", THIN)


def tally(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number of things.

    >>> tally(1, "vote"), tally(3, "copy", "copies")
    ('1 vote', '3 copies')
    """
    return f"{count(number)} {noun if number == 1 else plural or noun + 's'}"


def percent(share: float) -> str:
    """Return a share in percent; with decimals where it is close to none or to all without being it.

    >>> percent(0.8700431), percent(0.9971), percent(0.0004), percent(1.0), percent(float("nan"))
    ('87%', '99.7%', '0.04%', '100%', '–')
    """
    if share != share:
        return "–"
    hundred = 100.0 * share
    if 0.0 < hundred < 0.1 or 99.9 < hundred < 100.0:
        return f"{min(max(hundred, 0.01), 99.99):.2f}%"
    return f"{hundred:.1f}%" if 0.0 < hundred < 1.0 or 99.0 < hundred < 100.0 else f"{hundred:.0f}%"


def figure(number: float) -> str:
    """Return a number with two digits that mean something; a whole one from 100 on.

    >>> figure(3.14159), figure(0.0123), figure(1234.5), figure(float("nan"))
    ('3.1', '0.012', '1234', '–')
    """
    if number != number:
        return "–"
    return count(number) if abs(number) >= 99.5 else f"{number:.2g}"


def points(difference: float) -> str:
    """Return a difference of shares in points.

    >>> points(0.031), points(-0.0004)
    ('3 points', '0.04 points')
    """
    size = abs(100.0 * difference)
    shown = f"{size:.0f}" if size >= 9.5 else f"{size:.1g}"
    return f"{shown} point{'' if shown == '1' else 's'}"


def name(value: object) -> str:
    r"""Return a name as it is shown: what cannot be seen is escaped, and nothing is cut.

    >>> name("ann\n"), name(True)
    ('ann\\n', 'true')
    """
    return make_visible(("true" if value else "false") if isinstance(value, bool) else str(value))


def shorten(value: object, width: int = MAX_NAME) -> str:
    """Return a name cut in the middle where it is long, as both ends tell names apart.

    >>> shorten("gpt-4o-2024-08-06-with-a-long-prompt", 20)
    'gpt-4o-202…ng-prompt'
    """
    text = name(value)
    if len(text) <= width:
        return text
    head = width // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def quote(value: object, width: int = MAX_NAME) -> str:
    """Return a label in a sentence.

    >>> quote("cat")
    '‘cat’'
    """
    return f"‘{shorten(value, width)}’"


def tell_apart(one: object, other: object) -> tuple[str, str]:
    """Return two labels for a sentence, shortened as far as they still differ.

    >>> tell_apart("a" * 40 + "1" + "a" * 40, "a" * 40 + "2" + "a" * 40)[0] == quote("a" * 40 + "1" + "a" * 40, 128)
    True
    """
    for width in (MAX_NAME, 2 * MAX_NAME, 4 * MAX_NAME):
        if shorten(one, width) != shorten(other, width):
            break
    return quote(one, width), quote(other, width)


def join_parts(parts: list[str]) -> str:
    """Return phrases as one.

    >>> join_parts(["a", "b", "c"]), join_parts(["a"])
    ('a, b and c', 'a')
    """
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def sentence(text: str) -> str:
    """Return a text with a capital at its head and a full stop.

    >>> sentence("two of 40 workers guess")
    'Two of 40 workers guess.'
    """
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?', '!')) else '.'}"
