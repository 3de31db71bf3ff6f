"""What votes show: what a worker or the crowd confuses, how far every two workers agree, and why a task has its label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.votes import Votes, piece, without_weights
from adjudge.errors import InputError, quote
from adjudge.evaluation.agreement.pairs import VotePairs, figures, pair_tables
from adjudge.evaluation.intervals import Floats, Integers
from adjudge.report import words
from adjudge.report.picture import Axis, Field, Form, Marks, Outline, Picture, Plot, Rule, Shade, Style, fields, name_axis
from adjudge.results.explanation import Explanation, VoteEvidence
from adjudge.results.groups import as_members
from adjudge.results.overview import FEW_EFFECTIVE
from adjudge.results.result import Result

MAX_MATRIX: Final = 20  # labels that a matrix is drawn of; beyond, the worst pairs are listed
MAX_CONFUSED: Final = 20  # pairs of labels that are listed
CHUNK: Final = 1 << 20  # votes counted at once
PRINTED: Final = 0.005  # shares from which a cell prints its figure
ROWS: Final = {"the chosen label": "label chosen", "the truth": "true label"}
UNKNOWN: Final = -1  # a task whose true label is not known
ALIKE: Final = "Do they answer alike?"
MAX_WORKERS: Final = 60  # of a matrix
MAX_PAIRS: Final = 3_000_000  # pairs of votes that are compared: a second or so; of more tasks every n-th is looked at
ALL_VOTE: Final = 0.95  # share of the workers on a task from which a crowd is a panel: everybody judges everything
FIRM: Final = 20  # shared tasks from which a cell has its full colour: kappa of fewer is mostly noise
LEAST_END: Final = 0.5  # the scale reaches at least so far on both sides of zero
MAX_VOTES: Final = 24  # that have a bar of their own: the most telling ones; the others have one together
FOR, AGAINST, ELSE, ALL = "speaks for the label", "speaks against it", "prior and corrections", "total"
EVIDENCE_STYLES: Final = {
    FOR: Style("accent", "square"),
    AGAINST: Style("doubt", "square"),
    ELSE: Style("grey", "square"),
    ALL: Style("text", "square"),
}


@dataclass(frozen=True, eq=False)
class ConfusionView:
    """Votes by true and given label, as the cells that are not empty."""

    labels: tuple[str, ...]  # [K]
    true: Integers  # [cells] codes of labels
    given: Integers  # [cells]
    votes: Integers  # [cells]
    worker: str | None = None  # whose votes; None: of all
    against: str = "the chosen label"  # what true labels are

    @property
    def is_matrix(self) -> bool:
        """Whether labels are few enough to draw all of them."""
        return len(self.labels) <= MAX_MATRIX

    @cached_property
    def support(self) -> Integers:
        """Votes on tasks of each true label, [K]."""
        return np.bincount(self.true, self.votes, minlength=len(self.labels)).astype(np.int64)

    @property
    def matrix(self) -> Floats:
        """The share of each given label among the votes on tasks of a true label, [K true, K given]; NaN without votes."""
        k = len(self.labels)
        out = np.zeros((k, k))
        out[self.true, self.given] = self.votes
        with np.errstate(invalid="ignore"):
            return np.asarray(out / np.where(self.support > 0, self.support, np.nan)[:, None])

    @cached_property
    def cells(self) -> pl.DataFrame:
        """True, given, votes, share: all pairs of labels of a matrix that has votes in their row, else the worst pairs."""
        if not self.is_matrix:
            return self.worst
        k, matrix = len(self.labels), self.matrix
        true, given = np.divmod(np.arange(k * k), k)
        counts = np.zeros((k, k), np.int64)
        counts[self.true, self.given] = self.votes
        frame = pl.DataFrame({"votes": counts.ravel(), "share": matrix.ravel()})
        names = pl.Series(self.labels, dtype=pl.String)
        return frame.select(names.gather(true).alias("true"), names.gather(given).alias("given"), "votes", "share").filter(
            pl.col("share").is_not_nan()
        )

    @cached_property
    def worst(self) -> pl.DataFrame:
        """The pairs of different labels that most votes confuse: true, given, votes, share; at most `MAX_CONFUSED`."""
        wrong = np.flatnonzero(self.true != self.given)
        order = wrong[np.argsort(-self.votes[wrong], kind="stable")][:MAX_CONFUSED]
        names = pl.Series(self.labels, dtype=pl.String)
        return pl.DataFrame(
            {
                "true": names.gather(self.true[order]),
                "given": names.gather(self.given[order]),
                "votes": self.votes[order],
                "share": self.votes[order] / np.maximum(self.support[self.true[order]], 1),
            }
        )

    @property
    def sentence(self) -> str:
        """What the picture shows here."""
        who = "the crowd" if self.worker is None else words.shorten(self.worker)
        if not self.votes.sum():
            return words.sentence(f"{who} has no votes on tasks whose label is known")
        right = self.votes[self.true == self.given].sum() / self.votes.sum()
        what = "the truth" if self.against == "the truth" else "the chosen labels"
        if not len(self.worst):
            return words.sentence(f"every vote of {who} equals {what}")
        one = self.worst.row(0, named=True)
        true, given = words.tell_apart(one["true"], one["given"])
        most = f"most often {true} is called {given} ({words.percent(one['share'])})"
        return words.sentence(f"{words.percent(float(right))} of the votes of {who} equal {what}; {most}")

    def picture(self, *, columns: str = "given", counted: str = "votes") -> Picture:
        """Return a matrix of shares, rows true and columns given; for many labels the worst pairs.

        `columns` says what the columns are, and `counted` what is counted.
        """
        if not self.votes.sum():
            return Picture(self.sentence)
        of_row: tuple[Form, str] = ("share", "share of the row")
        hover = fields(true=("text", ROWS[self.against]), given=("text", columns), votes=("count", counted), share=of_row)
        if not self.is_matrix:
            return self._pairs(columns, counted, hover)
        y = name_axis(self.labels, title=ROWS[self.against])
        x = name_axis(self.labels, title=f"label {columns}")
        short = dict(zip(self.labels, y.names, strict=True))
        shares = self.cells["share"].to_list()
        cells = self.cells.with_columns(
            row=pl.col("true").replace_strict(short),
            column=pl.col("given").replace_strict(short),
            printed=pl.Series([words.percent(round(s, 2)) if s >= PRINTED else "" for s in shares], dtype=pl.String),
        )
        shade = Shade("share", 0.0, 1.0)
        plot = Plot(
            x,
            y,
            (Marks("cells", cells, x="column", y="row", shade=shade, text="printed", hover=hover),),
            outlines=(Outline([(at, at + 1) for at in range(len(self.labels))], "muted"),),
            columns=[(counted, [words.count(int(number)) for number in self.support])],
        )
        return Picture(self.sentence, (plot,), ("Each row adds up to 100%; outlined cells are right.",))

    def _pairs(self, columns: str, counted: str, hover: tuple[Field, ...]) -> Picture:
        worst = self.worst
        pairs = [
            f"{words.shorten(true, 24)} → {words.shorten(given, 24)}" for true, given in worst.select("true", "given").rows()
        ]
        y = name_axis(pairs, title=f"{ROWS[self.against]} → label {columns}", width=60, grid=False)
        worst = worst.with_columns(pair=pl.Series(y.names, dtype=pl.String))
        most = max([1, *worst["votes"]])
        texts = [[words.count(votes) for votes in worst["votes"]], [words.percent(share) for share in worst["share"]]]
        plot = Plot(
            Axis(counted, 0.0, 1.04 * most, 5, "count"),
            y,
            (Marks("bars", worst, x=0.0, x2="votes", y="pair", hover=hover),),
            columns=list(zip((counted, "of its row"), texts, strict=True)),
            step=22,
            width=440,
        )
        every = words.count(int(np.sum(self.true != self.given)))
        note = f"The {len(worst)} pairs that most {counted} confuse, of {every}, with their share of the row."
        return Picture(self.sentence, (plot,), (note,))


def confusion(result: Result, worker: object = None, *, truth: Integers | None = None) -> ConfusionView:
    """Return the view of the labels that a worker, or the crowd, confuses.

    - `result`: of any model.
    - `worker`: the id; None for all workers together.
    - `truth`: the code of the true label of each task, [tasks], -1 if it is not known; the chosen labels by default.

    >>> import adjudge as adj
    >>> votes = [(1, "ann", "cat"), (1, "bob", "cat"), (1, "eve", "dog"), (2, "ann", "dog"), (2, "bob", "dog")]
    >>> view = confusion(adj.aggregate(votes, model="mv"), "eve")
    >>> view.sentence, view.support.tolist()
    ('0% of the votes of eve equal the chosen labels; most often ‘cat’ is called ‘dog’ (100%).', [1, 0])
    """
    people = result if result.grouping is None else as_members(result)
    if worker is None:
        return confusions(people, None, truth=truth)[0]
    code = int(people.votes.workers.codes([worker])[0])
    if code < 0:
        raise InputError(f"worker {quote(worker)} has no votes here; there are {people.votes.n_workers} workers")
    return confusions(people, [code], truth=truth)[0]


def confusions(people: Result, workers: Sequence[int] | None, *, truth: Integers | None = None) -> list[ConfusionView]:
    """Return the view of each of some workers, given by their codes, from one pass over the votes; None: of all together."""
    votes, k = people.votes, people.votes.n_labels
    names, against = tuple(votes.labels.texts()), "the chosen label" if truth is None else "the truth"
    number = np.zeros(votes.n_rows, np.int64)  # of each row among the workers asked for; -1 for others
    if workers is not None:
        of_worker = np.full(votes.n_workers, UNKNOWN, np.int64)
        of_worker[np.asarray(workers, np.int64)] = np.arange(len(workers))
        number = of_worker[votes.row_worker()]
    keys: list[Integers] = []
    counts: list[Integers] = []
    for row, label in voted(votes, people.fit.outcome.labels if truth is None else truth):
        kept = (number[row] >= 0) & (label >= 0) & (label < k)  # a true label that nobody gives has no row
        row, label = row[kept], label[kept]  # noqa: PLW2901
        found, times = np.unique((number[row] * k + label) * k + votes.row_label[row], return_counts=True)
        keys.append(found)
        counts.append(times)
    every, where = np.unique(np.concatenate([np.zeros(0, np.int64), *keys]), return_inverse=True)
    total = np.bincount(where, np.concatenate([np.zeros(0, np.int64), *counts]), minlength=len(every)).astype(np.int64)
    of, cell = np.divmod(every, max(k * k, 1))
    true, given = np.divmod(cell, max(k, 1))
    ends = np.searchsorted(of, np.arange((1 if workers is None else len(workers)) + 1))
    ids = [None] if workers is None else [words.name(votes.workers[w]) for w in workers]
    return [
        ConfusionView(names, true[a:b], given[a:b], total[a:b], who, against)
        for who, a, b in zip(ids, ends[:-1], ends[1:], strict=True)
    ]


def voted(votes: Votes, labels: NDArray[np.integer]) -> Iterator[tuple[NDArray[np.uint32], Integers]]:
    """Yield (row, label of the task) of all votes, [votes] each, some at a time; labels are [tasks]."""
    for part, whole_ptr, whole_row in votes.parts():
        of_part = piece(labels, part)
        start = 0
        while start < len(of_part):
            end = max(int(np.searchsorted(whole_ptr, whole_ptr[start] + CHUNK, side="right")) - 1, start + 1)
            ptr = whole_ptr[start : end + 1]
            yield (
                whole_row[ptr[0] - whole_ptr[0] : ptr[-1] - whole_ptr[0]],
                np.repeat(of_part[start:end].astype(np.int64), np.diff(ptr)),
            )
            start = end


@dataclass(frozen=True, eq=False)
class AgreementView:
    """Some workers in an order in which those who answer alike are neighbours."""

    workers: tuple[str, ...]  # [n] in the order of the matrix
    codes: Integers  # [n] of these workers
    kappa: Floats  # [n, n] Cohen's kappa; 1 with oneself, NaN if no task is shared or chance explains all
    agreement: Floats  # [n, n] share of shared tasks with the same answer
    shared: Integers  # [n, n] shared tasks
    ring: Integers  # [n] number of the ring that a worker is in, neighbours in one ring; -1: in none
    n_workers: int  # of all
    ring_sizes: tuple[int, ...]  # of all rings, the largest first
    votes_per_task: float  # on the task of a vote; NaN if it was not measured
    effective_votes: float  # that shared error leaves of them
    sampled: bool  # whether only some tasks were compared

    @property
    def cells(self) -> pl.DataFrame:
        """A, b, row, column, shared, agreement, kappa: a line for every two workers that share a task, both ways."""
        row, col = np.nonzero(self.shared)
        names = pl.Series(self.workers, dtype=pl.String)
        return pl.DataFrame(
            {
                "a": names.gather(row),
                "b": names.gather(col),
                "row": row,
                "column": col,
                "shared": self.shared[row, col],
                "agreement": self.agreement[row, col],
                "kappa": self.kappa[row, col],
            }
        ).with_columns(pl.col("kappa").fill_nan(None))

    @property
    def rings(self) -> list[tuple[int, int]]:
        """Where each ring begins and ends in the order of the matrix."""
        spans = []
        for number in np.unique(self.ring[self.ring >= 0]).tolist():
            where = np.flatnonzero(self.ring == number)
            spans.append((int(where[0]), int(where[-1]) + 1))
        return spans

    @property
    def sentence(self) -> str:
        """What the picture shows here."""
        if self.n_workers < 2:
            return "There is one worker: nobody to agree with."
        if not self.shared.any():
            return "No two workers judged the same task, so nobody can be compared: ask several workers per task."
        weight, sizes = self.weight_sentence(), self.ring_sizes
        alike = ""
        if len(sizes) == 1:
            alike = f" {words.count(sizes[0])} workers answer alike beyond what the labels explain."
        elif sizes:
            most = f"{words.count(len(sizes))} rings, the largest of {words.count(sizes[0])} workers,"
            alike = f" {most} answer alike beyond what the labels explain."
        return (weight or self._mean_sentence()) + alike

    def weight_sentence(self) -> str:
        """Return how many independent votes those on a task are worth; empty where that was not measured."""
        votes, effective = self.votes_per_task, self.effective_votes
        if votes != votes or effective != effective:
            return ""
        if ALL_VOTE * self.n_workers <= votes <= self.n_workers + 0.05:
            what = f"{words.tally(self.n_workers, 'judge')} carry the weight of {words.figure(effective)}"
        else:
            what = f"the {words.figure(votes)} votes on a task carry the weight of {words.figure(effective)} independent ones"
        if effective < FEW_EFFECTIVE * votes:
            return words.sentence(f"{what}: workers err together")
        return words.sentence(what)

    def _mean_sentence(self) -> str:
        upper = np.triu(self.shared, 1) * ~np.isnan(self.kappa)
        if not upper.any():
            return "Workers who share tasks give one label throughout: agreement beyond chance is undefined."
        mean = float((np.nan_to_num(self.kappa) * upper).sum() / upper.sum())
        return f"Two workers agree {words.percent(max(mean, 0.0))} of the way from chance to always."

    def picture(self) -> Picture:
        """Return kappa of every two workers in an order in which those who answer alike are neighbours, rings outlined."""
        cells = self.cells.filter(pl.col("row") != pl.col("column"))
        if not len(cells):
            return Picture(self.sentence)
        axis = name_axis(self.workers, width=22)
        firm = cells.filter(pl.col("shared") >= FIRM)
        largest = (firm if len(firm) else cells)["kappa"].abs().max()
        ends = max(float(largest or 0.0), LEAST_END)  # type: ignore[arg-type]
        named = pl.Series(axis.names, dtype=pl.String)
        cells = cells.with_columns(
            y=named.gather(cells["row"]),
            x=named.gather(cells["column"]),
            solid=(pl.col("shared") / FIRM).clip(0.1, 1.0),
            printed=pl.Series(["–" if k is None else f"{k:.2f}".replace("0.", ".") for k in cells["kappa"]], dtype=pl.String),
        )
        share: tuple[Form, str] = ("share", "same answer")
        hover = fields(a="text", b=("text", "and"), kappa="number", agreement=share, shared=("count", "shared tasks"))
        end = f"{ends:.1g}".replace("0.", ".")
        words_at_ends = (f"−{end} differ", f"{end} agree beyond chance")
        shade = Shade("kappa", -ends, ends, around=True, ends=words_at_ends)
        plot = Plot(
            axis,
            axis,
            (Marks("cells", cells, x="x", y="y", shade=shade, text="printed", opacity="solid", hover=hover),),
            outlines=(Outline(self.rings, "doubt"),) if self.rings else (),
            identity="agreement-plot" if len(self.workers) > 20 else None,
        )
        return Picture(self.sentence, (plot,), (" ".join(self._notes()),))

    def _notes(self) -> list[str]:
        notes = []
        if len(self.workers) < self.n_workers:
            every = words.tally(self.n_workers, "worker")
            notes.append(f"{len(self.workers)} of {every}: those in rings, then those with most votes.")
        if self.rings:
            notes.append("Outlined: workers who answer alike beyond what the labels explain.")
        if self.cells["shared"].min() < FIRM:  # type: ignore[operator]
            notes.append(f"Pale: fewer than {FIRM} shared tasks.")
        if self.sampled:
            notes.append("From a part of the tasks.")
        return notes

    def partners(self, limit: int) -> list[tuple[str, str, float, float, int]]:
        """Return the pairs of workers who agree most beyond chance: both names, kappa, agreement, shared tasks."""
        cells = self.cells.filter(pl.col("row") < pl.col("column"), pl.col("kappa").is_not_null())
        most = cells.sort(-pl.col("kappa"), maintain_order=True).head(limit)
        return most.select("a", "b", "kappa", "agreement", "shared").rows()


def agreement(result: Result, *, limit: int = MAX_WORKERS) -> AgreementView:
    """Return the view of how far workers agree.

    - `result`: of any model, whose votes are in memory.
    - `limit`: how many workers the matrix has at most: those in rings first, then those with most votes.

    >>> import adjudge as adj
    >>> view = agreement(adj.aggregate(adj.simulate(tasks=400, workers=9, votes_per_task=9, seed=1).votes))
    >>> view.sentence, view.kappa.shape
    ('9 judges carry the weight of 8.8.', (9, 9))
    """
    people = result if result.grouping is None else as_members(result)
    votes = without_weights(people.votes)
    ring = _rings(people)
    number = votes.by_worker(votes.votes_per_row())
    whole = np.where(ring >= 0, -1 - ring.max(initial=0) + ring, -number)  # rings stay together
    chosen = np.sort(np.lexsort((np.arange(len(ring)), whole, ring < 0))[:limit])
    kappa, same, shared, sampled = _pairs(votes, chosen)
    order = _cluster(kappa, ring[chosen])
    chosen, square = chosen[order], np.ix_(order, order)
    facts = result.facts
    return AgreementView(
        workers=tuple(words.name(votes.workers[int(w)]) for w in chosen),
        codes=chosen,
        kappa=kappa[square],
        agreement=same[square],
        shared=shared[square],
        ring=ring[chosen],
        n_workers=votes.n_workers,
        ring_sizes=tuple(sorted(np.unique(ring[ring >= 0], return_counts=True)[1].tolist(), reverse=True)),
        votes_per_task=_number(facts.get("votes_per_task")),
        effective_votes=_number(facts.get("effective_votes")),
        sampled=sampled,
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _rings(people: Result) -> Integers:
    """Return the number of the ring of each worker, [workers]; -1 for workers in none."""
    assessment, out = people.judged.assessment, np.full(people.votes.n_workers, -1, np.int64)
    if assessment.proofs:
        for number, proof in enumerate(assessment.proofs):
            out[proof.members] = number
        return out
    for worker in np.flatnonzero(assessment.answers_like >= 0).tolist():  # partners are in one ring
        partner = int(assessment.answers_like[worker])
        known = max(int(out[worker]), int(out[partner]))
        if out[worker] >= 0 and out[partner] >= 0 and out[worker] != out[partner]:
            out[out == min(int(out[worker]), int(out[partner]))] = known
        out[[worker, partner]] = known if known >= 0 else int(out.max()) + 1
    return out


def _pairs(votes: Votes, chosen: Integers) -> tuple[Floats, Floats, Integers, bool]:
    """Return kappa, agreement and shared tasks of every two chosen workers, [n, n] each, and whether tasks were sampled."""
    n = len(chosen)
    left_out = np.ones(votes.n_workers, np.bool_)
    left_out[chosen] = False
    some = votes if not left_out.any() else votes.without_workers(left_out)[0]
    size = np.diff(some.task_ptr)
    number = int((size * (size - 1) // 2).sum())
    every = -(-number // MAX_PAIRS)
    if every > 1:
        some = _every(some, every)
    kappa, same, shared = np.full((n, n), np.nan), np.full((n, n), np.nan), np.zeros((n, n), np.int64)
    if len(some) and some.n_workers == n:
        compared = figures(pair_tables(VotePairs(some)))
        for out, values in ((kappa, compared.kappa), (same, compared.agreement), (shared, compared.shared)):
            out[compared.a, compared.b] = out[compared.b, compared.a] = values
    at = np.arange(n)
    kappa[at, at] = same[at, at] = 1.0
    return kappa, same, shared, every > 1


def _every(votes: Votes, step: int) -> Votes:
    """Return the votes on every so many-th task, with the same workers and rows."""
    tasks = np.arange(0, votes.n_tasks, step)
    size = np.diff(votes.task_ptr)[tasks]
    ptr = np.concatenate([[0], np.cumsum(size)])
    where = np.repeat(votes.task_ptr[tasks] - ptr[:-1], size) + np.arange(ptr[-1])
    return replace(votes, task_ptr=ptr, row=votes.row[where], tasks=votes.tasks.take(tasks))


def _cluster(kappa: Floats, ring: Integers) -> Integers:
    """Return an order of workers, [n], in which those who agree are neighbours: average linkage, rings first of all."""
    clusters = [np.flatnonzero(ring == number).tolist() for number in np.unique(ring[ring >= 0])]
    clusters += [[worker] for worker in np.flatnonzero(ring < 0).tolist()]
    near = np.nan_to_num(kappa, nan=0.0)
    between = np.array([[near[np.ix_(a, b)].mean() for b in clusters] for a in clusters]).reshape(len(clusters), len(clusters))
    np.fill_diagonal(between, -np.inf)
    while len(clusters) > 1:
        i, j = sorted(divmod(int(np.argmax(between)), len(clusters)))
        one, other = clusters[i], clusters[j]
        joined = max(  # turned so that the nearest ends meet
            ((a, b) for a in (one, one[::-1]) for b in (other, other[::-1])), key=lambda ends: near[ends[0][-1], ends[1][0]]
        )
        size = np.array([len(one), len(other)])
        mean = (between[i] * size[0] + between[j] * size[1]) / size.sum()
        between[i], between[:, i] = mean, mean
        between[i, i] = -np.inf
        clusters[i] = [*joined[0], *joined[1]]
        del clusters[j]
        between = np.delete(np.delete(between, j, axis=0), j, axis=1)
    return np.array(clusters[0] if clusters else [], np.int64)


class _EvidenceBar(NamedTuple):
    """Something that moves the log-odds."""

    what: str
    kind: str
    change: float
    says: str = ""
    right: str = ""  # the worker's accuracy
    mark: str = ""


def waterfall(why: Explanation) -> Picture:
    """Return the bars of an explanation, each from where the one before it ends; right of zero the label wins."""
    told = _explain_sentence(why)
    if why.runner_up is None or why.known:
        return Picture(told, notes=("There is nothing to weigh.",))
    weighed = _bars(why)
    y = name_axis([bar.what for bar in weighed], width=28, grid=False)
    rows, at = [], 0.0
    for bar, name in zip(weighed, y.names, strict=True):
        start = 0.0 if bar.kind == ALL else at
        rows.append((name, *bar, start, start + bar.change))
        at = start + bar.change
    bars = pl.DataFrame(rows, schema=["name", *_EvidenceBar._fields, "start", "end"], orient="row")
    ends = [*bars["start"], *bars["end"], 0.0]
    room = 0.03 * (max(ends) - min(ends) or 1.0)
    low, high = min(ends) - room, max(ends) + room
    against = f"log-odds of {words.quote(why.label, 20)} against {words.quote(why.runner_up, 20)}"
    hover = fields(what="text", says="text", kind="text", change=("signed", "adds"), right=("text", "right"))
    columns = [("adds", [f"{_sign(bar.change)}{bar.mark}" for bar in weighed])]
    if any(bar.right for bar in weighed):
        columns.append(("right", [bar.right for bar in weighed]))
    plot = Plot(
        Axis(against, low, high, 7, "signed", grid=False),
        y,
        (Marks("bars", bars, x="start", x2="end", y="name", by="kind", hover=hover),),
        styles={kind: style for kind, style in EVIDENCE_STYLES.items() if kind in set(bars["kind"])},
        rules=(Rule(0.0, "x"),),
        columns=columns,
        step=21,
        width=460,
    )
    note = f"Each bar begins where the one above it ends. Right of 0 {words.quote(why.label, 20)} wins."
    note += " The label is certain: bars are cut at a bound." if why.certain else ""
    note += " An asterisk marks votes that could change the label alone." if any(bar.mark for bar in weighed) else ""
    return Picture(told, (plot,), (note,))


def _explain_sentence(why: Explanation) -> str:
    """Return the label of the task, how sure it is, and whether one vote could change it."""
    task, label = words.shorten(why.task), words.quote(why.label)
    if why.known:
        return words.sentence(f"task {task}: {label} is known, so that votes did not decide it")
    if why.runner_up is None:
        return words.sentence(f"task {task}: {label}, {words.percent(why.confidence)} sure, and there is no other label")
    other = f"{words.quote(why.runner_up)} {words.percent(why.probabilities[why.runner_up])}"
    decisive = sum(vote.is_decisive for vote in why.evidence)
    if len(why.evidence) == 1:
        return words.sentence(f"task {task}: {label} {words.percent(why.confidence)}, {other}; it has one vote")
    if why.is_opaque:
        return words.sentence(f"task {task}: {label} {words.percent(why.confidence)}, {other}")
    hangs = "no single vote could change that" if not decisive else f"{words.tally(decisive, 'vote')} could change that alone"
    return words.sentence(f"task {task}: {label} {words.percent(why.confidence)}, {other}; {hangs}")


def _bars(why: Explanation) -> list[_EvidenceBar]:
    """Return the prior, the votes (the most telling ones of many), what else moves the log-odds, and the sum."""
    telling = {id(vote) for vote in sorted(why.evidence, key=lambda vote: -abs(vote.contribution))[:MAX_VOTES]}
    kept = [vote for vote in why.evidence if id(vote) in telling]
    left = len(why.evidence) - len(kept)
    out = [_EvidenceBar("prior", ELSE, why.prior, "how frequent both labels are")]
    out += [_vote(vote, is_alone=len(why.evidence) == 1) for vote in kept]
    if left:
        change = sum(vote.contribution for vote in why.evidence) - sum(vote.contribution for vote in kept)
        out.append(_EvidenceBar(f"{words.count(left)} more votes", FOR if change >= 0 else AGAINST, change))
    out += [_EvidenceBar(words.name(step.name), ELSE, step.change, words.shorten(step.why, 200)) for step in why.steps]
    return [*out, _EvidenceBar("total", ALL, sum(bar.change for bar in out), f"confidence {words.percent(why.confidence)}")]


def _sign(change: float) -> str:
    return "0.00" if abs(change) < 0.005 else f"{change:+.2f}".replace("-", "−")


def _vote(vote: VoteEvidence, *, is_alone: bool) -> _EvidenceBar:
    what: Any = f"{words.name(vote.worker)}: {words.name(vote.label)}"
    says = [] if vote.weight == 1.0 else [f"weight {vote.weight:g}"]
    if vote.members:
        named = ", ".join(f"{words.shorten(one.worker, 20)} {words.shorten(one.label, 20)}" for one in vote.members[:6])
        says.append(f"group: {named}{'…' if len(vote.members) > 6 else ''}")
    kind = FOR if vote.contribution >= 0 else AGAINST
    return _EvidenceBar(
        what,
        kind,
        vote.contribution,
        "; ".join(says),
        words.percent(vote.accuracy),
        "*" if vote.is_decisive and not is_alone else "",
    )
