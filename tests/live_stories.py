"""Stories of campaigns for tests: valid logs of every kind of event, and a naive model of which votes are in force."""

from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st

from adjudge.engines.registry import AutoEngine
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.store import events as e
from adjudge.service.store.archive import MemoryArchive

TASKS, WORKERS, LABELS = 6, 5, 3
POLICIES = (
    {"minimum_votes": 2, "confidence": 0.6},
    {"minimum_votes": 1, "maximum_votes": 3, "confidence": 0.7, "hold": 5e-6},
    {"minimum_votes": 2, "confidence": 0.55, "lock": 8e-6, "hysteresis": 0.1},
    {"minimum_votes": 1, "confidence": 0.6, "probation": {"votes": 2, "accuracy": 0.5}},
    {"minimum_votes": 2, "confidence": 0.6, "experts": {"decide": True}, "escalate": {"disagreement": 0.4, "tie": True}},
    {"minimum_votes": 2, "confidence": 0.6, "quorum": {"groups": 2, "votes": 1}},
    {"minimum_votes": 1, "confidence": 0.5, "breakers": {"window": 4}},
    {"minimum_votes": 1, "costs": {"*": {"*": 1.0}}, "maximum_cost": 0.4},
    {"minimum_votes": 1, "confidence": 0.5, "hold": 3e-6, "audit": {"share": 0.7, "error": 0.3, "run": 10, "deadline_days": 1}},
)

OPS = {
    "vote": 30,
    "retract": 4,
    "gold": 2,
    "policy": 1,
    "ban": 2,
    "unban": 2,
    "revisit": 2,
    "worker": 2,
    "rename": 1,
    "label": 1,
    "erase": 1,
    "override": 1,
    "reopen": 2,
    "audit": 2,
    "refit": 2,
    "tick": 3,
    "sweep": 3,
    "settings": 1,
    "reset": 1,
    "tasks": 1,
}


def make_ops(seed, length, kinds=tuple(OPS)):
    """What a story is made of: the kind of each event, and numbers that choose what it is about."""
    random = Random(seed)
    chosen = random.choices(kinds, [OPS[kind] for kind in kinds], k=length)
    return [(kind, *(random.randrange(97) for _ in range(3))) for kind in chosen]


def ops(*, without=(), most=120):
    """The same, chosen by hypothesis: by length and seed, as little happens in the short lists that it likes."""
    kinds = [kind for kind in OPS if kind not in without]
    return st.builds(make_ops, st.integers(0, 2**32), st.integers(1, most), st.just(kinds))


