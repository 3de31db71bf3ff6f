"""Groups of workers in a result: their own figures, those of their members, and groups that the votes show.

The fit knows groups. Its members are judged by their own votes: against the labels, and by the honest probabilities that
the fit of the groups gives their answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.options import DEFAULTS
from adjudge.data.votes import Votes
from adjudge.engines.base import Session
from adjudge.engines.passes import Answers, RowFunction, VotePass
from adjudge.engines.registry import resolve
from adjudge.engines.shard import cuts
from adjudge.errors import AdjudgeError
from adjudge.io.encode import over_labels
from adjudge.io.frames import column, match_ids, numbers
from adjudge.io.workers import GroupedVotes
from adjudge.kernels import reference
from adjudge.kernels.reference import ANSWER_UNIT
from adjudge.models.temperature import posterior_pieces
from adjudge.results.trust.copies import find_copies

if TYPE_CHECKING:
    from adjudge.results.result import Result

GROUP_CHUNK_CELLS: Final = 1 << 22  # votes x labels per block, so that copies stay small
OF_GROUPS: Final = ("votes", "accuracy", "accuracy_low", "accuracy_high", "agreement")
Floats = NDArray[np.float64]


def answering_alike(result: Result) -> dict[str, str]:
    """Return worker to group for the rings of workers whom the copy detector finds; a ring is named after its first member."""
    votes = result.votes
    found = find_copies(votes, result.fit.outcome.labels, result.session.gold())
    if found is None:
        raise AdjudgeError(
            "groups='answers_like' compares workers, and there is too little memory for it: give groups as a table"
        )
    members = np.flatnonzero(found.ring >= 0)
    names = column(votes.workers).cast(pl.String) if len(members) else pl.Series([], dtype=pl.String)
    return dict(zip(names.gather(members), names.gather(found.ring[members]), strict=True))


def groups_frame(result: Result) -> pl.DataFrame:
    """Return a line per group: what its members decided together; no line where workers vote alone."""
    grouping = result.grouping
    if grouping is None:
        kinds: dict[str, Any] = {"group": pl.String, "members": pl.Int64, "votes": pl.Int64, "ties_within": pl.Int64}
        return pl.DataFrame(schema=kinds | dict.fromkeys(OF_GROUPS[1:], pl.Float64))
    known = pl.DataFrame(
        {
            "group": column(grouping.groups).cast(pl.String),
            "members": numbers(np.bincount(grouping.group[grouping.group >= 0], minlength=len(grouping.groups))),
            "ties_within": numbers(grouping.ties),
        }
    )
    voters = replace(result, grouping=None).workers_frame()
    figures = voters.select(
        pl.col("worker").cast(pl.String).alias("group"), *(name for name in OF_GROUPS if name in voters.columns)
    )
    whole = known.join(figures, on="group", how="left", maintain_order="left").with_columns(pl.col("votes").fill_null(0))
    return whole.select("group", "members", "votes", "ties_within", *figures.columns[2:]).with_columns(
        group=column(grouping.groups)
    )


def members_frame(result: Result, *, trust: bool) -> pl.DataFrame:
    """Return a line per worker, members of groups and others alike, judged by their own votes.

    `votes` are all that a worker cast; the other figures are of those on tasks that have a label.
    """
    from adjudge.results.workers import abstained_column  # results show these frames

    grouping = cast(GroupedVotes, result.grouping)
    votes = grouping.members.by_worker(grouping.members.votes_per_row())
    every = pl.DataFrame(
        {
            "worker": column(grouping.members.workers),
            "group": column(grouping.groups, grouping.group),
            "votes": numbers(votes),
        }
    )
    figures = as_members(result).workers_frame(trust=trust).drop("votes")
    whole = every.join(figures, on="worker", how="left", maintain_order="left")
    return whole.with_columns(abstained_column(grouping.members, votes))


def as_members(result: Result) -> Result:
    """Return the result over the votes of members: the same labels of tasks, the workers one by one."""
    grouping = cast(GroupedVotes, result.grouping)
    votes = on_labelled_tasks(over_labels(grouping.members, result.votes.labels, "fit"), result.votes)
    session = MemberSession(result, votes)
    fit = replace(
        result.fit,
        outcome=replace(result.fit.outcome, right_votes=_right(result, votes)),
        honest=None if result.fit.honest is None else replace(result.fit.honest, session=session),
        worker_columns=_known_columns(result, votes),
    )
    return replace(result, votes=votes, fit=fit, session=cast(Session, session), grouping=None)


def on_labelled_tasks(members: Votes, counted: Votes) -> Votes:
    """Return the votes of members on the tasks that have votes of groups, which are all but those whose groups tied."""
    if members.n_tasks == counted.n_tasks:
        return members
    there = np.flatnonzero(match_ids(members.tasks, counted.tasks) >= 0)
    task_ptr, row = reference.select(members.task_ptr, members.row, there)
    used = np.bincount(row, minlength=members.n_rows) > 0
    worker = members.row_worker()[used]
    present = np.unique(worker)
    return replace(
        members,
        task_ptr=task_ptr,
        row=(np.cumsum(used) - 1)[row].astype(np.uint32),
        worker_ptr=np.append(np.searchsorted(worker, present), len(worker)).astype(np.int64),
        row_label=members.row_label[used],
        tasks=counted.tasks,
        workers=members.workers.take(present),
        abstained=None if members.abstained is None else members.abstained[present],
        unvoted=counted.unvoted,
    )


@dataclass(frozen=True, eq=False)
class MemberSession:
    """What the workers of a result ask of a session, answered for members: by the fit of their groups."""

    result: Result  # of the groups
    members: Votes  # on the same tasks

    @property
    def votes(self) -> Votes:
        """The votes of members."""
        return self.members

    def gold(self) -> NDArray[np.bool_] | None:
        """Return which tasks have their label from gold, [tasks]; None if no gold was given."""
        return self.result.session.gold()

    def recount(self, labels: NDArray[np.int32]) -> None:
        """Take these labels, [tasks], as the current ones."""
        self.result.session.recount(labels)

    @cached_property
    def own(self) -> Session:
        """A session over the votes of members: what their answers say of each other."""
        from adjudge.results.workers import gold_frame  # results make these sessions

        fitted = self.result
        seed, ties = (cast(Any, fitted.settings.get(name, getattr(DEFAULTS, name))) for name in ("seed", "ties"))
        known = self.gold()
        gold = None if known is None else gold_frame(self.members, fitted.fit.outcome.labels, known)
        return resolve(DEFAULTS.engine).load(self.members, seed=seed, ties=ties, gold=gold)

    def run(self, job: VotePass[Any], function: RowFunction) -> Floats:
        """Return sums by members' row of the probability of every vote's answer, and of its label being wrong, [2, rows]."""
        assert isinstance(job, Answers)  # the only pass over members; `own` runs the others
        fit, members, labels = self.result.votes, self.members, self.result.fit.outcome.labels
        lines, without = self.result.session.gather(function)
        gold, sums = self.gold(), np.zeros((2, members.n_rows))
        for cut in cuts(fit.task_ptr, max(GROUP_CHUNK_CELLS // max(fit.n_labels, 1), 1)):
            some = labels[cut]
            before = np.empty((len(some), fit.n_labels))
            ptr = fit.task_ptr[cut.start : cut.stop + 1]
            reference.honest_pass(ptr, fit.row, fit.row_label, some, lines, without, job.rule, unraised=before)
            if gold is not None:  # certain: right or wrong
                before[gold[cut]] = np.eye(fit.n_labels)[some[gold[cut]]]
            own = members.task_ptr[cut.start : cut.stop + 1]
            row, task = members.row[own[0] : own[-1]], np.repeat(np.arange(len(some)), np.diff(own))
            for at, share in enumerate((before[task, members.row_label[row]], 1.0 - before[task, some[task]])):
                sums[at] += np.bincount(row, np.rint(share / ANSWER_UNIT), minlength=members.n_rows)
        return sums * ANSWER_UNIT


def _right(result: Result, members: Votes) -> Floats:
    """Return the expected number of right votes in the rows of members, [rows], as the model of the fit counts them."""
    voters = replace(result, grouping=None)
    agreeing = replace(voters, votes=members).agreeing_votes()
    if np.array_equal(result.right_votes, voters.agreeing_votes()):  # a vote is right where it equals the label
        return agreeing.astype(np.float64)
    out = np.zeros(members.n_rows)
    for cut, posterior in posterior_pieces(result.fit, result.session):
        own = members.task_ptr[cut.start : cut.stop + 1]
        row, task = members.row[own[0] : own[-1]], np.repeat(np.arange(len(posterior)), np.diff(own))
        out += np.bincount(row, posterior[task, members.row_label[row]], minlength=members.n_rows)
    return out


def _known_columns(result: Result, members: Votes) -> dict[str, NDArray[np.bool_]]:
    """Return whether the model that predicted this knows each worker, or the group; what else it tells is of groups alone."""
    known, grouping = result.fit.worker_columns.get("known"), cast(GroupedVotes, result.grouping)
    if known is None:
        return {}
    names = column(grouping.groups, grouping.group).cast(pl.String)
    own = column(grouping.members.workers).cast(pl.String)
    voter = pl.DataFrame({"worker": own, "voter": pl.select(pl.coalesce(names, own)).to_series()})
    told = pl.DataFrame({"voter": column(result.votes.workers).cast(pl.String), "known": numbers(known)})
    found = pl.DataFrame({"worker": column(members.workers).cast(pl.String)}).join(
        voter.join(told, on="voter", how="left"), on="worker", how="left", maintain_order="left"
    )
    return {"known": found["known"].fill_null(False).to_numpy()}
