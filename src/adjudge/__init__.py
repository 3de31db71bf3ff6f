"""Votes in, decisions out: the label of every task with an honest confidence, and what every worker can be trusted with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from adjudge import forks, moved

__version__ = "0.1.0"

if TYPE_CHECKING:
    from adjudge.client import AsyncClient, Client
    from adjudge.data.understood import Understood
    from adjudge.data.vocabulary import Vocabulary
    from adjudge.data.votes import Votes
    from adjudge.errors import (
        CopiedVotes,
        DamagedCheckpoint,
        InputError,
        MissingLabels,
        NotCompiled,
        NotConverged,
        OptionError,
        PosteriorConfidence,
        AdjudgeError,
        RepairedStream,
        SuspiciousVotes,
        UnknownWorkers,
    )
    from adjudge.evaluation.agreement.agreement import agreement
    from adjudge.evaluation.agreement.figures import Agreement
    from adjudge.evaluation.compare.compare import compare
    from adjudge.evaluation.compare.comparison import Comparison
    from adjudge.evaluation.panel.panel import panel
    from adjudge.evaluation.panel.study import BestPanel, PanelStudy
    from adjudge.evaluation.rates.figures import Rates
    from adjudge.evaluation.rates.rates import rates
    from adjudge.evaluation.sets import SetEvaluation
    from adjudge.evaluation.simulate import Simulation, simulate
    from adjudge.evaluation.truth import Evaluation, evaluate
    from adjudge.io.folder.build import encode
    from adjudge.io.read import read
    from adjudge.live.policy import Policy
    from adjudge.models.aggregation import aggregate
    from adjudge.models.auto import AutoModel
    from adjudge.models.catd import CATD
    from adjudge.models.dawid_skene import DawidSkene, FastDawidSkene, Hybrid
    from adjudge.models.ebcc import EBCC
    from adjudge.models.glad import GLAD
    from adjudge.models.gold_majority import GoldMajorityVote
    from adjudge.models.ibcc import IBCC
    from adjudge.models.iwmv import IWMV
    from adjudge.models.kos import KOS
    from adjudge.models.lfc import LFC
    from adjudge.models.light_aggregation import LightAggregation
    from adjudge.models.mace import MACE
    from adjudge.models.majority import MajorityVote
    from adjudge.models.mmsr import MMSR
    from adjudge.models.one_coin import OneCoin
    from adjudge.models.ordinal import Ordinal
    from adjudge.models.wawa import Wawa
    from adjudge.models.zencrowd import ZenCrowd
    from adjudge.models.zero_based_skill import ZeroBasedSkill
    from adjudge.online import EvictedTask, Online, Prediction, Refit
    from adjudge.ranking.rank import rank
    from adjudge.ranking.ranking import Ranking
    from adjudge.results.explanation import Explanation, SetExplanation
    from adjudge.results.result import Result
    from adjudge.results.saved import FittedModel, load, merge
    from adjudge.results.saved_sets import FittedSets
    from adjudge.results.sets import MultiResult
    from adjudge.spark.stream import SparkStream

# Every public name and its home. Names load when first used: `import adjudge` costs next to nothing.
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
    "AdjudgeError": "errors",
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
    "AdjudgeError",
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
        raise AttributeError(f"module 'adjudge' has no attribute {name!r}")
    value: object = getattr(import_module(f"adjudge.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
