"""What the compiled core and the package must agree on, and each spells out for itself."""

import pytest

from adjudge.data import exact
from adjudge.engines import memory
from adjudge.kernels import (
    glad_reference,
    grades_reference,
    honest_online_reference,
    messages_reference,
    online_steps,
    online_units,
    reference,
)
from adjudge.kernels.cpu import compiled

core = compiled()
pytestmark = pytest.mark.skipif(core is None, reason="no compiled core")


def test_constants_are_those_of_the_package():
    package = {
        "TIE": reference.TIE,
        "SAME": reference.SAME,
        "CLASS_UNIT": reference.CLASS_UNIT,
        "LOG_UNIT": exact.LOG_UNIT,
        "LIFT": exact.LIFT,
        "FLAT": glad_reference.FLAT,
        "NO_SKILL": messages_reference.NO_SKILL,
        "SHARD_VOTES": memory.SHARD_VOTES,
        "MOST_SHARD_TASKS": memory.MOST_SHARD_TASKS,
        "PRIVATE_BYTES": memory.PRIVATE_BYTES,
        "LANES": (*memory.LANES, 0),  # none beyond the last
        **{name: getattr(grades_reference, name) for name in ("SURE", "SHARP", "B_VARIANCE", "STRETCH_VARIANCE")},
        "ONE": online_units.ONE,
        "TOGETHER": online_steps.TOGETHER,
        "RENEW_AFTER": honest_online_reference.RENEW_AFTER,
    }
    assert package == core.CONSTANTS
