"""A drop-in for crowd-kit: its classes, on the engines of this library. pandas in, pandas out.

The modules are where crowd-kit has them: `aggregation`, `aggregation.utils`, `metrics.data`, `metrics.workers`, `postprocessing`.
"""

from adjudge.crowdkit.aggregation import (
    GLAD,
    KOS,
    MACE,
    MMSR,
    BinaryRelevance,
    BradleyTerry,
    DawidSkene,
    GoldMajorityVote,
    MajorityVote,
    NoisyBradleyTerry,
    OneCoinDawidSkene,
    Wawa,
    ZeroBasedSkill,
)

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
]
