"""How honest the intervals are, and how many planted workers are found: simulated crowds, whose truth is known.

    ADJUDGE_DATA=… python benchmarks/coverage.py [FOLDER] [SEEDS]

writes README.md into FOLDER (benchmarks/measured/workers without it), from 50 seeds a setting. Real sets are added if
ADJUDGE_DATA names their folder. Nothing here is timed. trust.py judges intervals and verdicts by the truth of real sets.
"""

import math
import os
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl

import adjudge as adj
from adjudge.io.write import write_aside

SEEDS = 50
FIRST = 30_000  # the first seed: none of these crowds was looked at while the method was made
CROWDS = {5: 120, 20: 60, 200: 24}  # votes a worker: workers
MIXES = {2: [0.7, 0.3], 3: [0.5, 0.3, 0.2], 4: [0.4, 0.3, 0.2, 0.1]}
OTHERS = {
    "labels of unequal frequency": {"mixed": True},
    "skill 0.6": {"skill": 0.6},
    "skill 0.9, spread 0.08": {"skill": 0.9, "skill_spread": 0.08},
    "spread 0.05: all workers much alike": {"skill_spread": 0.05},
    "spread 0.25: very different ones": {"skill_spread": 0.25},
    "a fifth spammers": {"spammers": 0.2},
    "a fifth adversaries": {"adversaries": 0.2},
}
WORD = {"spammer": "spammer", "adversary": "adversary", "colluder": "copy"}
SETS = ("rte", "sp", "snow_temp", "labelme", "llmbar_natural", "zencrowd_in", "adult2", "trec2010", "bm")


