"""What becomes a vote, gold, an abstention, or is left out; questions; predictions; sets."""

import warnings

import polars as pl
import pytest

import adjudge as adj
import exports
from adjudge.io.formats.export import PREDICTED, SeveralQuestions
from adjudge.io.frames import frame_of
from exports import TASKS, VOTES, annotation, csv, dump, lines, result

pytestmark = pytest.mark.filterwarnings("ignore::adjudge.errors.MissingLabels")


def tasks(*annotations, **more):
    return [{"id": n, "data": {"text": "x"}, "annotations": list(some), **more} for n, some in enumerate(annotations, 1)]


def studio(folder, *annotations, **more):
    return dump(folder / "a.json", tasks(*annotations, **more))


def ballots(votes):
    return sorted(frame_of(votes).rows())


def gold(votes):
    return dict(zip(votes.found_gold.tasks.ids(), [votes.labels.ids()[code] for code in votes.found_gold.labels], strict=True))


def test_label_studio_gold_abstentions_and_drafts(tmp_path):
    path = studio(
        tmp_path,
        [
            annotation("ann", [result("a")]),
            annotation("bob", [result("b")], ground_truth=True),
            annotation("cyd", [result("b")], was_cancelled=True),
            annotation("dan", []),
        ],
        [annotation({"id": 9, "email": "e@x.org"}, [result("a")])],
        drafts=[{"id": 1}],
    )
    votes = adj.read(path)
    assert ballots(votes) == [(1, "1", "a"), (2, "e@x.org", "a")]
    assert votes.labels.ids() == ["a", "b"]  # b is gold's alone
    assert gold(votes) == {"1": "b"}
    assert (votes.abstentions, votes.understood.abstentions, votes.understood.gold) == (2, 2, 1)
    assert votes.understood.skipped == {"drafts": 2}


def test_gold_of_the_export_is_learned_from_unless_other_is_given(tmp_path):
    path = studio(tmp_path, [annotation("ann", [result("a")]), annotation("bob", [result("b")], ground_truth=True)])
    found = adj.aggregate(path, model="mv")
    assert found.labels["label"].to_list() == ["b"]
    assert found.facts["gold_of_export"] == 1
    assert adj.aggregate(adj.read(path), model="mv").labels["label"].to_list() == ["b"]
    for other, label in (({1: "a"}, "a"), ({}, "a")):
        result_ = adj.aggregate(path, model="mv", gold=other)
        assert result_.labels["label"].to_list() == [label]
        assert "gold_of_export" not in result_.facts
    assert adj.aggregate({"task": [1], "worker": ["x"], "label": ["a"]}, labels=["a", "b"], gold=path).labels["label"][0] == "b"
    assert adj.evaluate(found, path).accuracy == 1.0
    with pytest.raises(adj.InputError, match="not among the labels: a"):
        adj.read(path, labels=["a"])


def test_gold_of_the_export_with_workers_left_out_on_disk_and_as_sets(tmp_path):
    path = studio(
        tmp_path,
        [annotation("ann", [result("a")]), annotation("bob", [result("b")], ground_truth=True), annotation("cyd", [result("c")])],
    )
    for options in ({"exclude": [3]}, {"engine": "disk"}, {"engine": "reference"}):
        assert adj.aggregate(path, model="mv", **options).labels["label"].to_list() == ["b"], options
    sets = adj.aggregate(path, multi=True)
    assert sets.labels["label"].to_list() == [["b"]]
    assert sets.votes.understood.gold == 1


def test_two_kinds_of_gold_for_one_task_are_an_error(tmp_path):
    path = studio(
        tmp_path,
        [annotation(w, [result(label)], ground_truth=True) for w, label in (("ann", "a"), ("bob", "b"))]
        + [annotation("eve", [result("a")])],
    )
    with pytest.raises(adj.InputError, match="gold gives task '1' more than one label"):
        adj.read(path)


def test_predictions_vote_only_when_asked(tmp_path):
    predicted = [{"model_version": "bert", "score": 0.9, "result": [result("b")]}]
    path = studio(tmp_path, [annotation("ann", [result("a")])], predictions=predicted)
    votes = adj.read(path)
    assert ballots(votes) == [(1, 1, "a")]
    assert votes.understood.skipped == {PREDICTED: 1}
    both = adj.read(path, predictions=True)
    assert ballots(both) == [(1, "1", "a"), (1, "bert", "b")]
    assert both.understood.columns["worker"] == "annotations[].completed_by, predictions[].model_version"
    for write in (exports.argilla, exports.argilla_flat):
        votes = adj.read(write(tmp_path), predictions=True)
        assert len(votes) == len(VOTES) + len(TASKS)
        assert "gpt" in votes.workers.ids()
        assert votes.understood.columns["worker"].endswith(".agent")


