"""Exceptions that come at any moment: at every line that Python runs, or by a real signal."""

import signal
import sys
from pathlib import Path

import adjudge

INSIDE = str(Path(adjudge.__file__).parent)


class Interrupted(BaseException):
    """What interrupts; like KeyboardInterrupt no ordinary handler catches it."""


class LineTracer:
    """Raises at the n-th step (a call, a line or a return) that adjudge's own Python takes.

    Every step counts if `near` accepts the function's code; elsewhere one step in `every` counts.
    """

    def __init__(self, at, every=1, near=lambda _: True):
        self.at, self.every, self.near = at, every, near
        self.steps = self.passed = 0
        self.raised = False

    def __call__(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(INSIDE):
            return None
        if not self.near(frame.f_code):
            self.passed += 1
            if self.passed % self.every:
                return self
        if self.steps == self.at:
            if not self.raised:
                self.raised = True
                raise Interrupted
            return self
        self.steps += 1
        return self

    def run(self, action):
        """Returns whether the action came to its end."""
        before = sys.gettrace()
        try:
            sys.settrace(self)
            action()
        except Interrupted:
            return False
        finally:
            sys.settrace(before)
        return True


def at_every_step(prepare, act, check, **options):
    """Runs `act` once for each of its steps, raising there; `prepare` makes what it acts on, `check` looks at it after."""
    step, raised = 0, True
    while raised:
        subject, tracer = prepare(), LineTracer(step, **options)
        ended = tracer.run(lambda: act(subject))  # noqa: B023
        check(subject, ended)
        raised = tracer.raised  # one that was swallowed counts, too
        step += 1


def by_signal(action, seconds):
    """Repeats an action until a timer's signal handler raises in the middle of it."""
    armed, fired = [True], []

    def handler(*_):
        fired.append(1)
        if armed[0]:
            raise Interrupted

    before, tracer = signal.signal(signal.SIGALRM, handler), sys.gettrace()
    sys.settrace(None)  # a tool that measures coverage holds a lock now and then, and would never give it back
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, 0.05)  # again, should the first be swallowed
        while True:
            action()
    except BaseException:  # libraries may turn what interrupts them into an error of their own
        armed[0] = False
        if not fired:
            raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.settrace(tracer)
