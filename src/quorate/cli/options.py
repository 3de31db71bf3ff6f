"""What several commands read in the same way."""

from __future__ import annotations


def label_list(text: str) -> list[str]:
    """Returns labels joined by commas as a list.

    >>> label_list("cat, dog")
    ['cat', 'dog']
    """
    from quorate.errors import OptionError

    labels = [part.strip() for part in text.split(",")]
    if not all(labels):
        raise OptionError(f"labels is {text!r}: give labels joined by commas, none of them empty")
    return labels
