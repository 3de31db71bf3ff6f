"""NVIDIA's compiler, if installed, accepts the kernels, and a block has enough registers for them."""

import re
import shutil
import subprocess

import pytest

from adjudge.gpu.device import OPTIONS, source_of
from adjudge.gpu.passes import STEPS, TILE_THREADS, WHOLE_THREADS

REGISTERS = 1 << 16  # of a block, on every device since 2014
WIDE = {"narrow_scan": WHOLE_THREADS, "recount_runs": TILE_THREADS, "recount_keys": TILE_THREADS}  # others: 256 at most
SOURCES = [
    *(("byte_costs", {"K": k, "LABEL_BYTES": 1, "EACH": each, "SHARED": 1}) for k in (1, 4, 16) for each in (0, 6, 7, 8)),
    ("byte_costs", {"K": 5, "LABEL_BYTES": 1, "EACH": 0, "SHARED": 0}),
    *(("sorted_votes", {"K": k, "LANES": k, "BITS": bits, "STEPS": STEPS, "LABEL_BYTES": 1}) for k, bits in ((4, 2), (8, 4))),
    ("few_labels", {"K": 5, "LANES": 8, "LABEL_BYTES": 1}),
    ("any_labels", {"LABEL_BYTES": 4}),
    ("encode", {"ID": -8}),
    ("encode", {"TASK": -8, "WORKER": -4, "LABEL": 1}),
    ("honest", {"K": 4, "LONG_TASK": 128}),
    ("careful", {"K": 4}),
    ("glad", {"K": 4}),
    ("tables", {}),
    ("segment_sums", {"K": 4}),
]


@pytest.fixture(scope="module")
def nvcc():
    found = shutil.which("nvcc")
    if found is None:
        pytest.skip("no nvcc")
    return found


@pytest.mark.parametrize(("source", "macros"), SOURCES, ids=str)
def test_kernels_compile_and_have_registers(nvcc, source, macros, tmp_path):
    (tmp_path / "kernels.cu").write_text(source_of(source))
    given = [f"-D{name}={value}" for name, value in macros.items()]
    command = [
        nvcc,
        *OPTIONS,
        "-arch=sm_90",
        "-cubin",
        "--resource-usage",
        *given,
        "-o",
        tmp_path / "out",
        tmp_path / "kernels.cu",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    used = re.findall(r"entry function '(\w+)'.*?Used (\d+) registers", done.stdout + done.stderr, re.DOTALL)
    assert used
    for kernel, registers in used:
        threads = 256 if macros.get("SHARED") == 0 else WIDE.get(kernel, 256)
        assert int(registers) * threads <= REGISTERS, kernel
