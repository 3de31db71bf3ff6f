"""A device that runs the sources of the kernels on the processor, over NumPy's arrays.

The sources are compiled by g++ after including `emulator.hpp`. Every array passed to a launch is copied into separate memory,
between guard zones: a kernel that writes beyond an array is an error. So is an argument that does not fit the parameter.
"""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from contextlib import nullcontext, suppress
from functools import cache
from pathlib import Path

import numpy as np

from adjudge.gpu.device import source_of

PRELUDE = Path(__file__).with_name("emulator.hpp")
COMPILER = os.environ.get("CXX") or "g++"
OPTIONS = (
    "-std=c++17",
    "-O1",  # kernels run for less time than more would take to compile
    "-ffp-contract=off",  # products and sums round apart
    "-fno-strict-aliasing",
    "-U_FORTIFY_SOURCE",  # it refuses jumps from stack to stack
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wno-unknown-pragmas",
)
KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(')
GUARD, ALIGNMENT, PATTERN = 64, 256, 0xAA
MAX_THREADS, MAX_BLOCKS = 1024, 2**31 - 1


class EmulationError(AssertionError):
    """What a device would do something undefined with."""


def compiler():
    """Return the path of the compiler; None if there is none."""
    return shutil.which(COMPILER)


def cache_folder():
    """Return the folder of compiled sources, which processes share."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "adjudge-tests" / "emulated"


_LOADING = threading.Lock()


class EmulatedDevice:
    """The processor as a device; see `adjudge.gpu.device.Device`."""

    xp = np
    name = "emulated"
    number = None
    multiprocessors = 2
    shared_bytes = 227 << 10
    cache_bytes = 50 << 20

    def __init__(self, free=16 << 30, total=16 << 30):
        self.free, self.total = free, total

    def __reduce__(self):
        return type(self), (self.free, self.total)

    def memory(self):
        return self.free, self.total

    def current(self):
        return nullcontext()

    def check(self):
        """Kernels run."""

    def wait(self):
        """Nothing is under way."""

    def upload(self, array):
        return np.array(array, order="C")

    def download(self, array):
        return np.array(array, order="C")

    def program(self, source, **constants):
        return self.compiled(source_of(source), name=source, **constants)

    def compiled(self, text, name="source", **constants):
        """Return the kernels of a text."""
        with _LOADING:  # two threads would else load one library as two programs, whose locks know nothing of each other
            return _program(text, name, tuple(sorted(constants.items())))

    def pinned(self, shape, dtype):
        out = np.empty(shape, dtype)
        out.reshape(-1).view(np.uint8)[:] = PATTERN
        return out

    def copier(self):
        return EmulatedCopier()


class EmulatedCopier:
    """Copies that are done as late as can be: when kernels wait for them."""

    def __init__(self):
        self._copies = []

    def copy(self, to, host):
        if not (to.flags.c_contiguous and host.flags.c_contiguous):
            raise EmulationError("a copy is of bytes in a row: both arrays must be C-contiguous")
        if host.nbytes > to.nbytes:
            raise EmulationError(f"a copy of {host.nbytes} bytes does not fit {to.nbytes}")
        self._copies.append((to, host))

    def arrive(self):
        for to, host in self._copies:
            to.reshape(-1).view(np.uint8)[: host.nbytes] = host.reshape(-1).view(np.uint8)
        self._copies.clear()

    def wait(self):
        self.arrive()


class Parameter(ctypes.Structure):
    """What a parameter of a kernel is, as emulator.hpp describes it."""

    _fields_ = (("kind", ctypes.c_char), ("constant", ctypes.c_char), ("item", ctypes.c_char), ("size", ctypes.c_int))


_programs = {}


def _program(text, name, constants):
    """Return a program, compiled once; a failure is cached and raised again."""
    key = text, name, constants
    if key not in _programs:
        try:
            _programs[key] = EmulatedProgram(text, name, constants)
        except EmulationError as error:
            _programs[key] = error
    if isinstance(_programs[key], EmulationError):
        raise EmulationError(*_programs[key].args)
    return _programs[key]


class EmulatedProgram:
    """The kernels of a source, compiled for the processor."""

    def __init__(self, text, name, constants):
        self._name = name
        self._library = ctypes.CDLL(str(_compile(text, name, constants)))
        self._parameters = {kernel: self._describe(kernel) for kernel in _kernels(text, constants)}
        self._launches, self._lock = 0, threading.Lock()  # a library has one set of stacks

    def launch(self, kernel, blocks, threads, *args, shared=0):
        """Run a kernel to its end; raise if a device's behaviour would be undefined."""
        where = f"kernel {kernel} of {self._name}"
        if kernel not in self._parameters:
            raise EmulationError(f"{where} does not exist: there are {', '.join(self._parameters)}")
        parameters = self._parameters[kernel]
        if len(args) != len(parameters):
            raise EmulationError(f"{where} has {len(parameters)} parameters, not {len(args)}")
        if not 1 <= threads <= MAX_THREADS or max(blocks, 1) > MAX_BLOCKS:
            raise EmulationError(f"{where}: no launch of {blocks} blocks of {threads} threads")
        if not 0 <= shared <= EmulatedDevice.shared_bytes:
            raise EmulationError(f"{where}: no launch with {shared} bytes of shared memory")
        for at, (one, value) in enumerate(zip(parameters, args, strict=True)):
            _check(f"argument {at} of {where}", one, value)
        regions = _regions(args, parameters)
        values = [_value(one, regions) for one in args]
        pointers = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(one) for one in values))
        run = getattr(self._library, f"run_{kernel}")
        run.restype = ctypes.c_char_p
        run.argtypes = (ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_int, ctypes.c_int)
        with self._lock:
            self._launches += 1
            found = run(pointers, int(max(blocks, 1)), int(threads), int(shared), self._launches % 2)
            wrong = found.decode() if found else None
        if wrong is not None:
            raise EmulationError(f"{where}: {wrong}")
        for region in regions:
            region.come_back(where)

    def _describe(self, kernel):
        describe = getattr(self._library, f"parameters_of_{kernel}")
        found = (Parameter * describe(None))()
        describe(found)
        return list(found)


