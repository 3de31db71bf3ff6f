"""Votes in, decisions out: the label of every task with an honest confidence, and what every worker can be trusted with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from quorate import forks, moved

__version__ = "0.1.0"

if TYPE_CHECKING:
    from quorate.client import AsyncClient, Client
    from quorate.data.understood import Understood
    from quorate.data.vocabulary import Vocabulary
    from quorate.data.votes import Votes
    from quorate.errors import (
        CopiedVotes,
        DamagedCheckpoint,
        InputError,
        MissingLabels,
        NotCompiled,
        NotConverged,
        OptionError,
        PosteriorConfidence,
        QuorateError,
        RepairedStream,
        SuspiciousVotes,
        UnknownWorkers,
    )
    from quorate.evaluation.agreement.agreement import agreement
    from quorate.evaluation.agreement.figures import Agreement
    from quorate.evaluation.compare.compare import compare
    from quorate.evaluation.compare.comparison import Comparison
    from quorate.evaluation.panel.panel import panel
    from quorate.evaluation.panel.study import BestPanel, PanelStudy
    from quorate.evaluation.rates.figures import Rates
    from quorate.evaluation.rates.rates import rates
    from quorate.evaluation.sets import SetEvaluation
    from quorate.evaluation.simulate import Simulation, simulate
    from quorate.evaluation.truth import Evaluation, evaluate
    from quorate.io.folder.build import encode
    from quorate.io.read import read
    from quorate.live.policy import Policy
    from quorate.models.aggregation import aggregate
    from quorate.models.auto import AutoModel
    from quorate.models.catd import CATD
    from quorate.models.dawid_skene import DawidSkene, FastDawidSkene, Hybrid
    from quorate.models.ebcc import EBCC
    from quorate.models.glad import GLAD
    from quorate.models.gold_majority import GoldMajorityVote
    from quorate.models.ibcc import IBCC
    from quorate.models.iwmv import IWMV
    from quorate.models.kos import KOS
    from quorate.models.lfc import LFC
    from quorate.models.light_aggregation import LightAggregation
    from quorate.models.mace import MACE
    from quorate.models.majority import MajorityVote
    from quorate.models.mmsr import MMSR
    from quorate.models.one_coin import OneCoin
    from quorate.models.ordinal import Ordinal
    from quorate.models.wawa import Wawa
    from quorate.models.zencrowd import ZenCrowd
    from quorate.models.zero_based_skill import ZeroBasedSkill
    from quorate.online import EvictedTask, Online, Prediction, Refit
    from quorate.ranking.rank import rank
    from quorate.ranking.ranking import Ranking
    from quorate.results.explanation import Explanation, SetExplanation
    from quorate.results.result import Result
    from quorate.results.saved import FittedModel, load, merge
    from quorate.results.saved_sets import FittedSets
    from quorate.results.sets import MultiResult
    from quorate.spark.stream import SparkStream

# Every public name and its home. Names load when first used: `import quorate` costs next to nothing.
_HOMES = {
    "aggregate": "models.aggregation",
    "Agreement": "evaluation.agreement.figures",
    "agreement": "evaluation.agreement.agreement",
    "AsyncClient": "client",
    "Client": "client",
    "compare": "evaluation.compare.compare",
    "Comparison": "evaluation.compare.comparison",
    "CopiedVotes": "errors",
    "DamagedCheckpoint": "errors",
    "InputError": "errors",
    "MissingLabels": "errors",
    "NotCompiled": "errors",
    "NotConverged": "errors",
    "OptionError": "errors",
    "QuorateError": "errors",
    "PosteriorConfidence": "errors",
    "RepairedStream": "errors",
    "SuspiciousVotes": "errors",
    "UnknownWorkers": "errors",
    "Evaluation": "evaluation.truth",
    "evaluate": "evaluation.truth",
    "FittedModel": "results.saved",
    "FittedSets": "results.saved_sets",
    "load": "results.saved",
    "merge": "results.saved",
    "encode": "io.folder.build",
    "rank": "ranking.rank",
    "Ranking": "ranking.ranking",
    "read": "io.read",
    "DawidSkene": "models.dawid_skene",
    "FastDawidSkene": "models.dawid_skene",
    "Hybrid": "models.dawid_skene",
    "AutoModel": "models.auto",
    "GLAD": "models.glad",
    "LFC": "models.lfc",
    "IBCC": "models.ibcc",
    "EBCC": "models.ebcc",
    "MACE": "models.mace",
    "IWMV": "models.iwmv",
    "KOS": "models.kos",
    "MMSR": "models.mmsr",
    "MajorityVote": "models.majority",
    "OneCoin": "models.one_coin",
    "CATD": "models.catd",
    "GoldMajorityVote": "models.gold_majority",
    "LightAggregation": "models.light_aggregation",
    "Wawa": "models.wawa",
    "ZenCrowd": "models.zencrowd",
    "ZeroBasedSkill": "models.zero_based_skill",
    "Ordinal": "models.ordinal",
    "MultiResult": "results.sets",
    "BestPanel": "evaluation.panel.study",
    "PanelStudy": "evaluation.panel.study",
    "panel": "evaluation.panel.panel",
    "Policy": "live.policy",
    "Rates": "evaluation.rates.figures",
    "rates": "evaluation.rates.rates",
    "SetEvaluation": "evaluation.sets",
    "Online": "online",
    "Prediction": "online",
    "EvictedTask": "online",
    "Refit": "online",
    "Explanation": "results.explanation",
    "SetExplanation": "results.explanation",
    "Result": "results.result",
    "Simulation": "evaluation.simulate",
    "simulate": "evaluation.simulate",
    "SparkStream": "spark.stream",
    "Understood": "data.understood",
    "Vocabulary": "data.vocabulary",
    "Votes": "data.votes",
}

__all__ = [
    "CATD",
    "EBCC",
    "GLAD",
    "IBCC",
    "IWMV",
    "KOS",
    "LFC",
    "MACE",
    "MMSR",
    "Agreement",
    "AsyncClient",
    "AutoModel",
    "BestPanel",
    "Client",
    "Comparison",
    "CopiedVotes",
    "DamagedCheckpoint",
    "DawidSkene",
    "Evaluation",
    "EvictedTask",
    "Explanation",
    "FastDawidSkene",
    "FittedModel",
    "FittedSets",
    "GoldMajorityVote",
    "Hybrid",
    "InputError",
    "LightAggregation",
    "MajorityVote",
    "MissingLabels",
    "MultiResult",
    "NotCompiled",
    "NotConverged",
    "OneCoin",
    "Online",
    "OptionError",
    "Ordinal",
    "PanelStudy",
    "Policy",
    "PosteriorConfidence",
    "Prediction",
    "QuorateError",
    "Ranking",
    "Rates",
    "Refit",
    "RepairedStream",
    "Result",
    "SetEvaluation",
    "SetExplanation",
    "Simulation",
    "SparkStream",
    "SuspiciousVotes",
    "Understood",
    "UnknownWorkers",
    "Vocabulary",
    "Votes",
    "Wawa",
    "ZenCrowd",
    "ZeroBasedSkill",
    "aggregate",
    "agreement",
    "compare",
    "encode",
    "evaluate",
    "load",
    "merge",
    "panel",
    "rank",
    "rates",
    "read",
    "simulate",
]


moved.install()
forks.install()


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'quorate' has no attribute {name!r}")
    value: object = getattr(import_module(f"quorate.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
