"""A CUDA device: arrays on it, copies to and from it, and programs that are compiled for it. Only this module knows CuPy.

Everything else of the folder sees a `Device`: an array module (`xp`, CuPy's functions by NumPy's names), copies, and programs.
So tests can run the sources of the kernels on the processor, over NumPy's arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module, resources
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.errors import AdjudgeError

THREADS: Final = 256  # of a block, in most kernels
OPTIONS: Final = ("-std=c++17", "--fmad=false")  # products and sums round apart, as on the processor
SHARED_ROOM: Final = 48 << 10  # bytes of shared memory per block without opting in, static variables included


@cache
def source_of(name: str) -> str:
    """Return the text of a source, with the sources that it includes in place of the lines that do so."""
    text = resources.files("adjudge.gpu").joinpath("cuda", f"{name}.cuh").read_text("utf-8")
    lines = []
    for line in text.splitlines():
        if line.startswith('#include "'):
            lines.append(source_of(line.split('"')[1].removesuffix(".cuh")))
        elif line != "#pragma once":
            lines.append(line)
    return "\n".join(lines) + "\n"


@cache
def cupy() -> ModuleType:
    """Return CuPy; raise if it is not installed."""
    try:
        return import_module("cupy")
    except ImportError as error:
        raise AdjudgeError(f"engine 'cuda' needs CuPy ({error}): pip install 'adjudge[cuda]'") from None


def device_count() -> int:
    """Return how many CUDA devices CuPy finds: 0 if there is none, or no CuPy; nothing is raised."""
    try:
        return int(cupy().cuda.runtime.getDeviceCount())
    except Exception:  # a driver that is missing, too old or broken says so in many ways
        return 0


@cache
def device_at(number: int) -> Device:
    """Return a CUDA device by its number; the error names what is missing."""
    module = cupy()
    try:
        found = int(module.cuda.runtime.getDeviceCount())
    except Exception as error:
        raise AdjudgeError(
            f"engine 'cuda' finds no CUDA device ({error}): install NVIDIA's driver, or choose engine='cpu'"
        ) from None
    if not 0 <= number < found:
        have = f"there are {found}, numbered from 0" if found else "there is none: choose engine='cpu'"
        raise AdjudgeError(f"engine 'cuda' finds no CUDA device {number}: {have}")
    try:
        return Device(number)
    except Exception as error:
        raise AdjudgeError(f"CUDA device {number} does not answer ({error}): choose engine='cpu'") from None


def is_started() -> bool:
    """Return whether this process has used a CUDA device through this module before: its kernels are then loaded."""
    return device_at.cache_info().currsize > 0


class Device:
    """A CUDA device through CuPy. Tests have stand-ins with the same attributes and methods."""

    def __init__(self, number: int) -> None:
        self.number: int | None = number  # CUDA's; None of a stand-in
        self.xp = cupy()  # functions of arrays on the device, by NumPy's names
        about = self.xp.cuda.runtime.getDeviceProperties(number)
        self.name: str = about["name"].decode()
        self.multiprocessors = int(about["multiProcessorCount"])
        self.shared_bytes = int(about["sharedMemPerBlockOptin"])  # of a block, at most
        self.cache_bytes = int(about["l2CacheSize"])  # that all multiprocessors share
        self._programs: dict[tuple[Any, ...], Program] = {}
        cuda = self.xp.cuda
        self._no_memory: type[Exception] = cuda.memory.OutOfMemoryError
        self._failures = (self._no_memory, cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError)

    def __reduce__(self) -> tuple[Any, ...]:
        return device_at, (self.number,)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this device the one that arrays are made on; errors of CUDA become `AdjudgeError`."""
        try:
            with self.xp.cuda.Device(self.number):
                yield
        except self._no_memory as error:
            raise AdjudgeError(f"{self.name}: too little device memory ({error}): choose engine='cpu'") from None
        except self._failures as error:
            raise AdjudgeError(f"{self.name} failed during a fit ({error}): start again, or choose engine='cpu'") from None

    def memory(self) -> tuple[int, int]:
        """Return the free and all bytes of memory; what CuPy keeps for later counts as free."""
        with self.current():
            free, total = self.xp.cuda.runtime.memGetInfo()
            pool = self.xp.get_default_memory_pool()
            return int(free + pool.total_bytes() - pool.used_bytes()), int(total)

    def check(self) -> None:
        """Run a kernel: what is missing, a compiler say, is an error now."""
        with self.current():
            self.program("tables").launch("restore_counts", 1, 32, self.xp.zeros(1), None, 1, 40)
            self.wait()

    def wait(self) -> None:
        """Wait for what this thread has started on the device; copies of a copier may continue."""
        self.xp.cuda.get_current_stream().synchronize()

    def upload(self, array: NDArray[Any]) -> Any:
        """Return a copy on the device of an array of the host."""
        return self.xp.asarray(np.ascontiguousarray(array))

    def download(self, array: Any) -> NDArray[Any]:
        """Copy a device array to the host, after all kernels launched before."""
        found: NDArray[Any] = self.xp.asnumpy(array)
        return found

    def program(self, source: str, **constants: int) -> Program:
        """Return the kernels of `cuda/<source>.cuh`, compiled with these macros; CuPy keeps the binaries on disk."""
        key = (source, *sorted(constants.items()))
        if key not in self._programs:
            macros = tuple(f"-D{name}={value}" for name, value in constants.items())
            module = self.xp.RawModule(code=source_of(source), options=(*OPTIONS, *macros))
            self._programs[key] = Program(module, self._failures)
        return self._programs[key]

    def pinned(self, shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Return an uninitialised array of the host from which copies overlap with kernels."""
        size, kind = int(np.prod(shape)), np.dtype(dtype)
        room = self.xp.cuda.alloc_pinned_memory(max(size * kind.itemsize, 1))
        return np.frombuffer(room, kind, size).reshape(shape)

    def copier(self) -> Copier:
        """Return a copier whose transfers overlap with kernels."""
        return Copier(self.xp)


class Program:
    """Kernels of one source, compiled with some constants."""

    def __init__(self, module: Any, failures: tuple[type[Exception], ...] = ()) -> None:
        self._module = module
        self._failures = failures  # of the device, not of the compiler
        self._kernels: dict[str, Any] = {}
        self._asked: dict[str, int] = {}  # bytes of dynamic shared memory that each kernel was allowed

    def launch(self, kernel: str, blocks: int, threads: int, *args: Any, shared: int = 0) -> None:
        """Run a kernel: `args` are device arrays, None (a null pointer), whole numbers (long long) and numbers (double).

        `shared` is the bytes of dynamic shared memory of a block.
        """
        found = self._kernels.get(kernel)
        if found is None:
            found = self._kernels[kernel] = self._compile(kernel)
        if shared > self._asked.get(kernel, 0) and shared + found.shared_size_bytes > SHARED_ROOM:
            found.max_dynamic_shared_size_bytes = self._asked[kernel] = shared
        found((max(blocks, 1),), (threads,), tuple(_argument(one) for one in args), shared_mem=shared)

    def _compile(self, kernel: str) -> Any:
        """Return a kernel; CuPy compiles the module now, unless it has before."""
        try:
            return self._module.get_function(kernel)
        except self._failures:
            raise
        except Exception as error:  # no compiler, or one that does not know the device: CuPy has an exception for each
            why = str(error).strip().splitlines() or [type(error).__name__]
            raise AdjudgeError(
                f"kernels of engine 'cuda' do not compile here ({why[0]}): pip install 'adjudge[cuda]', or choose engine='cpu'"
            ) from error


def _argument(value: Any) -> Any:
    """Return an argument as CuPy takes it: a null pointer, long long, double, or an array."""
    if value is None:
        return np.uint64(0)
    if isinstance(value, int | np.integer | np.bool_):
        return np.int64(int(value))
    return np.float64(value) if isinstance(value, float) else value


class Copier:
    """Copies from pinned memory to the device while kernels run."""

    def __init__(self, xp: ModuleType) -> None:
        self._xp, self._stream = xp, xp.cuda.Stream(non_blocking=True)

    def copy(self, to: Any, host: NDArray[Any]) -> None:
        """Start a copy; it waits until kernels that were launched before are done."""
        self._stream.wait_event(self._xp.cuda.get_current_stream().record())
        to.data.copy_from_host_async(host.ctypes.data, host.nbytes, self._stream)

    def arrive(self) -> None:
        """Let kernels that are launched from now on wait for the copies that were started."""
        self._xp.cuda.get_current_stream().wait_event(self._stream.record())

    def wait(self) -> None:
        """Wait for the copies that were started."""
        self._stream.synchronize()


def blocks_of(n: int, threads: int = THREADS) -> int:
    """Return the blocks in which n things have a thread each."""
    return max(-(-n // threads), 1)
