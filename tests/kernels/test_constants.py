"""What the compiled core and the package must agree on, and each spells out for itself."""

import pytest

from adjudge.data import exact
from adjudge.engines import memory
from adjudge.kernels import (
    grades_reference,
    methods_reference,
    online_honest,
    reference,
)
from adjudge.kernels.cpu import compiled

core = compiled()
pytestmark = pytest.mark.skipif(core is None, reason="no compiled core")


def test_constants_are_those_of_the_package():
    package = {
        "TIE": reference.TIE_TOLERANCE,
        "SAME": reference.SAME_SCORE_TOLERANCE,
        "CLASS_UNIT": reference.CLASS_UNIT,
        "LOG_UNIT": exact.LOG_UNIT,
        "LIFT": exact.LIFT,
        "FLAT": methods_reference.MAX_FLAT_CURVATURE_X,
        "NO_SKILL": methods_reference.NO_SKILL,
        "SHARD_VOTES": memory.SHARD_VOTES,
        "MOST_SHARD_TASKS": memory.MOST_SHARD_TASKS,
        "PRIVATE_BYTES": memory.PRIVATE_BYTES,
        "LANES": (*memory.LANES, 0),  # none beyond the last
        **{name: getattr(grades_reference, name) for name in ("SURE", "SHARP", "B_VARIANCE", "STRETCH_VARIANCE")},
        "ONE": online_honest.SHARE_UNITS,
        "TOGETHER": online_honest.TOGETHER,
        "RENEW_AFTER": online_honest.RENEW_AFTER,
    }
    assert package == core.CONSTANTS