def crowd(seed, *, workers, labels, votes_per_task, votes, mixed=False, **more):
    """A crowd of workers with about so many votes each."""
    tasks = max(workers * votes // votes_per_task, 1)
    weights = MIXES[labels] if mixed else None
    return adj.simulate(
        tasks=tasks, workers=workers, labels=labels, votes_per_task=votes_per_task, label_weights=weights, seed=seed, **more
    )


def judged(drawn, model="fds", confidence="posterior"):
    """(workers with the truth about them, class priors with the truth) of a fit."""
    result = adj.aggregate(drawn.votes, model=model, confidence=confidence)
    truth = drawn.workers.select("worker", "kind", true_accuracy="accuracy")
    workers = result.workers.join(truth, on="worker", maintain_order="left")
    weights = np.array(drawn.spec.label_weights or [1.0] * drawn.spec.labels)
    mix = pl.DataFrame({"label": drawn.label_names, "share": weights / weights.sum()})
    return workers, result.priors.join(mix, on="label", maintain_order="left")


def hits(workers, priors):
    """(workers within their interval, workers, sum of widths; labels within theirs, labels) of a fit."""
    inside = workers.select(
        (pl.col("accuracy_low") <= pl.col("true_accuracy")) & (pl.col("true_accuracy") <= pl.col("accuracy_high"))
    )
    width = (workers["accuracy_high"] - workers["accuracy_low"]).sum()
    known = priors.select((pl.col("low") <= pl.col("share")) & (pl.col("share") <= pl.col("high")))
    return np.array([inside.to_series().sum(), len(workers), width, known.to_series().sum(), len(priors)], float)


def coverage(seeds):
    """Lines of the main table: every number of labels and of votes, every model."""
    yield "| labels | votes a task | votes a worker | ds | fds | hybrid | width | priors: ds | fds | hybrid |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for labels in (2, 3, 4):
        for votes_per_task in (3, 5, 9):
            for votes, workers in CROWDS.items():
                sums = {}
                for model in ("ds", "fds", "hybrid"):
                    setting = {"workers": workers, "labels": labels, "votes_per_task": votes_per_task, "votes": votes}
                    sums[model] = sum(hits(*judged(crowd(FIRST + s, **setting), model)) for s in range(seeds))
                found = [f"{s[0] / s[1]:.3f}" for s in sums.values()]
                known = [f"{s[3] / s[4]:.2f}" for s in sums.values()]
                width = f"{sums['fds'][2] / sums['fds'][1]:.2f}"
                yield f"| {labels} | {votes_per_task} | {votes} | {' | '.join(found)} | {width} | {' | '.join(known)} |"


def honest_coverage(seeds):
    """Lines of the table of honest intervals: means over votes a task, by labels and votes a worker."""
    yield "| labels | votes a worker | auto | width | fds | width | fds, posterior | width |"
    yield "|---|---|---|---|---|---|---|---|"
    for labels in (2, 3, 4):
        for votes, workers in CROWDS.items():
            cells = []
            for fit in (("auto", "honest"), ("fds", "honest"), ("fds", "posterior")):
                total = np.zeros(5)
                for votes_per_task in (3, 5, 9):
                    setting = {"workers": workers, "labels": labels, "votes_per_task": votes_per_task, "votes": votes}
                    total += sum(hits(*judged(crowd(FIRST + s, **setting), *fit)) for s in range(max(seeds // 4, 1)))
                cells += [f"{total[0] / total[1]:.3f}", f"{total[2] / total[1]:.2f}"]
            yield f"| {labels} | {votes} | {' | '.join(cells)} |"


def other_crowds(seeds):
    """Lines of the table of other crowds: means over labels and votes a task, by votes a worker."""
    yield "| crowd | 5 votes | 20 votes | 200 votes | priors |"
    yield "|---|---|---|---|---|"
    for name, more in OTHERS.items():
        cells, known = [], np.zeros(2)
        for votes, workers in CROWDS.items():
            total = np.zeros(5)
            for labels, votes_per_task in ((2, 5), (3, 3), (3, 9), (4, 5)):
                setting = {"workers": workers, "labels": labels, "votes_per_task": votes_per_task, "votes": votes, **more}
                total += sum(hits(*judged(crowd(FIRST + s, **setting))) for s in range(max(seeds // 4, 1)))
            cells.append(f"{total[0] / total[1]:.3f}")
            known += total[3:]
        yield f"| {name} | {' | '.join(cells)} | {known[0] / known[1]:.2f} |"
    parts = {"1 to 9": Counter(), "10 to 49": Counter(), "50 and more": Counter()}
    known = np.zeros(2)
    for s in range(seeds):
        workers, priors = judged(adj.simulate(tasks=800, workers=100, labels=3, votes_per_task=5, power=1.0, seed=FIRST + s))
        known += hits(workers, priors)[3:]
        for row in workers.iter_rows(named=True):
            part = "1 to 9" if row["votes"] < 10 else "10 to 49" if row["votes"] < 50 else "50 and more"
            parts[part][row["accuracy_low"] <= row["true_accuracy"] <= row["accuracy_high"]] += 1
    cells = " | ".join(f"{part[True] / part.total():.3f} ({name})" for name, part in parts.items())
    yield f"| busy and idle workers (`power=1`), by their votes | {cells} | {known[0] / known[1]:.2f} |"


def at_best(drawn):
    """The likelier kind of every worker for one who knows the truth of all tasks and how workers were drawn."""
    spec, k = drawn.spec, drawn.spec.labels
    votes = drawn.votes.join(drawn.truth.rename({"label": "true"}), on="task")
    places = {name: n for n, name in enumerate((*drawn.worker_names, *drawn.label_names))}
    worker, given, true = (votes[column].replace_strict(places).to_numpy() for column in ("worker", "label", "true"))
    counts = np.zeros((spec.workers, k, k))
    np.add.at(counts, (worker, true - spec.workers, given - spec.workers), 1)
    right = np.diagonal(counts, axis1=1, axis2=2)
    wrong = counts[:, ~np.eye(k, dtype=bool)].reshape(spec.workers, k, k - 1)
    strength = spec.skill * (1 - spec.skill) / spec.skill_spread**2 - 1
    both = np.stack([right, wrong.sum(axis=2)], axis=-1)
    honest = dirichlet(both, strength * np.array([spec.skill, 1 - spec.skill])) + dirichlet(wrong, np.ones(k - 1))
    chances = {
        "honest": (honest.sum(axis=1), 1 - spec.spammers - spec.adversaries),
        "spammer": (dirichlet(counts.sum(axis=1), np.ones(k)), spec.spammers),
        "adversary": (right.sum(axis=1) * np.log(0.1) + wrong.sum(axis=(1, 2)) * np.log(0.9 / (k - 1)), spec.adversaries),
    }
    scores = np.stack([fit + np.log(max(share, 1e-9)) for fit, share in chances.values()])
    return np.array(list(chances))[scores.argmax(axis=0)]


def dirichlet(seen, strength):
    """The log-likelihood of answers counted by label, [..., K], whose probabilities were drawn from a Dirichlet, [K]."""
    gamma = np.vectorize(math.lgamma)
    parts = gamma(seen + strength) - gamma(strength)
    return parts.sum(axis=-1) + math.lgamma(strength.sum()) - gamma(seen.sum(axis=-1) + strength.sum())


def shares(pairs, word):
    """[precision, recall] of a word among (planted, verdict) pairs, as text; empty if none was planted."""
    right = pairs[word, word]
    called = sum(n for (_, verdict), n in pairs.items() if verdict == word)
    there = sum(n for (kind, _), n in pairs.items() if kind == word)
    return [f"{right / called:.2f}" if there and called else "", f"{right / there:.2f}" if there else ""]


def planted(seeds, settings, words, *, best=False):
    """Lines of a table of planted workers: precision and recall of every kind that was planted, and what honest ones got."""
    heads = [f"{word}: precision | recall" for word in words]
    heads += [f"{word} at best | recall" for word in words if best]
    yield f"| crowd | labels | votes a task | skill | tasks a pair shares | {' | '.join(heads)} | honest misjudged |"
    yield "|---" * (6 + 2 * len(heads)) + "|"
    for name, setting in settings:
        pairs, limit = Counter(), Counter()
        for s in range(seeds):
            drawn = crowd(FIRST + s, **setting)
            workers, _ = judged(drawn)
            pairs.update(zip((WORD.get(kind, "honest") for kind in workers["kind"]), workers["verdict"], strict=True))
            if best:
                limit.update(zip((WORD.get(str(kind), "honest") for kind in drawn.crowd.kinds), at_best(drawn), strict=True))
        cells = [cell for word in words for cell in shares(pairs, word)]
        cells += [cell for word in words if best for cell in shares(limit, word)]
        honest = sum(n for (kind, _), n in pairs.items() if kind == "honest")
        wrong = sum(n for (kind, verdict), n in pairs.items() if kind == "honest" and verdict in WORD.values())
        shared = setting["votes"] * (setting["votes_per_task"] - 1) / (setting["workers"] - 1)
        cells.append(f"{wrong} of {honest}")
        skill = setting.get("skill", 0.75)
        yield f"| {name} | {setting['labels']} | {setting['votes_per_task']} | {skill} | {shared:.0f} | {' | '.join(cells)} |"


def kinds():
    """Crowds of honest workers, spammers and adversaries, 40 workers with about 50 votes each."""
    for name, more in {
        "honest": {},
        "a fifth spammers": {"spammers": 0.2},
        "a fifth adversaries": {"adversaries": 0.2},
        "a tenth of each": {"spammers": 0.1, "adversaries": 0.1},
    }.items():
        for labels in (2, 3, 4):
            for votes_per_task in (5, 9):
                for skill, spread in ((0.75, 0.13), (0.85, 0.1)):
                    setting = {"workers": 40, "labels": labels, "votes_per_task": votes_per_task, "votes": 50}
                    yield name, {**setting, "skill": skill, "skill_spread": spread, **more}


def copies():
    """Crowds with rings, about 50 votes a worker."""
    for workers, votes_per_task in ((20, 9), (30, 9), (20, 5), (48, 9), (48, 5)):
        for ring in (4, 8) if workers == 48 else (4,):
            for labels in (2, 3, 4):
                share = {20: 0.2, 30: 4 / 15, 48: 1 / 3}[workers]
                setting = {"workers": workers, "labels": labels, "votes_per_task": votes_per_task, "votes": 50}
                yield f"rings of {ring}, {workers} workers", {**setting, "colluders": share, "ring": ring}
    for labels in (2, 3, 4):
        setting = {"workers": 20, "labels": labels, "votes_per_task": 9, "votes": 50}
        yield "rings of 2, 20 workers", {**setting, "colluders": 0.2, "ring": 2}
        yield "one ring of 8 among 20", {**setting, "colluders": 0.4, "ring": 8}
        yield "one ring of 16 among 40", {**setting, "workers": 40, "colluders": 0.4, "ring": 16}


def everybody():
    """Crowds with all three kinds."""
    for labels in (2, 3, 4):
        for skill, spread in ((0.75, 0.13), (0.85, 0.1)):
            setting = {"workers": 40, "labels": labels, "votes_per_task": 9, "votes": 100, "skill": skill, "skill_spread": spread}
            yield "a tenth, a tenth, a fifth", {**setting, "spammers": 0.1, "adversaries": 0.1, "colluders": 0.2, "ring": 4}


def real_sets(folder):
    """Lines of the table of real sets: workers with a hundred votes or more on tasks with truth."""
    yield "| set | accuracy of labels | workers with 100 votes | within the interval | middle less accuracy | verdicts |"
    yield "|---|---|---|---|---|---|"
    for name in SETS:
        truth = pl.read_csv(folder / name / "truth.csv", infer_schema=False).rename({"label": "true"})
        votes = pl.read_csv(folder / name / "votes.csv", infer_schema=False)
        result = adj.aggregate(votes, model="ds", confidence="posterior")
        right = votes.join(truth, on="task").group_by("worker").agg(n=pl.len(), share=(pl.col("label") == pl.col("true")).mean())
        busy = result.workers.join(right.filter(pl.col("n") >= 100), on="worker")
        inside = busy.select(
            ((pl.col("accuracy_low") <= pl.col("share")) & (pl.col("share") <= pl.col("accuracy_high"))).mean()
        ).item()
        off = busy.select(((pl.col("accuracy_low") + pl.col("accuracy_high")) / 2 - pl.col("share")).mean()).item()
        words = ", ".join(
            f"{n} {w}" for w, n in result.workers["verdict"].value_counts().sort("count", descending=True).iter_rows()
        )
        accuracy = adj.evaluate(result, truth.rename({"true": "label"})).accuracy
        yield f"| {name} | {accuracy:.3f} | {len(busy)} | {inside:.2f} | {off:+.3f} | {words} |"


def page(seeds):
    """The lines of README.md."""
    yield from ("# Intervals and verdicts, measured", "")
    yield from (
        f"Made by `python benchmarks/coverage.py`: {seeds} seeds a setting, workers of mean skill 0.75, spread 0.13, unless",
        "said otherwise. [Workers](../../../docs/workers.md) says what the columns mean. In these simulated crowds errors are",
        "independent; in real ones they are not: [can you trust it](../../../docs/can-you-trust-it.md).",
        "",
        "## Honest intervals: share of workers whose 90% interval holds the truth",
        "",
        'With `confidence="honest"`. They allow for errors that workers share. Here there are none, so they are too wide.',
        "Means over 3, 5 and 9 votes a task, from a quarter of the seeds.",
        "",
    )
    yield from honest_coverage(seeds)
    yield from (
        "",
        '## Intervals with `confidence="posterior"`, of workers and of class priors',
        "",
        "Crowds in which every worker has about so many votes; width is that of `fds`. Of class priors there are only 2 to 4 a",
        f"fit, so that their shares are uncertain by about {0.3 / np.sqrt(seeds):.2f}.",
        "",
    )
    yield from coverage(seeds)
    yield from ("", "Other crowds, with `fds`: 2 to 4 labels, 3 to 9 votes a task together.", "")
    yield from other_crowds(seeds)
    yield from (
        "",
        "## Planted spammers and adversaries: 40 workers with about 50 votes each",
        "",
        '"At best" is what one reaches who knows the truth of all tasks and how workers were drawn: no method can tell more.',
        "",
    )
    yield from planted(seeds, kinds(), ("spammer", "adversary"), best=True)
    yield from ("", "## Planted copies", "", "All members of a ring count as copies. About 50 votes a worker.", "")
    yield from planted(seeds, copies(), ("copy",))
    yield from ("", "All three kinds at once, 40 workers with about 100 votes each:", "")
    yield from planted(seeds, everybody(), tuple(WORD.values()))
    folder = os.environ.get("ADJUDGE_DATA")
    if folder:
        yield from ("", "## Real votes", "")
        yield from real_sets(Path(folder))


def main(folder="benchmarks/measured/workers", seeds=SEEDS):
    """Writes README.md into the folder."""
    warnings.simplefilter("ignore", adj.NotConverged)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    lines = []
    for line in page(int(seeds)):
        print(line, flush=True)
        lines.append(line)
    write_aside(target / "README.md", lambda aside: aside.write_text("\n".join(lines) + "\n", encoding="utf-8"))


if __name__ == "__main__":
    main(*sys.argv[1:])
