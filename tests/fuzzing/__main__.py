"""Run every fuzz target as long as told: `make fuzz MINUTES=10`, or `python -m fuzzing --minutes 10 [--seed N] [target …]`.

A target is a module of this folder with a function `run(seed)`, which makes one case from the seed alone and raises
`AssertionError` when the outcome is wrong. A case that ends its process is caught here: its target and seed are printed,
and `python -m fuzzing --case TARGET SEED` runs it again.
"""

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
TARGETS = sorted(p.stem for p in HERE.glob("[a-z]*.py") if not p.stem.startswith("test_"))


def main():
    parser = argparse.ArgumentParser(prog="fuzzing", description="Run fuzz targets as long as told.")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None, help="where seeds begin; by default the time, so that runs differ")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--case", nargs=2, metavar=("TARGET", "SEED"))
    parser.add_argument("--worker", nargs=2, type=int, metavar=("NUMBER", "LOG"), help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*", default=TARGETS)
    given = parser.parse_args()
    unknown = set(given.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no target {sorted(unknown)[0]!r}: choose from {', '.join(TARGETS)}")
    if given.case:
        import_module(f"fuzzing.{given.case[0]}").run(int(given.case[1]))
    elif given.worker:
        work(given)
    else:
        sys.exit(watch(given))


def cases(targets, seed, number, jobs):
    """The targets in turn, each with its next seed; the jobs share the seeds among them."""
    for step in itertools.count(number, jobs):
        yield targets[step % len(targets)], seed + step


def work(given):
    """Run cases until told to stop; every case is written to the log before it begins."""
    number, log = given.worker
    ends = time.monotonic() + 60 * given.minutes
    for target, seed in cases(given.targets, given.seed, number, given.jobs):
        if time.monotonic() > ends:
            return
        os.write(log, f"{target} {seed}\n".encode())
        try:
            import_module(f"fuzzing.{target}").run(seed)
        except (Exception, SystemExit):
            traceback.print_exc()
            os.write(log, b"failed\n")


def watch(given):
    """Start a process per job, again when one dies; return 1 when a case failed, else 0."""
    seed = int(time.time()) * 1000 if given.seed is None else given.seed
    ends, done, failed = time.monotonic() + 60 * given.minutes, Counter(), []
    print(f"{given.minutes:g} minutes of {', '.join(given.targets)} in {given.jobs} processes, seeds from {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="adjudge-fuzz-") as folder:
        running = {number: start(given, seed, number, Path(folder)) for number in range(given.jobs)}
        while running:
            time.sleep(0.2)
            for number, (child, log) in list(running.items()):
                if child.poll() is None:
                    continue
                ran = log.read_text().split("\n")[:-1]
                for line, following in itertools.pairwise([*ran, ""]):
                    if line != "failed":
                        done[line.split()[0]] += 1
                        failed += [line] if following == "failed" else []
                del running[number]
                if child.returncode:
                    why = signal.Signals(-child.returncode).name if child.returncode < 0 else f"exit {child.returncode}"
                    failed.append(f"{ran[-1] if ran else 'no case'} ({why})")
                    if time.monotonic() < ends:
                        seed += 1_000_003  # on with other cases, not with those that ran
                        running[number] = start(given, seed, number, Path(folder))
    print(", ".join(f"{target} {n}" for target, n in sorted(done.items())))
    for case in failed:
        print(f"FAILED {case}: python -m fuzzing --case {' '.join(case.split()[:2])}")
    print(f"{sum(done.values()) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def start(given, seed, number, folder):
    """Start a process that runs its share of the cases; return it and its log."""
    log = folder / f"{number}-{seed}.log"
    with log.open("wb") as file:
        command = [sys.executable, "-m", "fuzzing", "--minutes", given.minutes, "--seed", seed, "--jobs", given.jobs]
        command += ["--worker", number, file.fileno(), *given.targets]
        path = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        child = subprocess.Popen([str(c) for c in command], pass_fds=[file.fileno()], env=environment, stdin=subprocess.DEVNULL)
    return child, log


if __name__ == "__main__":
    main()