def test_other_kinds_of_label_studio_results(tmp_path):
    def of(kind, value):
        return {"from_name": "q", "to_name": "t", "type": kind, "value": value}

    path = studio(
        tmp_path,
        [annotation("ann", [of("rating", {"rating": 4})])],
        [annotation("ann", [of("taxonomy", {"taxonomy": [["animal", "cat"]]})])],
        [annotation("ann", [of("pairwise", {"selected": "left"})])],
        [annotation("ann", [of("choices", {"choices": ["x"]}), of("choices", {"choices": ["y"]})])],
    )
    votes = adj.read(path)
    assert ballots(votes) == [(1, 1, "4"), (2, 1, "animal / cat"), (3, 1, "left")]
    assert votes.understood.skipped == {"answers on several regions of one task": 1}
    boxes = studio(tmp_path, [annotation("ann", [of("rectanglelabels", {"x": 1, "rectanglelabels": ["car"]})])])
    with pytest.raises(adj.InputError, match="only results of the kinds rectanglelabels"):
        adj.read(boxes)
    decimal = studio(tmp_path, [annotation("ann", [of("rating", {"rating": 4.5})])])
    with pytest.raises(adj.InputError, match=r"is 4.5, which is not a label"):
        adj.read(decimal)


def test_several_choices_are_sets(tmp_path):
    path = studio(tmp_path, [annotation("ann", [result(["a", "b"])]), annotation("bob", [result(["a"])])])
    with pytest.raises(adj.InputError, match=r"has 2 options \(a, b\): these are sets, which multi=True \(--multi\) reads"):
        adj.read(path)
    assert adj.aggregate(path, multi=True, model="mv").votes.options.ids() == ["a", "b"]
    rows = [{**row, "sentiment": '{"choices": ["a", "b"]}' if n == 0 else "a"} for n, row in enumerate(exports.min_rows())]
    found = adj.aggregate(csv(tmp_path / "a.csv", rows), multi=True, model="mv").votes
    assert (found.options.ids(), found.n_votes) == (["a", "b"], len(rows))


def test_several_questions_are_listed_and_chosen(tmp_path):
    path = studio(
        tmp_path,
        [annotation("ann", [result("a"), result("x", "topic")]), annotation("bob", [result("b"), result("y", "topic")])],
    )
    with pytest.raises(SeveralQuestions, match="has 2 questions: sentiment, topic; choose one with question=") as raised:
        adj.read(path)
    assert raised.value.questions == ("sentiment", "topic")
    assert adj.read(path, question="topic").labels.ids() == ["x", "y"]
    assert adj.aggregate(path, question="topic", model="mv").votes.understood.columns["label"] == "topic"
    assert adj.agreement(path, question="topic", model=None).votes == 2
    with pytest.raises(adj.InputError, match="has no question 'mood'; the questions are: sentiment, topic"):
        adj.read(path, question="mood")
    with pytest.raises(adj.OptionError, match="ordinary table"):
        adj.read(csv(tmp_path / "t.csv", [{"task": 1, "worker": 2, "label": 3}]), question="q")


