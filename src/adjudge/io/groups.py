"""Workers who vote as one: which worker is in which group, and the votes of groups, each cast once per task.

Judges that err together (copies of one model, annotators of one team) are no independent votes. A group gives a task the
label that most of its members' votes give it. Members who tie abstain together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Votes
from adjudge.errors import InputError, listed, shown
from adjudge.io.answers import is_dict, text_column
from adjudge.io.dictionary import Coded
from adjudge.io.encode import votes_of
from adjudge.io.exclude import concatenated, held, require_known
from adjudge.io.ids import column, matched, narrowed, require_present, series_of, sort_order, vocabulary
from adjudge.io.sources import Source, read_frame

ANSWERS_LIKE: Final = "answers_like"  # as groups: those that the votes show


@dataclass(frozen=True, eq=False)
class Grouping:
    """Votes as workers cast them, and as their groups count."""

    members: Votes  # as cast, by workers
    votes: Votes  # as counted, by groups and by workers in none
    groups: Vocabulary  # that have members with votes, sorted
    group: NDArray[np.int64]  # [workers of `members`] the code of the worker's group; -1 for workers in none
    ties: NDArray[np.int64]  # [groups] tasks on which the members tied, so that the group abstained
    mapping: Mapping[str, str]  # worker to group, as given: of workers without votes, too

    def described(self) -> str:
        """Return how many workers vote, and how many of them in groups, in words."""
        members, groups = int((self.group >= 0).sum()), len(self.groups)
        return f"{len(self.group)} workers ({members} of them in {groups} group{'' if groups == 1 else 's'})"

    @property
    def ties_within(self) -> int:
        """The number of votes that groups did not cast, as their members tied."""
        return int(self.ties.sum())


def read_groups(source: Source) -> dict[str, str]:
    """Return worker to group, as texts: from a dict, a frame, or a file with the columns worker and group.

    A line without group says that its worker votes alone. A worker in two groups is an error.

    >>> read_groups({"ann": "team 1", "bob": "team 1", "eve": None})
    {'ann': 'team 1', 'bob': 'team 1'}
    """
    if is_dict(source):
        frame = pl.DataFrame({"worker": series_of(list(source), "worker"), "group": series_of(list(source.values()), "group")})
    else:
        frame, _ = read_frame(source, {"worker": None, "group": None})
    frame = frame.select(text_column(frame["worker"], "worker"), text_column(frame["group"], "group"))
    require_present(frame["worker"], "worker", why=" of the groups")
    frame = frame.drop_nulls("group").unique(maintain_order=True)
    twice = frame.filter(pl.col("worker").is_duplicated())
    if len(twice):
        both = twice.filter(pl.col("worker") == twice["worker"][0])["group"]
        raise InputError(f"the groups put worker {shown(twice['worker'][0])} into more than one ({listed(both)}): keep one")
    return dict(frame.iter_rows())


def group_votes(votes: Votes, mapping: Mapping[str, str], *, strict: bool = True) -> Grouping:
    """Return the votes of groups: one per group and task, by plurality; a tie within is an abstention.

    `strict` warns of workers in the mapping who have no votes, and refuses a mapping in which nobody has any.
    """
    votes = held(votes)
    named, names = (vocabulary(pl.Series(list(texts), dtype=pl.String)) for texts in (mapping, mapping.values()))
    place = matched(votes.workers, named)
    if strict:
        require_known(named, votes.workers, "groups")
    used = vocabulary(column(names, np.unique(place[place >= 0])).unique())
    groups = narrowed(used) if votes.workers.kind == "integer" else used
    groups = groups.take(sort_order(groups))
    group = np.append(matched(names, groups), -1)[place]  # a worker who is not named is at place -1
    alone = np.flatnonzero(group < 0)
    _refuse_collisions(votes.workers.take(alone), groups)
    counted, ties = _counted(votes, groups, group, alone)
    return Grouping(votes, counted, groups, group, ties, dict(mapping))


def plurality(
    task: NDArray[np.int64],  # [votes] of members
    group: NDArray[np.int64],  # [votes] below `groups`
    label: NDArray[np.int64],  # [votes] below `labels`
    groups: int,
    labels: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return (task, group, label) of the votes that groups cast, and the group of every abstention by a tie.

    >>> task, group, label, tied = plurality(np.zeros(5, int), np.array([0, 0, 0, 1, 1]), np.array([2, 2, 1, 0, 1]), 2, 3)
    >>> task.tolist(), group.tolist(), label.tolist(), tied.tolist()
    ([0], [0], [2], [1])
    """
    cells, number = np.unique((task * groups + group) * labels + label, return_counts=True)
    ballot = cells // max(labels, 1)  # of one group on one task
    starts = np.flatnonzero(np.diff(ballot, prepend=-1)) if len(ballot) else np.zeros(0, np.int64)
    size = np.diff(starts, append=len(cells))
    best = number == np.repeat(np.maximum.reduceat(number, starts) if len(starts) else number, size)
    winners = np.add.reduceat(best.astype(np.int64), starts) if len(starts) else starts
    cast = cells[best & np.repeat(winners == 1, size)]
    tied = ballot[starts][winners > 1] % max(groups, 1)
    of_ballot, given = np.divmod(cast, max(labels, 1))
    return *np.divmod(of_ballot, max(groups, 1)), given, tied


def _counted(
    votes: Votes, groups: Vocabulary, group: NDArray[np.int64], alone: NDArray[np.int64]
) -> tuple[Votes, NDArray[np.int64]]:
    """Return the votes that count, and the abstentions of each group, [groups]."""
    task = np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))
    worker, label = votes.row_worker()[votes.row], votes.row_label[votes.row].astype(np.int64)
    grouped = group[worker] >= 0
    cast = plurality(task[grouped], group[worker[grouped]], label[grouped], len(groups), votes.n_labels)
    voter = np.full(votes.n_workers, -1, np.int64)
    voter[alone] = len(groups) + np.arange(len(alone))
    own = ~grouped
    codes = {
        "task": np.concatenate([cast[0], task[own]]).astype(np.uint32),
        "worker": np.concatenate([cast[1], voter[worker[own]]]).astype(np.uint32),
        "label": np.concatenate([cast[2], label[own]]).astype(np.uint32),
    }
    ids = {"task": votes.tasks, "worker": _voters(groups, votes.workers.take(alone)), "label": votes.labels}
    tied = cast[3]
    counted = votes_of(Coded(codes, ids), votes.labels, abstentions=votes.abstentions + len(tied), frame_kind=votes.frame_kind)
    counted = replace(counted, unvoted=concatenated(votes.unvoted, counted.unvoted), duplicates=votes.duplicates)
    return counted.with_understood(votes.understood), np.bincount(tied, minlength=len(groups))


def _voters(groups: Vocabulary, alone: Vocabulary) -> Vocabulary:
    """Return groups, then workers in none, as ids of one kind: text, unless all are whole numbers."""
    if groups.kind == alone.kind or not len(groups) or not len(alone):
        return concatenated(groups, alone)
    return concatenated(*(Vocabulary.of_texts(ids.texts()) for ids in (groups, alone)))


def _refuse_collisions(alone: Vocabulary, groups: Vocabulary) -> None:
    same = np.flatnonzero(matched(alone, groups) >= 0)
    if len(same):
        name = shown(alone[int(same[0])])
        raise InputError(
            f"{name} is a group and a worker who is in no group: call the group otherwise, or put the worker into it"
        )
