"""Online: after any events the counts equal a recount; the same events give the same bytes; batch fits are met."""

import inspect
import pickle
import re
import statistics

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import adjudge as adj
from adjudge.data.options import DEFAULTS, STREAMED_DEFAULTS
from adjudge.kernels.online_honest import SHARE_UNITS
from adjudge.online import CONFIDENCE_CODES
from adjudge.online.reading import crowd_sums
from streams import LABELS, counts, recount, saved, with_reference

TASKS, WORKERS = st.integers(0, 5).map("t{}".format), st.integers(0, 4).map("w{}".format)


class Stream(RuleBasedStateMachine):
    """Learn, change and retract in any order, on the compiled state and on the reference side by side."""

    @initialize(
        model=st.sampled_from(["auto", "ds", "fds", "hybrid"]),
        duplicates=st.sampled_from(["last", "all"]),
        strength=st.sampled_from([0.0, 1.0, 2.5]),
        confidence=st.sampled_from(["honest", "posterior"]),
    )
    def begin(self, model, **options):
        self.duplicates = options["duplicates"]
        self.online = adj.Online(labels=LABELS, model=model, **options)
        self.twin = with_reference(labels=LABELS, model=model, **options)
        self.kept = {}
        self.number = {}  # of each task among all: the order of lists
        self.seen = 0
        self.away = {}
        self.labels = list(LABELS)
        self.gold = {}
        self.abstentions = 0
        self.events = []

    def in_order(self):
        return sorted(self.kept, key=self.number.get)

    def votes_on(self, task):
        """The votes that are kept of a task, which is there from now on."""
        if task not in self.kept:
            self.kept[task], self.number[task] = [], self.seen
            self.seen += 1
        return self.kept[task]

    @rule(task=TASKS, worker=WORKERS, nth=st.integers(0, 5))
    def learn(self, task, worker, nth):
        label = self.labels[nth % len(self.labels)]
        self.events.append(("learn", task, worker, label))
        for stream in (self.online, self.twin):
            stream.learn(task, worker, label)
        mine = self.votes_on(task)
        if self.duplicates == "last":
            mine[:] = [v for v in mine if v[0] != worker]
        mine.append((worker, label))

    @rule(task=TASKS, worker=WORKERS)
    def retract(self, task, worker):
        there = sum(w == worker for w, _ in self.kept.get(task, []))
        if not there:
            with pytest.raises(adj.InputError, match="has no vote on task"):
                self.online.retract(task, worker)
            return
        self.events.append(("retract", task, worker))
        assert self.online.retract(task, worker) == self.twin.retract(task, worker) == there
        self.kept[task] = [v for v in self.kept[task] if v[0] != worker]

    @rule(task=TASKS, worker=WORKERS, label=st.sampled_from([None, float("nan")]))
    def abstain(self, task, worker, label):
        self.events.append(("learn", task, worker, label))
        for stream in (self.online, self.twin):
            stream.learn(task, worker, label)
        self.votes_on(task)
        self.abstentions += 1

    @rule(task=TASKS, nth=st.integers(0, 5))
    def fix(self, task, nth):
        label = self.labels[nth % len(self.labels)]
        self.events.append(("gold", task, label))
        for stream in (self.online, self.twin):
            stream.gold(task, label)
        self.gold[task] = label
        seen = self.online.predict(task)
        assert (seen.label, seen.confidence, seen.tie, seen.gold) == (label, 1.0, False, True)
        assert seen.votes == len(self.kept.get(task, []))

    @rule(task=TASKS)
    def free(self, task):
        if task not in self.gold:
            with pytest.raises(adj.InputError, match="has no gold to take back"):
                self.online.gold(task, None)
            return
        self.events.append(("gold", task, None))
        for stream in (self.online, self.twin):
            stream.gold(task, None)
        del self.gold[task]

    @rule(task=TASKS)
    def evict(self, task):
        """Workers keep what they are, and a task that was made of the same id meanwhile is another one."""
        if task not in self.kept:
            with pytest.raises(adj.InputError, match="nothing to evict"):
                self.online.evict(task)
            return
        if task in self.away:
            return
        self.events.append(("evict", task))
        before = counts(self.online)
        left = self.online.evict(task)
        assert left == self.twin.evict(task)
        assert counts(self.online) == before
        assert [worker for worker, _ in left.votes] == [worker for worker, _ in self.kept[task]]
        self.away[task] = left, self.kept.pop(task), self.gold.pop(task, None), self.number.pop(task)

    @rule(task=TASKS)
    def bring_back(self, task):
        if task not in self.away:
            return
        left, votes, gold, number = self.away[task]
        if task in self.kept:
            for stream in (self.online, self.twin):
                with pytest.raises(adj.InputError, match="the task is in memory"):
                    stream.bring_back(left)
            return
        self.events.append(("bring_back", left))
        for stream in (self.online, self.twin):
            stream.bring_back(left)
        del self.away[task]
        self.kept[task], self.number[task] = votes, number
        if gold is not None:
            self.gold.setdefault(task, gold)  # what was given meanwhile is newer

    @rule()
    def refit(self):
        """A refit is the batch fit of the votes that are left, with the gold that is left."""
        votes = [(task, *vote) for task in self.in_order() for vote in self.kept[task]]
        if not votes:
            return
        self.events.append(("refit",))
        again = [stream.refit(engine="reference") for stream in (self.online, self.twin)]
        if any(votes for _, votes, *_ in self.away.values()):  # what they taught is known, too
            assert again[0].labels.equals(again[1].labels)
            return
        gold = {task: label for task, label in self.gold.items() if self.kept.get(task)}
        batch = adj.aggregate(
            votes,
            model=self.online.settings["model"],
            labels=self.labels,
            gold=gold or None,
            confidence=self.online.settings["confidence"],
            engine="reference",
        )
        voted = again[0].labels.filter(again[0].labels["votes"] > 0)
        same = [name for name in batch.labels.columns if name != "confidence"]
        assert voted.select(same).equals(batch.labels.select(same))
        assert voted["confidence"].to_list() == pytest.approx(batch.labels["confidence"].to_list(), abs=1e-9)
        now = self.online.labels().filter(pl.col("votes") > 0)
        if gold:
            assert now["gold"].equals(batch.labels["gold"])

    @rule(task=TASKS)
    def forget(self, task):
        if task not in self.kept:
            with pytest.raises(adj.InputError, match="nothing to forget"):
                self.online.forget(task)
            return
        self.events.append(("forget", task))
        assert self.online.forget(task) == self.twin.forget(task) == len(self.kept.pop(task))
        self.gold.pop(task, None)
        with pytest.raises(adj.InputError, match="was never seen"):
            self.online.predict(task)

    @precondition(lambda self: len(self.labels) < 6)
    @rule()
    def add_label(self):
        label = f"label {len(self.labels)}"
        with pytest.raises(adj.InputError, match="is not among the declared labels: a, b, c"):
            self.online.learn("t0", "w0", label)
        self.events.append(("add_label", label))
        for stream in (self.online, self.twin):
            stream.add_label(label)
            with pytest.raises(adj.InputError, match="is listed twice"):
                stream.add_label(label)
        self.labels.append(label)
        assert self.online.settings["labels"] == self.labels

    @rule()
    def load(self):
        """What was forgotten is not in the file, and a stream continues from it as if it had never been saved."""
        self.online = pickle.loads(pickle.dumps(self.online))

    @invariant()
    def counts_equal_a_recount(self):
        if hasattr(self, "online"):
            assert counts(self.online) == recount(self.online)

    @invariant()
    def compiled_and_reference_agree(self):
        if hasattr(self, "online"):
            assert self.online.labels().equals(self.twin.labels())
            assert self.online.workers().equals(self.twin.workers())
            kind = CONFIDENCE_CODES[self.online.settings["confidence"]]
            crowds = [stream._renewal.read(kind, stream._state.crowd) for stream in (self.online, self.twin)]
            assert all(map(np.array_equal, *crowds))
            ids, cells = self.online.workers()["worker"].cast(pl.String).to_list(), crowd_sums(crowds[0]).by_answer()
            found = [stream._state.judge([*ids, "nobody"], *cells) for stream in (self.online, self.twin)]
            assert all(map(np.array_equal, *found))
            one, two = (stream._state.snapshot() for stream in (self.online, self.twin))
            assert one.keys() == two.keys()
            assert all(np.array_equal(one[name], two[name]) for name in one if one[name] is not None)

    @invariant()
    def kept_votes_are_those_cast(self):
        if hasattr(self, "online"):
            votes = list(self.online.labels().select("task", "votes").iter_rows())
            assert votes == [(task, len(self.kept[task])) for task in self.in_order()]
            assert self.online.state.evicted == self.twin.state.evicted == len(self.away)
            assert len(self.online) == len(votes)
            assert dict(self.online.gold_labels().iter_rows()) == self.gold
            fixed = self.online.labels().filter(pl.col("task").is_in(list(self.gold)))
            assert dict(fixed.select("task", "label").iter_rows()) == {t: self.gold[t] for t in self.kept if t in self.gold}
            assert self.online.abstentions == self.twin.abstentions == self.abstentions

    def teardown(self):
        """Replaying the same events gives the same bytes; a read that measures is one of them."""
        if hasattr(self, "online") and self.events:
            again = adj.Online(**{**self.online.settings, "labels": LABELS})
            again.labels()
            for name, *arguments in self.events:
                getattr(again, name)(*arguments, **({"engine": "reference"} if name == "refit" else {}))
                again.labels()
            assert saved(self.online) == saved(again) == saved(self.twin)


