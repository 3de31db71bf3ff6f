"""The paper, to the digit."""

import statistics

import pytest

import adjudge as adj

# set, annotators, model, iterations, accuracy, negative log-likelihood (Figure 1 and Table 2)
EXACT = [
    ("bm", 5, "ds", 19, 0.712, 2094.76),
    ("bm", 5, "hybrid", 9, 0.709, 2100.32),
    ("bm", 5, "fds", 5, 0.697, 2110.16),
    ("rte", 10, "ds", 11, 0.9275, 3679.63),
    ("rte", 10, "hybrid", 9, 0.9275, 3680.32),
    ("labelme", 3, "ds", 35, 0.7878, 1655.94),
    ("labelme", 3, "hybrid", 8, 0.7895, 1660.06),
    # The paper prints 1153.09 and 1154.97 for adult2; two independent implementations give these.
    ("adult2", 9, "ds", 19, 0.7836, 1152.53),
    ("adult2", 9, "hybrid", 9, 0.7836, 1154.38),
]


@pytest.mark.parametrize(("name", "k", "model", "iterations", "accuracy", "nll"), EXACT)
def test_iterations_accuracy_and_likelihood_are_the_papers(paper_votes, name, k, model, iterations, accuracy, nll):
    votes, truth = paper_votes(name, k)
    result = adj.aggregate(votes, model=model)
    assert result.iterations == iterations
    assert round(adj.evaluate(result, truth).accuracy, 4) == accuracy
    assert -result.log_likelihood == pytest.approx(nll, abs=0.01)
    assert result.converged


# Where ties decide (fds) or the file order differs (sp, trec2010): accuracy in Figure 1 at the most annotators.
ROUGH = [
    ("rte", 10, "fds", 0.91875),
    ("labelme", 3, "fds", 0.7707979626),
    ("sp", 5, "ds", 0.9110305958),
    ("sp", 5, "fds", 0.9074074074),
    ("sp", 5, "hybrid", 0.9108293076),
    ("trec2010", 5, "ds", 0.5638850889),
    ("trec2010", 5, "fds", 0.5540355677),
    ("trec2010", 5, "hybrid", 0.5707250342),
]


@pytest.mark.parametrize(("name", "k", "model", "accuracy"), ROUGH)
def test_mean_accuracy_over_tie_seeds_is_near_the_papers(paper_votes, name, k, model, accuracy):
    frame, truth = paper_votes(name, k)
    votes = adj.read(frame)
    got = [adj.evaluate(adj.aggregate(votes, model=model, seed=seed), truth).accuracy for seed in range(20)]
    assert statistics.mean(got) == pytest.approx(accuracy, abs=0.015)


@pytest.mark.parametrize(
    ("name", "k", "questions"),
    [("adult2", 9, 305), ("bm", 5, 1000), ("trec2010", 5, 3670), ("rte", 10, 800), ("labelme", 3, 589), ("sp", 5, 4968)],
)
def test_the_papers_questions_are_counted_as_in_its_table_1(paper_votes, name, k, questions):
    votes, _ = paper_votes(name, k)
    assert adj.read(votes).n_tasks == questions
