"""What other libraries still hold when the interpreter ends is not reported as a leak of the compiled core."""

import subprocess
import sys

import pytest

from adjudge.kernels.cpu import compiled

# One reference too many, as a library that is never cleaned up would hold it.
HELD = """
import ctypes
import numpy as np
from adjudge._core import TextArray
ctypes.pythonapi.Py_IncRef(ctypes.py_object(TextArray(np.zeros(1, np.int64), np.zeros(0, np.uint8))))
"""


@pytest.mark.skipif(compiled() is None, reason="no compiled core")
def test_nothing_is_printed_at_exit():
    done = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
