"""Votes in, decisions out: the label of every task with an honest confidence, and what every worker can be trusted with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from quorate.aggregation import aggregate
    from quorate.agreeing.agreement import agreement
    from quorate.agreeing.figures import Agreement
    from quorate.errors import (
        CopiedVotes,
        DamagedCheckpoint,
        InputError,
        MissingLabels,
        NotCompiled,
        NotConverged,
        OptionError,
        QuorateError,
        RepairedStream,
    )
    from quorate.evaluation import Evaluation, evaluate
    from quorate.fitted import FittedModel, load, merge
    from quorate.io.encoded.build import encode
    from quorate.io.read import read
    from quorate.models.dawid_skene import DawidSkene, FastDawidSkene, Hybrid
    from quorate.models.glad import GLAD
    from quorate.models.iwmv import IWMV
    from quorate.models.majority import MajorityVote
    from quorate.models.one_coin import OneCoin
    from quorate.multi import MultiResult
    from quorate.online import Online, Prediction
    from quorate.result import Result
    from quorate.set_evaluation import SetEvaluation
    from quorate.simulation.simulate import Simulation, simulate
    from quorate.spark.stream import SparkStream
    from quorate.vocabulary import Vocabulary
    from quorate.votes import Votes

# Every public name and its home. Names load when first used: `import quorate` costs next to nothing.
_HOMES = {
    "aggregate": "aggregation",
    "Agreement": "agreeing.figures",
    "agreement": "agreeing.agreement",
    "CopiedVotes": "errors",
    "DamagedCheckpoint": "errors",
    "InputError": "errors",
    "MissingLabels": "errors",
    "NotCompiled": "errors",
    "NotConverged": "errors",
    "OptionError": "errors",
    "QuorateError": "errors",
    "RepairedStream": "errors",
    "Evaluation": "evaluation",
    "evaluate": "evaluation",
    "FittedModel": "fitted",
    "load": "fitted",
    "merge": "fitted",
    "encode": "io.encoded.build",
    "read": "io.read",
    "DawidSkene": "models.dawid_skene",
    "FastDawidSkene": "models.dawid_skene",
    "Hybrid": "models.dawid_skene",
    "GLAD": "models.glad",
    "IWMV": "models.iwmv",
    "MajorityVote": "models.majority",
    "OneCoin": "models.one_coin",
    "MultiResult": "multi",
    "SetEvaluation": "set_evaluation",
    "Online": "online",
    "Prediction": "online",
    "Result": "result",
    "Simulation": "simulation.simulate",
    "simulate": "simulation.simulate",
    "SparkStream": "spark.stream",
    "Vocabulary": "vocabulary",
    "Votes": "votes",
}

__all__ = [
    "GLAD",
    "IWMV",
    "Agreement",
    "CopiedVotes",
    "DamagedCheckpoint",
    "DawidSkene",
    "Evaluation",
    "FastDawidSkene",
    "FittedModel",
    "Hybrid",
    "InputError",
    "MajorityVote",
    "MissingLabels",
    "MultiResult",
    "NotCompiled",
    "NotConverged",
    "OneCoin",
    "Online",
    "OptionError",
    "Prediction",
    "QuorateError",
    "RepairedStream",
    "Result",
    "SetEvaluation",
    "Simulation",
    "SparkStream",
    "Vocabulary",
    "Votes",
    "aggregate",
    "agreement",
    "encode",
    "evaluate",
    "load",
    "merge",
    "read",
    "simulate",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'quorate' has no attribute {name!r}")
    value: object = getattr(import_module(f"quorate.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
