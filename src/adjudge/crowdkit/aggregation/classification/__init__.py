"""Aggregators of labels."""

from adjudge.crowdkit.aggregation.classification.dawid_skene import DawidSkene, OneCoinDawidSkene
from adjudge.crowdkit.aggregation.classification.glad import GLAD
from adjudge.crowdkit.aggregation.classification.gold_majority_vote import GoldMajorityVote
from adjudge.crowdkit.aggregation.classification.kos import KOS
from adjudge.crowdkit.aggregation.classification.m_msr import MMSR
from adjudge.crowdkit.aggregation.classification.mace import MACE
from adjudge.crowdkit.aggregation.classification.majority_vote import MajorityVote
from adjudge.crowdkit.aggregation.classification.wawa import Wawa
from adjudge.crowdkit.aggregation.classification.zero_based_skill import ZeroBasedSkill

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
