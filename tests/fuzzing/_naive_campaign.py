"""A campaign folded naively: what follows from acknowledged requests alone, written without a look at the service."""

from collections import Counter


class Refused(Exception):  # noqa: N818 (it is what a request expects)
    """The status of a request that changes nothing."""

    def __init__(self, status):
        super().__init__(status)
        self.status = status


class NaiveCampaign:
    """Votes in force and everything else that needs no model. Methods raise `Refused`, or return what the answer says."""

    def __init__(self, labels):
        self.labels = list(labels)
        self.votes = {}  # (task, worker) -> (label, id)
        self.ids = {}  # id -> (task, worker, label)
        self.tasks, self.workers = set(), set()
        self.gold, self.overrides = {}, {}
        self.banned, self.experts, self.groups = set(), set(), {}
        self.policies = 1
        self.logged = Counter()  # (task, worker, label, id) of votes and changes; label None for retractions
        self.annotations = {}  # Label Studio's, by number: (task, worker, label or None, updated_at)

    def vote(self, votes):
        """Take votes, all or none; return how many are new and how many were there already."""
        for vote in votes:
            if vote["label"] not in self.labels:
                raise Refused(422)
        known = dict(self.ids)
        for vote in votes:
            content = vote["task"], vote["worker"], vote["label"]
            if vote.get("id") is not None and known.setdefault(vote["id"], content) != content:
                raise Refused(409)
        accepted = sum(self._take(vote) for vote in votes)
        return accepted, len(votes) - accepted

    def _take(self, vote):
        task, worker, label, mark = vote["task"], vote["worker"], vote["label"], vote.get("id")
        if mark in self.ids if mark is not None else self.votes.get((task, worker), (None,))[0] == label:
            return False
        self.votes[task, worker] = label, mark
        self.tasks.add(task)
        self.workers.add(worker)
        if mark is not None:
            self.ids[mark] = task, worker, label
        self.logged[task, worker, label, mark] += 1
        return True

    def retract(self, task, worker):
        if self.votes.pop((task, worker), None) is None:
            raise Refused(404)
        self.logged[task, worker, None, None] += 1

    def add_tasks(self, tasks):
        self.tasks |= set(tasks)

    def set_gold(self, task, label):
        if label not in self.labels:
            raise Refused(422)
        self.gold[task] = label
        self.tasks.add(task)

    def drop_gold(self, task):
        if self.gold.pop(task, None) is None:
            raise Refused(404)

    def override(self, task, label):
        if task not in self.tasks:
            raise Refused(404)
        if label not in self.labels:
            raise Refused(422)
        self.overrides[task] = label

    def reopen(self, task):
        if task not in self.tasks:
            raise Refused(404)
        self.overrides.pop(task, None)

    def ban(self, workers, *, banned, dry_run):
        if not set(workers) <= self.workers:
            raise Refused(404)
        if not dry_run:
            self.banned = self.banned | set(workers) if banned else self.banned - set(workers)

    def set_worker(self, worker, group, expert):
        self.workers.add(worker)
        if group is not None:
            self.groups[worker] = group
        if expert is not None:
            (self.experts.add if expert else self.experts.discard)(worker)

    def add_label(self, label):
        if label in self.labels:
            raise Refused(409)
        self.labels.append(label)

    # --- Label Studio: the vote of a worker on a task is that of their latest annotation which has one

    def annotate(self, number, task, worker, label, updated):
        """Note an annotation, new or changed; without a label it was cancelled, or its choice was removed."""
        self.annotations[number] = task, worker, label, updated
        self._rebuild(task, worker)

    def drop_annotation(self, number):
        task, worker, *_ = self.annotations.pop(number)
        self._rebuild(task, worker)

    def _rebuild(self, task, worker):
        mine = [(updated, label) for t, w, label, updated in self.annotations.values() if (t, w) == (task, worker) and label]
        if mine:
            self.votes[task, worker] = max(mine)[1], None
            self.tasks.add(task)
            self.workers.add(worker)
        else:
            self.votes.pop((task, worker), None)

    # --- reads

    def on_task(self, task):
        """Return {worker: label} of the votes in force on a task."""
        return {worker: label for (t, worker), (label, _) in self.votes.items() if t == task}

    def counting(self, task):
        """Return how many votes on a task count, without a probation."""
        return sum(worker not in self.banned for worker in self.on_task(task))
