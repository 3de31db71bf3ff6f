"""Aggregators of labels, sets of labels and comparisons."""

from adjudge.crowdkit.aggregation import base
from adjudge.crowdkit.aggregation.classification import (
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
from adjudge.crowdkit.aggregation.multilabel import BinaryRelevance
from adjudge.crowdkit.aggregation.pairwise import BradleyTerry, NoisyBradleyTerry

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
