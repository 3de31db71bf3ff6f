"""What a fit of sets has learned: its options, and one model of their yes-or-no questions or one for each; saved to one file.

The file is a checksummed container (`adjudge.io.container`) of kind "sets"; docs/saved-models.md names its parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from adjudge.data.vocabulary import Vocabulary
from adjudge.errors import InputError, AdjudgeError, listed, shown
from adjudge.io import container
from adjudge.io.bounds import Bounds, Types
from adjudge.io.sets import NO_YES
from adjudge.results import model_file
from adjudge.results.knowledge import Learned

KIND: Final = "sets"
VERSION: Final = 1
META: Final[Types] = {"options": list, "models": list}


@dataclass(frozen=True, eq=False)
class LearnedSets:
    """All that a fit of sets knows of workers and options, without votes and tasks."""

    options: Vocabulary
    parts: tuple[Learned, ...]  # one for all options, or one for each, in their order; over no and yes

    def __post_init__(self) -> None:
        if not len(self.options):
            raise InputError("no vote names an option, so nothing was learned of any: declare the options with labels=…")
        if len(self.parts) not in (1, len(self.options)):
            raise InputError(f"there are {len(self.parts)} models of {len(self.options)} options: give one, or one for each")
        for part in self.parts:
            labels = tuple(part.knowledge.labels.ids())
            if labels != NO_YES:
                raise InputError(f"a model of an option is over the labels {listed(map(shown, labels))}: give {listed(NO_YES)}")

    def option(self, option: object) -> int:
        """Return the code of an option, of options that were fitted apart; another is an error that names them."""
        code = int(self.options.codes([option])[0])
        if code < 0:
            raise InputError(f"each option was fitted apart: name one of {listed(self.options.ids())}, not {shown(option)}")
        return code

    @property
    def model(self) -> str:
        """The name of the model that was fitted."""
        return self.parts[0].model


def save(path: Path, learned: LearnedSets) -> None:
    """Write what was learned to one file, whole or not at all; the same content gives the same bytes."""
    arrays: dict[str, NDArray[Any]] = {}
    models = []
    for number, part in enumerate(learned.parts):
        meta, own = model_file.contents(part)
        models.append(meta)
        arrays |= {f"{number}.{name}": array for name, array in own.items()}
    container.save(path, KIND, VERSION, {"options": learned.options.ids(), "models": models}, arrays)


def load(path: Path) -> LearnedSets:
    """Return what was saved; a damaged, forged or foreign file is an error."""
    meta, arrays = container.load(path, KIND, VERSION, META)
    bounds, parts = Bounds(path), []
    for number, one in enumerate(meta["models"]):
        bounds.need(isinstance(one, dict), f"model {number} is {shown(one)}, not an object")
        bounds.fields(f"its model {number}", one, model_file.META)
        bounds.need(not one.get("groups"), f"model {number} has groups, which sets have not")
        own = {name: arrays.pop(f"{number}.{name}") for name in model_file.ARRAYS if f"{number}.{name}" in arrays}
        bounds.arrays(own, model_file.ARRAYS)
        parts.append(model_file.checked(path, one, own))
    bounds.need(not arrays, f"it has an array {listed(map(shown, arrays), 3)} that nothing uses")
    bounds.need(parts, "it has no model")
    try:
        return LearnedSets(Vocabulary.of(meta["options"], "option"), tuple(parts))
    except AdjudgeError as error:
        raise InputError(f"{path} is not valid: {error}") from error
