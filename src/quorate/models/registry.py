"""The models by name: the command line, the checks and the docs read this table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from quorate.errors import OptionError, listed, shown, unknown
from quorate.models.base import Model
from quorate.models.dawid_skene import DawidSkene, FastDawidSkene, Hybrid
from quorate.models.glad import GLAD
from quorate.models.iwmv import IWMV
from quorate.models.majority import MajorityVote
from quorate.models.one_coin import OneCoin

MODELS: Mapping[str, type[Model]] = MappingProxyType(
    {m.name: m for m in (MajorityVote, DawidSkene, FastDawidSkene, Hybrid, OneCoin, IWMV, GLAD)}
)


def make(model: str | Model, defaults: Mapping[str, object], given: Mapping[str, Any]) -> Model:
    """Returns the model of this name with these options; one it does not take must be left at its default.

    >>> make("fds", {"tol": 1e-4}, {"tol": 0.01}).tol
    0.01
    """
    if isinstance(model, Model):
        for name, value in given.items():
            if not _is_default(value, defaults[name]):
                raise OptionError(
                    f"{name} is {shown(value)}, but the model has its settings: give {name} to {type(model).__name__}"
                )
        return model
    if not isinstance(model, str) or model not in MODELS:
        raise unknown("model", model, MODELS)
    takes = MODELS[model].options()
    for name, value in given.items():
        if name not in takes and not _is_default(value, defaults[name]):
            raise OptionError(f"{name} is {shown(value)}, but model {model!r} takes only: {listed(takes)}")
    return MODELS[model](**{name: value for name, value in given.items() if name in takes})


def _is_default(value: object, default: object) -> bool:
    return type(value) in (bool, int, float, str) and value == default  # of an array "equal" would be an array, too
