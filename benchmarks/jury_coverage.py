"""How often 90% intervals about juries hold the truth: differences of rates, biases of judges, and accuracies of clusters.

    python benchmarks/jury_coverage.py [RUNS]

draws RUNS juries per line (200 by default; three times as many of clusters, which cost little), and writes the tables of
docs/rates.md and docs/bias.md. Nothing here is timed.
"""

import re
import sys
import warnings
from pathlib import Path
from statistics import NormalDist

import numpy as np

import adjudge as adj
from adjudge.io.write import write_aside

ROOT = Path(__file__).parents[1]
SENSITIVITY = (0.93, 0.90, 0.92, 0.88, 0.84, 0.80, 0.86, 0.70)  # of eight judges: P(says pass | passes)
SPECIFICITY = (0.86, 0.82, 0.90, 0.80, 0.72, 0.75, 0.78, 0.60)  # P(says fail | fails)
# The first seed. One constant of `adj.rates`, UNCANCELLED, was chosen on juries of these scenarios; those of `adj.bias` and of
# clusters were not.
FIRST = 700_000
SCENARIOS = {
    "judges err apart": {},
    "one judge repeats another in 7 of 10": {"repeats": 0.7},
    "no difference": {"rates": (0.65, 0.65)},
    "no difference, repeats, all mislead on 12% of the answers": {"rates": (0.65, 0.65), "repeats": 0.7, "misleading": 0.12},
    "judges favour B by 10 points": {"repeats": 0.7, "favour": 0.1},
}


def two_systems(rng, *, rates=(0.62, 0.68), prompts=1000, repeats=0.0, misleading=0.0, favour=0.0):
    """Votes of eight judges on the answers of two systems to the same prompts; system and prompt by task."""
    difficulty, rows, system, prompt = rng.normal(size=prompts), [], {}, {}
    for name, rate in zip("AB", rates, strict=True):
        latent = np.sqrt(0.5) * (difficulty + rng.normal(size=prompts))
        passes, is_misleading = latent < NormalDist().inv_cdf(rate), rng.random(prompts) < misleading
        for number in range(prompts):
            task = f"{name}{number}"
            system[task], prompt[task] = name, number
            says = None
            for judge in range(8):
                chance = SENSITIVITY[judge] if passes[number] else 1 - SPECIFICITY[judge]
                if is_misleading[number]:
                    chance = 0.25 if passes[number] else 0.75
                if name == "B" and not passes[number]:
                    chance += favour
                own = rng.random() < chance
                says = says if judge == 1 and rng.random() < repeats else own
                rows.append((task, f"j{judge}", "pass" if says else "fail"))
    return rows, system, prompt


def difference_lines(runs):
    """A line per scenario: coverage of the difference, half its width, and how often a winner is named."""
    for name, options in SCENARIOS.items():
        first, second = options.get("rates", (0.62, 0.68))
        held, half, named = [], [], []
        for run in range(runs):
            rows, system, prompt = two_systems(np.random.default_rng([FIRST, run]), **options)
            found = adj.rates(rows, by=system, cluster=prompt)
            row = found.differences.filter(label="pass").row(0, named=True)
            held.append(row["low"] <= first - second <= row["high"])
            half.append((row["high"] - row["low"]) / 2)
            named.append(found.verdicts[0].is_shown)
        yield f"| {name} | {np.mean(held):.3f} | {100 * np.mean(half):.1f} points | {np.mean(named):.3f} |"


def swayed_jury(rng, *, tasks=400, effect=0.0, deserved=0.0):
    """Votes of six judges, of whom j0 gives "pass" more often where x is 1; good answers may have x more often, too."""
    x = rng.integers(0, 2, tasks)
    passes = rng.random(tasks) < 0.55 + deserved * (x - 0.5)
    chance = np.where(passes, 0.85, 0.2)[:, None] + effect * (x[:, None] - 0.5) * (np.arange(6) == 0)
    says = rng.random((tasks, 6)) < chance
    rows = [(f"t{task}", f"j{judge}", "pass" if says[task, judge] else "fail") for task in range(tasks) for judge in range(6)]
    return rows, {f"t{task}": int(x[task]) for task in range(tasks)}


