"""Who races: every peer and every model and engine of ours, with the settings of its best honest use."""

import importlib.util
import os
import shutil
from typing import NamedTuple

ITERATIONS = 10  # of every method that iterates: equal stopping rules
GIB = 2**30
MOST_BYTES = 8 * GIB  # of a matrix that a peer fills
SPARK_VOTES = 100_000  # one size: starting a pass costs a second there at any

# The newest libraries that each runs on: crowd-kit's Wawa fails with a later scikit-learn.
PACKAGES = {
    "crowd-kit": ("crowd-kit", "pandas>=3", "scikit-learn<1.6"),
    "peerannot": ("peerannot", "torch==2.13.0"),
    "cleanlab": ("cleanlab", "pandas>=3"),
    "snorkel": ("snorkel", "torch==2.13.0"),
    "evalica": ("evalica==0.4.2", "pandas>=3"),
    "arena-rank": ("arena-rank", "pandas>=3"),
    "krippendorff": ("krippendorff",),
}


class Contestant(NamedTuple):
    """One method of one library. `rival` is our equivalent; `bytes_of` returns the size of its matrices."""

    library: str
    method: str
    options: dict = {}  # noqa: RUF012 (nobody changes it)
    rival: str = ""
    family: bool = False  # of Dawid-Skene's kind: judged by its likelihood, and drawn
    iterations: str = ""  # the option that says how many
    bytes_of: object = None
    most_votes: float = float("inf")
    least_votes: int = 0
    title: str = ""  # where the method alone does not say it

    @property
    def name(self):
        return f"{self.library} {self.title or self.method}"

    @property
    def takes_frame(self):
        return self.library == "crowd-kit"


def _matrix(cells):
    """What `cells` numbers of eight bytes for each task and worker take."""
    return lambda tasks, workers, labels: tasks * workers * 8 * (cells(labels) if callable(cells) else cells)


FOREVER = {"n_iter": ITERATIONS, "tol": -1e30}  # the tolerance that never stops
PEERS = (
    Contestant("crowd-kit", "MajorityVote", rival="mv"),
    Contestant("crowd-kit", "Wawa", rival="wawa"),
    Contestant("crowd-kit", "DawidSkene", FOREVER, "ds", family=True, iterations="n_iter"),
    Contestant("crowd-kit", "OneCoinDawidSkene", FOREVER, "one-coin", family=True, iterations="n_iter"),
    Contestant("crowd-kit", "GLAD", FOREVER, "glad"),
    Contestant("crowd-kit", "MACE", {"n_iter": ITERATIONS, "n_restarts": 1}, "mace"),  # all its restarts begin alike
    Contestant(
        *("peerannot", "DawidSkene", {"maxiter": ITERATIONS, "epsilon": 0.0}, "ds"),
        family=True,
        iterations="maxiter",
        bytes_of=lambda tasks, workers, labels: tasks * workers * labels * 9,  # booleans, and once as numbers of 8 bytes
    ),
    Contestant("cleanlab", "get_majority_vote_label", rival="mv", bytes_of=_matrix(1), title="majority vote"),
    Contestant("cleanlab", "get_label_quality_multiannotator", rival="auto", bytes_of=_matrix(2), title="CROWDLAB"),
    Contestant("snorkel", "LabelModel", {"n_epochs": 100}, "ds", family=True, bytes_of=_matrix(lambda k: 1 + 2 * k)),
)
TEN = {"max_iter": ITERATIONS, "tol": 0.0}
REFERENCE_VOTES = 100_000  # beyond, plain NumPy is for nobody
OURS = (
    Contestant("adjudge", "mv"),
    Contestant("adjudge", "wawa"),
    Contestant("adjudge", "fds", TEN, family=True),
    Contestant("adjudge", "ds", TEN, family=True, iterations="max_iter"),
    Contestant("adjudge", "hybrid", TEN, family=True),
    Contestant("adjudge", "one-coin", TEN, family=True),
    Contestant("adjudge", "glad", TEN),
    Contestant("adjudge", "mace", {**TEN, "restarts": 1}),
    Contestant("adjudge", "auto", {"confidence": "honest"}, title="auto, honest confidence"),
    Contestant("adjudge", "mv", {"frame": True}, title="mv, frame to labels"),
    Contestant("adjudge", "fds", {**TEN, "frame": True}, title="fds, frame to labels"),
    Contestant("adjudge", "ds", {**TEN, "frame": True}, title="ds, frame to labels"),
    Contestant("adjudge", "fds", {**TEN, "engine": "disk"}, least_votes=10_000, title="fds, on disk"),
    Contestant("adjudge", "ds", {**TEN, "engine": "disk"}, least_votes=10_000, title="ds, on disk"),
    Contestant("adjudge", "fds", {**TEN, "engine": "reference"}, most_votes=REFERENCE_VOTES, title="fds, reference"),
    Contestant("adjudge", "ds", {**TEN, "engine": "reference"}, most_votes=REFERENCE_VOTES, title="ds, reference"),
)
SPARK = Contestant("adjudge", "fds", {**TEN, "engine": "spark"}, title="fds, on Spark")
FRAMES = {"mv": "mv, frame to labels", "ds": "ds, frame to labels"}  # the same with encoding and the frame of labels charged


def contestants():
    """All of them, in the order of the tables."""
    java = shutil.which("java") or os.environ.get("JAVA_HOME")
    spark = (SPARK,) if java and importlib.util.find_spec("pyspark") else ()
    return (*PEERS, *OURS, *spark)


def ours_of(peer, framed=False):
    """The name of ours that does what a peer does; with the encoding of a frame charged, or None where that is not raced."""
    title = FRAMES.get(peer.rival) if framed else {"auto": "auto, honest confidence"}.get(peer.rival, peer.rival)
    return title and f"adjudge {title}"


def unfit(contestant, cell):
    """Why a contestant is not asked at all for a cell of this size; None if it is."""
    if contestant.options.get("engine") == "spark" and (cell["votes"] != SPARK_VOTES or cell["labels"] != 4):
        return "one size only"
    if not contestant.least_votes <= cell["votes"] <= contestant.most_votes:
        return "small sizes only" if cell["votes"] > contestant.most_votes else "larger sizes only"
    if contestant.bytes_of:
        needed = contestant.bytes_of(cell["tasks"], cell["workers"], cell["labels"])
        if needed > MOST_BYTES:
            return f"not run: its matrix takes {needed / GIB:.0f} GiB"
    return None
