"""The models by name: the command line, the checks and the docs read this table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from quorate.errors import OptionError, listed, shown, unknown
from quorate.models.base import Model

HOMES: Final = {
    "mv": "majority:MajorityVote",
    "ds": "dawid_skene:DawidSkene",
    "fds": "dawid_skene:FastDawidSkene",
    "hybrid": "dawid_skene:Hybrid",
    "one-coin": "one_coin:OneCoin",
    "iwmv": "iwmv:IWMV",
    "glad": "glad:GLAD",
}  # adding a model adds a line here


class Models(Mapping[str, type[Model]]):
    """The classes of the models by name; the module of one is loaded when it is asked for."""

    def __getitem__(self, name: str) -> type[Model]:
        module, _, model = HOMES[name].partition(":")
        found: type[Model] = getattr(import_module(f"quorate.models.{module}"), model)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)

    def __contains__(self, name: object) -> bool:
        return name in HOMES


MODELS: Final = Models()


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