TestStream = pytest.mark.filterwarnings("ignore::adjudge.NotConverged")(Stream.TestCase)
TestStream.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)

VOTES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 19), st.integers(0, 4)), min_size=1, max_size=60)


@given(votes=VOTES, k=st.integers(2, 5), model=st.sampled_from(["ds", "hybrid"]), strength=st.floats(0, 3), last=st.booleans())
def test_soft_streams_have_the_same_bits_with_and_without_the_compiled_core(votes, k, model, strength, last):
    """Tasks with many votes, whose probabilities are multiplied in groups, and any weight of the mean worker."""
    options = {"labels": range(k), "model": model, "strength": strength, "duplicates": "last" if last else "all"}
    one, two = adj.Online(**options), with_reference(**options)
    for online in (one, two):
        online.learn_many([(task, worker, label % k) for task, worker, label in votes])
        online.retract(votes[0][0], votes[0][1])
    assert saved(one) == saved(two)
    assert one.labels().equals(two.labels())
    for worker in {worker for _, worker, _ in votes}:
        assert one.confusion(worker).equals(two.confusion(worker))


CROWD = adj.simulate(tasks=300, workers=15, labels=3, votes_per_task=5, skill=0.85, seed=3)
NAMES = ["l0", "l1", "l2"]


@pytest.mark.parametrize("model", ["auto", "ds", "fds", "hybrid"])
def test_learn_many_is_learn_in_order(model, tmp_path):
    one, many = (adj.Online(labels=NAMES, model=model) for _ in range(2))
    for row in CROWD.votes.rows():
        one.learn(*row)
    many.learn_many(CROWD.votes.head(500))
    many.learn_many(iter([CROWD.votes.slice(500, 300), CROWD.votes.tail(len(CROWD.votes) - 800)]))
    one.save(tmp_path / "one")
    many.save(tmp_path / "many")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()


