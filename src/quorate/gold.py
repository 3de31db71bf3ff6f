"""Gold: tasks whose label is known and learned from. Truth is only for measuring."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quorate.bounds import require_array
from quorate.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Gold:
    """Tasks and the code of the label of each."""

    tasks: Vocabulary
    labels: NDArray[np.int32]  # [gold tasks] codes

    def __post_init__(self) -> None:
        require_array("labels", self.labels, np.int32, (len(self.tasks),))

    def __len__(self) -> int:
        return len(self.labels)
