"""Votes with weights: against the naive version, against repeated votes, on every engine, and with everything else."""

import pickle
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjudge as adj
import oracle_weights as naive
from adjudge.data.votes import without_weights
from adjudge.engines import memory
from adjudge.kernels.reference import pick
from fitting import aggregate
from same_fit import assert_same

EM = ("ds", "fds", "hybrid")
MODELS = ("mv", *EM, "one-coin", "iwmv", "auto")
ENGINES = ("cpu", "reference", "disk")
QUARTERS = st.integers(1, 12).map(lambda n: n / 4)
ANY = st.one_of(QUARTERS, st.floats(2**-12, 1000.0).map(lambda x: round(x * 2**12) / 2**12))


@st.composite
def crowds(draw, weights=ANY, max_tasks=8, max_workers=5, max_labels=4, max_votes=30):
    """Lists of (task, worker, label, weight)."""
    labels = draw(st.integers(1, max_labels))
    vote = st.tuples(
        st.integers(0, max_tasks - 1).map("t{}".format),
        st.integers(0, max_workers - 1).map("w{}".format),
        st.integers(0, labels - 1).map("l{}".format),
        weights,
    )
    return draw(st.lists(vote, min_size=1, max_size=max_votes))


def fit(votes, model, *, weight="weight", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        warnings.simplefilter("ignore", adj.MissingLabels)
        return aggregate(votes, model=model, weight=weight, **options)


def as_dict(frame, value):
    return dict(frame.select("task", value).iter_rows())


def lines(frame):
    return {row[0]: np.array(row[1:]) for row in frame.iter_rows()}


def crowd(seed=1, *, low=0.1, high=3.0, hard=None, **options):
    """A simulated crowd with a weight per vote; workers guess on every `hard`-th task, and so err together."""
    votes = adj.simulate(**({"tasks": 60, "workers": 8, "votes_per_task": 4, "seed": seed} | options)).votes
    draw = np.random.default_rng(seed)
    votes = votes.with_columns(weight=pl.Series(draw.uniform(low, high, len(votes))))
    if hard is None:
        return votes
    names = votes["label"].unique().sort()
    guess = names.gather(draw.integers(0, len(names), len(votes)))
    is_hard = votes["task"].str.strip_prefix("t").cast(pl.Int64) % hard == 0
    return votes.with_columns(label=guess.zip_with(is_hard, votes["label"]))


def is_narrow(line, near=1e-6):
    top = sorted(line.values(), reverse=True)
    return len(top) > 1 and top[0] - top[1] < near


@given(crowds(), st.integers(0, 5))
def test_majority_of_the_naive_version(votes, seed):
    result = fit(votes, "mv", seed=seed, confidence="posterior")
    shares = naive.shares(votes)
    want = naive.majority(votes, seed)
    got = as_dict(result.labels, "label")
    assert {t: c for t, c in got.items() if not is_narrow(shares[t], 1e-8)} == {
        t: c for t, c in want.items() if not is_narrow(shares[t], 1e-8)
    }
    for task, line in lines(result.posterior).items():
        names = result.posterior.columns[1:]
        assert line == pytest.approx([shares[task].get(name, 0.0) for name in names], abs=1e-9)


@pytest.mark.parametrize("model", EM)
@given(votes=crowds(QUARTERS), seed=st.integers(0, 3), smoothing=st.sampled_from([0.0, 0.5]))
def test_em_of_the_naive_version(model, votes, seed, smoothing):
    want = naive.fit(votes, model, seed=seed, smoothing=smoothing)
    if any(is_narrow(line) and not is_narrow(line, 1e-12) for line in want["posterior"].values()):
        return  # where two labels are that close, sums in another order may swap them
    result = fit(votes, model, seed=seed, smoothing=smoothing, confidence="posterior")
    assert as_dict(result.labels, "label") == want["labels"]
    assert result.iterations == want["iterations"]
    assert result.log_likelihood == pytest.approx(want["log_likelihood"], rel=1e-9, abs=1e-9)
    names = result.posterior.columns[1:]
    for task, line in lines(result.posterior).items():
        assert line == pytest.approx([want["posterior"][task][name] for name in names], abs=1e-7)
    for worker in result.workers["worker"]:
        matrix = result.confusion_matrix(worker)
        expected = [[want["confusion"].get((worker, true, said), 0.0) for said in names] for true in names]
        assert matrix == pytest.approx(np.array(expected), abs=1e-7)


@given(crowds(QUARTERS), st.integers(0, 3))
def test_iwmv_of_the_naive_version(votes, seed):
    want, result = naive.iwmv(votes, seed), fit(votes, "iwmv", seed=seed)
    assert as_dict(result.labels, "label") == want["labels"]
    assert dict(result.workers.select("worker", "weight").iter_rows()) == pytest.approx(want["weights"], abs=1e-9)


def codes_of(votes):
    """The naive arrays of encoded votes, their majority vote, and how the package breaks ties."""
    fitted = adj.MajorityVote().fit(votes, engine="reference")
    store, hashes = fitted.session._store, fitted.session._rules.label_hash
    task = np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))
    row = votes.row
    arrays = naive.Votes(task, votes.row_worker()[row], votes.row_label[row], votes.row_weight[row], votes.n_labels)
    return arrays, fitted.fit.outcome.labels, lambda scores: pick(scores, store._task_key, hashes)[0]


