"""Explanations of labels, from a result: of one task, or of many with one preparation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data import options
from adjudge.data.options import Choice, Number, Rules
from adjudge.data.vocabulary import Vocabulary, text_of
from adjudge.data.votes import Votes
from adjudge.engines.base import OffersScoring
from adjudge.errors import InputError, OptionError, itemize, quote
from adjudge.io.frames import column, match_ids
from adjudge.io.items import items_of
from adjudge.models.knowledge import Learned
from adjudge.results.evidence import (
    CERTAIN_LOG_ODDS,
    Flips,
    LabelEvidence,
    TaskVotes,
    calibrate_evidence,
    flips_of,
    honest_evidence,
    mean_worker,
    model_evidence,
    more_counted_votes,
    more_honest_votes,
    more_scored_votes,
    stack_flips,
)
from adjudge.results.explanation import Explanation, MemberVote, SetExplanation, Step, VoteEvidence

if TYPE_CHECKING:
    from adjudge.results.result import Result
    from adjudge.results.sets import MultiResult

By = Literal["confidence", "model"]
SETTLED_CONFIDENCE: Final = 0.95  # confidence from which a label counts as settled
RULES: Rules = {"settled": Number(least=0.5, most=0.999999), "by": Choice(get_args(By))}
EXPLAIN_CHUNK_CELLS: Final = 1 << 22  # votes x labels explained at once, so that tables stay small
MAX_NEAR: Final = 3  # tasks named where one is unknown
MAX_SIMILAR_CANDIDATES: Final = 10_000  # tasks compared with an unknown one
Codes = NDArray[np.int64]
Members = dict[str, tuple[MemberVote, ...]]  # votes of members by the text of their group
TASKS_ON_EXECUTORS: Final = (
    "the tasks of this result stay on executors: aggregate the votes of the tasks in question with engine='cpu'"
)


def explain(result: Result, task: object, *, settled: float = SETTLED_CONFIDENCE, by: By = "confidence") -> Explanation:
    """Return why a task has its label; see `Result.explain`."""
    options.check({"settled": settled, "by": by}, RULES)
    return explain_many(result, codes_of(result, [task]), settled=settled, by=by)[0]


def explain_many(
    result: Result, codes: Codes, *, settled: float = SETTLED_CONFIDENCE, by: By = "confidence"
) -> list[Explanation]:
    """Return why tasks have their labels, by the tasks' codes, [tasks]: in this order, with one preparation for all.

    Beyond the preparation, which is one look at all workers and, in memory, one pass over the votes, only the votes of these
    tasks are read.

    Parameters
    ----------
    result : Result
        The labels to explain.
    codes : integers, [tasks]
        The codes of the tasks.
    settled : float, default 0.95
        The confidence from which a label counts as settled.
    by : By, default "confidence"
        "confidence" explains the reported probabilities, "model" the model's own posterior.

    Returns
    -------
    list[Explanation]
        One explanation per code, in this order.

    Examples
    --------
    >>> import adjudge as adj
    >>> result = adj.aggregate(adj.simulate(tasks=50, workers=5, seed=1).votes)
    >>> [why.task for why in explain_many(result, np.array([3, 0]))]
    ['t3', 't0']

    """
    options.check({"settled": settled, "by": by}, RULES)
    require_here(result, "explain")
    prepared = Prepared(result, settled, by)
    found = [one for some in _batches(result, np.asarray(codes, np.int64)) for one in prepared.explain_tasks(some)]
    if getattr(result.votes, "item_source", None) is None:
        return found
    items = items_of(result.votes, [text_of(one.task) for one in found])
    return [replace(one, item=items[text_of(one.task)]) if text_of(one.task) in items else one for one in found]


def explain_set(
    result: MultiResult, task: object, *, settled: float = SETTLED_CONFIDENCE, by: By = "confidence"
) -> SetExplanation:
    """Return why a task has its set of options; see `MultiResult.explain`."""
    options.check({"settled": settled, "by": by}, RULES)
    known = result.votes
    code = int(match_ids(Vocabulary.of_texts([text_of(task)]), known.tasks)[0])
    if code < 0:
        raise unknown_task(task, known.tasks, known.unvoted)
    names, k = known.options.texts(), len(known.options)
    if len(result.results) == 1:
        found = explain_many(result.results[0], code * k + np.arange(k), settled=settled, by=by)
    else:
        found = [explain_many(one, np.array([code]), settled=settled, by=by)[0] for one in result.results]
    by_option = dict(sorted(zip(names, found, strict=True), key=lambda pair: pair[1].confidence))
    chosen = [name for name, one in zip(names, found, strict=True) if text_of(one.label) == "yes"]
    confidence = float(np.prod([one.confidence for one in found]))
    return SetExplanation(known.tasks[code], chosen, confidence, by_option, known.frame_kind)


def require_here(result: Result, what: str) -> None:
    """Raise if the tasks of a result are not in this process, nor on its disk."""
    if len(result.fit.outcome.labels) != result.votes.n_tasks or not isinstance(result.session, OffersScoring):
        raise OptionError(f"{what} looks at the votes of tasks, and {TASKS_ON_EXECUTORS}")


def codes_of(result: Result, tasks: list[object]) -> Codes:
    """Return the codes of tasks, [tasks]; an unknown one is an error that names others like it."""
    require_here(result, "explain")
    known, texts = result.votes.tasks, [text_of(task) for task in tasks]
    if getattr(known, "is_hashed", False):
        codes = known.codes(texts)
    else:
        wanted = sorted(set(texts))
        place = match_ids(Vocabulary.of_texts(wanted), known)
        codes = place[np.searchsorted(np.array(wanted, object), np.array(texts, object))]
    for task, code in zip(tasks, codes.tolist(), strict=True):
        if code < 0:
            raise unknown_task(task, known, result.votes.unvoted)
    return codes


def unknown_task(task: object, known: Vocabulary, unvoted: Any) -> InputError:
    """Return the error for a task that has no votes, with the ids nearest to it."""
    ids = unvoted if isinstance(unvoted, pl.Series) else column(unvoted)
    if len(ids) and (ids.cast(pl.String) == text_of(task)).any():
        return InputError(f"task {quote(task)} has nothing but abstentions: there is no label to explain")
    near = get_close_matches(text_of(task), _alike(text_of(task), known), n=MAX_NEAR, cutoff=0.5)
    hint = (
        f"did you mean {itemize(near)}?" if near else f"there are {len(known)} tasks, {known[0]} among them" if len(known) else ""
    )
    return InputError(f"task {quote(task)} has no votes here{': ' if hint else ''}{hint}")


def _alike(text: str, known: Vocabulary) -> list[str]:
    """Return the ids that an unknown one is compared with: of many tasks those of about its length that share a beginning."""
    every = column(known).cast(pl.String)
    if len(every) > MAX_SIMILAR_CANDIDATES:
        start = text[: max(len(text) // 2, 1)].lower()
        every = every.filter(every.str.to_lowercase().str.starts_with(start)).head(MAX_SIMILAR_CANDIDATES)
    return every.to_list()


def _batches(result: Result, codes: Codes) -> Iterator[TaskVotes]:
    """Yield the votes of tasks in batches, so that tables of votes x labels stay small."""
    first, cells, k = 0, 0, max(result.votes.n_labels, 1)
    for at, code in enumerate(codes.tolist()):
        cells += result.votes.votes_on(code) * k
        if cells > EXPLAIN_CHUNK_CELLS:
            yield TaskVotes.of(result, codes[first : at + 1])
            first, cells = at + 1, 0
    if first < len(codes):
        yield TaskVotes.of(result, codes[first:])


class TaskFindings(NamedTuple):
    """What is known of some tasks, before it is put into words."""

    evidence: LabelEvidence
    flips: Flips
    more: list[int | None]  # [tasks] votes that would settle each
    known: NDArray[np.bool_]  # [tasks] gold
    tie: NDArray[np.bool_]  # [tasks]
    confidence: NDArray[np.float64]  # [tasks] as reported
    members: list[Members]  # [tasks]


@dataclass(frozen=True, eq=False)
class Prepared:
    """What explanations of one result share."""

    result: Result
    settled: float
    by: By

    @cached_property
    def lines(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What votes of each row say of every label, where confidence is honest, [rows, K] each."""
        lines: tuple[NDArray[np.float64], NDArray[np.float64]] = self.result.fit.honest.vote_lines()
        return lines

    @cached_property
    def learned(self) -> Learned:
        """What the fit has learned: what decides if a vote changes."""
        return self.result.learned()

    @cached_property
    def mean_worker(self) -> NDArray[np.float64]:
        """The confusion of the mean worker, [K given, K true]."""
        return mean_worker(self.learned)

    @cached_property
    def accuracy(self) -> NDArray[np.float64]:
        """The accuracy of every worker, [workers]: as `result.workers` has it; on disk as the model has it, without a pass."""
        result, votes = self.result, self.result.votes
        cast = votes.votes_per_row()
        if result.fit.honest is not None and type(votes) is Votes:
            found: NDArray[np.float64] = result.fit.honest.worker_accuracy(votes, votes.by_worker(cast), result.per_set)[0]
            return found
        weight = 1.0 if votes.row_weight is None else votes.row_weight
        accuracy: NDArray[np.float64] = votes.by_worker(result.right_votes * weight) / votes.by_worker(cast * weight)
        return accuracy

    def explain_tasks(self, some: TaskVotes) -> list[Explanation]:
        """Return the explanations of some tasks, in order."""
        honest = self.result.fit.honest if self.is_honest else None
        found = model_evidence(some) if honest is None else honest_evidence(some, honest.honest.rule, self.lines)
        if self.by == "confidence":
            found = calibrate_evidence(some, found)
        fit = self.result.fit
        findings = TaskFindings(
            found,
            flips_of(some, found.runner_up, self.learned) if fit.stack is None else stack_flips(some, found.runner_up),
            self._more_votes(some, found),
            some.figures(fit.task_columns["gold"]) if "gold" in fit.task_columns else np.zeros(some.n_tasks, np.bool_),
            some.figures(fit.outcome.tie),
            some.figures(fit.outcome.confidence),
            self._members(some),
        )
        return [self._explain_task(some, at, findings) for at in range(some.n_tasks)]

    @property
    def is_honest(self) -> bool:
        """Whether the probabilities that are explained are honest."""
        return self.result.fit.honest is not None and self.by == "confidence"

    def _more_votes(self, some: TaskVotes, found: LabelEvidence) -> list[int | None]:
        """Return how many more votes would settle each task."""
        fit = self.result.fit
        if self.is_honest:
            return more_honest_votes(some, fit.honest.honest, found.sums, self.settled, fit.temperature)
        decided_by, _ = cast(OffersScoring, self.result.session).scoring()
        if decided_by == "scores" or self.result.fit.stack is not None:
            return more_scored_votes(some, found.probabilities, self.mean_worker, self.settled)
        skill = self.learned.skill if decided_by == "weights" else None
        weight = 1.0 if skill is None or not len(skill) else float(skill.mean())
        return more_counted_votes(some, found.sums, weight, self.mean_worker, self.settled)

    def _explain_task(self, some: TaskVotes, at: int, findings: TaskFindings) -> Explanation:
        votes, found, known = self.result.votes, findings.evidence, bool(findings.known[at])
        label, other = int(some.labels[at]), int(found.runner_up[at])
        probabilities, log_odds, prior = found.probabilities[at], float(found.log_odds[at]), float(found.prior[at])
        confidence, steps, certain = float(probabilities[label]), found.steps[at], bool(found.certain[at])
        more, decided = findings.more[at], not (known or other < 0)
        if not decided:
            word, why = ("gold", "the label was given") if known else ("only label", "there is no other label")
            probabilities, confidence = np.eye(len(probabilities))[label], 1.0
            steps, log_odds, prior, certain, more = (Step(word, CERTAIN_LOG_ODDS, why),), CERTAIN_LOG_ODDS, 0.0, True, 0
        elif self.by == "confidence":
            confidence = float(findings.confidence[at])
            more = 0 if confidence >= self.settled else None if more == 0 else more
        voted = {text_of(votes.workers[w]) for w in some.worker[some.cut(at)].tolist()}
        return Explanation(
            task=votes.tasks[int(some.codes[at])],
            label=votes.labels[label],
            confidence=confidence,
            probabilities=dict(zip(votes.labels.ids(), probabilities.tolist(), strict=True)),
            runner_up=None if other < 0 else votes.labels[other],
            log_odds=log_odds,
            prior=prior,
            evidence=self._evidence(some, at, findings, decided=decided),
            steps=steps,
            more_votes=more,
            settled=self.settled,
            tie=bool(findings.tie[at]),
            known=known,
            certain=certain,
            model=self.result.model,
            confidence_by="honest" if self.is_honest else "posterior",
            frame_kind=votes.frame_kind,
            is_opaque=self.result.fit.is_opaque,
            not_cast=tuple(one for group, members in findings.members[at].items() if group not in voted for one in members),
        )

    def _evidence(self, some: TaskVotes, at: int, findings: TaskFindings, *, decided: bool) -> tuple[VoteEvidence, ...]:
        """Return the votes of a task, largest contribution first; none has one where votes have not `decided`."""
        votes, cut, is_opaque = self.result.votes, some.cut(at), self.result.fit.is_opaque
        contribution = findings.evidence.contribution[cut] if decided else np.zeros(cut.stop - cut.start)
        out = [
            VoteEvidence(
                worker=(worker := votes.workers[int(some.worker[v])]),
                label=votes.labels[int(some.given[v])],
                weight=float(some.weight[v]),
                contribution=part,
                accuracy=float(self.accuracy[some.worker[v]]),
                flips_if_removed=None if is_opaque else decided and bool(findings.flips.removed[v]),
                flips_if_changed=None if is_opaque else decided and bool(findings.flips.changed[v]),
                members=findings.members[at].get(text_of(worker), ()),
            )
            for v, part in zip(range(cut.start, cut.stop), contribution.tolist(), strict=True)
        ]
        return tuple(sorted(out, key=lambda vote: -vote.contribution))

    def _members(self, some: TaskVotes) -> list[Members]:
        """Return the votes of members of groups on each task, by the text of their group."""
        grouping = self.result.grouping
        if grouping is None:
            return [{}] * some.n_tasks
        cast, out = grouping.members, []
        for code in match_ids(self.result.votes.tasks.take(some.codes), cast.tasks).tolist():
            by_group: dict[str, list[MemberVote]] = {}
            _, rows = cast.votes_in(slice(code, code + 1))
            workers = np.searchsorted(cast.worker_ptr, rows, side="right") - 1
            for worker, given in zip(workers.tolist(), cast.row_label[rows].tolist(), strict=True):
                group = int(grouping.group[worker])
                if group >= 0:
                    one = MemberVote(cast.workers[worker], cast.labels[given])
                    by_group.setdefault(text_of(grouping.groups[group]), []).append(one)
            out.append({group: tuple(members) for group, members in by_group.items()})
        return out