@cache
def _kernels(text, constants):
    """Return the names of the kernels that a source has with these constants: some are there under conditions only."""
    macros = "".join(f"#define {macro} {value}\n" for macro, value in constants)
    command = (COMPILER, "-E", "-P", "-x", "c++", "-")
    done = subprocess.run(command, input=macros + text, capture_output=True, text=True, check=True)
    return KERNEL.findall(done.stdout)


def _compile(text, name, constants):
    """Return the path of a source's library; compiled ones are kept, and processes that compile the same do not meet."""
    macros = "".join(f"#define {macro} {value}\n" for macro, value in constants)
    kernels = "".join(f"ADJUDGE_KERNEL({kernel})\n" for kernel in _kernels(text, constants))
    whole = f'#include "emulator.hpp"\n{macros}namespace {{\n#line 1 "{name}.cuh"\n{text}\n}}\n#line 1 "kernels"\n{kernels}'
    made_of = "\0".join((whole, PRELUDE.read_text("utf-8"), _version(), *OPTIONS))
    folder = cache_folder()
    library = folder / f"{name}-{hashlib.sha256(made_of.encode()).hexdigest()[:24]}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            source, built = Path(aside, f"{name}.cpp"), Path(aside, "built.so")
            source.write_text(whole, "utf-8")
            command = (COMPILER, *OPTIONS, f"-I{_prelude()}", f"-I{PRELUDE.parent}", "-o", str(built), str(source))
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise EmulationError(f"{name}.cuh does not compile:\n{done.stderr}")
            built.replace(library)
    return library


@cache
def _prelude():
    """Return a folder with the prelude as g++ has read it once; other compilers read the prelude itself."""
    made_of = "\0".join((PRELUDE.read_text("utf-8"), _version(), *OPTIONS))
    folder = cache_folder() / f"prelude-{hashlib.sha256(made_of.encode()).hexdigest()[:24]}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as aside:
            built = Path(aside, "prelude")
            built.mkdir()
            command = (COMPILER, *OPTIONS, "-w", "-x", "c++-header", "-o", str(built / "emulator.hpp.gch"), str(PRELUDE))
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise EmulationError(f"{PRELUDE.name} does not compile:\n{done.stderr}")
            with suppress(OSError):  # another process was faster
                built.rename(folder)
    return folder


@cache
def _version():
    return subprocess.run((COMPILER, "--version"), capture_output=True, text=True, check=True).stdout