@pytest.mark.parametrize("model", ["ds", "fds", "hybrid"])
def test_refit_is_a_cold_batch_fit(model):
    online = adj.Online(labels=NAMES, model=model)
    shuffled = CROWD.votes.sample(fraction=1.0, shuffle=True, seed=2)
    online.learn_many(shuffled)
    batch = adj.aggregate(shuffled, model=model, labels=NAMES)
    again = online.refit()
    assert again.labels.sort("task").drop("confidence").equals(batch.labels.sort("task").drop("confidence"))
    assert again.iterations == batch.iterations
    today = online.labels().sort("task")
    assert (today["label"] == batch.labels.sort("task")["label"]).mean() > 0.97
    warm = online.refit(warm=True)
    assert warm.iterations < batch.iterations
    assert warm.log_likelihood >= batch.log_likelihood - 0.01 * abs(batch.log_likelihood)


@pytest.mark.parametrize("model", ["ds", "fds", "hybrid"])
def test_from_result_keeps_votes_rules_and_counts(model):
    result = adj.aggregate(CROWD.votes, model=model, seed=4)
    online = adj.Online.from_result(result, strength=0.0)
    assert len(online) == 300
    assert online._duplicates == "all"
    assert adj.Online.from_result(adj.aggregate(adj.read(CROWD.votes, duplicates="last")))._duplicates == "last"
    if model != "ds":
        result.session.recount(result.fit.outcome.labels)
        counts = result.session.gather(lambda _, counts: counts)
        flat, _ = online._state.counts()
        assert np.array_equal(np.reshape(flat, counts.shape), counts * SHARE_UNITS)
    workers = online.workers().sort("worker")
    assert workers["votes"].to_list() == result.workers.sort("worker")["votes"].to_list()
    assert online.refit().labels.drop("confidence").equals(result.labels.drop("confidence"))


