"""Passes on a CUDA device: the same models, the same labels, by kernels that CuPy compiles when they are first asked for.

`device` is the one module that knows CuPy; `cuda/` has the sources of the kernels. Online aggregation and the service stay on
the processor: they need the answer to one vote soon, not to a billion at once.
"""
