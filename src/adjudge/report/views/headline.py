"""Can these labels be trusted: the figures at the top of a page, and one sentence that says what they come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from adjudge.report import words
from adjudge.results.result import Result

if TYPE_CHECKING:
    from adjudge.results.sets import MultiResult

QUESTION: Final = "Can I trust these labels?"
# On 67 public sets with truth, expected wrong labels were between these multiples of the real ones on seven of ten.
USUAL_RATIO: Final = (0.6, 1.6)
GOOD, FAIR = 0.05, 0.15  # shares of wrong labels


@dataclass(frozen=True, eq=False)
class HeadlineView:
    """The figures that matter most."""

    tasks: int
    workers: int
    votes: int
    labels: int
    noun: str  # label, or set
    model: str
    chose: str  # why the model chose what it did; empty where it did not choose
    expected_wrong: float
    is_honest: bool  # whether confidence is the honest one, which was measured against truth
    votes_per_task: float  # in the mean over votes; NaN where it was not measured
    effective_votes: float
    ties: int
    converged: bool

    @property
    def wrong_share(self) -> float:
        """The share of labels that are expected to be wrong."""
        return self.expected_wrong / max(self.tasks, 1)

    @property
    def wrong_range(self) -> tuple[float, float] | None:
        """Between what wrong labels really were on seven of ten public sets that expected as many; None where nobody knows."""
        if not self.is_honest or self.noun != "label":
            return None
        low, high = USUAL_RATIO
        return self.expected_wrong / high, min(self.expected_wrong / low, float(self.tasks))

    @property
    def sentence(self) -> str:
        """What the figures come to."""
        if not self.tasks:
            return "There are no votes, and no labels."
        wrong, noun = self.expected_wrong, self.noun
        share = words.percent(self.wrong_share)
        good = self.wrong_share <= GOOD
        if wrong < 0.5 and good:
            return words.sentence(f"hardly any {noun} is expected to be wrong")
        about = f"about {words.figure(wrong)} of {words.counted(self.tasks, noun)} ({share})"
        are = "is" if words.figure(wrong) == "1" else "are"
        verdict = (
            "most can be trusted" if good else "look at the doubtful ones" if self.wrong_share <= FAIR else "handle with care"
        )
        if self.tasks == 1:
            return words.sentence(f"there is one {noun}, which is wrong with a probability of {share}: {verdict}")
        return words.sentence(f"{about} {are} expected to be wrong: {verdict}")


def headline(result: Result | MultiResult) -> HeadlineView:
    """Return the view of the figures at the top.

    - `result`: of any model, in memory or on disk.

    >>> import adjudge as adj
    >>> headline(adj.aggregate(adj.simulate(tasks=300, workers=8, seed=1).votes)).workers
    8
    """
    is_single = isinstance(result, Result)
    first = result if isinstance(result, Result) else result.results[0]
    facts: Mapping[str, object] = result.facts if is_single or len(result.results) == 1 else {}  # type: ignore[union-attr]
    votes, effective = (float(v) if isinstance(v := facts.get(name), int | float) else float("nan") for name in MEASURED)
    if isinstance(result, Result):
        grouping, known = result.grouping, result.votes
        size = (known.n_tasks, known.n_workers if grouping is None else grouping.members.n_workers, len(known), known.n_labels)
    else:
        sets = result.votes
        size = (len(sets.tasks), sets.binary.n_workers, sets.n_votes, len(sets.options))
    return HeadlineView(
        *size,
        noun="label" if is_single else "set",
        model=result.model,
        chose=str(facts.get("why") or ""),
        expected_wrong=result.expected_errors if size[0] else 0.0,
        is_honest=first.fit.honest is not None,
        votes_per_task=votes,
        effective_votes=effective,
        ties=result.ties,
        converged=result.converged,
    )


MEASURED: Final = ("votes_per_task", "effective_votes")
