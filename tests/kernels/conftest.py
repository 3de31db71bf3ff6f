"""What tests of kernels share."""

import pytest

from adjudge.kernels.cpu import compiled

core = compiled()


@pytest.fixture(params=[*enumerate(["baseline", "avx2", "avx512"])], ids=lambda p: p[1])
def instructions(request):
    """Each instruction set that this machine has."""
    index, name = request.param
    core.use_kernels(index)
    if core.kernels() != name and index:
        core.use_kernels(-1)
        pytest.skip(f"this machine has no {name}")
    yield
    core.use_kernels(-1)