def test_a_stream_follows_its_workers(paper_votes):
    """On sp, half in a batch and the rest one vote at a time in any order: within 0.3 points of the batch of all."""
    votes, truth = paper_votes("sp", 5)
    for k in (3, 4, 5):
        some = votes.filter(pl.int_range(pl.len()).over("task") < k)
        batch = adj.evaluate(adj.aggregate(some, model="fds"), truth).accuracy
        tasks = some["task"].unique(maintain_order=True)
        online_accuracy = []
        for seed in range(10):
            first = tasks.sample(len(tasks) // 2, seed=seed).implode()
            known = some.filter(pl.col("task").is_in(first))
            online = adj.Online.from_result(adj.aggregate(known, model="fds", seed=seed, confidence="posterior"))
            online.learn_many(some.filter(~pl.col("task").is_in(first)).sample(fraction=1.0, shuffle=True, seed=seed))
            online_accuracy.append(adj.evaluate(online.labels().select("task", "label"), truth).accuracy)
        assert statistics.mean(online_accuracy) > batch - 0.003


def test_save_and_load(tmp_path):
    for model in ("fds", "ds", "auto"):
        online = adj.Online.from_result(adj.aggregate(CROWD.votes, model=model))
        online.learn("new", "w1", "l2")
        online.save(tmp_path / "state")
        loaded = adj.Online.load(tmp_path / "state", labels=NAMES)
        loaded.save(tmp_path / "again")
        assert (tmp_path / "state").read_bytes() == (tmp_path / "again").read_bytes()
        for stream in (online, loaded):
            stream.learn("t3", "somebody", "l0")
        assert online.labels().equals(loaded.labels())
        assert online.workers().equals(loaded.workers())


def test_loading_what_cannot_be_loaded(tmp_path):
    path = tmp_path / "state"
    online = adj.Online(labels=["x", "y"])
    online.learn(1, 2, "x")
    online.save(path)
    good = path.read_bytes()
    with pytest.raises(adj.InputError, match="has the labels x, y"):
        adj.Online.load(path, labels=["x", "z"])
    path.write_bytes(good[:-1] + b"?")
    with pytest.raises(adj.InputError, match="is damaged"):
        adj.Online.load(path)
    path.write_bytes(good[:40])
    with pytest.raises(adj.InputError, match="is damaged"):
        adj.Online.load(path)
    path.write_text("hello")
    with pytest.raises(adj.InputError, match="is not a file that adjudge saved"):
        adj.Online.load(path)
    with pytest.raises(adj.InputError, match="cannot read"):
        adj.Online.load(tmp_path / "nope")
    from adjudge.io import container

    container.save(path, "online", 99, {}, {})
    with pytest.raises(adj.AdjudgeError, match="saved by a newer adjudge"):
        adj.Online.load(path)
    container.save(path, "other", 1, {}, {})
    with pytest.raises(adj.InputError, match="holds 'other', not 'online'"):
        adj.Online.load(path)
    with pytest.raises(adj.InputError, match="does not exist"):
        online.save(tmp_path / "no" / "state")


def test_bad_votes_leave_the_state_as_it_was(tmp_path):
    online = adj.Online(labels=["x", "y"])
    online.learn(7, 3, "x")
    online.save(tmp_path / "before")
    bad = [
        (lambda: online.learn("t", "w", "z"), "label 'z' is not among the declared labels: x, y"),
        (lambda: online.learn(None, "w", "x"), "task is None: give text or a whole number"),
        (lambda: online.learn("t", 1.5, "x"), "worker is 1.5"),
        (lambda: online.learn_many([("t", "w", "x"), ("t", "w", "z")]), "label 'z' in row 2"),
        (lambda: online.learn_many([("t", None, "x")]), "worker is missing in row 1"),
        (lambda: online.retract(7, 4), "worker 4 has no vote on task 7"),
        (lambda: online.retract("none", 3), "worker 3 has no vote on task 'none'"),
        (lambda: online.predict("none"), "task 'none' was never seen"),
        (lambda: online.confusion("none"), "worker 'none' has no votes here"),
    ]
    for action, message in bad:
        with pytest.raises(adj.InputError, match=message):
            action()
        online.save(tmp_path / "after")
        assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()
    with pytest.raises(adj.InputError, match="labels is empty"):
        adj.Online(labels=[])
    with pytest.raises(adj.InputError, match="a fit of 'mv' cannot continue as a stream"):
        adj.Online.from_result(adj.aggregate([(1, 2, 3)], model="mv"))
    for options in ({"model": "mv"}, {"duplicates": "first"}, {"strength": -1}):
        with pytest.raises(adj.OptionError):
            adj.Online(labels=["x"], **options)


def test_ids_come_back_as_they_went_in_and_abstentions_are_not_votes():
    online = adj.Online(labels=[1, 2])
    with pytest.warns(adj.MissingLabels, match="1 of 3 votes have no label"):
        online.learn_many([(10, 1, 1), (9, 1, None), (9, 2, 2)])
    online.learn("11", 1, "2")
    frame = online.labels()
    assert frame["task"].to_list() == [10, 9, 11]
    assert frame["label"].to_list() == [1, 2, 2]
    assert online.confusion(1).columns == ["true", "1", "2"]
    online.retract(11, 1)
    assert online.labels().row(2) == (11, None, None, 0, False)
    assert online.predict(11).votes == 0
    assert repr(online) == "Online(fds: 3 tasks, 2 workers, 2 labels)"


@pytest.mark.parametrize("compiled", [True, False])
def test_learn_many_counts_abstentions_as_learn_does(compiled, tmp_path):
    rows = [("t1", "ann", "x"), ("t2", "ann", None), ("t1", "ann", None), (7, "bob", "y"), ("t3", "eve", float("nan"))]
    make = adj.Online if compiled else with_reference
    one, many = (make(labels=["x", "y"]) for _ in range(2))
    for row in rows:
        one.learn(*row)
    with pytest.warns(adj.MissingLabels, match="3 of 5 votes have no label"):
        many.learn_many([(str(task), *rest) for task, *rest in rows])
    assert saved(one) == saved(many)
    assert one.abstentions == many.abstentions == 3
    assert one.labels().select("task", "label", "votes").rows() == [
        *(("t1", "x", 1), ("t2", None, 0), ("7", "y", 1), ("t3", None, 0))  # the vote of ann stays
    ]
    assert one.workers()["worker"].to_list() == ["ann", "bob"]
    assert one.predict("t2").label is None
    fitted = one.refit()
    assert fitted.votes.abstentions == 3
    assert fitted.votes.unvoted.ids() == ["t2", "t3"]
    with pytest.raises(adj.InputError, match="label '' is not among the declared labels"):  # as in a batch
        one.learn("t1", "ann", "")
    with pytest.raises(adj.InputError, match="worker is None"):
        one.learn("t1", None, None)


@pytest.mark.filterwarnings("ignore::adjudge.MissingLabels")
def test_from_result_keeps_abstentions_and_the_tasks_that_have_nothing_else():
    rows = [(1, "ann", "x"), (1, "bob", "x"), (2, "ann", None), (3, "bob", "y"), (4, "eve", None)]
    for model in ("auto", "ds", "fds", "hybrid"):
        result = adj.aggregate(rows, model=model)
        online = adj.Online.from_result(result)
        assert online.abstentions == 2
        columns = ["task", "label", "votes"]
        assert online.labels().select(columns).equals(result.labels.select(columns))
        online.learn(4, "ann", "y")
        assert online.labels()["label"].to_list() == ["x", "y", None, "y"]


def test_defaults_are_those_of_batch_fits_but_for_three_that_both_docstrings_explain():
    given = inspect.signature(adj.Online).parameters
    assert {name: given[name].default for name in STREAMED_DEFAULTS._fields} == STREAMED_DEFAULTS._asdict()
    others = [name for name, value in STREAMED_DEFAULTS._asdict().items() if value != getattr(DEFAULTS, name)]
    assert others == ["model", "duplicates", "strength"]
    about_batch, about_stream = (inspect.getdoc(one) for one in (adj.aggregate, adj.Online))
    told = about_batch[about_batch.index("`adj.Online`") :].split("\n\n")[0]
    for name in others:
        explained = re.search(rf"^{name} : .*\n(?:    .*\n)+", about_stream, re.MULTILINE)
        assert "`adj.aggregate`" in explained[0]
        assert f"`{name}`" in told


def test_newcomers_start_like_the_population():
    online = adj.Online.from_result(adj.aggregate(CROWD.votes, model="fds"), strength=3.0)
    online.learn("fresh", "newcomer", "l1")
    new = online.confusion("newcomer").drop("true").to_numpy()
    assert new.sum(axis=1) == pytest.approx(1.0)
    assert (np.diag(new) > 0.5).all()


@pytest.mark.parametrize("kind", ["pandas", "pyarrow"])
def test_frames_come_back_in_the_kind_that_was_given(kind):
    votes = pl.DataFrame({"task": [1, 1, 2], "worker": ["a", "b", "a"], "label": ["x", "y", None]})
    given = votes.to_pandas() if kind == "pandas" else votes.to_arrow()
    learned = adj.Online(labels=["x", "y"])
    learned.learn_many([(3, "c", "x")])
    assert isinstance(learned.labels(), pl.DataFrame)
    with pytest.warns(adj.MissingLabels):
        learned.learn_many(given)
    learned.learn_many(votes.head(1))  # of polars, as rows of other sources are
    with pytest.warns(adj.MissingLabels):
        continued = adj.Online.from_result(adj.aggregate(given))
    for online in (learned, continued):
        online.gold(1, "y")
        found = [online.labels(), online.workers(), online.confusion("a"), online.gold_labels(), online.refit().workers]
        assert {type(frame).__module__.partition(".")[0] for frame in found} == {kind}
        frame = online.labels_frame()
        assert isinstance(frame, pl.DataFrame)
        assert adj.evaluate(online, {1: "y"}).accuracy == 1.0
    if kind == "pandas":
        assert learned.labels()["task"].tolist() == [3, 1, 2]
        assert learned.labels()["label"].isna().tolist() == [False, False, True]
