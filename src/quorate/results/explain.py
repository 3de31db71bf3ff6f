"""Explanations of labels, from a result: of one task, or of many with one preparation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.data import options
from quorate.data.options import Choice, Number, Rules
from quorate.data.vocabulary import Vocabulary, text_of
from quorate.data.votes import Votes
from quorate.engines.base import OffersScoring
from quorate.errors import InputError, OptionError, listed, shown
from quorate.io.ids import column, matched
from quorate.results import settling
from quorate.results.evidence import CERTAIN, Evidence, TaskVotes, calibrated, honest_evidence, model_evidence
from quorate.results.explanation import Explanation, MemberVote, SetExplanation, Step, VoteEvidence
from quorate.results.flips import Flips, flips_of
from quorate.results.knowledge import Learned

if TYPE_CHECKING:
    from quorate.results.result import Result
    from quorate.results.sets import MultiResult

By = Literal["confidence", "model"]
SETTLED: Final = 0.95  # confidence from which a label counts as settled
RULES: Rules = {"settled": Number(least=0.5, most=0.999999), "by": Choice(get_args(By))}
CELLS: Final = 1 << 22  # votes x labels explained at once, so that tables stay small
NEAR: Final = 3  # tasks named where one is unknown
SOUGHT: Final = 10_000  # tasks compared with an unknown one
Codes = NDArray[np.int64]
REMOTE: Final = "the tasks of this result stay on executors: aggregate the votes of the tasks in question with engine='cpu'"


def explain(result: Result, task: object, *, settled: float = SETTLED, by: By = "confidence") -> Explanation:
    """Return why a task has its label; see `Result.explain`."""
    options.check({"settled": settled, "by": by}, RULES)
    return explain_many(result, codes_of(result, [task]), settled=settled, by=by)[0]


def explain_many(result: Result, codes: Codes, *, settled: float = SETTLED, by: By = "confidence") -> list[Explanation]:
    """Return why tasks have their labels, by the tasks' codes, [tasks]: in this order, with one preparation for all.

    Beyond the preparation, which is one look at all workers and, in memory, one pass over the votes, only the votes of these
    tasks are read.

    - `settled`: the confidence from which a label counts as settled.
    - `by`: "confidence" explains the reported probabilities, "model" the model's own posterior.

    >>> import quorate as qr
    >>> result = qr.aggregate(qr.simulate(tasks=50, workers=5, seed=1).votes)
    >>> [why.task for why in explain_many(result, np.array([3, 0]))]
    ['t3', 't0']
    """
    options.check({"settled": settled, "by": by}, RULES)
    require_here(result, "explain")
    prepared = Prepared(result, settled, by)
    return [one for some in _batches(result, np.asarray(codes, np.int64)) for one in prepared.explained(some)]


def explain_set(result: MultiResult, task: object, *, settled: float = SETTLED, by: By = "confidence") -> SetExplanation:
    """Return why a task has its set of options; see `MultiResult.explain`."""
    options.check({"settled": settled, "by": by}, RULES)
    known = result.votes
    code = int(matched(Vocabulary.of_texts([text_of(task)]), known.tasks)[0])
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
    """Raise where the tasks of a result are not in this process, nor on its disk."""
    if len(result.fit.outcome.labels) != result.votes.n_tasks or not isinstance(result.session, OffersScoring):
        raise OptionError(f"{what} looks at the votes of tasks, and {REMOTE}")


def codes_of(result: Result, tasks: list[object]) -> Codes:
    """Return the codes of tasks, [tasks]; an unknown one is an error that names others like it."""
    require_here(result, "explain")
    known, texts = result.votes.tasks, [text_of(task) for task in tasks]
    if getattr(known, "is_hashed", False):
        codes = known.codes(texts)
    else:
        wanted = sorted(set(texts))
        place = matched(Vocabulary.of_texts(wanted), known)
        codes = place[np.searchsorted(np.array(wanted, object), np.array(texts, object))]
    for task, code in zip(tasks, codes.tolist(), strict=True):
        if code < 0:
            raise unknown_task(task, known, result.votes.unvoted)
    return codes


def unknown_task(task: object, known: Vocabulary, unvoted: Any) -> InputError:
    """Return the error for a task that has no votes, with the ids nearest to it."""
    ids = unvoted if isinstance(unvoted, pl.Series) else column(unvoted)
    if len(ids) and (ids.cast(pl.String) == text_of(task)).any():
        return InputError(f"task {shown(task)} has nothing but abstentions: there is no label to explain")
    near = get_close_matches(text_of(task), _alike(text_of(task), known), n=NEAR, cutoff=0.5)
    hint = (
        f"did you mean {listed(near)}?" if near else f"there are {len(known)} tasks, {known[0]} among them" if len(known) else ""
    )
    return InputError(f"task {shown(task)} has no votes here{': ' if hint else ''}{hint}")


def _alike(text: str, known: Vocabulary) -> list[str]:
    """Return the ids that an unknown one is compared with: of many tasks those of about its length that share a beginning."""
    every = column(known).cast(pl.String)
    if len(every) > SOUGHT:
        start = text[: max(len(text) // 2, 1)].lower()
        every = every.filter(every.str.to_lowercase().str.starts_with(start)).head(SOUGHT)
    return every.to_list()


def _batches(result: Result, codes: Codes) -> Iterator[TaskVotes]:
    """Yield the votes of tasks, of so many at a time that tables of votes x labels stay small."""
    first, cells, k = 0, 0, max(result.votes.n_labels, 1)
    for at, code in enumerate(codes.tolist()):
        cells += result.votes.votes_on(code) * k
        if cells > CELLS:
            yield TaskVotes.of(result, codes[first : at + 1])
            first, cells = at + 1, 0
    if first < len(codes):
        yield TaskVotes.of(result, codes[first:])


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
        return settling.mean_worker(self.learned)

    @cached_property
    def accuracy(self) -> NDArray[np.float64]:
        """The accuracy of every worker, [workers]: as `result.workers` has it; on disk as the model has it, without a pass."""
        result, votes = self.result, self.result.votes
        cast = votes.votes_per_row()
        if result.fit.honest is not None and type(votes) is Votes:
            found: NDArray[np.float64] = result.fit.honest.worker_accuracy(votes, votes.by_worker(cast), result.per_set)[0]
            return found
        weight = 1.0 if votes.row_weight is None else votes.row_weight
        accuracy: NDArray[np.float64] = votes.by_worker(result.fit.outcome.right * weight) / votes.by_worker(cast * weight)
        return accuracy

    def explained(self, some: TaskVotes) -> list[Explanation]:
        """Return the explanations of some tasks, in order."""
        honest = self.result.fit.honest if self.is_honest else None
        found = model_evidence(some) if honest is None else honest_evidence(some, honest.honest.rule, self.lines)
        if self.by == "confidence":
            found = calibrated(some, found)
        flips = flips_of(some, found.runner_up, self.learned)
        more = self._more_votes(some, found)
        return [self._explained(some, at, found, flips, more[at]) for at in range(some.n_tasks)]

    @property
    def is_honest(self) -> bool:
        """Whether the probabilities that are explained are honest."""
        return self.result.fit.honest is not None and self.by == "confidence"

    def _more_votes(self, some: TaskVotes, found: Evidence) -> list[int | None]:
        """Return how many more votes would settle each task."""
        fit = self.result.fit
        if self.is_honest:
            return settling.more_honest_votes(some, fit.honest.honest, found.sums, self.settled, fit.temperature)
        decided_by, _ = cast(OffersScoring, self.result.session).scoring()
        if decided_by == "scores":
            return settling.more_scored_votes(some, found.probabilities, self.mean_worker, self.settled)
        skill = self.learned.skill if decided_by == "weights" else None
        weight = 1.0 if skill is None or not len(skill) else float(skill.mean())
        return settling.more_counted_votes(some, found.sums, weight, self.mean_worker, self.settled)

    def _explained(self, some: TaskVotes, at: int, found: Evidence, flips: Flips, more: int | None) -> Explanation:
        result, votes = self.result, self.result.votes
        code, label, other = int(some.codes[at]), int(some.labels[at]), int(found.runner_up[at])
        known = "gold" in result.fit.task_columns and bool(some.figures(result.fit.task_columns["gold"])[at])
        probabilities, log_odds, prior = found.probabilities[at], float(found.log_odds[at]), float(found.prior[at])
        confidence, steps, certain = float(probabilities[label]), found.steps[at], bool(found.certain[at])
        if known or other < 0:
            word, why = ("gold", "the label was given") if known else ("only label", "there is no other label")
            probabilities, confidence = np.eye(len(probabilities))[label], 1.0
            steps, log_odds, prior, certain, more = (Step(word, CERTAIN, why),), CERTAIN, 0.0, True, 0
        elif self.by == "confidence":
            confidence = float(some.figures(result.fit.outcome.confidence)[at])
            more = 0 if confidence >= self.settled else None if more == 0 else more
        evidence = self._evidence(some, at, found, flips, counts=not (known or other < 0))
        return Explanation(
            task=votes.tasks[code],
            label=votes.labels[label],
            confidence=confidence,
            probabilities=dict(zip(votes.labels.ids(), probabilities.tolist(), strict=True)),
            runner_up=None if other < 0 else votes.labels[other],
            log_odds=log_odds,
            prior=prior,
            evidence=evidence,
            steps=steps,
            more_votes=more,
            settled=self.settled,
            tie=bool(some.figures(result.fit.outcome.tie)[at]),
            known=known,
            certain=certain,
            model=result.model,
            confidence_by="honest" if self.is_honest else "posterior",
            frame_kind=votes.frame_kind,
            not_cast=self._not_cast(some, at),
        )

    def _evidence(self, some: TaskVotes, at: int, found: Evidence, flips: Flips, *, counts: bool) -> tuple[VoteEvidence, ...]:
        """Return the votes of a task, largest contribution first; none has one where nothing `counts`."""
        votes, cut = self.result.votes, slice(int(some.task_ptr[at]), int(some.task_ptr[at + 1]))
        contribution = found.contribution[cut] if counts else np.zeros(cut.stop - cut.start)
        members = self._members(some, at)
        out = [
            VoteEvidence(
                worker=(worker := votes.workers[int(some.worker[v])]),
                label=votes.labels[int(some.given[v])],
                weight=float(some.weight[v]),
                contribution=part,
                accuracy=float(self.accuracy[some.worker[v]]),
                flips_if_removed=counts and bool(flips.removed[v]),
                flips_if_changed=counts and bool(flips.changed[v]),
                members=members.get(text_of(worker), ()),
            )
            for v, part in zip(range(cut.start, cut.stop), contribution.tolist(), strict=True)
        ]
        return tuple(sorted(out, key=lambda vote: -vote.contribution))

    def _members(self, some: TaskVotes, at: int) -> dict[str, tuple[MemberVote, ...]]:
        """Return the votes of members of groups on a task, by the text of their group."""
        grouping, out = self.result.grouping, dict[str, list[MemberVote]]()
        if grouping is None:
            return {}
        task = some.result.votes.tasks[int(some.codes[at])]
        code = int(matched(Vocabulary.of_texts([text_of(task)]), grouping.members.tasks)[0])
        if code < 0:
            return {}
        rows = grouping.members.rows_on(code)
        worker = np.searchsorted(grouping.members.worker_ptr, rows, side="right") - 1
        for w, given in zip(worker.tolist(), grouping.members.row_label[rows].tolist(), strict=True):
            group = int(grouping.group[w])
            if group >= 0:
                one = MemberVote(grouping.members.workers[w], grouping.members.labels[given])
                out.setdefault(text_of(grouping.groups[group]), []).append(one)
        return {group: tuple(members) for group, members in out.items()}

    def _not_cast(self, some: TaskVotes, at: int) -> tuple[MemberVote, ...]:
        """Return the votes of members whose group did not vote on a task, as they tied."""
        cut = slice(int(some.task_ptr[at]), int(some.task_ptr[at + 1]))
        voted = {text_of(self.result.votes.workers[w]) for w in some.worker[cut].tolist()}
        return tuple(one for group, members in self._members(some, at).items() if group not in voted for one in members)
