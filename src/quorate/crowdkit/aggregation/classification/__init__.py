"""Aggregators of labels."""

from quorate.crowdkit.aggregation.classification.dawid_skene import DawidSkene, OneCoinDawidSkene
from quorate.crowdkit.aggregation.classification.glad import GLAD
from quorate.crowdkit.aggregation.classification.gold_majority_vote import GoldMajorityVote
from quorate.crowdkit.aggregation.classification.majority_vote import MajorityVote
from quorate.crowdkit.aggregation.classification.wawa import Wawa
from quorate.crowdkit.aggregation.classification.zero_based_skill import ZeroBasedSkill
