"""The examples of the page, on the emulator, and on a CUDA device where there is one."""

import doctest
import re
import sys
from pathlib import Path
from types import SimpleNamespace

from adjudge.gpu import engine as gpu_engine
from adjudge.gpu.engine import CudaEngine
from gpu.columns import column_on

PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"
EXAMPLES = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)  # not `python`: they need a device


def test_examples_of_the_page(device, monkeypatch):
    if device.number is None:
        made = CudaEngine((device,))
        monkeypatch.setattr(gpu_engine, "cuda_engine", lambda threads, **settings: made)
        monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(asarray=lambda array: column_on(device, array)))
    report, names = [], {}
    for body in EXAMPLES:
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
        test = doctest.DocTestParser().get_doctest(body, names, PAGE.name, str(PAGE), 0)
        runner.run(test, out=report.append, clear_globs=False)
        names.update(test.globs)
    assert len(EXAMPLES) == 2
    assert not report, "".join(report)
