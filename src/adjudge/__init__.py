"""Votes in, decisions out: the label of every task with an honest confidence, and a reliability estimate for each worker."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from adjudge import forks

__version__ = "0.1.0"

if TYPE_CHECKING:
    from adjudge.data.options import ReadOptions
    from adjudge.data.vocabulary import Vocabulary
    from adjudge.data.votes import Understood, Votes
    from adjudge.engines.registry import AutoEngine, Cpu, Cuda, Disk, Spark
    from adjudge.errors import (
        AdjudgeError,
        CopiedVotes,
        DamagedCheckpoint,
        InputError,
        MissingLabels,
        NotCompiled,
        NotConverged,
        OptionError,
        SuspiciousVotes,
        UnknownWorkers,
    )
    from adjudge.evaluation.agreement.agreement import Agreement, agreement
    from adjudge.evaluation.bias.bias import Bias, bias
    from adjudge.evaluation.compare.compare import Comparison, compare
    from adjudge.evaluation.compare.several import SetsComparison, compare_sets
    from adjudge.evaluation.evaluate import Evaluation, evaluate
    from adjudge.evaluation.gate.check import CheckResult, check
    from adjudge.evaluation.panel.panel import panel
    from adjudge.evaluation.panel.study import BestPanel, PanelStudy
    from adjudge.evaluation.public_sets import Dataset, datasets
    from adjudge.evaluation.ranking.rank import rank
    from adjudge.evaluation.ranking.ranking import Ranking
    from adjudge.evaluation.rates.rates import Rates, rates
    from adjudge.evaluation.scores.panel import ScorePanel
    from adjudge.evaluation.scores.scores import Scores, scores
    from adjudge.evaluation.sets import SetEvaluation
    from adjudge.evaluation.simulate import Simulation, simulate
    from adjudge.io.folder.encoded import encode
    from adjudge.io.read import read
    from adjudge.models.aggregation import aggregate
    from adjudge.models.auto import AutoModel
    from adjudge.models.bayesian import EBCC, IBCC, LFC
    from adjudge.models.dawid_skene import DawidSkene, FastDawidSkene, Hybrid
    from adjudge.models.glad import GLAD
    from adjudge.models.kos import KOS
    from adjudge.models.mace import MACE
    from adjudge.models.majority import CATD, IWMV, GoldMajorityVote, LightAggregation, MajorityVote, Wawa, ZeroBasedSkill
    from adjudge.models.mmsr import MMSR
    from adjudge.models.one_coin import OneCoin, ZenCrowd
    from adjudge.models.ordinal import Ordinal
    from adjudge.models.panel import PanelStack
    from adjudge.online import EvictedTask, Online, Prediction, Refit
    from adjudge.results.explanation import Explanation, SetExplanation
    from adjudge.results.promise.accuracy import AccuracyInterval
    from adjudge.results.promise.certify import Promise
    from adjudge.results.promise.draws import Draw
    from adjudge.results.result import Result
    from adjudge.results.saved import FittedModel, load, merge
    from adjudge.results.sets import FittedSets, MultiResult
    from adjudge.service.campaigns.policy import Policy
    from adjudge.service.client import AsyncClient, Client
    from adjudge.spark.stream import SparkStream

# Every public name and its home. Names load when first used: `import adjudge` costs next to nothing.
_MODULE_OF_NAME = {
    "aggregate": "models.aggregation",
    "Agreement": "evaluation.agreement.agreement",
    "agreement": "evaluation.agreement.agreement",
    "AsyncClient": "service.client",
    "Client": "service.client",
    "Bias": "evaluation.bias.bias",
    "bias": "evaluation.bias.bias",
    "check": "evaluation.gate.check",
    "CheckResult": "evaluation.gate.check",
    "compare": "evaluation.compare.compare",
    "Comparison": "evaluation.compare.compare",
    "compare_sets": "evaluation.compare.several",
    "SetsComparison": "evaluation.compare.several",
    "Dataset": "evaluation.public_sets",
    "datasets": "evaluation.public_sets",
    "CopiedVotes": "errors",
    "DamagedCheckpoint": "errors",
    "InputError": "errors",
    "MissingLabels": "errors",
    "NotCompiled": "errors",
    "NotConverged": "errors",
    "OptionError": "errors",
    "AdjudgeError": "errors",
    "SuspiciousVotes": "errors",
    "UnknownWorkers": "errors",
    "Evaluation": "evaluation.evaluate",
    "evaluate": "evaluation.evaluate",
    "FittedModel": "results.saved",
    "FittedSets": "results.sets",
    "load": "results.saved",
    "merge": "results.saved",
    "encode": "io.folder.encoded",
    "AutoEngine": "engines.registry",
    "Cpu": "engines.registry",
    "Cuda": "engines.registry",
    "Disk": "engines.registry",
    "Spark": "engines.registry",
    "rank": "evaluation.ranking.rank",
    "Ranking": "evaluation.ranking.ranking",
    "read": "io.read",
    "ReadOptions": "data.options",
    "DawidSkene": "models.dawid_skene",
    "FastDawidSkene": "models.dawid_skene",
    "Hybrid": "models.dawid_skene",
    "AutoModel": "models.auto",
    "GLAD": "models.glad",
    "LFC": "models.bayesian",
    "IBCC": "models.bayesian",
    "EBCC": "models.bayesian",
    "MACE": "models.mace",
    "IWMV": "models.majority",
    "KOS": "models.kos",
    "MMSR": "models.mmsr",
    "MajorityVote": "models.majority",
    "OneCoin": "models.one_coin",
    "CATD": "models.majority",
    "GoldMajorityVote": "models.majority",
    "LightAggregation": "models.majority",
    "Wawa": "models.majority",
    "ZenCrowd": "models.one_coin",
    "ZeroBasedSkill": "models.majority",
    "Ordinal": "models.ordinal",
    "PanelStack": "models.panel",
    "MultiResult": "results.sets",
    "BestPanel": "evaluation.panel.study",
    "PanelStudy": "evaluation.panel.study",
    "panel": "evaluation.panel.panel",
    "Policy": "service.campaigns.policy",
    "Rates": "evaluation.rates.rates",
    "rates": "evaluation.rates.rates",
    "ScorePanel": "evaluation.scores.panel",
    "Scores": "evaluation.scores.scores",
    "scores": "evaluation.scores.scores",
    "SetEvaluation": "evaluation.sets",
    "Online": "online",
    "Prediction": "online",
    "EvictedTask": "online",
    "Refit": "online",
    "Explanation": "results.explanation",
    "SetExplanation": "results.explanation",
    "AccuracyInterval": "results.promise.accuracy",
    "Draw": "results.promise.draws",
    "Promise": "results.promise.certify",
    "Result": "results.result",
    "Simulation": "evaluation.simulate",
    "simulate": "evaluation.simulate",
    "SparkStream": "spark.stream",
    "Understood": "data.votes",
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
    "AccuracyInterval",
    "AdjudgeError",
    "Agreement",
    "AsyncClient",
    "AutoEngine",
    "AutoModel",
    "BestPanel",
    "Bias",
    "CheckResult",
    "Client",
    "Comparison",
    "CopiedVotes",
    "Cpu",
    "Cuda",
    "DamagedCheckpoint",
    "Dataset",
    "DawidSkene",
    "Disk",
    "Draw",
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
    "PanelStack",
    "PanelStudy",
    "Policy",
    "Prediction",
    "Promise",
    "Ranking",
    "Rates",
    "ReadOptions",
    "Refit",
    "Result",
    "ScorePanel",
    "Scores",
    "SetEvaluation",
    "SetExplanation",
    "SetsComparison",
    "Simulation",
    "Spark",
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
    "bias",
    "check",
    "compare",
    "compare_sets",
    "datasets",
    "encode",
    "evaluate",
    "load",
    "merge",
    "panel",
    "rank",
    "rates",
    "read",
    "scores",
    "simulate",
]


forks.install()


def __getattr__(name: str) -> object:
    home = _MODULE_OF_NAME.get(name)
    if home is None:
        raise AttributeError(f"module 'adjudge' has no attribute {name!r}")
    value: object = getattr(import_module(f"adjudge.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