CROWDS = [
    {"seed": 1},
    {"seed": 2, "labels": 2, "skill": 0.6},
    {"seed": 3, "spammers": 0.3},
    {"seed": 4, "skill": 0.9, "hard": 2, "workers": 12, "votes_per_task": 10},
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("made", CROWDS, ids=str)
def test_auto_of_the_naive_version(made, engine):
    votes = adj.read(crowd(**made), weight="weight")
    arrays, majority, choose = codes_of(votes)
    labels, fell_back = naive.auto(arrays, majority, choose)
    result = adj.aggregate(votes, engine=engine)
    assert result.fit.outcome.labels.tolist() == labels.tolist()
    assert result.facts["chose"] == ("majority" if fell_back else "careful")
    rho, mean_k, _ = naive.shared_error(arrays, majority)
    assert (result.facts["shared_error"], result.facts["votes_per_task"]) == pytest.approx((rho, mean_k), abs=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", MODELS)
def test_honest_confidence_of_the_naive_version(model, engine):
    for made in (CROWDS[0], CROWDS[3]):
        votes = adj.read(crowd(**made), weight="weight")
        arrays, majority, _ = codes_of(votes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", adj.NotConverged)
            result = adj.aggregate(votes, model=model, engine=engine)
        want = naive.honest(arrays, result.fit.outcome.labels, majority)
        assert result.probabilities.drop("task").to_numpy() == pytest.approx(want, abs=1e-9)
        assert result.labels["confidence"].to_numpy() == pytest.approx(want.max(axis=1), abs=1e-9)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("made", [{**one, "weights": n} for one, n in zip(CROWDS, (3, 10_000, 3, 10_000), strict=True)], ids=str)
def test_workers_of_the_naive_version(made, engine):
    """How far answers follow what the others say, the chance of a label, and the mean and the width of intervals."""
    table = crowd(**{name: value for name, value in made.items() if name != "weights"})
    if made["weights"] == 3:  # several votes in a row, and several rows of a label
        table = table.with_columns(pl.col("weight").round(0) + 0.5)
    votes = adj.read(table, weight="weight")
    arrays, majority, _ = codes_of(votes)
    result = adj.aggregate(votes, model=adj.DawidSkene(max_iter=1000), engine=engine, confidence="honest")
    labels, found = result.fit.outcome.labels, result.fit.honest
    assert result.facts["shared_error"] > 0.02 or "hard" not in made
    z = naive.below_chance(arrays, labels, majority)
    assert found.below_chance(votes) == pytest.approx(z, abs=1e-6)
    assert result.workers["below_chance"].to_numpy() == pytest.approx(z, abs=1e-6)
    p = naive.before(arrays, labels, majority)
    for wanted in (np.zeros(votes.n_tasks, np.int32), np.arange(votes.n_tasks, dtype=np.int32) % votes.n_labels):
        assert found.chance(wanted) == pytest.approx(p[np.arange(votes.n_tasks), wanted], abs=1e-9)
    mean = arrays.by_worker(p[arrays.task, arrays.label]) / arrays.given
    assert result.workers["accuracy"].to_numpy() == pytest.approx(np.clip(mean, 0.01, 0.99), abs=1e-6)


def alike(table):
    """The same votes with one weight, and with weights that differ by nothing to speak of, and so have rows of their own."""
    nearly = 2.0 + pl.int_range(pl.len()) % 7 * 2.0**-38
    return table.with_columns(weight=pl.lit(2.0)), table.with_columns(weight=nearly)


def test_below_chance_with_gold_is_that_of_any_row_of_the_label():
    """What gold says goes to every row of its label: weights that differ by nothing to speak of change nothing."""
    same, nearly = alike(crowd(3, tasks=80))
    gold = {f"t{n}": "l1" for n in range(25)}
    z = [fit(votes, "ds", gold=gold).workers["below_chance"].to_numpy() for votes in (same, nearly)]
    assert z[1] == pytest.approx(z[0], abs=1e-6)
    assert np.abs(z[0] - fit(same, "ds").workers["below_chance"].to_numpy()).max() > 0.1


def test_lines_are_the_same_in_any_chunks(monkeypatch):
    from adjudge.models import honest

    votes = adj.read(crowd(4, labels=5), weight="weight")
    whole = adj.aggregate(votes, model="mv")
    monkeypatch.setattr(honest, "CHUNK_CELLS", 1)  # a worker at a time
    cut = adj.aggregate(votes, model="mv")
    assert cut.labels.equals(whole.labels)
    assert cut.workers.equals(whole.workers)


def test_votes_without_some_workers_keep_their_weights():
    votes = adj.read(crowd(5), weight="weight")
    out = np.isin(votes.workers.ids(), ["w1", "w4"])
    left, tasks = votes.without_workers(out)
    again = adj.read(crowd(5).filter(~pl.col("worker").is_in(["w1", "w4"])), weight="weight")
    assert left.row_weight.tolist() == again.row_weight.tolist()
    assert left.row.tolist() == again.row.tolist()
    assert [votes.tasks.ids()[n] for n in tasks] == again.tasks.ids()


def test_copies_are_proved_among_weighted_votes():
    made = adj.simulate(tasks=300, workers=12, votes_per_task=8, skill=0.7, colluders=0.25, seed=1).votes
    draw = np.random.default_rng(1).choice([0.5, 1.0, 2.0], len(made))
    plain = adj.aggregate(made, model="mv").workers
    weighted = adj.aggregate(made.with_columns(weight=pl.Series(draw)), model="mv", weight="weight").workers
    copies = [frame.filter(pl.col("verdict") == "copy")["worker"].to_list() for frame in (plain, weighted)]
    assert copies[0]
    assert copies[0] == copies[1]
    likes = [frame["answers_like"].drop_nulls().len() for frame in (plain, weighted)]
    assert likes[0] == likes[1] > 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", MODELS)
def test_weights_of_one_change_no_bit(model, engine):
    votes = adj.simulate(tasks=80, workers=7, seed=3).votes
    plain = adj.aggregate(votes, model=model, engine=engine)
    ones = adj.aggregate(votes.with_columns(weight=1.0), model=model, engine=engine, weight="weight")
    assert ones.votes.row_weight is None
    for what in ("labels_frame", "probabilities_frame", "workers_frame"):
        assert (
            getattr(plain, what)()
            .sort("task" if what != "workers_frame" else "worker")
            .equals(getattr(ones, what)().sort("task" if what != "workers_frame" else "worker"))
        )


@pytest.mark.parametrize("model", [model for model in MODELS if model != "auto"])
@given(votes=crowds(st.integers(0, 3).map(float), max_votes=20), engine=st.sampled_from(["cpu", "reference"]))
def test_a_weight_of_n_is_the_vote_n_times(model, votes, engine):
    again = [vote[:3] for vote in votes for _ in range(int(vote[3]))]
    if not again:
        return
    labels = sorted({vote[2] for vote in votes})
    weighted = fit(votes, model, engine=engine, confidence="posterior", labels=labels)
    repeated = fit(again, model, engine=engine, weight=None, confidence="posterior", labels=labels)
    got, want = (lines(r.posterior) for r in (weighted, repeated))
    assert got.keys() == want.keys()
    for task in got:
        assert got[task] == pytest.approx(want[task], abs=1e-9)
    drop = ["votes", "weight"]
    frames = [r.labels.drop(drop, strict=False).drop_nulls("label").sort("task").drop("confidence") for r in (weighted, repeated)]
    assert frames[0].equals(frames[1])
    assert weighted.fit.params.priors == pytest.approx(repeated.fit.params.priors, abs=1e-9)
    accuracy = [dict(r.workers_frame(trust=False).select("worker", "accuracy").iter_rows()) for r in (weighted, repeated)]
    assert accuracy[0] == pytest.approx(accuracy[1], abs=1e-9)


def test_a_weight_is_not_a_pair_with_itself_unlike_a_repeated_vote():
    votes = adj.simulate(tasks=200, workers=9, seed=2).votes
    plain, heavy = adj.aggregate(votes), adj.aggregate(votes.with_columns(weight=2.0), weight="weight")
    repeated = adj.aggregate(pl.concat([votes, votes]))
    assert repeated.facts["shared_error"] > plain.facts["shared_error"] + 0.05
    assert heavy.facts["shared_error"] == pytest.approx(plain.facts["shared_error"], abs=0.02)


@pytest.mark.parametrize("model", MODELS)
@given(votes=crowds(max_votes=20), extra=crowds(st.just(0.0), max_votes=5))
@settings(max_examples=25)
def test_a_vote_of_weight_0_is_not_there(model, votes, extra):
    known = {vote[0] for vote in votes}
    labels = sorted({vote[2] for vote in votes + extra})
    mixed, plain = fit(votes + extra, model, labels=labels), fit(votes, model, labels=labels)
    assert mixed.votes.abstentions == len(extra)
    frame = mixed.labels.filter(pl.col("task").is_in(sorted(known)))
    assert frame.equals(plain.labels)
    assert mixed.unvoted == len({vote[0] for vote in extra} - known)
    assert mixed.workers.drop("abstained").equals(plain.workers.drop("abstained"))  # these are abstentions


@pytest.mark.parametrize("model", MODELS)
@given(data=st.data(), votes=crowds())
@settings(max_examples=25)
def test_any_order_of_rows_names_and_labels(model, data, votes):
    first = as_dict(fit(votes, model).labels, "label")
    shuffled = data.draw(st.permutations(votes))
    assert as_dict(fit(shuffled, model).labels, "label") == first
    if model != "auto":  # exact sums; those of auto are sums of floats
        assert as_dict(fit([(t, f"{w[::-1]}x", c, x) for t, w, c, x in votes], model).labels, "label") == first
        declared = data.draw(st.permutations(sorted({vote[2] for vote in votes})))
        assert as_dict(fit(shuffled, model, labels=declared).labels, "label") == first


@pytest.mark.parametrize("confidence", ["posterior", "honest"])
@pytest.mark.parametrize("model", MODELS)
def test_engines_agree(model, confidence):
    for seed, options in ((1, {}), (2, {"low": 1e-6, "high": 1e5}), (3, {"tasks": 400, "workers": 30, "labels": 20})):
        votes = crowd(seed, **options)
        far, near, disk = (fit(votes, model, engine=engine, confidence=confidence) for engine in ("cpu", "reference", "disk"))
        assert_same(far, near)
        assert_same(disk, near)
        for threads in (1, 3):
            other = fit(votes, model, engine=adj.Cpu(threads=threads), confidence=confidence)
            assert other.labels.drop("confidence").equals(far.labels.drop("confidence"))


@pytest.mark.parametrize("model", ["ds", "fds", "iwmv"])
def test_an_interrupted_fit_on_disk_is_resumed(model, tmp_path):
    crowd(12, tasks=300, workers=25).write_csv(tmp_path / "votes.csv")
    options = {"confidence": "posterior"}

    def stop(row):
        if row.iteration == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "votes.csv", model, progress=stop, engine=adj.Disk(work=tmp_path / "work"), **options)
    seen = []
    resumed = fit(
        tmp_path / "votes.csv", model, progress=seen.append, engine=adj.Disk(work=tmp_path / "work", resume=True), **options
    )
    assert seen[0].iteration > 1
    assert_same(resumed, fit(tmp_path / "votes.csv", model, engine="disk", **options))


def test_rows_of_weights_are_in_the_estimate_of_memory(monkeypatch):
    few, many = (adj.read(crowd(1).with_columns(weight=w), weight="weight") for w in (pl.lit(2.0), pl.int_range(pl.len()) + 1.0))
    plain = adj.read(crowd(1))
    assert memory.estimate(plain, 0) < memory.estimate(few, 0) < memory.estimate(many, 0)
    monkeypatch.setattr(memory, "free_memory", lambda: 1000)
    monkeypatch.setattr(memory, "UNCHECKED_BYTES", 0)
    with pytest.raises(adj.AdjudgeError, match="round the weights to fewer distinct ones"):
        adj.aggregate(many, model="fds")


@pytest.mark.parametrize("model", MODELS)
def test_gold_history_priors_warm_start_and_exclude(model, tmp_path):
    votes = crowd(5, tasks=100)
    gold = {f"t{n}": "l1" for n in range(12)}
    given = {"gold": gold, "exclude": ["w3"]}
    first = fit(votes, model, **given)
    assert first.labels.filter(pl.col("gold"))["label"].unique().to_list() == ["l1"]
    assert first.facts["excluded_workers"] == 1
    if model != "mv":
        known = {"history": first, "warm_start": first} | ({} if model == "iwmv" else {"priors": "uniform"})
        near, far = (fit(votes, model, engine=engine, **given, **known) for engine in ("reference", "cpu"))
        assert_same(far, near)


@pytest.mark.parametrize("model", MODELS)
def test_a_saved_model_predicts_weighted_votes(model, tmp_path):
    votes = crowd(6, tasks=100)
    result = fit(votes, model)
    result.save(tmp_path / "model.adjudge")
    loaded = adj.load(tmp_path / "model.adjudge")
    new = crowd(7, tasks=30)
    got, want = (one.predict(new, weight="weight") for one in (loaded, result))
    assert got.labels.equals(want.labels)
    whole = new.with_columns(weight=pl.lit(2.0))
    once, twice = loaded.predict(whole, weight="weight"), loaded.predict(pl.concat([new, new]).drop("weight"))
    assert once.labels["label"].to_list() == twice.labels["label"].to_list()
    assert lines(once.posterior)["t1"] == pytest.approx(lines(twice.posterior)["t1"], abs=1e-9)
    if model not in ("mv", "iwmv"):
        matrix = result.confusion_matrix("w1")
        assert loaded.confusion_matrix("w1") == pytest.approx(matrix, abs=1e-9)


def test_result_tells_the_weight_of_every_task_and_comes_back_from_a_pickle():
    votes = crowd(8)
    result = adj.aggregate(votes, weight="weight")
    sums = votes.group_by("task").agg(weight=pl.col("weight").sum(), votes=pl.len())
    told = result.labels.select("task", "weight", "votes").join(sums, on="task")
    assert told["weight"].to_numpy() == pytest.approx(told["weight_right"].to_numpy())
    assert told["votes"].to_list() == told["votes_right"].to_list()
    again = pickle.loads(pickle.dumps(result))
    assert again.labels.equals(result.labels)
    assert again.probabilities.equals(result.probabilities)
    assert "weight" not in adj.aggregate(votes.drop("weight")).labels.columns


def test_shares_of_workers_are_of_weights():
    votes = [("t1", "ann", "a", 3), ("t1", "bob", "a", 3), ("t2", "ann", "b", 1), ("t2", "bob", "a", 3), ("t2", "eve", "a", 3)]
    workers = adj.aggregate(votes, model="mv", weight="weight").workers
    assert dict(workers.select("worker", "agreement").iter_rows()) == {"ann": 0.75, "bob": 1.0, "eve": 1.0}
    assert dict(workers.select("worker", "votes").iter_rows()) == {"ann": 2, "bob": 2, "eve": 1}


def test_the_interval_of_a_worker_does_not_shrink_with_the_scale_of_weights():
    votes = adj.simulate(tasks=200, workers=8, seed=1).votes
    plain = adj.aggregate(votes, model="mv").workers
    scaled = adj.aggregate(votes.with_columns(weight=100.0), model="mv", weight="weight").workers
    width = [frame["accuracy_high"].to_numpy() - frame["accuracy_low"].to_numpy() for frame in (plain, scaled)]
    assert width[1] == pytest.approx(width[0], rel=0.5)


def test_verdicts_look_at_answers():
    table = crowd(9, tasks=150, workers=12, votes_per_task=6)
    table = table.with_columns(label=pl.when(pl.col("worker") == "w0").then(pl.lit("l0")).otherwise("label"))
    weighted = adj.read(table, weight="weight")
    assert without_weights(weighted).row.tolist() == adj.read(table).row.tolist()
    one, other = (adj.aggregate(votes, model="mv", weight="weight").workers for votes in alike(table))
    assert set(one["verdict"]) >= {"informative", "spammer"}
    assert one.filter(pl.col("why").str.contains("regardless of the task"))["why"].len() > 0
    for name in ("verdict", "answers_like", "why"):
        assert one[name].to_list() == other[name].to_list()
    for name in ("information", "evidence", "below_chance", "accuracy_low", "accuracy_high"):
        assert one[name].to_numpy() == pytest.approx(other[name].to_numpy(), abs=1e-6)


REFUSED = "counts every vote once"


def test_what_takes_no_weights_says_so():
    table = crowd(10)
    votes = adj.read(table, weight="weight")
    with pytest.raises(adj.OptionError, match=rf"^model 'glad' {REFUSED}: leave the weight out, or choose another model$"):
        adj.aggregate(table, model="glad", weight="weight")
    with pytest.raises(adj.OptionError, match=REFUSED):
        adj.GLAD().fit(votes)
    with pytest.raises(adj.OptionError, match="weight works only for tasks with one label"):
        adj.aggregate(table, multi=True, weight="weight")
    with pytest.raises(adj.OptionError, match=f"groups {REFUSED}"):
        adj.aggregate(table, weight="weight", groups={"w1": "g", "w2": "g"})
    with pytest.raises(adj.OptionError, match=f"agreement {REFUSED}"):
        adj.agreement(votes)
    with pytest.raises(adj.OptionError, match=f"a stream {REFUSED}"):
        adj.Online(labels=["l0", "l1", "l2"]).learn_many(votes)
    with pytest.raises(adj.OptionError, match=f"a stream {REFUSED}"):
        adj.Online.from_result(adj.aggregate(votes, model="fds"))


def test_spark_takes_no_weights():
    engine = pytest.importorskip("adjudge.spark.engine").SparkEngine()
    with pytest.raises(adj.OptionError, match=f"engine 'spark' {REFUSED}"):
        adj.aggregate(crowd(11), weight="weight", engine=engine)
    with pytest.raises(adj.OptionError, match=f"engine 'spark' {REFUSED}"):
        engine.load(adj.read(crowd(11), weight="weight"), seed=0, ties="hash")
