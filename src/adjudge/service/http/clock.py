"""The clock of a server: the wall clock, for as long as a monotonic clock agrees with it.

Times of events come from the wall clock, which an administrator, a hypervisor or a time server can set to anything. So each
reading is compared with a clock that nobody can set. If the two part, nobody is given a time until they agree again.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from adjudge.service.http.errors import Unavailable

log = logging.getLogger(__name__)
MAX_STEP_S: Final = 300  # by which the wall clock may be stepped within an hour; time servers slew by far less
SETTLED_S: Final = 3600  # for which a time has to be seen before anything is deleted by it
SAMPLE_S: Final = 60  # seconds of readings that are remembered as one
SECOND_NS: Final = 1_000_000_000


def steady_ns() -> int:
    """Return nanoseconds of a clock that nobody can set; on Linux it also runs while the machine is suspended."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return time.monotonic_ns()


class Clock:
    """The time of day, compared with a clock that cannot be set.

    - `wall`: returns nanoseconds since 1970.
    - `steady`: returns nanoseconds since any moment, and is never set.

    >>> wall, steady = [0], [0]
    >>> clock = Clock(lambda: wall[0], lambda: steady[0])
    >>> wall[0] += 10**9; steady[0] += 10**9
    >>> clock.now()
    1000000
    >>> wall[0] += 3600 * 10**9
    >>> clock.read(), clock.doubt
    (3601000000, 'the clock has jumped 3600 s ahead: set it right, or accept its time (POST /v1/clock)')
    """

    def __init__(self, wall: Callable[[], int] = time.time_ns, steady: Callable[[], int] = steady_ns) -> None:
        self._wall, self._steady = wall, steady
        self.doubt: str | None = None  # why nobody is given a time now
        self.jump_s = 0.0  # by which the wall clock is ahead of where it should be
        self._readings: deque[tuple[int, int]] = deque()  # when some readings began by the steady clock, and the least of them
        self.accept()

    def accept(self) -> None:
        """Take the time that the wall clock shows now for right."""
        self._agreed_wall, self._agreed_steady = self._wall(), self._steady()
        self.read()

    def read(self) -> int:
        """Return what the wall clock shows, in microseconds since 1970, after a comparison with the steady one."""
        wall, steady = self._wall(), self._steady()
        elapsed = steady - self._agreed_steady
        jump = wall - self._agreed_wall - elapsed
        if abs(jump) > MAX_STEP_S * SECOND_NS:
            self._begin_doubt(jump, wall)
        else:
            if self.doubt is not None:
                self.doubt, self.jump_s = None, 0.0
                log.warning("the clock agrees with the monotonic clock again: events are taken")
            if elapsed > SETTLED_S * SECOND_NS:  # small steps and the drift of clocks do not add up for ever
                self._agreed_wall, self._agreed_steady = wall, steady
        self._remember(wall, steady)
        return wall // 1000

    def now(self) -> int:
        """Return the time in microseconds since 1970; raise `Unavailable` while it is in doubt."""
        read = self.read()
        if self.doubt is not None:
            raise Unavailable(self.doubt, retry_after=10)
        return read

    def elapsed_s(self) -> float:
        """Return seconds of the steady clock, to measure how long ago something was."""
        return self._steady() / SECOND_NS

    def settled(self) -> int | None:
        """Return a time that was reached an hour ago, and that no reading has been before since; None: it is too early to tell.

        What is deleted for good is deleted by this time, so that no single reading of a wrong clock deletes anything.
        """
        self.read()
        an_hour_ago = self._steady() - SETTLED_S * SECOND_NS
        while len(self._readings) > 1 and self._readings[1][0] <= an_hour_ago:
            self._readings.popleft()
        if self._readings[0][0] > an_hour_ago:
            return None
        return min(wall for _, wall in self._readings) // 1000

    def _begin_doubt(self, jump: int, wall: int) -> None:
        self.jump_s = jump / SECOND_NS
        which = "ahead" if jump > 0 else "back"
        text = f"the clock has jumped {abs(self.jump_s):.0f} s {which}"
        if self.doubt is None:
            shows = datetime.fromtimestamp(wall / SECOND_NS, UTC) if 0 <= wall < 1 << 62 else wall
            log.error("%s and shows %s: no events are taken, and nothing is done by time, until it is right", text, shows)
        self.doubt = f"{text}: set it right, or accept its time (POST /v1/clock)"

    def _remember(self, wall: int, steady: int) -> None:
        readings = self._readings
        if not readings or steady - readings[-1][0] >= SAMPLE_S * SECOND_NS:
            readings.append((steady, wall))
            if len(readings) > 2 * SETTLED_S // SAMPLE_S:
                readings.popleft()
        elif wall < readings[-1][1]:
            readings[-1] = readings[-1][0], wall
