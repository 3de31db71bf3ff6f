"""Modules that version 0.2 moved: their old names still import, with a warning, for one version."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

# The old name of every module that the docs named or that held a public name, and its new one, both below `adjudge`.
MOVED: Final = {
    "aggregation": "models.aggregation",
    "agreeing.agreement": "evaluation.agreement.agreement",
    "agreeing.figures": "evaluation.agreement.figures",
    "checks": "evaluation.contract",
    "engines.spark": "spark.engine",
    "fitted": "results.saved",
    "io.encoded.build": "io.folder.build",
    "models.registry": "models.base",
    "multi": "results.sets",
    "reliability": "evaluation.confidence",
    "result": "results.result",
    "set_evaluation": "evaluation.sets",
    "simulation.crowd": "evaluation.crowd",
    "simulation.simulate": "evaluation.simulate",
    "temperature": "results.temperature",
    "vocabulary": "data.vocabulary",
    "votes": "data.votes",
}
FOLDERS: Final = {name.rpartition(".")[0] for name in MOVED} - {"", "engines", "io", "models"}  # packages that are gone


class OldNames(MetaPathFinder, Loader):
    """Finds a module under its old name: a module that takes everything from the new one."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return where an old name leads, or None for any other name."""
        package, _, name = fullname.partition(".")
        if package != "adjudge" or not (name in MOVED or name in FOLDERS):
            return None
        return ModuleSpec(fullname, self, is_package=name in FOLDERS)

    def exec_module(self, module: ModuleType) -> None:
        """Let a module take its names from where they are now."""
        name = module.__name__.partition(".")[2]
        if name not in MOVED:
            return
        home = f"adjudge.{MOVED[name]}"
        warnings.warn(f"adjudge.{name} is {home} now; the old name goes with version 0.3", DeprecationWarning, stacklevel=2)
        new = import_module(home)
        module.__doc__ = new.__doc__
        module.__getattr__ = lambda wanted: getattr(new, wanted)  # type: ignore[method-assign]


def install() -> None:
    """Let imports of old names succeed; they are looked up after all others."""
    sys.meta_path.append(OldNames())
