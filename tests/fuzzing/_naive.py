"""The bookkeeping of one campaign, written a second time and as plainly as possible: what must be true after each request."""


class Naive:
    """Which votes are in force, which count, which tasks and labels there are.

    A worker is a number, because an erased name may come back as another worker.
    """

    def __init__(self, labels):
        self.labels = list(labels)
        self.numbers, self.names = {}, {}  # name -> number, number -> name or None once it is erased
        self.votes = {}  # (task, number) -> label
        self.ids = {}  # id -> (task, number, label)
        self.tasks, self.gold, self.banned = set(), {}, set()
        self.annotations = {}  # of Label Studio: id -> (task, worker name, label or None, stamp)

    def number(self, worker):
        if worker not in self.numbers:
            self.numbers[worker] = len(self.names)
            self.names[self.numbers[worker]] = worker
        return self.numbers[worker]

    def refuses(self, votes):
        """The status with which a batch is refused, or None."""
        if any(vote["label"] not in self.labels for vote in votes):
            return 422
        seen = dict(self.ids)
        for vote in votes:
            if (mark := vote.get("id")) is not None:
                says = vote["task"], self.numbers.get(vote["worker"], vote["worker"]), vote["label"]
                if seen.setdefault(mark, says) != says:
                    return 409
        return None

    def cast(self, votes):
        """Take a batch; the number of votes that were new or changed something."""
        accepted = 0
        for vote in votes:
            mark = vote.get("id")
            if mark is not None and mark in self.ids:
                continue
            number = self.number(vote["worker"])
            key = vote["task"], number
            if mark is None and self.votes.get(key) == vote["label"]:
                continue
            self.tasks.add(vote["task"])
            self.votes[key] = vote["label"]
            if mark is not None:
                self.ids[mark] = *key, vote["label"]
            accepted += 1
        return accepted

    def annotate(self):
        """Make the votes of Label Studio's tasks what the annotations that are left say."""
        wanted = {}
        for task, worker, label, stamp in sorted(self.annotations.values(), key=lambda one: one[3]):
            if label is not None:
                wanted[task, self.number(worker)] = label
        for key in [key for key in self.votes if key[0].startswith("7000")]:
            if key not in wanted:
                del self.votes[key]
        self.votes |= wanted
        self.tasks |= {task for task, _ in wanted}

    def evidence(self, task):
        """(worker, label, whether the worker is banned) of every vote on a task."""
        return sorted(
            ((self.names[number] or "", label, number in self.banned) for (of, number), label in self.votes.items() if of == task)
        )

    def in_force(self):
        """(task, worker, label) of every vote in force of workers who are not banned."""
        return sorted(
            (task, self.names[number] or "", label) for (task, number), label in self.votes.items() if number not in self.banned
        )
