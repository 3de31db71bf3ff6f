"""Why workers have their verdict, in words with the numbers."""

import re

import adjudge as adj
from adjudge.results.workers import VERDICT_NAMES

WORDS = {
    "informative": r"\d+% of \d+ votes equal the labels: \d+\.\d bits of evidence against guessing",
    "adversary": r"\d+% of \d+ votes equal the labels, and answers avoid what others say \(z = -\d+\.\d\)",
    "spammer": r"\d+% of \d+ votes equal the labels, as guesses would: -?\d+\.\d bits of evidence",
    "copy": r"agrees with w\d+ on \d+ of \d+ shared tasks, which takes an accuracy of [\d.]+%; the others' votes say \d+%",
}


def test_every_word_has_its_reason():
    crowd = adj.simulate(
        tasks=300, workers=20, labels=3, votes_per_task=7, spammers=0.1, adversaries=0.1, colluders=0.2, ring=4, seed=2
    )
    workers = adj.aggregate(crowd.votes, model="fds", confidence="posterior").workers
    assert set(workers["verdict"]) == set(WORDS)
    for word, why in workers.select("verdict", "why").iter_rows():
        assert re.fullmatch(WORDS[word], why), why
    assert set(WORDS) | {"unclear"} == set(VERDICT_NAMES)


def test_numbers_are_those_of_the_votes():
    crowd = adj.simulate(tasks=200, workers=9, labels=3, votes_per_task=5, seed=1)
    rows = [*crowd.votes.rows(), *((f"t{n}", "lazy", "l2") for n in range(120)), ("t1", "new", "l0"), ("own", "hermit", "l0")]
    workers = adj.aggregate(rows, model="fds", confidence="posterior").workers
    why = dict(workers.select("worker", "why").iter_rows())
    assert why["lazy"] == "gives 'l2' in 100% of 120 votes, regardless of the task"
    assert re.fullmatch(r"1 vote cannot tell: -?0\.\d bits of evidence, 3\.3 are needed", why["new"])
    assert why["hermit"] == "nothing to compare 1 vote with: no other worker judged the same tasks"
    row = workers.filter(worker="w3").to_dicts()[0]
    assert row["why"].startswith(f"{row['agreement']:.0%} of {row['votes']} votes equal the labels: {row['evidence']:.1f} bits")


def test_the_partner_is_named_with_the_tasks_that_both_judged():
    crowd = adj.simulate(tasks=300, workers=20, labels=4, votes_per_task=7, colluders=0.4, ring=4, seed=1)
    workers = adj.aggregate(crowd.votes, model="fds", confidence="posterior").workers.drop_nulls("answers_like")
    given = {}
    for task, worker, label in crowd.votes.iter_rows():
        given.setdefault(worker, {})[task] = label
    for worker, like, why in workers.select("worker", "answers_like", "why").iter_rows():
        both = given[worker].keys() & given[like].keys()
        same = sum(given[worker][t] == given[like][t] for t in both)
        assert why.startswith(f"agrees with {like} on {same} of {len(both)} shared tasks, ")