def bias_lines(runs):
    """A line per case: coverage of the effects of the judge who is swayed and of the others, and how often any is shown."""
    cases = {"no effect": {}, "none, but good answers are longer": {"deserved": 0.4}, "an effect of 15 points": {"effect": 0.15}}
    for name, options in cases.items():
        swayed, others, shown = [], [], []
        for run in range(runs):
            rows, x = swayed_jury(np.random.default_rng([FIRST, 1, run]), **options)
            found = adj.bias(rows, by={"x": {task: "long" if value else "short" for task, value in x.items()}})
            for row in found.effects.iter_rows(named=True):
                sign = 1 if row["value"].startswith("long") else -1
                truth = sign * options.get("effect", 0.0) * (row["worker"] == "j0")
                (swayed if row["worker"] == "j0" else others).append(row["low"] <= truth <= row["high"])
            shown.append(found.effects["shown"].any())
        yield f"| {name} | {np.mean(swayed):.3f} | {np.mean(others):.3f} | {np.mean(shown):.3f} |"


def cluster_lines(runs):
    """A line per function: coverage on 50 clusters of 6 tasks, and without allowing for clusters."""
    rate, held = 0.75, {"evaluate": [[], []], "compare, difference of two equal models": [[], []]}
    for run in range(runs):
        rng = np.random.default_rng([FIRST, 2, run])
        tasks, cluster = [f"t{task}" for task in range(300)], {f"t{task}": task // 6 for task in range(300)}
        own = np.repeat(rng.beta(1.5, 0.5, 50), 6)  # of mean 0.75
        truth = dict.fromkeys(tasks, "a")
        labels = {task: "a" if right else "b" for task, right in zip(tasks, rng.random(300) < own, strict=True)}
        other = np.repeat(rng.beta(1.5, 0.5, 50), 6)
        others = {task: "a" if right else "b" for task, right in zip(tasks, rng.random(300) < other, strict=True)}
        rows = [(task, worker, "ab"[number % 2]) for number, task in enumerate(tasks) for worker in ("v", "w")]
        for place, given in enumerate((cluster, "")):
            interval = adj.evaluate(labels, truth, cluster=given).interval
            held["evaluate"][place].append(interval.low <= rate <= interval.high)
            settings = {"models": ["mv"], "own_labels": {"one": labels, "two": others}, "level": 0.9, "resamples": 400}
            pairs = adj.compare(rows, truth=truth, cluster=given, **settings).differences
            names = {"one", "two"}
            row = next(row for row in pairs.iter_rows(named=True) if {row["model_a"], row["model_b"]} == names)
            held["compare, difference of two equal models"][place].append(row["low"] <= 0 <= row["high"])
    for name, (clustered, plain) in held.items():
        yield f"| {name} | {np.mean(clustered):.3f} | {np.mean(plain):.3f} |"


def fill(page, part, header, lines):
    """Write a table between the marks of a page."""
    path = ROOT / "docs" / page
    text = re.sub(
        rf"(<!-- {part} -->\n).*?(<!-- {part} end -->)",
        lambda match: match[1] + "\n".join([header, "|" + "---|" * (header.count("|") - 1), *lines]) + "\n" + match[2],
        path.read_text(encoding="utf-8"),
        flags=re.S,
    )
    write_aside(path, lambda aside: aside.write_text(text, encoding="utf-8"))


def main(runs=200):
    """Draw all juries and write the tables."""
    warnings.simplefilter("ignore")
    tables = {
        ("rates.md", "juries", "| scenario | coverage | half width | a winner is named |"): difference_lines(runs),
        ("bias.md", "bias", "| jury | coverage, judge j0 | other judges | any effect is shown |"): bias_lines(runs),
        ("rates.md", "clusters", "| function | coverage with clusters | as if independent |"): cluster_lines(3 * runs),
    }
    for (page, part, header), lines in tables.items():
        done = []
        for line in lines:
            print(line, flush=True)
            done.append(line)
        fill(page, part, header, done)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
