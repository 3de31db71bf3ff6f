"""Fits whose settings come as one dict: those of the model go to the model."""

import adjudge as adj
from adjudge.data.options import OF_MODELS
from adjudge.models.base import make


def aggregate(source, model="auto", **options):
    """Return `adj.aggregate` of votes; settings of the model may be among the options."""
    settings = {name: options.pop(name) for name in list(options) if name in OF_MODELS}
    return adj.aggregate(source, model=make(model, settings) if settings else model, **options)
