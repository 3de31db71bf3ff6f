"""A stream of votes: votes a second, on a model that already holds a million tasks."""

import time

import polars as pl

import adjudge as adj


def run(folder):
    """Rows of (what, figure, bar)."""
    crowd = adj.simulate(tasks=1_000_000, workers=20_000, labels=4, votes_per_task=5, seed=1)
    online = adj.Online(labels=crowd.label_names, confidence="honest")
    began = time.perf_counter()
    online.learn_many(crowd.votes)
    yield (
        "learn_many, 5 million votes in task order from nothing, votes a second",
        len(crowd.votes) / (time.perf_counter() - began),
        "",
    )
    # Other workers vote on known tasks in any order: every vote meets a task that is nowhere near the last one.
    late = crowd.votes.sample(n=1_000_000, shuffle=True, seed=2)
    late = late.with_columns(worker="w" + ((pl.col("worker").str.slice(1).cast(pl.Int64) + 7) % 20_000).cast(pl.String))
    began = time.perf_counter()
    online.learn_many(late)
    yield (
        "learn_many, 1 million votes in any order on known tasks, votes a second",
        len(late) / (time.perf_counter() - began),
        "at least 1 million",
    )
    rows = late.head(200_000).rows()
    began = time.perf_counter()
    for row in rows:
        online.learn(*row)
    yield "learn, one vote a call, votes a second", len(rows) / (time.perf_counter() - began), "at least 50 thousand"
    began = time.perf_counter()
    online.renew()
    yield "renewal of what honest confidence measures, seconds", time.perf_counter() - began, ""
    began = time.perf_counter()
    for row in rows[:50_000]:
        online.predict(row[0])
    yield "predict with honest confidence, calls a second", 50_000 / (time.perf_counter() - began), ""
    began = time.perf_counter()
    online.save(folder / "stream")
    yield "save, seconds", time.perf_counter() - began, ""
    began = time.perf_counter()
    adj.Online.load(folder / "stream")
    yield "load, seconds", time.perf_counter() - began, ""
