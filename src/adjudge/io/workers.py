"""Tables about workers: whom to exclude, who votes as one, and the price of each worker's vote.

Judges that err together (copies of one model, annotators of one team) do not cast independent votes. A group gives a task the
label that most of its members' votes give it. Members who tie abstain together.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Votes
from adjudge.errors import InputError, OptionError, UnknownWorkers, itemize, quote, read_error, warn
from adjudge.io.answers import is_dict, read_pairs
from adjudge.io.columns import VOTE_ROLES
from adjudge.io.encode import Coded, codes_of, narrow_ids, sort_order, votes_of
from adjudge.io.frames import column, kind_of, match_ids, require_present, series_of, text_column, vocabulary
from adjudge.io.sources import Source, read_frame

EXCLUDED_ROLE: Final = "excluded worker"
LISTS: Final = ("", ".txt")  # suffixes of files with one id per line
MAX_WORKER_EXAMPLES: Final = 5  # workers named as examples


def read_workers(source: Source) -> list[str]:
    """Return ids of workers as texts: of a list or set, of a frame or a table file with a column worker, or of lines of text.

    Files without suffix, or with .txt, have one id per line.

    >>> read_workers(["ann", "bob", "ann"]), read_workers({"annotator": [7]})
    (['ann', 'bob'], ['7'])
    """
    is_path = isinstance(source, str | os.PathLike)
    if isinstance(source, str | os.PathLike) and Path(source).suffix.lower() in LISTS:
        ids = _lines(Path(source))
    elif is_path or isinstance(source, Mapping) or kind_of(source) is not None or not isinstance(source, Iterable):
        ids = read_frame(source, {EXCLUDED_ROLE: None})[0][EXCLUDED_ROLE]
    else:
        ids = series_of(list(source), "worker")
    ids = text_column(ids, "worker")
    require_present(ids, "worker", why=" of exclude")
    return ids.unique(maintain_order=True).to_list()


def without_workers(votes: Votes, workers: list[str], *, keep_labels: bool) -> tuple[Votes, int, int]:
    """Return the votes of all other workers, and how many workers and votes are left out; a task may lose all its votes.

    `keep_labels` says that labels which nobody else gave stay, as declared ones do. Workers without votes are warned of;
    it is an error where none of them has any.
    """
    votes = load_votes(votes)
    named = vocabulary(pl.Series(workers, dtype=pl.String))
    if len(named):
        require_known(named, votes.workers, "exclude")
    out = match_ids(votes.workers, named) >= 0
    left, tasks = votes.without_workers(out)
    label, labels = left.row_label, left.labels
    if not keep_labels:
        seen = left.given_labels()
        label, labels = (np.cumsum(seen, dtype=np.int32) - 1)[label], labels.take(np.flatnonzero(seen))
    lost = votes.tasks.take(np.setdiff1d(np.arange(votes.n_tasks), tasks, assume_unique=True))
    gone = 0 if votes.abstained is None else int(votes.abstained[out].sum())
    abstained = None if votes.abstained is None else votes.abstained[~out]
    gold = votes.found_gold if keep_labels else None  # its codes are of all labels
    facts = {"abstentions": votes.abstentions - gone, "abstained": abstained, "understood": votes.understood, "found_gold": gold}
    left = left.plain(row_label=label, labels=labels, unvoted=concatenate(votes.unvoted, lost), **facts)
    return left, int(out.sum()), len(votes) - len(left)


def load_votes(votes: Votes) -> Votes:
    """Return votes as arrays in memory; encoded votes, which are opened where memory suffices, are read."""
    if type(votes) is Votes:
        return votes
    tasks, unvoted = (Vocabulary(one.kind, one.values, one.offsets) for one in (votes.tasks, votes.unvoted))
    return votes.plain(tasks=tasks, unvoted=unvoted)


def require_in_memory(option: str, engine: Any, instead: str) -> None:
    """Raise if an option that looks at all votes meets an engine that does not hold them in memory."""
    if engine.name in ("disk", "spark"):
        raise OptionError(f"{option} needs the votes in memory, not on engine {engine.name!r}: use engine='cpu', or {instead}")


def require_known(given: Vocabulary, workers: Vocabulary, option: str) -> None:
    """Warn of ids that no worker has; raise if none of them has one."""
    strangers = np.flatnonzero(match_ids(given, workers) < 0)
    if not len(strangers):
        return
    some = itemize(given.take(strangers).ids())
    if len(strangers) == len(given):
        there = itemize(workers.take(np.arange(min(len(workers), MAX_WORKER_EXAMPLES))).ids())
        raise InputError(f"{option} names no worker with votes ({some}); there are {len(workers)} workers, the first: {there}")
    message = f"{option} names {len(strangers)} of {len(given)} workers who have no votes here: {some}"
    warn(message, UnknownWorkers)


def concatenate(first: Vocabulary, second: Vocabulary) -> Vocabulary:
    """Return the ids of two vocabularies of one kind, one behind the other."""
    if not len(first) or not len(second):
        return second if not len(first) else first
    return vocabulary(pl.concat([column(first), column(second)], rechunk=True))


def _lines(path: Path) -> pl.Series:
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{read_error(path, error)}; exclude takes a list of workers, or a file") from error
    return pl.Series([line.strip() for line in lines if line.strip()], dtype=pl.String)


ANSWERS_LIKE: Final = "answers_like"  # as groups: those that the votes show


@dataclass(frozen=True, eq=False)
class GroupedVotes:
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
    frame, _ = read_pairs(source, {"worker": None, "group": None})
    frame = frame.select(text_column(frame["worker"], "worker"), text_column(frame["group"], "group"))
    require_present(frame["worker"], "worker", why=" of the groups")
    frame = frame.drop_nulls("group").unique(maintain_order=True)
    twice = frame.filter(pl.col("worker").is_duplicated())
    if len(twice):
        both = twice.filter(pl.col("worker") == twice["worker"][0])["group"]
        raise InputError(f"the groups put worker {quote(twice['worker'][0])} into more than one ({itemize(both)}): keep one")
    return dict(frame.iter_rows())


def group_votes(votes: Votes, mapping: Mapping[str, str], *, strict: bool = True) -> GroupedVotes:
    """Return the votes of groups: one per group and task, by plurality; a tie within is an abstention.

    `strict` warns of workers in the mapping who have no votes, and refuses a mapping in which nobody has any.
    """
    votes = load_votes(votes)
    named, names = (vocabulary(pl.Series(list(texts), dtype=pl.String)) for texts in (mapping, mapping.values()))
    place = match_ids(votes.workers, named)
    if strict:
        require_known(named, votes.workers, "groups")
    used = vocabulary(column(names, np.unique(place[place >= 0])).unique())
    groups = narrow_ids(used) if votes.workers.kind == "integer" else used
    groups = groups.take(sort_order(groups))
    group = np.append(match_ids(names, groups), -1)[place]  # a worker who is not named is at place -1
    alone = np.flatnonzero(group < 0)
    same = np.flatnonzero(match_ids(votes.workers.take(alone), groups) >= 0)
    if len(same):
        raise InputError(
            f"{quote(votes.workers[int(alone[same[0]])])} is a group and a worker who is in no group: call the group otherwise, "
            "or put the worker into it"
        )
    counted, ties = _count(votes, groups, group, alone)
    return GroupedVotes(votes, counted, groups, group, ties, dict(mapping))


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


def _count(
    votes: Votes, groups: Vocabulary, group: NDArray[np.int64], alone: NDArray[np.int64]
) -> tuple[Votes, NDArray[np.int64]]:
    """Return the votes that count, and the abstentions of each group, [groups]."""
    task, worker, label = (codes.astype(np.int64) for codes in codes_of(votes).values())
    grouped = group[worker] >= 0
    cast = plurality(task[grouped], group[worker[grouped]], label[grouped], len(groups), votes.n_labels)
    voter = np.full(votes.n_workers, -1, np.int64)
    voter[alone] = len(groups) + np.arange(len(alone))
    own = task[~grouped], voter[worker[~grouped]], label[~grouped]
    both = (np.concatenate(parts).astype(np.uint32) for parts in zip(cast[:3], own, strict=True))
    codes = dict(zip(VOTE_ROLES, both, strict=True))
    ids = {"task": votes.tasks, "worker": _voters(groups, votes.workers.take(alone)), "label": votes.labels}
    tied = cast[3]
    counted = votes_of(Coded(codes, ids), votes.labels, abstentions=votes.abstentions + len(tied), frame_kind=votes.frame_kind)
    counted = replace(counted, unvoted=concatenate(votes.unvoted, counted.unvoted), duplicates=votes.duplicates)
    return counted.with_fields(understood=votes.understood, item_source=votes.item_source), np.bincount(
        tied, minlength=len(groups)
    )


def _voters(groups: Vocabulary, alone: Vocabulary) -> Vocabulary:
    """Return groups, then workers in none, as ids of one kind: text, unless all are whole numbers."""
    if groups.kind == alone.kind or not len(groups) or not len(alone):
        return concatenate(groups, alone)
    return concatenate(*(Vocabulary.of_texts(ids.texts()) for ids in (groups, alone)))


Cost: TypeAlias = float | Mapping[Any, float] | Source


def read_costs(source: Cost, workers: Vocabulary) -> NDArray[np.float64]:
    """Return what a vote of each of these workers costs, [workers].

    `source` is a number, a dict worker -> cost, or a frame or file with the columns worker and cost. Workers are matched by
    id as text. A worker without cost is an error; costs of other workers are not used, as a price list may have many.

    >>> read_costs({"bob": 0.5, "ann": 2, "eve": 9}, Vocabulary.of(["ann", "bob"])).tolist()
    [2.0, 0.5]
    """
    if isinstance(source, int | float | np.integer | np.floating):
        return np.full(len(workers), _cost(source, "cost"))
    prices = _prices(source)
    missing = [worker for worker in workers.texts() if worker not in prices]
    if missing:
        some = itemize(missing, 3)
        raise InputError(f"cost has no price for {len(missing)} of {len(workers)} workers: {some}; give one for each of them")
    return np.array([prices[worker] for worker in workers.texts()], np.float64)


def _prices(source: Any) -> dict[str, float]:
    """Return worker to cost; two costs of one worker are an error."""
    if is_dict(source):
        pairs = [(str(worker), cost) for worker, cost in source.items()]
    else:
        frame, _ = read_frame(source, {"worker": None, "cost": None})
        workers, costs = text_column(frame["worker"], "worker"), frame["cost"]
        require_present(workers, "worker", why=" of the costs")
        texts = costs.str.strip_chars() if costs.dtype == pl.String else costs
        numbers = texts.cast(pl.Float64, strict=False) if texts.dtype == pl.String or texts.dtype.is_numeric() else texts
        values = (given if number is None else number for given, number in zip(costs, numbers, strict=True))
        pairs = list(zip(workers, values, strict=True))  # what is no number stays as it is, for the message
    out: dict[str, float] = {}
    for worker, given in pairs:
        cost = _cost(given, f"the cost of worker {quote(worker)}")
        if out.setdefault(worker, cost) != cost:
            raise InputError(f"cost gives worker {quote(worker)} two prices ({out[worker]:g}, {cost:g}): keep one")
    return out


def _cost(value: object, what: str) -> float:
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not 0 <= cast(Any, value) <= sys.float_info.max:  # whole numbers may be larger than any float
        raise InputError(f"{what} is {quote(value)}: give a number of at least 0")
    return float(cast(Any, value))
