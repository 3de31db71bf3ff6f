"""The verdicts that every log in this folder has, each as its tool writes them; the scripts and the tests share them.

Three graders say whether an answer is right, and fail on some; a person has reviewed the first answers. Needs no library.
"""

import json
import random
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
ANSWERS = 24
REVIEWED = 6  # answers that the person has looked at
GRADERS = {"strict": 0.95, "lenient": 0.9, "terse": 0.85}  # how often each is right
PERSON = "ann@example.org"


def draw(*key):
    return random.Random("/".join(map(str, key)))


def answer(n):
    """The question, its answer, and whether that is right."""
    chance = draw("question", n)
    a, b = chance.randrange(10, 100), chance.randrange(10, 100)
    is_right = chance.random() < 0.65
    return f"What is {a} + {b}?", f"That makes {a + b if is_right else a + b + 1}.", is_right


def verdict(grader, n):
    """Whether this grader takes the answer for right; None if it has failed."""
    chance = draw(grader, n)
    if chance.random() < 0.08:
        return None
    return answer(n)[2] == (chance.random() < GRADERS[grader])


def grade(grader, n):
    """How good this grader finds the answer, from 0 to 1."""
    return round(min(1.0, max(0.0, draw("grade", grader, n).gauss(0.7 if answer(n)[2] else 0.3, 0.15))), 3)


def verdicts():
    """(grader, answer, verdict) of all graders."""
    return [(grader, n, verdict(grader, n)) for n in range(ANSWERS) for grader in GRADERS]


def reviews():
    """(answer, verdict) of the person, who is right."""
    return [(n, answer(n)[2]) for n in range(REVIEWED)]


def write(name, text, *packages):
    """Write a log, and the versions of the packages that made it."""
    (HERE / name).write_text(text)
    note(*packages)


def note(*packages, **others):
    """Record the versions of packages, and of others by name, in versions.json."""
    path = HERE / "versions.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known |= {package: version(package) for package in packages} | others
    path.write_text(json.dumps(dict(sorted(known.items())), indent=2) + "\n")
