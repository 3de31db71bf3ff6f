"""A drop-in for crowd-kit: its classes as adapters over our models. pandas in, pandas out.

Imports of crowd-kit's modules work: it has a module per class, such as `aggregation.classification.dawid_skene`.
"""

import sys

from adjudge.crowdkit import aggregation, metrics
from adjudge.crowdkit.aggregation import *  # noqa: F403
from adjudge.crowdkit.aggregation import classification, multilabel, pairwise

__all__ = aggregation.__all__

_PATHS = {
    classification: "dawid_skene glad gold_majority_vote kos m_msr mace majority_vote wawa zero_based_skill",
    multilabel: "binary_relevance",
    pairwise: "bradley_terry noisy_bt",
    metrics: "data workers",
}
_ALIASES = {f"{module.__name__}.{name}": module for module, names in _PATHS.items() for name in names.split()}
sys.modules.update({**_ALIASES, f"{__name__}.postprocessing": metrics})
postprocessing = metrics.data = metrics.workers = metrics  # type: ignore[attr-defined]
