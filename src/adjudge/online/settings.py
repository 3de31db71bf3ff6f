"""What a stream is made with, and what its options may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypedDict, get_args

from adjudge.data.options import Choice, Confidence, Kept, Number, Rules, StreamedModel
from adjudge.data.vocabulary import Id

VERSION: Final = 4  # of the file
STREAMED: Final = get_args(StreamedModel)
RULES: Final[Rules] = {
    "model": Choice(STREAMED),
    "duplicates": Choice(get_args(Kept)),
    "confidence": Choice(get_args(Confidence)),
    "seed": Number(whole=True),
    "strength": Number(least=0, most=1e12),
}
KINDS: Final[Mapping[Confidence, int]] = {"posterior": 0, "honest": 1}  # as the states know them
LASTING: Final = 2  # honest, by what was measured however long ago


class OnlineSettings(TypedDict):
    """What a stream was made with."""

    labels: list[Id]
    model: StreamedModel
    seed: int
    duplicates: Kept
    strength: float
    confidence: Confidence
