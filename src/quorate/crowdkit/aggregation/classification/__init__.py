"""Aggregators of labels."""

from quorate.crowdkit.aggregation.classification.dawid_skene import DawidSkene, OneCoinDawidSkene
from quorate.crowdkit.aggregation.classification.glad import GLAD
from quorate.crowdkit.aggregation.classification.gold_majority_vote import GoldMajorityVote
from quorate.crowdkit.aggregation.classification.kos import KOS
from quorate.crowdkit.aggregation.classification.m_msr import MMSR
from quorate.crowdkit.aggregation.classification.mace import MACE
from quorate.crowdkit.aggregation.classification.majority_vote import MajorityVote
from quorate.crowdkit.aggregation.classification.wawa import Wawa
from quorate.crowdkit.aggregation.classification.zero_based_skill import ZeroBasedSkill

__all__ = [
    "GLAD",
    "KOS",
    "MACE",
    "MMSR",
    "DawidSkene",
    "GoldMajorityVote",
    "MajorityVote",
    "OneCoinDawidSkene",
    "Wawa",
    "ZeroBasedSkill",
]
