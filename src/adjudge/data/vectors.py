"""Long vectors, processed in chunks: arrays, or files that need not fit in memory.

Chunks have one size in memory and in files and are summed in order, so a sum has the same bits in either. A vector may ask
for chunks of another size (`piece`): each costs a wait where its numbers are on a device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Make = Callable[..., Floats]  # from pieces of some vectors to a piece of another
VECTOR_CHUNK_NUMBERS: Final = 1 << 16  # numbers at once: they stay in the processor's cache, and files are read in good time


class Stored(Protocol):
    """Numbers stored elsewhere, read and written by slices."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def __getitem__(self, cut: slice, /) -> Floats:
        """Return some of them."""
        ...

    def __setitem__(self, cut: slice, numbers: Floats, /) -> None:
        """Replace some of them."""
        ...

    def alike(self) -> Self:
        """Return an uninitialised vector of the same length and kind."""
        ...


Vector = Floats | Stored


def empty_like(vector: Vector) -> Vector:
    """Return an uninitialised vector of the same length and kind."""
    return np.empty(len(vector)) if isinstance(vector, np.ndarray) else vector.alike()


def pieces(n: int, size: int | None = None, start: int = 0) -> Iterator[slice]:
    """Yield the slices, of `size` items each (`VECTOR_CHUNK_NUMBERS` by default), in which items from `start` to n are worked on.

    >>> list(pieces(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = VECTOR_CHUNK_NUMBERS if size is None else size
    for first in range(start, n, step):
        yield slice(first, min(first + step, n))


def compute_into(out: Vector, make: Make, *of: Vector, times: Vector | None = None) -> float:
    """Compute OUT in chunks from other vectors, and return its inner product with `times` (0 without it).

    >>> out = np.zeros(3)
    >>> compute_into(out, lambda a, b: a - 2 * b, np.array([3.0, 2.0, 1.0]), np.ones(3), times=np.ones(3)), out.tolist()
    (0.0, [1.0, 0.0, -1.0])
    """
    total = 0.0
    for cut in pieces(len(out), _piece_of(out)):
        read = [vector[cut] for vector in of]
        made = make(*read)
        if times is not None:  # one that was read already is not read again
            beside = next((some for vector, some in zip(of, read, strict=True) if vector is times), None)
            total += float((made * (times[cut] if beside is None else beside)).sum())
        out[cut] = made
    return total


def sum_of_chunks(make: Make, *of: Vector) -> float:
    """Return the sum of a function of vectors, computed in chunks by NumPy (a BLAS would differ in threads and last bits)."""
    return sum(float(make(*(vector[cut] for vector in of)).sum()) for cut in pieces(len(of[0]), _piece_of(of[0])))


def dot(a: Vector, b: Vector) -> float:
    """Return the inner product.

    >>> dot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    11.0
    """
    return sum_of_chunks(np.square, a) if a is b else sum_of_chunks(np.multiply, a, b)


def max_abs(vector: Vector) -> float:
    """Return the largest absolute value; 0 if there is none.

    >>> max_abs(np.array([1.0, -2.0]))
    2.0
    """
    return max((float(np.abs(vector[cut]).max()) for cut in pieces(len(vector), _piece_of(vector))), default=0.0)


def _piece_of(vector: Vector) -> int | None:
    """Return how many numbers at once a vector asks for; None: as many as any other."""
    return getattr(vector, "piece", None)