QUESTIONS = {
    "label-studio-csv": lambda f: csv(f / "a.csv", [{**r, "topic": r["sentiment"]} for r in exports.min_rows()]),
    "mturk": lambda f: csv(f / "b.csv", [{**r, "Answer.topic": "x"} for r in exports.mturk_rows()]),
    "toloka": lambda f: csv(f / "c.tsv", [{**r, "OUTPUT:topic": "x"} for r in exports.toloka_rows()], "\t"),
    "argilla-flat": lambda f: dump(
        f / "d.json", [{**r, "topic.responses": ["x"], "topic.responses.users": ["ann"]} for r in exports.flat_records()]
    ),
    "argilla": lambda f: dump(
        f / "e.json",
        [{**r, "responses": {**r["responses"], "topic": [{"value": "x", "user_id": "ann"}]}} for r in exports.argilla_records()],
    ),
    "crowdflower": lambda f: csv(f / "g.csv", [{**r, "topic": "x", "topic_gold": None} for r in exports.crowdflower_rows()]),
    "prodigy": lambda f: lines(f / "h.jsonl", exports.binary_records("Positive") + exports.binary_records("topic")),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_format_with_questions_lists_them(tmp_path, name):
    path = QUESTIONS[name](tmp_path)
    with pytest.raises(SeveralQuestions, match="has 2 questions"):
        adj.read(path)
    assert len(adj.read(path, question="topic"))


def test_label_studio_csv_never_guesses_between_data_and_questions(tmp_path):
    """The file of the trial that took annotation_id for the label."""
    votes = adj.read(exports.label_studio_csv(tmp_path))
    assert votes.labels.ids() == sorted(exports.LABELS)
    unanimous = [{**row, "sentiment": "same"} for row in exports.min_rows()]
    path = csv(tmp_path / "u.csv", unanimous)
    with pytest.raises(adj.InputError, match=r"No column differs .* \(--question\): text, sentiment"):
        adj.read(path)
    assert adj.read(path, question="sentiment").labels.ids() == ["same"]
    assert adj.read(path, label="sentiment").labels.ids() == ["same"]
    assert adj.read(path, label="sentiment", task="text").understood.columns["task"] == "text"


def test_mturk_status_and_forms(tmp_path):
    rows = exports.mturk_rows()
    rows[0]["AssignmentStatus"] = "Rejected"
    rows[1]["Answer.sentiment.label"] = ""
    votes = adj.read(csv(tmp_path / "a.csv", rows))
    assert votes.understood.skipped == {"rejected": 1}
    assert (votes.understood.votes, votes.understood.abstentions) == (len(VOTES) - 2, 1)
    assert votes.understood.columns["label"] == "Answer.sentiment.label"
    radio = [
        {
            **{k: v for k, v in row.items() if k != "Answer.sentiment.label"},
            **{f"Answer.mood.{o}": str(o == label).lower() for o in exports.LABELS},
        }
        for row, (_, _, label) in zip(exports.mturk_rows(), VOTES, strict=True)
    ]
    assert adj.read(csv(tmp_path / "b.csv", radio)).labels.ids() == sorted(exports.LABELS)
    document = [
        {
            **{k: v for k, v in row.items() if k != "Answer.sentiment.label"},
            "Answer.taskAnswers": f'[{{"mood": {{"label": "{label}"}}}}]',
        }
        for row, (_, _, label) in zip(exports.mturk_rows(), VOTES, strict=True)
    ]
    assert adj.read(csv(tmp_path / "c.csv", document)).labels.ids() == sorted(exports.LABELS)
    assert len(adj.read(csv(tmp_path / "d.csv", exports.mturk_rows()), task="Input.text")) == len(VOTES)
    document[3]["Answer.taskAnswers"] = "[{"
    with pytest.raises(adj.InputError, match=r"taskAnswers in row 4 is '\[\{', which is not JSON"):
        adj.read(csv(tmp_path / "c.csv", document))


def test_toloka_gold_and_status(tmp_path):
    rows = exports.toloka_rows()
    for row in rows[:5]:
        row["GOLDEN:result"] = "Positive"
    rows[7]["ASSIGNMENT:status"] = "REJECTED"
    rows[8]["ASSIGNMENT:status"] = "SKIPPED"
    votes = adj.read(csv(tmp_path / "a.tsv", rows, "\t"))
    assert gold(votes) == {"task-100": "Positive"}
    assert votes.understood.gold == 1
    assert votes.understood.skipped == {"rejected": 1}
    assert votes.understood.abstentions == 1
    assert len(votes) == len(VOTES) - 2  # workers vote on control tasks, too
    without = [{k: v for k, v in row.items() if k != "ASSIGNMENT:task_id"} for row in rows]
    assert adj.read(csv(tmp_path / "b.tsv", without, "\t")).understood.columns["task"] == "INPUT:text"


def test_crowdflower_gold_and_tainted(tmp_path):
    rows = exports.crowdflower_rows()
    for row in rows[:5]:
        row |= {"_golden": "true", "sentiment_gold": "Neutral"}
    for row in rows[5:10]:
        row |= {"_golden": "true", "sentiment_gold": "Neutral\nPositive"}
    rows[11]["_tainted"] = "true"
    rows[12]["sentiment"] = None
    votes = adj.read(csv(tmp_path / "a.csv", rows))
    assert gold(votes) == {"100": "Neutral"}
    assert votes.understood.skipped == {"gold with several right answers": 1, "rejected": 1}
    assert votes.understood.abstentions == 1


def test_argilla_statuses(tmp_path):
    record = exports.argilla_records()[0]
    for response, status in zip(
        record["responses"]["sentiment"], ("draft", "discarded", "submitted", None, "submitted"), strict=True
    ):
        response["status"] = status
    flat = exports.flat_records()[0] | {
        "sentiment.responses.status": ["draft", "discarded", "submitted", "submitted", "submitted"]
    }
    for path in (dump(tmp_path / "a.json", [record]), dump(tmp_path / "b.json", [flat])):
        found = adj.read(path).understood
        assert (found.votes, found.abstentions, found.skipped["drafts"]) == (3, 1, 1)


def test_prodigy_answers(tmp_path):
    records = exports.choice_records()
    records[0]["answer"], records[1]["answer"], records[2]["accept"] = "ignore", "reject", []
    votes = adj.read(lines(tmp_path / "a.jsonl", records))
    assert (votes.understood.abstentions, votes.understood.skipped) == (2, {"rejected": 1})
    binary = exports.binary_records()
    binary[0]["answer"] = "ignore"
    votes = adj.read(lines(tmp_path / "b.jsonl", binary))
    assert (votes.labels.ids(), votes.abstentions) == (["accept", "reject"], 1)
    with pytest.raises(adj.InputError, match="marks spans"):
        adj.read(lines(tmp_path / "c.jsonl", [{**binary[0], "spans": [{"start": 0}]}]))


def test_doccano_without_a_label_is_an_abstention(tmp_path):
    folder = exports.doccano_folder(tmp_path)
    lines(folder / "zoe.jsonl", [{"id": t, "text": "x", "label": []} for t in TASKS])
    assert adj.read(folder).abstentions == len(TASKS)


def test_truth_is_refused_as_gold(tmp_path):
    votes = {"task": TASKS, "worker": ["w"] * len(TASKS), "label": [exports.TRUTH[t] for t in TASKS]}
    with pytest.raises(adj.InputError, match="whose truth only evaluates"):
        adj.aggregate(votes, gold=exports.truth_inference(tmp_path), model="mv")


def test_headerless_votes_are_the_script_s_only_by_name_and_content(tmp_path):
    folder = exports.script_files(tmp_path)
    other = tmp_path / "votes.csv"
    other.write_bytes((folder / "crowd.csv").read_bytes())
    with pytest.raises(adj.InputError, match="no column looks like"):
        adj.read(other)
    assert len(adj.read(other, format="fast-dawid-skene")) == len(VOTES)
    assert adj.evaluate(adj.aggregate(folder, model="mv"), folder).tasks == len(TASKS)


def test_unknown_formats_and_options_that_do_not_fit(tmp_path):
    path = exports.label_studio(tmp_path)
    with pytest.raises(adj.OptionError, match=r"unknown format 'label-studo': did you mean 'label-studio'"):
        adj.read(path, format="label-studo")
    with pytest.raises(adj.OptionError, match="ask for one question at a time"):
        adj.read(path, question="all")
    with pytest.raises(adj.OptionError, match="task names a column, and argilla-flat has none"):
        adj.read(exports.argilla_lines(tmp_path), task="id")
    with pytest.raises(adj.InputError, match="no column looks like"):
        adj.read(exports.mturk(tmp_path), format="table")
    votes = adj.read(path)
    with pytest.raises(adj.OptionError, match="already been read"):
        adj.aggregate(votes, question="sentiment")


def test_votes_keep_what_was_understood(tmp_path):
    import pickle

    votes = adj.read(exports.label_studio(tmp_path))
    assert pickle.loads(pickle.dumps(votes)).understood == votes.understood
    assert adj.aggregate(votes, exclude=[1], model="mv").votes.understood == votes.understood
    encoded = adj.encode(exports.label_studio(tmp_path), tmp_path / "v")
    assert len(encoded) == len(VOTES)
    assert len(adj.encode(exports.community_notes(tmp_path), tmp_path / "n")) == len(VOTES)


def test_repeated_votes_are_counted(tmp_path):
    path = studio(
        tmp_path, [annotation("ann", [result("a")]), annotation("ann", [result("b")]), annotation("bob", [result("a")])]
    )
    assert adj.read(path).understood.repeated == 1
    rows = exports.netease_rows()
    path = csv(tmp_path / "a.csv", [*rows, *rows[:4]])
    assert adj.read(path).understood.repeated == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert adj.read(pl.read_csv(path)).understood.format == "netease-crowd"


def test_gold_of_the_export_is_learned_from_by_models_too(tmp_path):
    path = studio(tmp_path, [annotation("ann", [result("a")]), annotation("bob", [result("b")], ground_truth=True)])
    assert adj.MajorityVote().fit(path).labels["label"].to_list() == ["b"]
    assert adj.MajorityVote().fit(path, gold={}).labels["label"].to_list() == ["a"]
