"""Aggregators of labels, sets of labels and comparisons."""

from quorate.crowdkit.aggregation import base
from quorate.crowdkit.aggregation.classification import (
    GLAD,
    KOS,
    MACE,
    MMSR,
    DawidSkene,
    GoldMajorityVote,
    MajorityVote,
    OneCoinDawidSkene,
    Wawa,
    ZeroBasedSkill,
)
from quorate.crowdkit.aggregation.multilabel import BinaryRelevance
from quorate.crowdkit.aggregation.pairwise import BradleyTerry, NoisyBradleyTerry

__all__ = [
    "GLAD",
    "KOS",
    "MACE",
    "MMSR",
    "BinaryRelevance",
    "BradleyTerry",
    "DawidSkene",
    "GoldMajorityVote",
    "MajorityVote",
    "NoisyBradleyTerry",
    "OneCoinDawidSkene",
    "Wawa",
    "ZeroBasedSkill",
    "base",
]