@dataclass
class Story:
    """A log that grows by valid events, and what must be true of the votes at its end."""

    policy: dict = field(default_factory=dict)
    model: str = "fds"
    settings: dict = field(default_factory=dict)
    log: list = field(default_factory=list)
    votes: dict = field(default_factory=dict)  # (task, worker) -> label, position
    gold: dict = field(default_factory=dict)
    banned: set = field(default_factory=set)
    workers: set = field(default_factory=set)
    tasks: set = field(default_factory=set)
    labels: int = LABELS
    time: int = 100
    begun: int = 0  # position of a refit under way

    def __post_init__(self):
        names = [f"l{n}" for n in range(LABELS)]
        self.log.append(
            e.Created(time=100, labels=names, names=names, model=self.model, policy=self.policy, settings=self.settings)
        )

    def tell(self, ops):
        for kind, *numbers in ops:
            self.time += numbers[2] % 3
            event = getattr(self, f"_{kind}")(*numbers)
            if event is not None:
                self.log.append(event)
        return self

    @property
    def next(self):
        return len(self.log) + 1

    def _vote(self, a, b, c):
        task, worker, label = f"t{a % TASKS}", 1 + b % WORKERS, c % self.labels
        known = (task, worker) in self.votes
        self.votes[task, worker] = label, self.next
        self.workers.add(worker)
        self.tasks.add(task)
        return (e.Change if known else e.Vote)(time=self.time, task=task, worker=worker, label=label)

    def _retract(self, a, b, c):
        if not self.votes:
            return None
        task, worker = sorted(self.votes)[(a * 97 + b) % len(self.votes)]
        del self.votes[task, worker]
        return e.Retraction(time=self.time, task=task, worker=worker)

    def _gold(self, a, b, c):
        task = f"t{a % TASKS}"
        if b % 3 == 0:
            return e.GoldSet(time=self.time, task=task, label=None) if self.gold.pop(task, None) is not None else None
        self.tasks.add(task)
        self.gold[task] = c % self.labels
        return e.GoldSet(time=self.time, task=task, label=c % self.labels)

    def _policy(self, a, b, c):
        return e.PolicySet(time=self.time, policy=POLICIES[a % len(POLICIES)])

    def _ban(self, a, b, c):
        chosen = sorted({1 + a % WORKERS, 1 + b % WORKERS} & self.workers)
        self.banned |= set(chosen)
        return e.Ban(time=self.time, workers=chosen) if chosen else None

    def _unban(self, a, b, c):
        chosen = sorted({1 + a % WORKERS, 1 + b % WORKERS} & self.workers)
        self.banned -= set(chosen)
        return e.Unban(time=self.time, workers=chosen) if chosen else None

    def _revisit(self, a, b, c):
        chosen = [f"t{n}" for n in range(TASKS) if (a * 97 + b) >> n & 1]
        return e.Revisit(time=self.time, tasks=chosen, reached=[1 + c % WORKERS] if len(chosen) == TASKS else [])

    def _worker(self, a, b, c):
        self.workers.add(1 + a % WORKERS)
        expert = (None, True, False)[c % 3]
        return e.WorkerSet(time=self.time, worker=1 + a % WORKERS, group=f"g{b % 2}", expert=expert)

    def _rename(self, a, b, c):
        return e.Rename(time=self.time, label=a % self.labels, name=f"name {b}")

    def _label(self, a, b, c):
        if self.labels >= LABELS + 2:
            return None
        self.labels += 1
        return e.LabelAdded(time=self.time, id=f"l{self.labels - 1}", name="one more")

    def _erase(self, a, b, c):
        return e.Erase(time=self.time, worker=1 + a % WORKERS) if 1 + a % WORKERS in self.workers else None

    def _override(self, a, b, c):
        task = f"t{a % TASKS}"
        return e.Override(time=self.time, task=task, label=b % self.labels, by="mo") if task in self.tasks else None

    def _reopen(self, a, b, c):
        task = f"t{a % TASKS}"
        return e.Reopen(time=self.time, task=task, by="mo") if task in self.tasks else None

    def _audit(self, a, b, c):
        if c % 4 == 0:  # the deadline of audits passes
            self.time += 24 * 3600 * 10**6
            return e.Tick(time=self.time)
        task = f"t{a % TASKS}"
        return e.AuditAnswer(time=self.time, task=task, label=b % self.labels, by="mo") if task in self.tasks else None

    def _refit(self, a, b, c):
        if self.begun:
            read, self.begun = self.begun, 0
            return e.RefitDone(time=self.time, read=read)
        self.begun = self.next
        return e.RefitBegun(time=self.time)

    def _tick(self, a, b, c):
        self.time += a % 10
        return e.Tick(time=self.time)

    def _sweep(self, a, b, c):
        return e.Sweep(time=self.time, decided=a % 4, others=b % 3)

    def _settings(self, a, b, c):
        return e.SettingsChanged(time=self.time, refit={"votes": 1 + a}, retention={"tasks": 1 + b})

    def _reset(self, a, b, c):
        return e.BreakerReset(time=self.time)

    def _tasks(self, a, b, c):
        self.tasks |= {f"t{a % TASKS}", f"t{b % TASKS}"}
        return e.TasksAdded(time=self.time, tasks=[f"t{a % TASKS}", f"t{b % TASKS}"])


def begin(log, archive=None):
    """The state before the first event."""
    return CampaignState(log[0], archive or MemoryArchive())


def fold(log, state=None, *, between=None, threads=None):
    """The state at the end of a log; `between` is called after every event."""
    state = state or begin(log)
    for position in range(state.position + 1, len(log) + 1):
        event = log[position - 1]
        state.apply(position, event)
        if type(event) is e.RefitBegun and threads is not None:
            state.refit_under_way.run(engine=AutoEngine(threads=threads))
        if between is not None:
            between(state)
    return state
