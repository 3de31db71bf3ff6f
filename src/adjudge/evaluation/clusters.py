"""Clusters of tasks: those of one prompt, document or conversation are not independent, and intervals and tests say so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl

from adjudge.errors import InputError, make_visible, quote
from adjudge.evaluation.inputs import TaskValues
from adjudge.evaluation.intervals import Integers
from adjudge.io.columns import ANYBODY, is_usual
from adjudge.io.reading import Reading
from adjudge.io.sources import Opened, Source, is_spark_frame, open_table

INDEPENDENT: Final = ""  # as `cluster`: all tasks are independent
MIN_CLUSTERS: Final = 5  # that show how tasks of one depend on each other
LAYOUT_OPTIONS: Final = ("separator", "header", "format", "question")  # of reading, which a second look at a table needs


@dataclass(frozen=True, eq=False)
class TaskClusters:
    """The cluster of every task."""

    code: Integers  # [tasks] from 0 on; a task without a cluster is one of its own
    number: int
    column: str  # what the caller or the table calls them

    def of(self, tasks: Integers) -> Integers:
        """Return the clusters of some tasks, renumbered from 0 on."""
        return np.unique(self.code[tasks], return_inverse=True)[1]


ClusterSource: TypeAlias = Mapping[Any, object] | Source | TaskClusters | str


def describe_clusters(column: str, number: int) -> str:
    """Return what intervals and tests allow for, as a sentence.

    >>> describe_clusters("prompt", 250)
    'Tasks with the same prompt depend on each other: intervals and tests allow for 250 clusters'
    """
    return f"Tasks with the same {make_visible(column)} depend on each other: intervals and tests allow for {number} clusters"


def clusters_of(clusters: TaskClusters | None, tasks: Integers) -> Integers | None:
    """Return the clusters of some tasks, renumbered from 0 on; None if tasks are independent."""
    return None if clusters is None else clusters.of(tasks)


def read_clusters(values: TaskValues, cluster: object, table: pl.DataFrame | None = None) -> TaskClusters | None:
    """Return the clusters of tasks; None if they are independent.

    Parameters
    ----------
    values : TaskValues
        Reads a value per task.
    cluster : object
        A dict task -> cluster, a table, or the name of a column of the votes or of `table`. None takes a column called prompt,
        document or conversation if one of these tables has one with one value per task; "" takes tasks for independent.
    table : DataFrame or None
        The table that groups came from.

    """
    if isinstance(cluster, TaskClusters):  # read before
        return cluster
    if isinstance(cluster, str) and cluster == INDEPENDENT:
        return None
    if cluster is not None:
        code = _separate(values.codes(cluster, "cluster", table))
        number = int(code.max()) + 1
        if number < MIN_CLUSTERS:
            raise InputError(
                f"cluster={quote(cluster) if isinstance(cluster, str) else '…'} (--cluster) has {number} values, too few to tell "
                f"how tasks of one depend on each other: {MIN_CLUSTERS} are needed; leave it out, or give cluster='' if they are "
                "independent"
            )
        return TaskClusters(code, number, cluster if isinstance(cluster, str) and "/" not in cluster else "cluster")
    known = [] if table is None else table.columns
    column = next((name for name in known if is_usual(name, "cluster")), None) or _usual_column(values)
    if column is None:
        return None
    try:
        code = _separate(values.codes(column, "cluster", table))
    except InputError:  # a prompt of the judge, not of the task: tasks have several
        return None
    number = int(code.max()) + 1
    return TaskClusters(code, number, column) if MIN_CLUSTERS <= number < len(code) else None


def _separate(code: Integers) -> Integers:
    """Return codes from 0 on, in which tasks without a cluster, below 0, are alone."""
    alone = np.where(code < 0, len(code) + np.arange(len(code)), code)
    return np.unique(alone, return_inverse=True)[1]


def _usual_column(values: TaskValues) -> str | None:
    """Return the column of the source's own table that is called like a cluster and has no other role."""
    source: Any = values.source
    read_once = isinstance(source, Iterator) or hasattr(source, "read") or (isinstance(source, str) and source == "-")
    if read_once or values.task is None or is_spark_frame(source) or Opened(source).is_read or hasattr(source, "labels_frame"):
        return None
    layout: Any = {name: getattr(values.reading, name) for name in LAYOUT_OPTIONS}
    try:
        table = open_table(source, {"task": values.task, "cluster": ANYBODY}, Reading.of(layout))
        next(iter(table.batches), None)  # the first batch tells which columns there are
    except InputError:  # an export, or a table whose task has another name
        return None
    return table.notes.columns.get("cluster")