def _check(what, parameter, value):
    """Raise unless a value fits a parameter."""
    kind = parameter.kind.decode()
    if kind == "?":
        raise EmulationError(f"{what}: parameters are pointers, long long or double only")
    if isinstance(value, np.ndarray):
        _check_array(what, parameter, value)
    elif value is None:
        if kind != "p":
            raise EmulationError(f"{what} is None: the parameter is a number")
    elif isinstance(value, int | np.integer | np.bool_):
        if kind != "i":
            raise EmulationError(
                f"{what} is the whole number {value}: the parameter is {'a pointer' if kind == 'p' else 'double'}"
            )
        if not -(2**63) <= int(value) < 2**63:
            raise EmulationError(f"{what} is {value}: it does not fit long long")
    elif isinstance(value, float):
        if kind != "d":
            raise EmulationError(f"{what} is the number {value}: the parameter is {'a pointer' if kind == 'p' else 'long long'}")
    else:
        raise EmulationError(f"{what} is {type(value).__name__}: give an array, None, a whole number or a number")


def _check_array(what, parameter, array):
    """Raise unless an array fits a pointer."""
    if parameter.kind != b"p":
        raise EmulationError(f"{what} is an array: the parameter is a number")
    if not array.flags.c_contiguous:
        raise EmulationError(f"{what} is not C-contiguous")
    if not array.flags.writeable and parameter.constant == b"\0":
        raise EmulationError(f"{what} is read-only: the parameter is no pointer to const")
    item, floating = parameter.item.decode(), array.dtype.kind == "f"
    if item != "o" and (array.dtype.itemsize != parameter.size or floating != (item == "f")):
        wanted = f"{parameter.size}-byte {'floating' if item == 'f' else 'whole'} numbers"
        raise EmulationError(f"{what} is of {array.dtype}: the parameter points to {wanted}")


class _Region:
    """Bytes of the host that a launch sees, and their copy between guard zones."""

    def __init__(self, begin, end, shift):
        self.begin, self.end, self.constant = begin, end, True
        room = end - begin + 2 * GUARD + 2 * ALIGNMENT
        self._room = np.full(room, PATTERN, np.uint8)
        first = self._room.ctypes.data + GUARD
        self._at = GUARD + (-first) % ALIGNMENT + shift  # as far from a boundary as on a device, where arrays begin at one
        self.moved = self._room.ctypes.data + self._at
        ctypes.memmove(self.moved, begin, end - begin)

    def come_back(self, where):
        """Copy what was written back; raise if anything beyond was written."""
        size = self.end - self.begin
        for name, zone in (("before", self._room[: self._at]), ("after", self._room[self._at + size :])):
            wrong = np.flatnonzero(zone != PATTERN)
            if len(wrong):
                away = len(zone) - int(wrong[-1]) if name == "before" else int(wrong[0]) + 1
                raise EmulationError(f"{where} wrote out of bounds: {away} bytes {name} an array of {size} bytes")
        if not self.constant:
            ctypes.memmove(self.begin, self.moved, size)


def _regions(args, parameters):
    """Return copies of the memory of all arrays; arrays that overlap share one."""
    arrays = [
        (one.ctypes.data, one.ctypes.data + one.nbytes, one, parameter.constant != b"\0")
        for one, parameter in zip(args, parameters, strict=True)
        if isinstance(one, np.ndarray)
    ]
    found = []
    for begin, end, array, constant in sorted(arrays, key=lambda one: one[:2]):
        if found and begin < found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
            found[-1][3] &= constant
        else:
            found.append([begin, end, _shift(array), constant])
    regions = []
    for begin, end, shift, constant in found:
        region = _Region(begin, end, shift)
        region.constant = constant
        regions.append(region)
    return regions


def _shift(array):
    """Return how far a view begins from the boundary that its whole array begins at."""
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    return (array.ctypes.data - whole.ctypes.data) % ALIGNMENT


def _value(value, regions):
    """Return an argument as the kernel gets it."""
    if isinstance(value, np.ndarray):
        begin = value.ctypes.data
        for region in regions:
            if region.begin <= begin and begin + value.nbytes <= region.end:
                return ctypes.c_void_p(region.moved + begin - region.begin)
        raise AssertionError("every array is in a region")
    if value is None:
        return ctypes.c_void_p(None)
    return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_longlong(int(value))
