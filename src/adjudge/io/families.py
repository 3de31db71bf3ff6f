"""Families of language models, recognised by the names of judges: models of one maker tend to make the same errors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from adjudge.errors import OptionError, itemize

FAMILIES: Final = "families"  # as groups: those that the judges' names show
# Family -> names of its models. A version or a kind must follow, as people are called Claude, too.
_NAMES: Final = {
    "gpt": r"(chat)?gpt-?[0-9]|o[1-9](-(mini|pro|preview))?$|gpt-oss",
    "claude": r"claude-?([0-9]|opus|sonnet|haiku|instant)",
    "gemini": r"(gemini|gemma|palm)-?([0-9]|pro|flash|ultra)",
    "llama": r"llama-?[0-9]",
    "mistral": r"(mi[sx]tral|ministral|codestral|magistral)-?([0-9]|large|medium|small|nemo|tiny)",
    "qwen": r"qw(en|q)-?[0-9]|qwen-(max|plus|turbo)",
    "deepseek": r"deepseek-?(v?[0-9]|r[0-9]|chat|coder|reasoner)",
    "command": r"command-?(r|a|light|nightly)",
    "grok": r"grok-?[0-9]",
    "phi": r"phi-?[0-9]",
    "nova": r"nova-(micro|lite|pro|premier)",
}


def is_families(groups: object) -> bool:
    """Return whether groups are to be the families that names show."""
    return isinstance(groups, str) and groups == FAMILIES


def family_of(judge: str) -> str | None:
    """Return the family of the model that a judge's name names; None if it names none.

    >>> family_of("openai/gpt-4o-mini"), family_of("Claude 3.5 Sonnet"), family_of("claude")
    ('gpt', 'claude', None)
    """
    name = re.sub(r"[\s_]+", "-", judge.lower())
    return next((family for family, names in _NAMES.items() if re.search(rf"(^|[^a-z0-9])({names})", name)), None)


def find_families(judges: Iterable[str]) -> dict[str, str]:
    """Return judge to family, of the families that several of these judges are of.

    >>> find_families(["gpt-4o", "gpt-4o-mini", "claude-3-opus", "ann"])
    {'gpt-4o': 'gpt family', 'gpt-4o-mini': 'gpt family'}
    """
    families: dict[str, list[str]] = {}
    for judge in judges:
        if (family := family_of(judge)) is not None:
            families.setdefault(family, []).append(judge)
    return {judge: f"{family} family" for family, some in families.items() if len(some) > 1 for judge in some}


def require_families(judges: Iterable[str]) -> dict[str, str]:
    """Return `find_families`; an error if no two judges are of one."""
    names = list(judges)
    found = find_families(names)
    if not found:
        raise OptionError(
            f"groups='families' finds no two judges of one model family among {itemize(names, 5)}: give a table worker, group"
        )
    return found


def propose_families(judges: Iterable[str]) -> str | None:
    """Return a sentence that proposes families as groups; None if no two judges are of one.

    >>> propose_families(["gpt-4o", "gpt-4o-mini", "ann"])
    'judges of one model family may share errors (gpt family: gpt-4o, gpt-4o-mini): --groups families lets each family vote once'
    """
    found = find_families(judges)
    families = {family: itemize([judge for judge in found if found[judge] == family], 4) for family in found.values()}
    if not families:
        return None
    named = "; ".join(f"{family}: {some}" for family, some in families.items())
    return f"judges of one model family may share errors ({named}): --groups families lets each family vote once"
