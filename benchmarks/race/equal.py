"""Equal likelihood: how long until the likelihood is within a millionth of where Dawid-Skene's EM ends."""

import math
import statistics

import numpy as np
from contestants import OURS, PEERS
from likelihood import Judge
from turns import Child, OverError, rounds, turns_of

import adjudge as adj

WITHIN = 1e-6  # of the likelihood at the end
END = 2_000  # iterations, after which it has ended
MORE, TRIES = 1.25, 8  # so many times the iterations where they were too few
SETS = ("labelme", "sp", "adult2", "trec2010")
CROWD = "100k x 4"


def entrants():
    """(contestant, further options, name): those that fit Dawid-Skene's model for a fixed number of iterations."""
    out = [(one, {}, one.name) for one in (*PEERS, *OURS) if one.family and one.iterations and one.rival != "one-coin"]
    out = [(one, more, name) for one, more, name in out if not one.options.get("frame") and "engine" not in one.options]
    if "accelerate" in adj.DawidSkene.options():
        ours = next(one for one in OURS if one.name == "adjudge ds")
        out.append((ours, {"accelerate": True}, "adjudge ds, accelerated"))
    return out


def climb(votes, **options):
    """Log-likelihoods after each iteration of our EM."""
    result = adj.DawidSkene(tol=0.0, max_iter=END, **options).fit(votes, confidence="posterior")
    return [row.log_likelihood for row in result.fit.trace]


def enough(likelihoods, final):
    """The first iteration (from 1) whose likelihood is near the final one."""
    return next(n for n, value in enumerate(likelihoods, 1) if near(value, final)) if likelihoods else END


def near(value, final):
    """Whether a likelihood is as good as the final one."""
    return value >= final - WITHIN * abs(final)


def race(field, folder, limit, pythons):
    """{"name", "final", "lines"} of one cell."""
    cell, data = field.cell, field.data()
    judge = Judge(data)
    plain = climb(judge.votes)
    final, lines = max(plain), {}
    for n, (contestant, more, name) in enumerate(entrants()):
        python = pythons[contestant.library]
        if not python.exists():
            lines[name] = {"why": "not installed"}
            continue
        start = enough(climb(judge.votes, **more), final) if more else enough(plain, final)
        child = Child(python, contestant, data, folder / f"equal-{cell['name']}-{n}".replace(" ", ""))
        try:
            child.ready()
            lines[name] = reached(child, more, start, final, judge, limit)
        except OverError as over:
            lines[name] = {"why": str(over)}
        finally:
            child.close()
    return {"name": cell["name"], "final": final, "lines": lines}


def reached(child, more, iterations, final, judge, limit):
    """The line of one contestant: iterations are added until its likelihood is there."""
    for _ in range(TRIES):
        options = {**more, child.contestant.iterations: iterations}
        first = child.fit(limit, options, answer=True)["seconds"]
        with np.load(child.answer) as said:
            value = judge.log_likelihood(said["confusion"], said["priors"])
        if near(value, final):
            times = [first, *(child.fit(limit, options)["seconds"] for _ in range(turns_of(first) - 1))][-rounds(first) :]
            return {"seconds": statistics.median(times), "iterations": iterations, "log_likelihood": value}
        iterations = math.ceil(iterations * MORE) + 1
    return {"why": f"not reached: {value:.1f} after {iterations} iterations, {final:.1f} wanted"}
