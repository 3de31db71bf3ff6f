"""`make crash`: a server under load is killed 100 times over SQLite and 100 times over PostgreSQL; nothing may be lost.

Four clients vote, change and take back, with and without ids, in single requests, batches and streams, while a moderator sets
gold, bans, decides, reopens and changes the policy. SIGKILL comes at random moments, also while the server starts, and every
life has another clock. In the end each acknowledged event has to be in the log exactly once, each unanswered one at most once,
the votes in force have to be those that the clients know, and a replay from the first event has to give the state of the last
life bit for bit, and the decisions that were recorded.
"""

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

KILLS = 100


def main(kills, seed):
    import postgres
    from crashing.proof import prove
    from crashing.run import crash

    with tempfile.TemporaryDirectory(prefix="adjudge-crash-") as folder:
        stores = {"SQLite": str(Path(folder) / "votes.db")}
        if postgres.programs() is None:
            print("PostgreSQL's programs are not there: it is left out")
        else:
            stores["PostgreSQL"] = postgres.server().fresh("crash")
        for name, store in stores.items():
            began = time.perf_counter()
            found = crash(store, kills, seed=seed, say=lambda kill, name=name: _progress(f"{name}: killed {kill} times"))
            figures = prove(store, *found)
            _progress("")
            told = ", ".join(f"{number} {what}" for what, number in figures.items())
            print(f"{name}: killed {kills} times, nothing lost, nothing twice: {told} ({time.perf_counter() - began:.0f} s)")


def _progress(text):
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":  # processes that are forked import this file
    main(int(sys.argv[1]) if len(sys.argv) > 1 else KILLS, int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns())
